"""Builders of Clawser logs, including hostile ones."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import strategies as st

from treering.formats.clawser import EventLog
from treering.formats.clawser.kinds import KINDS

T0: Final = 1_790_000_000_000


def event(n: int, named: str, source: str = "system", /, **content: Any) -> dict[str, Any]:
    """Return the ``n``th event of a log, one second after the one before."""
    at_ms = T0 + n * 1_000
    return {
        "id": f"evt_{at_ms}_{n}",
        "type": named,
        "timestamp": at_ms,
        "data": content,
        "source": source,
    }


def voyage() -> list[dict[str, Any]]:
    """Return two turns, with a tool that works and one that fails."""
    return [
        event(0, "goal_added", id="goal_1", description="reach Bergen"),
        event(1, "user_message", "user", content="When is high tide?"),
        event(2, "agent_message", "agent", content="Let me look."),
        event(3, "tool_call", "agent", call_id="c1", name="tide", arguments={"port": "Bergen"}),
        event(4, "tool_result", call_id="c1", name="tide",
              result={"success": True, "output": "14:10"}),
        event(5, "agent_message", "agent", content="At 14:10."),
        event(6, "user_message", "user", content="And the wind?"),
        event(7, "agent_message", "agent", content=""),
        event(8, "tool_call", "agent", call_id="c2", name="wind", arguments='{"port":"Bergen"}'),
        event(9, "tool_result", call_id="c2", name="wind",
              result={"success": False, "output": "", "error": "no mast"}),
        event(10, "goal_updated", id="goal_1", status="completed"),
    ]  # fmt: skip


def log_of(events: list[Any]) -> EventLog:
    """Return a log of ``events``."""
    log = EventLog()
    log.load(events)
    return log


def lines(events: list[Any]) -> str:
    """Return ``events`` as lines, serialized by another library than ours."""
    return "\n".join(json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in events)


_texts = st.text(st.characters(), max_size=20) | st.sampled_from(
    ["", "\ud800", "\0", "\u2028", "id", "clawser", "data", "é" * 300, "__proto__"]
)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**63, max_value=2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts
)
values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)
"""Any JSON value, lone surrogates among them."""
_fields = st.dictionaries(
    st.sampled_from([
        "content", "call_id", "name", "arguments", "result", "id", "job_id", "description",
        "status", "parent", "progress", "prompt", "schedule_type", "spec", "key", "clawser",
        "text", "type", "data",
    ])
    | _texts,
    values
    | st.fixed_dictionaries({}, optional={"success": values, "output": values, "error": values}),
    max_size=5,
)  # fmt: skip
_times = st.integers(min_value=1, max_value=T0) | values
_well_formed = st.fixed_dictionaries({
    "id": st.from_regex(r"evt_[0-9]{1,20}_[0-9]{1,3}", fullmatch=True) | _texts,
    "type": st.sampled_from(sorted(KINDS)) | _texts,
    "timestamp": _times,
    "data": _fields | values,
    "source": st.sampled_from(["user", "agent", "system", "tool"]) | _texts,
})  # fmt: skip
_usual = st.builds(
    lambda n, named, source, content: event(n, named, source, **content),
    st.integers(min_value=0, max_value=99),
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(["user", "agent", "system", "robot"]),
    st.dictionaries(
        st.sampled_from([
            "content", "call_id", "name", "arguments", "id", "job_id", "status", "prompt", "more",
        ]),
        st.text(max_size=9) | st.integers() | st.lists(st.integers(), max_size=2),
    )
    | st.fixed_dictionaries({
        "call_id": st.text(max_size=9),
        "name": st.text(max_size=9),
        "result": st.fixed_dictionaries(
            {"success": st.booleans()}, optional={"output": values, "error": st.text(max_size=9)}
        ),
    }),
)  # fmt: skip
"""Events that are nearly what they should be."""
_shuffled = st.permutations(["id", "type", "timestamp", "data", "source", "note"]).flatmap(
    lambda names: st.fixed_dictionaries(dict.fromkeys(names[:5], values))
)
_deep = st.integers(min_value=60, max_value=150).map(
    lambda depth: event(1, "error", message=json.loads("[" * depth + "]" * depth))
)
logs = st.lists(
    _usual | _well_formed | _shuffled | _deep | values.filter(lambda one: one or one in ({}, [])),
    max_size=6,
).map(log_of)
"""Logs that somebody wants to break things with; no value in them is one a browser drops."""
