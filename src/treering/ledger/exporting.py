"""Writing a scope, or one session, as native JSONL, a page at a time."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

import msgspec

from treering.errors import Corrupt
from treering.ledger.jsonl import (
    ABSENT,
    FORMAT,
    EndLine,
    EventLine,
    OpeningLine,
    SessionLine,
    encode_line,
)
from treering.model.receipts import ExportReceipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.jsonl import Payloads
    from treering.ledger.ports import EventStore
    from treering.ledger.records import Record
    from treering.model.scopes import Scope

PAGE: Final = 500
ATTEMPTS_MAX: Final = 5
"""How often a page is read of which something is erased meanwhile."""


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
    stream.write(encode_line(OpeningLine(FORMAT, scope, payloads, at_ms)) + b"\n")
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
    after = 0
    if session_id is not None:
        while (found := _page(store, scope, session_id, after))[0]:
            page, after = found
            yield page
        return
    newest = store.last_position()
    while after < newest:
        page, after = _page(store, scope, None, after)
        if any(record.erasure is not None for record in page):
            # The event that vouches for it may have been recorded since we began.
            newest = store.last_position()
        if page:
            yield page


def _page(
    store: EventStore, scope: Scope, session_id: str | None, after: int
) -> tuple[list[Record], int]:
    """Return the records behind ``after``, and where the next page begins."""
    for _ in range(ATTEMPTS_MAX):
        if session_id is None:
            page, last = store.records_after(scope, after, limit=PAGE)
        else:
            page = store.records(scope, session_id, after_seq=after, limit=PAGE)
            last = page[-1].seq if page else after
        if not any(_is_torn(record) for record in page):
            break
    return page, last


def _is_torn(record: Record) -> bool:
    """Whether the payload was erased after its event was read."""
    return record.erasure is None and record.payload is None and record.payload_bytes > 0


def _session_line(store: EventStore, scope: Scope, session_id: str) -> SessionLine:
    session = next(store.session_records(scope, session_id), None)
    if session is None:
        raise Corrupt(
            f"session {session_id} of {scope} cannot be found by its name",
            hint="run treering verify",
        )
    return SessionLine(
        session_id, session.salt.hex(), session.genesis.hex(), session.scope_key.hex()
    )


def _event_line(record: Record, payloads: Payloads) -> EventLine:
    included = payloads == "included"
    return EventLine(
        session_id=record.session_id,
        seq=record.seq,
        event_id=record.event_id,
        kind=record.kind,
        source=record.source,
        agent_id=record.agent_id,
        ts_ms=record.ts_ms,
        recorded_ms=record.recorded_ms,
        visibility=record.visibility,
        schema_version=record.schema_version,
        summary=record.summary,
        content_digest=record.content_digest.hex(),
        link=record.link.hex(),
        salt=record.salt.hex() if record.salt is not None and included else None,
        refs=msgspec.Raw(record.refs) if record.refs is not None else ABSENT,
        payload=msgspec.Raw(record.payload) if record.payload is not None and included else ABSENT,
        payload_bytes=record.payload_bytes,
        origin=record.origin,
        run_id=record.run_id,
        run_seq=record.run_seq,
        turn_id=record.turn_id,
        user_id=record.user_id,
        erasure=record.erasure,
    )
