"""The file: its permissions and versions, opening it read-only, other tools on it."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import treering
from builders import DAY, HERE, NOON, called, said
from children import run_python
from effort import PATIENCE_S
from ports import store_of
from treering.model.events import Event, Header
from treering.model.queries import pack
from treering.storage.sqlite import schema
from treering.storage.sqlite.opening import connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger

SEED_COLUMNS = [
    "id", "event_id", "ts_ms", "scope", "session_id", "agent_id", "type", "summary",
    "payload_json", "refs_json", "redacted", "schema_version", "created_at",
]  # fmt: skip
GOLDEN = Path(__file__).parent.parent / "golden"


def snapshot(path: Path) -> dict[str, bytes]:
    # From another process: opening the file here and closing it again would drop SQLite's locks.
    code = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    return {
        entry.name: subprocess.run(
            [sys.executable, "-c", code, str(entry)], check=True, capture_output=True
        ).stdout
        for entry in sorted(path.parent.iterdir())
        if entry.is_file()
    }


def test_a_new_ledger_is_its_owners_alone(path: Path) -> None:
    with treering.open(path) as ledger:
        ledger.append([said()])
        files = [file for file in path.parent.iterdir() if file.is_file()]
        for file in files:
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
    assert path in files


def test_a_folder_that_does_not_exist_is_named_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(treering.errors.StorageError, match=r"folder .*nope/er does not exist"):
        treering.open(tmp_path / "nope" / "er" / "ledger.db")

    assert not (tmp_path / "nope").exists()


def test_opening_again_migrates_nothing(path: Path) -> None:
    treering.open(path).close()
    first = snapshot(path)

    treering.open(path).close()

    assert snapshot(path)["ledger.db"] == first["ledger.db"]


def test_a_newer_file_than_the_program_knows_is_refused(path: Path) -> None:
    treering.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(treering.errors.SchemaTooNew, match="schema 99") as refused:
        treering.open(path)
    assert "upgrade" in (refused.value.hint or "")
    with pytest.raises(treering.errors.SchemaTooNew):
        treering.open(path, mode="ro")


def test_the_file_of_another_program_is_not_touched(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    before = snapshot(path)["ledger.db"]

    with pytest.raises(treering.errors.NotALedger):
        treering.open(path)

    assert snapshot(path) == {"ledger.db": before}


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"these are my notes, not a database" * 100)

    with pytest.raises(treering.errors.NotALedger):
        treering.open(path)

    assert path.read_bytes().startswith(b"these are my notes")


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(treering.errors.StorageError) as refused:
        treering.open(tmp_path / "file" / "ledger.db")

    assert refused.value.hint


@pytest.mark.parametrize("location", ["", "mysql://localhost/treering", "file:/tmp/x.db", None])
def test_a_location_that_cannot_be_is_refused(location: str | None) -> None:
    with pytest.raises(treering.InvalidInput) as refused:
        treering.open(location)  # type: ignore[arg-type]

    assert refused.value.hint


def test_a_ledger_that_is_not_there_cannot_be_opened_read_only(path: Path) -> None:
    with pytest.raises(treering.NotFound):
        treering.open(path, mode="ro")

    assert not path.exists()


def test_a_closed_ledger_says_so(path: Path) -> None:
    ledger = treering.open(path)
    ledger.close()
    ledger.close()

    for attempt in (lambda: ledger.append([said()]), lambda: ledger.headers(HERE)):
        with pytest.raises(treering.errors.Closed):
            attempt()


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.db")), ids=lambda file: file.name)
def test_every_released_schema_can_be_opened(golden: Path, path: Path) -> None:
    path.write_bytes(golden.read_bytes())

    with treering.open(path) as ledger:
        assert ledger.admin.verify().intact
        assert [h.summary for h in ledger.headers("golden").items][:2] == [
            "the first ring", "[REDACTED]",
        ]  # fmt: skip
        ledger.append([said("still writing", scope="golden", session_id="g1")])
        assert ledger.admin.verify().intact


def test_there_is_a_golden_file_for_every_schema() -> None:
    versions = set()
    for file in GOLDEN.glob("*.db"):
        with closing(sqlite3.connect(file)) as connection:
            versions.add(connection.execute("PRAGMA user_version").fetchone()[0])

    assert versions == set(range(1, len(schema.migrations()) + 1))


# Read-only.


def test_an_empty_file_is_no_ledger_to_read(path: Path) -> None:
    path.touch()

    with pytest.raises(treering.errors.NotFound, match="the file is empty"):
        treering.open(path, mode="ro")


def fill(ledger: Ledger) -> None:
    ledger.append([said(str(n)) for n in range(20)])


def test_read_only_changes_no_byte_of_a_closed_ledger(path: Path) -> None:
    with treering.open(path) as ledger:
        fill(ledger)
    before = snapshot(path)

    with treering.open(path, mode="ro") as reading:
        assert len(reading.headers(HERE).items) == 20
        assert reading.admin.verify().intact

    assert snapshot(path) == before


WRITER = """
import sys, treering
from treering import NewEvent

