"""Google ADK on a ledger: the sessions of its own service in memory, its errors, its memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from effort import PATIENCE_S
from treering.adapters.adk import TreeringMemoryService, TreeringSessionService
from treering.errors import StorageFull

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from treering import Ledger

ME: dict[str, Any] = {"app_name": "weather", "user_id": "mina"}
NOON = 1_790_000_000.0


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine, for a limited time."""
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def said(text: str, at: float, author: str = "user", **delta: Any) -> Event:
    """Return an event with a text and a change of state; ``app__x`` is ``app:x``."""
    state = {name.replace("__", ":"): value for name, value in delta.items()}
    content = types.Content(role=author, parts=[types.Part(text=text)])
    actions = EventActions(state_delta=state)
    return Event(
        id=f"e{at}", author=author, timestamp=NOON + at, content=content, actions=actions,
        invocation_id="i",
    )  # fmt: skip


def seen(session: Any) -> Any:
    """Return what a session holds."""
    return session and (
        session.id, session.user_id, session.state,
        [event.model_dump(exclude_none=True) for event in session.events],
    )  # fmt: skip


async def story(service: Any) -> list[Any]:
    """Create, append, read and delete sessions; return all that is seen of it."""
    state = {"app:name": "Weather", "user:lang": "en", "city": "Porto", "temp:x": 1}
    session = await service.create_session(**ME, state=state, session_id=" s1 ")
    result: list[Any] = [seen(session)]
    events = [
        said("hi", 1),
        said("hello", 2, "weather", mood="good", app__visits=1, user__lang="pt", temp__k=5),
        said("bye", 3, city=None),
    ]
    for event in events:
        appended = await service.append_event(session, event)
        result.append(appended.model_dump(exclude_none=True))
    partial = said("he", 4, "weather")
    partial.partial = True
    await service.append_event(session, partial)
    result += [seen(session), session.last_update_time]
    again = await service.append_event(session, events[-1].model_copy(deep=True))
    result += [again.id, len(session.events)]
    other = await service.create_session(app_name="weather", user_id="tom", session_id="s1")
    result.append(other.state)
    for config in (
        None,
        GetSessionConfig(num_recent_events=2),
        GetSessionConfig(num_recent_events=0),
        GetSessionConfig(after_timestamp=NOON + 2),
        GetSessionConfig(after_timestamp=NOON + 9),
    ):
        result.append(seen(await service.get_session(**ME, session_id="s1", config=config)))
    result.append(await service.get_session(**ME, session_id="unknown"))
    result.append(await service.get_user_state(**ME))
    for user in ("mina", "nobody"):
        listed = await service.list_sessions(app_name="weather", user_id=user)
        result.append([seen(one) for one in listed.sessions])
    everybody = await service.list_sessions(app_name="weather")
    result.append(sorted(one.user_id for one in everybody.sessions))
    await service.delete_session(**ME, session_id="s1")
    await service.delete_session(**ME, session_id="s1")
    result.append(await service.get_session(**ME, session_id="s1"))
    result.append(seen(await service.create_session(**ME, session_id="s1")))
    return result


def test_sessions_are_the_same_as_those_in_memory(ledger: Ledger) -> None:
    assert run(story(TreeringSessionService(ledger))) == run(story(InMemorySessionService()))
    assert ledger.admin.verify(derived=True).intact


def test_its_errors_are_those_of_adk(ledger: Ledger) -> None:
    async def work() -> None:
        service = TreeringSessionService(ledger)
        session = await service.create_session(**ME, session_id="s")
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**ME, session_id="s")
        stale = await service.get_session(**ME, session_id="s")
        assert stale is not None
        await service.append_event(session, said("first", 1))
        with pytest.raises(StaleSessionError):
            await service.append_event(stale, said("second", 2))
        fresh = await service.get_session(**ME, session_id="s")
        assert fresh is not None
        await service.append_event(fresh, said("second", 2))
        await service.delete_session(**ME, session_id="s")
        with pytest.raises(SessionNotFoundError):
            await service.append_event(fresh, said("third", 3))

    run(work())


