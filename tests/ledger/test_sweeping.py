"""Closing, resuming, sweeping and pruning: idle sessions are closed, old ones become an episode."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import treering
from broken.ledgers import marked as marked_event
from broken.ledgers import raw_bytes, shown
from builders import DAY, ELSEWHERE, HERE, NOON, run_of, said
from ports import store_of, time_of
from treering import Conflict, Header, InvalidInput, Session
from treering.capture.secrets import SecretGuard
from treering.errors import RunActive
from treering.ledger.drafts import Drafter
from treering.ledger.erasure import expire_session
from treering.ledger.ledger import Ledger
from treering.ledger.pruning import PRUNED, REMAINS, SweepPolicy, sweep
from treering.ledger.records import AGENT, Selection
from treering.model.scopes import Scope
from treering.model.sessions import IDLE_MINUTES, PRUNE_DAYS, SessionOutline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from treering.model.receipts import SweepReceipt

MINUTE = 60_000
OURS = Scope(HERE)


class Calendar:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now_ms = NOON

    def __call__(self) -> int:
        return self.now_ms

    def turn(self, *, days: float = 0, minutes: float = 0) -> None:
        self.now_ms += round(days * DAY + minutes * MINUTE)


@pytest.fixture
def calendar() -> Calendar:
    """Return the clock of the ledger."""
    return Calendar()


@pytest.fixture
def ledger(ledger: Ledger, calendar: Calendar) -> Ledger:
    """Return an empty ledger whose time is the calendar's."""
    drafter = Drafter(
        guard=lambda: SecretGuard(key=b"tests"), mode="off", clock=calendar, seals=lambda _: False
    )
    return Ledger(store_of(ledger), drafter=drafter, clock=calendar)


def session_of(ledger: Ledger, name: str = "s1", **about: Any) -> Session:
    return ledger.session(name, **({"scope": HERE, "agent": "lyria", "user": "u1"} | about))


def take_turn(session: Session, name: str = "one") -> None:
    with session.turn() as turn:
        turn.user(f"{name}? We decided to use Rust.")
        with turn.tool("look") as call:
            call.finish("seen")
        turn.assistant(f"{name}!")


def kinds(session: Session) -> list[str]:
    return [header.kind for header in session.headers()]


def content(session: Session) -> list[Header]:
    """Return what pruning should not have left."""
    return [one for one in session.headers() if one.kind not in REMAINS and not one.redacted]


def state(session: Session) -> str:
    return session.outline().state


# Closing and resuming.


def test_a_session_goes_on_after_it_was_closed_and_the_ledger_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with treering.open(path) as ledger:
        session = session_of(ledger, channel="telegram", mode="group", title="Trip")
        take_turn_with(session, "weather")
        session.close("bye")

    with treering.open(path) as ledger:
        again = ledger.session("s1", scope=HERE, agent="lyria")
        assert state(again) == "closed"
        assert len(again.history()) == 4
        take_turn_with(again, "calculator")
        assert state(again) == "open"
        assert (again.settings.mode, again.settings.channel) == ("group", "telegram")
        assert again.outline().title == "Trip"
        assert len(again.history()) == 8


def take_turn_with(session: Session, tool: str) -> None:
    with session.turn() as turn:
        turn.user("hello?")
        with turn.tool(tool) as call:
            call.finish("seen")
        turn.assistant("hello!")


def test_a_session_with_a_turn_under_way_cannot_be_closed(ledger: Ledger) -> None:
    session = session_of(ledger)
    with session.turn(), pytest.raises(RunActive) as refused:
        session.close()

    assert refused.value.hint
    assert session.close("done").refs == {"reason": "done"}


def test_a_session_is_closed_where_it_is_expected_to_be_or_not_at_all(ledger: Ledger) -> None:
    session = session_of(ledger)
    take_turn(session)
    last = list(session.headers())[-1]

    with pytest.raises(Conflict):
        session.close(expected_seq=last.seq - 1)

    assert state(session) == "open"
    assert session.close(expected_seq=last.seq).seq == last.seq + 2
    assert kinds(session)[last.seq :] == ["episode.written", "session.closed"]


# Idle sessions.


