from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, MaxTurnsExceeded, Runner, function_tool

from adapters.scripted_model import Answer, Call, ScriptedModel
from treering.adapters.openai_agents import record

if TYPE_CHECKING:
    from adapters.conftest import Heard
    from treering.ledger.sessions import Session
    from treering.spine.dispatcher import Spine

PIECES = ("One, ", "two, ", "three.")
CALL: Call = ("call_1", "look", {})


def kinds(session: Session) -> list[str]:
    return [event.kind for event in session.events() if event.kind != "session.opened"]


def counting(*answers: Answer) -> Agent[Any]:
    @function_tool
    def look() -> str:
        """Look around."""
        return "a desk"

    return Agent(name="scout", model=ScriptedModel(*answers), tools=[look])


def test_deltas_come_in_order_and_before_the_answer_that_they_make(
    spine: Spine, session: Session, heard: Heard
) -> None:
    """Sinks must see events in order."""

    async def streamed() -> list[str]:
        async with record(spine, session) as hooks:
            agent = counting(Answer(PIECES, (CALL,)), Answer(PIECES))
            result = Runner.run_streamed(agent, "Count.", hooks=hooks)
            # The runner is far ahead of its reader by now.
            await asyncio.sleep(0)
            return [event.type async for event in hooks.stream(result)]

    passed_on = asyncio.run(streamed())

    assert spine.flush()
    assert heard.kinds()[1:] == [
        "run.started",
        "conversation.user",
        *3 * ["assistant.delta"],
        "conversation.assistant",
        "tool.call",
        "tool.result",
        *3 * ["assistant.delta"],
        "conversation.assistant",
        "run.ended",
    ]
    assert passed_on.count("raw_response_event") == 8


def test_a_stream_that_nobody_follows_through_the_hooks_is_recorded_without_deltas(
    spine: Spine, session: Session, heard: Heard
) -> None:
    async def streamed() -> None:
        async with record(spine, session) as hooks:
            result = Runner.run_streamed(counting(Answer(PIECES)), "Count.", hooks=hooks)
            async for _ in result.stream_events():
                pass

    asyncio.run(streamed())

    assert spine.flush()
    assert "assistant.delta" not in heard.kinds()
    assert kinds(session)[-2:] == ["conversation.assistant", "run.ended"]


def test_an_error_in_a_stream_reaches_its_reader_and_fails_the_run(
    spine: Spine, session: Session
) -> None:
    async def streamed() -> None:
        async with record(spine, session) as hooks:
            agent = counting(Answer((), (CALL,)), Answer(PIECES))
            result = Runner.run_streamed(agent, "Count.", hooks=hooks, max_turns=1)
            async for _ in hooks.stream(result):
                pass

    with pytest.raises(MaxTurnsExceeded):
        asyncio.run(streamed())

    assert kinds(session)[-1] == "run.failed"


@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
def test_a_stream_that_is_cancelled_interrupts_the_run(
    spine: Spine, session: Session, mode: Any
) -> None:
    async def streamed() -> None:
        async with record(spine, session) as hooks:
            agent = counting(Answer(PIECES, (CALL,)), Answer(PIECES))
            result = Runner.run_streamed(agent, "Count.", hooks=hooks)
            async for _ in hooks.stream(result):
                result.cancel(mode=mode)

    asyncio.run(streamed())

    assert "run.interrupted" in kinds(session)
    assert kinds(session).count("tool.result") == kinds(session).count("tool.call")


def test_a_stream_that_is_left_interrupts_the_run(spine: Spine, session: Session) -> None:
    async def streamed() -> None:
        async with record(spine, session) as hooks:
            agent = counting(Answer(PIECES, (CALL,)), Answer(PIECES))
            result = Runner.run_streamed(agent, "Count.", hooks=hooks)
            async for _ in hooks.stream(result):
                break
        result.cancel()

    asyncio.run(streamed())

    assert "run.interrupted" in kinds(session)
    assert kinds(session).count("tool.result") == kinds(session).count("tool.call")
