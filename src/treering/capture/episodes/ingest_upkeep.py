"""Maintenance of a spool that was read to its end: truncate it, or rotate it."""

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
    """Return why the spool must stay unchanged, or None if all of it was read.

    With ``strictly``, rejected lines keep it, too, since truncating would lose them.
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


def maintain(spool: Path, upkeep: Upkeep, *, suffix: str) -> Path | None:
    """Truncate the spool, or rotate it and return its new path.

    Rotating loses nothing that is written meanwhile: a new file takes the name.
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
    rotated = _free_name(spool, suffix)
    spool.rename(rotated)
    os.close(os.open(spool, os.O_CREAT | os.O_WRONLY, mode or OWNER_FILE))
    sync_folder(spool.parent)
    return rotated


def _free_name(spool: Path, suffix: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name = spool.with_name(f"{spool.name}.{stamp}.{suffix}")
    tries = 0
    while name.exists():
        tries += 1
        name = spool.with_name(f"{spool.name}.{stamp}.{suffix}.{tries}")
    return name
