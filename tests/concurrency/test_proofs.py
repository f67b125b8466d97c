"""Proof while others write and erase: no false alarm, and no missed one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import treering
from ports import store_of
from treering import NewEvent

if TYPE_CHECKING:
    from pathlib import Path

SCOPE = "acme/app"
EVENTS = 3_000
READS_MAX = 20


def said(number: int) -> NewEvent:
    return NewEvent(
        scope=SCOPE,
        session_id="s1",
        kind="conversation.user",
        agent_id="lyria",
        summary=str(number),
        event_id=f"e{number}",
    )


@pytest.mark.parametrize("before", [0, 1])
def test_a_redaction_in_the_middle_of_a_proof_is_no_alarm(tmp_path: Path, before: int) -> None:
    """Each read of the proof is followed by erasures behind it and before it.

    A session with an erasure is proved by itself, all others together.
    """
    path = tmp_path / "ledger.db"
    with treering.open(path) as ledger, treering.open(path) as other:
        ledger.append([said(number) for number in range(EVENTS)])
        for number in range(before):
            other.redact(SCOPE, event_id=f"e{number}")
        database = store_of(ledger).reader.database  # type: ignore[attr-defined]
        lend = database.reading
        reads = 0

        def reading() -> object:
            nonlocal reads
            if threading.current_thread() is threading.main_thread() and reads < READS_MAX:
                reads += 1
                for number in (reads, EVENTS - reads, EVENTS // 2 + reads):
                    other.redact(SCOPE, event_id=f"e{number}")
            return lend()

        database.reading = reading
        result = ledger.admin.verify(SCOPE)

        assert reads > 5
        assert result.intact, result.first_broken
        database.reading = lend
        assert ledger.admin.verify().intact
