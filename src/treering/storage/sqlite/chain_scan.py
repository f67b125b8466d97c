"""The chains of all sessions at once, read in the order of the file.

Session by session, a proof jumps through the file and makes a record of each event. A scan reads
every page once, and hashes what the rows hold. It does not say what is wrong: a session that has
anything but plain events in an unbroken chain is in doubt, and has to be proved by itself.

    positions  1 ............ 50,000 | 50,001 ........... 100,000
    session 7  seq 1 ......... 812   | seq 813 .......... 1,644

Stretches of positions are scanned in any order, by any process. Each says how the first event of
each session in it was hashed, so that ``join`` can check it against the last one before.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec
from uuid_utils import UUID

from treering.ledger import chain
from treering.ledger.chain import SALT_BYTES
from treering.ledger.records import ProvedChain
from treering.model.codec import encode
from treering.model.kinds import ERASURE_KINDS
from treering.storage.corruption import UNREADABLE
from treering.storage.encoding import ERASED, EXPIRED, NAMED, PLACEHOLDER, PRIVATE, name_of
from treering.storage.sqlite.rows import RECORD, WITH_CONTENT, fetch_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import apsw

    from treering.ledger.records import Unread
    from treering.storage.sqlite.reader import Reader
    from treering.storage.sqlite.rows import Row

PAGE: Final = 1_000
"""Positions that are read at once."""
_ANY_ERASURE: Final = ERASED | PLACEHOLDER | EXPIRED
# A left join: a payload row that was torn out must not hide its event.
ROWS: Final = f"""
SELECT {RECORD}
FROM events AS e
LEFT {WITH_CONTENT}
WHERE e.position > ?1 AND e.position <= ?2 AND (?3 IS NULL OR e.scope = ?3)
ORDER BY e.position
"""
_BEGINNINGS: Final = """
SELECT s.id, s.genesis, coalesce(f.seq, 0)
FROM sessions AS s
LEFT JOIN forks AS f ON f.session = s.id
"""


class Positions(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of the file, of one scope or of all."""

    after: int
    until: int
    scope: int | None = None


class SessionPart(msgspec.Struct, array_like=True):
    """The events of one session in a stretch: they follow each other, and hold what they held."""

    first_seq: int
    header: bytes
    """The digest of the first event's header."""
    content: bytes
    first_link: bytes
    seq: int
    link: bytes
    sealed: int = 0


class Scan(msgspec.Struct, array_like=True):
    """What a stretch of the file proves."""

    parts: dict[int, SessionPart] = msgspec.field(default_factory=dict)
    """By session."""
    doubtful: set[int] = msgspec.field(default_factory=set)
    """Sessions that have to be proved by themselves."""

    def count(self) -> int:
        """Return how many events it proves."""
        parts = (part for session, part in self.parts.items() if session not in self.doubtful)
        return sum(part.seq - part.first_seq + 1 for part in parts)


def scan(reader: Reader, stretch: Positions, pause: Callable[[], None]) -> Scan:
    """Return what a stretch proves; call ``pause`` after each page."""
    result = Scan()
    for after in range(stretch.after, stretch.until, PAGE):
        until = min(after + PAGE, stretch.until)
        bounds = (after, until, stretch.scope)
        # Row by row: in a list, most have left the processor's cache before they are hashed.
        with (
            reader.database.reading() as connection,
            closing(connection.execute(ROWS, bounds)) as rows,
        ):
            _take(reader, rows, result)
        pause()
    return result


def _take(reader: Reader, rows: Iterable[Row], result: Scan) -> None:
    # Written out as ``chain`` has it: its functions would cost a quarter more.
    names, parts, doubtful = reader.names, result.parts, result.doubtful
    for (
        _, session, seq, event_id, name, kind, source, origin, run, run_seq, turn, agent, user,
        ts_ms, recorded_ms, flags, version, payload_bytes, digest, link, summary, refs, stored,
        blob, stored_salt,
    ) in rows:  # fmt: skip
        if session in doubtful:
            continue
        try:
            salt, payload, is_read = stored_salt, stored, True
            if blob is not None or len(salt) > SALT_BYTES:
                salt, payload, unread = _opened(reader, session, event_id, salt, stored, blob)
                is_read = unread not in {"destroyed", "missing"}
            header = sha256(encode((
                str(UUID(None, event_id)) if not flags & NAMED else name_of(event_id, name),
                run and names[run], run_seq, turn and names[turn], names[agent],
                user and names[user], (kind_name := names[kind]), names[source],
                origin and names[origin], ts_ms, recorded_ms,
                "private" if flags & PRIVATE else "safe", version,
            ))).digest()  # fmt: skip
            if (
                flags & _ANY_ERASURE
                or kind_name in ERASURE_KINDS
                or type(summary) is not str
                or (name is not None and type(name) is not str)
                or (is_read and (
                    payload_bytes != (0 if payload is None else len(payload))
                    or sha256(b"%b[%b,%b,%b]" % (
                        salt, encode(summary), refs or b"null", payload or b"null"
                    )).digest() != digest
                ))
            ):  # fmt: skip
                doubtful.add(session)
                continue
            part = parts.get(session)
            if part is None:
                first = (seq, header, digest, link, seq, link)
                parts[session] = part = msgspec.convert(first, SessionPart)
            elif (
                seq == part.seq + 1
                and sha256(part.link + seq.to_bytes(8, "big") + header + digest).digest() == link
            ):
                part.seq = seq
                part.link = link
            else:
                doubtful.add(session)
            if not is_read:
                part.sealed += 1
        except UNREADABLE:
            doubtful.add(session)


def _opened(
    reader: Reader,
    session: int,
    event_id: bytes,
    salt: bytes | None,
    payload: bytes | None,
    blob: int | None,
) -> tuple[bytes | None, bytes | None, Unread | None]:
    large = None if blob is None else partial(reader.blobs.__getitem__, blob)
    return reader.opener.recorded(reader.sessions[session][0], event_id, salt, payload, large)


def join(connection: apsw.Connection, scans: Iterable[Scan]) -> dict[bytes, ProvedChain]:
    """Return by genesis the chains that ``scans`` prove together, which come in order."""
    geneses: dict[int, bytes] = {}
    chains: dict[int, ProvedChain] = {}
    for session, genesis, shared in fetch_all(connection, _BEGINNINGS):
        geneses[session] = genesis
        chains[session] = ProvedChain(seq=shared, link=genesis)
    for result in scans:
        for session in result.doubtful:
            chains.pop(session, None)
        for session, part in result.parts.items():
            before = chains.pop(session, None)
            if (
                before is not None
                and part.first_seq == before.seq + 1
                and part.first_link
                == chain.link(before.link, part.first_seq, part.header, part.content)
            ):
                events = before.events + part.seq - before.seq
                sealed = before.sealed + part.sealed
                chains[session] = ProvedChain(
                    seq=part.seq, link=part.link, events=events, sealed=sealed
                )
    twice = {genesis for genesis, count in Counter(geneses.values()).items() if count > 1}
    return {
        geneses[session]: proved
        for session, proved in chains.items()
        if proved.events and geneses[session] not in twice
    }
