"""Modes of sessions: one for each person, one for each group, and what a group keeps away from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import ELSEWHERE, HERE
from treering import Header, InvalidInput, Ledger, Session
from treering.errors import RunActive, ToolDenied
from treering.model.sessions import GROUP_TOOLS
from treering.views import Isolation

if TYPE_CHECKING:
    from pathlib import Path

    from postgres_server import Places


@pytest.fixture
def location(request: pytest.FixtureRequest, shared_database: str, tmp_path: Path) -> str:
    """Return where a ledger is that is opened again, on each database in turn."""
    if shared_database == "file":
        return str(tmp_path / "ledger.db")
    places: Places = request.getfixturevalue("postgres")
    return places.fresh()


@pytest.fixture
def group(ledger: Ledger) -> Session:
    """Return the session of a group."""
    return ledger.group_session(
        "telegram", "g7", scope=HERE, agent="lyria", participants=("u1", "u2")
    )


def take_turn(session: Session, text: str = "hello?") -> tuple[Header, Header]:
    with session.turn() as turn:
        return turn.user(text), turn.assistant("hello!")


# Main.


def test_a_person_has_one_session_on_a_channel(ledger: Ledger) -> None:
    first = ledger.main_session("telegram", "u1", scope=HERE, agent="lyria")
    take_turn(first)
    again = ledger.main_session("telegram", "u1", scope=HERE, agent="lyria")
    other = ledger.main_session("telegram", "u2", scope=HERE, agent="lyria")
    elsewhere = ledger.main_session("irc", "u1", scope=HERE, agent="lyria")

    assert first.session_id == "main:telegram:u1"
    assert len(again.history()) == 2
    assert other.history() == elsewhere.history() == []
    settings = again.settings
    assert (settings.mode, settings.channel, settings.participants) == ("main", "telegram", ("u1",))
    assert {header.user_id for header in again.headers()} == {"u1"}


def test_a_person_of_another_scope_has_another_session(ledger: Ledger) -> None:
    take_turn(ledger.main_session("telegram", "u1", scope=HERE, agent="lyria"))

    there = ledger.main_session("telegram", "u1", scope=ELSEWHERE, agent="lyria")

    assert there.history() == []


def test_a_main_session_may_use_all_tools_and_keeps_away_from_nothing(ledger: Ledger) -> None:
    session = ledger.main_session("telegram", "u1", scope=HERE, agent="lyria")

    assert session.isolation is None
    assert all(session.permits(tool) for tool in (*GROUP_TOOLS, "file_system", "email"))


def test_a_main_session_refuses_a_second_turn_and_a_group_lets_it_wait(
    ledger: Ledger, group: Session
) -> None:
    session = ledger.main_session("telegram", "u1", scope=HERE, agent="lyria")
    with session.turn(), pytest.raises(RunActive):
        session.turn().start()

    assert (session.turn_wait_s, group.turn_wait_s) == (0.0, 60.0)


# Groups.


def test_a_group_has_one_session(ledger: Ledger, group: Session) -> None:
    take_turn(group)

    again = ledger.group_session("telegram", "g7", scope=HERE, agent="lyria")

    assert group.session_id == "group:telegram:g7"
    assert len(again.history()) == 2
    assert (again.settings.mode, again.settings.channel) == ("group", "telegram")
    assert again.settings.participants == ("u1", "u2")
    assert ledger.group_session("telegram", "g8", scope=HERE, agent="lyria").history() == []


def test_a_group_is_isolated_unless_it_is_opened_otherwise(ledger: Ledger, group: Session) -> None:
    walls = group.isolation
    assert walls is not None
    assert (walls.sandbox, walls.file_access) == (True, False)
    assert (walls.browser_access, walls.cross_user_memory) == ("read_only", False)

    given = Isolation(sandbox=True, file_access=True, browser_access="full")
    other = ledger.group_session("telegram", "g8", scope=HERE, agent="lyria", isolation=given)

    assert other.isolation == given


def test_a_group_has_few_tools_unless_it_is_given_others(ledger: Ledger, group: Session) -> None:
    assert [tool for tool in (*GROUP_TOOLS, "file_system", "email") if group.permits(tool)] == [
        "web_search", "web_browse", "code_execute_sandboxed", "weather", "calculator",
    ]  # fmt: skip

    other = ledger.group_session("telegram", "g8", scope=HERE, agent="lyria", tools=["calendar"])

    assert other.permits("calendar")
    assert not other.permits("weather")


def test_a_tool_that_a_group_may_not_use_does_not_run(group: Session) -> None:
    ran: list[str] = []

    def call(tool: str) -> None:
        with group.turn() as turn, turn.tool(tool):
            ran.append(tool)

    call("weather")
    with pytest.raises(ToolDenied):
        call("file_system")

    assert ran == ["weather"]


@pytest.mark.parametrize(
    "text", ["lyria, help", "Hey @lyria!", "LYRIA?", "ask @Lyria: now", "(lyria)", "nova can help"]
)
def test_in_a_group_the_agent_is_meant_when_it_is_mentioned(group: Session, text: str) -> None:
    assert group.is_addressed(text, names=["nova"])


@pytest.mark.parametrize(
    "text", ["hello all", "lyrian songs", "me@lyria.example", "@@lyria", "", "mylyria"]
)
def test_in_a_group_the_agent_is_not_meant_otherwise(group: Session, text: str) -> None:
    assert not group.is_addressed(text, names=["", "@"])


def test_in_a_group_the_agent_is_meant_by_a_reply_to_it(ledger: Ledger, group: Session) -> None:
    question, answer = take_turn(group)
    _, other = take_turn(ledger.group_session("irc", "g1", scope=HERE, agent="lyria"))
    child = group.fork("branch")

    assert group.is_addressed("why?", reply_to=answer.event_id)
    assert child.is_addressed("why?", reply_to=answer.event_id)
    assert not group.is_addressed("why?", reply_to=question.event_id)
    assert not group.is_addressed("why?", reply_to=other.event_id)
    assert not group.is_addressed("why?", reply_to="unknown")


def test_in_a_group_of_two_agents_each_is_meant_by_a_reply_to_its_own_answer(
    ledger: Ledger, group: Session
) -> None:
    other = ledger.session(group.session_id, scope=HERE, agent="nova")
    _, ours = take_turn(group)
    _, theirs = take_turn(other)

    for session, answer, is_meant in (
        (group, ours, True),
        (group, theirs, False),
        (other, ours, False),
        (other, theirs, True),
    ):
        assert session.is_addressed("why?", reply_to=answer.event_id) is is_meant


@pytest.mark.parametrize("mode", ["main", "queue"])
def test_outside_groups_the_agent_is_always_meant(ledger: Ledger, mode: Any) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria", mode=mode)

    assert session.is_addressed("hello")


# What it was opened as.


def test_what_a_session_was_opened_as_outlives_a_restart(location: str) -> None:
    walls = Isolation(browser_access="none", cross_user_memory=True)
    with treering.open(location) as ledger:
        group = ledger.group_session(
            "telegram", "g7", scope=HERE, agent="lyria", participants=("u1",), tools=("weather",),
            isolation=walls,
        )  # fmt: skip
        take_turn(group)
        take_turn(ledger.main_session("irc", "u1", scope=HERE, agent="lyria"))

    with treering.open(location) as ledger:
        again = ledger.session("group:telegram:g7", scope=HERE, agent="lyria")
        assert (again.settings.mode, again.settings.channel) == ("group", "telegram")
        assert (again.settings.participants, again.settings.tools) == (("u1",), ("weather",))
        assert again.isolation == walls
        assert not again.permits("calculator")
        assert len(again.history()) == 2
        main = ledger.session("main:irc:u1", scope=HERE, agent="lyria")
        assert (main.settings.mode, len(main.history())) == ("main", 2)


def test_a_session_cannot_be_taken_for_one_of_another_mode(ledger: Ledger, group: Session) -> None:
    group.open()

    with pytest.raises(InvalidInput, match="opened as group"):
        ledger.session(group.session_id, scope=HERE, agent="lyria", mode="main").open()


def test_a_group_whose_opening_was_erased_has_no_more_tools_than_before(
    ledger: Ledger, group: Session
) -> None:
    take_turn(group)
    ledger.redact(HERE, session_id=group.session_id)

    again = ledger.session(group.session_id, scope=HERE, agent="lyria")

    assert not again.permits("file_system")
    assert not again.fork("branch").permits("file_system")


# What it remembers and works on.


def test_memories_that_a_session_keeps_are_told_by_their_ids(group: Session) -> None:
    with group.turn() as turn:
        turn.user("I like tea.")
        turn.emit("memory.stored", {"id": "m1", "key": "drink"})
        turn.emit("memory.stored", {"id": "m2", "key": "city"})
    group.record("memory.forgotten", "forgotten", payload={"id": "m2"})
    failed = group.turn()
    failed.start()
    failed.emit("memory.stored", {"id": "m3", "key": "pet"})
    failed.fail("no luck")

    assert group.memory_refs == ["m1"]


def test_what_a_session_works_on_is_its_goals_and_schedules(location: str) -> None:
    with treering.open(location) as ledger:
        session = ledger.main_session("telegram", "u1", scope=HERE, agent="lyria")
        with session.turn() as turn:
            turn.user("Book a flight, and remind me.")
            turn.emit("goal.added", {"id": "g1", "description": "book a flight"})
            turn.emit("goal.added", {"id": "g2", "description": "pay", "parent": "g1"})
            turn.emit("schedule.added", {"id": "c1", "prompt": "remind me"})
        with session.turn() as turn:
            turn.user("It is booked.")
            turn.emit("goal.updated", {"id": "g1", "status": "completed"})
            turn.emit("goal.removed", {"id": "g2"})
            turn.emit("schedule.fired", {"id": "c1"})

    with treering.open(location) as ledger:
        again = ledger.main_session("telegram", "u1", scope=HERE, agent="lyria")
        goals, schedules = again.goals(), again.schedules()
        assert [(goal.id, goal.status) for goal in goals] == [("g1", "completed")]
        assert [(one.id, one.prompt, one.fired) for one in schedules] == [("c1", "remind me", 1)]
        again.undo()
        assert [(goal.id, goal.status) for goal in again.goals()] == [
            ("g1", "active"),
            ("g2", "active"),
        ]


@pytest.mark.parametrize("channel", ["a:b", "", " "])
def test_a_channel_that_could_be_taken_for_another_is_refused(ledger: Ledger, channel: str) -> None:
    with pytest.raises(InvalidInput, match="invalid channel"):
        ledger.group_session(channel, "c", scope=HERE, agent="lyria")
    with pytest.raises(InvalidInput, match="invalid channel"):
        ledger.main_session(channel, "c", scope=HERE, agent="lyria")
