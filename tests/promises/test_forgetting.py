"""Deletion that comes back: in-flight work republishes, caches answer, derived things keep it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import pytest

import treering
from builders import HERE, exchange, said

if TYPE_CHECKING:
    from treering import Ledger, Session

ADA: Final = "ada-57"


@pytest.fixture
def session(ledger: Ledger) -> Session:
    """Return a session of ada's that was read, searched, counted, forked and summed up."""
    session = ledger.session("of-ada", scope=HERE, agent="lyria", user=ADA)
    for number in range(6):
        exchange(session, f"heron {number}", f"seen {number}")
    session.compact(keep=2)
    session.usage()
    session.context(2_000)
    ledger.search("heron", scope=HERE)
    return session


def test_promise_5_after_forget_nothing_that_was_derived_answers_any_more(
    ledger: Ledger, session: Session
) -> None:
    """Erasure is real: in no table, index, blob or snapshot, whoever held on to it."""
    ledger.forget(HERE, user=ADA)

    assert list(session.events()) == []
    assert session.history() == []
    assert "heron" not in str(session.context(2_000).messages)
    assert ledger.search("heron", scope=HERE).hits == []


def test_promise_5_work_in_flight_brings_nothing_back(ledger: Ledger, session: Session) -> None:
    turn = session.turn()
    run = turn.__enter__()
    run.user("heron, once more")

    ledger.forget(HERE, user=ADA)

    with pytest.raises(treering.TreeringError):
        run.assistant("the heron again")
    with session.turn() as another:
        another.user("hello")
    assert "heron" not in str(session.context(2_000).messages)
    assert ledger.admin.verify().intact


def test_promise_5_the_receipt_counts_each_and_the_rest_is_proved(
    ledger: Ledger, session: Session
) -> None:
    """The receipt counts each and says physical: done; the chain and its anchors hold."""
    ledger.append([said("pelican", user_id="bob", session_id="of-bob")])
    anchor = io.BytesIO()
    ledger.admin.anchor(anchor)
    anchor.seek(0)

    receipt = ledger.forget(HERE, user=ADA)

    assert receipt.physical == "done"
    assert receipt.projections["events"] == receipt.events_erased
    assert receipt.projections["search"] > 0
    assert [h.summary for h in ledger.headers(HERE, session_id="of-bob").items] == ["pelican"]
    assert ledger.admin.verify(anchor=anchor).intact
