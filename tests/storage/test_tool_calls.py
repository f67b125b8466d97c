"""The table of tool calls in a file: its plans, its bytes, and what happens when it is damaged."""

from __future__ import annotations

import hmac
import sqlite3
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import treering
from broken.ledgers import marker, raw_bytes
from builders import DAY, ELSEWHERE, HERE, NOON, said
from ports import store_of
from treering.model.scopes import Scope
from treering.model.tools import ToolPoint, ToolQuery
from treering.storage import tool_table
from treering.storage.projections import in_sqlite
from treering.storage.sqlite import tool_records
from treering.storage.sqlite.opening import connect
from treering.storage.tool_calls import number
from treering.storage.tool_table import ResolvedToolQuery, page_statement, resolve

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = b"key"


@pytest.fixture
def plan(path: Path) -> Callable[[str, Any], str]:
    treering.open(path).close()
    connection = connect(str(path))

    def explain(statement: str, bindings: Any) -> str:
        cursor = connection.execute("EXPLAIN QUERY PLAN " + statement, bindings)
        return "\n".join(str(row[3]) for row in cursor)

    return explain


def question(**filters: Any) -> ResolvedToolQuery:
    session = 3 if "session_id" in filters else None
    return resolve(ToolQuery(scope=Scope("s"), **filters), 1, KEY, session)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("filters", "search"),
    [
        ({}, "tool_calls_in_scope (scope=? AND status=?"),
        ({"statuses": ("failed", "synthetic")}, "tool_calls_in_scope (scope=? AND status=?"),
        ({"tool": "grep"}, "tool_calls_of_tool (scope=? AND tool=? AND status=?"),
        ({"session_id": "a"}, "tool_calls_in_session (scope=? AND session=? AND status=?"),
        ({"reason": "crashed"}, "tool_calls_by_reason (scope=? AND reason=?"),
        ({"run_id": "r"}, "tool_calls_of_run (scope=? AND run=?"),
    ],
)
def test_a_page_by_time_is_read_from_its_index_in_order(
    plan: Callable[[str, Any], str], filters: dict[str, Any], search: str, *, backwards: bool
) -> None:
    """Promise 10: it costs the same at 10⁶ events as at 10³."""
    sign = "<" if backwards else ">"
    place = ToolPoint(5, 6)

    paging = plan(*page_statement(question(**filters, backwards=backwards, after=place)))
    window = plan(*page_statement(question(**filters, since_ms=1, until_ms=2)))

    assert f"t USING INDEX {search} AND (at_ms,position){sign}(?,?))" in paging
    assert f"t USING INDEX {search} AND at_ms>? AND at_ms<?)" in window
    assert "SCAN t" not in paging + window


@pytest.mark.parametrize(
    ("filters", "search"),
    [
        ({}, "tool_calls_slowest (scope=? AND status=?"),
        ({"tool": "grep"}, "tool_calls_measured (scope=? AND tool=? AND status=?"),
        (
            {"session_id": "a", "tool": "grep"},
            "tool_calls_measured_in_session (scope=? AND session=? AND tool=? AND status=?",
        ),
    ],
)
def test_the_slowest_are_read_from_their_index_in_order(
    plan: Callable[[str, Any], str], filters: dict[str, Any], search: str
) -> None:
    found = plan(*page_statement(question(**filters, order="slowest", after=ToolPoint(5, 6))))

    in_order = f"t USING INDEX {search} AND duration_ms>? AND (duration_ms,position)<(?,?))"
    # Each status comes in order from there; what is sorted is what a page may hold of each.
    assert f"{in_order}\nSCAN s1" in found
    assert "SCAN t" not in found


def test_a_call_is_found_by_its_id(plan: Callable[[str, Any], str]) -> None:
    found = plan(*page_statement(question(session_id="a", call_id="c")))

    assert "t USING INDEX tool_calls_by_call (scope=? AND session=? AND call=?)" in found


