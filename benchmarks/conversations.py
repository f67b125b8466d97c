"""Conversations: long sessions as a runtime records them, run by run, that all end the same.

A turn is twenty events: a run with a question, three calls of a model, five of tools, an answer.
One in twenty fails; in one of ten, one of five goals is set or moves on. Words and ids are counted
from a session's end, so that what a model is shown last is the same however long a session is.
"""

import hashlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import treering
from large import layout
from treering import NewEvent
from workload import AGENT, SCOPE, SEED, START_MS

SMALL: Final = 1_000
TURN_EVENTS: Final = 20
LONG: Final = "long"
"""The session that all of a ledger's events are in, but for those of the next."""
BURIED: Final = "buried"
"""A short one, with a large run that failed before its last turn."""
MODEL: Final = "gpt-5"
GOALS: Final = 5
BATCH: Final = 2_000
_PROGRESS_EVENTS: Final = 200_000
_STEPS: Final = (
    "run.started", "conversation.user",
    "context.assembled", "usage.reported", "tool.call", "tool.call", "tool.result", "tool.result",
    "context.assembled", "usage.reported", "tool.call", "tool.call", "tool.result", "tool.result",
    "context.assembled", "usage.reported", "tool.call", "tool.result",
    "conversation.assistant", "run.ended",
)  # fmt: skip
_TOOLS: Final = ("read_file", "search", "run_command", "edit_file", "list_files")
_CALLS: Final = {4: 0, 5: 1, 6: 0, 7: 1, 10: 2, 11: 3, 12: 2, 13: 3, 16: 4, 17: 4}
"""Which call of its turn an event is about."""


def conversation(folder: Path, events: int) -> Path:
    """Return a ledger with one session of so many events, built on first use.

    It has another one that ends with the same turn, behind a tenth as many events that failed.
    """
    path = folder / f"conversation-{events}-{layout()}-{_script()}.db"
    if not path.exists():
        draft = folder / "conversation-draft.db"
        with treering.open(draft, durability="normal", guard="off") as ledger:
            fill(ledger, events)
        draft.rename(path)
        Path(f"{draft}.lock").unlink(missing_ok=True)
    return path


def fill(ledger: treering.Ledger, events: int) -> None:
    """Record both sessions of such a ledger."""
    for made, batch in enumerate(_batches(_sessions(events)), start=1):
        ledger.append(batch)
        if made * BATCH % _PROGRESS_EVENTS == 0:
            print(f"  building: {made * BATCH:,} events", file=sys.stderr, flush=True)


def talk(session: str, events: int, *, failed: int = 0) -> Iterator[NewEvent]:
    """Return the events of a session; ``failed`` of one run come before its last turn."""
    turns = events // TURN_EVENTS
    seen: set[int] = set()
    for left in range(turns, 0, -1):
        if left == 1:
            yield from _large_failure(session, failed)
        yield from _turn(session, left, seen)


def turn_ms(left: int) -> int:
    """Return when the turn begins that has ``left`` to go, itself included."""
    return START_MS - 60_000 * left


