"""The short way through a Claude Code log: the same events as the long way, whatever is in it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from formats.logs.claude_code import OTHER_SESSION, SESSION, Log, call, used
from treering.formats.claude_code import ClaudeCodeReader
from treering.formats.parsed import LogRecord

if TYPE_CHECKING:
    from treering.formats.parsed import ParsedEvent

TEXTS = st.sampled_from([
    "Mend the lamp.", "", "  ", "(no content)", "<command-name>/clear</command-name>", "é✓\n\tx",
    "[Request interrupted by user]", "The user doesn't want to proceed", "x" * 3_000,
])  # fmt: skip
IDS = st.sampled_from(["toolu_1", "toolu_2", "", " ", "\n", None, 7])
ODD: list[Any] = [None, "", "x", 0, -1, 1.5, True, False, [], {}, ["x"], {"a": 1}, "2026-01-01"]
BLOCKS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.builds(
        lambda text, sign: {"type": "thinking", "thinking": text, "signature": sign},
        TEXTS,
        st.sampled_from(["", "c2ln"]),
    ),
    st.builds(
        lambda call_id, name, text: {**call("x", "y", command=text), "id": call_id, "name": name},
        IDS,
        st.sampled_from(["Bash", "Task", "", None]),
        TEXTS,
    ),
    st.builds(
        lambda call_id, content, failed: {
            "type": "tool_result", "tool_use_id": call_id, "content": content, **failed,
        },
        IDS,
        st.one_of(TEXTS, st.just([{"type": "text", "text": "listed"}]), st.none()),
        st.sampled_from([{}, {"is_error": True}, {"is_error": False}]),
    ),
)  # fmt: skip
CHANGES = st.tuples(
    st.sampled_from([
        "uuid", "parentUuid", "sessionId", "timestamp", "type", "message", "cwd", "isMeta",
        "isSidechain", "requestId", "toolUseResult", "origin", "agentId", "version", "forkedFrom",
        "message.id", "message.model", "message.usage", "message.content", "message.stop_reason",
    ]),
    st.sampled_from([
        *ODD, SESSION, OTHER_SESSION, {"durationMs": 5, "stdout": "Mend the lamp."},
        {"input_tokens": 3, "output_tokens": 2**50}, "2026-09-21T14:13:20Z",
        "2026-02-30T14:13:20.000Z",
    ]),
)  # fmt: skip


@st.composite
def logs(draw: st.DrawFn) -> list[Any]:
    """Return the lines of a log, most of them as usual."""
    log = Log()
    log.user("First.")
    for number in range(draw(st.integers(1, 12))):
        block = draw(BLOCKS)
        message = f"msg_{draw(st.integers(1, 3))}"
        if draw(st.booleans()):
            log.answer(block, id=message, usage=used(number), requestId=f"req_{message}")
        else:
            content = draw(st.sampled_from([[block], [block, block], "And now?"]))
            log.line("user", message={"role": "user", "content": content})
    lines: list[Any] = copy.deepcopy(log.lines)
    for _ in range(draw(st.integers(0, 3))):
        line = lines[draw(st.integers(0, len(lines) - 1))]
        field, odd = draw(CHANGES)
        outer, _, inner = field.rpartition(".")
        target = line.get(outer) if outer else line
        if isinstance(target, dict):
            target[inner] = copy.deepcopy(odd)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(lines) - 1))
        lines.insert(draw(st.integers(0, len(lines))), copy.deepcopy(lines[at]))
    return lines


class LongWay(ClaudeCodeReader):
    """Reads every line the long way."""

    def _read_straight(self, record: LogRecord) -> list[ParsedEvent] | None:  # noqa: ARG002
        return None


def outcome(reader: ClaudeCodeReader, lines: list[Any]) -> Any:
    parsed = []
    for number, value in enumerate(lines, start=1):
        parsed += reader.read(LogRecord(copy.deepcopy(value), number, number, number + 1))
    state = reader.state()
    parsed += reader.finish()
    return msgspec.to_builtins([parsed, state, reader.sessions])


@given(logs())
def test_both_ways_give_the_same_events_and_remember_the_same(lines: list[Any]) -> None:
    assert outcome(ClaudeCodeReader(), lines) == outcome(LongWay(), lines)


@given(logs(), st.integers(0, 12))
def test_a_reader_that_continues_goes_either_way(lines: list[Any], cut: int) -> None:
    first = LongWay()
    outcome(first, lines[:cut])
    state = first.state()
    if state is None or not first.sessions:
        return
    ways = []
    for make in (ClaudeCodeReader, LongWay):
        reader = make()
        reader.resume(copy.deepcopy(state))
        ways.append(outcome(reader, lines[cut:]))
    assert ways[0] == ways[1]


def test_usual_lines_are_read_the_short_way() -> None:
    log = Log()
    log.user("First.")
    log.user("Mend the lamp.")
    log.answer({"type": "thinking", "thinking": "Where?", "signature": "c2ln"}, usage=used(1))
    log.answer("I'll look.", usage=used(2), requestId="req_1", model="claude")
    log.answer(call("toolu_1", "Bash", command="ls"), usage=used(9), requestId="req_1")
    log.result("toolu_1", "fuse.txt")
    reader, short = ClaudeCodeReader(), 0
    for number, value in enumerate(log.lines, start=1):
        record = LogRecord(value, number, number, number + 1)
        if number > 1 and reader._read_straight(record) is not None:
            short += 1
        else:
            reader.read(record)
    assert short >= 3
