"""A ledger that fails costs the record, not the turn: under every adapter that keeps state.

Each says the same with a full disk, without a server, or with values that no ledger takes, as with
a ledger that works. What waited is recorded later, in order, once: also by another process.
"""

from __future__ import annotations

import asyncio
import contextlib
import operator
import uuid
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

import pytest
from agent_framework import Message
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.models.test import TestModel

import treering
from concurrency.processes import colleagues
from effort import PATIENCE_S
from full_disk import FullDisk, LostServer
from treering.adapters.adk import TreeringMemoryService, TreeringSessionService
from treering.adapters.agent_framework import TreeringHistoryProvider
from treering.adapters.claude_agent_sdk import TreeringSessionStore
from treering.adapters.langchain import TreeringChatMessageHistory
from treering.adapters.langgraph import TreeringSaver, TreeringStore
from treering.adapters.openai_agents import TreeringSession
from treering.adapters.pydantic_ai import TreeringConversationStore
from treering.errors import StorageError, TreeringError
from treering.hook import SPOOL_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

    from treering import Ledger

SCOPE = "acme/app"
SECRET = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
ME: dict[str, Any] = {"app_name": "weather", "user_id": "mina"}
KEY: Any = {"project_key": "proj", "session_id": "11111111-1111-4111-8111-111111111111"}


class State(TypedDict):
    """What the graph of these tests passes on."""

    log: Annotated[list[str], operator.add]


class Adapter(NamedTuple):
    """How one adapter is made and used."""

    make: Callable[..., Any]
    talk: Callable[[Any, str], Awaitable[None]]
    """Say something; raises what the agent would."""
    seen: Callable[[Any], Awaitable[Any]]
    """Return what the agent sees of all that was said."""


# LangGraph.


def graph_of(saver: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("ask", lambda state: {"log": [interrupt(f"{len(state['log'])}?")]})
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=saver)


async def invoke(saver: Any, text: str) -> None:
    graph, thread = graph_of(saver), {"configurable": {"thread_id": "t"}}
    await graph.ainvoke({"log": [text]}, thread)
    await graph.ainvoke(Command(resume=f"yes to {text}"), thread)


async def states(saver: Any) -> Any:
    thread: Any = {"configurable": {"thread_id": "t"}}
    graph = graph_of(saver)
    return [one.values async for one in graph.aget_state_history(thread)]


async def put_item(store: Any, text: str) -> None:
    await store.aput(("users", "mina"), text, {"text": text})
    await store.aput(("users", "mina"), "last", {"text": text})


async def items(store: Any) -> Any:
    found = await store.asearch(("users",))
    last = await store.aget(("users", "mina"), "last")
    return sorted((one.key, one.value) for one in found), last and last.value


# Google ADK.


def heard(text: str) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    actions = EventActions(state_delta={"last": text, "user:all": text})
    return Event(
        id=text, author="user", timestamp=1.79e9, content=content, actions=actions,
        invocation_id="i",
    )  # fmt: skip


async def append(service: Any, text: str) -> None:
    session = await service.get_session(**ME, session_id="s")
    if session is None:
        session = await service.create_session(**ME, session_id="s", state={"app:x": 1})
    await service.append_event(session, heard(text))


async def session_of(service: Any) -> Any:
    session = await service.get_session(**ME, session_id="s")
    return session and (session.state, [event.id for event in session.events])


async def memorise(memory: Any, text: str) -> None:
    await memory.add_events_to_memory(**ME, events=[heard(text)])


async def memories(memory: Any) -> Any:
    found = await memory.search_memory(**ME, query="first or second")
    return sorted(one.content.parts[0].text for one in found.memories)


# Claude, OpenAI, Pydantic AI, Agent Framework, LangChain.


async def mirror(store: Any, text: str) -> None:
    entry = {
        "type": "user", "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, text)),
        "sessionId": KEY["session_id"], "timestamp": "2026-11-16T10:00:00.000Z",
        "message": {"role": "user", "content": text},
    }  # fmt: skip
    await store.append(KEY, [entry])