def _sessions(events: int) -> Iterator[NewEvent]:
    yield from talk(LONG, events)
    yield from talk(BURIED, SMALL, failed=events // 10)


def _batches(events: Iterator[NewEvent]) -> Iterator[list[NewEvent]]:
    batch: list[NewEvent] = []
    for event in events:
        batch.append(event)
        if len(batch) == BATCH:
            yield batch
            batch = []
    yield batch


def _turn(session: str, left: int, seen: set[int]) -> Iterator[NewEvent]:
    run_id = f"{session}-run-{left}"
    for at, step in enumerate(_STEPS):
        kind, summary, payload, refs = _step(step, at, left, seen)
        yield NewEvent(
            scope=SCOPE,
            session_id=session,
            kind=kind,
            agent_id=AGENT,
            summary=summary,
            payload=payload,
            refs=refs,
            ts_ms=turn_ms(left) + 1_000 * at,
            run_id=run_id,
            run_seq=at + 1,
        )


def _step(kind: str, at: int, left: int, seen: set[int]) -> tuple[str, str, Any, Any]:
    """Return the kind, summary, payload and refs of one event of a turn."""
    text = _TEXTS[(left * 7 + at) % len(_TEXTS)]
    match kind:
        case "run.started":
            return kind, "run started", None, {"model": MODEL}
        case "run.ended":
            ended = "run.failed" if left % 20 == 7 else kind
            return ended, ended.replace(".", " "), None, {"duration_ms": 900, "tool_calls": 5}
        case "conversation.user" | "conversation.assistant":
            return kind, text[:80], {"text": text}, {"characters": len(text)}
        case "tool.call" | "tool.result":
            return kind, *_tool(kind, _CALLS[at], left, text)
        case "usage.reported":
            return kind, "usage reported", None, _USAGE
        case _ if at == 14 and left % 10 == 0:
            return _goal(left // 10 % GOALS, seen)
        case _:
            return kind, "context of 20 messages, about 5000 tokens", _ASSEMBLED, _ASSEMBLED_REFS


def _tool(kind: str, number: int, left: int, text: str) -> tuple[str, Any, Any]:
    call_id, tool = f"call_{left}_{number}", _TOOLS[number]
    if kind == "tool.call":
        asked = {"first": left, "path": f"src/{text[:12].replace(' ', '_')}.py", "query": text[:40]}
        called = {"call_id": call_id, "name": tool, "input": asked}
        return f"{tool} called", called, {"call_id": call_id, "tool": tool}
    returned = {
        "call_id": call_id, "name": tool, "status": "ok", "output": text, "duration_ms": 7,
    }  # fmt: skip
    refs = {"call_id": call_id, "tool": tool, "status": "ok", "duration_ms": 7}
    return f"{tool} returned", returned, refs


def _goal(number: int, seen: set[int]) -> tuple[str, str, Any, Any]:
    if number not in seen:
        seen.add(number)
        return "goal.added", "goal added", {"id": f"g{number}", "description": "ship it"}, None
    return "goal.updated", "goal updated", {"id": f"g{number}", "status": "active"}, None


def _large_failure(session: str, events: int) -> Iterator[NewEvent]:
    """Return one run that calls tools again and again, and fails."""
    for at in range(events):
        kind = "tool.result" if at % 2 else "tool.call"
        summary, payload, refs = _tool(kind, 0, 1_000_000 + at // 2, _TEXTS[at % len(_TEXTS)])
        if at in {0, events - 1}:
            kind, payload, refs = "run.failed" if at else "run.started", None, None
        yield NewEvent(
            scope=SCOPE,
            session_id=session,
            kind=kind,
            agent_id=AGENT,
            summary=summary,
            payload=payload,
            refs=refs,
            ts_ms=START_MS,
            run_id=f"{session}-failed",
            run_seq=at + 1,
        )


def _texts() -> list[str]:
    dice = random.Random(SEED)
    words = [
        "".join(dice.choices("abcdefghiklmnoprstuvw", k=dice.randint(3, 9))) for _ in range(999)
    ]
    return [" ".join(dice.choices(words, k=dice.randint(24, 92))) for _ in range(509)]


def _script() -> str:
    """Return a mark that changes with what is said, so that a ledger that was kept still fits."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


_TEXTS: Final = _texts()
_USAGE: Final = {
    "model": MODEL, "provider": "openai", "input_tokens": 5_150, "output_tokens": 180,
    "total_tokens": 5_330,
}  # fmt: skip
_ASSEMBLED: Final = {
    "contributed": [], "dialect": "openai-chat", "digest": "0" * 64, "fixed_tokens": 0,
    "max_tokens": 8_000, "ratio": 1.0, "report": [], "reserve_output_tokens": 0, "shown": [[3, 3]],
}  # fmt: skip
_ASSEMBLED_REFS: Final = {
    "dialect": "openai-chat", "estimated_tokens": 5_000, "events": 20, "max_tokens": 8_000,
    "messages": 20, "repairs": 0, "tokens": 5_010,
}  # fmt: skip
