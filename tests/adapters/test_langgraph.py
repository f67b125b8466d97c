"""LangGraph on a ledger: its own suite, and graphs that behave as with its in-memory saver."""

from __future__ import annotations

import asyncio
import operator
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import ListNamespacesOp, MatchCondition, PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

import treering
from effort import PATIENCE_S
from treering import Ledger, aio
from treering.adapters.langgraph import TreeringSaver, TreeringStore
from treering.adapters.langgraph.byte_deltas import GrowingValue, Version, applied, difference
from treering.errors import SensitiveContent, StorageFull

if TYPE_CHECKING:
    from pathlib import Path


SCOPE = "acme/graphs"


class State(TypedDict):
    """What the graphs of these tests pass on."""

    log: Annotated[list[str], operator.add]


@pytest.fixture
def saver(ledger: Ledger) -> TreeringSaver:
    """Return a saver on an empty ledger."""
    return TreeringSaver(ledger, scope=SCOPE)


def ask(state: State) -> dict[str, list[str]]:
    """Stop and ask."""
    return {"log": [interrupt(f"after {len(state['log'])}")]}


def graph_of(saver: BaseCheckpointSaver[Any]) -> Any:
    """Return a graph with a subgraph that asks, and steps around it."""
    inner = StateGraph(State)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    inner.add_edge("ask", END)
    outer = StateGraph(State)
    outer.add_node("first", lambda _: {"log": ["first"]})
    outer.add_node("inner", inner.compile())
    outer.add_node("last", lambda _: {"log": ["last"]})
    outer.add_edge(START, "first")
    outer.add_edge("first", "inner")
    outer.add_edge("inner", "last")
    outer.add_edge("last", END)
    return outer.compile(checkpointer=saver)


def story(saver: BaseCheckpointSaver[Any]) -> list[Any]:
    """Interrupt, resume, travel in time, fork; return all that can be seen of it."""
    graph, config = graph_of(saver), {"configurable": {"thread_id": "t"}}
    seen: list[Any] = [graph.invoke({"log": ["in"]}, config)["log"]]
    state = graph.get_state(config, subgraphs=True)
    seen += [state.next, [one.value for one in state.interrupts]]
    seen.append(graph.invoke(Command(resume="yes"), config)["log"])
    history = list(graph.get_state_history(config))
    seen += [[one.metadata["step"], one.values, one.next] for one in history]
    forked = graph.update_state(history[2].config, {"log": ["forked"]})
    seen.append(graph.get_state(forked).values)
    seen.append(graph.get_state(history[1].config).values)
    seen.append(graph.invoke(None, forked)["log"])
    seen.append(graph.invoke(Command(resume="again"), config)["log"])
    seen += [one.values for one in graph.get_state_history(config)]
    seen.append(graph.invoke({"log": ["more"]}, {"configurable": {"thread_id": "u"}})["log"])
    return seen


def test_a_graph_is_the_same_as_with_the_saver_in_memory(saver: TreeringSaver) -> None:
    assert story(saver) == story(InMemorySaver())


def test_a_graph_goes_on_in_another_process_and_asynchronously(tmp_path: Path) -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    with treering.open(tmp_path / "a.db") as ledger:
        graph_of(TreeringSaver(ledger, scope=SCOPE)).invoke({"log": ["in"]}, config)

    async def resume() -> list[str]:
        async with aio.open(tmp_path / "a.db") as ledger:
            graph = graph_of(TreeringSaver(ledger, scope=SCOPE))
            result = await graph.ainvoke(Command(resume="yes"), config)
            states = [one async for one in graph.aget_state_history(config)]
            assert len(states) == 5
            log: list[str] = result["log"]
            return log

    assert asyncio.run(asyncio.wait_for(resume(), PATIENCE_S))[-2:] == ["yes", "last"]


def appended(messages: list[Any], writes: list[list[Any]]) -> list[Any]:
    """Return messages with those of all writes."""
    return [*messages, *(one for write in writes for one in write)]


class Chat(TypedDict):
    """Messages, as what changed."""

    messages: Annotated[list[Any], DeltaChannel(appended, snapshot_frequency=4)]


def chat(saver: BaseCheckpointSaver[Any], turns: int) -> Any:
    """Run a graph whose messages are a delta channel."""
    builder = StateGraph(Chat)
    builder.add_node(
        "answer",
        lambda state: {
            "messages": [AIMessage(f"a{len(state['messages'])}", id=f"a{uuid.uuid4()}")]
        },
    )
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    graph = builder.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    for n in range(turns):
        graph.invoke({"messages": [HumanMessage(f"q{n}", id=f"q{n}")]}, config)
    return graph, config


def texts(graph: Any, config: Any) -> list[str]:
    """Return what was said."""
    return [one.content for one in graph.get_state(config).values["messages"]]