def test_a_session_that_was_idle_for_half_an_hour_is_closed(
    ledger: Ledger, calendar: Calendar
) -> None:
    early, late = session_of(ledger, "early"), session_of(ledger, "late")
    take_turn(early)
    calendar.turn(minutes=1)
    take_turn(late)
    calendar.turn(minutes=29)

    receipt = ledger.sweep(HERE, now_ms=time_of(ledger))

    assert (receipt.closed, receipt.pruned, receipt.count) == (["early"], [], 0)
    assert (state(early), state(late)) == ("closed", "open")
    told, last = list(early.headers())[-2:]
    assert (last.kind, last.refs) == ("session.closed", {"reason": "idle"})
    assert told.kind == "episode.written"
    assert len(early.history()) == 4
    assert ledger.sweep(HERE, now_ms=time_of(ledger)).closed == []


@pytest.mark.parametrize("idle_minutes", [5, 60])
def test_how_long_is_idle_can_be_said(
    ledger: Ledger, calendar: Calendar, idle_minutes: int
) -> None:
    take_turn(session_of(ledger))
    calendar.turn(minutes=idle_minutes - 1)
    assert ledger.sweep(HERE, now_ms=time_of(ledger), idle_minutes=idle_minutes).closed == []

    calendar.turn(minutes=1)

    assert ledger.sweep(HERE, now_ms=time_of(ledger), idle_minutes=None).closed == []
    assert ledger.sweep(HERE, now_ms=time_of(ledger), idle_minutes=idle_minutes).closed == ["s1"]


def test_an_idle_queue_with_unread_messages_is_not_closed(
    ledger: Ledger, calendar: Calendar
) -> None:
    queue = session_of(ledger, mode="queue")
    queue.post("one?")
    calendar.turn(minutes=31)

    trial = ledger.sweep(HERE, now_ms=time_of(ledger), dry_run=True)
    receipt = ledger.sweep(HERE, now_ms=time_of(ledger))

    assert (trial.closed, trial.kept) == (receipt.closed, receipt.kept) == ([], {"s1": "unread"})
    assert state(queue) == "idle"
    run = queue.take()
    assert run is not None
    run.end()
    calendar.turn(minutes=31)
    assert ledger.sweep(HERE, now_ms=time_of(ledger)).closed == ["s1"]


def test_a_message_whose_turn_failed_keeps_an_idle_queue_open(
    ledger: Ledger, calendar: Calendar
) -> None:
    queue = session_of(ledger, mode="queue")
    queue.post("one?")
    run = queue.take()
    assert run is not None
    run.fail("no answer")
    calendar.turn(minutes=31)

    assert ledger.sweep(HERE, now_ms=time_of(ledger)).kept == {"s1": "unread"}


def test_an_idle_session_that_was_imported_is_closed_only_when_asked_for(
    ledger: Ledger, calendar: Calendar
) -> None:
    session = session_of(ledger)
    take_turn(session)
    session.record("session.imported", "imported", payload={"format": "pi"})
    calendar.turn(minutes=31)

    receipt = ledger.sweep(HERE, now_ms=time_of(ledger))

    assert (receipt.closed, receipt.kept) == ([], {"s1": "imported"})
    assert receipt.sessions_kept_imported == 1
    assert ledger.sweep(HERE, now_ms=time_of(ledger), include_imported=True).closed == ["s1"]


def test_a_session_with_a_turn_under_way_is_not_idle(ledger: Ledger, calendar: Calendar) -> None:
    with session_of(ledger).turn():
        calendar.turn(minutes=100)
        assert ledger.sweep(HERE, now_ms=time_of(ledger)).closed == []


@pytest.fixture
def idle_and_old(ledger: Ledger, calendar: Calendar) -> Ledger:
    """Return a ledger with one session that is idle and one that is old."""
    for name in ("idle", "old"):
        take_turn(session_of(ledger, name))
    calendar.turn(days=100)
    session_of(ledger, "idle").record("ops.observation", "it rains")
    calendar.turn(minutes=100)
    return ledger


def sweep_while(ledger: Ledger, does: Callable[[Session], object]) -> SweepReceipt:
    """Sweep while somebody does something to each session that is about to be put away."""

    def open_session(outline: SessionOutline) -> Session:
        does(session_of(ledger, outline.session_id))
        return session_of(ledger, outline.session_id)

    policy = SweepPolicy(
        now_ms=time_of(ledger),
        is_clock=False,
        idle_minutes=IDLE_MINUTES,
        prune_days=PRUNE_DAYS,
        include_imported=False,
        dry_run=False,
    )
    return sweep(store_of(ledger), ledger._drafter, open_session, OURS, policy)