def test_one_of_two_who_append_at_once_is_told_to_load_again(ledger: Ledger) -> None:
    async def work() -> None:
        one, other = (TreeringSessionService(ledger) for _ in range(2))
        first = await one.create_session(**ME, session_id="s")
        second = await other.get_session(**ME, session_id="s")
        assert second is not None
        results = await asyncio.gather(
            one.append_event(first, said("a", 1)),
            other.append_event(second, said("b", 2)),
            return_exceptions=True,
        )
        assert [isinstance(one, StaleSessionError) for one in results].count(True) == 1
        stored = await one.get_session(**ME, session_id="s")
        assert stored is not None
        assert len(stored.events) == 1

    run(work())


def test_what_was_said_is_searched_and_shown_as_any_session(ledger: Ledger) -> None:
    async def work() -> None:
        service = TreeringSessionService(ledger)
        session = await service.create_session(**ME, session_id="s")
        await service.append_event(session, said("Will it rain in Porto?", 1))
        call = types.Part(
            function_call=types.FunctionCall(id="c1", name="forecast", args={"city": "Porto"})
        )
        result = types.Part(
            function_response=types.FunctionResponse(
                id="c1", name="forecast", response={"rain": True}
            )
        )
        for at, part in enumerate((call, result), start=2):
            event = said("", at, "weather")
            event.content = types.Content(role="model", parts=[part])
            await service.append_event(session, event)
        await service.append_event(session, said("Yes, take an umbrella.", 4, "weather"))

    run(work())

    assert ledger.search("umbrella", scope="adk/weather").total == 1
    history = ledger.session("adk:mina:s", scope="adk/weather", agent="x").history()
    assert [one["role"] for one in history] == ["user", "assistant", "tool", "assistant"]
    assert ledger.tool_calls("adk/weather").items[0].tool == "forecast"


def test_a_strict_service_raises_and_leaves_the_session_as_it_was(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that is not stored must not seem to be."""

    def full(*_: Any, **__: Any) -> Any:
        raise StorageFull("the disk is full", hint="make room")

    async def work() -> None:
        service = TreeringSessionService(ledger, strict=True)
        session = await service.create_session(**ME, session_id="s")
        await service.append_event(session, said("kept", 1))
        with monkeypatch.context() as patch:
            patch.setattr(ledger._engine.store, "append", full)
            with pytest.raises(StorageFull):
                await service.append_event(session, said("lost", 2))
        assert len(session.events) == 1
        await service.append_event(session, said("again", 2))
        stored = await service.get_session(**ME, session_id="s")
        assert stored is not None
        assert len(stored.events) == 2

    run(work())


def test_memory_is_found_by_meaning_for_its_user_alone_and_deleted(ledger: Ledger) -> None:
    async def work() -> None:
        service, memory = TreeringSessionService(ledger), TreeringMemoryService(ledger)
        session = await service.create_session(**ME, session_id="s")
        await service.append_event(session, said("My cat is called Oskar", 1))
        await service.append_event(session, said("The train leaves at nine", 2))
        await memory.add_session_to_memory(session)
        await memory.add_session_to_memory(session)
        note = types.Content(role="user", parts=[types.Part(text="Prefers tea to coffee")])
        await memory.add_memory(**ME, memories=[MemoryEntry(id="m1", content=note)])

        async def search(query: str, user: str = "mina") -> list[str]:
            found = await memory.search_memory(app_name="weather", user_id=user, query=query)
            return [one.content.parts[0].text for one in found.memories]

        assert (await search("What is the name of her cat?"))[0] == "My cat is called Oskar"
        assert (await search("Would she like tea?"))[0] == "Prefers tea to coffee"
        assert await search("cat", "tom") == []
        await memory.delete_memory(**ME, memory_id="e1")
        await memory.add_session_to_memory(session)
        assert await search("cat") == []

    run(work())