def test_delta_channels_are_replayed_also_after_pruning(saver: TreeringSaver) -> None:
    graph, config = chat(saver, 5)
    other, _ = chat(InMemorySaver(), 5)
    said = texts(graph, config)
    assert said == texts(other, config)
    assert len(said) == 10

    saver.prune(["t"])

    assert texts(graph, config) == said
    graph.invoke({"messages": [HumanMessage("more", id="more")]}, config)
    assert texts(graph, config)[:11] == [*said, "more"]
    saver.copy_thread("t", "copy")
    saver.delete_thread("t")
    assert texts(graph, {"configurable": {"thread_id": "copy"}})[:11] == [*said, "more"]
    assert graph.get_state(config).values == {}


def put_many(saver: TreeringSaver, count: int, thread: str = "t") -> list[str]:
    """Put checkpoints of a list that grows by one at each step; return what it holds at last."""
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    versions: dict[str, Any] = {}
    items: list[str] = []
    for step in range(count):
        items.append(f"message {step} {uuid.uuid4()}")
        checkpoint = empty_checkpoint()
        checkpoint["id"] = str(uuid6(clock_seq=step))
        checkpoint["channel_values"] = {"messages": list(items), "step": step}
        new: dict[str, Any] = {
            name: saver.get_next_version(versions.get(name), None) for name in ("messages", "step")
        }
        versions |= new
        checkpoint["channel_versions"] = dict(versions)
        metadata: Any = {"source": "loop", "step": step, "parents": {}, "run_id": f"r{step % 3}"}
        config = saver.put(config, checkpoint, metadata, new)
        saver.put_writes(config, [("messages", items[-1])], f"task{step}")
    return items


def stored_bytes(ledger: Ledger) -> int:
    """Return how many bytes of payloads there are."""
    return sum(
        header.payload_bytes
        for session_id in ledger.session_ids(SCOPE)
        for header in ledger.session(session_id, scope=SCOPE, agent="x").headers()
    )


def test_storage_grows_with_what_changed(ledger: Ledger, saver: TreeringSaver) -> None:
    items = put_many(saver, 200)
    latest: Any = {"configurable": {"thread_id": "t"}}
    found = list(saver.list(latest))

    assert [len(one.checkpoint["channel_values"]["messages"]) for one in found] == [
        *range(200, 0, -1)
    ]
    assert found[0].checkpoint["channel_values"]["messages"] == items
    whole = sum(len("".join(items[:n])) for n in range(200))
    assert stored_bytes(ledger) < whole / 2
    # Of a ledger that another process has: nothing is remembered.
    again = TreeringSaver(ledger, scope=SCOPE)
    assert again.get_tuple(latest) == found[0]


def test_what_is_deleted_is_erased_and_what_others_need_stays(
    ledger: Ledger, saver: TreeringSaver
) -> None:
    items = put_many(saver, 30)
    put_many(saver, 3, "other")
    latest: Any = {"configurable": {"thread_id": "t"}}

    saver.delete_for_runs(["r2", "unknown"])
    left = list(saver.list(latest))
    assert [one.metadata["step"] for one in left] == [n for n in range(29, -1, -1) if n % 3 != 2]
    for one in left:
        assert one.checkpoint["channel_values"]["messages"] == items[: one.metadata["step"] + 1]
    newest = saver.get_tuple(latest)
    assert newest is not None
    assert newest.metadata["step"] == 28

    saver.prune(["t"])
    kept = list(saver.list(latest))
    assert kept == [newest]
    assert ledger.admin.verify(derived=True).intact

    saver.delete_thread("t")
    assert list(saver.list(latest)) == []
    assert saver.get_tuple(latest) is None
    session = ledger.session("langgraph:t", scope=SCOPE, agent="x")
    assert all(one.redacted or one.kind == "ledger.redacted" for one in session.headers())
    assert len(list(saver.list({"configurable": {"thread_id": "other"}}))) == 2
    assert put_many(saver, 2) == saver.get_tuple(latest).checkpoint["channel_values"]["messages"]  # type: ignore[union-attr]


def test_two_savers_of_one_thread_lose_nothing(ledger: Ledger) -> None:
    """Each remembers what it put, and another has put more or pruned since."""
    one, other = (TreeringSaver(ledger, scope=SCOPE) for _ in range(2))
    put_many(one, 10)
    other.prune(["t"])
    latest: Any = {"configurable": {"thread_id": "t"}}
    for turn, saver in enumerate([one, other] * 3):
        items = put_many(saver, 5)
        if turn % 2:
            saver.prune(["t"])
        for reader in (one, other):
            found = reader.get_tuple(latest)
            assert found is not None
            assert found.checkpoint["channel_values"]["messages"] == items