async def transcript(store: Any) -> Any:
    listed = [one["session_id"] for one in await store.list_sessions("proj")]
    return await store.load(KEY), listed


async def add(session: Any, text: str) -> None:
    await session.add_items([{"role": "user", "content": text}])
    await session.add_items([{"role": "assistant", "content": "wrong"}])
    assert (await session.pop_item())["content"] == "wrong"
    await session.add_items([{"role": "assistant", "content": f"to {text}"}])


async def converse(store: Any, text: str) -> None:
    before = await store.load("c")
    agent = Agent(TestModel(custom_output_text=f"to {text}", call_tools=[]))
    conversation = before or Conversation(conversation_id="c")
    await store.save(await agent.run(text, conversation=conversation))


async def conversation(store: Any) -> Any:
    loaded = await store.load("c")
    return loaded and [part.content for one in loaded.messages for part in one.parts]


async def save(provider: Any, text: str) -> None:
    await provider.save_messages("s", [Message("user", [text]), Message("assistant", ["ok"])])


async def history(provider: Any) -> Any:
    return [(one.role, one.text) for one in await provider.get_messages("s")]


async def add_messages(history: Any, text: str) -> None:
    await history.aadd_messages([HumanMessage(text), AIMessage(f"to {text}")])


async def messages(history: Any) -> Any:
    return [one.content for one in await history.aget_messages()]


ADAPTERS = {
    "langgraph saver": Adapter(
        lambda ledger, **named: TreeringSaver(ledger, scope=SCOPE, **named), invoke, states
    ),
    "langgraph store": Adapter(
        lambda ledger, **named: TreeringStore(ledger, scope=SCOPE, **named), put_item, items
    ),
    "adk sessions": Adapter(TreeringSessionService, append, session_of),
    "adk memory": Adapter(TreeringMemoryService, memorise, memories),
    "claude": Adapter(TreeringSessionStore, mirror, transcript),
    "openai": Adapter(
        lambda ledger, **named: TreeringSession(ledger, "s", scope=SCOPE, **named),
        add,
        lambda session: session.get_items(),
    ),
    "pydantic ai": Adapter(
        lambda ledger, **named: TreeringConversationStore(ledger, scope=SCOPE, **named),
        converse,
        conversation,
    ),
    "agent framework": Adapter(
        lambda ledger, **named: TreeringHistoryProvider(ledger, scope=SCOPE, **named), save, history
    ),
    "langchain": Adapter(
        lambda ledger, **named: TreeringChatMessageHistory(ledger, "s", scope=SCOPE, **named),
        add_messages,
        messages,
    ),
}
every_adapter = pytest.mark.parametrize("name", ADAPTERS)


def run(work: Any) -> Any:
    """Run a coroutine, for a limited time."""
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def counts(made: Any) -> Any:
    """Return what counts the waiting and lost records of an adapter."""
    if isinstance(made, TreeringHistoryProvider):
        return made.log("s")
    return getattr(made, "buffer", None) or made.log


@cache
def said_by(name: str, *texts: str) -> Any:
    """Return what an agent sees that has said ``texts`` with a ledger that works."""
    adapter = ADAPTERS[name]
    with treering.open(":memory:") as ledger:
        made = adapter.make(ledger, strict=True)
        for text in texts:
            run(adapter.talk(made, text))
        return run(adapter.seen(made))


def warnings_of(ledger: Ledger) -> list[Any]:
    return [
        header.refs["code"]
        for scope in ledger.scopes().items
        for header in ledger.headers(scope.scope, kinds=["ops.warning"]).items
    ]


def everything(ledger: Ledger) -> list[Any]:
    return [
        event
        for scope in ledger.scopes().items
        for event in ledger.events(scope.scope, first=1_000).items
    ]


