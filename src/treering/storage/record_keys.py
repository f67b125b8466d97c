"""Keys of records: a projection that finds the events of a key, the newest last.

Each state event that names keys has a row for each of them, and each event that vouches for an
erasure has one for its session. Rows are written with their events, in the same transaction, so
a record that was acknowledged can be read in any process. They hold numbers and keyed hashes only.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from treering.errors import Conflict
from treering.model.codec import decode
from treering.model.kinds import ERASURE_KINDS, STATE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from treering.ledger.records import Draft

KEYED_KINDS: Final = STATE_KINDS | ERASURE_KINDS
COLUMNS: Final = ("scope", "name", "part", "key", "position")
_ERASURES: Final = 0
"""Takes the place of a name in the rows of events that vouch for erasures."""
NAMES_MAX: Final = 4_096
"""Names and first parts of keys whose hashes are remembered."""


class RecordKey(NamedTuple):
    """A key as it is stored."""

    name: int
    part: int
    """Of the key's first part, up to a slash: keys of one part are listed without the others."""
    key: bytes


def record_key(scope_key: bytes, name: str, key: str) -> RecordKey:
    """Return a key of the records called ``name`` as it is stored."""
    return RecordKey(
        hashed_name(scope_key, name),
        hashed_part(scope_key, name, key),
        blake2b(f"{name}\0{key}".encode(), key=scope_key, digest_size=16).digest(),
    )


@lru_cache(maxsize=NAMES_MAX)
def hashed_name(scope_key: bytes, name: str) -> int:
    """Return the hash of the name of records."""
    # Never that of the erasures.
    return _number(name, scope_key) or 1


def hashed_part(scope_key: bytes, name: str, key: str) -> int:
    """Return the hash of the first part of a key."""
    return _hashed_part(scope_key, f"{name}\0{key.partition('/')[0]}")


@lru_cache(maxsize=NAMES_MAX)
def _hashed_part(scope_key: bytes, text: str) -> int:
    return _number(text, scope_key)


def _number(text: str, scope_key: bytes) -> int:
    digest = blake2b(text.encode(), key=scope_key, digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def keys_of(scope_key: bytes, kind: str, session: int, refs: Any) -> list[RecordKey]:
    """Return the keys that an event is found by; none if it is of another kind, or erased."""
    if kind in ERASURE_KINDS:
        return [erasures_of(session)]
    named = named_keys(refs) if kind in STATE_KINDS else None
    if named is None:
        return []
    return [record_key(scope_key, named[0], key) for key in named[1]]


def stored_keys(scope_key: bytes, kind: str, session: int, refs: bytes | None) -> list[RecordKey]:
    """Return the same of an event whose refs are JSON."""
    return keys_of(scope_key, kind, session, None if refs is None else decode(refs))


def named_keys(refs: Any) -> tuple[str, list[str]] | None:
    """Return the name of the records, and the keys, that refs state; None if they state none."""
    match refs:
        case {"records": str(name), "at": [*keys]} if all(type(key) is str for key in keys):
            return name, list(dict.fromkeys(keys))
    return None


def erasures_of(session: int) -> RecordKey:
    """Return the key of the events that vouch for erasures in a session."""
    return RecordKey(_ERASURES, session, b"")


def is_removal(refs: Any) -> bool:
    """Whether refs are those of an event that removes its keys."""
    return isinstance(refs, dict) and refs.get("removed") is True


def check_expected(draft: Draft, versions: Mapping[str, str]) -> None:
    """Raise Conflict if a key does not have the version that ``draft`` expects."""
    for key, version in (draft.expected or {}).items():
        if versions[key] != version:
            raise Conflict(
                f"the record {key} was changed by another"
                if version
                else f"the record {key} exists already",
                current_seq=0,
                hint="get it again, then put the new value",
            )


def matching_keys(
    rows: Iterable[tuple[bytes, bytes | None]], scope_key: bytes, name: str, prefix: str, after: str
) -> Iterable[str]:
    """Yield the keys that begin with ``prefix`` and come after another, in no order.

    Each row has the hash of a key, and the refs of its newest event.
    """
    for hashed, refs in rows:
        stated = None if refs is None else decode(refs)
        if stated is None or is_removal(stated):
            continue
        keys = stated["at"]
        for key in keys:
            is_asked = key.startswith(prefix) and key > after
            # One event may have several keys, and not be the newest of all of them.
            if is_asked and (len(keys) == 1 or record_key(scope_key, name, key).key == hashed):
                yield key
