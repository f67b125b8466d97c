"""The short way through a rollout: the same events as the long way, whatever is in it."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from treering.formats.codex import CodexReader
from treering.formats.parsed import LogRecord

if TYPE_CHECKING:
    from treering.formats.parsed import ParsedRecord

SESSION = "0199aaaa-0000-7000-8000-000000000001"
TEXTS = st.sampled_from([
    "Mend the lamp.", "", "  ", "é✓\n\tx", "x" * 3_000, "aborted by user", "{", '{"output": 7}',
    "Exit code: 1\nWall time: 0.5 seconds\nOutput:\nno",
    "Exit code: 0\nWall time: 2 s\nOutput:\nok",
    json.dumps({"output": "fuse.txt", "metadata": {"exit_code": 0, "duration_seconds": 0.1}}),
    json.dumps({"output": "no", "metadata": {"exit_code": 2}}),
    json.dumps({"command": ["bash", "-lc", "ls"], "workdir": "/home/dev"}),
    json.dumps({"input": [[[[[[1.5]]]]]]}), '{"n": 1e999}', '{"n": 123456789012345678901234567890}',
])  # fmt: skip
IDS = st.sampled_from(["call_1", "call_2", "call_" + "3" * 200, "", " ", "\n", None, 7])
ODD: list[Any] = [None, "", "x", 0, -1, 1.5, True, [], {}, ["x"], {"a": 1}, "2026-01-01"]


def counted(total: Any, last: Any) -> dict[str, Any]:
    info = {"total_token_usage": total, "last_token_usage": last, "model_context_window": 9_000}
    return {"type": "token_count", "info": info, "rate_limits": None}


def used(count: int) -> dict[str, int]:
    return {"input_tokens": count, "cached_input_tokens": 1, "total_tokens": count + 1}


USAGE = st.one_of(st.builds(used, st.integers(0, 3)), st.sampled_from([None, {}, {"x": 1}]))
RECORDS = st.one_of(
    st.builds(
        lambda call_id, tool, text: (
            "response_item",
            {"type": "function_call", "name": tool, "arguments": text, "call_id": call_id},
        ),
        IDS,
        st.sampled_from(["shell", "shell", "", None]),
        TEXTS,
    ),
    st.builds(
        lambda call_id, text: (
            "response_item",
            {"type": "function_call_output", "call_id": call_id, "output": text},
        ),
        IDS,
        st.one_of(TEXTS, st.sampled_from([["listed"], {"content": "x", "success": False}])),
    ),
    st.builds(lambda total, last: ("event_msg", counted(total, last)), USAGE, USAGE),
    st.builds(lambda text: ("event_msg", {"type": "agent_reasoning", "text": text}), TEXTS),
    st.builds(
        lambda text: (
            "response_item",
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]},
        ),
        TEXTS,
    ),
    st.builds(lambda text: ("event_msg", {"type": "user_message", "message": text}), TEXTS),
    st.builds(
        lambda text: (
            "response_item",
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
        ),
        TEXTS,
    ),
    st.just(("turn_context", {"cwd": "/home/dev/app", "model": "gpt-5-codex"})),
    st.just(("event_msg", {"type": "thread_rolled_back", "num_turns": 1})),
)
CHANGES = st.tuples(
    st.sampled_from([
        "timestamp", "type", "payload", "payload.type", "payload.call_id", "payload.output",
        "payload.arguments", "payload.content", "payload.info", "payload.name",
    ]),
    st.sampled_from([
        *ODD, "function_call", "token_count", "response_item", "event_msg", "session_meta",
        "2026-09-21T14:13:20Z", "2026-02-30T14:13:20.000Z", "1970-01-01T00:00:00.000Z",
    ]),
)  # fmt: skip


@st.composite
def rollouts(draw: st.DrawFn) -> list[Any]:
    """Return the records of a rollout, most of them as usual."""
    opened = {"id": SESSION, "cwd": "/home/dev/app", "model_provider": "openai"}
    forked = draw(st.sampled_from([{}, {}, {"forked_from_id": SESSION[:-1] + "2"}]))
    told = [("session_meta", opened | forked), *draw(st.lists(RECORDS, max_size=14))]
    values: list[Any] = [
        {"timestamp": f"2026-09-21T14:13:{at:02}.000Z", "type": sort, "payload": payload}
        for at, (sort, payload) in enumerate(told)
    ]
    values = copy.deepcopy(values)
    for _ in range(draw(st.integers(0, 3))):
        value = draw(st.sampled_from(values))
        field, odd = draw(CHANGES)
        outer, _, inner = field.rpartition(".")
        target = value.get(outer) if outer else value
        if isinstance(target, dict):
            target[inner] = copy.deepcopy(odd)
    for _ in range(draw(st.integers(0, 2))):
        values.insert(
            draw(st.integers(0, len(values))), copy.deepcopy(draw(st.sampled_from(values)))
        )
    return values


class LongWay(CodexReader):
    """Reads every record the long way."""

    def _read_straight(self, record: LogRecord) -> ParsedRecord | None:  # noqa: ARG002
        return None


def outcome(reader: CodexReader, values: list[Any]) -> Any:
    parsed = []
    for number, value in enumerate(values, start=1):
        parsed += reader.read(LogRecord(copy.deepcopy(value), number, number, number + 1))
    state = reader.state()
    parsed += reader.finish()
    return msgspec.to_builtins([parsed, state, reader.sessions])


@given(rollouts())
def test_both_ways_give_the_same_events_and_remember_the_same(values: list[Any]) -> None:
    assert outcome(CodexReader(None), values) == outcome(LongWay(None), values)


@given(rollouts(), st.integers(0, 14))
def test_a_reader_that_continues_goes_either_way(values: list[Any], cut: int) -> None:
    first = LongWay(None)
    for number, value in enumerate(values[:cut], start=1):
        first.read(LogRecord(copy.deepcopy(value), number, number, number + 1))
    state = first.state()
    if state is None or not first.sessions:
        return
    ways = []
    for make in (CodexReader, LongWay):
        reader = make(None)
        reader.resume(copy.deepcopy(state))
        ways.append(outcome(reader, values[cut:]))
    assert ways[0] == ways[1]


def test_usual_records_are_read_the_short_way() -> None:
    told = [
        ("session_meta", {"id": SESSION}),
        ("response_item", {"type": "function_call", "name": "shell", "arguments": "{}",
                           "call_id": "call_1"}),
        ("response_item", {"type": "function_call_output", "call_id": "call_1", "output": "ok"}),
        ("event_msg", counted(used(1), used(1))),
    ]  # fmt: skip
    reader, short = CodexReader(None), 0
    for number, (sort, payload) in enumerate(told, start=1):
        time = f"2026-09-21T14:13:{number:02}.000Z"
        value = {"timestamp": time, "type": sort, "payload": payload}
        record = LogRecord(value, number, number, number + 1)
        if reader._read_straight(record) is not None:
            short += 1
        else:
            reader.read(record)
    assert short == 3
