"""How hard the tests look: `make test` is the same every time, `make test-long` is random.

The long run sets TREERING_TEST_SEED, prints it, and looks ten times as long or longer.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from typing import Final

SEED: Final = int(os.environ.get("TREERING_TEST_SEED", "0"))
"""Where random choices start; 0 is the short run."""
LONG: Final = SEED > 0
PATIENCE_S: Final = 150
"""How long a test waits for anything: far longer than a busy machine takes, and not for ever."""
ROOM_BYTES: Final = 4 * 1024**3
"""Room that a whole suite may need for its files."""
TIMES: Final = 10
"""How much longer the long run looks, unless a test says otherwise."""


def rounds(count: int, *, times: int = TIMES) -> int:
    """Return how many rounds of something a test does, given how many the short run does."""
    return count * times if LONG else count


def seeds(count: int, *, times: int = TIMES) -> range:
    """Return the seeds of a test's rounds: from 0, or where the long run starts."""
    return range(SEED, SEED + rounds(count, times=times))


def quick_folder() -> str:
    """Return where files of tests go: into memory if there is room, where no disk is waited for."""
    in_memory = "/dev/shm"
    with suppress(OSError):
        has_room = shutil.disk_usage(in_memory).free >= ROOM_BYTES
        runs_programs = not os.statvfs(in_memory).f_flag & os.ST_NOEXEC
        if has_room and runs_programs and os.access(in_memory, os.W_OK):
            return in_memory
    return tempfile.gettempdir()
