"""A history provider of Microsoft's Agent Framework in a ledger."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any, Final

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
    tool,
)

from full_disk import FullDisk
from treering.adapters.agent_framework import TreeringHistoryProvider

if TYPE_CHECKING:
    import pytest

    from treering.ledger.ledger import Ledger

SCOPE: Final = "acme/app"


@tool(approval_mode="never_require")
def tide(port: str) -> str:
    """Return the time of the high tide."""
    return "14:10"


class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """A model that calls a tool for each question, and then answers."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[str]] = []

    async def _inner_get_response(self, *, messages: Any, **_: Any) -> ChatResponse[Any]:
        self.seen.append([str(message.role) for message in messages])
        if messages[-1].role == "tool":
            said = Message(role="assistant", contents=["High at 14:10."])
        else:
            number = f"c{len(self.seen)}"
            call = Content.from_function_call(number, "tide", arguments='{"port": "Bergen"}')
            said = Message(role="assistant", contents=[call])
        return ChatResponse(messages=[said], response_id=f"r{len(self.seen)}")


async def talk(provider: Any, *others: Any) -> tuple[list[list[str]], list[Any]]:
    """Ask twice; return what the model was shown, and what the provider has."""
    client = Scripted()
    agent = Agent(client=client, tools=[tide], context_providers=[provider, *others])
    session = agent.create_session(session_id="s1")
    for question in ("When is high tide?", "And now?"):
        reply = await agent.run(question, session=session)
        assert reply.text == "High at 14:10."
    state = session.state.get(provider.source_id)
    kept = await provider.get_messages("s1", state=state)
    # The framework gives each call an id by chance.
    text = re.sub(r"af-call-\w+", "af-call", json.dumps([message.to_dict() for message in kept]))
    return client.seen, json.loads(text)


def test_an_agent_remembers_as_with_the_provider_in_memory(ledger: Ledger) -> None:
    ours = asyncio.run(talk(TreeringHistoryProvider(ledger, scope=SCOPE, strict=True)))

    assert ours == asyncio.run(talk(InMemoryHistoryProvider()))
    session = ledger.session("s1", scope=SCOPE, agent="x")
    turn = ["conversation.user", "tool.call", "tool.result", "conversation.assistant"]
    assert [one.kind for one in session.headers()] == ["session.opened", *turn, *turn]
    outputs = [event.payload["output"] for event in session.events(kinds=["tool.result"])]
    assert outputs == ["14:10", "14:10"]


def test_an_auditor_records_and_shows_the_model_nothing(ledger: Ledger) -> None:
    auditor = TreeringHistoryProvider(ledger, scope=SCOPE, strict=True, load_messages=False)

    seen, kept = asyncio.run(talk(auditor, InMemoryHistoryProvider()))

    alone, messages = asyncio.run(talk(InMemoryHistoryProvider()))
    assert (seen, kept) == (alone, messages)


def test_a_full_disk_costs_no_answer(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, provider = FullDisk(ledger, monkeypatch), TreeringHistoryProvider(ledger, scope=SCOPE)
    disk.is_full = True

    ours = asyncio.run(talk(provider))

    assert ours == asyncio.run(talk(InMemoryHistoryProvider()))
    disk.is_full = False
    assert provider.log("s1").flush()
    assert len(asyncio.run(provider.get_messages("s1"))) == 8
