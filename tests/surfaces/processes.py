"""The real program, in processes of its own."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from effort import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    Run: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]

PROGRAM: Final = str(Path(sys.executable).with_name("treering"))
QUOTED: Final = shlex.quote(PROGRAM)
"""The program as a shell takes it."""
# Root may write everywhere; without this capability it obeys permissions like everybody else.
UNPRIVILEGED: Final = ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []


def patient_hook(*, read_s: int = PATIENCE_S) -> list[str]:
    """Return the hook that agents call, but one that does not give up on a busy machine."""
    limits = f"hook.READ_S_MAX = {read_s}; hook.MASK_S_MAX = hook.WHOLE_S_MAX = {PATIENCE_S}"
    return [sys.executable, "-c", f"from treering import hook; {limits}; hook.main()"]


def recorded(session: str = "a", *more: str) -> list[str]:
    """Return the arguments that record an event."""
    return [
        "episodes", "append", "--scope", "s", "--session-id", session, "--agent-id", "x",
        "--type", "tool.call", "--summary", "hi", *more,
    ]  # fmt: skip


def start(
    environment: dict[str, str], *arguments: str, stderr: int = subprocess.PIPE
) -> subprocess.Popen[str]:
    """Start the program and do not wait for it."""
    return subprocess.Popen(
        [*UNPRIVILEGED, PROGRAM, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def line_of(process: subprocess.Popen[str]) -> str:
    """Return the next line that a process prints; it prints no second one before it is asked to."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
    assert ready, "it prints nothing"
    return process.stdout.readline()


def in_shell(environment: dict[str, str], line: str) -> subprocess.CompletedProcess[str]:
    """Run a line as a shell would."""
    return subprocess.run(
        ["bash", "-c", line],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
