"""Usage, from the events of a timeline."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from derive.folds import usage
from derive.timelines import asked, erased, timeline, told, undone
from treering.model.views import ModelUsage, Spent


def used(
    received: int, run_id: str | None = None, model: str = "gpt-4o", **content: Any
) -> dict[str, Any]:
    refs = {"model": model, "provider": "openai", "input_tokens": 0, "output_tokens": received}
    return told("usage.reported", run_id, **content) | {"refs": refs}


def received(*events: dict[str, Any]) -> int:
    return usage(timeline(*events)).total.output_tokens


def test_nothing_reported_is_nothing_used() -> None:
    found = usage(timeline(asked()))

    assert (found.total, found.failed, found.by_model) == (Spent(), Spent(), ())
    assert found.total.cost_usd == 0


def test_tokens_are_added_up_by_model() -> None:
    counted = {"input_tokens": 1_000, "output_tokens": 100, "cached_tokens": 500}
    events = timeline(
        told("usage.reported", model="gpt-4o", provider="openai", **counted),
        told("usage.reported", model="gpt-4o", provider="openai", **counted),
        used(5, model="gpt-4o-mini"),
    )

    found = usage(events)

    large, small = found.by_model
    assert large == ModelUsage(
        model="gpt-4o", provider="openai", calls=2, input_tokens=2_000, output_tokens=200,
        cached_tokens=1_000, cache_write_tokens=0, total_tokens=2_200, cost_usd=Decimal("0.00575"),
    )  # fmt: skip
    assert small.cost_usd == Decimal("0.000003")
    assert (found.total.calls, found.total.total_tokens) == (3, 2_205)
    assert found.total.cost_usd == Decimal("0.005753")


def test_a_model_without_a_price_has_no_cost_and_neither_has_the_sum() -> None:
    found = usage(timeline(used(5), used(5, model="nobody-knows-it")))

    assert [model.cost_usd for model in found.by_model] == [Decimal("0.00005"), None]
    assert found.total.cost_usd is None


def test_runs_that_failed_are_counted_and_told_apart() -> None:
    events = timeline(
        used(1),
        used(10, "r1"),
        told("run.failed", "r1"),
        used(100, "r2"),
        told("run.interrupted", "r2"),
        used(1_000, "r3"),
        told("run.ended", "r3"),
        used(10_000, "r4"),
    )

    found = usage(events)

    assert found.total.output_tokens == 11_111
    assert found.failed.output_tokens == 110
    assert found.failed_by_model[0].calls == 2


def test_undone_turns_were_paid_for() -> None:
    assert received(asked(), used(7), undone(1)) == 7


def test_of_several_reports_of_a_call_the_largest_counts() -> None:
    call = {"message_id": "m1", "request_id": "q1"}
    events = [asked(), used(1, "r1", **call), used(9, "r1", **call), used(3, "r1", **call)]

    assert received(*events) == 9
    assert received(*events, used(4, "r1", message_id="m1", request_id="q2")) == 13
    assert received(*events, used(4, "r2", **call)) == 13
    assert usage(timeline(*events, told("run.failed", "r1"))).failed.output_tokens == 9


def test_a_call_may_be_known_by_one_of_its_ids() -> None:
    assert received(used(1, message_id="m1"), used(2, message_id="m1")) == 2
    assert received(used(1, request_id="q1"), used(2, request_id="q1")) == 2
    assert received(used(1), used(2)) == 3


def test_a_report_that_is_repeated_with_another_model_counts_for_the_larger_one() -> None:
    found = usage(timeline(used(5, message_id="m"), used(6, model="gpt-4o-mini", message_id="m")))

    assert [(model.model, model.calls) for model in found.by_model] == [("gpt-4o-mini", 1)]


def test_a_repeat_in_another_turn_is_another_call() -> None:
    call = {"message_id": "m1"}

    assert received(used(5, **call), asked(), used(5, **call)) == 10


def test_a_turn_begins_with_its_run_also_for_repeats() -> None:
    call = {"message_id": "m1"}
    events = told("run.started", "r1"), used(5, "r1", **call), asked("r1"), used(6, "r1", **call)

    assert received(*events) == 6


def test_counts_may_stand_in_the_payload_in_either_spelling() -> None:
    content = {"model": "gpt-4o", "inputTokens": 3, "outputTokens": 4, "totalTokens": 9}

    (found,) = usage(timeline(told("usage.reported", **content))).by_model

    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (3, 4, 9)


def test_what_went_into_a_cache_is_counted_and_has_its_price() -> None:
    content = {"model": "claude-sonnet-4-5", "input_tokens": 1_000_000, "output_tokens": 0}
    plain, written = (
        usage(timeline(told("usage.reported", **content, cache_creation_tokens=tokens))).total
        for tokens in (0, 1_000)
    )

    assert written.cache_write_tokens == 1_000
    assert plain.cost_usd is not None
    assert written.cost_usd is not None
    assert written.cost_usd > plain.cost_usd


@pytest.mark.parametrize(
    "event",
    [
        erased(used(5)),
        told("usage.reported", model="gpt-4o"),
        told("usage.reported", output_tokens=-1),
        told("usage.reported", output_tokens=2**60),
        told("usage.reported", output_tokens="many"),
    ],
)
def test_what_was_erased_or_tells_no_count_is_ignored(event: dict[str, Any]) -> None:
    assert usage(timeline(event)).total == Spent()


def test_a_total_alone_is_counted_without_a_cost() -> None:
    found = usage(timeline(told("usage.reported", model="gpt-4o", total_tokens=12))).total

    assert (found.total_tokens, found.cost_usd) == (12, None)


@pytest.mark.parametrize(
    ("told_cost", "dollars"),
    [
        ({"cost": {"input": 0.1, "total": 0.25}}, "0.25"),
        ({"cost_usd": 0.0625}, "0.0625"),
        ({"cost": 2}, "2"),
    ],
)
def test_what_a_log_says_that_a_call_cost_is_what_it_cost(
    told_cost: dict[str, Any], dollars: str
) -> None:
    found = usage(timeline(used(5, model="of-my-own", **told_cost)))

    assert found.total.cost_usd == Decimal(dollars)
    assert found.by_model[0].cost_usd == Decimal(dollars)


@pytest.mark.parametrize("cost", [0, -1, "1", None, float("inf"), {"total": 0}, {}, True])
def test_a_cost_that_is_none_leaves_the_list_price(cost: Any) -> None:
    listed = usage(timeline(used(5)))

    assert usage(timeline(used(5, cost=cost))).total.cost_usd == listed.total.cost_usd
