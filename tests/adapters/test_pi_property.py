from __future__ import annotations

import json
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

import treering
from adapters import pi_events as pi
from treering.adapters.pi import record_pi
from treering.model.kinds import RUN_ENDS

CALLS = [(f"call_{number}", "read", {"path": str(number)}) for number in range(3)]
EVENTS = st.one_of(
    st.sampled_from([*pi.started(), *pi.ended(), *pi.user("hello"), *pi.answer("Hi", " there.")]),
    st.sampled_from([pi.tool_started(call) for call in CALLS]),
    st.sampled_from([pi.tool_ended(call, "done") for call in CALLS]),
    st.sampled_from([pi.tool_ended(call, "no", is_error=True) for call in CALLS]),
    st.sampled_from([event for call in CALLS for event in pi.result_message(call, "done")]),
    st.sampled_from(
        [
            *pi.ended(pi.assistant(stop_reason="error", error="down")),
            *pi.ended(pi.assistant(stop_reason="aborted")),
            {"type": "auto_retry_start", "attempt": 1, "errorMessage": "down"},
            {"type": "auto_retry_end", "success": False},
            {"type": "auto_retry_end", "success": True},
            {"type": "compaction_start", "reason": "overflow"},
            {"type": "compaction_end", "willRetry": True},
            {"type": "compaction_end", "willRetry": False},
            {"type": "never_heard_of"},
        ]
    ),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "role", "content", "text", "message"]), inner)
    ),
    max_leaves=6,
)


@st.composite
def bent(draw: st.DrawFn) -> dict[str, object]:
    """Return an event with one field changed or added."""
    event = dict(draw(EVENTS))
    odd = draw(st.sampled_from(sorted(event)) | st.sampled_from(["message", "code", "text"]))
    event[odd] = draw(VALUES)
    return event


LINES = st.lists(
    EVENTS.map(json.dumps) | bent().map(json.dumps) | st.binary(max_size=8) | st.text(max_size=8),
    max_size=40,
)


@given(LINES)
def test_whatever_comes_in_whatever_order_every_run_starts_once_and_ends_once(
    lines: list[str | bytes],
) -> None:
    """Exactly one start and one terminal per run; order is monotonic; every call has its result."""
    with treering.open(":memory:") as ledger:
        session = ledger.session("monday", scope="acme/app", agent="lyria")

        receipt = record_pi(ledger.spine(), session, lines)

        headers = [header for header in session.headers() if header.run_id is not None]
        runs = [list(run) for _, run in groupby(headers, key=lambda header: header.run_id)]
        assert receipt.runs == len(runs)
        for run in runs:
            assert [header.kind for header in run].count("run.started") == 1
            assert run[0].kind == "run.started"
            assert [header.kind in RUN_ENDS for header in run].index(True) == len(run) - 1
            order = [header.run_seq or 0 for header in run]
            assert order == sorted(set(order))
            called = [header.refs["call_id"] for header in run if header.kind == "tool.call"]
            done = [header.refs["call_id"] for header in run if header.kind == "tool.result"]
            assert sorted(called) == sorted(done)
