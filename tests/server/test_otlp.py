"""Spans of instrumented agents, imported by the server: in any order, any number of times."""

from __future__ import annotations

import asyncio
import gzip
import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import treering
from builders import ELSEWHERE, HERE, NOON
from clocks import Clock
from effort import seeds
from served import InProcess
from spans import parse_traces
from treering.capture.otel_intake import SILENT_MS
from treering.clock import now_ms
from treering.surfaces.server.grants import TokenFile
from treering.surfaces.server.serving import closing_lost_runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from treering import Ledger

PATH = "/v1/otlp/v1/traces"
TRACE = "0af7651916cd43dd8448eb211c80319c"
Span = dict[str, Any]


def value_of(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [value_of(one) for one in value]}}
    return {"stringValue": value}


def attributes(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value_of(value)} for name, value in told.items()]


def span(number: int, parent: int | None, seconds: tuple[int, int], **told: Any) -> Span:
    """Return a span; ``__`` in the name of an attribute stands for a dot."""
    failed = told.pop("failed", None)
    made: Span = {
        "traceId": told.pop("trace", TRACE),
        "spanId": f"{number:016x}",
        "name": told.pop("name", "span"),
        "startTimeUnixNano": str((NOON + seconds[0] * 1_000) * 1_000_000),
        "endTimeUnixNano": str((NOON + seconds[1] * 1_000) * 1_000_000),
        "attributes": attributes({name.replace("__", "."): one for name, one in told.items()}),
    }
    if parent is not None:
        made["parentSpanId"] = f"{parent:016x}"
    if failed is not None:
        made["status"] = {"code": 2, "message": failed}
    return made


def request(spans: list[Span], *, scope: str | None = HERE) -> bytes:
    stated = {"service.name": "keeper"} | ({} if scope is None else {"treering.scope": scope})
    return msgspec.json.encode({
        "resourceSpans": [
            {"resource": {"attributes": attributes(stated)}, "scopeSpans": [{"spans": spans}]}
        ]
    })  # fmt: skip


def messages(*told: tuple[str, list[Any]]) -> str:
    return msgspec.json.encode([{"role": role, "parts": parts} for role, parts in told]).decode()


def text(words: str) -> dict[str, str]:
    return {"type": "text", "content": words}


CALL = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": "fuse"}}
ASKED = ("user", [text("Why is it dark?")])


def agent_spans() -> list[Span]:
    """Return an agent's run as the conventions of today tell it: two model calls, two tools."""
    common: dict[str, Any] = {"gen_ai__conversation__id": "watch", "gen_ai__agent__name": "lyria"}
    chat: dict[str, Any] = {
        "gen_ai__operation__name": "chat", "gen_ai__provider__name": "openai",
        "gen_ai__request__model": "gpt-5", **common,
    }  # fmt: skip
    answered = ("tool", [{"type": "tool_call_response", "id": "c1", "response": "blown"}])
    return [
        span(1, None, (0, 9), gen_ai__operation__name="invoke_agent",
             gen_ai__input__messages=messages(ASKED),
             gen_ai__output__messages=messages(("assistant", [text("The fuse.")])), **common),
        span(2, 1, (1, 2), gen_ai__input__messages=messages(ASKED),
             gen_ai__output__messages=messages(("assistant", [text("I'll look."), CALL])),
             gen_ai__usage__input_tokens=50, gen_ai__usage__output_tokens=5,
             gen_ai__response__finish_reasons=["tool_call"], **chat),
        span(3, 1, (3, 4), gen_ai__operation__name="execute_tool", gen_ai__tool__name="look",
             gen_ai__tool__call__id="c1", gen_ai__tool__call__result="blown"),
        span(4, 1, (4, 5), gen_ai__operation__name="execute_tool", gen_ai__tool__name="mend",
             error__type="NoWire", failed="there is no wire"),
        span(5, 1, (6, 8),
             gen_ai__input__messages=messages(ASKED, ("assistant", [text("I'll look."), CALL]),
                                              answered),
             gen_ai__output__messages=messages(("assistant", [text("The fuse.")])),
             gen_ai__usage__input_tokens=70, gen_ai__usage__output_tokens=7,
             gen_ai__usage__cache_read__input_tokens=40, **chat),
        span(6, 1, (8, 9), name="GET /health"),
    ]  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with treering.open(tmp_path / "otel.db") as opened:
        yield opened


def send(ledger: Ledger, body: bytes, **headers: str) -> Any:
    return InProcess(ledger).post(PATH, body, **headers)


def events_in(ledger: Ledger) -> list[tuple[Any, ...]]:
    found = ledger.events(HERE, first=1_000).items
    return sorted((one.event_id, one.kind, one.session_id) for one in found)


