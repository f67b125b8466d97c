"""The view for other tools says the same on a server as in a file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, called, run_of, said

if TYPE_CHECKING:
    from pathlib import Path

    from postgres_places import Place
    from treering import Ledger

VIEW: Final = "SELECT * FROM episodic_events"
SHOWN: Final = attrgetter(
    *("position", "event_id", "ts_ms", "scope", "session_id", "agent_id", "kind", "summary"),
    "redacted",
)


def tell(ledger: Ledger) -> None:
    """Record events of every sort, and erase some."""
    ledger.append(
        [
            said("named", event_id="e1", ts_ms=NOON, refs={"file": "ä.py", "n": [1, None]}),
            said("uuid", event_id="0190163d-8694-739b-aea5-966c26f8ad91", ts_ms=NOON + 1),
            said("quoted \"'\\ 🌲\t", event_id="e2", ts_ms=NOON + 2, payload={"ä": "'\"\\🌲\t"}),
            said("no payload", event_id="e3", ts_ms=NOON + 3, payload=None),
            said("false", event_id="e4", ts_ms=NOON + 4, payload=False),
            said("large", event_id="e5", ts_ms=NOON + 5, payload="x" * 9_000),
            said("theirs", event_id="e1", ts_ms=NOON + 6, scope=ELSEWHERE, session_id="ß/🌲"),
            said("to go", event_id="e6", ts_ms=NOON + 7, refs={"a": 1}),
            said("to go as well", event_id="e7", ts_ms=NOON + 8, payload="y" * 9_000),
            called(event_id="old", ts_ms=1),
        ]
    )
    ledger.append(run_of("r1", "in a run", session_id="s2", ts_ms=NOON + 9))
    ledger.redact(HERE, event_id="e6")
    ledger.redact(HERE, event_id="e7", replacement="null")
    ledger.expire(HERE, policy={"tool.call": 1}, now_ms=2 * DAY)


def test_the_view_has_the_same_columns_and_values_as_in_a_file(
    place: Place, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.db"
    with treering.open(path) as ledger, treering.open(place.url) as copied:
        tell(ledger)
        assert ledger.admin.copy_to(copied).intact

    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute(VIEW)
        columns = [column[0] for column in cursor.description]
        in_file = comparable(columns, cursor.fetchall())
    with place.connect() as server:
        found = server.execute(VIEW.encode())
        assert [column.name for column in found.description or ()] == columns
        on_server = comparable(columns, found.fetchall())

    assert len(on_server) == 15
    assert on_server == in_file


def comparable(columns: list[str], rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return rows by name, in an order that both databases keep."""
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    for row in found:
        # A position is the ledger's own, and one of the two has no type for yes and no.
        assert isinstance(row.pop("id"), int)
        row["redacted"] = bool(row["redacted"])
    return sorted(found, key=lambda row: (row["scope"], row["session_id"], row["event_id"]))


def test_what_is_recorded_on_a_server_reads_the_same(place: Place) -> None:
    with treering.open(place.url) as ledger:
        tell(ledger)
        headers = [*ledger.headers(HERE, first=100).items, *ledger.headers(ELSEWHERE).items]

    rows = place.sql(
        "SELECT id, event_id, ts_ms, scope, session_id, agent_id, type, summary, redacted"
        " FROM episodic_events"
    )

    assert sorted(rows) == sorted(map(SHOWN, headers))


def test_a_payload_reads_as_json_or_as_what_took_its_place(place: Place) -> None:
    with treering.open(place.url) as ledger:
        tell(ledger)

    found = dict(
        place.sql(f"SELECT event_id, payload_json FROM episodic_events WHERE scope = '{HERE}'")
    )

    assert found["e1"] == '{"text":"named"}'
    assert (found["e3"], found["e4"]) == (None, "false")
    assert found["e5"].startswith('{"spilled":')
    assert (found["e6"], found["e7"]) == ('"[REDACTED]"', None)
    assert "old" not in found


def test_a_sealed_payload_is_shown_by_neither(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    for location in (path, place.url):
        with treering.open(location) as ledger:
            ledger.keys.create(HERE)
            ledger.append([said("one", event_id="e1"), said("two", payload="x" * 9_000)])

    statement = "SELECT summary, payload_json FROM episodic_events ORDER BY id"
    with closing(sqlite3.connect(path)) as connection:
        in_file = connection.execute(statement).fetchall()
    told = "user message, 3 characters"  # In place of words that the payload holds, too.
    assert in_file == place.sql(statement) == [(told, None), ("two", None)]
