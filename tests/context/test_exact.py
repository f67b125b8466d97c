"""Exact token counts, where the tokenizer is installed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from treering.context import tokens
from treering.context.tokens import exact_counter
from treering.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def _uninstalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    tokens._counter.cache_clear()
    monkeypatch.setitem(sys.modules, "rs_bpe.bpe", None)
    yield
    tokens._counter.cache_clear()


def test_tokens_are_counted_as_the_model_counts_them() -> None:
    assert exact_counter()("") == 0
    assert exact_counter()("hello world") == 2
    assert exact_counter("o200k_base")("привет") < exact_counter("cl100k_base")("привет")


def test_special_tokens_in_a_text_are_plain_text() -> None:
    assert exact_counter()("<|endoftext|>") > 1


def test_lone_surrogates_are_counted_as_what_stands_in_for_them() -> None:
    assert exact_counter()("a\ud800b") == exact_counter()("a?b")


def test_a_counter_is_loaded_once() -> None:
    assert exact_counter() is exact_counter()


def test_an_unknown_encoding_is_refused() -> None:
    name: Any = "latin-1"

    with pytest.raises(InvalidInput, match="latin-1") as refused:
        exact_counter(name)

    assert "o200k_base" in str(refused.value.hint)


@pytest.mark.usefixtures("_uninstalled")
def test_without_the_tokenizer_the_error_says_what_to_install() -> None:
    with pytest.raises(Unsupported) as missing:
        exact_counter()

    assert "pip install 'treering[tokens]'" in str(missing.value.hint)
