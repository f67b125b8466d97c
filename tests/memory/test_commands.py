"""Commands that work are learned from tool calls, with the calls as evidence."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from builders import HERE
from treering import Ledger, NewEvent

if TYPE_CHECKING:
    from treering.memory.memory import Memory

_CALLS = count()


@pytest.fixture
def memory(book: Ledger) -> Memory:
    return book.memory(HERE)


def run(
    book: Ledger, command: str, *, status: str = "ok", session: str = "s1", user: str | None = "ann"
) -> str:
    """Record a call of a shell and its result; return the id of the call."""
    call_id = f"call-{next(_CALLS)}"
    names = {"call_id": call_id, "tool": "Bash"}
    call, _ = book.append([
        NewEvent(
            scope=HERE,
            session_id=session,
            agent_id="lyria",
            user_id=user,
            kind=kind,
            summary=command,
            refs=refs,
            payload=payload,
        )
        for kind, refs, payload in (
            ("tool.call", names, {**names, "input": {"command": command}}),
            ("tool.result", {**names, "status": status}, {**names, "output": "done"}),
        )
    ])  # fmt: skip
    return call.event_id


def current(memory: Memory, user: str | None = "ann") -> list[str]:
    return [fact.text for fact in memory.facts(user=user).items]


def test_a_command_that_works_is_learned_with_its_calls(book: Ledger, memory: Memory) -> None:
    calls = [run(book, "make test"), run(book, "make test", session="s2")]

    receipt = memory.extract()

    (fact,) = memory.facts(user="ann").items
    assert [one.outcome for one in receipt.learned] == ["stored"]
    assert (fact.text, list(fact.evidence)) == ("The test command is `make test`", calls)
    assert [hit.fact.id for hit in memory.recall("How do I run the tests?", user="ann").fact_hits] \
        == [fact.id]  # fmt: skip


def test_a_known_command_is_not_learned_again(book: Ledger, memory: Memory) -> None:
    run(book, "make test")
    run(book, "make test")
    memory.extract()
    run(book, "make test")

    assert memory.extract().learned == []


def test_another_command_replaces_it(book: Ledger, memory: Memory) -> None:
    for command in ["npm test"] * 2:
        run(book, command)
    memory.extract()
    for command in ["pnpm test"] * 3:
        run(book, command)
    memory.extract()

    assert current(memory) == ["The test command is `pnpm test`"]
    assert [fact.text for fact in memory.facts(user="ann", state="superseded").items] == [
        "The test command is `npm test`"
    ]


def test_a_rejected_command_does_not_come_back(book: Ledger, memory: Memory) -> None:
    run(book, "make test")
    run(book, "make test")
    memory.extract()
    (fact,) = memory.facts(user="ann").items
    memory.reject(fact.id)
    run(book, "make test")
    run(book, "make test")
    memory.extract()
    memory.extract(again=True)

    assert current(memory) == []


def test_what_somebody_says_counts_more_than_what_was_run(book: Ledger, memory: Memory) -> None:
    memory.learn("The test command is `make check`", user="ann", confidence=0.9)
    run(book, "make test")
    run(book, "make test")
    memory.extract()

    assert current(memory) == ["The test command is `make check`"]


def test_people_do_not_see_each_others_commands(book: Ledger, memory: Memory) -> None:
    run(book, "make test", session="s1", user="ann")
    run(book, "make test", session="s2", user="bob")
    memory.extract()

    assert current(memory, "ann") == current(memory, "bob") == []

    run(book, "make test", session="s1", user="ann")
    memory.extract()

    assert current(memory, "ann") == ["The test command is `make test`"]
    assert memory.recall("How do I run the tests?", user="bob").fact_hits == []


def test_a_command_goes_with_its_calls(book: Ledger, memory: Memory) -> None:
    calls = [run(book, "make test"), run(book, "make test")]
    memory.extract()
    book.redact(HERE, event_id=calls[0])

    assert memory.facts(user="ann", state=["current", "superseded"]).items == []

    memory.extract(again=True)

    assert memory.facts(user="ann").items == []


def test_one_session_is_read_alone(book: Ledger, memory: Memory) -> None:
    run(book, "make test", session="s1")
    run(book, "make test", session="s2")

    assert memory.extract("s1").learned == []


def test_a_secret_in_a_command_is_not_learned(book: Ledger, memory: Memory) -> None:
    secret = "npm test --token=ghp_" + "a1B2c3D4e5F6" * 3
    run(book, secret)
    run(book, secret)

    assert memory.extract().learned == []
