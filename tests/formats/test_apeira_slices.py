from __future__ import annotations

from typing import Any

import msgspec
import pytest

from treering.errors import InvalidInput
from treering.formats.apeira import Episodic, normalize_items

HEAD, TAIL = "x" * 4000, "y" * 4000


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"content": text, "role": role, "type": "message"}


def call(call_id: object) -> dict[str, Any]:
    return {"arguments": "{}", "call_id": call_id, "name": "look", "type": "function_call"}


def output(call_id: object, text: object = "found") -> dict[str, Any]:
    return {"call_id": call_id, "output": text, "type": "function_call_output"}


def boundary(episodic: Episodic, **payload: Any) -> None:
    episodic.append({"payload": payload, "type": "boundary"})


def usage(episodic: Episodic, *counts: object) -> None:
    names = ("inputTokens", "outputTokens", "totalTokens")
    told = dict(zip(names, counts, strict=False))
    episodic.append({"payload": {"data": told, "event": "turn.usage"}, "type": "meta"})


@pytest.fixture
def busy() -> Episodic:
    """Return a log of two turns: the first reported 900 input tokens."""
    episodic = Episodic()
    episodic.append_items([said("a")], turn_id="t1")
    usage(episodic, 900, 5, 905)
    episodic.append_items([said("b"), said("c")], turn_id="t2")
    return episodic


@pytest.fixture
def marked() -> Episodic:
    """Return a log with a checkpoint in it, over 900 tokens."""
    episodic = Episodic()
    episodic.append_items([said("a")])
    boundary(episodic, reason="checkpoint", title="so far")
    episodic.append_items([said("b")])
    usage(episodic, 900, 5, 905)
    return episodic


def contents(episodic: Episodic, **options: Any) -> list[Any]:
    return [item["content"] for item in episodic.slice(**options).items]


def test_a_slice_has_the_items_and_says_how_many_and_whether_it_was_cut() -> None:
    episodic = Episodic()
    episodic.append_items([said("a"), said("b", "assistant")])

    assert msgspec.to_builtins(episodic.slice()) == {
        "items": [said("a"), said("b", "assistant")],
        "meta": {"itemCount": 2, "truncated": False},
    }


# Where it starts.


def test_it_starts_at_the_last_boundary_on_demand_which_is_not_called_a_cut(
    marked: Episodic,
) -> None:
    found = marked.slice(start={"type": "last-boundary"})

    assert [item["content"] for item in found.items] == ["<checkpoint>\nso far\n</checkpoint>", "b"]
    assert not found.meta.truncated


def test_it_starts_at_the_last_boundary_of_a_reason(marked: Episodic) -> None:
    boundary(marked, reason="segment", title="next")
    marked.append_items([said("c")])

    assert contents(marked, start={"type": "last-boundary"}) == ["c"]
    assert contents(marked, start={"type": "last-boundary", "reason": "checkpoint"})[1:] == [
        "b",
        "c",
    ]


def test_without_such_a_boundary_it_has_the_whole_log(marked: Episodic) -> None:
    whole = contents(marked)

    assert contents(marked, start={"type": "last-boundary", "reason": "overflow"}) == whole
    assert contents(marked, start={"type": "beginning"}) == whole


def test_an_unknown_start_is_refused(marked: Episodic) -> None:
    with pytest.raises(InvalidInput, match="cannot start"):
        marked.slice(start={"type": "middle"})


# The budget.


@pytest.mark.parametrize("max_tokens", [900, 901, None, float("inf"), float("nan"), float("-inf")])
def test_a_log_within_its_budget_is_whole(busy: Episodic, max_tokens: float | None) -> None:
    assert contents(busy, max_tokens=max_tokens) == ["a", "b", "c"]


@pytest.mark.parametrize(("max_tokens", "reserved"), [(0, None), (-1, 0), (100, 100), (100, 101)])
def test_no_budget_at_all_gives_nothing(
    busy: Episodic, max_tokens: float, reserved: float | None
) -> None:
    found = busy.slice(max_tokens=max_tokens, reserve_output_tokens=reserved)

    assert (found.items, found.meta.truncated) == ([], True)


