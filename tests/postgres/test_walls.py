"""Promise 3, in the database itself: whatever a role asks for, it gets its own scope."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, called, run_of, said
from ports import store_of
from postgres_places import Place
from treering.errors import NotPermitted
from treering.memory.records import IndexEntry, Row
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from postgres_server import Server
    from treering import Ledger

TABLES: Final = (
    *("scopes", "seals", "sessions", "heads", "events", "blobs", "runs", "retention"),
    *("cursors", "tool_calls", "tool_extras", "tool_marks", "forks", "snapshots"),
    "record_keys",
    *("search_documents", "search_marks", "episodic_events"),
    *("memory_rows", "memory_marks", "memory_shelves", "memory_documents"),
)
PARTS: Final = (
    *("events_00", "events_01", "blobs_00", "blobs_01"),
    *("search_documents_00", "search_documents_01"),
    *("memory_documents_00", "memory_documents_01"),
)
MARK: Final = "their-"
"""Stands in all that the other scope holds."""


class Guarded(Place):
    """A ledger with two scopes, and a role of each sort for the first of them."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.administration.init(partitions=2)
        self.application = self.role(None)
        self.held = self.role(HERE)
        # Somebody else is held to the other scope, so that there is a grant not to be seen.
        self.role(ELSEWHERE)
        with treering.open(self.url) as ledger:
            fill(ledger, HERE, "our-")
            fill(ledger, ELSEWHERE, MARK)
        self.sql(f"INSERT INTO seals (scope, round) VALUES ('{HERE}', 1), ('{ELSEWHERE}', 1)")
        self.sql("ANALYZE events, blobs, sessions, runs")


def fill(ledger: Ledger, scope: str, mark: str) -> None:
    """Put something into every table, with ``mark`` in every text."""
    names = {
        "scope": scope,
        "session_id": f"{mark}session",
        "agent_id": f"{mark}agent",
        "user_id": f"{mark}user",
        "turn_id": f"{mark}turn",
    }
    ledger.append(run_of(f"{mark}run", f"{mark}words", **names))
    ledger.append(
        [
            said(
                f"{mark}summary",
                event_id=f"{mark}event",
                refs={"file": f"{mark}file"},
                payload=f"{mark}payload" * 1_000,
                **names,
            )
        ]
    )
    ledger.set_retention(scope, {"tool.call": 7})
    store_of(ledger).cursors.set(Scope(scope), f"{mark}sink", f"{mark}cursor")
    tool = {"call_id": f"{mark}call", "tool": f"{mark}tool"}
    called = [said("x", kind=kind, refs=tool, **names) for kind in ("tool.call", "tool.result")]
    ledger.append([*called, called[1]])
    ledger.tool_calls(scope)
    ledger.admin.index(scope)
    [draft] = ledger._drafter.draft([said("x", **names | {"session_id": f"{mark}fork"})])
    store_of(ledger).fork(draft, parent=f"{mark}session", seq=2)
    store_of(ledger).snapshots.keep(Scope(scope), f"{mark}fork", seq=3, body=b"1")
    ledger.records(scope, f"{mark}records", session_id=f"{mark}session").put(f"{mark}key", mark)
    remember(ledger, Scope(scope), mark)


def remember(ledger: Ledger, scope: Scope, mark: str) -> None:
    """Put something into every table of the memory."""
    store = store_of(ledger)
    store.memory.follow_documents(
        scope,
        "events",
        lambda events: [
            IndexEntry(event.position, f"{mark}term".encode(), b"") for event in events
        ],
        embedder="",
    )
    rows = [Row("fact", f"{mark}fact", f"{mark}body".encode())]
    assert store.memory.keep_memory_rows(scope, rows, since=(), until=(0, 0, 1), replace=False)


@pytest.fixture(scope="module")
def guarded(server: Server) -> Guarded:
    return Guarded(server)


def scopes_seen(place: Place, table: str, role: str, stating: str | None) -> set[str]:
    rows = place.sql(f"SELECT scope FROM {table}", role=role, stating=stating)
    return {row[0] for row in rows}


# What is seen.


@pytest.mark.parametrize("table", TABLES)
def test_an_application_sees_what_it_states_and_without_that_nothing(
    guarded: Guarded, table: str
) -> None:
    for stating in (None, "", "acme/none", "%"):
        assert scopes_seen(guarded, table, guarded.application, stating) == set()
    for stating in (HERE, ELSEWHERE):
        assert scopes_seen(guarded, table, guarded.application, stating) == {stating}


