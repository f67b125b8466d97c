"""Prices of calls."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from genai_prices import Usage, calc_price
from genai_prices.data_snapshot import get_snapshot

from builders import NOON
from treering.derive.prices import PICO, price, prices_version

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


def test_every_listed_model_costs_what_the_package_says() -> None:
    """Ours is the sum of a few products: it must be the package's, to the last digit."""
    counts = [(300_000, 5, 100_000, 7), (1_000, 20, 0, 0), (10, 10, 11, 0), (0, 9, 0, 0)]
    differing = [
        (provider.id, model.id, used)
        for provider in get_snapshot().providers
        for at, model in enumerate(provider.models)
        for used in [counts[0], counts[1 + at % 3]]
        if ours(model.id, provider.id, *used) != theirs(model.id, provider.id, *used)
    ]
    assert differing == []


def ours(
    model: str, provider: str, sent: int, received: int, read: int, written: int
) -> int | None:
    return price(
        model,
        provider,
        input_tokens=sent,
        output_tokens=received,
        cached_tokens=read,
        cache_write_tokens=written,
        at_ms=NOON,
    )


def theirs(
    model: str, provider: str, sent: int, received: int, read: int, written: int
) -> int | None:
    used = Usage(
        input_tokens=sent,
        output_tokens=received,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
    at = datetime.fromtimestamp(NOON / 1_000, UTC)
    try:
        found = calc_price(used, model, provider_id=provider, genai_request_timestamp=at)
    except (LookupError, ValueError):
        return None
    listed = found.model_price
    if (sent and listed.input_mtok is None) or (received and listed.output_mtok is None):
        return None
    return round(found.total_price.scaleb(PICO))


def test_prices_have_a_version() -> None:
    assert prices_version()
