"""Events that vouch for erasures, and those they blanked. Files beside the ledger follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.model.kinds import ERASURE_KINDS
from treering.storage.encoding import GONE
from treering.storage.sqlite.companion_file import Unsound
from treering.storage.sqlite.indexes import INDEXED_POSITION
from treering.storage.sqlite.rows import fetch_all, fetch_value, name_id

if TYPE_CHECKING:
    import apsw

    from treering.storage.sqlite.database import Database

_LAST: Final = 2**62
_VOUCHERS: Final = """
SELECT e.scope, e.session, c.payload
FROM events AS e
JOIN contents AS c ON c.position = e.position
WHERE e.position > ? AND e.position <= ? AND e.kind IN ({kinds})
ORDER BY e.position
"""
_ERASED: Final = f"""
SELECT e.position, e.kind
FROM seqs_by_session AS t
CROSS JOIN events AS e ON e.position = t.position
WHERE t.session = ?1 AND t.seq BETWEEN ?2 AND ?3 AND e.flags & {GONE}
UNION ALL
SELECT e.position, e.kind
FROM events AS e
WHERE e.position > {INDEXED_POSITION}
  AND e.session = ?1 AND e.seq BETWEEN ?2 AND ?3 AND e.flags & {GONE}
"""


def erasure_events(ledger: apsw.Connection, after: int, until: int) -> list[Any]:
    """Return scope, session and payload of events that vouch for erasures, in a stretch."""
    kinds = [name_id(ledger, kind) for kind in sorted(ERASURE_KINDS)]
    numbers = ", ".join(str(kind) for kind in kinds if kind)
    return fetch_all(ledger, _VOUCHERS.format(kinds=numbers), (after, until)) if numbers else []


def unseen_erasures(
    companion: apsw.Connection, database: Database
) -> tuple[int, dict[int, dict[int, int]]]:
    """Return the newest position, and the events erased since a companion last asked.

    Call inside the transaction that removes them: it moves the companion's mark. The kinds of
    erased events come by scope and position. Raise Unsound if the ledger is shorter than it was, or
    if its length was never recorded.
    """
    after = fetch_value(companion, "SELECT value FROM facts WHERE name = 'erased_through'")
    gone: dict[int, dict[int, int]] = {}
    with database.reading() as ledger, ledger:
        newest: int = fetch_value(ledger, "SELECT max(position) FROM events") or 0
        if type(after) is not int or newest < after:
            raise Unsound
        for scope, session, payload in erasure_events(ledger, after, newest):
            for first, last in _ranges(payload):
                kinds = fetch_all(ledger, _ERASED, (session, first, last))
                gone.setdefault(scope, {}).update(kinds)
    if newest > after:
        companion.execute("UPDATE facts SET value = ? WHERE name = 'erased_through'", (newest,))
    return newest, gone


def _ranges(payload: bytes | None) -> list[tuple[int, int]]:
    """Return the seqs that a voucher names; all of its session, if it names none."""
    try:
        return msgspec.json.decode(payload or b"", type=_ErasedRanges).ranges
    except msgspec.MsgspecError:
        return [(0, _LAST)]


class _ErasedRanges(msgspec.Struct):
    ranges: list[tuple[int, int]]
