"""Scores for how well a file matches a format: the share of its values that fit.

A single matching value means little: the logs of different agents share words, ids and whole
envelopes. A format claims a file only if most of the distinguishing values are its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


OWN_MIN: Final = 3
"""This many own values claim a file even if most of its values are ambiguous."""
_PART: Final = 4


def share(verdicts: Iterable[bool | None]) -> float:
    """Return the share of values that belong to a format, from 0 to 1; 0 without a majority.

    A verdict is True for a value that only this format writes, False for one that it never writes,
    and None for one that is ambiguous.
    """
    listed = list(verdicts)
    decided = [verdict for verdict in listed if verdict is not None]
    own = sum(decided)
    enough = own >= OWN_MIN or _PART * own >= len(listed)
    return own / len(decided) if enough and 2 * own > len(decided) else 0.0
