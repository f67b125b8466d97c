"""Proof while others write and erase: no false alarm, and no missed one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import treering
from treering import NewEvent

if TYPE_CHECKING:
    from pathlib import Path

SCOPE = "acme/app"
EVENTS = 3_000


def said(number: int) -> NewEvent:
    return NewEvent(
        scope=SCOPE,
        session_id="s1",
        kind="conversation.user",
        agent_id="lyria",
        summary=str(number),
        event_id=f"e{number}",
    )


def test_a_redaction_in_the_middle_of_a_proof_is_no_alarm(tmp_path: Path) -> None:
    """Each page of the proof is followed by erasures behind it and before it."""
    path = tmp_path / "ledger.db"
    with treering.open(path) as ledger, treering.open(path) as other:
        ledger.append([said(number) for number in range(EVENTS)])
        store = ledger._store
        read = store.reader.records
        pages = 0

        def reading(*arguments: object, **options: int) -> object:
            nonlocal pages
            pages += 1
            page = read(*arguments, **options)  # type: ignore[arg-type]
            for number in (pages, EVENTS - pages, EVENTS // 2 + pages):
                other.redact(SCOPE, event_id=f"e{number}")
            return page

        store.reader.records = reading  # type: ignore[method-assign, assignment]
        result = ledger.admin.verify(SCOPE)

        assert pages > 5
        assert result.intact, result.first_broken
        store.reader.records = read  # type: ignore[method-assign]
        assert ledger.admin.verify().intact