def test_a_session_that_somebody_resumes_meanwhile_is_left_to_them(idle_and_old: Ledger) -> None:
    ledger = idle_and_old
    resumed: list[Any] = []

    def resume(session: Session) -> None:
        resumed.append(session.turn())
        resumed[-1].start()

    receipt = sweep_while(ledger, resume)

    assert (receipt.closed, receipt.pruned, receipt.kept) == ([], [], {"old": "running"})
    for run in resumed:
        run.end()
    assert len(session_of(ledger, "old").history()) == 4


def test_a_turn_that_is_taken_while_a_sweep_is_at_its_session_is_not_lost(
    idle_and_old: Ledger,
) -> None:
    ledger = idle_and_old

    receipt = sweep_while(ledger, lambda session: take_turn(session, "two"))

    assert (receipt.closed, receipt.pruned, receipt.kept) == ([], [], {"old": "written"})
    for name in ("idle", "old"):
        assert state(session_of(ledger, name)) == "open"
        assert len(session_of(ledger, name).history()) == 8
        assert "episode.written" not in kinds(session_of(ledger, name))


# Old sessions.


def test_an_old_session_is_told_in_an_episode_then_closed_then_expired(
    ledger: Ledger, calendar: Calendar
) -> None:
    session = session_of(ledger)
    take_turn(session)
    calendar.turn(days=90)

    receipt = ledger.prune(HERE, older_than_days=90, now_ms=time_of(ledger))

    assert (receipt.count, receipt.pruned, receipt.closed) == (1, ["s1"], [])
    assert (receipt.events_expired, receipt.physical) == (4, "done")
    assert kinds(session)[-3:] == ["episode.written", "session.closed", "ledger.expired"]
    assert content(session) == []
    assert (state(session), session.history(), list(session.tool_calls())) == ("pruned", [], [])
    assert ledger.admin.verify().intact


def test_the_episode_says_who_spoke_of_what_and_for_how_long(
    ledger: Ledger, calendar: Calendar
) -> None:
    session = session_of(ledger)
    take_turn(session, "one")
    calendar.turn(minutes=15)
    take_turn(session, "two")
    calendar.turn(days=91)

    ledger.sweep(HERE, now_ms=time_of(ledger))

    told = next(event for event in session.events() if event.kind == "episode.written").payload
    assert (told["user"], told["duration_minutes"]) == ("u1", 15.0)
    assert told["message_count"] == 6
    assert "one?" in told["summary"]
    assert any("Rust" in line for line in told["key_decisions"])
    assert (told["started_ms"], told["ended_ms"]) == (NOON, NOON + 15 * MINUTE)


def test_a_younger_session_is_not_pruned(ledger: Ledger, calendar: Calendar) -> None:
    take_turn(session_of(ledger, "old"))
    calendar.turn(days=1)
    take_turn(session_of(ledger, "young"))
    take_turn(session_of(ledger, "elsewhere", scope=ELSEWHERE))
    calendar.turn(days=89.5)

    assert ledger.sweep(HERE, now_ms=time_of(ledger)).pruned == ["old"]
    assert len(session_of(ledger, "young").history()) == 4
    assert len(session_of(ledger, "elsewhere", scope=ELSEWHERE).history()) == 4


def test_pruning_twice_does_nothing_more(ledger: Ledger, calendar: Calendar) -> None:
    session = session_of(ledger)
    take_turn(session)
    calendar.turn(days=100)
    ledger.sweep(HERE, now_ms=time_of(ledger))
    before = kinds(session)

    for days in (0, 100):
        calendar.turn(days=days)
        receipt = ledger.sweep(HERE, now_ms=time_of(ledger))
        assert (receipt.pruned, receipt.closed, receipt.events_expired) == ([], [], 0)

    assert kinds(session) == before


def test_a_dry_run_tells_and_does_nothing(ledger: Ledger, calendar: Calendar) -> None:
    parent = session_of(ledger, "old")
    take_turn(parent)
    parent.fork("branch")
    calendar.turn(days=100)
    take_turn(session_of(ledger, "idle"))
    calendar.turn(minutes=31)
    before = ledger.admin.verify().events

    receipt = ledger.sweep(HERE, now_ms=time_of(ledger), dry_run=True)

    assert receipt.dry_run
    assert (receipt.closed, sorted(receipt.pruned)) == (["idle"], ["branch", "old"])
    assert ledger.admin.verify().events == before
    done = ledger.sweep(HERE, now_ms=time_of(ledger))
    assert (done.closed, done.pruned, done.kept) == (receipt.closed, receipt.pruned, receipt.kept)


