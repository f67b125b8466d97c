"""Small JSON files next to a log, with more about its session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from treering.model.codec import decode

if TYPE_CHECKING:
    from pathlib import PurePath

BESIDE_BYTES_MAX: Final = 4 * 1024 * 1024


def read_beside(path: PurePath | None, name: str) -> dict[str, Any]:
    """Return the object in the file ``name`` beside a log; {} if there is none."""
    if path is None or not name:
        return {}
    beside = Path(path).parent / name
    try:
        if not beside.is_file() or beside.stat().st_size > BESIDE_BYTES_MAX:
            return {}
        value = decode(beside.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
