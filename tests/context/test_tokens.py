"""Estimated tokens: close to what a tokenizer counts, and never far short of it."""

from __future__ import annotations

import base64
import json
import random
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context.scripts import SENTENCES, corpus
from context.unseen import PROSE as UNSEEN
from context.unseen import SHAPES
from treering.context.tokens import (
    ESTIMATES_MAX,
    LESS_MAX,
    MARGIN,
    MORE_MAX,
    PIECE_CHARACTERS_MAX,
    estimate,
    exact_counter,
    language_surcharge,
)

PROSE = (
    "The ledger keeps every event in the order in which it happened. When somebody asks what the"
    " agent did last Tuesday, the answer is read from there, and not from what anybody remembers."
    " Nothing is changed later, and what had to be erased is vouched for by another event. "
)
PYTHON = '''
def open_calls(headers: Iterable[Header]) -> tuple[list[OpenCall], int]:
    """Return the open calls of a run, in order, and its last number."""
    found: dict[str, OpenCall] = {}
    for header in headers:
        if header.kind not in {"tool.call", "tool.result"}:
            continue
        part = safe_part(header.kind, header.refs)
        if isinstance(part, ToolCalled) and part.call_id is not None:
            found[part.call_id] = OpenCall(call_id=part.call_id, tool=part.tool or "tool")
    return list(found.values()), len(found)
'''
LOG = "".join(
    f"2026-03-{day} 09:4{day % 10}:07,31{day} WARNING worker-{day}: retry {day} after 1.{day}s\n"
    for day in range(10, 29)
)
JSON = json.dumps(
    [
        {"id": number, "name": f"item {number}", "tags": ["new", "red"], "price": 3.5 * number}
        for number in range(40)
    ]
)
CHINESE = (
    "账本按照事件发生的顺序保存每一个事件。当有人询问代理上周二做了什么时、答案从那里读取。" * 5
)
RUSSIAN = (
    "Журнал хранит каждое событие в том порядке, в котором оно произошло, и ничего не меняет. " * 5
)
BASE64 = base64.b64encode(random.Random(1).randbytes(6_000)).decode()


@pytest.mark.parametrize(
    ("text", "error_max"),
    [
        (PROSE * 4, 0.10),
        (PYTHON, 0.10),
        (LOG, 0.10),
        (JSON, 0.15),
        (CHINESE, 0.40),
        (RUSSIAN, 0.50),
        (BASE64, 0.10),
    ],
    ids=["prose", "python", "log", "json", "chinese", "russian", "base64"],
)
def test_an_estimate_is_close_to_what_a_tokenizer_counts(text: str, error_max: float) -> None:
    counted = exact_counter()(text)

    assert abs(estimate(text) - counted) <= error_max * counted


def _drawn(alphabet: str, length: int) -> str:
    return "".join(random.Random(2).choices(alphabet, k=length))


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "7" * 100_000,
        " " * 100_000,
        "\n" * 100_000,
        "\t" * 100_000,
        "\0" * 100_000,
        "-" * 100_000,
        _drawn(string.ascii_lowercase, 50_000),
        _drawn(string.ascii_uppercase, 50_000),
        _drawn(string.ascii_letters + string.digits, 50_000),
        _drawn(string.hexdigits.lower(), 50_000),
        _drawn(string.punctuation, 50_000),
        _drawn(string.printable, 50_000),
        PROSE.upper() * 20,
        PROSE.replace(" ", "") * 20,
        "👩‍🚀🎉🚧" * 5_000,
        "漢字かな交じり文" * 5_000,
        "┌─────┬───┐\n│ one │ 1 │\n└─────┴───┘\n" * 1_000,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_no_text_costs_much_more_than_its_estimate(text: str) -> None:
    assert exact_counter()(text) <= 1.45 * estimate(text)


@given(st.text(st.characters(codec=None)))
def test_every_text_costs_something_and_nothing_costs_nothing(text: str) -> None:
    assert estimate(text) >= 1 if text else estimate(text) == 0


@given(st.text(st.characters(max_codepoint=127), max_size=300))
def test_the_estimate_is_the_weighted_sum_of_runs(text: str) -> None:
    assert abs(estimate(text) - max(_by_the_book(text), 1 if text else 0)) <= 1


@given(st.text(st.sampled_from("aaaBB12 \t\n-+/."), max_size=200))
def test_runs_are_found_wherever_they_begin_and_end(text: str) -> None:
    assert abs(estimate(text) - max(_by_the_book(text), 1 if text else 0)) <= 1


