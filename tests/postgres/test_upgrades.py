"""Ledgers of the first schema, with roles at work, brought up to what this program knows."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import ELSEWHERE, HERE, run_of, said
from listeners import SOON, Listener
from ports import store_of
from postgres_places import Place
from treering.errors import NotPermitted
from treering.memory.records import IndexEntry
from treering.model.scopes import Scope
from treering.spine.ports import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable

    from postgres_server import Server
    from treering import Header, Ledger

TO_SCHEMA_8: Final = """
ALTER TABLE runs DROP COLUMN writer;
ALTER SEQUENCE event_positions RENAME TO positions;
DROP TABLE record_keys;
DROP FUNCTION append_event_in_run, append_event;
ALTER TABLE search_marks DROP COLUMN layout;
DROP FUNCTION count_session, count_scope CASCADE;
ALTER TABLE scopes DROP COLUMN sessions, DROP COLUMN digest;
DELETE FROM ledger WHERE name = 'scopes';
DROP FUNCTION check_hiding CASCADE;
DROP TABLE legacy_events;
DELETE FROM ledger WHERE name = 'rekeyed_ms';
UPDATE ledger SET value = '8' WHERE name = 'version';
"""
TO_SCHEMA_7: Final = f"""
{TO_SCHEMA_8}
DROP TRIGGER neighbours ON memory_shelves;
DROP ROUTINE nearest_documents, admit_nearest, run_nearest, enter_neighbours, drop_neighbours,
  neighbours_relation, levels_of;
DROP TYPE neighbours_order, neighbours_found;
DROP TABLE memory_neighbours;
UPDATE ledger SET value = '7' WHERE name = 'version';
"""
TO_SCHEMA_6: Final = f"""
{TO_SCHEMA_7}
DROP TABLE memory_rows, memory_marks, memory_shelves, memory_documents;
DROP INDEX events_by_position, events_remembered;
UPDATE ledger SET value = '6' WHERE name = 'version';
"""
TO_SCHEMA_5: Final = f"""
{TO_SCHEMA_6}
DROP FUNCTION check_forgetting CASCADE;
DO $$
DECLARE
  held record;
BEGIN
  FOR held IN
    SELECT grantee, table_name, column_name FROM information_schema.column_privileges
    WHERE table_schema = current_schema() AND privilege_type = 'UPDATE' AND grantee <> current_user
      AND (table_name, column_name) IN (
        ('sessions', 'key'), ('sessions', 'name'), ('sessions', 'salt'), ('heads', 'key'),
        ('runs', 'run_id'), ('events', 'run_id')
      )
  LOOP
    EXECUTE format(
      'REVOKE UPDATE (%I) ON %I FROM %I', held.column_name, held.table_name, held.grantee
    );
  END LOOP;
