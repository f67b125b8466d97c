"""Sessions of the Claude Agent SDK in a ledger: kept as they are, and told as imported logs are."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from claude_agent_sdk._internal.transcript_mirror_batcher import TranscriptMirrorBatcher
from claude_agent_sdk.testing import run_session_store_conformance

import treering
from capture.intake_logs import claude_log, claude_voyage
from formats.logs.claude_code import SESSION
from full_disk import FullDisk
from treering.adapters.claude_agent_sdk import TreeringSessionStore
from treering.errors import StorageFull

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from treering.ledger.ledger import Ledger

PROJECT: Final = "-home-jo-app"
SCOPE: Final = "claude/home-jo-app"
KEY: Final[Any] = {"project_key": PROJECT, "session_id": SESSION}
AGENT: Final[Any] = {**KEY, "subpath": "subagents/agent-7"}


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def lines(*said: str, **shared: Any) -> list[Any]:
    """Return the entries of a session in which each thing said is answered."""
    return [*claude_log(*said, **shared).lines]


def told(ledger: Ledger, session_id: str = SESSION) -> list[tuple[Any, ...]]:
    """Return the events of a session, without where and when they were recorded."""
    session = ledger.session(session_id, scope=SCOPE, agent="x")
    return [(one.event_id, one.kind, one.summary, one.payload) for one in session.events()][2:]


def test_all_contracts_of_the_sdk_hold(tmp_path: Path) -> None:
    ledgers: list[Ledger] = []

    def make() -> Any:
        ledgers.append(treering.open(tmp_path / f"{len(ledgers)}.db", durability="normal"))
        return TreeringSessionStore(ledgers[-1], strict=True)

    run(run_session_store_conformance(make))

    assert len(ledgers) >= 14
    for ledger in ledgers:
        assert ledger.admin.verify().intact
        ledger.close()


def test_a_session_is_told_as_an_import_of_its_log_tells_it_and_importing_that_adds_nothing(
    ledger: Ledger, tmp_path: Path
) -> None:
    entries: list[Any] = [*claude_voyage()]
    log = tmp_path / PROJECT / f"{SESSION}.jsonl"
    log.parent.mkdir()
    log.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    store = TreeringSessionStore(ledger, strict=True)

    async def append() -> None:
        for start in range(0, len(entries), 3):
            await store.append(KEY, entries[start : start + 3])

    run(append())
    with treering.open(":memory:") as other:
        treering.import_logs(other, [log], scope=SCOPE)
        assert told(ledger) == told(other)
        usage = [one.session(SESSION, scope=SCOPE, agent="x").usage() for one in (ledger, other)]
        assert usage[0] == usage[1]
        found = [one.search("lamp", scope=SCOPE).total for one in (ledger, other)]
        assert found[0] == found[1] > 0

    before = len(ledger.session_ids(SCOPE))
    receipt = treering.import_logs(ledger, [log])
    assert (receipt.events, receipt.by_scope) == (0, {})
    assert len(ledger.session_ids(SCOPE)) == before
    assert run(store.load(KEY)) == entries
    assert [one.session_id for one in ledger.sessions(SCOPE).items] == [SESSION]


def test_a_subagent_is_a_session_of_its_own(ledger: Ledger) -> None:
    store = TreeringSessionStore(ledger, strict=True)
    about: Any = {"type": "agent_metadata", "agentType": "Explore", "description": "Find the lamp"}
    asked = lines("Where is the lamp?", isSidechain=True, agentId="7")

    async def append() -> None:
        await store.append(KEY, lines("Mend it.", first=50))
        await store.append(AGENT, [about, *asked])

    run(append())

    assert run(store.load(AGENT)) == [about, *asked]
    assert run(store.list_subkeys(KEY)) == ["subagents/agent-7"]
    agent = ledger.session(f"{SESSION}/agent-7", scope=SCOPE, agent="x").outline()
    assert (agent.spawned_by, agent.agent, agent.title) == (
        SESSION, "claude-code:Explore", "Find the lamp",
    )  # fmt: skip


def test_retries_and_a_crash_between_batches_lose_nothing_and_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = lines("one", "two", "three")
    note: Any = {"type": "mode", "mode": "plan", "sessionId": SESSION}
    with treering.open(tmp_path / "ledger.db") as ledger:
        store = TreeringSessionStore(ledger)
        run(store.append(KEY, entries[:2]))
        # The process ends after the entries are kept, and before their events are recorded.
        monkeypatch.setattr(store._transcripts, "take", lambda *_: 1 / 0)
        run(store.append(KEY, entries[2:4]))
        assert store.lost == 1
        assert len(told(ledger)) < len(entries)
    with treering.open(tmp_path / "ledger.db") as ledger:
        again = TreeringSessionStore(ledger, strict=True)
        changed: Any = {**entries[0], "message": {"role": "user", "content": "other"}}
        run(again.append(KEY, [changed, *entries[1:], note, note]))

        assert run(again.load(KEY)) == [*entries, note, note]
        texts = [one[3]["text"] for one in told(ledger) if one[1] == "conversation.user"]
        assert texts == ["one", "two", "three"]


def test_whatever_json_an_entry_holds_comes_back(ledger: Ledger) -> None:
    values = ["\ud83d", "a\0b", 2**63, 10**25, -0.0, 1.0, None, {"escaped": "x"}, [[[]]]]
    entries: list[Any] = [
        {"type": "x", "uuid": f"u{n}", "v": value} for n, value in enumerate(values)
    ]
    entries += [{"type": "user", "sessionId": SESSION, "uuid": "u9",
                 "message": {"role": "user", "content": "half \ud83d"}}]  # fmt: skip
    store = TreeringSessionStore(ledger, strict=True)

    run(store.append(KEY, entries))

    loaded = run(store.load(KEY))
    assert json.dumps(loaded) == json.dumps(entries)
    assert "half \ufffd" in [one[2] for one in told(ledger)]


def test_a_deleted_session_is_erased_and_may_begin_again(ledger: Ledger) -> None:
    entries = lines("the marmalade plan")
    store = TreeringSessionStore(ledger, strict=True)

    async def delete() -> None:
        await store.append(KEY, entries)
        await store.append(AGENT, lines("marmalade", isSidechain=True, agentId="7"))
        assert ledger.search("marmalade", scope=SCOPE).total > 0
        await store.delete(KEY)

    run(delete())

    assert run(store.load(KEY)) is None
    assert run(store.load(AGENT)) is None
    assert run(store.list_sessions(PROJECT)) == []
    assert ledger.search("marmalade", scope=SCOPE).total == 0
    more = lines("a new plan", first=70)
    run(store.append(KEY, [*entries, *more]))
    assert run(store.load(KEY)) == [*entries, *more]
    assert ledger.search("marmalade", scope=SCOPE).total == 0
    assert ledger.search("plan", scope=SCOPE).total > 0


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_erased_as_an_event_is_not_loaded_again(tmp_path: Path, *, whole: bool) -> None:
    entries = lines("the kumquat password", "go on")
    with treering.open(tmp_path / "ledger.db") as ledger:
        store = TreeringSessionStore(ledger, strict=True)
        run(store.append(KEY, entries))

        if whole:
            ledger.redact(SCOPE, session_id=SESSION)
        else:
            ids = [one[0] for one in told(ledger) if "kumquat" in str(one[3])]
            ledger.redact(SCOPE, event_ids=ids)

        loaded = run(store.load(KEY))
        assert (loaded or []) == ([] if whole else entries[2:])
    assert b"kumquat" not in (tmp_path / "ledger.db").read_bytes()


def test_events_that_a_reader_takes_back_leave_the_entries_alone(ledger: Ledger) -> None:
    entries = lines("one")
    store = TreeringSessionStore(ledger, strict=True)
    run(store.append(KEY, entries))

    ledger.importing.withdraw(SCOPE, [one[0] for one in told(ledger)])

    assert told(ledger)[0][3] is None
    assert run(store.load(KEY)) == entries


@pytest.mark.parametrize("strict", [False, True])
def test_a_full_disk_costs_the_copy_and_not_the_session(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, *, strict: bool
) -> None:
    disk, errors = FullDisk(ledger, monkeypatch), []
    store = TreeringSessionStore(ledger, strict=strict)
    entries = lines("one")

    async def mirror() -> None:
        async def note(_: Any, error: str) -> None:
            errors.append(error)

        batcher = TranscriptMirrorBatcher(store, "/projects", note)
        disk.is_full = True
        batcher.enqueue(f"/projects/{PROJECT}/{SESSION}.jsonl", entries[:1])
        await batcher.flush()
        disk.is_full = False
        batcher.enqueue(f"/projects/{PROJECT}/{SESSION}.jsonl", entries[1:])
        await batcher.close()

    run(mirror())

    if strict:
        assert len(errors) == 1
        assert StorageFull.__name__ in errors[0] or "full" in errors[0]
        assert run(store.load(KEY)) == entries[1:]
    else:
        assert errors == []
        assert run(store.load(KEY)) == entries


def test_several_stores_append_to_one_session_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    logs = [lines(f"line {n}", first=10 * n) for n in range(1, 5)]
    ledgers = [treering.open(path, durability="normal") for _ in logs]

    async def append() -> None:
        stores = [TreeringSessionStore(ledger, strict=True) for ledger in ledgers]
        await asyncio.gather(
            *(store.append(KEY, log) for store, log in zip(stores, logs, strict=True))
        )

    run(append())

    store = TreeringSessionStore(ledgers[0])
    loaded = {entry["uuid"] for entry in run(store.load(KEY))}
    assert loaded == {entry["uuid"] for log in logs for entry in log}
    said = [one[3]["text"] for one in told(ledgers[0]) if one[1] == "conversation.user"]
    assert sorted(said) == [f"line {n}" for n in range(1, 5)]
    (summary,) = run(store.list_session_summaries(PROJECT))
    assert summary["session_id"] == SESSION
    for ledger in ledgers:
        ledger.close()
