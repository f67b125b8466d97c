"""Prices of calls."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from builders import NOON
from treering.derive.prices import price, prices_version

USED: dict[str, Any] = {
    "input_tokens": 1_000_000,
    "output_tokens": 0,
    "cached_tokens": 0,
    "cache_write_tokens": 0,
    "at_ms": NOON,
}


def test_a_call_of_a_known_model_has_a_price() -> None:
    assert price("gpt-4o", "openai", **USED) == 2_500_000_000_000
    assert price("gpt-4o", None, **USED) == 2_500_000_000_000


def test_what_came_from_a_cache_costs_less() -> None:
    cached = price("gpt-4o", "openai", **(USED | {"cached_tokens": 1_000_000}))

    assert cached is not None
    assert 0 < cached < 2_500_000_000_000


@pytest.mark.parametrize(
    ("model", "provider", "more"),
    [
        ("nobody-knows-it", None, {}),
        ("gpt-4o", "nobody", {}),
        ("gpt-4o", "openai", {"cached_tokens": 2_000_000}),
        ("gpt-4o", "openai", {"at_ms": 2**60}),
        ("text-embedding-3-small", "openai", {"output_tokens": 5}),
    ],
)
def test_what_has_no_price_costs_nobody_knows_what(
    model: str, provider: str | None, more: dict[str, int]
) -> None:
    assert price(model, provider, **(USED | more)) is None


def test_without_the_package_nothing_has_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)

    assert price("gpt-4o", "openai", **USED) is None


def test_prices_have_a_version() -> None:
    assert prices_version()
