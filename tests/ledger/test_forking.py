"""Forks: a new session with another's past, up to the end of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, run_of, said
from ledger.counted import Counted
from ports import store_of
from treering import Conflict, Header, InvalidInput, Ledger, NotFound, Session
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable


@pytest.fixture
def session(ledger: Ledger) -> Session:
    """Return a fresh session."""
    return ledger.session("s1", scope=HERE, agent="lyria", user="u1")


def take_turn(session: Session, name: str) -> dict[str, Header]:
    """Record a turn with a tool call; return its events by kind."""
    with session.turn(model="opus") as turn:
        turn.user(f"{name}?")
        with turn.tool("weather", {"at": name}, call_id=name) as call:
            call.finish(f"{name} seen")
        turn.emit("usage.reported", {"model": "opus", "input_tokens": 10, "output_tokens": 1})
        turn.assistant(f"{name}!")
    run = [header for header in session.headers(last=20) if header.run_id == turn.run_id]
    return {header.kind: header for header in run}


def fail_turn(session: Session, name: str) -> None:
    """Record a turn that fails."""
    turn = session.turn()
    turn.start()
    turn.user(f"{name}?")
    turn.fail("no luck")


def words(session: Session) -> list[str]:
    """Return what was said, by anybody but tools."""
    return [str(told["content"]) for told in session.history() if told["role"] != "tool"]


def asked(session: Session) -> list[str]:
    return [told["content"] for told in session.history() if told["role"] == "user"]


def records(ledger: Ledger, session_id: str) -> list[Any]:
    return list(store_of(ledger).reader.records(Scope(HERE), session_id, after_seq=0, limit=1_000))


# Where a fork leaves.


@pytest.mark.parametrize(
    "kind",
    [
        "run.started", "conversation.user", "tool.call", "tool.result", "usage.reported",
        "conversation.assistant", "run.ended",
    ],
)  # fmt: skip
def test_whatever_event_of_a_turn_is_named_the_fork_has_that_turn_whole(
    session: Session, kind: str
) -> None:
    take_turn(session, "one")
    events = take_turn(session, "two")
    take_turn(session, "three")

    child = session.fork(at=events[kind].event_id)

    assert asked(child) == ["one?", "two?"]
    assert child.outline().forked_seq == events["run.ended"].seq


def test_an_event_between_turns_goes_with_the_turn_before_it(session: Session) -> None:
    take_turn(session, "one")
    first = session.record("ops.observation", "it rains")
    last = session.record("ops.observation", "it pours")
    take_turn(session, "two")

    child = session.fork(at=first.event_id)

    assert asked(child) == ["one?"]
    assert child.outline().forked_seq == last.seq


def test_a_mark_far_behind_what_its_run_said_goes_with_the_run(
    ledger: Ledger, session: Session
) -> None:
    with session.turn() as turn:
        turn.user("one?")
        ledger.append([said("it rains", kind="ops.observation") for _ in range(1_200)])
        mark = session.record("ops.observation", "it pours")
        turn.user("two?")
    take_turn(session, "three")

    assert asked(session.fork(at=mark.event_id)) == ["one?", "two?"]


def test_several_questions_of_one_run_are_not_parted(session: Session) -> None:
    with session.turn() as turn:
        first = turn.user("one?")
        turn.assistant("one!")
        turn.user("two?")
        turn.assistant("two!")
    take_turn(session, "three")

    assert asked(session.fork(at=first.event_id)) == ["one?", "two?"]


def test_a_failed_turn_behind_the_event_is_left_behind(session: Session) -> None:
    events = take_turn(session, "one")
    fail_turn(session, "two")

    child = session.fork(at=events["conversation.user"].event_id)

    assert child.outline().forked_seq == events["run.ended"].seq
    assert [turn.prompt for turn in child.turns()] == ["one?"]


def test_a_failed_turn_can_be_named_and_counts_as_little_as_before(session: Session) -> None:
    take_turn(session, "one")
    fail_turn(session, "two")
    failed = next(header for header in session.headers() if header.summary == "two?")

    child = session.fork(at=failed.event_id)

    assert asked(child) == ["one?"]
    assert [turn.state for turn in child.turns()] == ["ended", "failed"]


def test_an_event_of_a_turn_that_is_under_way_is_refused(session: Session) -> None:
    take_turn(session, "one")
    with session.turn() as turn:
        event = turn.user("two?")
        with pytest.raises(InvalidInput, match="has not ended") as refused:
            session.fork(at=event.event_id)

    assert refused.value.hint
    assert asked(session.fork(at=event.event_id)) == ["one?", "two?"]


def test_without_an_event_the_fork_leaves_before_the_turn_that_is_under_way(
    session: Session,
) -> None:
    events = take_turn(session, "one")
    with session.turn() as turn:
        turn.user("two?")
        child = session.fork()

    assert asked(child) == ["one?"]
    assert child.outline().forked_seq == events["run.ended"].seq
    assert asked(session) == ["one?", "two?"]


def test_without_an_event_all_that_has_ended_is_shared(session: Session) -> None:
    take_turn(session, "one")
    fail_turn(session, "two")
    last = session.record("ops.observation", "it rains")

    assert session.fork().outline().forked_seq == last.seq


def test_events_without_runs_are_parted_at_questions(ledger: Ledger, session: Session) -> None:
    answer = {"kind": "conversation.assistant"}
    found = ledger.append(
        [said("one?"), said("one!", **answer), said("two?"), said("two!", **answer)]
    )

    assert words(session.fork(at=found[0].event_id)) == ["one?", "one!"]
    assert words(session.fork(at=found[1].event_id)) == ["one?", "one!"]
    assert words(session.fork(at=found[2].event_id)) == ["one?", "one!", "two?", "two!"]


def test_a_run_that_answers_a_question_asked_before_it_goes_with_that_question(
    session: Session,
) -> None:
    """A turn extends through all subsequent events until the next user message."""
    question = session.record("conversation.user", "one?", payload={"text": "one?"})
    with session.turn() as turn:
        turn.assistant("one!")
    take_turn(session, "two")

    child = session.fork(at=question.event_id)

    assert words(child) == ["one?", "one!"]


def test_a_run_without_a_question_that_is_under_way_is_left_behind(session: Session) -> None:
    events = take_turn(session, "one")
    with session.turn() as turn:
        turn.assistant("by the way")
        child = session.fork(at=events["conversation.user"].event_id)

    assert child.outline().forked_seq == events["run.ended"].seq


def test_a_run_ends_even_if_somebody_else_speaks_meanwhile(session: Session) -> None:
    with session.turn() as turn:
        first = turn.user("one?")
        session.record("conversation.user", "hello?", payload={"text": "hello?"})
        turn.assistant("one!")
    take_turn(session, "two")

    assert words(session.fork(at=first.event_id)) == ["one?", "hello?", "one!"]


def test_a_mark_that_stands_in_a_run_is_not_parted_from_it(session: Session) -> None:
    with session.turn() as turn:
        early = session.checkpoint("before the question")
        turn.user("one?")
        late = session.checkpoint("between questions")
        turn.user("two?")
        for mark in (early, late):
            with pytest.raises(InvalidInput, match="has not ended"):
                session.fork(at=mark.event_id)
    take_turn(session, "three")

    for mark in (early, late):
        child = session.fork(at=mark.event_id)
        assert [turn.prompt for turn in child.turns()] == ["one?", "two?"]
        assert {turn.state for turn in child.turns()} == {"ended"}


def test_an_event_behind_a_run_that_nobody_ends_can_be_forked_at(
    ledger: Ledger, session: Session
) -> None:
    ledger.append(run_of("lost", "hello?")[:-1])
    question, _ = ledger.append([said("one?"), said("two?")])

    assert asked(session.fork(at=question.event_id)) == ["one?"]


def test_a_fork_at_a_turn_that_was_undone_has_that_turn(session: Session) -> None:
    take_turn(session, "one")
    events = take_turn(session, "two")
    session.undo()

    child = session.fork(at=events["conversation.user"].event_id)

    assert asked(child) == ["one?", "two?"]
    assert asked(session) == ["one?"]


def test_a_fork_at_the_end_knows_what_was_undone_and_can_redo_it(session: Session) -> None:
    take_turn(session, "one")
    take_turn(session, "two")
    session.undo()

    child = session.fork()

    assert asked(child) == ["one?"]
    child.redo()
    assert asked(child) == ["one?", "two?"]
    assert asked(session) == ["one?"]


def test_a_run_that_nobody_will_ever_end_keeps_no_later_turn_from_a_fork(
    ledger: Ledger, session: Session
) -> None:
    ledger.append(run_of("lost", "hello?")[:-1])
    take_turn(session, "one")

    assert asked(session.fork()) == ["one?"]


@pytest.mark.parametrize("elsewhere", ["unknown", "another session", "another scope", "later"])
def test_an_event_that_is_not_of_its_past_is_refused(
    ledger: Ledger, session: Session, elsewhere: str
) -> None:
    events = take_turn(session, "one")
    child = session.fork(at=events["run.ended"].event_id)
    ids = {
        "unknown": "no-such-event",
        "another session": ledger.append([said(session_id="s2")])[0].event_id,
        "another scope": ledger.append([said(scope=ELSEWHERE)])[0].event_id,
        "later": take_turn(session, "two")["conversation.user"].event_id,
    }

    with pytest.raises(NotFound):
        child.fork(at=ids[elsewhere])


def test_a_session_without_a_past_cannot_be_forked(session: Session) -> None:
    with pytest.raises(NotFound, match="no past"):
        session.fork()


def test_a_session_that_exists_is_not_taken_for_a_fork(ledger: Ledger, session: Session) -> None:
    take_turn(session, "one")
    other = ledger.session("s2", scope=HERE, agent="lyria")
    take_turn(other, "another")
    before = records(ledger, "s2")

    for taken in ("s1", "s2"):
        with pytest.raises(Conflict):
            session.fork(taken)

    assert records(ledger, "s2") == before
    assert asked(session) == ["one?"]


def test_a_fork_has_a_name_of_its_own_if_none_is_given(session: Session) -> None:
    take_turn(session, "one")

    names = {session.fork().session_id for _ in range(5)}

    assert len(names) == 5
    assert all(name.startswith("s1-fork-") for name in names)


# What a fork is.


def test_a_fork_goes_on_by_itself_and_the_parent_does_not_change(
    ledger: Ledger, session: Session
) -> None:
    take_turn(session, "one")
    before = records(ledger, "s1")

    child = session.fork("branch")
    take_turn(child, "left")
    child.undo()
    child.redo()
    child.rename("Branch")
    child.compact(keep=1)
    child.close()

    assert records(ledger, "s1") == before
    take_turn(session, "right")
    assert asked(child) == ["one?", "left?"]
    assert asked(session) == ["one?", "right?"]
    assert ledger.admin.verify().intact


def test_a_fork_reads_as_one_timeline(session: Session) -> None:
    take_turn(session, "one")
    child = session.fork("branch")
    take_turn(child, "two")

    headers = list(child.headers())

    assert [header.seq for header in headers] == list(range(1, len(headers) + 1))
    assert [header.kind for header in headers].count("session.forked") == 1
    assert list(child.headers(first=3)) == headers[:3]
    assert list(child.headers(last=12)) == headers[-12:]
    assert [event.event_id for event in child.events()] == [one.event_id for one in headers]


def test_the_first_event_of_a_fork_says_where_it_left(session: Session) -> None:
    events = take_turn(session, "one")
    at = events["tool.call"].event_id

    child = session.fork("branch", at=at)

    forked = next(event for event in child.events() if event.kind == "session.forked")
    assert forked.seq == events["run.ended"].seq + 1
    assert forked.refs == {
        "parent": "s1", "at_seq": events["run.ended"].seq, "at_event": at, "mode": "main",
    }  # fmt: skip


def test_a_fork_of_a_fork_has_both_pasts(ledger: Ledger, session: Session) -> None:
    take_turn(session, "one")
    child = session.fork("child")
    take_turn(child, "two")
    grandchild = child.fork("grandchild")
    take_turn(grandchild, "three")
    take_turn(child, "other")
    take_turn(session, "another")

    assert asked(grandchild) == ["one?", "two?", "three?"]
    assert grandchild.outline().parent == "child"
    family = ledger.family(HERE, "grandchild")
    assert family.session.session_id == "s1"
    assert family.forks[0].session.session_id == "child"
    assert family.forks[0].forks[0].session.session_id == "grandchild"
    assert ledger.admin.verify().intact


def test_a_fork_inside_a_shared_past_leaves_the_ancestor(ledger: Ledger, session: Session) -> None:
    first = take_turn(session, "one")
    take_turn(session, "two")
    child = session.fork("child")
    take_turn(child, "three")

    second = child.fork("second", at=first["conversation.user"].event_id)

    assert second.outline().parent == "s1"
    assert second.outline().forked_seq == first["run.ended"].seq
    assert asked(second) == ["one?"]
    names = [fork.session.session_id for fork in ledger.family(HERE, "s1").forks]
    assert names == ["child", "second"]


def test_many_forks_in_a_row_read_as_one_timeline(ledger: Ledger, session: Session) -> None:
    last = session
    for number in range(12):
        take_turn(last, str(number))
        last = last.fork(f"fork-{number}")

    assert asked(last) == [f"{number}?" for number in range(12)]
    assert len(list(last.tool_calls())) == 12
    assert ledger.admin.verify().intact


def test_a_run_that_ended_behind_the_cut_does_not_count_in_the_fork(
    ledger: Ledger, session: Session
) -> None:
    take_turn(session, "one")
    run = run_of("late", "two?")
    ledger.append(run[:-1])
    mark = session.record("ops.observation", "it rains")
    child = session.fork(at=mark.event_id)

    ledger.append(run[-1:])

    assert asked(session) == ["one?", "two?"]
    assert asked(child) == ["one?"]


def test_what_a_session_was_opened_as_goes_to_its_forks(ledger: Ledger) -> None:
    parent = ledger.session(
        "s1", scope=HERE, agent="lyria", user="u1", channel="telegram", mode="group",
        participants=("u1", "u2"), key="other:1", tools=("weather",), title="Parent",
        isolation=treering.views.Isolation(browser_access="none"),
    )  # fmt: skip
    take_turn(parent, "one")

    parent.fork("branch", title="Branch")

    settings = ledger.session("branch", scope=HERE, agent="lyria").settings
    assert (settings.mode, settings.channel, settings.participants) == (
        "group", "telegram", ("u1", "u2"),
    )  # fmt: skip
    assert settings.tools == ("weather",)
    assert settings.isolation == treering.views.Isolation(browser_access="none")
    assert (settings.title, settings.key) == ("Branch", None)


def test_a_fork_may_be_another_agents(session: Session) -> None:
    take_turn(session, "one")

    child = session.fork("branch", agent="nova")
    take_turn(child, "two")

    assert child.outline().agent == "nova"
    assert session.outline().agent == "lyria"


def test_messages_that_wait_in_a_queue_do_not_wait_in_its_fork(ledger: Ledger) -> None:
    queue = ledger.session("s1", scope=HERE, agent="lyria", mode="queue")
    queue.post("one?")
    queue.post("two?")
    with cast("Any", queue.take()) as run:
        run.assistant("one!")

    child = queue.fork("branch")

    assert child.settings.mode == "queue"
    assert child.take() is None
    assert asked(child) == ["one?"]
    child.post("three?")
    with cast("Any", child.take()) as run:
        assert run.message.text == "three?"
    with cast("Any", queue.take()) as run:
        assert run.message.text == "two?"


def test_views_of_a_fork_hold_both_pasts(session: Session) -> None:
    events = take_turn(session, "one")
    session.record("goal.added", "a goal", payload={"id": "g1", "description": "win"})
    child = session.fork("branch")
    take_turn(child, "two")
    take_turn(session, "unknown to the fork")
    session.record("goal.removed", "no goal", payload={"id": "g1"})

    assert [turn.prompt for turn in child.turns()] == ["one?", "two?"]
    assert [turn.prompt for turn in child.turns(last=1)] == ["two?"]
    assert [call.call_id for call in child.tool_calls()] == ["one", "two"]
    assert [call.call_id for call in child.tool_calls(last=1)] == ["two"]
    assert [call.call_id for call in child.tool_calls(last=5)] == ["one", "two"]
    assert child.usage().total.input_tokens == 20
    assert child.summary().turns == 2
    assert [goal.id for goal in child.goals()] == ["g1"]
    assert session.goals() == []
    assert child.history(last=2) == child.history()[-3:]
    assert events["conversation.user"].event_id in child.context().event_ids


def test_the_last_of_a_fork_is_not_what_its_parent_did_since(session: Session) -> None:
    for name in ("one", "two", "three"):
        with session.turn() as turn:
            turn.user(f"{name}?")
            turn.context()
            with turn.tool("weather", call_id=name) as call:
                call.finish("seen")
        if name == "one":
            child = session.fork("branch")

    assert [call.call_id for call in child.tool_calls(last=1)] == ["one"]
    assert [call.call_id for call in child.tool_calls()] == ["one"]
    [shown] = child.shown(last=1)
    assert shown.exact
    assert shown.context.messages == [{"role": "user", "content": "one?"}]
    assert [one.seq for one in child.shown(turn=1)] == [shown.seq]
    assert [turn.prompt for turn in child.turns(last=2)] == ["one?"]
    assert child.history(last=1) == child.history()[-2:]


def test_a_sealed_session_is_forked_as_any_other(ledger: Ledger, session: Session) -> None:
    ledger.keys.create(HERE)
    take_turn(session, "one")
    child = session.fork("branch", title="Branch")
    ledger.keys.rotate(HERE)
    take_turn(child, "two")

    assert asked(child) == ["one?", "two?"]
    assert child.outline().title == "Branch"
    assert ledger.admin.verify().intact


def test_the_context_of_a_fork_is_that_of_one_session(ledger: Ledger, session: Session) -> None:
    take_turn(session, "one")
    child = session.fork("branch")
    take_turn(child, "two")
    whole = ledger.session("whole", scope=HERE, agent="lyria")
    for name in ("one", "two"):
        take_turn(whole, name)

    def told(one: Session, tokens: int | None) -> list[str]:
        return [str(message["content"]) for message in one.context(tokens).messages]

    for tokens in (None, 400, 60):
        assert told(child, tokens) == told(whole, tokens)


def test_undo_in_a_fork_reaches_into_the_shared_past_and_stays_there(session: Session) -> None:
    for name in ("one", "two"):
        take_turn(session, name)
    child = session.fork("branch")
    take_turn(child, "three")

    child.undo(turns=2)

    assert asked(child) == ["one?"]
    assert asked(session) == ["one?", "two?"]
    assert [turn.is_undone for turn in child.turns()] == [False, True, True]
    assert [turn.is_undone for turn in session.turns()] == [False, False]
    child.redo()
    assert asked(child) == ["one?", "two?", "three?"]


def test_undo_in_the_parent_behind_the_cut_does_not_reach_the_fork(session: Session) -> None:
    for name in ("one", "two"):
        take_turn(session, name)
    child = session.fork("branch")

    session.undo(turns=2)

    assert asked(session) == []
    assert asked(child) == ["one?", "two?"]


# What is erased.


def test_what_is_redacted_of_the_shared_past_is_gone_for_both(
    ledger: Ledger, session: Session
) -> None:
    events = take_turn(session, "secret")
    child = session.fork("branch")

    ledger.redact(HERE, event_id=events["conversation.user"].event_id)

    assert asked(session) == asked(child)
    assert "secret" not in str(asked(child)) + str(child.context().messages[0])
    assert ledger.admin.verify().intact
    assert ledger.admin.verify(HERE, session_id="branch").intact


def test_what_a_fork_tells_in_other_words_goes_with_the_shared_past(
    ledger: Ledger, session: Session
) -> None:
    events = take_turn(session, "secret")
    child = session.fork("branch")
    take_turn(child, "two")
    child.compact(keep=1)
    child.write_episode()
    assert "secret?" in child.context().messages[0]["content"]

    ledger.redact(HERE, event_id=events["conversation.user"].event_id)

    told = f"{child.context().messages}{[event.payload for event in child.events()]}"
    assert "secret?" not in told
    assert "two?" in told
    assert ledger.admin.verify().intact


def test_what_expires_of_the_shared_past_is_gone_for_both(ledger: Ledger, session: Session) -> None:
    take_turn(session, "one")
    child = session.fork("branch")

    ledger.expire(HERE, now_ms=int(session.outline().updated_ms) + 100 * DAY)

    assert "one" not in str(session.history()) + str(child.history())
    assert ledger.admin.verify().intact


def test_redacting_a_fork_leaves_the_parent_its_past(ledger: Ledger, session: Session) -> None:
    take_turn(session, "one")
    child = session.fork("branch")
    take_turn(child, "two")

    ledger.redact(HERE, session_id="branch")

    assert asked(session) == ["one?"]
    assert "two" not in str(child.history())
    assert "one?" in asked(child)
    assert ledger.admin.verify().intact


def test_views_that_a_fork_has_kept_know_what_is_erased_of_the_shared_past(
    ledger: Ledger, session: Session
) -> None:
    goal = session.record("goal.added", "a goal", payload={"id": "g1", "description": "secret"})
    take_turn(session, "one")
    child = session.fork("branch")
    child.append([said("x", session_id="branch", kind="ops.observation")] * 1_100)
    assert [one.description for one in child.goals()] == ["secret"]

    ledger.redact(HERE, event_id=goal.event_id)

    assert child.goals() == []
    assert ledger.session("branch", scope=HERE, agent="lyria").goals() == []


# What it costs.


@pytest.mark.parametrize("named", [True, False])
def test_a_fork_costs_the_same_however_long_the_past_is(
    open_ledger: Callable[[], Ledger], *, named: bool
) -> None:
    costs: list[Counter[str]] = []
    for turns in (20, 150):  # A session of a page or less costs one read less.
        ledger = open_ledger()
        session = ledger.session("s1", scope=HERE, agent="lyria")
        session.open()
        for number in range(turns):
            ledger.append(run_of(f"r{number}", f"{number}?"))
        counted = Counted(store_of(ledger))
        session._store = session._lineage.store = cast("Any", counted)
        first = next(header for header in session.headers() if header.kind == "conversation.user")
        before = ledger.admin.verify().events
        counted.asked.clear()

        session.fork("branch", at=first.event_id if named else None)

        costs.append(counted.asked)
        assert ledger.admin.verify().events == before + 1

    assert costs[0] == costs[1]


def test_the_last_turns_of_a_line_of_forks_read_little_of_the_first_session(
    ledger: Ledger, session: Session
) -> None:
    session.open()
    ledger.append([event for n in range(400) for event in run_of(f"r{n}", f"{n}?")])
    for _ in range(6):
        session = session.fork()
        take_turn(session, "fork")
    counted = Counted(store_of(ledger))
    session._store = session._lineage.store = cast("Any", counted)

    found = [turn.prompt for turn in session.turns(last=7)]

    assert found == ["399?", *["fork?"] * 6]
    assert counted.items["last_by_seq"] < 200
