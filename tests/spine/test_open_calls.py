"""The tool calls of a run that have no outcome yet, from its headers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from sinks.carried_events import recorded
from treering.model.views import OpenCall
from treering.spine.closing import open_calls

if TYPE_CHECKING:
    from treering import Header


def called(call_id: str, seq: int, **refs: Any) -> Header:
    return recorded("tool.call", seq, refs={"call_id": call_id, "tool": "look", **refs})


def returned(call_id: str, seq: int, status: str = "ok") -> Header:
    return recorded("tool.result", seq, refs={"call_id": call_id, "tool": "look", "status": status})


def ids(*headers: Header) -> list[str]:
    return [call.call_id for call in open_calls(headers)[0]]


def test_a_run_without_events_has_no_open_call() -> None:
    assert open_calls([]) == ([], 0)


def test_a_call_without_a_result_is_open() -> None:
    call = called("c1", 2)

    assert open_calls([recorded("run.started", 1), call]) == (
        [OpenCall(call_id="c1", tool="look", event_id=call.event_id, ts_ms=call.ts_ms)], 2,
    )  # fmt: skip


def test_a_call_with_any_result_is_not_open() -> None:
    for status in ("ok", "failed", "synthetic"):
        assert ids(called("c1", 1), called("c2", 2), returned("c1", 3, status)) == ["c2"]


def test_open_calls_are_told_in_the_order_they_were_made() -> None:
    assert ids(called("c3", 1), called("c1", 2), called("c2", 3), returned("c1", 4)) == ["c3", "c2"]


def test_the_last_number_is_that_of_any_event() -> None:
    headers = [recorded("run.started", 1), called("c1", 2), recorded("conversation.user", 7)]

    assert open_calls(headers)[1] == 7


def test_events_without_a_number_count_for_nothing() -> None:
    """Such as a run that was imported from elsewhere has."""
    assert open_calls([recorded("run.started", 1, run_seq=None)])[1] == 0


def test_a_call_that_is_made_again_under_its_id_is_open_once() -> None:
    assert ids(called("c1", 1), returned("c1", 2), called("c1", 3)) == ["c1"]
    assert ids(called("c1", 1), called("c1", 2)) == ["c1"]


def test_calls_whose_refs_were_erased_are_left_out() -> None:
    erased = recorded("tool.call", 1, refs=None, redacted=True)
    nameless = recorded("tool.call", 2, refs={"tool": "look"})

    assert ids(erased, nameless) == []


def test_a_call_that_does_not_say_its_tool_is_still_open() -> None:
    """Ledgers of others may lack anything but the id."""
    (call,), _ = open_calls([recorded("tool.call", 1, refs={"call_id": "c1", "tool": 7})])

    assert (call.call_id, call.tool) == ("c1", "tool")


def test_other_kinds_open_and_close_nothing() -> None:
    blocked = recorded("ops.blocked", 2, refs={"call_id": "c1", "tool": "look"})

    assert ids(called("c1", 1), blocked) == ["c1"]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), max_size=30))
def test_what_is_open_is_what_was_called_since_it_last_returned(
    steps: list[tuple[bool, str]],
) -> None:
    headers = [
        called(call_id, seq) if is_call else returned(call_id, seq)
        for seq, (is_call, call_id) in enumerate(steps, start=1)
    ]
    last = {call_id: is_call for is_call, call_id in steps}

    found, number = open_calls(headers)

    assert {call.call_id for call in found} == {name for name, is_call in last.items() if is_call}
    assert number == len(steps)
