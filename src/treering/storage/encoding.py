"""How the parts of an event are stored, and read or reported as corrupt, in every database."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from operator import itemgetter
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from uuid_utils import UUID

from treering.errors import Corrupt
from treering.lazy import lazy_pattern
from treering.ledger.records import Erasure, ForkPoint, SessionHead, SessionRecord, forgotten_name
from treering.model.codec import SPILL_BYTES_MAX, decode, encode
from treering.model.events import REDACTED
from treering.model.keyed_hash import keyed_hash
from treering.model.queries import SessionTally

Step: TypeAlias = Callable[[str, Any], Any]
"""Takes the kind and the payload; returns the payload of the next version."""

STEPS: Final[Mapping[int, Step]] = {}
"""The step from each older version."""

PRIVATE: Final = 1
ERASED: Final = 2
PLACEHOLDER: Final = 4
ALWAYS: Final = 8
SPILLED: Final = 16
NAMED: Final = 32
EXPIRED: Final = 64
GONE: Final = ERASED | EXPIRED
"""Any of these: nothing is left of what it said."""

Row = tuple[Any, ...]
Value = TypeVar("Value")
_BY_DICE: Final = frozenset({4, 7})
"""Versions of UUIDs that are random."""

_UUID_CHARACTERS: Final = 36
_DASHES: Final = frozenset({8, 13, 18, 23})
_HEX: Final = lazy_pattern("[0-9a-f]")

NAMES_MAX: Final = 1_024
"""Names whose hashes are remembered."""
PREVIEW_CHARACTERS: Final = 200
PAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Payloads of one page; a page of giants is cut short."""


def id_key(scope_key: bytes, event_id: str) -> tuple[bytes, bool]:
    """Return the 16 bytes an id is stored as, and whether its text must be kept as well."""
    if len(event_id) == 36:
        try:
            parsed = UUID(event_id)
        except ValueError:
            return name_key(scope_key, event_id), True
        if str(parsed) == event_id:
            return parsed.bytes, False
    return name_key(scope_key, event_id), True


def id_key_range(prefix: str) -> tuple[bytes, bytes] | None:
    """Return the first and the last 16 bytes of UUIDs that begin with ``prefix``.

    None if no UUID does.
    """
    shown = "".join("-" if at in _DASHES else "0" for at in range(len(prefix)))
    if len(prefix) > _UUID_CHARACTERS or _HEX.sub("0", prefix) != shown:
        return None
    digits = prefix.replace("-", "")
    return bytes.fromhex(digits.ljust(32, "0")), bytes.fromhex(digits.ljust(32, "f"))


@lru_cache(maxsize=NAMES_MAX)
def name_key(key: bytes, name: str) -> bytes:
    """Return a keyed hash of ``name``, so that no index holds the name itself."""
    # Cached: a name that is added has mostly just been looked for, once or twice.
    return keyed_hash(key, name.encode())[:16]


def is_guessable(event_id: bytes, flags: int) -> bool:
    """Whether an id can be found by guessing: one that is not random."""
    return bool(flags & NAMED) or event_id[6] >> 4 not in _BY_DICE


def are_guessable(ids: Mapping[bytes, str]) -> bool:
    """Whether one of ``ids``, by the bytes they are stored as, is not random."""
    return any(str(UUID(bytes=key)) != text or is_guessable(key, 0) for key, text in ids.items())


def hidden_key(id_key: bytes, event_key: bytes) -> bytes:
    """Return the 16 bytes that the id of an expired event is stored as: no guess finds it."""
    return keyed_hash(id_key, event_key)[:16]


def either_key(id_key: bytes, keys: dict[bytes, Value]) -> dict[bytes, Value]:
    """Return ``keys`` and those that the same ids have once their events expire."""
    if not id_key:
        return keys
    return {**{hidden_key(id_key, key): value for key, value in keys.items()}, **keys}


def stub(payload: bytes) -> bytes:
    """Return the stub of a spilled payload, for plain SQL readers."""
    preview = payload[: PREVIEW_CHARACTERS * 4].decode(errors="ignore")[:PREVIEW_CHARACTERS]
    digest = sha256(payload).hexdigest()
    return encode({"spilled": {"bytes": len(payload), "preview": preview, "sha256": digest}})


def erasure_flags(erasure: Erasure | None) -> int:
    """Return the flags that say how content was erased."""
    match erasure:
        case None:
            return 0
        case "null":
            return ERASED
        case "placeholder":
            return ERASED | PLACEHOLDER
        case "expired":
            return ERASED | EXPIRED


def decompress(body: bytes) -> bytes:
    """Return the payload that a blob holds. Raise ValueError if it is damaged."""
    import zstandard  # noqa: PLC0415  (only large payloads pay for it)

    try:
        if zstandard.frame_content_size(body) > SPILL_BYTES_MAX:
            raise ValueError("a blob claims to be larger than allowed")
        return zstandard.ZstdDecompressor().decompress(body)
    except zstandard.ZstdError as error:
        raise ValueError(f"a blob is damaged: {error}") from error


