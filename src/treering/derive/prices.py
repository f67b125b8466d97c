"""List prices of models, if the package genai-prices is installed."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Final

PICO: Final = 12
"""Prices are counted in 10⁻¹² dollars, so that sums are exact in any order."""


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
        from genai_prices import Usage, calc_price  # noqa: PLC0415  (optional, and slow to load)
    except ImportError:
        return None
    try:
        calculated = calc_price(
            Usage(
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                cache_read_tokens=cached_tokens,
                cache_write_tokens=cache_write_tokens,
            ),
            model,
            provider_id=provider,
            genai_request_timestamp=datetime.fromtimestamp(at_ms / 1_000, UTC),
        )
    except (LookupError, ValueError, OverflowError, OSError):
        return None
    listed = calculated.model_price
    if (input_tokens and listed.input_mtok is None) or (
        output_tokens and listed.output_mtok is None
    ):
        return None
    return round(calculated.total_price.scaleb(PICO))
