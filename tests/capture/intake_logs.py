"""Logs of every format as files, and what is asked of a ledger that took them in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from formats.clawser_logs import voyage as clawser_voyage
from formats.logs import codex, gemini, openclaw, pi
from formats.logs.claude_code import SESSION, Log, call, used
from treering.model.fields import instant

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from treering import Ledger, Session
    from treering.model.events import Event
    from treering.model.intakes import ImportReceipt, SourceReceipt

T0: Final = 1_790_000_000_000
CLAW_SESSION: Final = "0190a000-0000-7000-8000-0000000000c1"
EVERYWHERE: Final = "voyages"
"""The scope that a test names when it is not about scopes."""


def write(path: Path, records: Iterable[Any]) -> Path:
    """Write a log, a record a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(records))
    return path


def lines(records: Iterable[Any]) -> bytes:
    """Return a log, a record a line."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in records)


def add(path: Path, content: bytes) -> None:
    """Write on at the end of a log."""
    with path.open("ab") as file:
        file.write(content)


def claude_log(*said: str, session: str | None = None, first: int = 1, **shared: Any) -> Log:
    """Return a log of Claude Code in which each thing said is answered."""
    log = Log(session, first=first, **shared) if session else Log(first=first, **shared)
    for number, one in enumerate(said, start=first):
        log.user(one)
        log.answer(f"about {one}", id=f"msg_{number}", usage=used(5), requestId=f"req_{number}")
    return log


def claude_voyage() -> list[dict[str, Any]]:
    """Return a session with a tool, a subagent, a rewind and notes beside the talk."""
    log = Log()
    log.user("Mend the lamp.")
    log.note("summary", summary="Lamps", leafUuid="none")
    log.answer({"type": "thinking", "thinking": "Where?", "signature": "c2ln"}, usage=used(1))
    log.answer("I'll look.", usage=used(2))
    asked = log.answer(call("toolu_1", "Bash", command="ls"), usage=used(9))
    log.result("toolu_1", "fuse.txt")
    log.user("find the fuse", isSidechain=True, parentUuid=None, agentId="a1")
    log.answer("It is blown.", id="msg_2", isSidechain=True, usage=used(4), agentId="a1")
    back = log.answer("Mended.", id="msg_3", usage=used(3), parentUuid=asked)
    log.user("And the horn?")
    log.user("And the bell?", parentUuid=back)
    log.note("a-note-of-the-future", hidden={"depth": 1})
    return log.lines


def codex_voyage() -> list[dict[str, Any]]:
    """Return a rollout with tools, both lanes, a rollback and a record of the future."""
    return [
        codex.opened(),
        *codex.turn("Tide?", "At 14:10."),
        codex.call("c1", command="wind"),
        codex.output("c1", "calm"),
        codex.user_item("And now?", n=3),
        codex.answer_item("Still calm.", n=4),
        codex.event("thread_rolled_back", 5, num_turns=1),
        codex.line("a_record_of_the_future", {"depth": 1}, 6),
        codex.user_item("Thanks.", n=7),
    ]


def gemini_voyage() -> list[dict[str, Any]]:
    """Return a session of the Gemini CLI, in lines."""
    return [
        dict(gemini.HEADER),
        gemini.user("m1", "Tide?"),
        gemini.answer("m2", "Let me look.", toolCalls=[gemini.call("c1")], tokens=gemini.TOKENS),
        gemini.answer("m3", "At 14:10.", n=9),
    ]


def openclaw_voyage() -> list[dict[str, Any]]:
    """Return a session of OpenClaw's, with a text that it mirrors."""
    return [
        *openclaw.opening(id=CLAW_SESSION),
        pi.said(2, "Tide?"),
        pi.answered(3, "At 14:10."),
        openclaw.mirrored(4, "At 14:10."),
        pi.entry(5, "entry_of_the_future", depth=1),
    ]


def spool_voyage() -> list[dict[str, Any]]:
    """Return lines of openclaw-mem's spool."""
    kinds = ("conversation.user", "tool.call", "tool.result", "ops.decision")
    return [
        {"schema": "openclaw-mem.episodes.spool.v0", "event_id": f"ep-{n}", "ts_ms": T0 + n,
         "scope": "acme/app", "session_id": "s1", "agent_id": "lyria", "type": kind,
         "summary": f"event {n}", "payload": {"text": f"text {n}"}}
        for n, kind in enumerate(kinds)
    ]  # fmt: skip


def receipts_voyage() -> list[dict[str, Any]]:
    """Return runs of cron."""
    return [
        {"ts": T0 + n, "jobId": "weekly", "action": "finished", "status": "ok", "durationMs": n,
         "runAtMs": T0, "sessionId": f"run-{n}", "sessionKey": "agent:lyria:cron:weekly"}
        for n in range(3)
    ]  # fmt: skip