def test_a_session_with_a_turn_under_way_is_never_pruned(
    ledger: Ledger, calendar: Calendar
) -> None:
    session = session_of(ledger)
    with session.turn() as turn:
        turn.user("one?")
        calendar.turn(days=1_000)
        receipt = ledger.sweep(HERE, now_ms=time_of(ledger))

    assert (receipt.pruned, receipt.kept) == ([], {"s1": "running"})
    assert len(session.history()) == 1


def test_a_session_with_unread_messages_is_never_pruned(ledger: Ledger, calendar: Calendar) -> None:
    queue = session_of(ledger, mode="queue")
    queue.post("one?")
    calendar.turn(days=1_000)

    assert ledger.sweep(HERE, now_ms=time_of(ledger)).kept == {"s1": "unread"}

    run = queue.take()
    assert run is not None
    run.end()
    calendar.turn(days=100)
    assert ledger.sweep(HERE, now_ms=time_of(ledger)).pruned == ["s1"]
    assert queue.take() is None


def test_unread_messages_are_kept_whatever_is_known_of_the_session(
    ledger: Ledger, calendar: Calendar
) -> None:
    queue = session_of(ledger, mode="queue")
    queue.post("one?")
    opening = next(iter(queue.headers()))
    ledger.redact(HERE, event_id=opening.event_id)
    calendar.turn(days=1_000)

    assert ledger.sweep(HERE, now_ms=time_of(ledger)).kept == {"s1": "unread"}
    assert session_of(ledger, mode="queue").take() is not None


def test_a_session_is_not_pruned_while_a_fork_of_it_stays(
    ledger: Ledger, calendar: Calendar
) -> None:
    parent = session_of(ledger, "parent")
    take_turn(parent)
    child = parent.fork("child")
    take_turn(child)
    grandchild = child.fork("grandchild")
    calendar.turn(days=80)
    take_turn(grandchild)
    calendar.turn(days=20)

    receipt = ledger.sweep(HERE, now_ms=time_of(ledger))

    assert receipt.pruned == []
    assert receipt.kept == {"parent": "forked", "child": "forked"}
    assert len(grandchild.history()) == 12


def test_a_family_that_is_old_is_pruned_from_its_youngest(
    ledger: Ledger, calendar: Calendar
) -> None:
    parent = session_of(ledger, "parent")
    take_turn(parent)
    child = parent.fork("child")
    take_turn(child)
    take_turn(child.fork("grandchild"))
    calendar.turn(days=100)

    receipt = ledger.sweep(HERE, now_ms=time_of(ledger))

    assert receipt.pruned == ["grandchild", "child", "parent"]
    assert ledger.admin.verify().intact
    assert content(session_of(ledger, "grandchild")) == []


def test_a_fork_that_was_pruned_before_keeps_its_parent_no_longer(
    ledger: Ledger, calendar: Calendar
) -> None:
    parent = session_of(ledger, "parent")
    take_turn(parent)
    parent.fork("child")
    calendar.turn(days=50)
    take_turn(parent, "two")
    calendar.turn(days=50)
    assert ledger.sweep(HERE, now_ms=time_of(ledger)).pruned == ["child"]

    calendar.turn(days=50)

    assert ledger.sweep(HERE, now_ms=time_of(ledger), dry_run=True).pruned == ["parent"]
    assert ledger.sweep(HERE, now_ms=time_of(ledger)).pruned == ["parent"]


def test_a_fork_of_a_pruned_fork_keeps_the_past_that_it_shares(
    ledger: Ledger, calendar: Calendar
) -> None:
    parent = session_of(ledger, "parent")
    take_turn(parent)
    child = parent.fork("child")
    calendar.turn(days=50)
    take_turn(parent, "two")
    calendar.turn(days=50)
    assert ledger.sweep(HERE, now_ms=time_of(ledger)).pruned == ["child"]
    grandchild = child.fork("grandchild")
    calendar.turn(days=50)
    take_turn(grandchild, "three")

    receipt = ledger.sweep(HERE, now_ms=time_of(ledger))

    assert receipt.kept == {"parent": "forked"}
    assert len(grandchild.history()) == 8