def test_what_another_saver_erases_is_not_remembered(ledger: Ledger, saver: TreeringSaver) -> None:
    put_many(saver, 12)
    latest: Any = {"configurable": {"thread_id": "t"}}
    assert saver.get_tuple(latest) is not None
    session = ledger.session("langgraph:t", scope=SCOPE, agent="x")
    values = [one.event_id for one in session.headers(kinds=["state.value"])]

    ledger.redact(SCOPE, event_ids=values)

    found = saver.get_tuple(latest)
    assert found is not None
    assert found.checkpoint["channel_values"] == {}


def test_a_large_value_is_read_once(
    saver: TreeringSaver, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latest checkpoint is read at every step of a conversation."""
    items = put_many(saver, 40)
    latest: Any = {"configurable": {"thread_id": "t"}}
    reader = TreeringSaver(ledger, scope=SCOPE)
    assert reader.get_tuple(latest) == saver.get_tuple(latest)
    asked: list[str] = []
    store = ledger._engine.store.record_keys
    latest_of = store.latest

    def counted(scope: Any, name: str, keys: Any) -> Any:
        asked.extend(keys)
        return latest_of(scope, name, keys)

    monkeypatch.setattr(store, "latest", counted)

    for one in (saver, reader):
        found = one.get_tuple(latest)
        assert found is not None
        assert found.checkpoint["channel_values"]["messages"] == items
    # Only the small value, of the other channel.
    assert len({key for key in asked if "/v/" in key}) == 1


def test_branches_that_are_put_at_the_same_time_can_all_be_read(saver: TreeringSaver) -> None:
    """Each is stored as its difference to versions that another one may have replaced."""
    root = put_many(saver, 3)
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    start = saver.get_tuple(config)
    assert start is not None

    def branch(number: int) -> list[tuple[Any, list[str]]]:
        items, at, made = list(root), start.config, []
        version: Any = start.checkpoint["channel_versions"]["messages"]
        for step in range(12):
            items.append(f"{number}.{step} ".ljust(300, str(number)))
            version = saver.get_next_version(version, None)
            checkpoint = empty_checkpoint()
            checkpoint["id"] = str(uuid6())
            checkpoint["channel_values"] = {"messages": list(items)}
            checkpoint["channel_versions"] = {"messages": version}
            at = saver.put(at, checkpoint, {"step": step}, {"messages": version})
            made.append((at, list(items)))
        return made

    with ThreadPoolExecutor(4) as pool:
        branches = list(pool.map(branch, range(4)))

    again = TreeringSaver(saver._ledger, scope=SCOPE)
    for reader in (saver, again):
        for at, items in (step for made in branches for step in made):
            found = reader.get_tuple(at)
            assert found is not None
            assert found.checkpoint["channel_values"]["messages"] == items


def test_threads_of_any_name_and_bad_arguments(saver: TreeringSaver) -> None:
    for thread in ("x" * 300, "a/b", "", "ünï\n"):
        items = put_many(saver, 2, thread)
        found = saver.get_tuple({"configurable": {"thread_id": thread}})
        assert found is not None
        assert found.checkpoint["channel_values"]["messages"] == items
    number = uuid.uuid4()
    put_many(saver, 1, number)  # type: ignore[arg-type]
    assert saver.get_tuple({"configurable": {"thread_id": number}}) is not None
    with pytest.raises(TypeError):
        saver.prune("t1")
    with pytest.raises(ValueError, match="strategy"):
        saver.prune(["t1"], strategy="some")


def test_a_strict_saver_raises_and_leaves_the_checkpoint_before(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that is not saved must not seem to be."""
    saver = TreeringSaver(ledger, scope=SCOPE, strict=True)
    items = put_many(saver, 3)
    latest: Any = {"configurable": {"thread_id": "t"}}

    def full(*_: Any, **__: Any) -> Any:
        raise StorageFull("the disk is full", hint="make room")

    with monkeypatch.context() as patch:
        patch.setattr(ledger._engine.store, "append", full)
        with pytest.raises(StorageFull):
            put_many(saver, 1)
    found = saver.get_tuple(latest)
    assert found is not None
    assert found.checkpoint["channel_values"]["messages"] == items
    assert len(put_many(saver, 2)) == 2
    with treering.open(":memory:", guard="reject") as strict, pytest.raises(SensitiveContent):
        put_many(TreeringSaver(strict, scope=SCOPE, strict=True), 1)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=80), st.integers(0, 300))
