"""Forks and snapshots on a server: raced for, walled in, kept where that can be, and by index."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import ELSEWHERE, HERE, run_of, said
from concurrency.processes import colleagues
from effort import rounds
from forks import fork
from postgres_places import Place
from postgres_server import Server
from postgres_writers import open_ledger, race_for_fork, store_of
from threads import in_threads
from treering.errors import Conflict, NotFound, NotPermitted
from treering.model.events import Header
from treering.model.scopes import Scope
from treering.storage.postgres import reader, sessions, snapshots
from treering.storage.postgres.rows import translate
from treering.storage.projections import LATEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering import Ledger

OURS: Final = Scope(HERE)
PROCESSES: Final = 4
ROUNDS: Final = rounds(4)


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    with open_ledger(place.url) as ledger:
        ledger.append([said(text) for text in "abc"])
        yield ledger


# Several at a time.


def test_of_processes_that_fork_into_the_same_session_exactly_one_wins(
    place: Place, ledger: Ledger
) -> None:
    with colleagues(PROCESSES, race_for_fork, place.url) as racers:
        for racer in racers:
            racer.hear()
        for number in range(ROUNDS):
            for racer in racers:
                racer.tell(f"fork {number}")
            outcomes = [racer.hear() for racer in racers]

            assert sorted(word for word, _ in outcomes) == ["lost"] * (PROCESSES - 1) + ["won"]
            assert {seq for _, seq in outcomes} == {2}

    assert store_of(ledger).sessions.forks(OURS, "s1") == [
        f"fork {number}" for number in range(ROUNDS)
    ]
    assert ledger.admin.verify().intact


def test_a_fork_and_an_append_that_open_the_same_session_never_both_do(ledger: Ledger) -> None:
    def forks() -> None:
        for number in range(20):
            try:
                fork(ledger, f"n{number}", parent="s1", seq=3)
            except Conflict:
                lost.append(number)

    def appends() -> None:
        for number in range(20):
            ledger.append([said("mine", session_id=f"n{number}")])

    lost: list[int] = []
    in_threads(forks, appends)

    seqs = [
        [
            header.seq
            for header in store_of(ledger).reader.by_seq(Header, OURS, name, after_seq=0, limit=9)
        ]
        for name in (f"n{number}" for number in range(20))
    ]
    assert seqs == [[1] if number in lost else [4, 5] for number in range(20)]
    assert ledger.admin.verify().intact


def test_sessions_are_forked_while_others_append_to_them_and_to_their_forks(ledger: Ledger) -> None:
    def append(session_id: str) -> None:
        for number in range(30):
            ledger.append([said(f"{number}", session_id=session_id)])

    def forks(name: str) -> None:
        for number in range(10):
            fork(ledger, f"{name}{number}", parent="s1", seq=3)
            ledger.append([said("on", session_id=f"{name}{number}") for _ in range(2)])

    in_threads(
        partial(append, "s1"), partial(append, "s1"), partial(forks, "a"), partial(forks, "b")
    )

    heads = store_of(ledger).sessions.heads(OURS, before_position=None, limit=100)
    assert sorted({head.head_seq for head in heads}) == [6, 63]
    assert len(heads) == 21
    assert ledger.admin.verify().intact


# Behind walls.


@pytest.mark.parametrize("sort", ["application", "held"])
def test_roles_fork_read_and_erase_within_their_scope(place: Place, sort: str) -> None:
    role = place.role(None if sort == "application" else HERE)
    with treering.open(place.url_of(role)) as ledger:
        store = store_of(ledger)
        ledger.append([*run_of("r1", "well"), *run_of("r2", "ill", end="run.failed")])
        first = fork(ledger, "f", parent="s1", seq=3)
        store.snapshots.keep(OURS, "f", seq=4, body=b"4")

        cut = store.sessions.cut(OURS, "f")
        counted = store.reader.committed_events(
            *(OURS, "s1"),
            kinds={"conversation.user"},
            before_seq=9,
            until_seq=9,
            run_id=None,
            limit=9,
        )
        assert (first.seq, store.sessions.forks(OURS, "s1")) == (4, ["f"])
        assert cut is not None
        assert (cut.parent, cut.seq) == ("s1", 3)
        assert [event.summary for event in counted] == ["well"]
        assert [event.seq for event in store.reader.events_at(OURS, "s1", [5, 1])] == [1, 5]
        heads = store.sessions.heads(OURS, before_position=None, limit=9)
        assert [(head.session_id, head.cut) for head in heads] == [("f", cut), ("s1", None)]
        assert store.snapshots.latest(OURS, "f", until_seq=4) == (4, b"4")
        assert ledger.redact(HERE, session_id="s1").redacted_count == 6
        assert store.snapshots.latest(OURS, "f", until_seq=4) is None
        assert ledger.admin.verify(HERE).intact


def test_a_held_role_finds_nothing_of_another_scope_to_fork_or_to_list(place: Place) -> None:
    theirs = Scope(ELSEWHERE)
    with treering.open(place.url) as ledger:
        ledger.append([said(text, scope=ELSEWHERE) for text in "ab"])
        fork(ledger, "f", parent="s1", seq=1, scope=ELSEWHERE)
        store_of(ledger).snapshots.keep(theirs, "f", seq=2, body=b"2")
    with treering.open(place.url_of(place.role(HERE))) as ledger:
        store = store_of(ledger)
        ledger.append([said("ours", session_id="ours")])

        with pytest.raises(NotFound):
            fork(ledger, "g", parent="s1", seq=1)
        with pytest.raises((NotFound, NotPermitted)):
            fork(ledger, "g", parent="s1", seq=1, scope=ELSEWHERE)
        assert store.sessions.heads(theirs, before_position=None, limit=9) == []
        assert store.sessions.forks(theirs, "s1") == []
        assert store.sessions.cut(theirs, "f") is None
        assert store.snapshots.latest(theirs, "f", until_seq=9) is None
        store.snapshots.keep(theirs, "f", seq=2, body=b"lie")
    with treering.open(place.url) as ledger:
        assert store_of(ledger).snapshots.latest(theirs, "f", until_seq=9) == (2, b"2")
        assert ledger.admin.verify().intact


# Where snapshots are not kept.


def test_a_role_that_may_not_keep_snapshots_reads_on(place: Place, ledger: Ledger) -> None:
    role = place.role(HERE)
    place.sql(f"REVOKE INSERT ON snapshots FROM {place.schema}_scoped")
    with treering.open(place.url_of(role)) as reader:
        store_of(reader).snapshots.keep(OURS, "s1", seq=3, body=b"3")

        assert store_of(reader).snapshots.latest(OURS, "s1", until_seq=9) is None
        assert len(reader.headers(HERE).items) == 3
        reader.append([said("d")])


def test_a_replica_keeps_no_snapshot_and_reads_those_of_its_primary() -> None:
    with Server() as primary:
        primary.create_database("treering")
        place = Place(primary)
        place.administration.init(partitions=2)
        with open_ledger(place.url) as ledger:
            ledger.append([said("a")])
            store_of(ledger).snapshots.keep(OURS, "s1", seq=1, body=b"1")
        with primary.replica() as replica:
            replica.catch_up()
            there = Place(replica, schema=place.schema)
            with open_ledger(there.url, mode="ro") as reader:
                store_of(reader).snapshots.keep(OURS, "s1", seq=2, body=b"2")

                assert store_of(reader).snapshots.latest(OURS, "s1", until_seq=9) == (1, b"1")


def test_while_another_holds_the_table_no_snapshot_is_waited_for(
    place: Place, ledger: Ledger
) -> None:
    with place.connect() as other, other.transaction():
        other.execute("LOCK TABLE snapshots IN SHARE MODE")
        store_of(ledger).snapshots.keep(OURS, "s1", seq=3, body=b"3")

    assert store_of(ledger).snapshots.latest(OURS, "s1", until_seq=9) is None


def test_while_a_scope_is_erased_from_no_snapshot_of_it_is_kept(
    place: Place, ledger: Ledger
) -> None:
    """One that is not committed yet would be passed over by the erasure."""
    store = store_of(ledger)
    with store._server.lend(OURS) as connection, connection.transaction():
        snapshots.drop(connection, store._cache, OURS, [1])
        store.snapshots.keep(OURS, "s1", seq=3, body=b"3")

    assert place.sql("SELECT count(*) FROM snapshots") == [(0,)]
    store.snapshots.keep(OURS, "s1", seq=3, body=b"3")
    assert place.sql("SELECT seq FROM snapshots") == [(3,)]


def test_many_who_keep_snapshots_and_erase_do_not_lock_each_other_out(ledger: Ledger) -> None:
    def keep(seqs: Iterator[int]) -> None:
        for _ in range(60):
            store_of(ledger).snapshots.keep(OURS, "f", seq=next(seqs), body=b"1")

    def erase() -> None:
        for number in range(10):
            ledger.append([said("x", event_id=f"e{number}")])
            assert ledger.redact(HERE, event_id=f"e{number}").redacted_count == 1

    fork(ledger, "f", parent="s1", seq=3)
    seqs = count(4)
    in_threads(erase, *(partial(keep, seqs) for _ in range(3)))
    ledger.redact(HERE, session_id="s1")

    assert store_of(ledger).snapshots.latest(OURS, "f", until_seq=2**62) is None
    assert ledger.admin.verify().intact


# What the owner changes by SQL.


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM forks",
        "UPDATE forks SET seq = 1",
        "UPDATE forks SET link = sha256('x')",
        "UPDATE forks SET parent = session",
        "UPDATE forks SET parent = 99",
        f"UPDATE forks SET scope = '{ELSEWHERE}'",
        "INSERT INTO forks SELECT session + 1, parent, seq, scope, link FROM forks",
        "INSERT INTO forks SELECT parent, session, seq, scope, link FROM forks",
        "UPDATE events SET seq = 1 WHERE session = (SELECT session FROM forks)",
        "UPDATE snapshots SET session = 99",
    ],
)
def test_a_fork_that_was_changed_by_hand_is_found(
    place: Place, ledger: Ledger, statement: str
) -> None:
    fork(ledger, "f", parent="s1", seq=2)
    store_of(ledger).snapshots.keep(OURS, "f", seq=3, body=b"3")
    assert ledger.admin.verify().intact

    place.sql(statement)

    with open_ledger(place.url) as again:
        verification = again.admin.verify()
    assert not verification.intact
    assert verification.first_broken is not None
    assert verification.first_broken.detail


# Plans.

FILL: Final = """
INSERT INTO sessions (scope, key, name, salt, genesis)
SELECT scope, int8send(n), n::text, 'x', int8send(n) || scope::bytea
FROM unnest(ARRAY['acme/app', 'acme/other']) AS scope, generate_series(1, 500) AS n;
INSERT INTO heads (scope, session, seq, key, link) SELECT scope, id, 20, key, 'l' FROM sessions;
INSERT INTO forks (scope, session, parent, seq, link)
SELECT scope, id, id - 1, 3, 'l' FROM sessions WHERE id % 5 = 0;
INSERT INTO snapshots (scope, session, view, seq, body)
SELECT scope, id, 0, n, 'b' FROM sessions, generate_series(1, 5) AS n;
INSERT INTO runs (scope, session, run_id, state, first_seq, last_seq)
SELECT scope, id, 'r' || n, n % 4, n, n + 1 FROM sessions, generate_series(1, 4) AS n;
INSERT INTO events (
  session, seq, ts_ms, recorded_ms, epoch, payload_bytes, flags, schema_version, scope, event_id,
  kind, source, agent_id, content_digest, link, run_id
)
SELECT id, n, n, n, 0, 0, 8, 1, scope, int8send(id * 100 + n),
  CASE n % 3 WHEN 0 THEN 'tool.call' ELSE 'conversation.user' END, 'user', 'a', 'd', 'l',
  CASE WHEN n % 2 = 0 THEN 'r' || n / 5 END
