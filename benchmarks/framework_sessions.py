"""Sessions of frameworks: in a ledger, against the stores that the packages bring."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import treering
from report import Row, Section
from workload import SCOPE, Effort

TURNS: Final = 200
"""Turns of two items each: what is asked, and what is answered."""
LAST: Final = 20
_WORDS: Final = "Three commits, all in storage; the tests of the importer pass again. " * 6
_NOTE: Final = (
    f"{TURNS} turns of two items. A ledger records each item as it is, and what it says as events;"
    " SQLiteSession commits to a WAL without waiting for the disk, and the store of Pydantic AI"
    " keeps everything in memory. Medians of single calls."
)


def run(effort: Effort, folder: Path) -> Section:  # noqa: ARG001  (as all others)
    """Measure both kinds of sessions, turn by turn."""
    rows = [*asyncio.run(_sessions(folder)), *asyncio.run(_conversations(folder))]
    return Section(title="Sessions of frameworks", rows=rows, notes=[_NOTE])


async def _sessions(folder: Path) -> list[Row]:
    from agents import SQLiteSession

    from treering.adapters.openai_agents import TreeringSession

    with (
        treering.open(folder / "full.db") as full,
        treering.open(folder / "normal.db", durability="normal") as normal,
    ):
        ways: dict[str, Any] = {
            "TreeringSession, durable": TreeringSession(full, "s", scope=SCOPE),
            "TreeringSession, durability normal": TreeringSession(normal, "s", scope=SCOPE),
            "SQLiteSession of openai-agents": SQLiteSession("s", folder / "theirs.db"),
        }
        times = await _in_turns({name: _add(session) for name, session in ways.items()})
        rows = [_row(f"{name}: add_items", times[name]) for name in ways]
        for name, session in ways.items():
            reads = [await _timed(partial(session.get_items, LAST)) for _ in range(LAST)]
            rows.append(_row(f"{name}: get_items, the last {LAST}", reads))
            whole = await _timed(session.get_items)
            rows.append(_row(f"{name}: get_items, all {2 * TURNS}", [whole]))
        ways["SQLiteSession of openai-agents"].close()
    for name, what in (("full", "TreeringSession"), ("theirs", "SQLiteSession")):
        size = (folder / f"{name}.db").stat().st_size / TURNS / 2
        rows.append(Row(what=f"{what}: bytes an item", measured=f"{size:,.0f}"))
    return rows


def _add(session: Any) -> Callable[[int], Awaitable[Any]]:
    return lambda turn: session.add_items(
        [
            {"role": "user", "content": f"{turn}: {_WORDS}"},
            {"role": "assistant", "content": f"answer {turn}: {_WORDS}"},
        ]
    )


async def _conversations(folder: Path) -> list[Row]:
    from pydantic_ai.conversation_store import InMemoryConversationStore

    from treering.adapters.pydantic_ai import TreeringConversationStore

    with (
        treering.open(folder / "full-2.db") as full,
        treering.open(folder / "normal-2.db", durability="normal") as normal,
    ):
        ways: dict[str, Any] = {
            "TreeringConversationStore, durable": TreeringConversationStore(full, scope=SCOPE),
            "TreeringConversationStore, durability normal": TreeringConversationStore(
                normal, scope=SCOPE
            ),
            "InMemoryConversationStore of pydantic-ai": InMemoryConversationStore(),
        }
        times = await _in_turns({name: await _save(store) for name, store in ways.items()})
        rows = [_row(f"{name}: save", times[name]) for name in ways]
        for name, store in ways.items():
            reads = [await _timed(partial(store.load, "c", limit=LAST)) for _ in range(5)]
            rows.append(_row(f"{name}: load, the last {LAST}", reads))
            whole = [await _timed(partial(store.load, "c")) for _ in range(3)]
            rows.append(_row(f"{name}: load, all {2 * TURNS}", whole))
    return rows


async def _save(store: Any) -> Callable[[int], Awaitable[Any]]:
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

    conversation = Conversation(conversation_id="c")

    async def save(turn: int) -> None:
        conversation.messages += [
            ModelRequest(parts=[UserPromptPart(f"{turn}: {_WORDS}")]),
            ModelResponse(parts=[TextPart(f"answer {turn}: {_WORDS}")]),
        ]
        await store.save(conversation)

    return save


async def _in_turns(ways: dict[str, Callable[[int], Awaitable[Any]]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TURNS):
        for name, act in ways.items():
            times[name].append(await _timed(partial(act, turn)))
    return times


async def _timed(act: Callable[[], Awaitable[Any]]) -> float:
    begun = time.perf_counter()
    await act()
    return time.perf_counter() - begun


def _row(what: str, seconds: list[float]) -> Row:
    return Row(what=what, measured=f"{statistics.median(seconds) * 1_000:,.2f} ms")
