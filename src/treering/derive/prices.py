"""List prices of models, if the package genai-prices is installed."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

PICO: Final = 12
"""Prices are counted in 10⁻¹² dollars, so that sums are exact in any order."""
_MODELS_MAX: Final = 1_024


@cache
def prices_version() -> str:
    """Return the version of the price list; empty if it is not installed."""
    from importlib import metadata  # noqa: PLC0415  (slow to load, and few ask for prices)

    try:
        return metadata.version("genai-prices")
    except metadata.PackageNotFoundError:
        return ""


def price(
    model: str,
    provider: str | None,
    *,
    input_tokens: int,
    output_tokens: int,
    cached_tokens: int,
    cache_write_tokens: int,
    at_ms: int,
) -> int | None:
    """Return the cost of one call in 10⁻¹² dollars; None if unknown.

    A model without a price for what was used has no price at all.
    """
    if not prices_version():
        return None  # Importing a missing module searches the disk every time.
    try:
        import genai_prices  # noqa: F401, PLC0415  (optional, and slow to load)

        listed = _listed(model, provider).get_prices(datetime.fromtimestamp(at_ms / 1_000, UTC))
    except (ImportError, LookupError, ValueError, OverflowError, OSError):
        return None
    sent, received = _rate(listed.input_mtok, input_tokens), _rate(listed.output_mtok, input_tokens)
    if (input_tokens and sent is None) or (output_tokens and received is None):
        return None
    # The package's own sum takes twenty times as long: it looks at every unit there is.
    millionths = (received or 0) * Decimal(output_tokens) + (
        _rate(listed.requests_kcount, 1) or 0
    ) * 1_000
    fresh_tokens = input_tokens
    for count, cache_price in (
        (cached_tokens, listed.cache_read_mtok),
        (cache_write_tokens, listed.cache_write_mtok),
    ):
        rate = _rate(cache_price, input_tokens)
        if rate is not None:  # Without a price of its own it costs what fresh tokens cost.
            fresh_tokens -= count
            millionths += rate * count
    if fresh_tokens < 0:
        return None
    return round((millionths + (sent or 0) * fresh_tokens).scaleb(PICO - 6))


@lru_cache(maxsize=_MODELS_MAX)
def _listed(model: str, provider: str | None) -> ModelInfo:
    """Return a model of the price list. Raise LookupError if it does not list it."""
    from genai_prices import Usage, calc_price  # noqa: PLC0415  (optional, and slow to load)

    return calc_price(Usage(), model, provider_id=provider).model


def _rate(listed: Any, input_tokens: int) -> Decimal | None:
    """Return the price of a million tokens, which may depend on how much was sent."""
    tiers = getattr(listed, "tiers", ())
    rate: Decimal | None = getattr(listed, "base", listed)
    for tier in tiers:
        if input_tokens > tier.start:
            rate = tier.price
    return rate
