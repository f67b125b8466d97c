"""The same conversation produces the same events in either runtime."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from agents import Agent, Runner, function_tool

import treering
from adapters import pi_events as pi
from adapters.conftest import Heard
from adapters.scripted_model import Answer, ScriptedModel
from treering.adapters.openai_agents import TreeringHooks, record
from treering.adapters.pi import record_pi

if TYPE_CHECKING:
    from treering.ledger.sessions import Session
    from treering.spine.dispatcher import Spine

QUESTION: Final = "How is the weather in Oslo, and the tide in Bergen?"
WEATHER: Final = ("call_a", "weather", {"city": "Oslo"})
TIDE: Final = ("call_b", "tide", {"port": "Bergen"})
FIRST: Final = ("Let me ", "look.")
LAST: Final = ("Oslo is sunny; ", "the tide is unknown.")
PER_RUN: Final = frozenset({"runId", "at"})
PER_RUNTIME: Final = frozenset({"runtime", "owner", "durationMs"})
"""Facts that are another's by nature: who carried it out, in which process, how fast."""


def through_pi(spine: Spine, session: Session) -> None:
    first = pi.assistant("".join(FIRST), (WEATHER, TIDE), tokens=(20, 9))
    events = [
        *pi.started(),
        *pi.user(QUESTION),
        *pi.answer(*FIRST, calls=(WEATHER, TIDE), tokens=(20, 9)),
        pi.tool_started(WEATHER),
        pi.tool_started(TIDE),
        pi.tool_ended(WEATHER, "sunny"),
        pi.tool_ended(TIDE, "no such port", is_error=True),
        *pi.result_message(WEATHER, "sunny"),
        *pi.result_message(TIDE, "no such port", is_error=True),
        *pi.turn_ended(first),
        {"type": "turn_start"},
        *pi.answer(*LAST, tokens=(50, 8)),
        *pi.turn_ended(pi.assistant("".join(LAST), tokens=(50, 8))),
        *pi.ended(pi.assistant("".join(LAST), tokens=(50, 8))),
    ]
    record_pi(spine, session, pi.lines(*events), provider="scripted")


async def through_the_sdk(spine: Spine, session: Session, *, streamed: bool) -> None:
    script = ScriptedModel(Answer(FIRST, (WEATHER, TIDE), 20, 9), Answer(LAST, (), 50, 8))
    async with record(spine, session, provider="scripted") as hooks:
        agent = Agent(name="guide", model=script, tools=[weather(), tide(hooks)])
        if streamed:
            result = Runner.run_streamed(agent, QUESTION, hooks=hooks)
            async for _ in hooks.stream(result):
                pass
        else:
            await Runner.run(agent, QUESTION, hooks=hooks)


def weather() -> Any:
    @function_tool
    async def weather(city: str) -> str:
        return "sunny" if city == "Oslo" else "rain"

    return weather


def tide(hooks: TreeringHooks) -> Any:
    @function_tool
    async def tide(port: str) -> str:
        # Two tools at once may end in either order; this one waits for the other's record.
        while any(  # noqa: ASYNC110
            call.name == "weather" for call in hooks.run.tools.open_calls()
        ):
            await asyncio.sleep(0)
        raise LookupError(f"no such port: {port}")

    return tide


def envelopes(heard: Heard) -> list[dict[str, Any]]:
    """Return the received envelopes, without fields that differ between runs."""
    found = (event.envelope() for event in heard.events)
    return [
        {
            name: {key: fact for key, fact in told.items() if key not in PER_RUNTIME}
            if isinstance(told, dict)
            else told
            for name, told in envelope.to_dict().items()
            if name not in PER_RUN
        }
        for envelope in found
        if envelope is not None
    ]


def parts(heard: Heard) -> list[tuple[Any, ...]]:
    """Return the received events by kind, with their safe parts."""
    return [
        (
            event.kind,
            event.source,
            event.origin,
            event.visibility,
            {
                name: fact
                for name, fact in event.part.as_payload().items()
                if name not in PER_RUNTIME
            },
        )
        for event in heard.events
    ]


def heard_of(runtime: str, *, streamed: bool = True) -> Heard:
    heard = Heard()
    with treering.open(":memory:") as ledger:
        spine = ledger.spine(sinks=[heard])
        session = ledger.session("monday", scope="acme/app", agent="lyria")
        if runtime == "pi":
            through_pi(spine, session)
        else:
            asyncio.run(through_the_sdk(spine, session, streamed=streamed))
        assert spine.flush()
    return heard


def test_the_same_conversation_through_either_runtime_gives_the_same_envelopes() -> None:
    """Every runtime emits the same canonical run event stream."""
    one, other = envelopes(heard_of("pi")), envelopes(heard_of("openai-agents"))

    assert one == other
    assert [envelope["kind"] for envelope in one] == [
        "lifecycle.started",
        "assistant.delta",
        "assistant.delta",
        "assistant.final",
        "tool.call.started",
        "tool.call.started",
        "tool.call.finished",
        "tool.call.failed",
        "assistant.delta",
        "assistant.delta",
        "assistant.final",
        "lifecycle.ended",
    ]


def test_what_the_envelope_lacks_is_the_same_too() -> None:
    """Usage, the user's words and their sizes: nothing depends on the runtime."""
    assert parts(heard_of("pi")) == parts(heard_of("openai-agents"))


def test_a_run_that_is_not_streamed_gives_the_same_stream_without_deltas() -> None:
    whole, streamed = heard_of("openai-agents", streamed=False), heard_of("openai-agents")

    kept = [part for part in parts(streamed) if part[0] != "assistant.delta"]
    assert parts(whole) == kept


def test_both_runtimes_are_told_apart_only_by_their_name() -> None:
    started = [heard_of(runtime).events[1] for runtime in ("pi", "openai-agents")]

    assert [event.kind for event in started] == ["run.started", "run.started"]
    assert [event.part.as_refs()["runtime"] for event in started] == ["pi", "openai-agents"]
