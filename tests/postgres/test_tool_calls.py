"""The table of tool calls on a server: open transactions, roles, plans, bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import ELSEWHERE, HERE, NOON, said
from ports import store_of
from treering.model.scopes import Scope
from treering.model.tools import ToolPoint, ToolQuery
from treering.storage import tool_table
from treering.storage.postgres import tool_records
from treering.storage.postgres.rows import translate
from treering.storage.tool_table import ResolvedToolQuery, page_statement, resolve
from treering.surfaces.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postgres_places import Place
    from treering import NewEvent

FILL: Final = """
INSERT INTO tool_calls (
  scope, position, session, call, tool, run, at_ms, started_ms, duration_ms, status, reason
)
SELECT %s, n, n %% 50, n %% 40, n %% 20, n %% 300, n, n, n %% 900, n %% 4,
  CASE WHEN n %% 4 = 3 THEN n %% 6 END
FROM generate_series(1, 20000) AS n
"""


def call(call_id: str, **fields: Any) -> NewEvent:
    refs = {"call_id": call_id, "tool": "git_log"}
    return said("called", **({"kind": "tool.call", "refs": refs, "ts_ms": NOON} | fields))


def result(call_id: str, **fields: Any) -> NewEvent:
    refs = {"call_id": call_id, "status": "ok"}
    return said("returned", **({"kind": "tool.result", "refs": refs, "ts_ms": NOON + 5} | fields))


def test_a_transaction_that_stays_open_holds_no_record_back(place: Place) -> None:
    """What was appended is found at once, and once: also when it has settled."""
    with treering.open(place.url) as ledger, place.connect() as other:
        ledger.append([call("before")])
        with other.transaction():
            other.execute("SELECT pg_current_xact_id()")
            ledger.append([call("a"), result("a"), result("a"), call("b")])
            ledger.append([said("no id", kind="tool.call")])

            during = ledger.tool_calls(HERE).items
            again = ledger.tool_calls(HERE).items
            unsettled = place.sql("SELECT count(*) FROM tool_calls")
        ledger.append([result("b")])
        after = ledger.tool_calls(HERE).items

        assert [record.call_id for record in during] == ["before", "a", "b", None]
        assert again == during
        assert unsettled == [(4,)]
        assert [record.status for record in after] == ["open", "ok", "ok", "open"]
        assert ledger.admin.verify().intact
        before = place.sql("SELECT * FROM tool_calls ORDER BY position")
        ledger.admin.rebuild()
        assert place.sql("SELECT * FROM tool_calls ORDER BY position") == before


def test_no_event_falls_between_what_has_settled_and_what_has_not(place: Place) -> None:
    """Those that settle while they are looked for are found as well, in their order."""
    with treering.open(place.url) as ledger, place.connect() as early, place.connect() as late:
        ledger.append([call("before")])
        early.execute("BEGIN")
        early.execute("SELECT pg_current_xact_id()")
        ledger.append([call("a", run_id="r1")])

        def look(connection: Any) -> tuple[list[int], list[int]]:
            scope = Scope(HERE)
            news = source.settled(connection, scope, (), ())
            early.execute("ROLLBACK")
            late.execute("BEGIN")
            late.execute("SELECT pg_current_xact_id()")
            ledger.append([call("a", run_id="r2")])
            waiting = source.unsettled(connection, scope, news.last)
            first, then = ([fact.seq for _, fact in one[HERE]] for one in (news.facts, waiting))
            return first, then

        source: Any = store_of(ledger).tools._source  # type: ignore[attr-defined]
        server: Any = store_of(ledger)._server  # type: ignore[attr-defined]
        settled, unsettled = server.write(look, HERE)

    assert (settled, unsettled) == ([1], [2, 3])


def test_what_is_erased_before_it_has_settled_does_not_come_back(place: Place) -> None:
    with treering.open(place.url) as ledger, place.connect() as other:
        with other.transaction():
            other.execute("SELECT pg_current_xact_id()")
            first, _ = ledger.append([call("a"), result("a")])
            ledger.tool_calls(HERE)
            ledger.redact(HERE, event_id=first.event_id)
            during = ledger.tool_calls(HERE).items

        assert [record.started_ms for record in during] == [None]
        assert ledger.tool_calls(HERE).items == during
        assert ledger.admin.verify().intact


def test_the_command_line_catches_up_and_keeps_it(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    with treering.open(place.url) as ledger:
        ledger.append([call("a"), result("a")])

    status = main(["--db", place.url, "tools", "list", "--scope", HERE, "--json"])

    assert status == 0
    assert [item["call_id"] for item in json.loads(capsys.readouterr().out)["calls"]] == ["a"]
    assert place.sql("SELECT count(*) FROM tool_calls") == [(1,)]


@pytest.mark.parametrize("sort", ["application", "held"])
def test_a_role_that_is_walled_in_follows_its_own_scope(place: Place, sort: str) -> None:
    """Promise 3: and sees nothing of the others, nor of how much there is."""
    with treering.open(place.url) as owner:
        owner.append([call("theirs", scope=ELSEWHERE)])
        owner.tool_calls(ELSEWHERE)
    role = place.role(HERE if sort == "held" else None)

    with treering.open(place.url_of(role)) as ledger:
        header, *_ = ledger.append([call("ours"), result("ours"), result("ours")])
        found = ledger.tool_calls(HERE).items
        ledger.redact(HERE, event_id=header.event_id)
        left = ledger.tool_calls(HERE).items

    assert [(record.call_id, record.status) for record in found] == [("ours", "ok")]
    assert [record.call_event_id for record in left] == [None]
    rows = place.sql("SELECT scope FROM tool_calls", role=role, stating=HERE)
    assert rows == [(HERE,)]


def test_what_was_erased_is_in_no_file_although_it_was_followed(place: Place) -> None:
    """Promise 5: the tables of tool calls hold no text at all."""
    with treering.open(place.url, guard="off") as ledger:
        refs = {"call_id": "call-4711-0815", "tool": "tool-4711-0815"}
        header = ledger.append([call("x", refs=refs)])[0]
        [record] = ledger.tool_calls(HERE).items
        assert record.tool == "tool-4711-0815"

        receipt = ledger.redact(HERE, event_id=header.event_id)

    assert receipt.physical == "done"
    place.sql("CHECKPOINT")
    relations = place.sql(
        "SELECT pg_relation_filepath(c.oid) FROM pg_class AS c"
        " WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'i', 't', 'S')",
        place.schema,
    )
    files = [Path(place.server._cluster, name) for (name,) in relations if name is not None]
    assert [file for file in files if b"4711-0815" in file.read_bytes()] == []


def question(**filters: Any) -> ResolvedToolQuery:
    session = 3 if "session_id" in filters else None
    return resolve(ToolQuery(scope=Scope(HERE), **filters), HERE, b"key", session)


@pytest.fixture(scope="module")
def plan(lasting_place: Place) -> Iterator[Callable[[str, Any], str]]:
    """Return how the ledger's own connections carry out a statement when there are many calls."""
    lasting_place.sql(FILL, HERE)
    lasting_place.sql("ANALYZE tool_calls")
    with treering.open(lasting_place.url, guard="off") as ledger:
        server: Any = store_of(ledger)._server  # type: ignore[attr-defined]

        def explain(statement: str, values: Any) -> str:
            rows = server.read(
                lambda c: c.execute("EXPLAIN " + statement, values, prepare=False).fetchall()
            )
            return "\n".join(row[0] for row in rows)

        yield explain


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({}, "tool_calls_in_scope"),
        ({"statuses": ("failed", "synthetic")}, "tool_calls_in_scope"),
        ({"since_ms": 1, "until_ms": 2}, "tool_calls_in_scope"),
        ({"tool": "grep"}, "tool_calls_of_tool"),
        ({"session_id": "a"}, "tool_calls_in_session"),
        ({"session_id": "a", "call_id": "c"}, "tool_calls_by_call"),
        ({"reason": "crashed"}, "tool_calls_by_reason"),
        ({"run_id": "r"}, "tool_calls_of_run"),
        ({"order": "slowest"}, "tool_calls_slowest"),
        ({"order": "slowest", "tool": "grep"}, "tool_calls_measured"),
        ({"order": "slowest", "tool": "grep", "session_id": "a"}, "tool_calls_measured_in_session"),
    ],
)
def test_every_page_is_read_from_its_index(
    plan: Callable[[str, Any], str], filters: dict[str, Any], index: str
) -> None:
    """Promise 10: it costs the same at 10⁶ events as at 10³."""
    found = plan(*translate(*page_statement(question(**filters, after=ToolPoint(5, 6)))))

    assert f"using {index} " in found.lower().replace("backward ", "")
    assert "Seq Scan" not in found


