"""Talks in which nobody is named, on every database: what is said there stays there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders import HERE, exchange
from ports import store_of
from treering.derive.fact_rows import hashed
from treering.derive.memory_state import FactPayload
from treering.errors import InvalidInput
from treering.memory.events import fact_event
from treering.memory.records import Row
from treering.model.events import NewEvent
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from typing import Any

    from treering import Ledger, Session
    from treering.memory.memory import Memory

SALARY = "My salary is 90k a year."
FACT = "Salary is 90k a year"
QUERY = "salary of 90k a year"
SCOPE = Scope(HERE)


def talk(ledger: Ledger, name: str = "s1", text: str = SALARY, **about: Any) -> Session:
    session = ledger.session(name, scope=HERE, agent="lyria", **about)
    exchange(session, text, "Noted.")
    return session


def found(memory: Memory, user: str | None = None, session: str | None = None) -> tuple[int, int]:
    """Return how many facts and episodes are recalled."""
    hits = memory.recall(QUERY, user=user, session_id=session, record=False)
    brief = memory.recall(None, user=user, session_id=session, record=False)
    assert {one.fact.id for one in hits.fact_hits} <= {one.fact.id for one in brief.fact_hits}
    return len(brief.fact_hits), len(brief.episode_hits)


def as_recorded_before(ledger: Ledger, session: str, text: str = FACT) -> str:
    """Record a fact without a user, as versions did that knew no better."""
    content = FactPayload(
        id=f"old-{session}",
        text=text,
        category="personal",
        importance=5,
        confidence=0.9,
        statement=hashed(text),
        valid_from_ms=1,
        source_session=session,
    )
    ledger.append([fact_event(SCOPE, "memory.stored", content, session=session, user=None)])
    return content.id


def test_what_is_said_where_nobody_is_named_is_recalled_there_alone(
    ledger: Ledger, memory: Memory
) -> None:
    session = talk(ledger)
    memory.learn(FACT, session_id="s1")
    session.close()
    talk(ledger, "s2", "What do I earn?")

    assert found(memory, session="s1") == found(memory, "bob", "s1") == (1, 1)
    assert found(memory) == found(memory, "bob") == (0, 0)
    assert found(memory, session="s2") == found(memory, "bob", "s2") == (0, 0)
    [fact] = memory.facts().items
    assert (fact.user, fact.group, fact.session_only) == (None, False, True)


def test_facts_that_are_found_in_such_a_talk_stay_in_it(ledger: Ledger, memory: Memory) -> None:
    talk(ledger, text="I work at Globex as a data engineer.")
    talk(ledger, "s2", "I work at Initech as a cook.")

    assert [one.outcome for one in memory.extract().learned] == ["stored", "stored"]

    assert found(memory) == found(memory, "bob") == (0, 0)
    facts = memory.recall("work", session_id="s1", record=False).facts
    assert facts == "- Works at Globex as a data engineer (work)"


def test_what_is_cited_from_such_a_talk_stays_in_it(ledger: Ledger, memory: Memory) -> None:
    said = talk(ledger).record("conversation.user", SALARY)

    memory.learn(FACT, evidence=[said.event_id])

    assert (found(memory, "bob"), found(memory, session="s1")) == ((0, 0), (1, 0))


def test_what_the_host_teaches_holds_for_the_scope(ledger: Ledger, memory: Memory) -> None:
    talk(ledger)
    named = talk(ledger, "s2", user="ann")
    memory.learn(FACT)
    memory.learn("The office has a sauna", session_id=named.session_id)

    assert found(memory) == found(memory, "bob") == found(memory, session="s1") == (2, 0)


def test_a_talk_with_one_participant_is_theirs(ledger: Ledger, memory: Memory) -> None:
    session = talk(ledger, text="I work at Globex.", participants=["ann"])
    memory.extract()
    memory.learn(FACT, session_id="s1")
    session.close()

    assert found(memory, "ann") == found(memory, session="s1") == (2, 1)
    assert found(memory, "bob") == found(memory) == (0, 0)
    assert {fact.user for fact in memory.facts(user="ann").items} == {"ann"}
    assert [one.user for one in memory.episodes(user="ann").items] == ["ann"]


def test_episodes_are_listed_page_by_page_the_newest_first(ledger: Ledger, memory: Memory) -> None:
    for session_id in ("s1", "s2", "s3"):
        talk(ledger, session_id, user="ann").close()

    first = memory.episodes(user="ann", limit=2)
    rest = memory.episodes(user="ann", limit=2, after=first.next_cursor)

    assert [one.session_id for one in first.items] == ["s3", "s2"]
    assert [one.session_id for one in rest.items] == ["s1"]
    assert (first.has_more, rest.has_more, rest.next_cursor) == (True, False, None)
    with pytest.raises(InvalidInput, match="a page has 1 to"):
        memory.episodes(limit=0)


def test_a_later_handle_that_names_nobody_changes_nothing(ledger: Ledger, memory: Memory) -> None:
    talk(ledger, participants=["ann"])
    later = talk(ledger, text="I work at Globex.")
    memory.extract()
    later.close()

    assert (found(memory, "ann")[1], found(memory, "bob")) == (1, (0, 0))
    assert {fact.user for fact in memory.facts().items} == {"ann"}


def test_several_participants_are_nobody_in_particular(ledger: Ledger, memory: Memory) -> None:
    talk(ledger, participants=["ann", "bob"]).close()

    assert found(memory, "ann") == found(memory, "bob") == (0, 0)
    assert found(memory, session="s1") == (0, 1)


def test_what_a_subagent_learns_is_of_the_talk_that_began_it(
    ledger: Ledger, memory: Memory
) -> None:
    talk(ledger)
    talk(ledger, "s1-sub", spawned_by="s1")
    memory.learn(FACT, session_id="s1-sub")

    assert found(memory, session="s1") == found(memory, session="s1-sub") == (1, 0)
    assert found(memory, "bob") == (0, 0)


def test_what_logs_tell_is_of_nobody_who_is_named(ledger: Ledger, memory: Memory) -> None:
    for name in ("s1", "s2"):
        talk(ledger, name).record("session.imported", "taken from a log", refs={"format": "pi"})
    memory.learn(FACT, session_id="s1")
    ledger.session("s1", scope=HERE, agent="lyria").close()

    assert found(memory) == found(memory, session="s2") == (1, 1)
    assert found(memory, "bob") == found(memory, "bob", "s2") == (0, 0)


def test_what_was_recorded_before_is_taken_the_same_way(ledger: Ledger, memory: Memory) -> None:
    talk(ledger)
    talk(ledger, "s2", participants=["ann"])
    for name in ("s1", "s2"):
        as_recorded_before(ledger, name)

    assert found(memory) == found(memory, "bob") == (0, 0)
    assert found(memory, "ann") == found(memory, session="s1") == (1, 0)
    assert ledger.admin.verify(derived=True).intact


def test_rows_that_an_earlier_version_kept_are_thrown_away(ledger: Ledger, memory: Memory) -> None:
    talk(ledger)
    as_recorded_before(ledger, "s1")
    store = store_of(ledger)
    end = store.reader.end(SCOPE)
    store.memory.keep_memory_rows(
        SCOPE, [Row("fact", "x", b"{}")], since=(), until=end, replace=False
    )
    assert ledger.admin.verify(derived=True).intact

    assert (found(memory, "bob"), found(memory, session="s1")) == ((0, 0), (1, 0))


def test_of_a_talk_that_lost_its_opening_nothing_gets_out(ledger: Ledger, memory: Memory) -> None:
    session = talk(ledger, participants=["ann"])
    memory.learn("Prefers tea", user="ann")
    as_recorded_before(ledger, "s1")
    assert found(memory, "ann") == (2, 0)

    ledger.redact(HERE, event_id=next(iter(session.headers())).event_id)

    assert (found(memory, "ann"), found(memory, "bob")) == ((1, 0), (0, 0))


@pytest.mark.parametrize("user", [None, "bob"])
def test_a_model_is_shown_it_in_that_talk_alone(
    ledger: Ledger, memory: Memory, user: str | None
) -> None:
    talk(ledger)
    memory.learn(FACT, session_id="s1")
    shown = []
    for name in ("s1", "s2"):
        with ledger.session(name, scope=HERE, agent="lyria").turn() as turn:
            turn.user("What is my salary?")
            shown.append(str(turn.context(contributors=[memory.contributor(user=user)]).messages))

    assert [FACT in one for one in shown] == [True, False]


def test_whom_the_memory_names_is_not_who_is_talking(ledger: Ledger, memory: Memory) -> None:
    session = talk(ledger, text="I work at Globex as a data engineer.")
    memory.learn("Prefers tea", user="ann", session_id="s1")
    memory.learn(FACT, session_id="s1")
    memory.recall(QUERY, user="bob", session_id="s1")
    memory.extract()
    session.close()

    assert session.outline().user is None
    assert (found(memory, "bob"), found(memory, "ann")) == ((0, 0), (1, 0))
    assert found(memory, session="s1") == (2, 1)


def test_what_several_people_say_in_one_session_is_told_of_none_of_them(
    ledger: Ledger, memory: Memory
) -> None:
    for name, text in (("ann", "I work at Globex as a cook."), ("bob", SALARY)):
        event = NewEvent(
            scope=HERE, session_id="s1", kind="conversation.user", agent_id="lyria", summary=text,
            user_id=name, payload={"text": text},
        )  # fmt: skip
        ledger.append([event])
    memory.extract()
    ledger.session("s1", scope=HERE, agent="lyria").close()

    assert found(memory, "ann") == found(memory, "bob") == (1, 0)
    assert found(memory, session="s1") == (0, 1)
