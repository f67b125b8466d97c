"""Recall brings what was said, word for word, behind the walls of facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import treering
from builders import exchange
from treering.context.tokens import estimate
from treering.memory import memory as memory_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering import Ledger, Memory
    from treering.ledger.sessions import Session

SCOPE = "a/b"
KAYAK = "The yellow kayak is stored in the shed behind the harbour."
QUESTION = "Where is the yellow kayak stored?"


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with treering.open(":memory:") as opened:
        yield opened


@pytest.fixture
def memory(ledger: Ledger) -> Memory:
    return ledger.memory(SCOPE)


def say(ledger: Ledger, session_id: str, text: str, *, user: str | None = "jo") -> Session:
    session = ledger.session(session_id, scope=SCOPE, agent="lyria", user=user)
    exchange(session, text, "Noted.")
    return session


def turns(
    memory: Memory, query: str = QUESTION, *, user: str | None = None, session_id: str | None = None
) -> list[str]:
    result = memory.recall(query, user=user, session_id=session_id, record=False)
    return [one.text for one in result.turn_hits]


def test_a_turn_is_recalled_with_its_place(ledger: Ledger, memory: Memory) -> None:
    session = say(ledger, "monday", KAYAK)

    hit = memory.recall(QUESTION, user="jo", record=False).turn_hits[0]

    said = list(session.events())[2]
    assert (hit.text, hit.speaker, hit.session_id, hit.seq) == (KAYAK, "jo", "monday", said.seq)
    assert hit.evidence == (said.event_id,)
    assert 0 < hit.score <= 1


def test_what_one_person_said_is_not_shown_to_another(ledger: Ledger, memory: Memory) -> None:
    say(ledger, "monday", KAYAK, user="jo")

    assert turns(memory, user="jo") == [KAYAK]
    assert turns(memory, user="kim") == []
    assert turns(memory) == []


def test_a_session_without_a_user_keeps_its_turns(ledger: Ledger, memory: Memory) -> None:
    say(ledger, "monday", KAYAK, user=None)

    assert turns(memory) == []
    assert turns(memory, session_id="monday") == [KAYAK]


def test_a_group_keeps_its_turns_and_sees_no_others(ledger: Ledger, memory: Memory) -> None:
    group = ledger.session("group:crew", scope=SCOPE, agent="lyria", mode="group")
    with group.turn() as turn:
        turn.user(KAYAK, user="jo")
    say(ledger, "monday", "The yellow kayak has a crack.", user="jo")

    assert turns(memory, user="jo", session_id="group:crew") == [KAYAK]
    assert turns(memory, user="jo") == ["The yellow kayak has a crack."]


def test_an_undone_turn_is_not_recalled_until_it_is_redone(ledger: Ledger, memory: Memory) -> None:
    session = say(ledger, "monday", KAYAK)
    session.undo()
    undone = turns(memory, user="jo")
    session.redo()

    assert undone == []
    assert turns(memory, user="jo") == [KAYAK]


def test_a_failed_run_is_not_recalled(ledger: Ledger, memory: Memory) -> None:
    session = ledger.session("monday", scope=SCOPE, agent="lyria", user="jo")
    with session.turn() as turn:
        turn.user(KAYAK)
        turn.fail("broken")

    assert turns(memory, user="jo") == []


def test_a_sentence_that_no_longer_holds_is_left_out(ledger: Ledger, memory: Memory) -> None:
    say(ledger, "monday", "I live in Lisbon. The kayak is yellow.")
    memory.extract()
    say(ledger, "tuesday", "I moved to Porto.")
    memory.extract()

    said = turns(memory, "Where do I live, and which colour is the kayak?", user="jo")

    assert "The kayak is yellow." in said
    assert not any("Lisbon" in one for one in said)


def test_an_erased_turn_is_gone(ledger: Ledger, memory: Memory) -> None:
    session = say(ledger, "monday", KAYAK)
    assert turns(memory, user="jo") == [KAYAK]

    ledger.redact(SCOPE, event_id=list(session.events())[2].event_id)

    assert turns(memory, user="jo") == []


def test_the_block_says_which_is_which_and_puts_facts_first(ledger: Ledger, memory: Memory) -> None:
    say(ledger, "monday", KAYAK)
    memory.learn("Owns a yellow kayak", user="jo")

    block, ids = memory.recall(QUESTION, user="jo", record=False).block(200)

    facts, said = block.split("\n\n")
    assert "## What I Know About You\n- Owns a yellow kayak" in facts
    assert said.startswith("## Said Earlier, Word For Word\n- ")
    assert f"jo said “{KAYAK}”" in said
    assert len(ids) == 1


def test_turns_fit_the_budget(ledger: Ledger, memory: Memory) -> None:
    for number in range(30):
        say(ledger, f"day-{number}", f"The yellow kayak was seen near buoy {number}.")

    result = memory.recall("Where was the yellow kayak seen?", user="jo", record=False)

    assert len(result.turn_hits) == 20
    assert estimate(result.block(300)[0]) <= 300
    assert result.block(300)[0].count("said “") > 3


def test_a_long_turn_is_shown_around_the_match(ledger: Ledger, memory: Memory) -> None:
    padding = "We talked about the garden and the weather. " * 30
    say(ledger, "monday", f"{padding}{KAYAK} {padding}")

    [said] = turns(memory, user="jo")

    assert KAYAK in said
    assert len(said) < 700
    assert said.startswith("… ")
    assert said.endswith(" …")


def test_a_contributor_leaves_out_the_session_of_the_call(ledger: Ledger, memory: Memory) -> None:
    say(ledger, "monday", KAYAK)
    session = ledger.session("tuesday", scope=SCOPE, agent="lyria", user="jo")
    with session.turn() as turn:
        turn.user("Where did I say that the yellow kayak is stored?")
        context = turn.context(8_000, contributors=[memory.contributor(user="jo")])
        turn.assistant("In the shed.")

    block = context.messages[0]["content"]
    assert KAYAK in block
    assert "Where did I say" not in block


def test_many_events_that_are_not_indexed_are_left_for_later(
    ledger: Ledger, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(ledger, "monday", KAYAK)
    monkeypatch.setattr(memory_module, "LAG_MAX", 1)

    result = memory.recall(QUESTION, user="jo", record=False)

    assert result.turn_hits == []
    assert any("not indexed yet" in note for note in result.notes)


def test_a_brief_has_what_matters_most(ledger: Ledger, memory: Memory) -> None:
    say(ledger, "monday", KAYAK)
    memory.learn("Is allergic to peanuts", user="jo", importance=9)
    memory.learn("Has two cats", user="jo", importance=3)

    brief = memory.brief(user="jo", limit=1, record=False)

    assert [hit.fact.text for hit in brief.fact_hits] == ["Is allergic to peanuts"]
    assert (brief.query, brief.turn_hits) == (None, [])


def test_an_episode_that_answers_more_than_the_turns_stands_before_them(
    ledger: Ledger, memory: Memory
) -> None:
    session = say(ledger, "monday", "The yellow kayak is in the shed.")
    exchange(session, "The paddle is stored behind the harbour.", "Noted.")
    question = "Where are the yellow kayak and the paddle stored?"
    before = memory.recall(question, user="jo", record=False)
    memory.write_episode(
        session, summariser=lambda *_: "The yellow kayak and its paddle are stored in the shed."
    )

    result = memory.recall(question, user="jo", record=False)

    assert [one.leads for one in result.episode_hits] == [True]
    block = result.formatted
    assert block.index("## Recent Conversations") < block.index("## Said Earlier")
    assert "## Recent Conversations" not in before.formatted


def test_an_episode_that_repeats_the_turns_does_not_lead(ledger: Ledger, memory: Memory) -> None:
    session = say(ledger, "monday", KAYAK)
    memory.write_episode(session)

    result = memory.recall(QUESTION, user="jo", record=False)

    assert [one.leads for one in result.episode_hits] == [False]
    assert "## Recent Conversations" not in result.formatted


def test_what_was_said_twice_is_shown_once(ledger: Ledger, memory: Memory) -> None:
    for session_id in ("monday", "tuesday"):
        say(ledger, session_id, KAYAK)
    say(ledger, "wednesday", KAYAK, user="bo")

    assert turns(memory, user="jo") == [KAYAK]
