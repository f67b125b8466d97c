"""One actor and one session have one name, however they get into the ledger."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any, Final

import pytest

from treering.app import import_logs
from treering.capture.episodes.bounds import EventLimits
from treering.capture.episodes.extraction import Extracted, SpoolExtractor, TextLimits
from treering.capture.episodes.ingest import Ingest
from treering.capture.secrets import SecretGuard
from treering.formats.openclaw_mem import COLUMNS, ROW_SCHEMA, SPOOL_SCHEMA, TABLE

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger

GUARD: Final = SecretGuard(key=bytes(32))
NOON: Final = 1_772_000_000_000


def database(path: Path, *rows: dict[str, Any]) -> Path:
    """Write a database in openclaw-mem's schema."""
    stated = {"agent_id": "lyria", "type": "conversation.user", "schema_version": ROW_SCHEMA}
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE {TABLE} (id INTEGER PRIMARY KEY, {', '.join(COLUMNS)})")
    for number, row in enumerate(rows):
        told = {"event_id": f"e{number}", "ts_ms": NOON + number, "redacted": 0, **stated, **row}
        marks = ", ".join("?" for _ in told)
        connection.execute(
            f"INSERT INTO {TABLE} ({', '.join(told)}) VALUES ({marks})", list(told.values())
        )
    connection.commit()
    connection.close()
    return path


def test_openclaw_mems_own_database_keeps_its_names_and_its_redactions(
    ledger: Ledger, tmp_path: Path
) -> None:
    path = database(
        tmp_path / "mem.sqlite",
        {"scope": "one scope", "session_id": "sess-9", "summary": "a"},
        {"scope": "other scope", "session_id": "sess-9", "summary": "b", "agent_id": "marcus"},
        {"scope": "other scope", "session_id": "sess-9", "summary": "c", "redacted": 1},
    )

    import_logs(ledger, [path])
    again = import_logs(ledger, [path], again=True)

    kept = {
        scope: [
            (one.session_id, one.agent_id, one.summary, one.redacted)
            for one in ledger.headers(scope, kinds=["conversation.user"]).items
        ]
        for scope in ("one-scope", "other-scope")
    }
    assert kept == {
        "one-scope": [("sess-9", "lyria", "a", False)],
        "other-scope": [("sess-9", "marcus", "b", False), ("sess-9", "lyria", "[REDACTED]", True)],
    }
    assert again.events == 0
    assert ledger.admin.verify().intact


def test_sessions_of_two_scopes_stay_apart_in_the_one_that_is_named(
    ledger: Ledger, tmp_path: Path
) -> None:
    rows = [{"scope": scope, "session_id": "s1", "summary": scope} for scope in ("one", "two")]

    import_logs(ledger, [database(tmp_path / "mem.sqlite", *rows)], scope="acme/app")

    told = ledger.headers("acme/app", kinds=["conversation.user"]).items
    assert [(one.session_id, one.summary) for one in told] == [("s1", "one"), ("s1@two", "two")]


@pytest.mark.parametrize("way", ["append", "ingest", "extract", "import", "database"])
def test_an_agent_has_one_name_in_every_lane(ledger: Ledger, tmp_path: Path, way: str) -> None:
    scope, spool = "openclaw/lyria", tmp_path / "spool.jsonl"
    line = {
        "schema": SPOOL_SCHEMA,
        "event_id": "e1",
        "ts_ms": NOON,
        "scope": scope,
        "session_id": "s1",
        "agent_id": "lyria",
        "type": "conversation.user",
        "summary": "hi",
    }
    folder = tmp_path / "agents" / "lyria" / "sessions"
    folder.mkdir(parents=True)
    rows = [
        {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-03-05T10:00:00.000Z"},
        {"type": "custom", "customType": "model-snapshot", "id": "a0", "data": {}},
        {"type": "message", "id": "a1", "message": {"role": "user", "content": "hi"}},
    ]
    transcript = folder / "s1.jsonl"
    transcript.write_text("".join(json.dumps(row) + "\n" for row in rows))

    if way == "append":
        ledger.session("s1", scope=scope, agent="lyria").record("conversation.user", "hi")
    elif way == "import":
        import_logs(ledger, [transcript])
    elif way == "database":
        import_logs(
            ledger,
            [database(tmp_path / "m.db", {"scope": scope, "session_id": "s1", "summary": "hi"})],
        )
    else:
        if way == "extract":
            SpoolExtractor(
                tmp_path / "agents",
                spool,
                tmp_path / "extract.json",
                guard=GUARD,
                key=lambda: bytes(32),
                limits=TextLimits(payload_bytes=4_096, summary_characters=220),
            ).once(Extracted())
        else:
            spool.write_text(json.dumps(line) + "\n")
        state = tmp_path / "state.json"
        Ingest(ledger, spool, state, guard=GUARD, caps=EventLimits(), location="here").once()

    said = ledger.headers(scope, kinds=["conversation.user"]).items
    assert [(one.agent_id, one.session_id) for one in said] == [("lyria", "s1")]
