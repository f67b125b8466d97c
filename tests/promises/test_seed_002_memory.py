"""Memory and sessions: every line on facts, episodes, recall, fading and identity, quoted."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any, get_args

import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, exchange, said
from ports import time_of
from treering.context.tokens import estimate
from treering.memory.fading import strength
from treering.memory.recall_result import WEIGHTS
from treering.model.memories import EPISODES_DEFAULT, Category, episode_of
from treering.model.sessions import GROUP_TOOLS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from treering import Ledger, Session
    from treering.memory.memory import Memory
    from treering.model.memories import Episode

READ_ALL = (
    "import sys, pathlib\n"
    "for file in sorted(pathlib.Path(sys.argv[1]).rglob('*')):\n"
    "    sys.stdout.buffer.write(file.read_bytes() if file.is_file() else b'')\n"
)


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """Return an empty ledger. What databases promise to the memory is tested for each of them."""
    with treering.open(":memory:") as opened:
        yield opened


@pytest.fixture
def memory(ledger: Ledger) -> Memory:
    """Return the memory of a scope."""
    return ledger.memory(HERE)


def talk(
    ledger: Ledger, *texts: str, session: str = "s1", user: str = "jo", answer: str = "Noted."
) -> Session:
    """Have a user say things, each in a turn of its own."""
    opened = ledger.session(session, scope=HERE, agent="lyria", user=user)
    for text in texts:
        exchange(opened, text, answer)
    return opened


def recalled(memory: Memory, query: str | None, **asked: Any) -> list[str]:
    found = memory.recall(query, record=False, **{"user": "jo", **asked})
    return [hit.fact.text for hit in found.fact_hits]


def written(ledger: Ledger, session: Session) -> Episode:
    """Write an episode of a session, and return it."""
    header = session.write_episode()
    assert header is not None
    episode = episode_of(ledger.event(HERE, header.event_id))
    assert episode is not None
    return episode


def all_bytes(folder: Path) -> bytes:
    """Return the bytes of all files, read by another process."""
    command = [sys.executable, "-S", "-E", "-c", READ_ALL, str(folder)]
    return subprocess.run(command, capture_output=True, check=True).stdout


# Fact memory.


def test_a_fact_has_every_field_of_an_entry(ledger: Ledger, memory: Memory) -> None:
    """Interface FactEntry { id; user_id; fact; category; importance; … access_count }."""
    talk(ledger, "hello")
    learned = memory.learn(
        "Prefers dark mode",
        user="jo",
        category="preference",
        importance=7,
        confidence=0.9,
        session_id="s1",
    )
    memory.recall("dark mode", user="jo")

    fact = memory.fact(learned.fact_id)

    assert (fact.id, fact.user, fact.text) == (learned.fact_id, "jo", "Prefers dark mode")
    assert (fact.category, fact.importance, fact.confidence) == ("preference", 7, 0.9)
    assert (fact.source_session, fact.access_count) == ("s1", 1)
    assert 0 < fact.created_ms <= fact.last_accessed_ms


def test_an_entry_has_an_embedding_for_search_by_meaning(memory: Memory) -> None:
    """embedding: number[]; // For semantic search."""
    memory.learn("Is allergic to peanuts", user="jo")

    hit = memory.recall("peanut allergy", user="jo", record=False).fact_hits[0]

    assert hit.why["vector"] > 0
    assert memory.audit().vectors_missing == 0


@pytest.mark.parametrize(
    ("category", "text"),
    [
        ("preference", "Likes Python over JS"),
        ("personal", "Lives in NYC"),
        ("work", "Works at Acme Corp"),
        ("habit", "Usually works late"),
        ("relationship", "Has a dog named Max"),
        ("technical", "Uses VS Code"),
        ("schedule", "Meeting every Tuesday 2pm"),
    ],
)
def test_the_category_of_each_example_is_told_from_its_text(category: str, text: str) -> None:
    """PREFERENCE, PERSONAL, WORK, HABIT, RELATIONSHIP, TECHNICAL, SCHEDULE."""
    with treering.open(":memory:") as ledger:
        fact = ledger.memory(HERE).fact(ledger.memory(HERE).learn(text, user="jo").fact_id)

    assert fact.category == category
    assert category in get_args(Category)


