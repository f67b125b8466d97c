"""Groups on every database: facts about a member stay out, facts learned in the group stay in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders import HERE, said
from treering import InvalidInput, NotFound
from treering.views import Isolation

if TYPE_CHECKING:
    from treering import Ledger, Session
    from treering.memory.memory import Memory

QUERY = "dark mode, or the launch on Friday"


@pytest.fixture
def group(ledger: Ledger) -> Session:
    """Return the session of a group of two, with something said in it."""
    return opened(ledger, "g7")


def opened(ledger: Ledger, group_id: str, isolation: Isolation | None = None) -> Session:
    session = ledger.group_session(
        "telegram", group_id, scope=HERE, agent="lyria", participants=("ann", "bob"),
        isolation=isolation,
    )  # fmt: skip
    session.record("conversation.user", "The launch is on Friday")
    return session


def recalled(memory: Memory, user: str | None, session: Session | None) -> set[str]:
    where = None if session is None else session.session_id
    found = memory.recall(QUERY, user=user, session_id=where, record=False)
    return {one.fact.text for one in found.fact_hits}


def test_a_group_and_its_members_know_nothing_of_each_other(
    ledger: Ledger, memory: Memory, group: Session
) -> None:
    other = opened(ledger, "g8")
    memory.learn("Prefers dark mode", user="ann")
    memory.learn("The launch is on Friday", session_id=group.session_id)
    memory.learn("Prefers the launch on Friday", user="ann", session_id=group.session_id)

    inside = {"The launch is on Friday", "Prefers the launch on Friday"}
    assert recalled(memory, "ann", group) == inside
    assert recalled(memory, "bob", group) == {"The launch is on Friday"}
    assert recalled(memory, "ann", None) == {"Prefers dark mode"}
    assert recalled(memory, "ann", other) == set()
    assert {fact.text for fact in memory.facts().items if fact.group} == inside


def test_a_group_may_be_opened_without_the_wall(ledger: Ledger, memory: Memory) -> None:
    group = opened(ledger, "g7", Isolation(cross_user_memory=True))
    memory.learn("Prefers dark mode", user="ann")
    memory.learn("The launch is on Friday", session_id=group.session_id)

    known = {"Prefers dark mode", "The launch is on Friday"}
    assert recalled(memory, "ann", group) == recalled(memory, "ann", None) == known


def test_sessions_of_other_modes_share_what_is_known(ledger: Ledger, memory: Memory) -> None:
    queue = ledger.session("q1", scope=HERE, agent="lyria", user="ann", mode="queue")
    queue.post("Dark mode, please")
    main = ledger.main_session("telegram", "ann", scope=HERE, agent="lyria")
    main.record("conversation.user", "The launch is on Friday")
    memory.learn("Prefers dark mode", user="ann", session_id="q1")
    memory.learn("The launch is on Friday", user="ann", session_id=main.session_id)

    known = {"Prefers dark mode", "The launch is on Friday"}
    assert recalled(memory, "ann", queue) == recalled(memory, "ann", main) == known


def test_the_same_thing_learnt_on_both_sides_of_a_wall_is_two_facts(
    memory: Memory, group: Session
) -> None:
    inside = memory.learn("Lives in Ghent", user="ann", session_id=group.session_id)
    outside = memory.learn("Lives in Ghent", user="ann")

    assert outside.outcome == "stored"
    moved = memory.learn("Lives in Porto", user="ann", session_id=group.session_id)
    assert moved.superseded == (inside.fact_id,)
    assert memory.fact(outside.fact_id).state == "current"


def test_no_evidence_crosses_a_wall(ledger: Ledger, memory: Memory, group: Session) -> None:
    ledger.append([said("Dark mode!", event_id="outside", user_id="ann")])
    inside = group.record("conversation.user", "Dark mode!").event_id

    for evidence, session in ((inside, "s1"), ("outside", group.session_id)):
        with pytest.raises(InvalidInput, match="a group's facts"):
            memory.learn("Prefers dark mode", user="ann", evidence=[evidence], session_id=session)
    assert memory.learn("Prefers dark mode", user="ann", evidence=[inside]).believed

    assert recalled(memory, "ann", None) == set()
    assert recalled(memory, "ann", group) == {"Prefers dark mode"}


def test_a_group_that_nobody_has_spoken_in_has_its_wall(ledger: Ledger, memory: Memory) -> None:
    memory.learn("Prefers dark mode", user="ann")
    group = ledger.group_session("telegram", "new", scope=HERE, agent="lyria")

    assert recalled(memory, "ann", group) == set()
    with pytest.raises(NotFound, match="no session group:telegram:new"):
        memory.learn("The launch is on Friday", session_id=group.session_id)

    with group.turn() as turn:
        turn.user("Which theme, dark mode?")
        # The caller need not say that this is a group.
        context = turn.context(contributors=[memory.contributor(user="ann")])
    assert "Prefers" not in str(context.messages)
    assert group.settings.mode == "group"


def test_what_a_group_talked_about_is_told_in_it_alone(memory: Memory, group: Session) -> None:
    with group.turn() as turn:
        turn.user("We decided that the launch is on Friday.")
    group.write_episode()

    def episodes(session: str | None) -> str:
        return memory.recall(QUERY, user="ann", session_id=session, record=False).episodes

    assert "the launch is on Friday" in episodes(group.session_id)
    assert episodes(None) == ""