@pytest.mark.parametrize("table", TABLES)
def test_a_held_role_sees_its_scope_whatever_it_states(guarded: Guarded, table: str) -> None:
    for stating in (None, "", HERE, ELSEWHERE):
        assert scopes_seen(guarded, table, guarded.held, stating) == {HERE}


@pytest.mark.parametrize("table", TABLES)
def test_whoever_was_granted_nothing_gets_nowhere(guarded: Guarded, table: str) -> None:
    stranger = f"{guarded.schema}_{table}"
    guarded.sql(f"CREATE ROLE {stranger} LOGIN")

    with pytest.raises(InsufficientPrivilege):
        guarded.sql(f"TABLE {guarded.schema}.{table}", role=stranger, stating=HERE)


def test_a_role_sees_its_own_grants_only(guarded: Guarded) -> None:
    assert guarded.sql("TABLE grants", role=guarded.held) == [(guarded.held, HERE)]
    assert guarded.sql("TABLE grants", role=guarded.application, stating=ELSEWHERE) == []


def test_a_partition_shows_nothing_even_to_whom_it_was_opened(server: Server) -> None:
    """Policies hold where a query begins, and a partition is another beginning."""
    guarded = Guarded(server)
    for role in (guarded.application, guarded.held):
        for table in PARTS:
            with pytest.raises(InsufficientPrivilege):
                guarded.sql(f"TABLE {table}", role=role, stating=HERE)

            guarded.sql(f"GRANT ALL ON {table} TO {role}")

            assert guarded.sql(f"TABLE {table}", role=role, stating=HERE) == []
            assert guarded.sql(f"DELETE FROM {table} RETURNING *", role=role, stating=HERE) == []


def test_every_table_that_has_a_scope_has_both_walls(place: Place) -> None:
    found = place.sql(
        "SELECT c.relname, c.relrowsecurity,"
        " (SELECT count(*) FROM pg_policy AS p WHERE p.polrelid = c.oid)"
        " FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'scope'"
        " WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p')",
        place.schema,
    )

    parts = set(PARTS)
    # Nobody but the owner reads what is left from before the ledger was rekeyed.
    tables = {*TABLES, "grants", "legacy_events"} - {"episodic_events"}
    policies = {"grants": 1, "legacy_events": 0} | dict.fromkeys(parts, 0)
    assert set(found) == {(name, True, policies.get(name, 2)) for name in tables | parts}


# What can be written.

WALLED: Final = [table for table in TABLES if table != "episodic_events"]


@pytest.mark.parametrize("sort", ["application", "held"])
@pytest.mark.parametrize("table", WALLED)
def test_no_row_can_be_put_into_another_scope(guarded: Guarded, sort: str, table: str) -> None:
    """Not even one that is like a row of its own in all but the scope."""
    # The id of a session is the ledger's to give: see below.
    found = guarded.sql(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
        " AND (attrelid, attname) <> ('sessions'::regclass, 'id') ORDER BY attnum",
        table,
    )
    columns = ", ".join(row[0] for row in found)
    moved = ", ".join(f"'{ELSEWHERE}'" if row[0] == "scope" else row[0] for row in found)

    with pytest.raises(InsufficientPrivilege, match="row-level security"):
        guarded.sql(
            f"INSERT INTO {table} ({columns}) SELECT {moved} FROM {table} LIMIT 1",
            role=getattr(guarded, sort),
            stating=HERE,
        )


@pytest.mark.parametrize("sort", ["application", "held"])
@pytest.mark.parametrize("overriding", ["", "OVERRIDING SYSTEM VALUE"])
def test_no_session_can_be_given_the_id_of_another_scope_s(
    guarded: Guarded, sort: str, overriding: str
) -> None:
    [(theirs,), _] = guarded.sql("SELECT id FROM sessions WHERE scope = %s", ELSEWHERE)
    row = f"SELECT scope, {theirs}, 'x', name, salt, genesis FROM sessions"

    for statement in (
        f"INSERT INTO sessions (scope, id, key, name, salt, genesis) {overriding} {row}",
        f"INSERT INTO sessions {overriding} {row}",
        f"UPDATE sessions SET id = {theirs}",
        f"SELECT setval('sessions_id_seq', {theirs}, false)",
    ):
        with pytest.raises(InsufficientPrivilege, match="permission denied"):
            guarded.sql(statement, role=getattr(guarded, sort), stating=HERE)

    assert guarded.sql("SELECT count(*) FROM sessions WHERE id = %s", theirs) == [(1,)]


