"""What is due in a memory is done once, by one process at a time; facts move to a better space."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import treering
from builders import exchange
from ports import store_of
from treering.model.memories import MaintenanceReceipt

if TYPE_CHECKING:
    from pathlib import Path

SCOPE = "a/b"


def talk(ledger: treering.Ledger, session_id: str = "monday") -> None:
    session = ledger.session(session_id, scope=SCOPE, agent="lyria", user="jo")
    exchange(session, "I live in Porto, and I always deploy on Fridays.", "Noted.")


def test_facts_are_learned_and_episodes_written_once() -> None:
    with treering.open(":memory:") as ledger:
        talk(ledger)

        first = ledger.maintain(SCOPE, idle_minutes=0)
        again = ledger.maintain(SCOPE, idle_minutes=0)

        assert (first.messages_read, first.facts_learned, first.episodes_written) == (2, 2, 1)
        assert again == MaintenanceReceipt(scope=SCOPE)
        assert [one.session_id for one in ledger.memory(SCOPE).episodes().items] == ["monday"]


def test_a_session_in_use_has_no_episode_yet() -> None:
    with treering.open(":memory:") as ledger:
        talk(ledger)

        assert ledger.maintain(SCOPE).episodes_written == 0
        assert ledger.maintain(SCOPE, idle_minutes=0).episodes_written == 1


def test_an_imported_session_is_as_old_as_its_log(tmp_path: Path) -> None:
    line = {
        "type": "user", "uuid": "5f0c4a52-51a4-4a7e-9a4b-0d5a8f0c7e11", "parentUuid": None,
        "sessionId": "0b6b9d0e-7a55-4f0e-8c61-3b1f7f0a9d21", "cwd": "/srv/app", "version": "2.0.1",
        "timestamp": "2026-01-05T10:00:00.000Z",
        "message": {"role": "user", "content": "Move the release to Thursday, please."},
    }  # fmt: skip
    log = tmp_path / "session.jsonl"
    log.write_text(json.dumps(line) + "\n", encoding="utf-8")
    with treering.open(":memory:") as ledger:
        treering.import_logs(ledger, [log], scope=SCOPE)
        before = ledger.sessions(SCOPE).items[0]

        assert ledger.maintain(SCOPE).episodes_written == 1

        after = ledger.sessions(SCOPE).items[0]
        assert (after.updated_ms, after.state) == (before.updated_ms, before.state)


def test_what_was_said_since_the_last_episode_is_told_later() -> None:
    with treering.open(":memory:") as ledger:
        talk(ledger)
        ledger.maintain(SCOPE, idle_minutes=0)
        talk(ledger)

        assert ledger.maintain(SCOPE, idle_minutes=0).episodes_written == 1


def test_a_process_that_comes_second_does_nothing(tmp_path: Path) -> None:
    with treering.open(tmp_path / "a.db") as one, treering.open(tmp_path / "a.db") as other:
        talk(one)
        assert store_of(one).leases.hold(f"memory:{SCOPE}")

        assert other.maintain(SCOPE) == MaintenanceReceipt(scope=SCOPE, is_busy=True)

        store_of(one).leases.release(f"memory:{SCOPE}")
        assert other.maintain(SCOPE).facts_learned == 2


def embedders(ledger: treering.Ledger) -> dict[str, set[str]]:
    """Return by index which embedders made the vectors that are stored."""
    ledger.search("porto", scope=SCOPE, mode="hybrid")
    memory = store_of(ledger).memory
    return {
        name: {
            document.embedder.split(":")[0]
            for _, document in memory.documents(SCOPE, name, after=0, limit=100)  # type: ignore[arg-type]
        }
        for name in ("memories", "events")
    }


@pytest.fixture
def default_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is installed decide; the tests have the model."""
    monkeypatch.delenv("TREERING_EMBEDDER")


@pytest.mark.usefixtures("default_embedder")
def test_facts_are_embedded_by_the_model_that_is_installed_and_events_by_the_table(
    tmp_path: Path,
) -> None:
    with treering.open(tmp_path / "a.db") as ledger:
        talk(ledger)
        ledger.memory(SCOPE).learn("Lives in Porto", user="jo")

        assert ledger.memory(SCOPE).recall("Where is home?", user="jo", record=False).fact_hits
        assert embedders(ledger) == {
            "memories": {"all-minilm-l6-v2-int8"},
            "events": {"treering-static-1"},
        }
        assert ledger.admin.verify(derived=True).intact


@pytest.mark.usefixtures("default_embedder")
def test_facts_of_another_space_are_found_in_it_until_they_are_moved(tmp_path: Path) -> None:
    with treering.open(tmp_path / "a.db", embedder="static") as ledger:
        ledger.memory(SCOPE).learn("Lives in Porto", user="jo")
    with treering.open(tmp_path / "a.db") as ledger, treering.open(tmp_path / "a.db") as other:
        asked = "Where do I live?"
        for one in (ledger, other):
            [hit] = one.memory(SCOPE).recall(asked, user="jo", record=False).fact_hits
            assert hit.why["vector"] > 0
        assert embedders(ledger)["memories"] == {"treering-static-1"}

        assert ledger.maintain(SCOPE).embedded == 1
        assert ledger.maintain(SCOPE).embedded == 0

        assert embedders(ledger)["memories"] == {"all-minilm-l6-v2-int8"}
        for one in (ledger, other, other):
            # The first question of a process that did not know is answered by words at least.
            [hit] = one.memory(SCOPE).recall(asked, user="jo", record=False).fact_hits
        assert hit.why["vector"] > 0
        other.memory(SCOPE).learn("Has two cats", user="jo")
        assert embedders(other)["memories"] == {"all-minilm-l6-v2-int8"}
