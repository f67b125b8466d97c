"""Writing a scope, or one session, as native JSONL, a page at a time.

The events that a fork shares with its parent are written before its own, so the file is complete.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import msgspec

from treering.errors import Corrupt
from treering.ledger.jsonl import (
    ABSENT,
    FORMAT,
    EndLine,
    EventLine,
    OpeningLine,
    encode_line,
    from_session,
)
from treering.ledger.records import Record, check_readable
from treering.ledger.restoring import id_marks
from treering.ledger.verification import covered
from treering.model.receipts import ExportReceipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.jsonl import Payloads, SessionLine
    from treering.ledger.ports import EventStore
    from treering.model.scopes import Scope


def write_export(
    store: EventStore,
    scope: Scope,
    stream: IO[bytes],
    *,
    session_id: str | None,
    payloads: Payloads,
    at_ms: int,
    progress: Callable[[int], None] | None = None,
) -> ExportReceipt:
    """Write a scope, or one session of it, to ``stream``, a page at a time."""
    opening = OpeningLine(FORMAT, scope, payloads, at_ms, id_marks(store, scope))
    stream.write(encode_line(opening) + b"\n")
    opened: set[str] = set()
    events = 0
    for page in _pages(store, scope, session_id):
        lines: list[bytes] = []
        for record in page:
            if record.session_id not in opened:
                opened.add(record.session_id)
                lines.append(encode_line(_session_line(store, scope, record.session_id)))
            lines.append(encode_line(_event_line(record, payloads)))
        stream.write(b"\n".join(lines) + b"\n")
        events += len(page)
        if progress is not None:
            progress(len(page))
    stream.write(encode_line(EndLine(len(opened), events)) + b"\n")
    return ExportReceipt(scope=scope, sessions=len(opened), events=events, payloads=payloads)


def _pages(store: EventStore, scope: Scope, session_id: str | None) -> Iterator[list[Record]]:
    if session_id is not None:
        for parent, until in _ancestors(store, scope, session_id):
            yield from _stretch(store, scope, parent, until)
    yield from store.reader.record_pages(scope, session_id=session_id)


def _ancestors(store: EventStore, scope: Scope, session_id: str) -> list[tuple[str, int]]:
    """Return the ancestors of a fork, the oldest first, each with the seq where it was forked."""
    ancestors: list[tuple[str, int]] = []
    name = session_id
    while (cut := store.sessions.cut(scope, name)) is not None:
        if ancestors and cut.seq >= ancestors[-1][1]:
            raise Corrupt(
                f"session {name} of {scope} was forked after the point where its own fork begins",
                hint="run treering verify",
            )
        ancestors.append((cut.parent, cut.seq))
        name = cut.parent
    return ancestors[::-1]


def _stretch(
    store: EventStore, scope: Scope, session_id: str, until: int
) -> Iterator[list[Record]]:
    """Yield a session up to ``until``, and further to the events that vouch for its erasures."""
    last = until
    for page in store.reader.record_pages(scope, session_id=session_id):
        if any(record.erasure is not None for record in page):
            # Asked for each page: erasures may continue while we read.
            last = _vouched_until(store, scope, session_id, until)
        wanted = [record for record in page if record.seq <= last]
        if wanted:
            yield wanted
        if page[-1].seq >= last:
            return


def _vouched_until(store: EventStore, scope: Scope, session_id: str, until: int) -> int:
    """Return ``until``, or the later seq by which all erasures up to there are vouched for."""
    for cover in store.reader.covers(scope, session_id):
        payload = cover.payload if isinstance(cover.payload, dict) else {}
        if any(first <= until for first, _ in covered(payload)):
            until = max(until, cover.seq)
    return until


def _session_line(store: EventStore, scope: Scope, session_id: str) -> SessionLine:
    session = next(store.sessions.records(scope, session_id), None)
    if session is None:
        raise Corrupt(
            f"session {session_id} of {scope} cannot be found by its name",
            hint="run treering verify",
        )
    return from_session(session)


def _event_line(record: Record, payloads: Payloads) -> EventLine:
    included = payloads == "included"
    if included:
        check_readable(record)
    return EventLine(
        record.session_id, record.seq, record.event_id, record.kind, record.source,
        record.agent_id, record.ts_ms, record.recorded_ms, record.visibility,
        record.schema_version, record.summary, record.content_digest.hex(), record.link.hex(),
        salt=record.salt.hex() if record.salt is not None and included else None,
        refs=msgspec.Raw(record.refs) if record.refs is not None else ABSENT,
        payload=msgspec.Raw(record.payload) if record.payload is not None and included else ABSENT,
        payload_bytes=record.payload_bytes, origin=record.origin, run_id=record.run_id,
        run_seq=record.run_seq, turn_id=record.turn_id, user_id=record.user_id,
        erasure=record.erasure,
    )  # fmt: skip
