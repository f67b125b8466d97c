"""Conversations of Pydantic AI in a ledger, and its runs recorded."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final

import pytest
from pydantic_ai import Agent, BinaryContent, ModelRetry
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    InMemoryConversationStore,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, UserPromptPart
from pydantic_ai.models.test import TestModel

import treering
from full_disk import FullDisk
from treering.adapters.pydantic_ai import TreeringConversationStore, TreeringRecorder
from treering.errors import StorageFull, ToolDenied

if TYPE_CHECKING:
    from pathlib import Path

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session

SCOPE: Final = "acme/app"


def pilot(text: str = "High at 14:10.", **more: Any) -> Agent[None, str]:
    agent = Agent(TestModel(custom_output_text=text), **more)

    @agent.tool_plain
    def tide(port: str) -> str:
        """Return the time of the high tide."""
        return "14:10"

    return agent


def ask(agent: Agent[None, str], question: str = "?") -> str:
    return asyncio.run(agent.run(question)).output


def kinds(session: Session) -> list[str]:
    return [header.kind for header in session.headers()]


async def scenario(store: Any) -> list[Any]:
    """Return what a store answers to all that can be asked."""
    seen: list[Any] = []
    begun = Conversation(conversation_id="c1")
    result = await pilot().run("When is high tide?", conversation=begun)
    seen.append(len(await store.save(result, scope="u1")))
    loaded = await store.load("c1")
    stale = await store.load("c1")
    picture = BinaryContent(data=b"\xff\xd8\x00", media_type="image/jpeg")
    more = await pilot("Later.").run(["And on this?", picture], conversation=loaded)
    seen.append(len(await store.save(more)))
    for attempt in (stale, Conversation(conversation_id="c1")):
        with pytest.raises(ConversationConflict):
            await store.save(attempt)
    whole = await store.load("c1")
    seen += [[type(one).__name__ for one in whole.messages], whole.usage]
    seen += [len((await store.load("c1", limit=2)).messages), await store.load("c1", scope="u2")]
    fork = await store.fork("c1", at=4, new_conversation_id="c2")
    seen.append(len(fork.messages))
    branch = await store.branch("c1", at=4, expected_revision=whole.revision)
    await store.save(await pilot("Other.").run("Again?", conversation=branch))
    record = await store.read_record("c1")
    seen += [len(record.branches), record.scope, len((await store.load("c1")).messages)]
    back = await store.branch(
        "c1", from_entry=record.branches[0], expected_revision=record.revision
    )
    seen.append(len(back.messages))
    seen.append([one.conversation_id for one in await store.read_records(limit=5)])
    seen.append([one.conversation_id for one in await store.read_records(scope="u2")])
    with pytest.raises(ConversationConflict):
        await store.delete_record("c1", expected_revision="another")
    await store.delete("c1")
    seen += [await store.load("c1"), len((await store.load("c2")).messages)]
    with pytest.raises(LookupError):
        await store.read_entry(record.branches[0])
    missing = ConversationRecord(conversation_id="c3", head_id="nowhere")
    with pytest.raises(ConversationConflict):
        await store.write_record(missing, expected_revision=None)
    fresh = await pilot("New.").run("Once more?", conversation=Conversation(conversation_id="c1"))
    seen.append(len(await store.save(fresh)))
    return [*seen, (await store.load("c1")).messages[-1].parts[0].content]


def test_a_store_answers_as_the_one_in_memory(ledger: Ledger) -> None:
    ours = asyncio.run(scenario(TreeringConversationStore(ledger, scope=SCOPE)))

    assert ours == asyncio.run(scenario(InMemoryConversationStore()))
    assert ledger.admin.verify().intact
    # The deleted conversation is gone from searches, what its fork shares is not.
    assert ledger.search("Again?", scope=SCOPE).total == 0
    assert ledger.search("tide", scope=SCOPE).total > 0


def test_whatever_is_loaded_is_equal_to_what_was_saved(ledger: Ledger) -> None:
    store = TreeringConversationStore(ledger, scope=SCOPE)
    picture = BinaryContent(data=bytes(range(256)), media_type="image/png")

    async def main() -> None:
        begun = Conversation(conversation_id="c1")
        result = await pilot().run(["Look.", picture], conversation=begun)
        await store.save(result)
        loaded = await store.load("c1")
        assert loaded is not None
        written = ModelMessagesTypeAdapter.dump_json(result.all_messages())
        assert loaded.messages == ModelMessagesTypeAdapter.validate_json(written)
        assert loaded.usage == result.usage
        await store.save(await pilot().run("half \ud83d", conversation=loaded))
        again = await store.load("c1")
        assert again is not None
        said: Any = again.messages[4].parts[0]
        assert said.content == r"half \ud83d"

    asyncio.run(main())


@pytest.mark.parametrize("places", [1, 3])
def test_six_writers_lose_nothing(tmp_path: Path, places: int) -> None:
    ledgers = [treering.open(tmp_path / "l.db", durability="normal") for _ in range(places)]
    stores = [TreeringConversationStore(one, scope=SCOPE) for one in ledgers]

    async def write(number: int) -> None:
        store = stores[number % places]
        for _ in range(100):
            conversation = await store.load("race") or Conversation(conversation_id="race")
            result = await pilot(f"answer {number}").run("?", conversation=conversation)
            try:
                await store.save(result)
            except ConversationConflict:
                await asyncio.sleep(random.random() / 100)
            else:
                return
        raise AssertionError

    async def main() -> list[Any]:
        await asyncio.gather(*map(write, range(6)))
        loaded = await stores[0].load("race")
        return [] if loaded is None else loaded.messages

    found = asyncio.run(main())

    said = {part.content for message in found for part in message.parts if part.part_kind == "text"}
    assert said == {f"answer {number}" for number in range(6)}
    assert ledgers[0].admin.verify().intact
    for ledger in ledgers:
        ledger.close()


def test_an_erased_message_is_gone_from_its_history_and_the_rest_stays(ledger: Ledger) -> None:
    store = TreeringConversationStore(ledger, scope=SCOPE)

    async def main() -> int:
        begun = Conversation(conversation_id="c1")
        await store.save(await pilot().run("the kumquat password", conversation=begun))
        (event,) = ledger.session("c1", scope=SCOPE, agent="x").events(kinds=["conversation.user"])
        ledger.redact(SCOPE, event_id=event.event_id)
        loaded = await store.load("c1")
        assert loaded is not None
        assert "kumquat" not in str(loaded.messages)
        return len(loaded.messages)

    assert asyncio.run(main()) == 3


def test_a_run_is_recorded_and_saving_it_records_nothing_twice(
    ledger: Ledger, session: Session
) -> None:
    store = TreeringConversationStore(ledger, scope=SCOPE)
    agent = pilot(capabilities=[TreeringRecorder(session, strict=True)])

    async def main() -> None:
        begun = Conversation(conversation_id=session.session_id)
        await store.save(await agent.run("When is high tide?", conversation=begun))

    asyncio.run(main())

    assert kinds(session) == [
        "session.opened", "run.started", "conversation.user", "usage.reported", "tool.call",
        "tool.result", "conversation.assistant", "usage.reported", "run.ended",
    ]  # fmt: skip
    with session.turn() as turn:
        turn.user("When is high tide?")
        ask(agent, "When is high tide?")
    assert kinds(session)[9:] == [
        "run.started", "conversation.user", "usage.reported", "tool.call", "tool.result",
        "conversation.assistant", "usage.reported", "run.ended",
    ]  # fmt: skip


def test_errors_and_retries_of_tools_are_recorded_and_raised(session: Session) -> None:
    agent = Agent(TestModel(), capabilities=[TreeringRecorder(session, strict=True)], retries=3)
    raised: list[Exception] = [ModelRetry("again"), LookupError("no such port")]

    @agent.tool_plain
    def tide() -> str:
        raise raised.pop(0)

    with pytest.raises(LookupError, match="no such port"):
        ask(agent)

    assert [call.status for call in session.tool_calls()] == ["failed", "failed"]
    assert kinds(session)[-1] == "run.failed"


def test_a_denied_tool_does_not_run_and_a_full_disk_costs_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = ledger.session("closed", scope=SCOPE, agent="lyria", tools=["other"])
    with pytest.raises(ToolDenied):
        ask(pilot(capabilities=[TreeringRecorder(closed)]))

    disk, session = FullDisk(ledger, monkeypatch), ledger.session("s", scope=SCOPE, agent="lyria")
    recorder = TreeringRecorder(session)
    disk.is_full = True
    assert ask(pilot(capabilities=[recorder])) == "High at 14:10."
    assert recorder.writer.lost > 0
    with pytest.raises(StorageFull):
        ask(pilot(capabilities=[TreeringRecorder(session, strict=True)]))
    store = TreeringConversationStore(ledger, scope=SCOPE, strict=True)
    entry = ConversationEntry(parent_id=None, message=ModelRequest(parts=[UserPromptPart("x")]))
    record = ConversationRecord(conversation_id="c", head_id=entry.id)
    with pytest.raises(StorageFull):
        asyncio.run(store.write_record(record, new_entries=[entry], expected_revision=None))
    disk.is_full = False
    asyncio.run(store.write_record(record, new_entries=[entry], expected_revision=None))
    assert asyncio.run(store.read_entry(entry.id)) == entry