def test_what_is_remembered_outlives_the_session(ledger: Ledger, calendar: Calendar) -> None:
    session = session_of(ledger, title="Trip")
    take_turn(session)
    session.record("memory.stored", "kept", payload={"id": "m1", "key": "colour"})
    session.record("goal.added", "wanted", payload={"id": "g1", "description": "win"})
    calendar.turn(days=100)

    ledger.sweep(HERE, now_ms=time_of(ledger))

    assert session.memory_refs == ["m1"]
    assert session.goals() == []
    assert session.outline().title == "Trip"
    assert list(ledger.sessions(HERE).items) == []


def test_a_pruned_session_can_be_resumed_and_pruned_again(
    ledger: Ledger, calendar: Calendar
) -> None:
    session = session_of(ledger)
    take_turn(session, "one")
    calendar.turn(days=100)
    ledger.sweep(HERE, now_ms=time_of(ledger))

    take_turn(session, "two")
    assert (state(session), len(session.history())) == ("open", 4)
    calendar.turn(days=100)

    assert ledger.sweep(HERE, now_ms=time_of(ledger)).pruned == ["s1"]
    episodes = [event.payload for event in session.events() if event.kind == "episode.written"]
    assert [told["message_count"] for told in episodes] == [3, 3]
    assert "one?" not in episodes[1]["summary"]
    assert ledger.admin.verify().intact


def test_a_session_in_which_nothing_was_said_is_pruned_without_an_episode(
    ledger: Ledger, calendar: Calendar
) -> None:
    session = session_of(ledger)
    session.open()
    calendar.turn(days=100)

    assert ledger.sweep(HERE, now_ms=time_of(ledger)).pruned == ["s1"]
    assert kinds(session) == ["session.opened", "session.closed"]
    assert ledger.sweep(HERE, now_ms=time_of(ledger)).pruned == []


def test_erasures_do_not_keep_a_session_young(ledger: Ledger, calendar: Calendar) -> None:
    take_turn(session_of(ledger))
    calendar.turn(days=70)
    assert ledger.expire(HERE).deleted_total > 0
    calendar.turn(days=20)

    assert ledger.sweep(HERE, now_ms=time_of(ledger)).pruned == ["s1"]


def test_a_long_session_is_pruned_in_rounds_and_stays_pruned(
    ledger: Ledger, calendar: Calendar
) -> None:
    ledger.append([said(str(number)) for number in range(4_500)])
    session = session_of(ledger)
    calendar.turn(days=100)

    assert ledger.sweep(HERE, now_ms=time_of(ledger)).events_expired == 4_500
    assert state(session) == "pruned"
    assert ledger.sweep(HERE, now_ms=time_of(ledger)).pruned == []
    assert ledger.admin.verify().intact


# Sweeps that died.


def test_a_sweep_that_died_after_the_episode_is_finished_by_the_next(
    ledger: Ledger, calendar: Calendar
) -> None:
    session = session_of(ledger)
    take_turn(session)
    calendar.turn(days=100)
    session.write_episode()

    calendar.turn(minutes=60)
    receipt = ledger.sweep(HERE, now_ms=time_of(ledger))

    assert receipt.pruned == ["s1"]
    assert kinds(session).count("episode.written") == 1
    assert content(session) == []


@pytest.mark.parametrize("erased", [0, 2])
def test_a_sweep_that_died_after_the_closing_is_finished_by_the_next(
    ledger: Ledger, calendar: Calendar, erased: int
) -> None:
    session = session_of(ledger)
    take_turn(session)
    calendar.turn(days=100)
    session.close(PRUNED)
    if erased:
        erase_some(ledger, erased)

    calendar.turn(minutes=60)
    foreseen, receipt = (
        ledger.sweep(HERE, now_ms=time_of(ledger), dry_run=True),
        ledger.sweep(HERE, now_ms=time_of(ledger)),
    )

    assert foreseen.pruned == receipt.pruned == ["s1"]
    assert receipt.events_expired == 4 - erased
    assert kinds(session).count("episode.written") == 1
    assert content(session) == []
    assert ledger.sweep(HERE, now_ms=time_of(ledger)).pruned == []
    assert ledger.admin.verify().intact


def test_a_sweep_that_prunes_nothing_finishes_nothing(ledger: Ledger, calendar: Calendar) -> None:
    session = session_of(ledger)
    take_turn(session)
    session.close(PRUNED)

    assert ledger.sweep(HERE, now_ms=time_of(ledger), prune_days=None).pruned == []
    assert len(content(session)) == 4


