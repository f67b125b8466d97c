"""A chat history of LangChain in a ledger: its own types, as the history in memory keeps them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import pytest
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from full_disk import FullDisk
from treering.adapters.langchain import TreeringChatMessageHistory
from treering.errors import StorageFull

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger

SCOPE: Final = "acme/app"
MESSAGES: Final[list[Any]] = [
    SystemMessage("Be brief."),
    HumanMessage("High tide?", name="jo"),
    AIMessage("", tool_calls=[{"name": "tide", "args": {"port": "Bergen"}, "id": "c1"}]),
    ToolMessage("14:10", tool_call_id="c1", artifact={"minutes": 850}),
    ToolMessage("no such port", tool_call_id="c2", status="error"),
    AIMessage(
        "At 14:10.", usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    ),
    HumanMessage([{"type": "text", "text": "and this?"}, {"type": "image_url", "image_url": "x"}]),
]


def history(ledger: Ledger, *, strict: bool = True) -> TreeringChatMessageHistory:
    return TreeringChatMessageHistory(ledger, "s1", scope=SCOPE, strict=strict)


@pytest.mark.filterwarnings("ignore:The class `InMemoryChatMessageHistory`")
def test_messages_come_back_as_they_were_and_are_told_as_events(ledger: Ledger) -> None:
    ours, theirs = history(ledger), InMemoryChatMessageHistory()
    for one in (ours, theirs):
        one.add_messages(MESSAGES[:3])
        one.add_message(MESSAGES[3])
        asyncio.run(one.aadd_messages(MESSAGES[4:]))
        one.add_user_message("bye")

    assert ours.messages == theirs.messages
    assert [type(one) for one in ours.messages] == [type(one) for one in theirs.messages]
    assert asyncio.run(ours.aget_messages()) == history(ledger).messages
    session = ledger.session("s1", scope=SCOPE, agent="x")
    assert [one.kind for one in session.headers()] == [
        "session.opened", "conversation.user", "tool.call", "tool.result", "tool.result",
        "conversation.assistant", "conversation.user", "conversation.user",
    ]  # fmt: skip
    ours.clear()
    assert ours.messages == []
    assert ledger.search("tide", scope=SCOPE).total > 0


@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
def test_a_chain_remembers_and_a_full_disk_costs_it_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, kept = FullDisk(ledger, monkeypatch), history(ledger, strict=False)
    model: Any = RunnableLambda(lambda messages: AIMessage(f"{len(messages)} messages"))
    chain: Any = RunnableWithMessageHistory(model, lambda: kept, history_factory_config=[])

    assert chain.invoke([HumanMessage("one")]).content == "1 messages"
    disk.is_full = True
    assert chain.invoke([HumanMessage("two")]).content == "3 messages"
    assert chain.invoke([HumanMessage("three")]).content == "5 messages"
    with pytest.raises(StorageFull):
        history(ledger).add_user_message("x")
    disk.is_full = False

    assert kept.log.flush()
    assert len(history(ledger).messages) == 6
