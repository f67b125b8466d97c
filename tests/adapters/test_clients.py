"""Clients of OpenAI and Anthropic, recorded: what passes is kept, and nobody notices."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from typing import TYPE_CHECKING, Any, Final

import anthropic
import msgspec
import openai
import pytest

import treering
from adapters.model_server import (
    Scripted,
    chat,
    chat_stream,
    message,
    message_stream,
    model_server,
    response,
    response_stream,
)
from effort import PATIENCE_S
from full_disk import FullDisk
from treering.adapters.clients import ClientRecorder, Passing, Sent
from treering.adapters.wire import ResponsesApi
from treering.errors import InvalidInput, StorageFull

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session

TIDE: Final = ("c1", "tide", {"port": "Bergen"})
ASK: Final[list[Any]] = [{"role": "user", "content": "High tide in Bergen?"}]
REPLY: Final = "High at 14:10."


def _openai(url: str) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=1)


def _openai_async(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=1)


def _anthropic(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="k", base_url=url, max_retries=1)


def _anthropic_async(url: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=1)


def _chat(client: Any, **more: Any) -> Any:
    return client.chat.completions.create(model="small-1", messages=ASK, **more)


def _responses(client: Any, **more: Any) -> Any:
    return client.responses.create(model="small-2", input=ASK, **more)


def _messages(client: Any, **more: Any) -> Any:
    return client.messages.create(model="claude-small-3", max_tokens=9, messages=ASK, **more)


Api = tuple[Any, Any, "Callable[..., Any]", Scripted, Scripted]
CHUNKS: Final = chat_stream("High", " at 14:10.", calls=[TIDE])
EVENTS: Final = (response_stream(REPLY, [TIDE]), message_stream(REPLY, [TIDE]))
APIS: Final[dict[str, Api]] = {
    "chat": (_openai, _openai_async, _chat, chat(REPLY, [TIDE]), CHUNKS),
    "responses": (_openai, _openai_async, _responses, response(REPLY, [TIDE]), EVENTS[0]),
    "messages": (_anthropic, _anthropic_async, _messages, message(REPLY, [TIDE]), EVENTS[1]),
}


def kinds(session: Session) -> list[str]:
    return [header.kind for header in session.headers()]


def said(session: Session) -> list[str]:
    wanted = ["conversation.user", "conversation.assistant"]
    return [event.payload["text"] for event in session.events(kinds=wanted)]


@pytest.mark.parametrize("name", APIS)
def test_a_client_gives_what_it_gave_and_the_session_holds_the_turn(
    name: str, session: Session
) -> None:
    make, _, ask, whole, stream = APIS[name]
    with model_server(whole, stream) as (url, asked), make(url) as plain:
        client = treering.record(plain, session)

        assert isinstance(client, type(plain))
        assert isinstance(client.with_options(timeout=9), type(plain))
        expected = (ask(plain), list(ask(plain, stream=True)))
        given = (ask(client), list(ask(client, stream=True)))

    assert given == expected
    assert [type(one) for one in given[1]] == [type(one) for one in expected[1]]
    assert asked[:2] == asked[2:]
    assert said(session) == ["High tide in Bergen?", REPLY] * 2
    calls = list(session.tool_calls())
    assert [(one.tool, one.status) for one in calls] == [("tide", "synthetic"), ("tide", "open")]
    inputs = [event.payload["input"] for event in session.events(kinds=["tool.call"])]
    assert inputs == [{"port": "Bergen"}] * 2
    used = session.usage().total
    assert used.calls == 2
    assert {"chat": (24, 10, 8), "responses": (40, 14, 0), "messages": (84, 12, 60)}[name] == (
        used.input_tokens,
        used.output_tokens,
        used.cached_tokens,
    )


@pytest.mark.parametrize("name", APIS)
def test_an_asynchronous_client_gives_what_it_gave(
    name: str, session: Session, heard: Any, spine: Any
) -> None:
    _, make, ask, whole, stream = APIS[name]

    async def both(client: Any) -> Any:
        return await ask(client), [one async for one in await ask(client, stream=True)]

    async def main(url: str) -> None:
        async with make(url) as plain:
            client = treering.record(plain, session)
            assert await both(client) == await both(plain)
            assert isinstance(client, type(plain))

    with model_server(whole, stream) as (url, _):
        asyncio.run(main(url))

    assert said(session) == ["High tide in Bergen?", REPLY] * 2
    spine.flush(PATIENCE_S)
    assert heard.kinds().count("assistant.delta") == 2


def test_raw_and_streaming_responses_and_helpers_are_the_same_and_recorded(
    session: Session,
) -> None:
    def look(client: openai.OpenAI) -> list[Any]:
        completions = client.chat.completions
        with completions.with_streaming_response.create(model="small-1", messages=ASK) as answer:
            lines = b"".join(answer.iter_bytes())
        raw = completions.with_raw_response.create(model="small-1", messages=ASK)
        with completions.stream(model="small-1", messages=ASK) as stream:
            events = [event.type for event in stream]
            final = stream.get_final_completion()
        return [lines, raw.http_response.content, raw.parse(), events, final]

    with model_server(chat("a"), chat("b"), chat_stream("c")) as (url, _), _openai(url) as plain:
        assert look(treering.record(plain, session)) == look(plain)

    assert [text for text in said(session) if text in "abc"] == ["a", "b", "c"]


def test_tool_calls_get_their_results_from_the_next_request_and_the_turn_ends(
    session: Session,
) -> None:
    again = [*ASK, {"role": "assistant", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "14:10"}]  # fmt: skip
    with model_server(chat(calls=[TIDE]), chat(REPLY)) as (url, _), _openai(url) as plain:
        client = treering.record(plain, session)
        _chat(client)
        client.chat.completions.create(model="small-1", messages=again)

    assert kinds(session) == [
        "session.opened", "run.started", "conversation.user", "usage.reported", "tool.call",
        "tool.result", "conversation.assistant", "usage.reported", "run.ended",
    ]  # fmt: skip
    (result,) = session.events(kinds=["tool.result"])
    assert (result.payload["call_id"], result.payload["output"]) == ("c1", "14:10")


def test_a_decorated_tool_takes_up_the_call_that_the_model_asked_for(session: Session) -> None:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "14:10"}
    call = {"type": "tool_use", "id": "c1", "name": "tide", "input": {"port": "Bergen"}}
    again = [*ASK, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]

    with model_server(message(calls=[TIDE]), message(REPLY)) as (url, _), _anthropic(url) as plain:
        client = treering.record(plain, session)
        with session.turn() as turn:
            turn.user("High tide in Bergen?")
            tide = turn.tool(_tide)
            asked = _messages(client)
            assert tide(**asked.content[-1].input) == "14:10"
            client.messages.create(model="claude-small-3", max_tokens=9, messages=again)

    assert said(session) == ["High tide in Bergen?", REPLY]
    (outcome,) = session.events(kinds=["tool.result"])
    assert (outcome.payload["call_id"], outcome.payload["output"]) == ("c1", "14:10")
    assert kinds(session).count("run.started") == 1


def _tide(port: str) -> str:
    return "14:10"


_tide.__name__ = "tide"


@pytest.mark.parametrize("streamed", [False, True])
def test_errors_are_the_clients_own_and_fail_the_turn(session: Session, *, streamed: bool) -> None:
    wrong = Scripted({"error": {"message": "overloaded", "type": "server_error"}}, status=500)
    bad = Scripted({"error": {"message": "no such model", "type": "invalid"}}, status=404)

    def caught(client: openai.OpenAI) -> tuple[Any, ...]:
        with pytest.raises(openai.NotFoundError) as error:
            _chat(client, stream=streamed)
        return str(error.value), error.value.body, error.value.response.content

    with model_server(wrong, bad) as (url, asked), _openai(url) as plain:
        expected = caught(plain)
        assert caught(treering.record(plain, session)) == expected
        assert len(asked) == 4

    assert kinds(session) == [
        "session.opened", "run.started", "conversation.user", "ops.warning", "ops.warning",
        "run.failed",
    ]  # fmt: skip


def test_a_stream_that_breaks_off_or_is_left_keeps_what_came(session: Session) -> None:
    broken = chat_stream("High", cut=True)
    failing = Scripted(events=({"type": "error", "error": {"type": "overloaded_error"}},))
    with model_server(broken, chat_stream("one", "two"), failing) as (url, _):
        with _openai(url) as plain:
            client = treering.record(plain, session)
            with pytest.raises(openai.APIConnectionError):
                list(_chat(client, stream=True))
            with _chat(client, stream=True) as stream:
                next(stream), next(stream)
            del stream
            gc.collect()
        with _anthropic(url) as other, pytest.raises(anthropic.APIStatusError):
            list(_messages(treering.record(other, session), stream=True))

    ends = [kind for kind in kinds(session) if kind.startswith("run.") and kind != "run.started"]
    assert ends == ["run.failed", "run.interrupted", "run.failed"]
    assert [text for text in said(session) if text != "High tide in Bergen?"] == ["High", "one"]


def test_a_stream_that_begins_with_nulls_keeps_its_calls(session: Session) -> None:
    stream = chat_stream("High", calls=[TIDE])
    first = json.loads(json.dumps(stream.events[0]))
    first["choices"][0]["delta"] |= {"content": None, "tool_calls": None, "function_call": None}
    legacy = {"function_call": {"name": "tide", "arguments": "{}"}}
    second = {**first, "choices": [{"index": 0, "delta": legacy, "finish_reason": None}]}
    nulls = msgspec.structs.replace(stream, events=(first, second, *stream.events[1:]))
    with model_server(nulls) as (url, _), _openai(url) as plain:
        client = treering.record(plain, session)
        assert list(_chat(client, stream=True)) == list(_chat(plain, stream=True))
        assert client.treering.lost == 0  # type: ignore[attr-defined]

    inputs = [event.payload["input"] for event in session.events(kinds=["tool.call"])]
    assert inputs == [{"port": "Bergen"}]


def test_an_answer_that_cannot_be_read_leaves_no_turn_open(session: Session) -> None:
    odd = response(REPLY)
    assert odd.body is not None
    odd.body["output"].append({"type": ["unknown"]})
    with model_server(odd, response(REPLY)) as (url, _), _openai(url) as plain:
        client = treering.record(plain, session)
        with_raw = client.responses.with_raw_response
        for _ in range(2):
            assert with_raw.create(model="small-2", input=ASK).status_code == 200
        assert client.treering.lost == 1  # type: ignore[attr-defined]

    assert [kind for kind in kinds(session) if kind.startswith("run.")] == [
        *("run.started", "run.ended"),
        *("run.started", "run.ended"),
    ]


def test_an_event_that_cannot_be_read_costs_no_other() -> None:
    with treering.open(":memory:") as ledger:
        recorder = ClientRecorder(ledger.session("monday", scope="acme/app", agent="lyria"))
        passing = Passing(ResponsesApi(), {"input": "Tide?"}, recorder, Sent())
        events = [{"type": ["unknown"]}, {"type": "response.output_text.delta", "delta": REPLY}]
        lines = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in events)

        assert passing.take(lines) == [REPLY]
        assert recorder.writer.lost == 1


@pytest.mark.parametrize("start", [b"data: ", b""])
def test_what_came_of_a_long_event_is_not_copied_for_every_chunk(start: bytes) -> None:
    """An image comes as one line in very many chunks."""
    copied = 0
    with treering.open(":memory:") as ledger:
        recorder = ClientRecorder(ledger.session("monday", scope="acme/app", agent="lyria"))
        passing = Passing(ResponsesApi(), {"input": "A tide."}, recorder, Sent())
        passing.take(start + b'{"type":"x","b64":"')
        tracemalloc.start()
        try:
            for _ in range(500):
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                passing.take(b"A" * 1_000)
                copied += tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()

    assert copied < 20_000_000


def test_a_cancelled_call_is_recorded_as_cancelled(session: Session) -> None:
    async def main() -> None:
        async def hang(_: object, writer: asyncio.StreamWriter) -> None:
            await given_up.wait()
            writer.close()

        given_up = asyncio.Event()
        server = await asyncio.start_server(hang, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with _openai_async(url) as plain:
            client = treering.record(plain, session)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(_chat(client), 0.3)
        given_up.set()
        server.close()
        await asyncio.sleep(0)

    asyncio.run(main())

    assert kinds(session)[-1] == "run.interrupted"


def test_a_full_disk_costs_no_answer_and_what_waited_is_recorded_later(
    ledger: Ledger, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(ledger, monkeypatch)
    with model_server(chat(REPLY)) as (url, _), _openai(url) as plain:
        client = treering.record(plain, session)
        disk.is_full = True
        assert _chat(client) == _chat(plain)
        assert _chat(client) == _chat(plain)
        assert kinds(session) == []
        assert client.treering.waiting > 0  # type: ignore[attr-defined]
        disk.is_full = False
        assert client.treering.flush()  # type: ignore[attr-defined]

        assert said(session) == ["High tide in Bergen?", REPLY] * 2
        assert kinds(session)[-1] == "ops.warning"
        strict = treering.record(plain, session, strict=True)
        disk.is_full = True
        with pytest.raises(StorageFull):
            _chat(strict)


def test_a_closed_ledger_and_a_refused_secret_cost_only_the_record() -> None:
    key = "sk-ant-api03-" + "A1b2C3d4E5f6G7h8" * 5
    with model_server(chat(REPLY)) as (url, _), _openai(url) as plain:
        ledger = treering.open(":memory:", guard="reject")
        session = ledger.session("monday", scope="acme/app", agent="lyria")
        client = treering.record(plain, session)
        asked: list[Any] = [{"role": "user", "content": f"my key is {key}"}]

        client.chat.completions.create(model="small-1", messages=asked)
        assert client.treering.lost == 1  # type: ignore[attr-defined]
        assert said(session) == [REPLY]
        ledger.close()
        assert _chat(client) == _chat(plain)
        assert client.treering.lost > 1  # type: ignore[attr-defined]


def test_what_is_not_a_conversation_passes_and_what_is_not_a_client_is_refused(
    session: Session,
) -> None:
    vector = {"object": "embedding", "index": 0, "embedding": [0.5]}
    used = {"prompt_tokens": 1, "total_tokens": 1}
    vectors = Scripted({"object": "list", "data": [vector], "model": "m", "usage": used})
    with model_server(vectors) as (url, _), _openai(url) as plain:
        treering.record(plain, session).embeddings.create(
            model="m", input="x", encoding_format="float"
        )

    assert kinds(session) == []
    with pytest.raises(InvalidInput, match="cannot be recorded"):
        treering.record(object(), session)
