"""A clock that cannot be right removes nothing: only the caller's own word goes before it."""

from __future__ import annotations

import pytest

from builders import DAY, HERE, NOON, said
from clocks import Clock
from ports import store_of
from treering import InvalidInput, Ledger
from treering.capture.secrets import SecretGuard
from treering.ledger.drafts import Drafter


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def dated(ledger: Ledger, clock: Clock) -> Ledger:
    """Return a ledger whose clock the test sets, with one event of today."""
    drafter = Drafter(
        guard=lambda: SecretGuard(key=b"tests"), mode="off", clock=clock, seals=lambda _: False
    )
    made = Ledger(store_of(ledger), drafter=drafter, clock=clock)
    made.append([said("one", ts_ms=NOON)])
    return made


def test_a_clock_ten_years_ahead_removes_nothing(dated: Ledger, clock: Clock) -> None:
    clock.wait(3_650)

    with pytest.raises(InvalidInput, match="nothing was removed") as refused:
        dated.expire(HERE)

    assert "--trust-clock" in (refused.value.hint or "")
    assert [one.summary for one in dated.headers(HERE).items] == ["one"]
    assert dated.expire(HERE, dry_run=True).deleted_total == 1


def test_what_was_recorded_by_the_same_clock_today_does_not_vouch_for_it(
    dated: Ledger, clock: Clock
) -> None:
    later_ms = clock.wait(3_650)
    dated.append([said("two", ts_ms=later_ms)])

    with pytest.raises(InvalidInput, match="nothing was removed"):
        dated.expire(HERE)


def test_a_clock_that_is_behind_removes_nothing(dated: Ledger, clock: Clock) -> None:
    dated.append([said("old", ts_ms=NOON - 400 * DAY)])
    clock.wait(-100)

    with pytest.raises(InvalidInput, match="nothing was removed"):
        dated.expire(HERE)


def test_whoever_says_what_time_it_is_is_believed(dated: Ledger) -> None:
    assert dated.expire(HERE, now_ms=NOON + 3_650 * DAY).deleted_total == 1


def test_a_scope_that_rests_expires_while_the_ledger_is_in_use(dated: Ledger, clock: Clock) -> None:
    clock.wait(200)
    dated.append([said("elsewhere", scope="acme/other", ts_ms=clock.now_ms)])
    clock.wait(2)

    assert dated.expire(HERE).deleted_total == 1


def test_a_ledger_of_today_expires_what_it_recorded_today(dated: Ledger) -> None:
    dated.append([said("a moment ago", ts_ms=NOON - 1)])

    assert dated.expire(HERE, policy={"conversation.user": 0}).deleted_total == 1


def test_a_ledger_with_nothing_to_remove_takes_any_clock(dated: Ledger, clock: Clock) -> None:
    dated.set_retention(HERE, {"conversation.user": None})
    clock.wait(3_650)

    assert dated.expire(HERE).deleted_total == 0


@pytest.mark.parametrize("days", [3_650, 100])
def test_a_clock_far_ahead_prunes_and_closes_nothing(
    dated: Ledger, clock: Clock, days: int
) -> None:
    clock.wait(days)

    with pytest.raises(InvalidInput, match="nothing was removed"):
        dated.sweep(HERE)
    with pytest.raises(InvalidInput, match="nothing was removed"):
        dated.prune(HERE, older_than_days=90)

    assert [one.summary for one in dated.headers(HERE).items] == ["one"]
    assert dated.sweep(HERE, dry_run=True).pruned == ["s1"]


def test_whoever_says_what_time_it_is_has_old_sessions_pruned(dated: Ledger) -> None:
    later_ms = NOON + 3_650 * DAY

    assert dated.prune(HERE, older_than_days=90, now_ms=later_ms).pruned == ["s1"]


def test_old_sessions_are_pruned_while_the_ledger_is_in_use(dated: Ledger, clock: Clock) -> None:
    clock.wait(100)
    dated.append([said("elsewhere", scope="acme/other", ts_ms=clock.now_ms)])
    clock.wait(2)

    assert dated.sweep(HERE).pruned == ["s1"]
