"""Runs that were open when a ledger was copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from builders import HERE

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger


def test_a_run_that_goes_on_elsewhere_is_left_alone_and_copied_to_its_end(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, target = open_ledger(), open_ledger()
    turn = source.session("s1", scope=HERE, agent="lyria").turn()
    turn.start()
    source.admin.copy_to(target)

    assert target.recover() == 0
    turn.user("more")
    turn.end()
    again = source.admin.copy_to(target)

    assert again.complete
    assert again.intact
    kinds = [header.kind for header in target.session("s1", scope=HERE, agent="x").headers()]
    assert kinds == ["session.opened", "run.started", "conversation.user", "run.ended"]


def test_a_turn_in_a_copy_is_not_held_up_by_a_run_that_goes_on_elsewhere(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, target = open_ledger(), open_ledger()
    with source.session("s1", scope=HERE, agent="lyria").turn():
        source.admin.copy_to(target)

        with target.session("s1", scope=HERE, agent="lyria").turn() as turn:
            turn.user("on a path of its own")

    kinds = [header.kind for header in target.session("s1", scope=HERE, agent="x").headers()]
    assert kinds[1:4] == ["run.started", "run.interrupted", "run.started"]


def test_an_id_of_somebody_elses_makes_no_owner(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    session.record("run.started", "imported", run_id="r1", event_id="r1@team blue")

    with session.turn() as turn:
        turn.user("nobody is in the way")

    assert [header.kind for header in session.headers()][-1] == "run.ended"