def test_what_is_known_is_updated_instead_of_doubled(ledger: Ledger, memory: Memory) -> None:
    """Update existing fact instead of duplicating: confidence: Math.max(…)."""
    ledger.append([said(event_id="e1"), said(event_id="e2")])
    memory.learn("Prefers dark mode", user="jo", confidence=0.9, evidence=["e1"])
    again = memory.learn("Prefers dark mode", user="jo", confidence=0.5, evidence=["e2"])

    [fact] = memory.facts().items
    assert (again.outcome, fact.confidence, fact.evidence) == ("revised", 0.9, ("e1", "e2"))


def test_what_contradicts_supersedes_and_is_never_overwritten(memory: Memory) -> None:
    """Check for contradictions with existing facts."""
    first = memory.learn("Lives in Boston", user="jo")
    second = memory.learn("Lives in Porto", user="jo")

    old = memory.fact(first.fact_id)
    assert second.superseded == (first.fact_id,)
    assert (old.text, old.state, old.superseded_by) == (
        "Lives in Boston",
        "superseded",
        second.fact_id,
    )
    assert recalled(memory, "where do I live?") == ["Lives in Porto"]


def test_facts_are_scored_by_importance_similarity_and_recency(memory: Memory) -> None:
    """Importance * 0.3 + similarity * 0.5 + recency_score(last_accessed) * 0.2 as relevance."""
    memory.learn("Likes green tea", user="jo", importance=2)
    memory.learn("Likes green apples", user="jo", importance=9)

    hits = memory.recall("green", user="jo", record=False).fact_hits

    assert (WEIGHTS.importance, WEIGHTS.similarity, WEIGHTS.recency) == (0.3, 0.5, 0.2)
    assert [hit.fact.text for hit in hits][:1] == ["Likes green apples"]
    assert {"importance", "recency", "words", "vector"} <= set(hits[0].why)


def test_only_facts_of_the_user_that_are_similar_enough_come_up_to_a_limit(memory: Memory) -> None:
    """WHERE user_id = $2 AND similarity > $3 … LIMIT $4; relevance_threshold: 0.6."""
    for number in range(4):
        memory.learn(f"Collects stamps of country {number}", user="jo")
    memory.learn("Collects stamps too", user="kim")
    memory.learn("Sleeps on the left side", user="jo")

    found = recalled(memory, "stamps", limit=3)

    assert WEIGHTS.threshold == 0.6
    assert len(found) == 3
    assert all("country" in text for text in found)


def test_what_is_retrieved_counts_as_accessed(memory: Memory) -> None:
    """last_accessed: Date.now(), access_count: result.access_count + 1."""
    fact_id = memory.learn("Prefers dark mode", user="jo").fact_id
    before = memory.fact(fact_id)
    for _ in range(3):
        memory.recall("dark mode", user="jo")

    after = memory.fact(fact_id)
    assert (before.access_count, after.access_count) == (0, 3)
    assert after.last_accessed_ms >= before.last_accessed_ms


# Episodic memory.


def test_an_episode_has_every_field(ledger: Ledger) -> None:
    """Interface Episode { id; user_id; session_id; summary; topics; key_decisions; outcome; … }."""
    session = talk(
        ledger,
        "We decided to move the crane to the south pier.",
        "Thank you, that works.",
        answer="The crane is on the south pier.",
    )

    episode = written(ledger, session)

    assert (episode.user, episode.session_id, episode.message_count) == ("jo", "s1", 4)
    assert "crane" in episode.summary
    assert "crane" in " ".join(episode.topics)
    assert "south pier" in " ".join(episode.key_decisions)
    assert "south pier" in episode.outcome
    assert episode.started_ms <= episode.from_ms <= episode.ended_ms
    assert episode.duration_minutes >= 0
    assert set(episode.evidence) <= {header.event_id for header in session.headers()}


def test_an_episode_is_written_when_a_session_ends_or_goes_idle(ledger: Ledger) -> None:
    """When a session ends or goes idle, create an episode summary."""
    talk(ledger, "The herons are back.", session="ended").close()
    talk(ledger, "The storks are back.", session="idle")
    ledger.sweep(HERE, idle_minutes=30, prune_days=None, now_ms=time_of(ledger) + DAY)

    told = ledger.events(HERE, kinds=["episode.written"]).items

    assert {event.session_id for event in told} == {"ended", "idle"}