@pytest.mark.parametrize("scopes", [(HERE, ELSEWHERE), (ELSEWHERE, HERE)])
def test_sessions_of_two_scopes_that_have_the_same_id_keep_their_names_apart(
    place: Place, scopes: tuple[str, str]
) -> None:
    names = {HERE: "our-session", ELSEWHERE: "their-session"}
    with treering.open(place.url) as ledger:
        for scope, name in names.items():
            ledger.append([said(scope=scope, session_id=name, event_id="e1")])
    for table, column in (("sessions", "id"), ("heads", "session"), ("events", "session")):
        place.sql(f"UPDATE {table} SET {column} = 1")

    with treering.open(place.url) as ledger:
        for scope in scopes * 2:
            assert {header.session_id for header in ledger.headers(scope).items} == {names[scope]}
            ledger.append([said("more", scope=scope, session_id=names[scope])])
        for scope in scopes:
            assert ledger.redact(scope, event_id="e1").redacted_count == 1
            followed = ledger.follow(scope, idle_s=0)
            assert {header.session_id for header in followed} == {names[scope]}
        assert ledger.admin.verify().intact


@pytest.mark.parametrize("sort", ["application", "held"])
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET summary = 'x', flags = 66",
        "UPDATE heads SET seq = 0, link = 'x'",
        "UPDATE runs SET state = 0",
        "UPDATE seals SET round = 0",
        "UPDATE blobs SET key = 'x'",
        "UPDATE cursors SET cursor = 'x'",
        "UPDATE snapshots SET body = 'x'",
        "DELETE FROM blobs",
        "UPDATE memory_rows SET body = 'x'",
        "UPDATE memory_documents SET terms = 'x'",
        "DELETE FROM snapshots",
        "DELETE FROM memory_documents",
        "DELETE FROM retention",
    ],
)
def test_no_row_of_another_scope_can_be_changed_or_removed(
    guarded: Guarded, sort: str, change: str
) -> None:
    table = change.split()[1 if change.startswith("UPDATE") else 2]
    theirs = f"SELECT t::text FROM {table} AS t WHERE scope = '{ELSEWHERE}' ORDER BY 1"
    before = guarded.sql(theirs)

    changed = guarded.sql(
        f"{change} WHERE scope = '{ELSEWHERE}' RETURNING *",
        role=getattr(guarded, sort),
        stating=HERE,
    )

    assert changed == []
    assert guarded.sql(theirs) == before


@pytest.mark.parametrize("sort", ["application", "held"])
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events",
        *(
            f"UPDATE events SET {column} = {column}"
            for column in (
                *("position", "session", "seq", "link", "kind", "scope", "event_id", "xid"),
                *("epoch", "schema_version", "run_id"),
            )
        ),
        "DELETE FROM sessions",
        "DELETE FROM heads",
        "DELETE FROM scopes",
        "DELETE FROM runs",
        "DELETE FROM cursors",
        "DELETE FROM forks",
        "UPDATE forks SET seq = 1",
        "UPDATE forks SET parent = session",
        "UPDATE cursors SET follower = 'x'",
        "UPDATE sessions SET name = 'x'",
        "UPDATE scopes SET key = 'x'",
        "UPDATE heads SET session = 1",
        "UPDATE runs SET first_seq = 1",
        "UPDATE blobs SET body = 'x'",
        "UPDATE blobs SET scope = 'x'",
        "TRUNCATE events",
        "TRUNCATE blobs",
        "UPDATE ledger SET value = '9'",
        "DELETE FROM ledger",
        "INSERT INTO grants VALUES (current_user, 'acme/other')",
        "UPDATE grants SET scope = 'acme/other'",
        "DELETE FROM grants",
        "SELECT setval('event_positions', 1)",
        "ALTER TABLE events DISABLE ROW LEVEL SECURITY",
        "DROP POLICY stated ON events",
        "CREATE POLICY mine ON events USING (true)",
        "CREATE TABLE mine (x int)",
        "DROP TABLE events",
        "DROP FUNCTION enter_epoch()",
        "CREATE TRIGGER spy BEFORE INSERT ON events EXECUTE FUNCTION suppress_redundant_updates()",
        "COPY events TO '/tmp/events'",
    ],
)
def test_what_was_recorded_cannot_be_unmade(guarded: Guarded, sort: str, statement: str) -> None:
    with pytest.raises(InsufficientPrivilege):
        guarded.sql(statement, role=getattr(guarded, sort), stating=HERE)


