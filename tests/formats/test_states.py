"""States of readers: erasure does not reach them, so they contain no text of a log."""

from __future__ import annotations

import re
from itertools import count
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import pytest

from formats.clawser_logs import event as clawser_event
from formats.logs import codex, gemini, openclaw, pi, tellings
from formats.logs.claude_code import SESSION, Log, call, used, uuid_of
from treering.formats.apeira.lines import ApeiraReader
from treering.formats.claude_code import ClaudeCodeReader
from treering.formats.claude_code.state import LEAF_LINES_MAX
from treering.formats.clawser.lines import ClawserReader
from treering.formats.codex import CodexReader
from treering.formats.gemini import GeminiReader
from treering.formats.loose import STATE_BYTES_MAX
from treering.formats.openclaw import OpenClawReader
from treering.formats.openclaw_mem import OpenClawMemReader
from treering.formats.openclaw_receipts import OpenClawReceiptsReader
from treering.formats.parsed import LogReader, LogRecord, ParsedEvent, ParsedRecord
from treering.formats.pi import PiReader
from treering.formats.tape import TapeReader
from treering.model.codec import decode, encode
from treering.model.fields import instant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


T0: Final = 1_790_000_000_000
NEEDLE: Final = re.compile(rb"qneedle[0-9]+")

_numbers = count(1)


def w(words: str = "the lamp") -> str:
    """Return a unique text of a log, which must not occur outside of events."""
    return f"{words} qneedle{next(_numbers)}"


def claude_log() -> list[Any]:
    """Return a session with every type of text: said, thought, called, returned, titled, failed."""
    log = Log(cwd=w("/srv"), gitBranch=w("branch"))
    log.note("summary", summary=w(), leafUuid=uuid_of(3))
    log.user(w())
    log.answer({"type": "thinking", "thinking": w(), "signature": w()}, w(), usage=used(1))
    log.answer(call("toolu_1", "Bash", command=w(), description=w()), usage=used(9))
    log.result("toolu_1", w(), is_error=True, toolUseResult=w("Error:"))
    log.note("ai-title", aiTitle=w(), sessionId=SESSION)
    title = w()
    log.note("custom-title", customTitle=title, sessionId=SESSION)
    log.note("custom-title", customTitle=title, sessionId=SESSION)
    prompts = {agent: w() for agent in ("b", "a")}
    for agent, prompt in prompts.items():
        log.answer(call(f"toolu_{agent}", "Task", prompt=prompt), id=f"msg_{agent}")
    for agent, prompt in prompts.items():
        log.user(prompt, isSidechain=True, parentUuid=None, agentId=agent)
        log.answer(w(), id=f"msg_{agent}2", isSidechain=True, usage=used(4))
    log.line("system", subtype="api_error", error=w(), parentUuid=uuid_of(4))
    log.line("attachment", attachment={"type": "file", "content": w()})
    log.line("system", subtype="compact_boundary", content=w(), compactMetadata={"preTokens": 9})
    log.user(w(), isCompactSummary=True)
    back = log.user([{"type": "text", "text": w()}, {"type": "text", "text": w("<bash-stdout>")}])
    log.answer(w(), id="msg_4")
    log.user(w("[Request interrupted by user]"))
    log.user(w(), parentUuid=back)
    log.note("a-note-of-the-future", told=w())
    return log.lines


def codex_log() -> list[Any]:
    """Return a rollout with texts in every type of record, plain and wrapped."""
    said, thought = w("high\ntide\n"), w()
    item = {"type": "AgentMessage", "content": [{"type": "Text", "text": w()}]}
    opening = codex.opened(cwd=w("/srv"), git={"branch": w(), "repository_url": w()})
    return [
        opening,
        codex.event("user_message", message=said),
        codex.surroundings(),
        codex.user_item(f"[{w()}]\n{said}\n[{w()}]"),
        codex.event("agent_reasoning", text=thought),
        codex.item("reasoning", summary=[{"text": thought}], encrypted_content=w()),
        *codex.turn(w(), w()),
        codex.call("c1", command=w(), cwd=w()),
        opening,
        codex.counted(300, 200),
        codex.output("c1", w("Exit code: 1\n")),
        codex.event("item_completed", item=item),
        codex.event("thread_name_updated", thread_name=w()),
        codex.event("error", message=w()),
        codex.line("compacted", {"message": w(), "replacement_history": [w()]}),
        codex.line("turn_context", {"cwd": w("/srv"), "model": "gpt-5", "summary": w()}),
        codex.user_item(w()),
        codex.event("turn_aborted", reason=w()),
        codex.event("thread_rolled_back", num_turns=1),
        codex.line("a_record_of_the_future", {"told": w()}),
    ]


