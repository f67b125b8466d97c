"""Builders of events for sinks, one line each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from builders import HERE, NOON
from treering.model.events import Event
from treering.model.kinds import KINDS
from treering.spine.sink_queue import private_event, safe_event

if TYPE_CHECKING:
    from pathlib import Path

    from treering.model.carried import PrivateEvent, SafeEvent

KEY: Final = "agent:main:main"


def recorded(kind: str, seq: int = 1, **fields: Any) -> Event:
    """Return an event of run r1 as the ledger returns it; ``seq`` determines its time."""
    known = KINDS[kind]
    stated: dict[str, Any] = {
        "position": seq,
        "seq": seq if known.durable else 0,
        "event_id": f"e{seq}" if known.durable else "",
        "scope": HERE,
        "session_id": "s1",
        "kind": kind,
        "source": known.source,
        "origin": "kernel" if kind.startswith("run.") else None,
        "run_id": "r1",
        "run_seq": seq,
        "turn_id": "t1",
        "agent_id": "lyria",
        "user_id": None,
        "ts_ms": NOON + 10 * seq,
        "recorded_ms": NOON + 10 * seq,
        "visibility": known.visibility,
        "summary": f"{kind} happened",
        "refs": None,
        "payload_bytes": 0 if fields.get("payload") is None else len(json.dumps(fields["payload"])),
        "redacted": False,
        "expired": False,
        "schema_version": 1,
        "content_digest": b"",
        "link": b"",
    }
    return Event(**(stated | fields))


def safe(kind: str, seq: int = 1, **fields: Any) -> SafeEvent:
    """Return the safe form of such an event."""
    return safe_event(recorded(kind, seq, **fields), KEY)


def private(kind: str, seq: int = 1, **fields: Any) -> PrivateEvent:
    """Return the private form of such an event."""
    return private_event(recorded(kind, seq, **fields), KEY)


def called(seq: int, call_id: str = "c1", **fields: Any) -> dict[str, Any]:
    """Return the arguments of ``recorded`` for a tool call."""
    refs = {"call_id": call_id, "tool": "git_log", "input_shape": "ab", "input_bytes": 12}
    return {"kind": "tool.call", "seq": seq, "refs": refs, **fields}


def returned(seq: int, call_id: str = "c1", **refs: Any) -> dict[str, Any]:
    """Return the arguments of ``recorded`` for its outcome."""
    told = {"call_id": call_id, "tool": "git_log", "status": "ok", "duration_ms": 7, **refs}
    return {"kind": "tool.result", "seq": seq, "refs": told}


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the values on the lines of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