# Hostile SQL, by a role that is held to a scope.

LEAK: Final = """
CREATE FUNCTION pg_temp.leak(said text) RETURNS boolean COST 0.0000001 LANGUAGE plpgsql AS
$$ BEGIN RAISE NOTICE '%', said; RETURN true; END $$;
"""
MERGE: Final = """
MERGE INTO retention AS r USING events AS e ON r.scope <> e.scope
WHEN MATCHED THEN DELETE RETURNING r.*, e.*
"""
UPSERT: Final = """
INSERT INTO retention VALUES ('acme/other', 'tool.call', 1)
ON CONFLICT (scope, kind) DO UPDATE SET days = 1 RETURNING *
"""
LOOP: Final = """
DO $$ DECLARE r record; BEGIN
  FOR r IN EXECUTE 'TABLE events' LOOP RAISE NOTICE '%', r; END LOOP;
END $$
"""


@pytest.mark.parametrize(
    "statements",
    [
        "SET treering.scope = 'acme/other'; TABLE events",
        "SELECT set_config('treering.scope', 'acme/other', false); TABLE episodic_events",
        "SET ROLE {schema}_app; SET treering.scope = 'acme/other'; TABLE events",
        "SET ROLE {schema}_scoped; SET treering.scope = 'acme/other'; TABLE events",
        "SET ROLE postgres; TABLE events",
        "SET SESSION AUTHORIZATION postgres; TABLE events",
        "SET ROLE {schema}_scoped; RESET ROLE; TABLE events",
        "RESET SESSION AUTHORIZATION; TABLE events",
        "RESET ALL; TABLE {schema}.events",
        "SET row_security = off; TABLE events",
        "SET session_replication_role = replica; TABLE events",
        "PREPARE q AS TABLE events; SET ROLE {schema}_scoped; EXECUTE q; RESET ROLE; EXECUTE q",
        "DECLARE c CURSOR WITH HOLD FOR TABLE events; FETCH ALL FROM c",
        "CREATE TEMP VIEW v AS TABLE events; TABLE v",
        "CREATE TEMP TABLE t AS TABLE blobs; SELECT encode(body, 'escape') FROM t",
        "SELECT * FROM ONLY events",
        "TABLE events_00",
        "TABLE events_01",
        "TABLE blobs_00",
        "SELECT * FROM events FOR UPDATE",
        "SELECT * FROM sessions WHERE scope = 'acme/other' OR true",
        "COPY events TO STDOUT",
        "COPY sessions TO STDOUT",
        "COPY events_00 TO STDOUT",
        "COPY (TABLE episodic_events) TO STDOUT",
        "EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM events WHERE summary > ''",
        "EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM episodic_events WHERE session_id > ''",
        LEAK + "SELECT 1 FROM events WHERE pg_temp.leak(summary)",
        LEAK + "SELECT 1 FROM sessions WHERE pg_temp.leak(name)",
        LEAK + "SELECT 1 FROM episodic_events WHERE pg_temp.leak(payload_json)",
        LEAK + "SELECT 1 FROM runs WHERE pg_temp.leak(run_id) AND scope = 'acme/other'",
        LEAK + "UPDATE events SET flags = flags WHERE pg_temp.leak(agent_id)",
        LEAK + "DELETE FROM blobs WHERE pg_temp.leak(encode(body, 'escape')) AND false",
        "SELECT 1 FROM events WHERE agent_id::int = 1",
        "SELECT 1 FROM events WHERE 1 / (length(summary) - length(summary)) = 1",
        "SELECT 1 FROM sessions WHERE name::xml IS NOT NULL AND scope = 'acme/other'",
        "UPDATE events SET summary = summary WHERE scope = 'acme/other' RETURNING *",
        "DELETE FROM blobs WHERE scope = 'acme/other' RETURNING *",
        MERGE,
        UPSERT,
        "INSERT INTO scopes VALUES ('acme/other', 'x') ON CONFLICT DO NOTHING; TABLE scopes",
        "SELECT nextval('event_positions'), currval('event_positions'), lastval()",
        "SELECT currval('sessions_id_seq')",
        "TABLE event_positions",
        "SELECT * FROM pg_sequences",
        "SELECT enter_epoch()",
        "SELECT * FROM pg_stats",
        "TABLE pg_statistic",
        "SELECT query FROM pg_stat_activity",
        LOOP,
        "SELECT query_to_xml('TABLE events', true, false, '')",
        "SELECT table_to_xml('events_00', true, false, '')",
        "SELECT database_to_xml(true, false, '')",
        "SELECT pg_read_file('PG_VERSION')",
        "SELECT * FROM pg_ls_dir('.')",
        "CREATE EXTENSION dblink",
        "CREATE EXTENSION pageinspect",
        "TABLE grants",
        "TABLE scrubs",
        "TABLE pg_policies",
        "VACUUM (VERBOSE) events",
        "ANALYZE VERBOSE events",
    ],
)
def test_hostile_sql_of_a_held_role_shows_nothing_of_another_scope(
    guarded: Guarded, statements: str
) -> None:
    before = guarded.sql(f"SELECT * FROM events WHERE scope = '{ELSEWHERE}' ORDER BY position")

    shown = all_that_is_shown(guarded, statements.replace("{schema}", guarded.schema))

    assert MARK not in shown
    after = guarded.sql(f"SELECT * FROM events WHERE scope = '{ELSEWHERE}' ORDER BY position")
    assert before == after