@pytest.mark.parametrize("filters", [{}, {"session_id": "a"}, {"tool": "grep"}, {"since_ms": 1}])
def test_statistics_are_made_from_an_index_alone(
    plan: Callable[[str, Any], str], filters: dict[str, Any]
) -> None:
    """Percentiles are found by counting along the index: nothing is sorted, nothing is kept."""
    counts = plan(*tool_table.counts_statement(question(**filters)))
    text, values = tool_table.rank_statement(question(**filters))
    ranks = plan(text, {**values, "one": 1, "above": 2})

    assert "USING COVERING INDEX tool_calls_measured" in counts
    assert ranks.count("USING COVERING INDEX tool_calls_measured") == 2
    assert "TEMP B-TREE" not in counts + ranks
    assert "SCAN" not in counts + ranks.replace("SCAN CONSTANT ROW", "")


def test_events_are_followed_by_position_and_fetched_by_seq(
    plan: Callable[[str, Any], str],
) -> None:
    stretch = plan(tool_records.IN_STRETCH, {"after": 0, "until": 9, "call": 1, "result": 2})
    fetched = plan(tool_records.AT_PLACES, ("[]",))
    among = {"scope": 1, "pairs": b"[[1, 2]]"}
    asked = (tool_table.KNOWN, tool_table.LATEST, tool_table.DROP)
    paired = [plan(in_sqlite(one), among) for one in asked]

    assert "e USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in stretch
    assert "seqs_by_session USING PRIMARY KEY (session=? AND seq=?)" in fetched
    assert "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)" in fetched
    assert all("tool_calls_by_call (scope=? AND session=? AND call=?" in one for one in paired)


@pytest.mark.parametrize("key", [b"", b"key", bytes(range(64)), bytes(range(65))])
def test_a_name_is_stored_as_the_beginning_of_its_keyed_hash(key: bytes) -> None:
    """Another number would find no record in the tables that a ledger has."""
    kept = hmac.digest(key, "grep ✓".encode(), "sha256")

    assert number(key, "grep ✓") == int.from_bytes(kept[:8], "big", signed=True)


def told(dice: Random, number: int) -> list[treering.NewEvent]:
    """Return a call and its result; each text in their refs stands nowhere else."""
    mark = marker(dice)
    known = {"call_id": f"call-{mark}", "tool": f"tool-{mark}"}
    shared: dict[str, Any] = {"session_id": f"s{number % 3}", "ts_ms": NOON + number}
    return [
        said("x", kind="tool.call", event_id=f"{number}a", refs=known, **shared),
        said("x", kind="tool.result", event_id=f"{number}b",
             refs=known | {"status": "failed", "error_class": f"class-{mark}"}, **shared),
    ]  # fmt: skip


@pytest.mark.parametrize("how", ["event", "session", "expiry"])
def test_what_was_erased_is_not_in_the_file_although_it_was_followed(path: Path, how: str) -> None:
    """Promise 5: the content is in no table, index, free page or log."""
    dice = Random(how)
    with treering.open(path, guard="off") as ledger:
        events = [event for number in range(60) for event in told(dice, number)]
        for pair in _twos(events):
            ledger.append(pair)
            ledger.tool_calls(HERE, first=1)
        gone = [event for event in events if event.session_id == "s1"]
        if how == "event":
            for event in gone:
                ledger.redact(HERE, event_id=str(event.event_id))
        elif how == "session":
            ledger.redact(HERE, session_id="s1")
        else:
            gone = events
            ledger.expire(HERE, now_ms=NOON + 60 * DAY)
        left = [record.tool for record in ledger.tool_calls(HERE, first=100).items]
        assert ledger.admin.verify().intact
    content = raw_bytes(path)

    assert len(left) == (60 * 2 - len(gone)) // 2
    words = {word for event in gone for word in event.refs.values()} - {"failed"}
    assert [word for word in words if word.encode() in content] == []
    assert all(tool is not None and tool.encode() in content for tool in left)