def test_episodes_that_are_relevant_are_recalled_five_at_most(ledger: Ledger) -> None:
    """Retrieve relevant past episodes for context enrichment … LIMIT 5."""
    for number in range(7):
        talk(ledger, f"The heron of pond {number} is back.", session=f"s{number}").write_episode()

    found = ledger.memory(HERE).recall("heron", user="jo", record=False)

    assert EPISODES_DEFAULT == len(found.episode_hits) == 5
    assert all("heron" in hit.summary for hit in found.episode_hits)


# Retrieval.


def test_facts_and_episodes_come_together_in_three_forms(ledger: Ledger, memory: Memory) -> None:
    """Return { facts: `- ${f.fact} (${f.category})`; episodes: `[date] summary`; formatted }."""
    talk(ledger, "I prefer dark mode.").write_episode()
    memory.extract()

    found = memory.recall("dark mode", user="jo", record=False)

    assert found.facts == "- Prefers dark mode (preference)"
    assert found.episodes.startswith("[20")
    assert "Prefers dark mode" in found.formatted
    assert estimate(found.block(80)[0]) <= 80


# The lifecycle.


def test_memories_that_are_not_accessed_decay_and_important_ones_persist(memory: Memory) -> None:
    """Low-importance, rarely-accessed memories fade: decayFactor < 0.1 … archive."""
    dull = memory.learn("Owns a grey umbrella", user="jo", importance=1).fact_id
    grave = memory.learn("Is allergic to peanuts", user="jo", importance=10).fact_id
    now_ms = memory.fact(grave).created_ms

    early = memory.fade(now_ms=now_ms + 29 * DAY)
    late = memory.fade(now_ms=now_ms + 150 * DAY)

    assert (early.archived, late.archived) == ([], [dull])
    assert [memory.fact(one).state for one in (dull, grave)] == ["archived", "current"]


def test_decay_follows_the_formula(memory: Memory) -> None:
    """Math.exp(-days / 90) * (1 + importanceBoost + accessBoost) / 3, access capped at 20."""
    at = {"accessed_ms": NOON, "now_ms": NOON}

    assert strength(importance=1.0, uses=20, **at) == strength(importance=1.0, uses=99, **at) == 1
    assert strength(importance=0.0, uses=0, accessed_ms=NOON, now_ms=NOON + 90 * DAY) == (
        pytest.approx(0.36788 / 3, abs=1e-4)
    )


def test_fading_twice_fades_once_and_what_is_used_comes_back(memory: Memory) -> None:
    """Run periodic decay to prevent memory bloat."""
    fact_id = memory.learn("Owns a grey umbrella", user="jo", importance=1).fact_id
    later = memory.fact(fact_id).created_ms + 200 * DAY

    archived = [memory.fade(now_ms=later).archived for _ in range(2)]
    memory.recall("Owns a grey umbrella", user="jo")

    assert archived == [[fact_id], []]
    assert memory.fact(fact_id).state == "current"


# Across channels, and not into groups.


def test_one_user_on_two_channels_shares_one_memory(memory: Memory) -> None:
    """The same user on WhatsApp and Telegram shares one memory store."""
    user = memory.users.resolve("whatsapp", "+4412345")
    memory.users.link(user, "telegram", "@john")
    memory.learn("Prefers dark mode", user=user)

    assert (
        memory.users.resolve("telegram", "@john")
        == user
        == memory.users.resolve("whatsapp", "+4412345")
    )
    assert recalled(memory, "dark mode", user=memory.users.resolve("telegram", "@john")) == [
        "Prefers dark mode"
    ]


def test_a_handle_that_nobody_has_is_given_a_new_user(memory: Memory) -> None:
    """Create new unified ID."""
    assert memory.users.resolve("telegram", "@ann") != memory.users.resolve("telegram", "@bob")


def test_a_group_sees_no_memories_of_its_members(ledger: Ledger, memory: Memory) -> None:
    """No access to other users' memories: cross_user_memory: false."""
    group = ledger.group_session("telegram", "g7", scope=HERE, agent="lyria")
    memory.learn("Is allergic to peanuts", user="jo")

    before = recalled(memory, None, session_id=group.session_id)
    group.open()
    memory.learn("Plans a picnic on Sundays", user="jo", session_id=group.session_id)

    assert before == []
    assert recalled(memory, None, session_id=group.session_id) == ["Plans a picnic on Sundays"]
    assert recalled(memory, None) == ["Is allergic to peanuts"]
    assert group.settings.tools in {None, GROUP_TOOLS}