def all_that_is_shown(guarded: Guarded, statements: str) -> str:
    """Return rows, copies, notices and errors that the held role gets."""
    shown: list[str] = []
    with guarded.connect(guarded.held) as connection:
        connection.add_notice_handler(lambda notice: shown.append(str(notice.message_primary)))
        try:
            if statements.startswith("COPY"):
                with connection.cursor().copy(statements.encode()) as copy:
                    shown += [bytes(part).decode() for part in copy]
            else:
                for cursor in connection.execute(statements.encode()).results():
                    shown += [
                        repr(row) for row in (cursor.fetchall() if cursor.description else ())
                    ]
        except psycopg.Error as error:
            shown.append(f"{error.diag.message_primary} {error.diag.message_detail}")
    return "\n".join(shown)


def test_the_marks_would_be_found_if_they_were_shown(guarded: Guarded) -> None:
    """What the test above looks for is there to be found."""
    assert "our-summary" in all_that_is_shown(guarded, "TABLE events")
    assert "our-summary" in all_that_is_shown(guarded, "COPY (TABLE events) TO STDOUT")
    assert "our-session" in all_that_is_shown(guarded, "COPY sessions TO STDOUT")
    leaked = LEAK + "SELECT 1 FROM events WHERE pg_temp.leak(summary)"
    assert "our-summary" in all_that_is_shown(guarded, leaked)
    failing = "SELECT 1 FROM events WHERE agent_id::int = 1"
    assert "our-agent" in all_that_is_shown(guarded, failing)


@pytest.mark.parametrize("sort", ["application", "held"])
def test_the_function_that_appends_finds_no_session_of_another_scope(
    guarded: Guarded, sort: str
) -> None:
    """It states the scope that it is told to: that helps an application only."""
    outcomes = {
        scope: appended(guarded, getattr(guarded, sort), scope, session, key)
        for scope, session, key in guarded.sql("SELECT scope, id, key FROM sessions")
    }

    assert outcomes[HERE] == 0
    assert (outcomes[ELSEWHERE] == 0) == (sort == "application")


def appended(guarded: Guarded, role: str, scope: str, session: int, key: bytes) -> int:
    """Call the function with all that an owner knows; return what it says, and undo it."""
    given: dict[str, object] = {
        "a_scope": scope,
        "a_session": session,
        "a_key": key,
        "a_sealed": 1,
        "a_repeatable": False,
        "a_event_id": b"x",
        "a_kind": "tool.call",
        "a_source": "tool",
        "a_agent_id": "a",
        "a_content_digest": b"x",
        "a_header_digest": b"x",
        "a_run_starts": False,
    }
    [(names, inputs)] = guarded.sql(
        "SELECT proargnames, pronargs FROM pg_proc WHERE oid = 'append_event'::regproc"
    )
    # What is left out are numbers that do not matter, and texts that may be missing.
    numbers = {"a_lock", "a_epoch", "a_ts_ms", "a_recorded_ms", "a_schema_version", "a_run_state"}
    values = dict.fromkeys(numbers, 1) | {"a_flags": 8, "a_payload_bytes": 0} | given
    arguments = ", ".join(f"{name} => %s" for name in names[:inputs])
    with guarded.connect(role) as connection:
        connection.execute("BEGIN")
        row = connection.execute(
            f"SELECT (append_event({arguments})).outcome".encode(),
            [values.get(name) for name in names[:inputs]],
        ).fetchone()
        connection.execute("ROLLBACK")
    assert row is not None
    return int(row[0])


