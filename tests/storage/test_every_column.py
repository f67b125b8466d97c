"""Every table and column of a ledger's files, changed behind its back: verify finds it.

What it cannot find is listed here, each with the reason why it proves nothing.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, called, run_of, said
from ports import store_of
from treering.ledger.lineage import Lineage
from treering.ledger.views import Views
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMPANIONS: Final = (".memory", ".search")
UNUSED: Final = "nothing refers to it"
TOMBSTONE: Final = "of an expired event only its place, its link and its voucher are proved"
SETTING: Final = "a setting, and no event: docs/explanation/integrity.md says that it is not proved"
PROGRESS: Final = "how far a follower has come: that may be anywhere up to the last event"
REPEATED: Final = "whoever lacks it derives it again from the events"
ALLOWED: Final[dict[tuple[str, str], str]] = {
    ("ledger id", "*"): "tells leases of one ledger from those of its copies",
    ("ledger created_ms", "*"): "no event depends on when the file was made",
    ("ledger erasure_pending", "*"): "says that bytes are to be driven out: doctor looks for them",
    ("ledger *", "name doubled"): UNUSED,
    ("ledger forgettings", "*"): "tells other processes to read names again",
    ("ledger hidden_ids", "value changed"): "it is noted by being there",
    ("ledger tools_seen", "deleted"): REPEATED,
    ("ledger tools_seen", "name changed"): REPEATED,
    ("retention", "*"): SETTING,
    ("cursors", "*"): PROGRESS,
    ("snapshots", "*"): f"{REPEATED}; one that does not fit its digest and seq is not read",
    ("names unused", "*"): UNUSED,
    ("events expired", "event_id changed"): TOMBSTONE,
    ("events expired", "kind changed"): TOMBSTONE,
    ("events expired", "flags changed"): TOMBSTONE,
    ("events expired", "schema_version changed"): TOMBSTONE,
}
"""What cannot be found, by table and change, and why that proves nothing."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of a ledger that has a row in every table."""
    path = tmp_path_factory.mktemp("template") / "ledger.db"
    with treering.open(path) as ledger:
        for scope in (HERE, ELSEWHERE):
            ledger.append(
                [
                    said("one", scope=scope, event_id="e1", user_id="u1", origin="kernel"),
                    said("two", scope=scope, refs={"file": "a.py"}, turn_id="t1"),
                    said("erased", scope=scope, event_id="e3"),
                    said("large", scope=scope, payload={"text": scope * 2_000}),
                    called(scope=scope, event_id="expired", ts_ms=NOON),
                    said("call", kind="tool.call", scope=scope, refs={"call_id": "c", "tool": "t"}),
                    *(
                        said("got", kind="tool.result", scope=scope, refs={"call_id": "c"} | more)
                        for more in ({"status": "ok"}, {"status": "failed"}, {"status": "ok"})
                    ),
                    *run_of("r1", "run", scope=scope, session_id="s2"),
                ]
            )
            ledger.session("s1", scope=scope, agent="lyria").fork("branch")
            ledger.append([said("on the branch", scope=scope, session_id="branch")])
            ledger.redact(scope, event_id="e3")
            ledger.expire(scope, policy={"tool.call": 30}, now_ms=NOON + 45 * DAY)
            ledger.set_retention(scope, {"ops.alert": 90})
            store_of(ledger).cursors.set(Scope(scope), "sink", ledger.end_cursor(scope))
            memory = ledger.memory(scope)
            memory.learn("Lives in Porto", user="ann")
            ledger.tool_calls(scope)
            ledger.search("large", scope=scope)
            memory.recall("Where does ann live?", user="ann", record=False)
        ledger.admin.rebuild()
        for scope in (HERE, ELSEWHERE):
            Views(Lineage(store_of(ledger), Scope(scope), "s1"), snapshot_events=0).usage()
        proof = ledger.admin.verify(derived=True)
        assert proof.intact, proof.first_broken
    return path


def copied(template: Path, folder: Path) -> Path:
    for suffix in ("", *COMPANIONS):
        shutil.copyfile(f"{template}{suffix}", folder / f"ledger.db{suffix}")
    return folder / "ledger.db"


def tables_of(file: str) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            " AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
        )
        return [row[0] for row in found]


