"""Which snapshots of a session stay, the same in every database."""

from __future__ import annotations

from itertools import pairwise


def superfluous(seqs: list[int]) -> list[int]:
    """Return which of ``seqs``, the newest first, can go.

    One can if the next older one is at most twice as far from the end as the next newer one: then
    a place is never much farther from a snapshot before it than it is from the end. The oldest
    stays, and of all between about as many as the number of them has bits.
    """
    spare: list[int] = []
    newest = last = seqs[0]
    for seq, older in pairwise(seqs[1:]):
        if newest - older <= 2 * (newest - last):
            spare.append(seq)
        else:
            last = seq
    return spare