# The ledger itself, opened by a role.


@pytest.fixture(params=["application", "held"])
def role(request: pytest.FixtureRequest, place: Place) -> str:
    """Return a role that may use HERE, of each sort in turn."""
    with treering.open(place.url) as ledger:
        fill(ledger, ELSEWHERE, MARK)
    return place.role(None if request.param == "application" else HERE)


@pytest.fixture
def walled(place: Place, role: str) -> Any:
    """Open the ledger as that role."""
    with treering.open(place.url_of(role)) as ledger:
        yield ledger


def test_all_of_one_scope_can_be_recorded_and_read(walled: Ledger) -> None:
    walled.append([said("one", event_id="e1")])
    walled.append([said("one", event_id="e1")])
    walled.append([said("two")], expected_seq=1)
    walled.append([said("three"), said("four", session_id="s2"), *run_of("r1", "five")])
    walled.append([said("six", event_id="large", payload="x" * 9_000)])
    with walled.session("s3", scope=HERE, agent="lyria").turn() as turn:
        turn.user("seven")

    page = walled.events(HERE, first=100)

    summaries = [event.summary for event in page.items]
    assert {"one", "two", "three", "four", "five", "six", "seven"} <= set(summaries)
    assert summaries.count("one") == 1
    assert walled.event(HERE, "large").payload == "x" * 9_000
    assert [h.seq for h in walled.session("s1", scope=HERE, agent="a").headers()] == [*range(1, 8)]
    assert len(list(walled.follow(HERE, idle_s=0))) == len(page.items)
    assert len(list(walled.follow(HERE, committed=True, idle_s=0))) == len(page.items)
    assert walled.admin.verify(HERE).intact
    assert walled.admin.verify(HERE, session_id="s1").events == 7


def test_a_role_held_to_a_scope_cannot_ask_for_all(walled: Ledger) -> None:
    walled.append([said(f"a heron and {MARK}", event_id="e1")])

    for ask in (
        lambda: walled.search(MARK, all_scopes=True),
        lambda: walled.sessions(all_scopes=True),
    ):
        with pytest.raises(NotPermitted):
            ask()
    assert walled.matches_elsewhere(MARK, scope=HERE) == 0
    assert {hit.scope for hit in walled.search(MARK, scope=HERE).hits} == {HERE}


def test_all_of_one_scope_can_be_erased(walled: Ledger) -> None:
    walled.append([said(f"event {n}", event_id=f"e{n}") for n in range(3)])
    walled.append([said("large", event_id="large", payload="x" * 9_000)])
    walled.append([called(event_id="old", ts_ms=NOON)])
    walled.set_retention(HERE, {"tool.call": 5})

    redacted = walled.redact(HERE, event_id="e1")
    erased = walled.redact(HERE, event_id="large")
    expired = walled.expire(HERE, now_ms=NOON + 6 * DAY)

    assert walled.retention(HERE)["tool.call"] == 5
    assert (redacted.redacted_count, erased.blobs_erased, expired.deleted_total) == (1, 1, 1)
    assert walled.event(HERE, "e1").summary == "[REDACTED]"
    with pytest.raises(treering.NotFound):
        walled.event(HERE, "old")
    assert walled.admin.verify(HERE).intact


def test_an_erasure_says_whether_its_bytes_are_gone(place: Place, walled: Ledger) -> None:
    """A role that may not write tables again leaves that to the owner, and says so."""
    walled.append([said("secret-words", event_id="e1")])

    physical = walled.redact(HERE, event_id="e1").physical

    pending = place.administration.status().erasure_pending
    assert physical == ("pending" if pending else "done")
    assert place.administration.scrub().pending == []


def test_a_scope_can_be_exported_and_restored(place: Place, walled: Ledger, role: str) -> None:
    walled.append([said("one"), said("two", session_id="s2", payload="x" * 9_000)])
    walled.redact(HERE, session_id="s1")
    stream = io.BytesIO()
    walled.admin.export(HERE, stream, payloads="included")
    other = Place(place.server)
    other.administration.init(partitions=2)
    other.administration.grant(role, HERE)

    stream.seek(0)
    with treering.open(other.url_of(role)) as target:
        receipt = target.admin.restore(stream)
        stream.seek(0)
        again = target.admin.restore(stream)

        assert (receipt.imported, receipt.complete) == (3, True)
        assert (again.imported, again.duplicates) == (0, 3)
        assert target.admin.verify(HERE).intact


