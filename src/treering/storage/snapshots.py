"""Snapshots of the views of sessions: a few for each, the denser the nearer to its end."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from treering.storage.projections import ProjectionTable

COLUMNS: Final = ("scope", "session", "view", "seq", "body")
_OF_VIEW: Final = "FROM snapshots WHERE scope = :scope AND session = :session AND view = :view"
LATEST: Final = f"SELECT seq, body {_OF_VIEW} AND seq <= :until ORDER BY seq DESC LIMIT 1"
_SEQS: Final = f"SELECT seq {_OF_VIEW} ORDER BY seq DESC"
_THIN: Final = f"DELETE {_OF_VIEW} AND seq = :seq RETURNING seq"


def latest(
    table: ProjectionTable, scope: int | str, session: int, view: int, until_seq: int
) -> tuple[int, bytes] | None:
    """Return the seq and body of the latest snapshot at or before ``until_seq``."""
    rows = table.rows(LATEST, {**_place(scope, session, view), "until": until_seq})
    return (rows[0][0], rows[0][1]) if rows else None


def keep(
    table: ProjectionTable, scope: int | str, session: int, view: int, seq: int, body: bytes
) -> None:
    """Keep a snapshot and thin out the others. Call inside a transaction."""
    bindings = _place(scope, session, view)
    table.put("snapshots", COLUMNS, [(scope, session, view, seq, body)])
    for spare in superfluous([row[0] for row in table.rows(_SEQS, bindings)]):
        table.rows(_THIN, {**bindings, "seq": spare})


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


def _place(scope: int | str, session: int, view: int) -> dict[str, Any]:
    return {"scope": scope, "session": session, "view": view}
