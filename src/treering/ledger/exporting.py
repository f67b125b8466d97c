"""Writing a scope, or one session, as native JSONL, a page at a time."""

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
    SessionLine,
    encode_line,
)
from treering.ledger.records import check_readable
from treering.model.receipts import ExportReceipt

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.ledger.jsonl import Payloads
    from treering.ledger.ports import EventStore
    from treering.ledger.records import Record
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
    stream.write(encode_line(OpeningLine(FORMAT, scope, payloads, at_ms)) + b"\n")
    opened: set[str] = set()
    events = 0
    for page in store.record_pages(scope, session_id=session_id):
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
    if included:
        check_readable(record)
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