def say(text):
    return NewEvent(scope="acme/app", session_id="s1", kind="conversation.user", agent_id="a",
                    summary=text)

ledger = treering.open(sys.argv[1])
ledger.append([say(str(n)) for n in range(20)])
print("ready", flush=True)
for line in sys.stdin:
    ledger.append([say(line.strip())])
    print("done", flush=True)
"""


def test_read_only_changes_no_byte_of_a_live_ledger_and_reads_along(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        before = snapshot(path)
        with treering.open(path, mode="ro") as reading:
            assert len(reading.headers(HERE).items) == 20
            assert snapshot(path) == before
            writer.stdin.write("more\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == "done\n"
            assert len(reading.headers(HERE).items) == 21
        writer.stdin.close()


def test_read_only_reads_what_a_crash_left_in_the_log(path: Path) -> None:
    code = (
        "import os, sys, treering\n"
        "from treering import NewEvent\n"
        "ledger = treering.open(sys.argv[1])\n"
        "ledger.append([NewEvent(scope='acme/app', session_id='s1', kind='conversation.user',"
        " agent_id='a', summary=str(n)) for n in range(20)])\n"
        "os._exit(9)\n"
    )
    run_python(code, path, status=9)
    before = snapshot(path)
    assert len(before["ledger.db-wal"]) > 0

    with treering.open(path, mode="ro") as reading:
        assert len(reading.headers(HERE).items) == 20

    assert snapshot(path) == before


def test_a_read_only_copy_survives_a_fork(path: Path) -> None:
    with treering.open(path) as ledger:
        fill(ledger)
    reading = treering.open(path, mode="ro")
    child = multiprocessing.get_context("fork").Process(target=reading.close)

    child.start()
    child.join(PATIENCE_S)

    assert len(reading.headers(HERE).items) == 20
    reading.close()


KILLED_READER = """
import os, signal, sys
import treering

if sys.argv[2] == "while copying":
    def kill(event, arguments):
        if event == "shutil.copyfileobj" or event == "open" and str(arguments[0]) == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(kill)
ledger = treering.open(sys.argv[1], mode="ro")
assert len(ledger.headers("acme/app").items) == 20
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moment", ["while copying", "while reading"])
def test_a_read_only_reader_that_is_killed_leaves_nothing_behind(
    path: Path, tmp_path: Path, moment: str
) -> None:
    with treering.open(path) as ledger:
        fill(ledger)
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    run_python(
        KILLED_READER,
        path,
        moment,
        status=-signal.SIGKILL,
        env=os.environ | {"TMPDIR": str(temporary)},
    )

    assert list(temporary.iterdir()) == []


