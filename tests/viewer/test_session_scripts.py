"""The parts of the session screen's scripts that need no page."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import quickjs


def called(name: str, expression: str) -> Any:
    """Return the value of an expression in which what a module exports can be called."""
    source = files("treering.surfaces.viewer").joinpath("static", f"{name}.js").read_text("utf-8")
    context = quickjs.Context()
    context.eval(re.sub(r"^import .*;$|^export ", "", source, flags=re.MULTILINE))
    return json.loads(context.eval(f"JSON.stringify({expression})"))


def test_an_event_is_on_a_known_page_and_pages_near_the_window_are_filled() -> None:
    assert called("list", "[1, 120, 121, 100000].map((seq) => pageOf(seq, 120))") == [0, 0, 1, 833]
    assert called("list", "pagesNear(0, 1, 9)") == [0, 1, 2]
    assert called("list", "pagesNear(8, 8, 9)") == [7, 8]


def test_the_farthest_pages_are_emptied_first_and_never_those_near() -> None:
    assert called("list", "pagesToEmpty([1, 2, 3, 40, 41, 42], [40, 41, 42], 4)") == [1, 2]
    assert called("list", "pagesToEmpty([40, 41, 42], [40, 41, 42], 1)") == []


def test_pauses_take_little_room_on_the_lanes_and_work_takes_its_time() -> None:
    # An hour of work, a day's pause, an hour of work.
    busy = "[[0, 3600000], [90000000, 93600000]]"
    first, second = called("lanes", f"[3600000, 90000000].map(scaleOf({busy}).x)")

    assert 0.45 < first < 0.5
    assert 0.5 < second < 0.55
    there_and_back = called("lanes", f"scaleOf({busy}).ms(scaleOf({busy}).x(91000000))")
    assert abs(there_and_back - 91_000_000) < 1
    assert called("lanes", "[scaleOf([]).x(5), scaleOf([[7, 7]]).x(7)]") == [0, 0]


def test_a_place_on_the_lanes_is_the_nearest_event() -> None:
    spans = "[[0, 10, 1], [20, 30, 5], [100, 100, 9]]"

    assert called("lanes", f"[4, 14, 16, 25, 80].map((ms) => nearest({spans}, ms))") == [
        1, 1, 5, 5, 9
    ]  # fmt: skip
    assert called("lanes", f"[1, 4, 5, 99].map((seq) => timeOf({spans}, seq))") == [0, 0, 20, 100]
    assert called("lanes", f"within({spans}, [25, 99])") == [[20, 30, 5]]
    moments = "scaleOf([[0, 0], [10, 10]])"
    assert called("lanes", f"boxOf({moments}, 10, 10)") == [0.9975, 1]
    assert called("lanes", f"boxOf({moments}, 0, 0)") == [0, 0.0025]
    focuses = 'focusOf("5-90"), focusOf("90-5"), focusOf("x-9"), focusOf(null)'
    assert called("lanes", f"[{focuses}]") == [[5, 90], None, None, None]


def test_turns_and_failures_are_found_from_any_place() -> None:
    turns = "[{first_seq: 2}, {first_seq: 10}]"

    assert called("outline", f"[1, 2, 9, 10, 99].map((seq) => turnAt({turns}, seq))") == [
        -1, 0, 0, 1, 1
    ]  # fmt: skip
    assert called("outline", "[nextOf([3, 7], 3, 1), nextOf([3, 7], 7, -1)]") == [7, 3]
    assert called("outline", "nextOf([3, 7], 7, 1) ?? null") is None
    costs = "[{last_seq: 5, cost: 0.5}, {last_seq: 9, cost: null}, {last_seq: 20, cost: 1}]"
    assert called("outline", f"[4, 9, 20].map((seq) => costUntil({costs}, seq))") == [0, 0.5, 1.5]


def test_numbers_are_said_in_few_words() -> None:
    times = called("outline", "[5, 1500, 120000, 7300000, 200000000].map(spanText)")
    assert times == ["5 ms", "1.5 s", "2 min", "2 h 1 min", "2 days"]
    amounts = called("outline", "[800, 18900, 484725, 7594021].map(amountText)")
    assert amounts == ["800", "18.9 k", "485 k", "7.6 M"]
    hits = called("finder", "[hitsText(0, 3, true), hitsText(1, 3, false), hitsText(0, 0, true)]")
    assert hits == ["1 of 3", "2 of 3+", "not found"]
    assert called("live", "[0, 1, 99].map(waitOf)") == [500, 1000, 8000]
    assert called("growth", "[10, 100000].map(mapPause)") == [1200, 10_000]