@every_adapter
@pytest.mark.parametrize("outage", [FullDisk, LostServer])
def test_an_outage_costs_no_turn_and_what_waited_is_recorded_once(
    name: str, outage: Any, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, failing = ADAPTERS[name], outage(ledger, monkeypatch)
    made = adapter.make(ledger)
    run(adapter.talk(made, "first"))
    before = run(adapter.seen(made))

    failing.is_full = True
    run(adapter.talk(made, "second"))
    run(adapter.talk(made, "third"))
    seen = run(adapter.seen(made))

    assert before == said_by(name, "first")
    assert seen == said_by(name, "first", "second", "third")
    assert counts(made).waiting > 0
    assert isinstance(counts(made).error, StorageError)

    failing.is_full = False
    assert counts(made).flush()
    run(adapter.talk(made, "fourth"))
    expected = said_by(name, "first", "second", "third", "fourth")
    assert run(adapter.seen(made)) == expected
    assert run(adapter.seen(adapter.make(ledger, strict=True))) == expected
    assert counts(made).lost == 0
    assert warnings_of(ledger) == ["records_late"]
    assert ledger.admin.verify(derived=True).intact


@every_adapter
@pytest.mark.parametrize("outage", [FullDisk, LostServer])
def test_a_strict_adapter_raises(
    name: str, outage: Any, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, failing = ADAPTERS[name], outage(ledger, monkeypatch)
    made = adapter.make(ledger, strict=True)
    run(adapter.talk(made, "first"))

    failing.is_full = True
    with pytest.raises(StorageError):
        run(adapter.talk(made, "second"))
    failing.is_full = False

    assert run(adapter.seen(made))


@every_adapter
def test_a_ledger_that_is_away_from_the_beginning_costs_no_turn(
    name: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, failing = ADAPTERS[name], LostServer(ledger, monkeypatch)
    made = adapter.make(ledger)

    failing.is_full = True
    run(adapter.talk(made, "first"))

    assert run(adapter.seen(made)) == said_by(name, "first")
    failing.is_full = False
    assert counts(made).flush()
    assert run(adapter.seen(adapter.make(ledger, strict=True))) == said_by(name, "first")


@every_adapter
def test_a_value_that_cannot_be_stored_costs_the_record(name: str) -> None:
    """A guard that rejects refuses secrets, and bytes that it cannot read."""
    adapter = ADAPTERS[name]
    with treering.open(":memory:", guard="reject") as ledger:
        made = adapter.make(ledger)
        run(adapter.talk(made, SECRET))
        run(adapter.talk(made, "second"))
        seen = run(adapter.seen(made))

        assert counts(made).lost > 0
        assert isinstance(counts(made).error, TreeringError)
        assert "second" in str(seen)
        assert "records_lost" in warnings_of(ledger)
        assert SECRET not in str([event.payload for event in everything(ledger)])


def talk_and_wait(pipe: Connection, folder: str, _: int) -> None:
    """Say something that full disks do not take, with every adapter; wait to be killed."""
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv(SPOOL_VARIABLE, f"{folder}/spool")
        waiting = []
        for name, adapter in ADAPTERS.items():
            ledger = stack.enter_context(treering.open(f"{folder}/{name}.db"))
            made = stack.enter_context(contextlib.nullcontext(adapter.make(ledger)))
            run(adapter.talk(made, "first"))
            FullDisk(ledger, patch).is_full = True
            run(adapter.talk(made, "second"))
            run(adapter.talk(made, "third"))
            waiting.append(counts(made).waiting)
        pipe.send(waiting)
        pipe.recv()


def test_what_waited_in_a_process_that_was_killed_is_recorded_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SPOOL_VARIABLE, str(tmp_path / "spool"))
    with colleagues(1, talk_and_wait, str(tmp_path)) as [colleague]:
        assert min(colleague.hear()) > 0

    for name, adapter in ADAPTERS.items():
        expected = said_by(name, "first", "second", "third")
        with treering.open(tmp_path / f"{name}.db") as ledger:
            heir = adapter.make(ledger)
            assert run(adapter.seen(heir)) == expected, name
            assert counts(heir).flush()
            for again in (adapter.make(ledger), adapter.make(ledger, strict=True)):
                assert run(adapter.seen(again)) == expected, name
                assert counts(again).waiting == 0
            assert ledger.admin.verify(derived=True).intact
    assert not list((tmp_path / "spool").rglob("*.jsonl"))
