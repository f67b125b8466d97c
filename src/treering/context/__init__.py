"""Contexts: what a model sees next, as valid messages within a token budget. Pure functions.

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.lazy import lazy_names

if TYPE_CHECKING:
    from treering.context.tokens import exact_counter

__all__ = ["exact_counter"]

_HOMES: Final = {"exact_counter": "treering.context.tokens"}

if not TYPE_CHECKING:  # A type checker would take any name for one that is here.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