def test_read_only_refuses_to_write(path: Path) -> None:
    treering.open(path).close()
    with treering.open(path, mode="ro") as reading:
        for attempt in (
            lambda: reading.append([said()]),
            lambda: reading.redact(HERE, session_id="s1"),
            lambda: reading.expire(HERE),
            lambda: reading.set_retention(HERE, {}),
        ):
            with pytest.raises(treering.errors.ReadOnly) as refused:
                attempt()
            assert refused.value.hint


# Other tools.


def test_the_view_has_exactly_the_columns_of_the_seed(path: Path) -> None:
    """A read-only view ``episodic_events``, so that people can query the file with any tool."""
    with treering.open(path) as ledger:
        ledger.append([said("hello", event_id="e1", ts_ms=NOON, refs={"f": 1})])
        uuid = ledger.append([said("generated", ts_ms=NOON + 1)])[0].event_id
        ledger.append([called(event_id="old", ts_ms=NOON + 2)])
        ledger.append([said("erased", event_id="e3", ts_ms=NOON + 3)])
        ledger.redact(HERE, event_id="e3")
        ledger.expire(HERE, now_ms=NOON + 45 * DAY)
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute("SELECT * FROM episodic_events WHERE type NOT LIKE 'ledger.%'")

        assert [column[0] for column in cursor.description] == SEED_COLUMNS
        rows = [row[1:12] for row in cursor]
        assert rows == [
            ("e1", NOON, HERE, "s1", "lyria", "conversation.user", "hello", '{"text":"hello"}',
             '{"f":1}', 0, "openclaw-mem.episodic.v0"),
            (uuid, NOON + 1, HERE, "s1", "lyria", "conversation.user", "generated",
             '{"text":"generated"}', None, 0, "openclaw-mem.episodic.v0"),
            ("e3", NOON + 3, HERE, "s1", "lyria", "conversation.user", "[REDACTED]", '"[REDACTED]"',
             None, 1, "openclaw-mem.episodic.v0"),
        ]  # fmt: skip
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("DELETE FROM episodic_events")


def test_a_statement_is_prepared_once_whatever_values_are_bound(path: Path) -> None:
    prepared_again: list[str] = []

    def count(connection: apsw.Connection) -> None:
        def look(event: dict[str, Any]) -> None:
            if event["stmt_status"]["SQLITE_STMTSTATUS_REPREPARE"]:
                prepared_again.append(event["sql"])

        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, look)

    def use(ledger: Ledger) -> None:
        for session in ("s1", "s2"):
            ledger.headers(HERE, session_id=session)
            ledger.session(session, scope=HERE, agent="lyria").context(1_000)
            ledger.search("hello", scope=HERE)

    with treering.open(path) as ledger:
        ledger.append([said(session_id=session) for session in ("s1", "s2")])
        use(ledger)  # A new schema has every statement prepared again, once.
        apsw.connection_hooks.append(count)
        try:
            with treering.open(path, mode="ro") as reading:
                use(reading)
            with treering.open(path) as writing:
                for session in ("s1", "s2"):
                    writing.append([said(session_id=session)])
                use(writing)
        finally:
            apsw.connection_hooks.remove(count)

    assert prepared_again == []


def planner(path: Path) -> Callable[[str, object], str]:
    """Return what tells how a new ledger finds the rows of a statement."""
    treering.open(path).close()
    connection = connect(str(path))

    def plan(statement: str, bindings: object) -> str:
        cursor = connection.execute("EXPLAIN QUERY PLAN " + statement, bindings)  # type: ignore[arg-type]
        return "\n".join(str(row[3]) for row in cursor)

    return plan


