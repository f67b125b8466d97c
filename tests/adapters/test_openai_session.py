"""The memory of an agent of the OpenAI Agents SDK: as its own, and in the ledger."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import openai
import pytest
from agents import Agent, Runner, SQLiteSession, function_tool
from agents.memory import OpenAIResponsesCompactionSession, Session
from agents.testing import ScriptedModel, assistant_message, function_call
from hypothesis import given
from hypothesis import strategies as st

import treering
from adapters.model_server import Scripted, model_server
from full_disk import FullDisk
from treering.adapters.openai_agents import TreeringSession, record
from treering.errors import StorageFull

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from treering.ledger.ledger import Ledger

SCOPE: Final = "acme/app"


@function_tool
def tide(port: str) -> str:
    """Return the time of the high tide."""
    return "14:10"


def pilot(*answers: Any) -> Agent[Any]:
    return Agent(name="pilot", model=ScriptedModel(list(answers)), tools=[tide])


def both(ledger: Ledger) -> list[Any]:
    return [SQLiteSession("s1"), TreeringSession(ledger, "s1", scope=SCOPE, strict=True)]


def equal(ledger: Ledger, scenario: Callable[[Any], Any]) -> Any:
    """Return what ``scenario`` gives on both sessions, once it is the same."""
    theirs, ours = [asyncio.run(scenario(session)) for session in both(ledger)]
    assert theirs == ours
    return ours


def kinds(ledger: Ledger, session_id: str = "s1") -> list[str]:
    return [one.kind for one in ledger.session(session_id, scope=SCOPE, agent="x").headers()]


def test_runs_with_tools_leave_the_items_that_the_sdks_own_session_has(ledger: Ledger) -> None:
    async def scenario(session: Any) -> list[Any]:
        agent = pilot(
            [function_call("tide", {"port": "Bergen"}, call_id="c1")],
            [assistant_message("High at 14:10.")],
            [assistant_message("You are welcome.")],
        )
        await Runner.run(agent, "When is high tide?", session=session)
        streamed = Runner.run_streamed(agent, "Thanks.", session=session)
        [event async for event in streamed.stream_events()]
        return [
            await session.get_items(),
            await session.get_items(limit=2),
            await session.get_items(limit=0),
            await session.get_items(limit=-1),
            await session.pop_item(),
            await session.get_items(),
        ]

    equal(ledger, scenario)

    assert isinstance(TreeringSession(ledger, "s1", scope=SCOPE), Session)
    assert kinds(ledger) == [
        "session.opened", "conversation.user", "tool.call", "tool.result",
        "conversation.assistant", "conversation.user", "conversation.assistant", "session.hidden",
    ]  # fmt: skip
    assert ledger.search("high tide", scope=SCOPE).total == 1
    assert [one.session_id for one in ledger.sessions(SCOPE).items] == ["s1"]
    texts = [one["content"] for one in ledger.session("s1", scope=SCOPE, agent="x").history()]
    assert texts[-1] == "Thanks."


@pytest.mark.parametrize("streamed", [False, True])
def test_a_recorder_and_a_session_record_nothing_twice(ledger: Ledger, *, streamed: bool) -> None:
    session = ledger.session("s1", scope=SCOPE, agent="lyria")
    memory = TreeringSession(ledger, "s1", scope=SCOPE, strict=True)

    async def main() -> None:
        for question in ("When is high tide?", "When is high tide?"):
            agent = pilot(
                [function_call("tide", {"port": "Bergen"}, call_id=f"c{len(kinds(ledger))}")],
                [assistant_message("High at 14:10.")],
            )
            async with record(ledger.spine(), session) as hooks:
                if streamed:
                    result = Runner.run_streamed(agent, question, session=memory, hooks=hooks)
                    [event async for event in hooks.stream(result)]
                else:
                    await Runner.run(agent, question, session=memory, hooks=hooks)

    asyncio.run(main())

    turn = ["run.started", "conversation.user", "tool.call", "tool.result",
            "conversation.assistant", "run.ended"]  # fmt: skip
    assert kinds(ledger) == ["session.opened", *turn, *turn]
    assert len(asyncio.run(memory.get_items())) == 8
    (first, *_) = session.events(kinds=["conversation.user"])
    ledger.redact(SCOPE, event_id=first.event_id)
    assert len(asyncio.run(memory.get_items())) == 7


def test_a_failed_run_leaves_the_same_items(ledger: Ledger) -> None:
    async def scenario(session: Any) -> list[Any]:
        agent = pilot([function_call("tide", {"port": "B"}, call_id="c1")], RuntimeError("down"))
        with pytest.raises(RuntimeError, match="down"):
            await Runner.run(agent, "When?", session=session)
        again = pilot([assistant_message("Now.")])
        await Runner.run(again, "Again?", session=session)
        return list(await session.get_items())

    equal(ledger, scenario)


ITEMS: Final = st.lists(st.sampled_from([
    {"role": "user", "content": "yes"},
    {"role": "assistant", "content": "no"},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "done"},
    {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:,x"}]},
]), max_size=4)  # fmt: skip
STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("add"), ITEMS),
        st.tuples(st.sampled_from(["pop", "clear", "again"]), st.just(())),
        st.tuples(st.just("get"), st.sampled_from([None, 0, 1, 3, -1])),
    ),
    max_size=12,
)


@given(steps=STEPS)
def test_any_sequence_of_changes_gives_the_same_items(steps: list[Any]) -> None:
    async def scenario(session: Any) -> list[Any]:
        seen: list[Any] = []
        for step, value in steps:
            if step == "add":
                await session.add_items(list(value))
            elif step == "pop":
                seen.append(await session.pop_item())
            elif step == "clear":
                await session.clear_session()
            elif step == "again":  # As a compaction does: all away, the end back.
                kept = await session.get_items()
                await session.clear_session()
                await session.add_items(kept[-2:])
            else:
                seen.append(await session.get_items(value))
        return [*seen, await session.get_items()]

    with treering.open(":memory:") as ledger:
        equal(ledger, scenario)


def test_a_compacted_session_is_the_same_and_says_nothing_twice(ledger: Ledger) -> None:
    compacted = {"id": "x", "object": "response.compaction", "created_at": 1, "output": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]},
        {"type": "compaction", "id": "cmp", "encrypted_content": "sealed"},
    ], "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
                 "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                 "output_tokens_details": {"reasoning_tokens": 0}}}  # fmt: skip

    async def scenario(session: Any) -> list[Any]:
        with model_server(Scripted(compacted)) as (url, _):
            client = openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1")
            wrapped = OpenAIResponsesCompactionSession("s1", session, client=client)
            one = {"type": "message", "role": "user",
                   "content": [{"type": "input_text", "text": "one"}]}  # fmt: skip
            await wrapped.add_items([one, {"role": "assistant", "content": "two"}])  # type: ignore[list-item]
            await wrapped.run_compaction({"force": True, "compaction_mode": "input"})
            await client.close()
        return list(await session.get_items())

    items = equal(ledger, scenario)

    assert [item["type"] for item in items] == ["message", "compaction"]
    assert kinds(ledger) == ["session.opened", "conversation.user", "conversation.assistant"]


class Locked:
    """It cannot be copied, compared or shown."""

    def __repr__(self) -> str:
        raise GeneratorExit

    __deepcopy__ = __eq__ = __hash__ = __repr__  # type: ignore[assignment]


def nested(levels: int) -> Any:
    return {"more": nested(levels - 1)} if levels else {}


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": "hi", "beside": Locked()},
        {"role": Locked(), "content": "hi"},
        {"type": "function_call", "call_id": Locked(), "name": "tide", "arguments": "{}"},
        {"type": "function_call", "call_id": "\ud800", "name": "tide", "arguments": "{}"},
        {"type": 5, "role": "user", "content": "hi"},
        {"role": "user", "content": "hi", "beside": nested(63)},
        {"role": "user", "content": "hi", "beside": nested(900)},
        {"role": "user", "content": "hi", "beside": (number for number in range(3))},
    ],
    ids="-".join,
)
def test_an_item_of_any_form_costs_neither_the_turn_nor_the_items_beside_it(
    ledger: Ledger, item: Any
) -> None:
    async def main() -> list[Any]:
        memory = TreeringSession(ledger, "s1", scope=SCOPE)
        await memory.add_items([{"role": "user", "content": "first"}, item])
        assert memory.log.lost == 0
        return [await memory.pop_item(), *await memory.get_items()]

    popped, *left = asyncio.run(main())

    assert left == [{"role": "user", "content": "first"}]
    assert popped.keys() == item.keys()
    assert popped["content" if "content" in item else "name"] in {"hi", "tide"}


def test_a_write_that_has_begun_is_completed_although_its_task_is_cancelled(ledger: Ledger) -> None:
    session = TreeringSession(ledger, "s1", scope=SCOPE, strict=True)

    async def main() -> None:
        adding = asyncio.create_task(session.add_items([{"role": "user", "content": "kept"}]))
        await asyncio.sleep(0)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert await session.get_items() == [{"role": "user", "content": "kept"}]

    asyncio.run(main())


def test_a_full_disk_costs_no_turn_and_items_that_waited_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with treering.open(tmp_path / "ledger.db") as ledger:
        disk, session = FullDisk(ledger, monkeypatch), TreeringSession(ledger, "s1", scope=SCOPE)

        async def main() -> list[Any]:
            await Runner.run(pilot([assistant_message("One.")]), "First?", session=session)
            disk.is_full = True
            await Runner.run(pilot([assistant_message("Two.")]), "Second?", session=session)
            popped: Any = await session.pop_item()
            assert popped["role"] == "assistant"
            return list(await session.get_items())

        items = asyncio.run(main())
        assert [item.get("content") for item in items if item["role"] == "user"] == [
            "First?", "Second?",
        ]  # fmt: skip
        assert session.log.waiting > 0
        strict = TreeringSession(ledger, "s1", scope=SCOPE, strict=True)
        with pytest.raises(StorageFull):
            asyncio.run(strict.add_items([{"role": "user", "content": "x"}]))
        disk.is_full = False
        assert session.log.flush()
    with treering.open(tmp_path / "ledger.db") as ledger:
        again = TreeringSession(ledger, "s1", scope=SCOPE)
        assert asyncio.run(again.get_items()) == items


@pytest.mark.parametrize("from_the_start", [False, True])
def test_a_full_disk_costs_the_record_of_a_run_and_not_the_run(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, *, from_the_start: bool
) -> None:
    disk, session = FullDisk(ledger, monkeypatch), ledger.session("s1", scope=SCOPE, agent="x")
    disk.is_full = from_the_start

    async def ask(*, strict: bool) -> str:
        agent = pilot(
            [function_call("tide", {"port": "B"}, call_id="c1")], [assistant_message("Hi")]
        )
        async with record(ledger.spine(), session, strict=strict) as hooks:
            disk.is_full = True
            return str((await Runner.run(agent, "When?", hooks=hooks)).final_output)

    assert asyncio.run(ask(strict=False)) == "Hi"
    disk.is_full = from_the_start
    with pytest.raises(StorageFull):
        asyncio.run(ask(strict=True))


def test_a_closed_ledger_costs_no_turn(ledger: Ledger) -> None:
    with treering.open(":memory:") as closed:
        session = TreeringSession(closed, "s1", scope=SCOPE)
    result = asyncio.run(Runner.run(pilot([assistant_message("Yes.")]), "?", session=session))

    assert result.final_output == "Yes."
    assert session.log.error is not None