def test_memories_survive_a_restart(tmp_path: Path) -> None:
    """Sessions survive restarts via disk-backed store."""
    for _ in range(2):
        with treering.open(tmp_path / "a.db") as ledger:
            ledger.memory(HERE).learn("Prefers dark mode", user="jo")
            facts = ledger.memory(HERE).facts().items

    assert [fact.text for fact in facts] == ["Prefers dark mode"]


# The promises, for the memory.


def test_promise_3_no_recall_in_one_scope_returns_a_byte_of_another(ledger: Ledger) -> None:
    """No query, search, recall, view, export, sink or surface in A returns a byte of B."""
    ledger.memory(ELSEWHERE).learn("Lives in Boston", user="jo")
    learned = ledger.memory(HERE).learn("Lives in Porto", user="jo")

    assert (learned.outcome, learned.superseded) == ("stored", ())
    assert recalled(ledger.memory(HERE), None) == ["Lives in Porto"]
    assert recalled(ledger.memory(ELSEWHERE), None) == ["Lives in Boston"]


@pytest.mark.parametrize("how", ["event", "session", "user"])
def test_promise_5_what_is_erased_is_in_no_byte_of_any_file(tmp_path: Path, how: str) -> None:
    """A search of the raw files' bytes finds nothing; it cascades to facts and episodes."""
    word = "quokkaville"
    with treering.open(tmp_path / "a.db", keys=tmp_path / "keys") as ledger:
        session = talk(ledger, f"I live in {word}.")
        talk(ledger, "I prefer dark mode.", session="s2", user="kim")
        memory = ledger.memory(HERE)
        memory.extract()
        session.write_episode()
        memory.recall(word, user="jo")
        ledger.search(word, scope=HERE, mode="hybrid")
        ledger.search(word, scope=HERE)
        assert word.encode() in all_bytes(tmp_path).lower()
        [spoken] = [header for header in session.headers() if header.kind == "conversation.user"]

        _erase(ledger, how, spoken.event_id)

        assert word.encode() not in all_bytes(tmp_path).lower()
        assert (tmp_path / "a.db.memory").exists()
        assert [fact.text for fact in memory.facts().items] == ["Prefers dark mode"]
        assert memory.recall(word, user="jo", record=False).ids == []
        assert ledger.search(word, scope=HERE, mode="hybrid").total == 0
    assert word.encode() not in all_bytes(tmp_path).lower()


def _erase(ledger: Ledger, how: str, event_id: str) -> None:
    match how:
        case "event":
            receipt: Any = ledger.redact(HERE, event_id=event_id)
        case "session":
            receipt = ledger.redact(HERE, session_id="s1")
        case _:
            receipt = ledger.forget(HERE, user="jo")
    assert receipt.physical == "done"


def test_promise_6_facts_episodes_and_counters_are_made_anew(ledger: Ledger) -> None:
    """Drop every derived table, rebuild, get the same bytes."""
    talk(ledger, "I live in Boston.", "I live in Porto.").write_episode()
    memory = ledger.memory(HERE)
    memory.extract()
    memory.recall("where do I live?", user="jo")

    def known() -> tuple[Sequence[Any], Sequence[Any]]:
        facts = memory.facts(state=["current", "superseded"]).items
        told = [(one.id, one.text, one.state, one.access_count, one.evidence) for one in facts]
        return told, memory.recall(None, user="jo", record=False).ids

    before = known()
    ledger.admin.rebuild()

    assert len(before[0]) == 2
    assert known() == before


class Boom(Exception):
    """What goes wrong."""


def test_promise_7_a_run_that_failed_gives_no_facts_and_no_episodes(ledger: Ledger) -> None:
    """A failed or aborted run … is out of history, context, memory and default search."""
    session = ledger.session("s1", scope=HERE, agent="lyria", user="jo")
    with contextlib.suppress(Boom), session.turn() as turn:
        turn.user("I live in Boston.")
        raise Boom

    receipt = ledger.memory(HERE).extract()

    assert (receipt.candidates, receipt.learned) == (0, [])
    assert session.write_episode() is None
    assert ledger.memory(HERE).recall(None, user="jo", record=False).ids == []
    assert ledger.search("Boston", scope=HERE, mode="hybrid").total == 0