def test_a_value_is_made_again_of_its_differences(parts: list[bytes], start: int) -> None:
    stored: dict[str, Any] = {}
    growing, content = GrowingValue(), b"\x93" + b"x" * start
    for at, part in enumerate(parts):
        content = content[:1] + content[1:] + part if at % 7 else part + content
        number, delta, bases = growing.next(content)
        name = str(at)
        stored[name] = content if delta is None else (delta, bases[-1].name)
        growing = GrowingValue((*bases, Version(number, name, name, content)))
        made, path = stored[name], []
        while isinstance(made, tuple):
            path.append(made[0])
            made = stored[made[1]]
        assert len(path) <= 6
        for delta in reversed(path):
            made = applied(delta, made)
        assert made == content


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_value_can_be_made_of_any_other(old: bytes, new: bytes) -> None:
    assert applied(difference(old, new), old) == new


# The store.


def visit(store: Any) -> list[Any]:
    """Put, change, delete, search and list items; return all that is seen of it."""
    store.put(("users", "ann"), "profile", {"name": "Ann", "age": 34, "tags": ["a", "b"]})
    store.put(("users", "ann"), "diet", {"text": "eats no meat", "nested": {"x": 1}})
    store.put(("users", "bob"), "profile", {"name": "Bob", "age": 20})
    store.put(("users",), "all", {"count": 2})
    store.put(("docs", "v1", "en us/x"), "a/b", {"text": "guide"})
    store.put(("users", "bob"), "profile", {"name": "Bob", "age": 21})
    store.put(("users", "bob"), "gone", {"x": 1})
    store.delete(("users", "bob"), "gone")
    seen: list[Any] = []
    for namespace, key in [
        (("users", "ann"), "profile"),
        (("users", "bob"), "gone"),
        (("docs", "v1", "en us/x"), "a/b"),
    ]:
        item = store.get(namespace, key)
        seen.append(item and (item.namespace, item.key, item.value))
    for prefix, wanted in [
        (("users",), None),
        (("users", "an"), None),
        (("users", "ann"), {"tags": ["a", "b"]}),
        (("users", "bob"), {"age": {"$gte": 21, "$lt": 34}}),
        (("users",), {"age": {"$ne": 20}, "name": "Ann"}),
        (("users",), {"nested": {"x": 1}}),
        ((), {"text": {"$eq": "guide"}}),
    ]:
        found = store.search(prefix, filter=wanted)
        seen.append(sorted((one.namespace, one.key, sorted(one.value)) for one in found))
    seen.append(len(store.search(("users",), limit=2, offset=3)))
    seen += [
        store.list_namespaces(),
        store.list_namespaces(prefix=("users",)),
        store.list_namespaces(suffix=("*", "en us/x")),
        store.list_namespaces(max_depth=1),
        store.list_namespaces(limit=1, offset=1),
        store.batch(
            [
                PutOp(("users", "cy"), "k", {"v": 1}),
                ListNamespacesOp((MatchCondition("prefix", ("*", "cy")),)),
                PutOp(("users", "cy"), "k", {"v": 2}),
            ]
        ),
        store.get(("users", "cy"), "k").value,
    ]
    return seen


def test_a_store_is_the_same_as_the_one_in_memory(ledger: Ledger) -> None:
    assert visit(TreeringStore(ledger, scope=SCOPE)) == visit(InMemoryStore())
    assert ledger.admin.verify(derived=True).intact


def test_items_are_found_by_meaning_changed_and_erased(ledger: Ledger) -> None:
    store = TreeringStore(ledger, scope=SCOPE)
    store.put(("notes",), "1", {"text": "The cat sleeps on the sofa"})
    store.put(("notes",), "2", {"text": "Interest rates rose again in spring"})
    store.put(("notes",), "3", {"text": "kittens and felines", "hidden": "bank"}, index=["text"])
    store.put(("notes",), "4", {"text": "cat"}, index=False)
    created = store.get(("notes",), "1")

    found = store.search(("notes",), query="pets such as cats")

    assert [one.key for one in found][:2] in (["1", "3"], ["3", "1"])
    assert found[-1].key == "4"
    assert found[-1].score is None
    assert found[0].score is not None
    store.put(("notes",), "1", {"text": "The bank is closed"})
    changed = store.get(("notes",), "1")
    assert created is not None
    assert changed is not None
    assert changed.created_at == created.created_at
    assert store.search(("notes",), query="Is the bank closed?")[0].key == "1"
    store.delete(("notes",), "1")
    assert "The bank is closed" not in str([event.payload for event in ledger.events(SCOPE).items])


def test_a_store_is_awaited_in_graphs(tmp_path: Path) -> None:
    async def work() -> None:
        async with aio.open(tmp_path / "a.db") as ledger:
            store = TreeringStore(ledger, scope=SCOPE)
            await store.aput(("users", "ann"), "k", {"v": 1})
            item = await store.aget(("users", "ann"), "k")
            assert item is not None
            assert item.value == {"v": 1}
            assert len(await store.asearch(("users",))) == 1

    asyncio.run(asyncio.wait_for(work(), PATIENCE_S))
