"""How sure it is that a file is of a format: the share of its values that fit the grammar.

One value that happens to fit says little: logs of different agents share words, ids and whole
envelopes. So a format claims a file only if most of what tells formats apart is its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


OWN_MIN: Final = 3
"""So many values of a grammar claim a file in which most say nothing of whose it is."""
_PART: Final = 4


def share(verdicts: Iterable[bool | None]) -> float:
    """Return the share of values that are of a grammar, from 0 to 1; 0 if they are not most.

    A verdict is True for a value that this format writes and others do not, False for one that it
    never writes, and None for one that does not tell.
    """
    every = list(verdicts)
    told = [one for one in every if one is not None]
    own = sum(told)
    enough = own >= OWN_MIN or _PART * own >= len(every)
    return own / len(told) if enough and 2 * own > len(told) else 0.0