def test_spans_become_a_session_a_run_and_tool_calls(ledger: Ledger) -> None:
    answer = send(ledger, request(agent_spans()))

    assert (answer.status, answer.json) == (200, {})
    session = ledger.session("watch", scope=HERE, agent="lyria")
    assert [(one["role"], one["content"]) for one in session.history() if one.get("content")] == [
        ("user", "Why is it dark?"),
        ("assistant", "I'll look."),
        ("tool", "blown"),
        ("tool", "Error: there is no wire"),
        ("assistant", "The fuse."),
    ]
    assert [one.ts_ms - NOON for one in session.headers(kinds=["conversation.assistant"])] == [
        2_000,
        8_000,
    ]
    (run,) = ledger.runs(HERE).items
    assert (run.state, run.duration_ms, run.session_id) == ("ended", 9_000, "watch")
    calls = {one.tool: one for one in ledger.tool_calls(HERE).items}
    assert (calls["look"].status, calls["look"].call_id) == ("ok", "c1")
    assert (calls["mend"].status, calls["mend"].error_class) == ("failed", "NoWire")
    assert calls["mend"].duration_ms == 1_000
    total = session.usage().total
    assert (total.calls, total.input_tokens, total.cached_tokens) == (2, 120, 40)
    assert session.outline().agent == "lyria"


def test_json_protobuf_and_gzip_tell_the_same(ledger: Ledger, tmp_path: Path) -> None:
    body = request(agent_spans())
    protobuf = parse_traces(body).SerializeToString()
    send(ledger, body)
    expected = events_in(ledger)
    for number, (sent, headers) in enumerate([
        (protobuf, {"content_type": "application/x-protobuf"}),
        (gzip.compress(protobuf),
         {"content_type": "application/x-protobuf", "content_encoding": "gzip"}),
        (gzip.compress(body), {"content_encoding": "gzip"}),
    ]):  # fmt: skip
        with treering.open(tmp_path / f"{number}.db") as other:
            answer = send(other, sent, **headers)

            assert (answer.status, answer.body) in {(200, b""), (200, b"{}")}
            told = {row for row in events_in(other) if row[1] != "session.opened"}
            assert told == {row for row in expected if row[1] != "session.opened"}


@pytest.mark.parametrize("seed", seeds(6))
def test_spans_come_late_out_of_order_and_twice(ledger: Ledger, tmp_path: Path, seed: int) -> None:
    spans = agent_spans()
    send(ledger, request(spans))
    expected = events_in(ledger)
    send(ledger, request(spans))
    assert events_in(ledger) == expected
    dice = random.Random(seed)
    order = [*spans, *spans]
    dice.shuffle(order)
    # A tool's span names no conversation; the spans before it of the same trace do.
    order.sort(key=lambda one: not any("conversation" in str(a) for a in one["attributes"]))

    with treering.open(tmp_path / "other.db") as other:
        while order:
            count = dice.randint(1, 3)
            send(other, request(order[:count]))
            del order[:count]

        names = [(event_id, session) for event_id, kind, session in events_in(other)
                 if kind != "session.opened"]  # fmt: skip
        assert names == [
            (event_id, session) for event_id, kind, session in expected if kind != "session.opened"
        ]


def test_the_same_words_of_two_model_calls_are_two_messages(ledger: Ledger) -> None:
    def chat(number: int) -> Span:
        return span(
            number, None if number == 1 else 1, (number, number + 1),
            gen_ai__operation__name="chat", gen_ai__conversation__id="watch",
            gen_ai__output__messages=messages(("assistant", [text("Done.")])),
        )  # fmt: skip

    send(ledger, request([chat(1), chat(2)]))
    for _ in range(2):
        send(ledger, request([chat(3)]))

    said = ledger.headers(HERE, kinds=["conversation.assistant"]).items
    assert len(said) == 3


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("treering.app.now_ms", made)
    return made


def test_a_run_whose_root_never_comes_is_closed_after_a_while(tmp_path: Path, clock: Clock) -> None:
    first, other = agent_spans(), [{**one, "traceId": TRACE[::-1]} for one in agent_spans()]
    with treering.open(tmp_path / "otel.db") as ledger:
        send(ledger, request(first[1:3]))
        clock.now_ms += SILENT_MS
        send(ledger, request(other[1:2]))
        assert {one.state for one in ledger.runs(HERE).items} == {"open"}

        clock.now_ms += SILENT_MS + 1
        send(ledger, request([{**one, "traceId": f"{7:032x}"} for one in first]))

        states = {one.run_id: (one.state, one.reason) for one in ledger.runs(HERE).items}
        assert states[f"otel-{TRACE}"] == ("interrupted", "interrupted")
        assert states[f"otel-{7:032x}"] == ("ended", None)