FROM sessions, generate_series(1, 20) AS n;
ANALYZE;
"""
QUESTIONS: Final[dict[str, tuple[str, Any, tuple[str, ...]]]] = {
    "events at": (
        reader.EVENTS_AT,
        {"scope": HERE, "session": 5, "seqs": [1, 2]},
        ("events_0*_pkey",),
    ),
    "committed": (
        reader.COMMITTED,
        {
            "scope": HERE,
            "session": 5,
            "kinds": ["conversation.user"],
            "run": None,
            "before": 15,
            "until": 15,
            "limit": 5,
        },
        ("events_0*_pkey", "runs_pkey"),
    ),
    "heads": (
        sessions.HEADS,
        {"scope": HERE, "before": 2**62, "limit": 10},
        ("heads_pkey", "events_0*_pkey", "sessions_pkey", "forks_pkey"),
    ),
    "forks": (sessions.FORKS, (HERE, 4), ("forks_by_parent",)),
    "cut": (sessions.CUT_OF, (HERE, 5), ("sessions_pkey", "forks_pkey")),
    "parent by name": (
        sessions.PARENT_BY_NAME,
        {"scope": HERE, "key": b"x", "seq": 3},
        ("sessions_scope_key_key", "events_0*_pkey"),
    ),
    "parent by genesis": (
        sessions.PARENT_BY_GENESIS,
        {"scope": HERE, "genesis": b"x", "seq": 3},
        ("sessions_by_genesis", "events_0*_pkey"),
    ),
    "latest snapshot": (
        *translate(LATEST, {"scope": HERE, "session": 5, "view": 0, "until": 9}),
        ("snapshots_pkey",),
    ),
    "dropped snapshots": (
        snapshots.DROP,
        {"scope": HERE, "sessions": [4]},
        ("forks_by_parent", "snapshots_pkey"),
    ),
}
"""Statements, what they are asked with, and the indexes that they go by."""


@pytest.fixture(scope="module", params=["empty", "large"])
def plan(request: pytest.FixtureRequest, server: Server) -> Callable[[str, Any, str], str]:
    """Return how connections of the ledger's own carry out a statement, for a role of each sort."""
    place = Place(server)
    place.administration.init(partitions=2)
    if request.param == "large":
        place.sql(FILL)
    roles = {"owner": place.owner, "application": place.role(None), "held": place.role(HERE)}

    def explain(statement: str, values: Any, sort: str) -> str:
        with open_ledger(place.url_of(roles[sort])) as ledger:
            rows = store_of(ledger)._server.read(
                lambda c: c.execute(f"EXPLAIN {statement}", values, prepare=False).fetchall(), OURS
            )
        return "\n".join(row[0] for row in rows)

    return explain


@pytest.mark.parametrize("sort", ["owner", "application", "held"])
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_every_question_about_lineages_is_answered_by_its_indexes(
    plan: Callable[[str, Any, str], str], question: tuple[str, Any, tuple[str, ...]], sort: str
) -> None:
    """Promise 10: it costs the same at 10⁶ events as at 10³; plans are made while all is empty."""
    statement, values, indexes = question

    found = plan(statement, values, sort).replace("events_00_", "events_0*_")

    told = found.replace("events_01_", "events_0*_")
    assert [index for index in indexes if f" {index}" not in told] == []
    assert "Seq Scan" not in told


def test_those_that_count_are_found_from_the_end_backwards(
    plan: Callable[[str, Any, str], str],
) -> None:
    statement, values, _ = QUESTIONS["committed"]

    found = plan(statement, values, "owner")

    assert "Index Scan Backward using events_0" in found
    assert "(seq < " in found
    assert "Sort Method" not in found
    assert "hashed" not in found