def test_one_scope_can_be_copied(place: Place, walled: Ledger, role: str) -> None:
    walled.append([said("one"), said("two", session_id="s2", payload="x" * 9_000)])
    other = Place(place.server)
    other.administration.init(partitions=2)
    other.administration.grant(role, HERE)

    with treering.open(other.url_of(role)) as target:
        receipt = walled.admin.copy_to(target, scope=HERE)

    assert (receipt.copied, receipt.complete, receipt.intact) == (2, True, True)


def test_a_role_without_a_scope_s_grant_sees_and_changes_nothing_of_it(place: Place) -> None:
    with treering.open(place.url) as ledger:
        fill(ledger, ELSEWHERE, MARK)
    with treering.open(place.url_of(place.role(HERE))) as ledger:
        assert ledger.headers(ELSEWHERE).items == []
        theirs = ledger.session(f"{MARK}session", scope=ELSEWHERE, agent="a")
        assert list(theirs.headers()) == []
        assert list(ledger.follow(ELSEWHERE, idle_s=0)) == []
        assert ledger.redact(ELSEWHERE, event_id=f"{MARK}event").redacted_count == 0
        assert ledger.expire(ELSEWHERE, now_ms=NOON + 900 * DAY).deleted_total == 0
        assert ledger.admin.verify(ELSEWHERE).sessions == 0
        with pytest.raises(treering.NotFound):
            ledger.event(ELSEWHERE, f"{MARK}event")
        for scope in (ELSEWHERE, "acme/new"):
            with pytest.raises(NotPermitted) as refused:
                ledger.append([said("mine now", scope=scope)])
            assert "db grant" in str(refused.value.hint)

    with treering.open(place.url) as ledger:
        assert ledger.admin.verify().intact
        assert len(ledger.headers(ELSEWHERE).items) == 9


def test_what_needs_the_whole_ledger_is_refused_with_what_to_do(
    walled: Ledger, place: Place
) -> None:
    with treering.open(":memory:") as target:
        for work in (
            walled.admin.verify,
            walled.admin.rebuild,
            lambda: walled.admin.anchor(io.BytesIO()),
            lambda: walled.admin.copy_to(target),
        ):
            with pytest.raises(NotPermitted, match="one scope") as refused:
                work()
            assert "owner" in str(refused.value.hint)


def test_an_anchor_of_the_whole_ledger_proves_one_scope(place: Place, walled: Ledger) -> None:
    walled.append([said("one"), said("two", session_id="s2")])
    anchor = io.BytesIO()
    with treering.open(place.url) as ledger:
        ledger.admin.anchor(anchor)

    anchor.seek(0)
    result = walled.admin.verify(HERE, anchor=anchor)

    assert (result.intact, result.anchored_sessions) == (True, 2)


def test_what_a_role_notes_for_the_scrub_harms_nobody(place: Place, role: str) -> None:
    """Whoever erases has to note which tables to write again, and might note anything."""
    for text in ("nonsense", "1262", "pg_catalog.pg_class", "events; DROP TABLE events"):
        place.sql("INSERT INTO scrubs (relation) VALUES (%s)", text, role=role)

    with treering.open(place.url) as ledger:
        ledger.append([said("words", event_id="e1")])
        assert ledger.redact(HERE, event_id="e1").redacted_count == 1
    place.administration.scrub()

    with treering.open(place.url) as ledger:
        assert ledger.admin.verify().intact


def test_two_scopes_of_one_role_both_work_until_they_are_taken_back(place: Place) -> None:
    role = place.role(HERE, ELSEWHERE)
    with treering.open(place.url_of(role)) as ledger:
        ledger.append([said("here"), said("there", scope=ELSEWHERE)])
        assert [len(ledger.headers(scope).items) for scope in (HERE, ELSEWHERE)] == [1, 1]

        place.administration.revoke(role, ELSEWHERE)

        # Taken from whoever is connected, too.
        assert [len(ledger.headers(scope).items) for scope in (HERE, ELSEWHERE)] == [1, 0]
        ledger.append([said("here again")])
        with pytest.raises(NotPermitted):
            ledger.append([said("there again", scope=ELSEWHERE)])

        place.administration.revoke(role, HERE)

        with pytest.raises(NotPermitted):
            ledger.headers(HERE)
    with pytest.raises(NotPermitted):
        treering.open(place.url_of(role))


def test_an_application_that_was_revoked_gets_nowhere(place: Place) -> None:
    role = place.role(None)
    with treering.open(place.url_of(role)) as ledger:
        ledger.append([said("here")])

        place.administration.revoke(role)

        with pytest.raises(NotPermitted):
            ledger.append([said("again")])