class Table(NamedTuple):
    """One table of a file, to be changed."""

    file: str
    name: str
    columns: list[tuple[str, str]]
    rows: list[str]
    """Conditions, each of which names one row."""

    @classmethod
    def read(cls, file: str, name: str) -> Table:
        with closing(sqlite3.connect(file)) as connection:
            found = connection.execute(f"PRAGMA table_info({name})").fetchall()
            columns = [(row[1], row[2]) for row in found]
            try:
                rows = connection.execute(f"SELECT rowid FROM {name}").fetchall()
                named = [f"rowid = {row[0]}" for row in rows]
            except sqlite3.OperationalError:
                # It has a key instead.
                keys = [row[1] for row in found if row[5]]
                told = " || ' AND ' || ".join(f"'{key} = ' || quote({key})" for key in keys)
                rows = connection.execute(f"SELECT {told} FROM {name}").fetchall()
                named = [row[0] for row in rows]
        return cls(file, name, columns, named)

    def changes(self, row: str) -> Iterator[tuple[str, str]]:
        """Return all that is done to one row: what that is, and its statement."""
        names = [name for name, _ in self.columns]
        yield "deleted", f"DELETE FROM {self.name} WHERE {row}"
        for name, sort in self.columns:
            changed = changed_value(name, sort)
            others = [other for other in names if other != name]
            column = f"UPDATE {self.name} SET {name} ="
            yield f"{name} changed", f"{column} {changed} WHERE {row}"
            yield f"{name} emptied", f"{column} NULL WHERE {row} AND {name} IS NOT NULL"
            into = f"INSERT INTO {self.name} ({', '.join([name, *others])})"
            values = ", ".join([changed, *others])
            yield f"{name} doubled", f"{into} SELECT {values} FROM {self.name} WHERE {row}"

    def place(self, row: str) -> str:
        """Return the name under which a row is allowed to change."""
        if self.name not in {"events", "ledger", "names"}:
            return self.name
        with closing(sqlite3.connect(self.file)) as connection:
            if self.name == "events":
                flags = connection.execute(f"SELECT flags FROM events WHERE {row}").fetchone()
                return "events expired" if flags[0] >= 64 else "events"
            found = f"SELECT name, rowid FROM {self.name} WHERE {row}"
            name, number = connection.execute(found).fetchone()
            if self.name == "ledger":
                return f"ledger {name}"
            used = " OR ".join(
                f"{column} = {number}"
                for column in ("kind", "source", "origin", "run", "turn", "agent", "user")
            )
            count = connection.execute(f"SELECT count(*) FROM events WHERE {used}").fetchone()
            return "names" if count[0] else "names unused"


def changed_value(name: str, sort: str) -> str:
    values = {
        "INTEGER": f"coalesce({name}, 0) + 1",
        "BLOB": f"randomblob(max(coalesce(length({name}), 0), 16))",
        "ANY": f"CASE typeof({name}) WHEN 'integer' THEN {name} + 1"
        f" WHEN 'blob' THEN randomblob(32) ELSE {name} || 'x' END",
    }
    return values.get(sort, f"coalesce({name}, '') || 'x'")


def is_changed(file: str, statement: str) -> bool:
    """Whether a statement goes through, and changes something."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA writable_schema = on")  # Also the tables behind an index.
        before = connection.total_changes
        try:
            connection.execute(statement)
        except sqlite3.Error:
            return False
        connection.commit()
        return connection.total_changes > before


def is_found(path: Path) -> bool:
    try:
        with treering.open(path) as ledger:
            return not ledger.admin.verify(derived=True).intact
    except treering.TreeringError:
        return True


def answers(path: Path) -> list[object]:
    """Return what a ledger finds by its companions."""
    with treering.open(path) as ledger:
        memory = ledger.memory(HERE)
        facts = [fact.text for fact in memory.facts(user="ann").items]
        recalled = memory.recall("Where does ann live?", user="ann", record=False)
        hits = ledger.search("large", scope=HERE).sessions
        return [facts, recalled.facts, [hit.session_id for hit in hits]]


def missed(tables: list[Table], template: Path, folder: Path, *, every: bool) -> list[object]:
    left: list[object] = []
    told = answers(copied(template, folder))
    for table in tables:
        # Each row of the ledger's own notes means something else.
        is_mixed = table.name == "ledger"
        for row in table.rows if every or is_mixed else [table.rows[len(table.rows) // 2]]:
            place = table.place(row)
            for change, statement in table.changes(row):
                if {(place, "*"), (place, change), (f"{table.name} *", change)} & set(ALLOWED):
                    continue
                path = copied(template, folder)
                file = table.file.replace(str(template), str(path))
                if not is_changed(file, statement) or is_found(path):
                    continue
                # A companion may also be thrown away, and made again.
                if file == str(path) or answers(path) != told:
                    left.append((table.name, change, row))
    return left


def filled(template: Path, suffix: str = "") -> list[Table]:
    file = f"{template}{suffix}"
    tables = [Table.read(file, name) for name in tables_of(file)]
    return [table for table in tables if table.rows]


def test_every_table_of_the_ledger_has_a_row_to_change(template: Path) -> None:
    # What earlier versions erased is seen to on opening, so its list is empty.
    settled = {"legacy_events"}
    found = {table.name for table in filled(template)}
    assert found == set(tables_of(str(template))) - settled


def test_whatever_one_statement_does_to_the_ledger_is_found(template: Path, tmp_path: Path) -> None:
    assert missed(filled(template), template, tmp_path, every=False) == []


@pytest.mark.parametrize("suffix", COMPANIONS)
def test_whatever_one_statement_does_to_a_companion_is_found_or_changes_no_answer(
    template: Path, tmp_path: Path, suffix: str
) -> None:
    assert missed(filled(template, suffix), template, tmp_path, every=False) == []


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["", *COMPANIONS])
def test_every_row_of_every_table_is_proved(template: Path, tmp_path: Path, suffix: str) -> None:
    assert missed(filled(template, suffix), template, tmp_path, every=True) == []