def test_what_a_sweep_that_died_left_is_not_taken_from_a_fork(
    ledger: Ledger, calendar: Calendar
) -> None:
    session = session_of(ledger)
    take_turn(session)
    calendar.turn(days=100)
    session.close(PRUNED)
    child = session.fork("child")
    take_turn(child)

    receipt = ledger.sweep(HERE, now_ms=time_of(ledger))

    assert receipt.kept == {"s1": "forked"}
    assert len(child.history()) == 8


def erase_some(ledger: Ledger, count: int) -> None:
    """Erase the first events of s1, as a sweep does before it dies."""
    drafter = ledger._drafter
    store_of(ledger).erasure.erase(
        Selection(scope=OURS, session_id="s1", spare=REMAINS),
        erasure="expired",
        limit=count,
        vouch=lambda cover: drafter.vouch(
            treering.NewEvent(
                scope=HERE,
                session_id="s1",
                kind="ledger.expired",
                agent_id=AGENT,
                summary="expired",
                payload={
                    "erasure": "expired",
                    "count": cover.count,
                    "digest": cover.digest.hex(),
                    "ranges": [list(stretch) for stretch in cover.ranges],
                },
            )
        ),
    )


# The bytes.


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[tuple[Ledger, Path]]:
    """Return a ledger in a file, and the file."""
    path = tmp_path / "ledger.db"
    with treering.open(path, guard="off") as ledger:
        yield ledger, path


def test_after_pruning_no_byte_of_the_session_is_in_any_file(on_disk: tuple[Ledger, Path]) -> None:
    ledger, path = on_disk
    dice = Random(7)
    sizes = (60, 3_900, 9_000, 200_000)
    old = [marked_event(dice, f"o{n}", size=size, session_id="s1") for n, size in enumerate(sizes)]
    kept = [marked_event(dice, f"k{n}", size=size, session_id="s2") for n, size in enumerate(sizes)]
    ledger.append([*old, *kept])
    assert shown([*old, *kept], raw_bytes(path)) == {str(e.event_id) for e in (*old, *kept)}

    # The episode tells what was said; here only what was recorded is to be gone.
    ledger.session("s1", scope=HERE, agent="lyria").close("pruned")
    done = expire_session(store_of(ledger), ledger._drafter, OURS, "s1", until_seq=4, spare=REMAINS)
    assert done == 4
    assert store_of(ledger).erasure.finish() == "done"

    left = raw_bytes(path)
    assert shown(old, left) == set()
    assert shown(kept, left) == {str(event.event_id) for event in kept}


def test_after_a_sweep_only_what_the_episode_tells_is_in_the_file(
    on_disk: tuple[Ledger, Path],
) -> None:
    ledger, path = on_disk
    session = session_of(ledger)
    with session.turn() as turn:
        turn.user("Please look into the mark-of-the-question.")
        with turn.tool("look") as call:
            call.finish("mark-of-the-output " * 2_000)
        turn.assistant("Done.")
    later = session.outline().updated_ms + 91 * DAY

    receipt = ledger.sweep(HERE, now_ms=later)

    assert (receipt.pruned, receipt.physical) == (["s1"], "done")
    assert b"mark-of-the-output" not in raw_bytes(path)
    episode = next(event for event in session.events() if event.kind == "episode.written")
    ledger.redact(HERE, event_id=episode.event_id)
    assert b"mark-of-the-question" not in raw_bytes(path)
    assert ledger.admin.verify().intact


@pytest.mark.parametrize("age", [-1, -0.001, float("nan"), float("inf"), "90", True, [1]])
def test_an_age_that_cannot_be_is_refused(ledger: Ledger, calendar: Calendar, age: Any) -> None:
    take_turn(session_of(ledger))
    calendar.turn(days=1)

    for asked in ({"prune_days": age}, {"idle_minutes": age}):
        with pytest.raises(InvalidInput, match="age") as refused:
            ledger.sweep(HERE, **asked)
        assert refused.value.hint
    with pytest.raises(InvalidInput, match="age"):
        ledger.prune(HERE, older_than_days=age, dry_run=True)

    assert state(session_of(ledger)) == "idle"


def test_a_time_that_cannot_be_is_refused(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput):
        ledger.sweep(HERE, now_ms=-1)


def test_runs_without_an_end_keep_a_session_as_they_do_in_retention(
    ledger: Ledger, calendar: Calendar
) -> None:
    ledger.append(run_of("lost", "hello?")[:-1])
    calendar.turn(days=100)

    assert ledger.sweep(HERE, now_ms=time_of(ledger)).kept == {"s1": "running"}