def apeira_voyage() -> list[dict[str, Any]]:
    """Return a log of Apeira's."""

    def episode(n: int, source: str, sort: str, payload: Any) -> dict[str, Any]:
        origin = {"source": source, "turnId": "t1"}
        return {"meta": origin, "payload": payload, "type": sort, "id": n}

    asked = {"content": "Tide?", "role": "user", "type": "message"}
    called = {"arguments": "{}", "call_id": "c1", "name": "tide", "type": "function_call"}
    returned = {"call_id": "c1", "output": "14:10", "type": "function_call_output"}
    return [
        episode(1, "user", "item", {"item": asked}),
        episode(2, "model", "item", {"item": called}),
        episode(3, "tool", "item", {"item": returned}),
        episode(9, "runtime", "boundary", {"reason": "checkpoint", "title": "half-way"}),
    ]


def tape_voyage() -> list[dict[str, Any]]:
    """Return a tape."""
    told: list[tuple[str, dict[str, Any]]] = [
        ("anchor", {"name": "session/start", "state": {"owner": "ada"}}),
        ("message", {"role": "user", "content": "Tide?"}),
        ("tool_call", {"calls": [{"id": "c1", "name": "tide", "arguments": {}}]}),
        ("tool_result", {"results": ["14:10"]}),
        ("message", {"role": "assistant", "content": "At 14:10."}),
        ("event", {"name": "handoff", "data": {"to": "tier2"}}),
    ]
    return [
        {"id": n, "kind": kind, "payload": payload, "meta": {}, "date": instant(T0 + n * 1_000)}
        for n, (kind, payload) in enumerate(told, start=1)
    ]


VOYAGES: Final[dict[str, tuple[str, list[dict[str, Any]]]]] = {
    "claude-code": (f"{SESSION}.jsonl", claude_voyage()),
    "codex": (str(codex.PATH), codex_voyage()),
    "openclaw": (f"{CLAW_SESSION}.jsonl", openclaw_voyage()),
    "pi": (f"2026-09-21T14-13-20-000Z_{pi.SESSION}.jsonl", pi.voyage()),
    "gemini": ("session-2026-09-21T14-13-s1.jsonl", gemini_voyage()),
    "openclaw-mem": ("episodes.jsonl", spool_voyage()),
    "openclaw-receipts": ("weekly.jsonl", receipts_voyage()),
    "apeira": ("harbour.jsonl", apeira_voyage()),
    "clawser": ("conv_1.jsonl", clawser_voyage()),
    "tape": ("tape__ada.jsonl", tape_voyage()),
}
"""A file of every format: its name, and its records."""


# What is asked of a ledger.

_BOOKKEEPING: Final = {"session.opened", "session.imported", "session.forked"}
"""Kinds that say how a session came to be there; their ids, or times, are the ledger's own."""


def every_event(ledger: Ledger, scope: str = EVERYWHERE) -> list[Event]:
    """Return all events of a scope."""
    found: list[Event] = []
    after: str | None = None
    while True:
        page = ledger.events(scope, after=after)
        found += page.items
        after = page.next_cursor
        if after is None:
            return found


def told_by(ledger: Ledger, scope: str = EVERYWHERE) -> dict[str, tuple[Any, ...]]:
    """Return what every event says, by its id, but for when and in which file it was found."""
    return {
        one.event_id: (one.session_id, one.kind, one.ts_ms, one.summary, one.refs, one.payload)
        for one in every_event(ledger, scope)
        if one.kind not in _BOOKKEEPING
    }


def session_in(ledger: Ledger, session: str, scope: str = EVERYWHERE) -> Session:
    """Return a session to read, whoever's it is."""
    return ledger.session(session, scope=scope, agent="reader")


def said_in(session: Session) -> list[str]:
    """Return what was said in a session and still counts."""
    return [
        one["content"]
        for one in session.history()
        if one["role"] in {"user", "assistant"} and one.get("content")
    ]


def check_sums(receipt: ImportReceipt) -> None:
    """Check that every line is accounted for, file by file and in all."""
    told: list[ImportReceipt | SourceReceipt] = [receipt, *receipt.sources]
    for one in told:
        assert one.imported + one.duplicates + sum(one.skipped.values()) + one.errors == one.lines
        assert min(one.imported, one.duplicates, one.errors, *one.skipped.values(), 0) >= 0
    read = [one for one in receipt.sources if one.state in {"read", "grown"}]
    for name in ("lines", "imported", "duplicates", "errors", "events", "bytes"):
        assert getattr(receipt, name) == sum(getattr(one, name) for one in read)
    assert sum(receipt.by_scope.values()) == receipt.events