def _twos(events: list[treering.NewEvent]) -> list[list[treering.NewEvent]]:
    return [events[at : at + 2] for at in range(0, len(events), 2)]


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM tool_calls WHERE position = (SELECT min(position) FROM tool_calls)",
        "UPDATE tool_calls SET started_ms = started_ms + 1 WHERE call_seq = 1",
        "UPDATE tool_calls SET result_seq = 1 WHERE result_seq = 2",
        "INSERT INTO tool_extras VALUES (1, 1, 2, 3)",
    ],
)
def test_damage_to_the_table_is_found_and_mended(path: Path, damage: str) -> None:
    with treering.open(path) as ledger:
        ledger.append(told(Random(1), 0))
        before = ledger.tool_calls(HERE)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(damage)
        connection.commit()

    with treering.open(path) as ledger:
        broken = ledger.admin.verify().first_broken
        ledger.admin.rebuild()

        assert broken is not None
        assert broken.detail == "the tool calls are not what their events say"
        assert ledger.admin.verify().intact
        assert ledger.tool_calls(HERE) == before


def test_a_rebuild_makes_the_same_rows(path: Path) -> None:
    """Promise 6: drop every derived table, rebuild, get the same bytes."""

    def rows() -> list[Any]:
        with closing(sqlite3.connect(path)) as connection:
            return [
                connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()
                for table in ("tool_calls", "tool_extras")
            ]

    dice = Random(2)
    with treering.open(path, guard="off") as ledger:
        for number in range(40):
            call, result = told(dice, number)
            ledger.append([call, result, said("x", kind="tool.result", refs=result.refs,
                                              session_id=call.session_id)])  # fmt: skip
            if number % 7 == 0:
                ledger.tool_calls(ELSEWHERE)
            if number % 9 == 0:
                ledger.redact(HERE, event_id=str(result.event_id))
        ledger.tool_calls(HERE)
    kept = rows()
    with treering.open(path) as ledger:
        ledger.admin.rebuild()

    assert rows() == kept
    assert all(kept)


def test_reading_without_writing_leaves_the_file_as_it_is(path: Path) -> None:
    with treering.open(path) as ledger:
        ledger.append(told(Random(3), 0))
    before = raw_bytes(path)

    with treering.open(path, mode="ro") as ledger:
        assert len(ledger.tool_calls(HERE).items) == 1
        assert [one.calls for one in ledger.tool_statistics(HERE)] == [1]

    assert raw_bytes(path) == before


def test_a_private_table_holds_the_calls_of_its_scope_alone(path: Path) -> None:
    with treering.open(path) as ledger:
        refs = {"call_id": "c", "tool": "grep"}
        ledger.append([
            said("x", kind="tool.call", scope=scope, refs=refs) for scope in (HERE, ELSEWHERE)
        ])  # fmt: skip

    with treering.open(path, mode="ro") as ledger:
        records = [ledger.tool_calls(scope).items for scope in (HERE, ELSEWHERE)]
        tools: Any = store_of(ledger).tools
        rows = []
        for private in tools._private.values():
            with private.using() as table:
                rows.append(table.rows("SELECT position FROM tool_calls", {}))

    assert [len(found) for found in records] == [1, 1]
    assert rows == [[(1,)], [(2,)]]


def test_no_text_is_kept_in_the_table(path: Path) -> None:
    """No index holds text that may have to be erased."""
    treering.open(path).close()

    with closing(sqlite3.connect(path)) as connection:
        found = [
            row[2]
            for table in ("tool_calls", "tool_extras")
            for row in connection.execute(f"PRAGMA table_info({table})")
        ]

    assert set(found) == {"INTEGER"}


def test_many_pages_are_held_only_by_who_follows_tool_calls(path: Path) -> None:
    with treering.open(path) as ledger:
        writer = store_of(ledger)._database.writer  # type: ignore[attr-defined]
        ledger.append([said(kind="tool.call", refs={"call_id": "c1", "tool": "grep"})])
        before = writer().pragma("cache_size")
        ledger.tool_calls(HERE)

        assert before == apsw.Connection("").pragma("cache_size")
        assert writer().pragma("cache_size") == -tool_records.CACHE_KIB
