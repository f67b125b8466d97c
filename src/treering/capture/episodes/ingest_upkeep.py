"""What becomes of a spool that was read to its end: emptied, or put aside under another name."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from treering.capture.episodes.files import OWNER_FILE, sync_folder

if TYPE_CHECKING:
    from pathlib import Path

    from treering.capture.episodes.ingest_receipts import Upkeep
    from treering.capture.episodes.ingest_state import IngestState


def refusal(spool: Path, state: IngestState, *, strictly: bool = False) -> str | None:
    """Return why the spool has to stay as it is, None if all of it was read.

    ``strictly``: lines that could not be taken keep it, too, for then they would be lost.
    """
    try:
        status = spool.stat()
    except FileNotFoundError:
        return "source_missing"
    if (status.st_dev, status.st_ino) != (state.dev, state.inode) or status.st_size != state.size:
        return "source_changed_since_snapshot"
    if state.offset != state.size:
        return "pending_partial_line"
    if not state.size:
        return "source_empty"
    return "invalid_lines" if strictly and state.rejected else None


def keep_up(spool: Path, upkeep: Upkeep, *, suffix: str) -> Path | None:
    """Empty the spool, or put it aside; return where it is then.

    Nothing that is written meanwhile is lost where it is put aside: a new file takes its name.
    """
    if upkeep == "truncate":
        descriptor = os.open(spool, os.O_WRONLY)
        try:
            os.ftruncate(descriptor, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return None
    mode = spool.stat().st_mode & 0o777
    aside = _free_name(spool, suffix)
    spool.rename(aside)
    os.close(os.open(spool, os.O_CREAT | os.O_WRONLY, mode or OWNER_FILE))
    sync_folder(spool.parent)
    return aside


def _free_name(spool: Path, suffix: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name = spool.with_name(f"{spool.name}.{stamp}.{suffix}")
    tries = 0
    while name.exists():
        tries += 1
        name = spool.with_name(f"{spool.name}.{stamp}.{suffix}.{tries}")
    return name