@pytest.mark.parametrize("filters", [{}, {"tool": "grep"}, {"session_id": "a"}, {"since_ms": 1}])
def test_statistics_are_read_from_an_index(
    plan: Callable[[str, Any], str], filters: dict[str, Any]
) -> None:
    counts = plan(*translate(*tool_table.counts_statement(question(**filters))))
    ranks = plan(*translate(*tool_table.percentiles_statement(question(**filters))))

    assert "tool_calls_" in counts
    assert "tool_calls_" in ranks
    assert "Seq Scan" not in counts + ranks


def test_events_are_followed_and_fetched_by_their_indexes(plan: Callable[[str, Any], str]) -> None:
    place: Any = {"scope": HERE, "epoch": 0, "xid": "0", "position": 0, "kinds": ["tool.call"]}

    followed = "".join(
        plan(statement, place)
        for statement in (tool_records.SETTLED, tool_records.UNSETTLED, tool_records.BEHIND)
    )
    fetched = plan(tool_records.AT_PLACES, (HERE, [1], [1]))
    paired = plan(*translate(tool_table.LATEST, {"scope": HERE, "pairs": b"[[1, 2]]"}))

    assert "scope_epoch_xid_position_idx" in followed
    assert "scope_session_seq" in fetched or "_pkey" in fetched
    assert "tool_calls_by_call" in paired
    assert "Seq Scan" not in followed + fetched + paired