END
$$;
UPDATE ledger SET value = '5' WHERE name = 'version';
"""
TO_SCHEMA_4: Final = f"""
{TO_SCHEMA_5}
DROP ROUTINE search_scope, admit_search, run_search;
DROP TYPE search_order, search_hit;
DROP TABLE search_documents, search_marks;
UPDATE ledger SET value = '4' WHERE name = 'version';
"""
TO_SCHEMA_1: Final = f"""
{TO_SCHEMA_4}
DROP TABLE tool_calls, tool_extras, tool_marks, cursors, forks, snapshots;
DROP TRIGGER entering ON ledger;
DROP FUNCTION note_entry();
DELETE FROM ledger WHERE name = 'entered_ms';
UPDATE ledger SET value = '1' WHERE name = 'version';
"""
"""Leaves what the first schema had, with the roles, privileges and policies of that time."""
TO_SCHEMA_3: Final = f"""
{TO_SCHEMA_4}
DROP TABLE forks, snapshots;
UPDATE ledger SET value = '3' WHERE name = 'version';
"""
UPGRADES: Final[dict[str, Callable[[Place], Any]]] = {
    "by opening": lambda place: treering.open(place.url).close(),
    "by db init": lambda place: place.administration.init(),
    "by an init that makes no roles": lambda place: place.administration.init(with_roles=False),
}


@pytest.fixture(params=["superuser", "owner"])
def old(request: pytest.FixtureRequest, server: Server) -> Place:
    """Return a ledger of the first schema that holds tool calls of two scopes."""
    place = Place(server)
    if request.param == "owner":
        owner, database = f"o_{secrets.token_hex(4)}", f"d_{secrets.token_hex(4)}"
        server.create_role(owner, password="x")
        server.create_database(database, owner=owner)
        place.sql(f"ALTER ROLE {owner} CREATEROLE")
        place = Place(server, database=database, owner=owner)
    place.administration.init(partitions=2)
    with treering.open(place.url) as ledger:
        for scope in (HERE, ELSEWHERE):
            refs = {"call_id": "old", "tool": "git_log"}
            ledger.append(
                [
                    said("called", kind="tool.call", scope=scope, refs=refs, event_id="call"),
                    said("returned", kind="tool.result", scope=scope, refs=refs | {"status": "ok"}),
                ]
            )
    place.sql(TO_SCHEMA_1)
    return place


@pytest.mark.parametrize(
    ("old", "way", "sort"),
    [
        ("superuser", "by opening", "application"),
        ("superuser", "by db init", "held"),
        ("superuser", "by an init that makes no roles", "application"),
        ("owner", "by opening", "held"),
        ("owner", "by db init", "application"),
        ("owner", "by an init that makes no roles", "held"),
    ],
    indirect=["old"],
)
def test_a_role_that_was_granted_before_does_all_of_it_after_the_upgrade(
    old: Place, way: str, sort: str
) -> None:
    """Every pair of who owns it, how it is upgraded and what the role may do is among these."""
    role = old.role(None if sort == "application" else HERE)
    with pytest.raises(NotPermitted):
        treering.open(old.url_of(role))

    UPGRADES[way](old)

    with treering.open(old.url_of(role)) as ledger:
        first = heard_in_a_turn(ledger, "one")
        assert [record.call_id for record in ledger.tool_calls(HERE).items] == ["old", "c-one"]
        assert [one.calls for one in ledger.tool_statistics(HERE)] == [1, 1]

        assert ledger.redact(HERE, event_id="call").redacted_count == 1
        assert [r.started_ms is None for r in ledger.tool_calls(HERE).items] == [True, False]
        assert ledger.redact(HERE, session_id="one").redacted_count > 0
        assert [record.call_id for record in ledger.tool_calls(HERE).items] == ["old"]
        ledger.append(run_of("r1", "mine", session_id="of-u1", user_id="u1"))
        assert ledger.forget(HERE, user="u1").sessions_erased == 1
        assert ledger.admin.verify(HERE).intact
    with treering.open(old.url_of(role)) as ledger:
        second = heard_in_a_turn(ledger, "two")

    assert (first, second) == (["one"], ["two"])
    with treering.open(old.url) as ledger:
        assert ledger.admin.verify().intact


def heard_in_a_turn(ledger: Ledger, word: str) -> list[str]:
    """Record a turn with a tool; return in which sessions a durable sink heard users speak.

    It continues from the place that it kept when it was last here.
    """
    listener = Listener("bridge", delivery=Delivery(durable=True, on_error="retry"))
    spine = ledger.spine(sinks=[listener])
    with ledger.session(word, scope=HERE, agent="lyria").turn() as run:
        run.user(word)
        with run.tool("grep", {"for": word}, call_id=f"c-{word}") as call:
            call.finish("found")
    assert spine.flush(timeout_s=SOON)
    return [event.session_id for event in listener.heard if event.kind == "conversation.user"]


@pytest.mark.parametrize("upgrade", UPGRADES.values(), ids=UPGRADES)
def test_what_an_upgrade_adds_is_walled_in_like_the_rest(
    old: Place, upgrade: Callable[[Place], Any]
) -> None:
    """Promise 3: no role sees a row of a scope that is not its own."""
    roles = {old.role(None): HERE, old.role(HERE): HERE}

    upgrade(old)

    with treering.open(old.url) as ledger:
        for scope in (HERE, ELSEWHERE):
            ledger.tool_calls(scope)
            store_of(ledger).cursors.set(scope, "bridge", "1")  # type: ignore[arg-type]
            fork(ledger, scope)
            shelve(ledger, scope)
            ledger.records(scope, "n").put("k", 1)
    tables = (
        "tool_calls",
        "tool_marks",
        "cursors",
        "forks",
        "snapshots",
        "memory_documents",
        "record_keys",
    )
    for role, scope in roles.items():
        for table in tables:
            found = old.sql(f"SELECT DISTINCT scope FROM {table}", role=role, stating=scope)
            assert found == [(scope,)], (role, table)


@pytest.mark.parametrize("sort", ["application", "held"])
def test_a_role_of_the_third_schema_forks_what_it_recorded_before(
    server: Server, sort: str
) -> None:
    place = Place(server)
    place.administration.init(partitions=2)
    with treering.open(place.url) as ledger:
        ledger.append([said(f"{number}", event_id=f"e{number}") for number in range(3)])
    place.sql(TO_SCHEMA_3)
    role = place.role(None if sort == "application" else HERE)

    treering.open(place.url).close()

    with treering.open(place.url_of(role)) as ledger:
        header = fork(ledger, HERE)
        assert (header.seq, store_of(ledger).sessions.forks(Scope(HERE), "s1")) == (3, ["fork"])
        assert store_of(ledger).snapshots.latest(Scope(HERE), "fork", until_seq=9) == (3, b"1")
        assert ledger.redact(HERE, event_id="e2").redacted_count == 1
        assert store_of(ledger).snapshots.latest(Scope(HERE), "fork", until_seq=9) is None
        assert ledger.admin.verify(HERE).intact


def shelve(ledger: Ledger, scope: str) -> int:
    """Have the memory follow the events of ``scope``; return how many documents there are."""
    store = store_of(ledger)
    store.memory.follow_documents(
        Scope(scope),
        "events",
        lambda events: [IndexEntry(event.position, b"term", b"") for event in events],
        embedder="",
    )
    return store.memory.index_state(Scope(scope), "events").count


@pytest.mark.parametrize("sort", ["application", "held"])
def test_a_role_of_the_sixth_schema_remembers_what_it_recorded_before(
    server: Server, sort: str
) -> None:
    place = Place(server)
    place.administration.init(partitions=2)
    with treering.open(place.url) as ledger:
        ledger.append([said("old", event_id="e1"), said("kept")])
    place.sql(TO_SCHEMA_6)
    role = place.role(None if sort == "application" else HERE)

    treering.open(place.url).close()

    with treering.open(place.url_of(role)) as ledger:
        assert shelve(ledger, HERE) == 2
        assert ledger.redact(HERE, event_id="e1").redacted_count == 1
        assert store_of(ledger).memory.index_state(Scope(HERE), "events").count == 1
        assert store_of(ledger).memory.drop_documents(Scope(HERE)) == 1
        assert ledger.admin.verify(HERE).intact


def fork(ledger: Ledger, scope: str) -> Header:
    """Fork the session of ``scope`` at its second event, and keep a snapshot of the fork."""
    [draft] = ledger._drafter.draft([said("forked", scope=scope, session_id="fork")])
    header = store_of(ledger).fork(draft, parent="s1", seq=2)
    store_of(ledger).snapshots.keep(Scope(scope), "fork", seq=header.seq, body=b"1")
    return header


def test_an_upgrade_of_a_ledger_without_roles_makes_none(server: Server) -> None:
    place = Place(server)
    place.administration.init(partitions=2, with_roles=False)
    place.sql(TO_SCHEMA_1)

    with treering.open(place.url) as ledger:
        ledger.append([said("after")])

    assert place.sql("SELECT count(*) FROM pg_policies WHERE schemaname = %s", place.schema) == [
        (0,)
    ]
    assert place.administration.status().roles == {}