def _by_the_book(text: str) -> float:
    """Return the same sum, found with plain expressions."""

    def runs(pattern: str) -> list[str]:
        return re.findall(pattern, text)

    def beyond(pattern: str, length: int) -> int:
        return sum(max(len(run) - length, 0) for run in runs(pattern))

    words, marks, digits = "[A-Za-z]+", r"[!-/:-@\[-`{-~]+", r"[0-9\x00-\x08\x0e-\x1f\x7f]+"
    blanks, newlines = r"[ \t\v\f]+", r"[\r\n]+"
    return (
        0.93 * (len(runs(words)) + len(runs(marks)))
        + 1.3 * len(runs(digits))
        + 1.3 * sum(len(run) > 1 for run in runs(blanks))
        + 1.3 * len(runs(r"[a-z](?=[A-Z])(?=[A-Za-z0-9+]{15})"))
        + 0.45 * beyond(digits, 3)
        + 0.45 * len(runs("[a-z](?=[A-Z])"))
        + 0.2 * (beyond(words, 6) + beyond(words, 12) + beyond("[A-Z]+", 1))
        + 0.05 * (beyond(marks, 2) + beyond(newlines, 1))
        + 0.6 * len(runs(r"([!-/:-@\[-`{-~])(?=[!-/:-@\[-`{-~]{4})(?!\1)"))
        - 0.3 * len(runs(newlines))
        + 0.009 * beyond(blanks, 15)
        + 0.063 * text.count("\t")
        - 0.9 * len(runs("'(?:[stdm]|re|ve|ll) "))
        + language_surcharge(text, 0) * (len(text) - text.count(" "))
    )


def test_a_long_text_costs_what_its_pieces_cost() -> None:
    pieces = -(-len(PROSE * 1_000) // PIECE_CHARACTERS_MAX)

    assert abs(estimate(PROSE * 1_000) - 1_000 * estimate(PROSE)) < 1_000 + 3 * pieces


def test_the_margin_of_a_budget_covers_the_usual_error() -> None:
    for text in (PROSE, PYTHON, LOG, BASE64):
        assert exact_counter()(text) <= MARGIN * estimate(text)


@pytest.mark.parametrize("script", corpus())
def test_with_its_margin_the_estimate_is_enough_in_every_script(script: str) -> None:
    text = corpus()[script]

    assert MARGIN * estimate(text) >= exact_counter()(text)


def test_and_it_is_not_much_too_high_for_ordinary_text() -> None:
    texts = SENTENCES.values()

    estimated, counted = sum(map(estimate, texts)), sum(map(exact_counter(), texts))

    assert MARGIN * estimated <= 1.15 * counted
    assert all(estimate(text) <= 1.4 * exact_counter()(text) for text in texts)


@pytest.mark.parametrize("language", UNSEEN)
def test_in_no_language_does_a_text_cost_more_or_less_than_a_context_says(language: str) -> None:
    _lies_within_its_bounds(UNSEEN[language])


@pytest.mark.parametrize("shape", SHAPES)
def test_nor_does_code_or_a_table_or_a_log(shape: str) -> None:
    _lies_within_its_bounds(SHAPES[shape])


@pytest.mark.parametrize("script", corpus())
def test_nor_do_other_scripts_and_symbols(script: str) -> None:
    _lies_within_its_bounds(corpus()[script])


def _lies_within_its_bounds(text: str) -> None:
    estimated, counted = estimate(text), exact_counter()(text)

    assert (1 - LESS_MAX) * estimated <= counted <= (1 + MORE_MAX) * estimated


@pytest.mark.parametrize("texts", [UNSEEN, SHAPES], ids=["languages", "shapes"])
def test_texts_apart_from_those_of_the_fit_are_estimated_as_closely(texts: dict[str, str]) -> None:
    errors = [estimate(text) / exact_counter()(text) for text in texts.values()]
    estimated = sum(map(estimate, texts.values()))
    counted = sum(map(exact_counter(), texts.values()))

    assert counted <= MARGIN * estimated <= 1.15 * counted
    assert sum(abs(error - 1) <= 0.15 for error in errors) >= 0.7 * len(errors)


def test_a_language_of_few_tokens_to_a_word_is_told_from_others_of_its_script() -> None:
    assert estimate(UNSEEN["English"]) / len(UNSEEN["English"]) < 0.26
    assert estimate(UNSEEN["Zulu"]) / len(UNSEEN["Zulu"]) > 0.3


def test_an_estimate_is_the_same_whether_it_is_remembered_or_not() -> None:
    first = estimate(PROSE)
    for number in range(ESTIMATES_MAX):
        estimate(f"{number}")

    assert estimate(PROSE) == first