def name_of(event_id: bytes, name: str | None) -> str:
    """Return an id that is not a UUID as its author wrote it; a hash, once that is erased."""
    return name if name is not None else f"#{event_id.hex()}"


def id_of(event_id: bytes, name: str | None, flags: int) -> str:
    """Return an id, a UUID or not, from the columns that hold it."""
    return name_of(event_id, name) if flags & NAMED else str(UUID(bytes=event_id))


def payload_of(
    kind: str, payload: bytes | None, blob: bytes | None, flags: int, version: int
) -> Any:
    """Return the payload that a reader sees; ``blob`` is what it was spilled to."""
    if flags & PLACEHOLDER:
        return REDACTED
    # A blob that is gone was erased between two reads.
    encoded = (blob or encode(REDACTED)) if flags & SPILLED else payload
    return None if encoded is None else upcast(kind, decode(encoded), version)


def unspilled(stored: bytes | None, payload: bytes | None) -> bytes | None:
    """Return a spilled payload. Raise TypeError if its stub does not fit."""
    if payload is not None and stored != stub(payload):
        raise TypeError("the stub of a blob does not match the blob")
    return payload


def erasure_of(flags: int) -> Erasure | None:
    """Return how content was erased, as ``flags`` have it."""
    # As reads do: an event at or above EXPIRED is never shown.
    if flags >= EXPIRED:
        return "expired"
    if flags & PLACEHOLDER:
        return "placeholder"
    return "null" if flags & ERASED else None


def bounded(rows: list[Row], payload_bytes: int) -> list[Row]:
    """Return as many of ``rows`` as their payloads fit in memory together; at least one.

    ``payload_bytes`` is the column that has their size.
    """
    with contextlib.suppress(TypeError):  # A size that is missing is none.
        if sum(map(itemgetter(payload_bytes), rows)) <= PAGE_BYTES_MAX:
            return rows
    total = 0
    for count, row in enumerate(rows):
        total += row[payload_bytes] or 0
        if total > PAGE_BYTES_MAX and count:
            return rows[:count]
    return rows


def session_record(
    scope: str,
    scope_key: bytes,
    session_id: str,
    salt: bytes | None,
    genesis: bytes,
    head_seq: int | None,
    head_link: bytes | None,
    *cut: Any,
) -> SessionRecord:
    """Return a session's place in the chain. Raise ValidationError if a column makes no sense.

    ``cut`` are the columns that ``cut_of`` takes.
    """
    return msgspec.convert(
        {
            "scope": scope,
            "scope_key": scope_key,
            "session_id": session_id,
            "salt": b"" if salt is None and session_id == forgotten_name(genesis) else salt,
            "genesis": genesis,
            "head_seq": -1 if head_seq is None else head_seq,
            "head_link": head_link or b"",
            "cut": cut_of(*cut),
        },
        SessionRecord,
    )


def cut_of(
    parent: str | None = None,
    genesis: bytes | None = None,
    seq: int | None = None,
    link: bytes | None = None,
) -> ForkPoint | None:
    """Return where a session was forked, None if it was not: it then has no ``seq``.

    Raise ValidationError if a column makes no sense. A parent that is gone has no genesis.
    """
    if seq is None:
        return None
    return msgspec.convert(
        {
            "parent": REDACTED if parent is None else parent,
            "genesis": genesis or b"",
            "seq": seq,
            "link": link or b"",
        },
        ForkPoint,
    )


def session_head(name: str, position: int, seq: int, recorded_ms: int, *cut: Any) -> SessionHead:
    """Return a session at its last event; ``cut`` is where it was forked."""
    return SessionHead(
        session_id=name, position=position, head_seq=seq, updated_ms=recorded_ms, cut=cut_of(*cut)
    )


def session_tally(counted: list[Row], runs: list[Row]) -> SessionTally:
    """Return a tally; the rows have kinds with their numbers, and runs that are open or ended."""
    return SessionTally(
        kinds={row[0]: row[1] for row in counted},
        erased=int(sum(row[2] for row in counted)),
        first_ms=min((row[3] for row in counted), default=None),
        last_ms=max((row[4] for row in counted), default=None),
        runs={run: bool(is_open) for run, is_open in runs},
    )


def upcast(kind: str, payload: Any, version: int, steps: Mapping[int, Step] = STEPS) -> Any:
    """Return ``payload`` of schema ``version`` in the current version."""
    while version in steps:
        payload = steps[version](kind, payload)
        version += 1
    return payload


UNREADABLE: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)
"""What comes up when stored values are not of the sort that they were written as."""


@contextlib.contextmanager
def corrupt_on_error(ledger: str) -> Iterator[None]:
    """Raise Corrupt, with the name of the ledger, where a stored value makes no sense."""
    try:
        yield
    except UNREADABLE as error:
        raise Corrupt(
            f"{ledger} is damaged: an event cannot be read ({error})",
            hint="keep a copy, then run treering verify and restore from an export or a backup",
        ) from error
