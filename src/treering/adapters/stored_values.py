"""JSON values of other programs, stored so that they are equal when they are read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from treering.errors import TreeringError
from treering.model.codec import decode, encode
from treering.spine.conversion import to_json

if TYPE_CHECKING:
    from treering.ledger.keyed_records import KeyedRecord, KeyedRecords

RECORDS_AT_ONCE: Final = 500
_ESCAPED: Final = "escaped"


def all_records(records: KeyedRecords, prefix: str) -> list[KeyedRecord]:
    """Return all records whose keys begin with ``prefix``."""
    matching: list[KeyedRecord] = []
    after = ""
    while keys := records.keys(prefix, limit=RECORDS_AT_ONCE, after=after):
        matching += records.get_many(keys).values()
        after = keys[-1]
    return matching


def storable(value: Any) -> Any:
    """Return ``value`` as a ledger can store it: as it is, or else as text.

    Lone surrogates and numbers that are too large, for example, are stored as text. What is not
    JSON at all is converted, and comes back as that.
    """
    try:
        if decode(encode(value)) == value and not _is_escaped(value):
            return value
    except (TreeringError, TypeError, ValueError, RecursionError):
        pass
    try:
        return {_ESCAPED: json.dumps(value)}
    except (TypeError, ValueError, RecursionError):
        return to_json(value)[0]


def restored(value: Any) -> Any:
    """Return what ``storable`` was given."""
    return json.loads(value[_ESCAPED]) if _is_escaped(value) else value


def _is_escaped(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {_ESCAPED} and isinstance(value[_ESCAPED], str)