def test_what_is_reserved_for_the_answer_is_taken_from_the_budget(busy: Episodic) -> None:
    assert contents(busy, max_tokens=1000, reserve_output_tokens=100) == ["a", "b", "c"]
    assert contents(busy, max_tokens=1000, reserve_output_tokens=101) == []


def test_over_budget_a_log_starts_again_at_its_checkpoint(marked: Episodic) -> None:
    found = marked.slice(max_tokens=899)

    assert [item["content"] for item in found.items] == ["<checkpoint>\nso far\n</checkpoint>", "b"]
    assert found.meta.truncated


def test_over_budget_a_log_starts_again_at_an_interrupt_and_at_no_other_boundary(
    marked: Episodic,
) -> None:
    boundary(marked, reason="interrupt", title="stop")
    marked.append_items([said("c")])
    boundary(marked, reason="overflow", title="full")

    assert contents(marked, max_tokens=899) == [
        "<interrupt>\nstop\n</interrupt>",
        "c",
        "<overflow>\nfull\n</overflow>",
    ]


def test_over_budget_without_a_boundary_the_turn_is_kept(busy: Episodic) -> None:
    found = busy.slice(max_tokens=899, turn_id="t2")

    assert [item["content"] for item in found.items] == ["b", "c"]
    assert found.meta.truncated


@pytest.mark.parametrize("turn_id", [None, "t9"])
def test_over_budget_without_boundary_or_turn_nothing_is_kept(
    busy: Episodic, turn_id: str | None
) -> None:
    found = busy.slice(max_tokens=899, turn_id=turn_id)

    assert (found.items, found.meta.truncated) == ([], True)


def test_a_boundary_at_the_very_beginning_is_not_called_a_cut() -> None:
    episodic = Episodic()
    boundary(episodic, reason="checkpoint", title="new")
    usage(episodic, 900, 5, 905)

    assert not episodic.slice(max_tokens=1).meta.truncated


@pytest.mark.parametrize("counts", [(), (5,), ("5", 5, 5), (5, 5, None), (True, 5, 5)])
def test_an_unsound_report_of_usage_hides_the_one_before_it(
    busy: Episodic, counts: tuple[object, ...]
) -> None:
    usage(busy, *counts)

    assert contents(busy, max_tokens=899) == ["a", "b", "c"]


def test_only_usage_behind_the_start_counts(marked: Episodic) -> None:
    boundary(marked, reason="segment", title="next")

    assert contents(marked, start={"type": "last-boundary"}, max_tokens=10) == []
    assert not marked.slice(start={"type": "last-boundary"}, max_tokens=10).meta.truncated


def test_a_reserve_that_is_no_number_makes_every_log_too_large(busy: Episodic) -> None:
    assert contents(busy, max_tokens=10**9, reserve_output_tokens=float("nan")) == []


def test_episodes_with_ids_below_one_are_in_no_slice() -> None:
    episode = {"meta": {}, "payload": {"item": said("a")}, "type": "item"}

    assert Episodic([episode | {"id": 0}, episode | {"id": 1}]).slice().meta.item_count == 1


# Boundaries that a model sees.


@pytest.mark.parametrize("reason", ["intent", "segment"])
def test_intents_and_segments_are_hidden(reason: str) -> None:
    episodic = Episodic()
    boundary(episodic, reason=reason, title="t")

    assert episodic.slice().items == []


@pytest.mark.parametrize(
    ("payload", "content"),
    [
        ({"reason": "checkpoint", "title": "t", "content": "c"}, "<checkpoint>\nc\n</checkpoint>"),
        ({"reason": "interrupt", "title": "t", "content": None}, "<interrupt>\nt\n</interrupt>"),
        ({"reason": "overflow", "title": "t", "content": ""}, "<overflow>\n\n</overflow>"),
        ({"reason": "other", "title": "t"}, "<other>\nt\n</other>"),
        ({"reason": None}, "<null>\nundefined\n</null>"),
        ([], "<undefined>\nundefined\n</undefined>"),
        ({"reason": 1, "title": [1, None], "content": None}, "<1>\n1,\n</1>"),
    ],
)
def test_other_boundaries_become_messages_in_tags_of_their_reason(
    payload: Any, content: str
) -> None:
    episodic = Episodic()
    episodic.append({"payload": payload, "type": "boundary"})

    assert episodic.slice().items == [said(content)]