def test_a_server_closes_runs_whose_root_never_comes(tmp_path: Path, clock: Clock) -> None:
    async def live(served: Ledger) -> None:
        async with closing_lost_runs(served):
            pass

    with treering.open(tmp_path / "otel.db") as ledger:
        send(ledger, request(agent_spans()[1:3]))
        asyncio.run(live(ledger))
        assert [one.state for one in ledger.runs(HERE).items] == ["open"]

        clock.now_ms += SILENT_MS + 1
        asyncio.run(live(ledger))
        assert [one.state for one in ledger.runs(HERE).items] == ["interrupted"]


def test_what_comes_after_a_run_was_closed_is_recorded_beside_it(
    tmp_path: Path, clock: Clock
) -> None:
    with treering.open(tmp_path / "otel.db") as ledger:
        send(ledger, request(agent_spans()[1:3]))
        clock.now_ms += SILENT_MS + 1

        late = send(ledger, request(agent_spans()))
        once = events_in(ledger)
        send(ledger, request(agent_spans()))

        assert late.status == 200
        assert events_in(ledger) == once
        (run,) = ledger.runs(HERE).items
        assert run.state == "interrupted"
        found = ledger.events(HERE, first=100).items
        (ended,) = (one for one in found if (one.refs or {}).get("observed") == "run.ended")
        assert (ended.run_id, ended.refs["duration_ms"]) == (None, 9_000)
        assert sum(one.kind == "conversation.assistant" for one in found) == 2


def test_older_conventions_are_read(ledger: Ledger) -> None:
    old = span(
        1, None, (0, 1), gen_ai__system="anthropic", gen_ai__request__model="claude-3",
        gen_ai__prompt__0__role="user", gen_ai__prompt__0__content="Lit?",
        gen_ai__completion__0__role="assistant", gen_ai__completion__0__content="No.",
        gen_ai__usage__prompt_tokens=11, gen_ai__usage__completion_tokens=2,
    )  # fmt: skip
    inference = span(
        2, None, (0, 1), trace="b" * 32, openinference__span__kind="LLM",
        llm__model_name="gpt-4o", session__id="inference",
        llm__input_messages__0__message__role="user",
        llm__input_messages__0__message__content="Lit?",
        llm__output_messages__0__message__content="Yes.", llm__token_count__prompt=3,
        llm__token_count__completion=1,
    )  # fmt: skip
    told = span(3, None, (0, 1), trace="c" * 32, gen_ai__operation__name="chat")
    told["events"] = [
        {"name": "gen_ai.user.message", "attributes": attributes({"content": "Lit?"})},
        {"name": "gen_ai.choice", "attributes": attributes({"message": '{"content": "Maybe."}'})},
    ]

    send(ledger, request([old, inference, told]))

    talks = {
        name: [one["content"] for one in ledger.session(name, scope=HERE, agent="x").history()]
        for name in (f"otel-{TRACE}", "inference", "otel-" + "c" * 32)
    }
    assert list(talks.values()) == [["Lit?", "No."], ["Lit?", "Yes."], ["Lit?", "Maybe."]]
    used = {one.refs["model"]: one.refs["total_tokens"]
            for one in ledger.headers(HERE, kinds=["usage.reported"]).items}  # fmt: skip
    assert used == {"claude-3": 13, "gpt-4o": 4}


def test_the_scope_is_the_stated_one_or_that_of_the_token(ledger: Ledger, tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    token, _ = file.add(
        name="t", rights=["write"], scopes=[ELSEWHERE], expires_ms=None, now_ms=now_ms()
    )
    server = InProcess(ledger, file=file)

    unnamed = server.post(PATH, request(agent_spans(), scope=None))
    own = server.post(PATH, request(agent_spans(), scope=None), token=token)
    other = server.post(PATH, request(agent_spans(), scope=HERE), token=token)

    assert (unnamed.status, "treering.scope" in unnamed.json["hint"]) == (400, True)
    assert (own.status, other.status) == (200, 403)
    assert ledger.session_ids(ELSEWHERE) == ["watch"]
    assert ledger.session_ids(HERE) == []


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"no otlp", {}, 400),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "x", "spanId": "y"}]}]}]}',
         {}, 400),
        (b"\xff\xff", {"content_type": "application/x-protobuf"}, 400),
        (b"no gzip", {"content_encoding": "gzip"}, 400),
        (gzip.compress(b" " * (17 * 1024 * 1024)), {"content_encoding": "gzip"}, 413),
        (b"{}", {"content_type": "text/plain"}, 400),
        (b"{}", {}, 200),
    ],
)  # fmt: skip
def test_what_is_no_otlp_is_refused(
    ledger: Ledger, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert send(ledger, body, **headers).status == status
