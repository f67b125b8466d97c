"""The folders of agents' logs, and how long agents keep them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from treering.formats.format import LogRetention
from treering.formats.registry import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.formats.format import LogPlace


class LogFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of an agent's logs."""

    agent: str
    root: Path
    keeping: LogRetention


def log_folders(home: Path | None = None) -> list[LogFolder]:
    """Return the existing folders of agents whose logs can be read; in ``home``, if given."""
    return [folder for folder in all_log_folders(home) if folder.root.exists()]


def all_log_folders(home: Path | None = None) -> Iterator[LogFolder]:
    """Yield the folders where agents keep their logs, whether they exist or not.

    Without ``home``, environment variables may name others, as the agents allow.
    """
    for log_format in formats():
        for place in log_format.places:
            keeping = _keeping(place, place.at(home))
            for root in place.folders(home):
                yield LogFolder(agent=log_format.name, root=root, keeping=keeping)


def _keeping(place: LogPlace, base: Path) -> LogRetention:
    """Return the retention in an agent's settings, or an unknown one if they cannot be read."""
    try:
        return place.keeping(base)
    except (OSError, ValueError, RecursionError):
        return LogRetention(days=None, source="its settings cannot be read")
