"""openclaw-mem's episodes: its database and its spool give the same events."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from formats.logs.tellings import outcomes, told, told_in_parts
from treering.formats import openclaw_mem, pi, tape
from treering.formats.apeira import lines as apeira_lines
from treering.formats.openclaw_mem import COLUMNS, TABLE, OpenClawMemReader
from treering.storage.sqlite.foreign import open_foreign

if TYPE_CHECKING:
    from pathlib import Path

NOON = 1_790_000_000_000


def line(n: int, sort: str = "conversation.user", **fields: Any) -> dict[str, Any]:
    """Return a line of the spool."""
    stated = {
        "schema": openclaw_mem.SPOOL_SCHEMA,
        "event_id": f"ep-{n}",
        "ts_ms": NOON + n,
        "scope": "acme/app",
        "session_id": "s1",
        "agent_id": "lyria",
        "type": sort,
        "summary": f"event {n}",
    }
    return {**stated, **fields}


def row(told_line: dict[str, Any]) -> dict[str, Any]:
    """Return a line of the spool as its database has it."""
    found: dict[str, Any] = {at: told_line[at] for at in COLUMNS if at in told_line}
    for at in ("payload", "refs"):
        value = told_line.get(at)
        found[f"{at}_json"] = None if value is None else json.dumps(value)
    redacted = int(bool(told_line.get("redacted")))
    return {**found, "redacted": redacted, "schema_version": openclaw_mem.ROW_SCHEMA}


LINES = [
    line(1, payload={"text": "When is high tide?"}, refs={"doc": "tides.md"}),
    line(2, "tool.call", payload={"toolName": "tide", "toolCallId": "c1"}),
    line(3, "tool.result", payload=["14:10"]),
    line(4, "ops.decision"),
    line(5, "conversation.assistant", summary="gone", payload={"text": "x"}, redacted=True),
]


def test_rows_and_lines_tell_the_same() -> None:
    assert told(OpenClawMemReader(), map(row, LINES)) == told(OpenClawMemReader(), LINES)


def test_an_event_keeps_its_id_kind_time_and_content() -> None:
    reader = OpenClawMemReader()

    said, called, result, *_ = told(reader, LINES)

    assert (said.key, said.kind, said.ts_ms) == ("ep-1", "conversation.user", NOON + 1)
    assert said.payload == {"text": "When is high tide?"}
    assert said.refs == {"characters": 18, "doc": "tides.md"}
    assert called.refs == {"tool": "tide", "call_id": "c1"}
    assert result.payload == ["14:10"]
    opening = reader.sessions["s1"]
    assert (opening.agent, opening.about) == ("lyria", {"scope": "acme/app"})


def test_what_was_redacted_stays_so() -> None:
    erased = told(OpenClawMemReader(), LINES)[-1]

    assert (erased.kind, erased.summary) == ("conversation.assistant", "[REDACTED]")
    assert (erased.payload, erased.refs) == (None, {"redacted": True})
    assert erased.is_redacted


@pytest.mark.parametrize("mark", [1, True, 2, -1, 1.5, "1", "true", "yes", [1]])
def test_any_mark_but_a_no_is_a_redaction(mark: Any) -> None:
    (erased,) = told(OpenClawMemReader(), [line(1, "conversation.user", redacted=mark)])

    assert (erased.summary, erased.payload, erased.is_redacted) == ("[REDACTED]", None, True)


@pytest.mark.parametrize("mark", [None, 0, False, 0.0, "", "0", "False", "no", []])
def test_what_says_that_it_is_not_redacted_stays(mark: Any) -> None:
    (kept,) = told(OpenClawMemReader(), [line(1, "conversation.user", redacted=mark)])

    assert not kept.is_redacted


def test_an_unknown_type_is_kept_whole() -> None:
    strange = line(1, "dream.seen", payload={"of": "sheep"}, mood="blue")

    (event,) = told(OpenClawMemReader(), [strange])

    assert (event.kind, event.refs) == ("ops.observation", {"observed": "dream.seen"})
    assert (event.payload["payload"], event.payload["mood"]) == ({"of": "sheep"}, "blue")


def test_fields_that_it_does_not_know_are_kept() -> None:
    (event,) = told(OpenClawMemReader(), [line(1, payload={"text": "x"}, mood="blue")])

    assert event.payload == {"text": "x", "beside": {"mood": "blue"}}


@pytest.mark.parametrize(
    ("fields", "scope", "summary"),
    [
        ({"scope": None, "summary": "[SCOPE: acme/b] tide"}, "global", "[SCOPE: acme/b] tide"),
        ({"summary": "[SCOPE: acme/b] tide"}, "acme/app", "[SCOPE: acme/b] tide"),
        ({"scope": None}, "global", "event 1"),
        ({"summary": ""}, "acme/app", "conversation.user"),
    ],
)
def test_a_scope_is_named_by_the_row_and_never_by_its_summary(
    fields: dict[str, Any], scope: str, summary: str
) -> None:
    reader = OpenClawMemReader()

    (event,) = told(reader, [line(1, **fields)])

    assert event.summary == summary
    assert reader.sessions["s1"].about == {"scope": scope}


def test_one_id_in_two_scopes_is_two_sessions() -> None:
    reader = OpenClawMemReader()

    events = told(reader, [line(1), line(2, scope="acme/b"), line(3), line(4, scope="acme/b")])

    assert [event.session for event in events] == ["s1", "s1@acme/b", "s1", "s1@acme/b"]
    other = reader.sessions["s1@acme/b"]
    assert (other.about, other.name) == ({"scope": "acme/b"}, "s1")


def test_a_long_summary_is_shortened_and_kept() -> None:
    (event,) = told(OpenClawMemReader(), [line(1, summary="x" * 5_000)])

    assert len(event.summary) < 1_000
    assert event.payload == {"summary": "x" * 5_000}


def test_events_without_an_id_are_told_apart_by_their_content() -> None:
    nameless = line(1, event_id=None)

    events = told(OpenClawMemReader(), [nameless, line(2, event_id=None), nameless])

    assert len({event.key for event in events}) == 3
    assert events[0].key == told(OpenClawMemReader(), [nameless])[0].key


@pytest.mark.parametrize("broken", ["{", "NaN", '"\\ud800"', "[" * 5_000, "1e999"])
def test_json_that_cannot_be_kept_stays_a_text(broken: str) -> None:
    (event,) = told(OpenClawMemReader(), [{**row(line(1)), "payload_json": broken}])

    assert event.payload == broken


def test_what_is_no_event_is_skipped_with_a_reason() -> None:
    skipped = [one.skipped for one in outcomes(OpenClawMemReader(), [[], {"schema": "x"}])]

    assert skipped == ["no event", "no event"]


@pytest.mark.parametrize("cut", range(5))
def test_a_reader_goes_on_where_another_stopped(cut: int) -> None:
    log = [line(1), line(2, scope="acme/b"), line(3, ts_ms=None), line(4, event_id=None)] * 2

    assert told_in_parts(OpenClawMemReader, log, cut) == told(OpenClawMemReader(), log)


def test_only_its_own_lines_and_rows_are_recognised() -> None:
    for log in (LINES, list(map(row, LINES))):
        assert openclaw_mem.score(log)
        assert not any(other.score(log) for other in (pi, tape, apeira_lines))
    assert not openclaw_mem.score([{"type": "conversation.user"}])


def test_its_database_is_read_as_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "openclaw-mem.sqlite"
    database = sqlite3.connect(path)
    database.execute(
        f"CREATE TABLE {TABLE} (id INTEGER PRIMARY KEY AUTOINCREMENT, {', '.join(COLUMNS)}, "
        "search_text)"
    )
    for one in map(row, LINES):
        marks = ", ".join("?" * len(COLUMNS))
        database.execute(
            f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({marks})",
            [one[at] for at in COLUMNS],
        )
    database.commit()
    database.close()

    with open_foreign(path) as opened:
        rows = list(opened.rows(TABLE, COLUMNS))

    assert openclaw_mem.score(rows)
    assert told(OpenClawMemReader(), rows) == told(OpenClawMemReader(), LINES)
