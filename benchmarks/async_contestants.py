"""The peers whose interface is asynchronous, each on an event loop of its own."""

# ruff: noqa: D102  (the protocol says once what each method promises)

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from treering import NewEvent
from workload import AGENT, body


class OpenAIAgents:
    """The sessions of ``openai-agents``."""

    name = "openai-agents SQLiteSession"
    how = "`SQLiteSession.add_items` and `get_items`, items are dicts"
    singles = 20

    def __init__(self, folder: Path) -> None:
        from agents import SQLiteSession

        self._make: Callable[..., Any] = SQLiteSession
        self._path = folder / "openai.db"
        self._sessions: dict[str, Any] = {}
        self._loop = asyncio.new_event_loop()

    def prepare(self, event: NewEvent) -> dict[str, Any]:
        item: dict[str, Any] = msgspec.to_builtins(body(event))
        return item

    def append(self, session_id: str, items: Sequence[Any]) -> None:
        self._loop.run_until_complete(self._append(session_id, items))

    def append_each(self, items: Sequence[tuple[str, Any]]) -> list[float]:
        return self._loop.run_until_complete(_one_by_one(self._append, items))

    def read(self, session_id: str) -> Sequence[Any]:
        items: list[Any] = self._loop.run_until_complete(self._session(session_id).get_items())
        return items

    def tail(self, session_id: str) -> Sequence[Any]:
        items: list[Any] = self._loop.run_until_complete(
            self._session(session_id).get_items(limit=100)
        )
        return items

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._loop.close()

    async def _append(self, session_id: str, items: Sequence[Any]) -> None:
        await self._session(session_id).add_items(list(items))

    def _session(self, session_id: str) -> Any:
        if session_id not in self._sessions:
            self._sessions[session_id] = self._make(session_id, self._path)
        return self._sessions[session_id]


class GoogleAdk:
    """The sessions of Google's Agent Development Kit."""

    name = "Google ADK SqliteSessionService"
    how = (
        "`append_event`, one commit each: it has no batch, so a batch is 100 calls; `get_session`;"
        " rollback journal instead of a write-ahead log"
    )
    singles = 20

    def __init__(self, folder: Path) -> None:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        logging.getLogger("google_adk").setLevel(logging.ERROR)
        self._loop = asyncio.new_event_loop()
        self._service = SqliteSessionService(str(folder / "adk.db"))
        self._sessions: dict[str, Any] = {}

    def prepare(self, event: NewEvent) -> Any:
        from google.adk.events.event import Event
        from google.genai import types

        fields: dict[str, Any] = msgspec.to_builtins(body(event))
        payload = fields.pop("payload")
        text = payload.pop("text")
        role = "user" if fields["source"] == "user" else "model"
        return Event(
            id=fields["event_id"],
            author=AGENT,
            invocation_id=fields["run_id"],
            timestamp=fields["ts_ms"] / 1_000,
            content=types.Content(role=role, parts=[types.Part(text=text)]),
            custom_metadata={**fields, **payload},
        )

    def append(self, session_id: str, items: Sequence[Any]) -> None:
        self._loop.run_until_complete(self._append(session_id, items))

    def append_each(self, items: Sequence[tuple[str, Any]]) -> list[float]:
        return self._loop.run_until_complete(_one_by_one(self._append, items))

    def read(self, session_id: str) -> Sequence[Any]:
        return self._events(session_id, None)

    def tail(self, session_id: str) -> Sequence[Any]:
        from google.adk.sessions.base_session_service import GetSessionConfig

        return self._events(session_id, GetSessionConfig(num_recent_events=100))

    def close(self) -> None:
        self._loop.close()

    async def _append(self, session_id: str, items: Sequence[Any]) -> None:
        if session_id not in self._sessions:
            self._sessions[session_id] = await self._service.create_session(
                app_name="bench", user_id="u", session_id=session_id
            )
        for item in items:
            await self._service.append_event(self._sessions[session_id], item)

    def _events(self, session_id: str, config: Any) -> Sequence[Any]:
        session: Any = self._loop.run_until_complete(
            self._service.get_session(
                app_name="bench", user_id="u", session_id=session_id, config=config
            )
        )
        events: list[Any] = session.events
        return events


async def _one_by_one(
    append: Callable[[str, Sequence[Any]], Awaitable[None]], items: Sequence[tuple[str, Any]]
) -> list[float]:
    """Append inside one coroutine, so that starting the loop is not counted."""
    seconds = []
    for session_id, item in items:
        before = time.perf_counter()
        await append(session_id, [item])
        seconds.append(time.perf_counter() - before)
    return seconds