def gemini_log() -> list[Any]:
    thought = {"subject": w(), "description": w()}
    return [
        {**gemini.HEADER, "summary": w()},
        {"$set": {"directories": [w("/srv")], "summary": w()}},
        gemini.user("m1", w()),
        gemini.answer("m2", w(), thoughts=[thought]),
        gemini.answer("m2", w(), toolCalls=[gemini.call("c1", output=w(), args={"port": w()})]),
        gemini.user("m3", w("<state_snapshot>")),
        gemini.answer("m4", w(), toolCalls=[gemini.call("c2", "error", w(), resultDisplay=w())]),
        gemini.message("m5", "error", w()),
        gemini.message("m6", "info", w()),
        {"$rewindTo": "m4"},
        gemini.user("m3", w()),
        {"$of_the_future": w()},
    ]


def pi_log() -> list[Any]:
    parent = f"/home/{w()}/2026-03-01T09-00-00-000Z_{pi.PARENT}.jsonl"
    return [
        pi.header(cwd=w("/srv"), branchedFrom=parent, thinkingLevel=w()),
        pi.said(1, w()),
        pi.answered(2, {"type": "thinking", "thinking": w()}, w(), pi.call("c1", path=w())),
        pi.returned(3, "c1", w(), isError=True),
        pi.entry(4, "compaction", summary=w(), firstKeptEntryId=pi.ident(2)),
        pi.entry(5, "session_info", name=w()),
        pi.entry(6, "branch_summary", summary=w()),
        pi.said(7, w(), parent=2),
        pi.entry(8, "custom_message", content=w(), customType="note"),
        pi.answered(9, stopReason="error", errorMessage=w()),
    ]


def openclaw_log() -> list[Any]:
    delivered = w()
    return [
        *openclaw.opening(parentSession=f"/home/{w()}/{pi.PARENT}.jsonl"),
        pi.said(2, w("[Mon 2026-09-21 14:10 UTC]")),
        pi.answered(3, delivered, pi.call("c1", "message", text=w())),
        openclaw.mirrored(4, delivered),
        pi.returned(5, "c1", w(openclaw.MISSING), "message"),
        pi.entry(6, "entry_of_the_future", told=w()),
    ]


def spool_log() -> list[Any]:
    kinds = ("conversation.user", "tool.call", "tool.result", "ops.decision", "of.the.future")
    return [
        {"schema": "openclaw-mem.episodes.spool.v0", "event_id": f"ep-{n}" if n else None,
         "ts_ms": T0 + n, "scope": f"acme/{n % 2}", "session_id": "s1", "agent_id": "lyria",
         "type": kind, "summary": w(), "payload": {"text": w()}, "refs": {"note": w()}}
        for n, kind in enumerate((*kinds, kinds[0]))
    ]  # fmt: skip


def receipts_log() -> list[Any]:
    cron = {"ts": T0, "jobId": "weekly", "action": "finished", "status": "error"}
    recall = {"schema": "openclaw-mem-engine.autoRecall.receipt.v1", "scope": "acme/app"}
    told = {**recall, "skipReason": w(), "query": w()}
    return [{**cron, "error": w()}, {**cron, "summary": w()}, told, told, {"strange": w()}]


def apeira_log() -> list[Any]:
    def episode(n: int, source: str, sort: str, payload: Any) -> dict[str, Any]:
        origin = {"source": source, "turnId": "t1"}
        return {"meta": origin, "payload": payload, "type": sort, "id": n}

    called = {"arguments": w(), "call_id": "c1", "name": "tide", "type": "function_call"}
    returned = {"call_id": "c1", "output": w(), "type": "function_call_output"}
    return [
        episode(1, "user", "item", {"item": {"content": w(), "role": "user", "type": "message"}}),
        episode(2, "model", "item", {"item": called}),
        episode(2, "tool", "item", {"item": returned}),
        {"type": "item", "id": 3, "told": w()},
        episode(9, "runtime", "boundary", {"reason": "checkpoint", "title": w()}),
    ]