def test_every_hot_query_uses_its_index(path: Path) -> None:
    from treering.model.queries import Query, TimelinePoint
    from treering.model.scopes import Scope
    from treering.storage.sqlite import indexes, reader, rows

    plan = planner(path)

    def by_time(query: Query) -> tuple[str, str]:
        scope, session = indexes.times_in_scope(1, [2], [2, 3]), indexes.times_in_session(1, [])
        return (
            plan(*indexes.time_statement(query, scope, rows.HEADER, "")),
            plan(*indexes.time_statement(query, session, rows.HEADER, "")),
        )

    for backwards in (False, True):
        paging = Query(scope=Scope("s"), after=TimelinePoint(1, 1), backwards=backwards)
        in_scope, in_session = by_time(paging)
        sign = "<" if backwards else ">"
        assert (
            f"t USING PRIMARY KEY (scope=? AND kind=? AND (ts_ms,position){sign}(?,?))" in in_scope
        )
        assert f"t USING PRIMARY KEY (session=? AND (ts_ms,position){sign}(?,?))" in in_session
        window = Query(scope=Scope("s"), since_ms=1, until_ms=2, backwards=backwards)
        in_scope, in_session = by_time(window)
        assert "t USING PRIMARY KEY (scope=? AND kind=? AND ts_ms>? AND ts_ms<?)" in in_scope
        assert "t USING PRIMARY KEY (session=? AND ts_ms>? AND ts_ms<?)" in in_session
        assert "MERGE (UNION ALL)" in in_scope
        assert "SEARCH e USING INTEGER PRIMARY KEY (rowid>?)" in in_scope
        assert "SEARCH e USING INTEGER PRIMARY KEY (rowid>?)" in in_session
        assert "SCAN e" not in in_scope + in_session
        assert "contents" not in in_scope + in_session
    asked = {"session": 1, "after": 0, "before": 9, "limit": 5, "mark": 3}
    state = plan(indexes.SESSION_STATE, (1,))
    assert "SEARCH seqs_by_session USING PRIMARY KEY (session=?)" in state
    assert "SEARCH heads USING INTEGER PRIMARY KEY (rowid=?)" in state
    for halves in (reader.BY_SEQ[Header], reader.LAST_BY_SEQ[Header]):
        indexed, tail = plan(halves.indexed, asked), plan(halves.tail, asked)
        assert "SEARCH t USING PRIMARY KEY (session=? AND seq>? AND seq<?)" in indexed
        assert "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)" in indexed
        assert tail == "SEARCH e USING INTEGER PRIMARY KEY (rowid>?)"
        assert "TEMP B-TREE" not in indexed
        assert "contents" not in indexed
    for stretch in (*reader.FOLLOWED.values(), reader.ALL_RECORDS):
        following = plan(stretch, (0, 9, 1, 5))
        assert "SEARCH e USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in following
        assert "INDEX" not in following
    by_id = plan(f"SELECT {indexes.position_of_id('?1', '?2')}", (1, b"x"))
    assert "SEARCH ids_by_scope USING PRIMARY KEY (scope=? AND event_id=?)" in by_id
    assert "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)" in by_id
    assert "SCAN events" not in by_id
    assert "by_blob (blob=?)" in plan("SELECT 1 FROM contents WHERE blob = ? LIMIT 1", (1,))


def test_open_runs_are_found_by_their_indexes(path: Path) -> None:
    from treering.storage.sqlite import runs

    plan = planner(path)
    is_open = "SELECT 1 FROM runs WHERE runs.session = ? AND runs.state = 0"
    assert "runs_open (session=?)" in plan(is_open, (1,))
    owned = {"started": 1, "owned": True, "limit": 9}
    told = plan(runs.OPEN_IN_SESSION, {"session": 1, **owned})
    assert "SEARCH r USING INDEX runs_open (session=?)" in told
    listed = plan(runs.ALL_OPEN, {"scope": None, "name": None, **owned})
    assert "SCAN r USING INDEX runs_open" in listed
    assert "SCAN runs USING COVERING INDEX runs_open" in plan(runs.RUNNING, (HERE,))
    begun = plan(runs.ALL_STARTED, {"scope": None, "name": None, **owned})
    assert "SEARCH t USING PRIMARY KEY (scope=? AND kind=?)" in begun
    assert "SEARCH r USING INDEX sqlite_autoindex_runs_1 (session=? AND run=?)" in begun
    assert "SCAN e" not in begun
    for found in (told, listed):
        assert "seqs_by_session USING PRIMARY KEY (session=? AND seq=?)" in found
        assert found.replace("SCAN CONSTANT ROW", "").count("SCAN") == (found is listed)


