"""Fading on every database: computed when asked, archived once, back when used."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from builders import DAY, HERE, NOON

if TYPE_CHECKING:
    from clocks import Clock
    from treering import Ledger
    from treering.memory.memory import Memory

pytestmark = pytest.mark.usefixtures("clock")


def test_confidence_fades_by_the_formula_and_is_never_written_down(
    clock: Clock, ledger: Ledger, memory: Memory
) -> None:
    learned = memory.learn("Prefers dark mode", user="ann", importance=7, confidence=0.8)
    memory.recall("dark mode", user="ann")
    end = ledger.end_cursor(HERE)

    clock.wait(days=30)
    assert memory.fact(learned.fact_id).faded == 0.8
    clock.wait(days=30)

    fact = memory.fact(learned.fact_id)
    # Sixty days at a time constant of ninety, an importance of 7 in 10, one use of twenty.
    expected = 0.8 * math.exp(-60 / 90) * (1 + 0.7 + 1 / 20) / 3
    assert fact.faded == pytest.approx(expected)
    assert memory.fact(learned.fact_id).faded == fact.faded
    assert (fact.confidence, ledger.end_cursor(HERE)) == (0.8, end)


def test_what_nobody_used_is_archived_once(clock: Clock, ledger: Ledger, memory: Memory) -> None:
    dull = memory.learn("Likes fresh bread", user="ann", importance=1)
    memory.learn("Is allergic to peanuts", user="ann", importance=10)
    # One of importance 1 is below a tenth from the 117th day on, one of 10 from the 171st.
    now = clock.wait(days=120)
    end = ledger.end_cursor(HERE)

    planned = memory.fade(dry_run=True)
    assert (planned.archived, planned.dry_run, ledger.end_cursor(HERE)) == (
        [dull.fact_id],
        True,
        end,
    )
    done = memory.fade()

    assert (done.archived, done.looked_at, done.now_ms) == ([dull.fact_id], 2, now)
    fact = memory.fact(dull.fact_id)
    assert (fact.state, fact.reason, fact.confidence) == ("archived", "unused", 0.8)
    end = ledger.end_cursor(HERE)
    assert (memory.fade().archived, ledger.end_cursor(HERE)) == ([], end)


def test_what_was_archived_comes_back_when_it_is_used(
    clock: Clock, ledger: Ledger, memory: Memory
) -> None:
    bread = memory.learn("Likes fresh bread", user="ann", importance=1).fact_id
    theme = memory.learn("Prefers dark mode", user="ann", importance=1).fact_id
    clock.wait(days=200)
    memory.fade()

    assert memory.recall(None, user="ann").ids == []
    assert memory.recall("likes fresh bread", user="ann", record=False).ids == [bread]
    assert memory.fact(bread).state == "archived"
    used_ms = clock.wait(days=1)
    assert memory.recall("likes fresh bread", user="ann").ids == [bread]
    with ledger.session("s1", scope=HERE, agent="lyria", user="ann").turn() as turn:
        turn.user("prefers dark mode")
        turn.context(contributors=[memory.contributor(user="ann")])

    for one in (bread, theme):
        fact = memory.fact(one)
        assert (fact.state, fact.last_accessed_ms, fact.access_count) == ("current", used_ms, 1)
    assert [one.kind for one in memory.history(bread)] == [
        "memory.stored", "memory.archived", "memory.restored",
    ]  # fmt: skip
    assert memory.fade().archived == []


def test_a_faded_fact_that_is_told_again_is_the_same_fact(clock: Clock, memory: Memory) -> None:
    bread = memory.learn("Likes fresh bread", user="ann", importance=1)
    memory.fade(now_ms=NOON + 200 * DAY)
    assert memory.fact(bread.fact_id).state == "archived"
    clock.wait(days=1)

    again = memory.learn("Likes fresh bread", user="ann", importance=1)

    assert (again.outcome, again.fact_id) == ("revised", bread.fact_id)
    assert memory.fact(bread.fact_id).state == "current"