def clawser_log() -> list[Any]:
    said = clawser_event(1, "user_message", "user", content=w())
    return [
        clawser_event(0, "goal_added", id="goal_1", description=w()),
        said,
        clawser_event(2, "agent_message", "agent", content=w()),
        clawser_event(3, "tool_call", "agent", call_id="c1", name="tide", arguments={"port": w()}),
        clawser_event(4, "tool_result", call_id="c1", name="tide",
                      result={"success": False, "output": "", "error": w()}),
        said,
        {**clawser_event(5, "error", message=w()), "id": None},
        {"told": w()},
    ]  # fmt: skip


def tape_log() -> list[Any]:
    calls = [{"id": "c1", "name": "tide", "arguments": {"port": w()}}, {"name": "wind"}]
    told: list[tuple[str, dict[str, Any]]] = [
        ("anchor", {"name": w(), "state": {"owner": w()}}),
        ("message", {"role": "user", "content": w()}),
        ("tool_call", {"calls": calls, "content": w()}),
        ("tool_result", {"results": [w(), {"kind": "tool", "message": w()}]}),
        ("message", {"role": "assistant", "content": w(), "reasoning": w()}),
        ("error", {"kind": "unknown", "message": w()}),
        ("event", {"name": "handoff", "data": {"to": w()}}),
    ]
    return [
        {"id": n or "x", "kind": kind, "payload": payload, "meta": {}, "date": instant(T0 + n)}
        for n, (kind, payload) in enumerate(told)
    ]


LOGS: Final[dict[str, tuple[Callable[[], LogReader], list[Any]]]] = {
    "claude-code": (lambda: ClaudeCodeReader(PurePath(f"{SESSION}.jsonl")), claude_log()),
    "codex": (lambda: CodexReader(codex.PATH), codex_log()),
    "gemini": (lambda: GeminiReader(None), gemini_log()),
    "pi": (PiReader, pi_log()),
    "openclaw": (OpenClawReader, openclaw_log()),
    "openclaw-mem": (OpenClawMemReader, spool_log()),
    "openclaw-receipts": (OpenClawReceiptsReader, receipts_log()),
    "apeira": (ApeiraReader, apeira_log()),
    "clawser": (ClawserReader, clawser_log()),
    "tape": (TapeReader, tape_log()),
}
"""A reader of every format, and a log of which every text has a needle in it."""


def outcomes(reader: LogReader, values: Sequence[Any], start: int = 0) -> list[ParsedRecord]:
    """Return the outcomes that ``values`` settle, while more may come."""
    lines = [LogRecord(value, n, n, n + 1) for n, value in enumerate(values[start:], start=start)]
    return [one for record in lines for one in reader.read(record)]


def check(state: Any) -> None:
    """Check that a state contains no text."""
    written = encode(state)
    assert NEEDLE.findall(written) == []
    assert len(written) <= STATE_BYTES_MAX


def resumed(make: Callable[[], LogReader], state: Any) -> LogReader:
    """Return a reader that resumes from a state as a ledger returns it."""
    reader = make()
    reader.resume(decode(encode(state)))
    return reader


each_log = pytest.mark.parametrize(("make", "log"), LOGS.values(), ids=LOGS)


@each_log
def test_a_state_holds_no_text_and_all_that_is_needed_to_go_on(
    make: Callable[[], LogReader], log: list[Any]
) -> None:
    whole = outcomes(make(), log)
    goes_on = 0

    for cut in range(1, len(log) + 1):
        reader = make()
        before = outcomes(reader, log[:cut])
        state = reader.state()
        if state is not None:
            check(state)
            goes_on += 1
            assert before + outcomes(resumed(make, state), log, cut) == whole

    assert goes_on > len(log) / 3


@each_log
def test_a_state_holds_no_text_of_a_log_that_was_read_to_its_end(
    make: Callable[[], LogReader], log: list[Any]
) -> None:
    keys = {event.key for event in tellings.told(make(), log)}

    for cut in range(1, len(log) + 1):
        reader = make()
        before = tellings.told(reader, log[:cut])
        state = reader.state()
        if state is not None:
            check(state)
            after = tellings.told(resumed(make, state), log[cut:])
            # What waited in vain may be told once more, in the better way that came too late.
            assert keys <= {event.key for event in (*before, *after)}

    assert state is not None


