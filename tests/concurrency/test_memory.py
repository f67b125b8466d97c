"""A memory that several processes write to at once, some of which are killed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import DAY, HERE
from concurrency.processes import Colleague, colleagues
from treering.memory.events import fact_change_event
from treering.memory.learning import CHUNK
from treering.model.memories import NewFact
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from treering import Ledger

PROCESSES = 3
CITIES = ("Boston", "Porto", "Lima")
SHARED = ("Is allergic to peanuts", "Has a dog named Max", "Collects old stamps")
MANY = 3 * CHUNK


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a ledger is that several processes share, made beforehand."""
    path = tmp_path / "shared.db"
    with treering.open(path) as ledger:
        ledger.session("s1", scope=HERE, agent="lyria").open()
    return path


def current(ledger: Ledger) -> Counter[str]:
    return Counter(fact.text for fact in ledger.memory(HERE).facts(user="jo").items)


# What other processes do.


def learn(pipe: Connection, path: Path, number: int) -> None:
    """Learn what all learn, what contradicts the others, and something of one's own."""
    with treering.open(path, embedder="off") as ledger:
        memory = ledger.memory(HERE)
        memory.facts()
        pipe.send("ready")
        pipe.recv()
        for text in SHARED:
            memory.learn(text, user="jo")
        city = f"Lives in {CITIES[number]}"
        memory.learn(city, user="jo")
        memory.learn(f"Keeps diary number {number}", user="jo")
        memory.learn("Prefers green tea", user="jo", fact_id="tea")
        pipe.send("done")
        pipe.recv()
        pipe.send(sorted(current(ledger).elements()))


def resolve(pipe: Connection, path: Path, _: int) -> None:
    """In each round, say who is behind a handle."""
    with treering.open(path, embedder="off") as ledger:
        memory = ledger.memory(HERE)
        memory.users.handles()
        pipe.send("ready")
        while (handle := pipe.recv()) is not None:
            pipe.send(memory.users.resolve("telegram", handle))


def learn_many(pipe: Connection, path: Path, _: int) -> None:
    """Learn many facts, and tell of each part that is done."""
    with treering.open(path, embedder="off") as ledger:
        facts = [NewFact(text=told(number), user="jo") for number in range(MANY)]
        ledger.memory(HERE).learn_all(facts, progress=pipe.send)


def told(number: int) -> str:
    return f"Owns a book called volume {number} of the atlas"


# What comes of it.


def test_facts_that_several_learn_at_once_are_believed_once(path: Path) -> None:
    with colleagues(PROCESSES, learn, path) as learners:
        heard: list[Any] = [learner.hear() for learner in learners]
        for learner in learners:
            learner.tell("go")
        heard = [learner.hear() for learner in learners]
        for learner in learners:
            learner.tell("and now?")
        heard = [learner.hear() for learner in learners]

    with treering.open(path) as ledger:
        facts = current(ledger)
        homes = [text for text in facts if text.startswith("Lives in ")]
        assert ledger.admin.verify().intact
        superseded = ledger.memory(HERE).facts(user="jo", state="superseded").items
        ledger.admin.rebuild()
        rebuilt = current(ledger)
    assert len(homes) == 1
    others = {f"Keeps diary number {number}" for number in range(PROCESSES)}
    assert facts == rebuilt == Counter({*SHARED, *homes, *others, "Prefers green tea"})
    assert {fact.text for fact in superseded} >= {f"Lives in {city}" for city in CITIES} - {*homes}
    assert heard == [sorted(facts.elements())] * PROCESSES


def test_a_handle_that_several_meet_at_once_belongs_to_one_user(path: Path) -> None:
    with colleagues(PROCESSES, resolve, path) as others:
        for other in others:
            other.hear()
        for number in range(10):
            for other in others:
                other.tell(f"@jo{number}")
            assert len({other.hear() for other in others}) == 1

    with treering.open(path, embedder="off") as ledger:
        handles = ledger.memory(HERE).users.handles()
        links = ledger.events(HERE, kinds=["user.linked"]).items
    assert len(handles) == 10
    assert sum(not link.redacted for link in links) == 10


def test_a_fact_that_several_use_again_at_once_is_not_thereby_confirmed(path: Path) -> None:
    with treering.open(path, embedder="off") as ledger:
        memory = ledger.memory(HERE)
        fact_id = memory.learn("Owns a grey umbrella", user="jo", importance=1).fact_id
        memory.fade(now_ms=memory.fact(fact_id).created_ms + 200 * DAY)
        # Each saw that it had faded before the other said that it is used.
        used = fact_change_event(
            Scope(HERE), "memory.restored", fact_id, session=None, user="jo", reason="used"
        )
        ledger.append([used, used])
        by_use = memory.fact(fact_id)
        by_somebody = memory.accept(fact_id)

    assert (by_use.state, by_use.confirmed, by_somebody.confirmed) == ("current", False, True)


def test_a_process_that_is_killed_leaves_all_or_nothing_of_a_part(path: Path) -> None:
    learner = Colleague(learn_many, path, 0)
    learner.hear()
    learner.kill()

    with treering.open(path, embedder="off") as ledger:
        memory = ledger.memory(HERE)
        left = memory.audit().facts
        outcomes = Counter(
            one.outcome
            for one in memory.learn_all(
                [NewFact(text=told(number), user="jo") for number in range(MANY)]
            )
        )
        after = memory.audit().facts
        assert ledger.admin.verify().intact
    assert left in {CHUNK, 2 * CHUNK, MANY}
    assert outcomes == Counter(known=left, stored=MANY - left)
    assert after == MANY