def test_a_payload_that_is_erased_while_it_is_read_is_exported_as_erased(tmp_path: Path) -> None:
    source, target = treering.open(tmp_path / "source.db"), treering.open(tmp_path / "target.db")
    source.append([said("large", event_id="big", payload={"t": "long " * 5_000})])
    blobs = store_of(source).reader.blobs  # type: ignore[attr-defined]

    class Erasing(dict[int, bytes | None]):
        def __missing__(self, blob: int) -> bytes | None:
            source.redact(HERE, event_id="big")
            return blobs[blob]  # type: ignore[no-any-return]

    store_of(source).reader.blobs = Erasing()  # type: ignore[attr-defined]

    stream = io.BytesIO()
    source.admin.export(HERE, stream, payloads="included")
    receipt = target.admin.restore(io.BytesIO(stream.getvalue()))
    redacted = [event.redacted for event in target.follow_events(HERE, idle_s=0)]
    source.close()
    target.close()

    assert (receipt.complete, receipt.errors_sample) == (True, [])
    assert redacted == [True, False]


def test_a_cursor_of_version_0_1_is_still_good(tmp_path: Path) -> None:
    with treering.open(tmp_path / "ledger.db") as ledger:
        headers = ledger.append([said(str(n)) for n in range(3)])
        kept = pack((HERE, headers[0].position))

        followed = list(ledger.follow(HERE, after=kept, idle_s=0))

    assert [header.summary for header in followed] == ["1", "2"]


# Looks that whoever is about to write takes, by the connection that writes.


def test_a_look_before_a_write_waits_for_nobody_who_writes(path: Path) -> None:
    with treering.open(path) as ledger:
        store: Any = store_of(ledger)
        ledger.append([said(kind="run.started", run_id="r1"), said(run_id="r1")])
        lock, held, over = store._database.lock, threading.Event(), threading.Event()

        def write() -> None:
            with lock.guard, lock:
                held.set()
                over.wait(PATIENCE_S)

        writer = threading.Thread(target=write)
        writer.start()
        assert held.wait(PATIENCE_S)
        try:
            with ThreadPoolExecutor(1) as pool:
                runs = pool.submit(store.reader.open_runs, HERE, "s1").result(PATIENCE_S / 2)
                first = pool.submit(store.reader.by_seq, Event, HERE, "s1", after_seq=0, limit=1)
                events = first.result(PATIENCE_S / 2)
        finally:
            over.set()
            writer.join(PATIENCE_S)

    assert [run.run_id for run in runs] == ["r1"]
    assert [event.kind for event in events] == ["run.started"]


def test_a_look_from_inside_a_write_sees_what_is_committed(path: Path) -> None:
    seen = []
    with treering.open(path) as ledger:
        store: Any = store_of(ledger)
        ledger.append([said(kind="run.started", run_id="r1")])

        def work(batch: Any, _: None) -> None:
            batch.connection.execute("UPDATE runs SET state = 1")
            seen.extend(store.reader.open_runs(HERE, "s1"))

        store._writer.transact(work, None)

    assert [run.run_id for run in seen] == ["r1"]


def test_a_name_that_another_process_has_added_is_the_same_name(path: Path) -> None:
    with treering.open(path) as ledger, treering.open(path) as other:
        ledger.append([said(run_id="r1")])
        other.append([said(run_id="r1"), said(run_id="r2")])
        ledger.append([said(run_id="r2")])

        headers = ledger.session("s1", scope=HERE, agent="lyria").headers()
        assert [(one.run_id, one.run_seq) for one in headers] == [
            ("r1", 1),
            ("r1", 2),
            ("r2", 1),
            ("r2", 2),
        ]
        assert ledger.admin.verify().intact