@each_log
def test_these_logs_are_of_texts_that_are_told(
    make: Callable[[], LogReader], log: list[Any]
) -> None:
    reader = make()
    told = encode([tellings.told(reader, log), reader.sessions])

    written = set(NEEDLE.findall(encode(log)))
    # But for folders, what is put around words, and versions that were replaced.
    assert len(written & set(NEEDLE.findall(told))) >= 0.8 * len(written)


# What waits, and what comes in an order.


def told_on(make: Callable[[], LogReader], log: Sequence[Any], cut: int) -> list[ParsedEvent]:
    """Return the events after ``cut`` from a reader that resumes there."""
    reader = make()
    tellings.told(reader, log[:cut])
    return tellings.told(resumed(make, reader.state()), log[cut:])


def test_a_title_that_waits_for_its_line_is_not_written_down() -> None:
    log = Log()
    log.user("Why is the lamp dark?")
    log.note("summary", summary="The dark lamp", leafUuid=uuid_of(3))
    log.user("And the horn?")
    reader = ClaudeCodeReader(None)

    tellings.told(reader, log.lines)
    waiting = reader.state()
    log.user("And the bell?")
    titles = [one.kind for one in tellings.told(reader, log.lines[-1:])]

    assert waiting is None
    assert titles == ["conversation.user", "session.titled"]
    assert reader.state() is not None


def test_a_title_of_another_session_does_not_wait_for_ever() -> None:
    log = Log()
    log.user("Why is the lamp dark?")
    log.note("summary", summary="Another lamp", leafUuid=uuid_of(9_999))
    for number in range(LEAF_LINES_MAX):
        log.note("mode", mode=str(number), sessionId=SESSION)
    reader = ClaudeCodeReader(None)

    tellings.told(reader, log.lines)
    assert reader.state() is None
    tellings.told(reader, [{"type": "mode", "mode": "last", "sessionId": SESSION}])
    assert reader.state() is not None


def test_subagents_are_told_apart_in_whatever_order_they_began() -> None:
    log = Log()
    for agent in ("z", "m", "a"):
        log.user(f"mend {agent}", isSidechain=True, parentUuid=None, agentId=agent)
    # It has no name of its own: whose it is, is known by what it follows.
    log.answer("Mended.", isSidechain=True, parentUuid=uuid_of(1))

    (event,) = told_on(lambda: ClaudeCodeReader(None), log.lines, 3)

    assert event.session == f"{SESSION}/agent-z"


def test_wrapped_words_are_known_again_by_a_reader_that_goes_on() -> None:
    said = "high tide?\n\n  and low?"
    log = [codex.opened(), codex.event("user_message", message=f" {said}\n")]

    for around, kinds in (
        (f"[weather: fair]\n{said}  \n[end]", []),
        (f"[weather: fair]\n{said}!", ["conversation.user"]),
        ("high tide?", ["conversation.user"]),
    ):
        after = told_on(lambda: CodexReader(None), [*log, codex.user_item(around)], 2)
        assert tellings.kinds(after) == kinds


def test_who_provides_a_model_is_known_to_a_reader_that_goes_on() -> None:
    log = [codex.opened(), codex.opened(model_provider="another"), codex.counted(10, 10)]

    (report,) = told_on(lambda: CodexReader(None), log, 1)[1:]

    assert report.refs is not None
    assert report.refs["provider"] == "openai"


@pytest.mark.parametrize("make", [PiReader, OpenClawReader])
def test_what_a_session_is_about_is_read_again_until_it_has_told_something(
    make: Callable[[], LogReader],
) -> None:
    reader = make()

    tellings.told(reader, [pi.header(parentSession=f"{pi.PARENT}.jsonl"), pi.said(1, " ")])
    assert reader.state() is None
    tellings.told(reader, [pi.said(2, "Tide?")])

    assert resumed(make, reader.state()).sessions[pi.SESSION].forked_from == pi.PARENT


def test_an_agent_of_openclaw_keeps_its_scope() -> None:
    def make() -> LogReader:
        path = PurePath(f"/home/ada/.openclaw/agents/lyria/sessions/{pi.SESSION}.jsonl")
        return OpenClawReader(path)

    reader = make()
    tellings.told(reader, [pi.header(), pi.said(1, "Tide?")])

    found = resumed(make, reader.state()).sessions[pi.SESSION]
    assert (found.agent, found.about) == ("lyria", {"scope": "openclaw/lyria"})