def test_a_list_for_a_payload_is_an_item_that_is_nothing() -> None:
    episodic = Episodic()
    episodic.append({"payload": [], "type": "item"})

    assert episodic.slice().items == [None]


# Calls and outputs.


def test_outputs_without_a_call_before_them_are_dropped_and_calls_without_an_output_stay() -> None:
    items = [output("early"), call("early"), call("c"), output("c"), output("ghost"), output(None)]

    assert normalize_items(items) == [call("early"), call("c"), output("c")]


def test_an_output_that_comes_twice_stays_twice() -> None:
    items = [call("c"), output("c", "1"), output("c", "2")]

    assert normalize_items(items) == items


def test_call_ids_that_are_not_text_pair_with_nothing() -> None:
    assert normalize_items([call(5), output(5), {"type": "function_call_output"}]) == [call(5)]


def test_a_cut_between_a_call_and_its_output_drops_the_output() -> None:
    episodic = Episodic()
    episodic.append_items([call("c")])
    boundary(episodic, reason="segment", title="t")
    episodic.append_items([output("c")])

    assert episodic.slice(start={"type": "last-boundary"}).items == []
    assert episodic.slice().items == [call("c"), output("c")]


def test_items_of_any_other_shape_pass() -> None:
    items = [{"type": "reasoning"}, {"type": ["odd"]}, "text", None, 5]

    assert normalize_items(items) == items


@pytest.mark.parametrize(
    ("text", "shortened"),
    [
        ("x" * 8000, "x" * 8000),
        (HEAD + "?" + TAIL, HEAD + "\n\n(truncated: 1 chars omitted)\n\n" + TAIL),
        ("é" * 9000, "é" * 4000 + "\n\n(truncated: 1000 chars omitted)\n\n" + "é" * 4000),
    ],
)
def test_an_output_over_8000_keeps_its_head_and_its_tail(text: str, shortened: str) -> None:
    assert normalize_items([call("c"), output("c", text)])[1]["output"] == shortened


def test_an_output_of_8001_comes_out_longer_than_it_was() -> None:
    assert len(normalize_items([call("c"), output("c", "x" * 8001)])[1]["output"]) == 8032


def test_lengths_are_counted_in_utf_16_units_and_a_pair_may_be_cut_in_two() -> None:
    short, long = "😀" * 4000, "x" + "😀" * 4000

    kept = normalize_items([call("c"), output("c", short), output("c", long)])

    assert kept[1]["output"] == short
    assert kept[2]["output"] == (
        "x" + "😀" * 1999 + "\ud83d\n\n(truncated: 1 chars omitted)\n\n" + "😀" * 2000
    )


def test_outputs_that_are_lists_are_never_cut() -> None:
    parts = [{"text": "x" * 9000, "type": "input_text"}]

    assert normalize_items([call("c"), output("c", parts)])[1]["output"] == parts


# What is added.


def test_extensions_stand_at_the_end_are_paired_too_and_kept_nowhere() -> None:
    episodic = Episodic()
    episodic.append_items([call("c")])
    before = episodic.to_jsonl()

    found = episodic.slice(extensions=[output("c"), output("d"), said("by the way")])

    assert found.items == [call("c"), output("c"), said("by the way")]
    assert found.meta.item_count == 3
    assert episodic.to_jsonl() == before


def test_another_normalization_can_be_given(busy: Episodic) -> None:
    found = busy.slice(normalize=lambda items: items[-1:], extensions=[said("z")])

    assert (found.items, found.meta.item_count) == ([said("z")], 1)