# A batch over two scopes.


@pytest.mark.parametrize("grants", [(None,), (HERE, ELSEWHERE)], ids=["application", "held"])
def test_a_batch_over_two_scopes_is_recorded_whole_or_not_at_all(
    place: Place, grants: tuple[str | None, ...]
) -> None:
    with treering.open(place.url_of(place.role(*grants))) as ledger:
        ledger.append(
            [
                said("here"),
                said("there", scope=ELSEWHERE, payload="x" * 9_000),
                *run_of("r1", "there too", scope=ELSEWHERE),
                said("here too", payload="y" * 9_000),
            ]
        )
        before = [len(ledger.headers(scope).items) for scope in (HERE, ELSEWHERE)]

        with pytest.raises(treering.errors.RunClosed):
            ledger.append([said("here"), said("late", scope=ELSEWHERE, run_id="r1")])
        with pytest.raises(treering.errors.RunClosed):
            ledger.append([said("late", scope=ELSEWHERE, run_id="r1"), said("here")])

        assert before == [2, 4]
        assert [len(ledger.headers(scope).items) for scope in (HERE, ELSEWHERE)] == before
        assert ledger.admin.verify(HERE).intact
        assert ledger.admin.verify(ELSEWHERE).intact


def test_a_batch_that_reaches_into_another_scope_leaves_nothing_behind(place: Place) -> None:
    with treering.open(place.url) as ledger:
        ledger.append([said("theirs", scope=ELSEWHERE)])
    with treering.open(place.url_of(place.role(HERE))) as ledger:
        for events in (
            [said("here"), said("there", scope=ELSEWHERE)],
            [said("there", scope=ELSEWHERE), said("here")],
        ):
            with pytest.raises(NotPermitted):
                ledger.append(events)
        assert ledger.headers(HERE).items == []


# Whom nothing could hold.


def test_a_grant_to_whom_nothing_holds_is_refused(place: Place) -> None:
    for sort in ("SUPERUSER", "BYPASSRLS", "IN ROLE postgres"):
        role = f"{place.schema}_{sort[:2].lower()}"
        place.sql(f"CREATE ROLE {role} LOGIN {sort}")
        for scope in (None, HERE):
            with pytest.raises(treering.InvalidInput, match="no policy applies"):
                place.administration.grant(role, scope)
    with pytest.raises(treering.InvalidInput, match="no policy applies"):
        place.administration.grant("postgres", HERE)

    assert place.administration.status().roles == {}


def test_a_role_is_of_one_sort(place: Place) -> None:
    application, held = place.role(None), place.role(HERE)

    for role, scope in ((application, HERE), (held, None)):
        with pytest.raises(treering.InvalidInput, match="other kind") as refused:
            place.administration.grant(role, scope)
        assert "revoke" in str(refused.value.hint)

    assert place.administration.status().roles == {application: None, held: [HERE]}


def test_a_grant_before_the_roles_are_there_says_what_to_do(server: Server) -> None:
    place = Place(server)
    place.administration.init(partitions=2, with_roles=False)

    with pytest.raises(treering.InvalidInput) as refused:
        place.administration.grant("somebody")

    assert "treering db init" in str(refused.value.hint)


def test_granting_again_changes_nothing(place: Place) -> None:
    role = place.role(HERE)

    place.administration.grant(role, HERE)

    assert place.administration.status().roles == {role: [HERE]}


def test_roles_of_each_sort_number_one_run_together(server: Server) -> None:
    place = Place(server)
    place.administration.init(partitions=2)
    urls = [place.url, place.url_of(place.role(None)), place.url_of(place.role(HERE))]
    with contextlib.ExitStack() as stack:
        ledgers = [stack.enter_context(treering.open(url)) for url in urls]
        for ledger in ledgers:
            ledger.append([said("here")])
        # In turns, then each by itself, so that the run has no writer, several, and one.
        in_turn = [*ledgers * 2, *(ledger for ledger in ledgers for _ in range(4))]
        numbers = [ledger.append([said("a", run_id="r1")])[0].run_seq for ledger in in_turn]
        writers = place.sql("SELECT writer > 0 FROM runs")
        ledgers[0].append([said("b", run_id="r1"), said("c", run_id="r1")])

    assert numbers == list(range(1, len(in_turn) + 1))
    assert writers == [(True,)]
    assert place.sql("SELECT writer FROM runs") == [(0,)]
