"""Runs that have begun and not ended: where, by whom, and when they were last heard of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from builders import ELSEWHERE, HERE, run_of, said
from ports import store_of
from treering.model.scopes import Scope
from treering.model.views import start_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger, NewEvent
    from treering.ledger.ports import EventStore


@pytest.fixture
def store(ledger: Ledger) -> EventStore:
    return store_of(ledger)


def started(run_id: str, **fields: Any) -> NewEvent:
    """Return the first event of a run."""
    return said("run started", kind="run.started", run_id=run_id, **fields)


def places(store: EventStore, *where: str) -> list[tuple[str, str, str]]:
    return sorted((run.scope, run.session_id, run.run_id) for run in listed(store, *where))


def listed(store: EventStore, scope: str | None = None, session_id: str | None = None) -> list[Any]:
    return store.reader.open_runs(None if scope is None else Scope(scope), session_id)


def test_a_ledger_without_runs_has_none_open(ledger: Ledger, store: EventStore) -> None:
    ledger.append([said("hello")])

    assert listed(store) == listed(store, HERE) == listed(store, HERE, "s1") == []


def test_runs_that_have_begun_and_not_ended_are_found_by_scope_and_session(
    ledger: Ledger, store: EventStore
) -> None:
    ledger.append([started("r1"), started("r2", session_id="s2")])
    ledger.append([started("r3", scope=ELSEWHERE)])

    here = [(HERE, "s1", "r1"), (HERE, "s2", "r2")]
    assert places(store) == [*here, (ELSEWHERE, "s1", "r3")]
    assert places(store, HERE) == here
    assert places(store, HERE, "s2") == here[1:]
    assert places(store, ELSEWHERE) == [(ELSEWHERE, "s1", "r3")]


def test_sessions_run_while_they_have_an_open_run(ledger: Ledger, store: EventStore) -> None:
    ledger.append([started("r1"), started("r2"), started("r3", session_id="s2"), *run_of("r4")])
    ledger.append([started("r5", scope=ELSEWHERE), said("hello", session_id="s3")])
    running = store.reader.running_sessions

    assert running(Scope(HERE)) == {"s1", "s2"}
    assert running(Scope(ELSEWHERE)) == {"s1"}
    assert running(Scope("acme/none")) == set()
    listed_now = ledger.sessions(HERE, state="running", limit=1)
    assert [one.session_id for one in listed_now.items] == ["s1"]
    rest = ledger.sessions(HERE, state="running", after=listed_now.next_cursor)
    assert [one.session_id for one in rest.items] == ["s2"]
    ledger.append([said("over", kind="run.ended", run_id="r1")])
    assert running(Scope(HERE)) == {"s1", "s2"}
    ledger.append([said("over", kind="run.ended", run_id="r2")])
    assert running(Scope(HERE)) == {"s2"}


@pytest.mark.parametrize("where", [("acme/none",), ("acme/none", "s1"), (HERE, "none")])
def test_where_nothing_is_no_run_is_open(
    ledger: Ledger, store: EventStore, where: tuple[str, ...]
) -> None:
    ledger.append([started("r1")])

    assert listed(store, *where) == []


@pytest.mark.parametrize("end", ["run.ended", "run.failed", "run.interrupted"])
def test_a_run_that_is_over_is_not_open(ledger: Ledger, store: EventStore, end: str) -> None:
    ledger.append([started("r1")])
    ledger.append(run_of("r2", "words", end=end))
    before = places(store)

    ledger.append([said("run over", kind=end, run_id="r1")])

    assert (before, places(store)) == ([(HERE, "s1", "r1")], [])


def test_a_run_tells_where_it_began_and_who_carries_it_out(
    ledger: Ledger, store: EventStore
) -> None:
    ledger.append([said("hello")])
    ledger.append([started("r1", event_id=start_id("r1", store.leases.owner()))])
    ledger.append([said("words", run_id="r1")])

    (run,) = listed(store, HERE, "s1")

    assert (run.first_seq, run.owner) == (2, store.leases.owner())


@pytest.mark.parametrize(
    "first",
    [
        started("r1"),
        started("r1", refs={"owner": "somebody"}),
        started("r1", event_id="r1@team blue"),
        said("words", run_id="r1", event_id="r1@file-1/0123456789ab/1-1/00000000"),
    ],
    ids=["no id", "in refs", "no owner", "no start"],
)
def test_a_run_whose_start_names_nobody_has_no_owner(
    ledger: Ledger, store: EventStore, first: NewEvent
) -> None:
    ledger.append([first])
    ledger.append([said("words", run_id="r1")])

    assert [run.owner for run in listed(store)] == [None]


def test_a_run_whose_start_was_redacted_keeps_its_owner(ledger: Ledger, store: EventStore) -> None:
    ledger.append([started("r1", event_id=start_id("r1", store.leases.owner()))])

    ledger.redact(HERE, session_id="s1")

    assert [run.owner for run in listed(store)] == [store.leases.owner()]


def test_runs_with_an_owner_are_listed_before_those_without(
    ledger: Ledger, store: EventStore
) -> None:
    ledger.append([started(f"r{number}", session_id=f"a{number}") for number in range(5)])
    owned = start_id("mine", store.leases.owner())
    ledger.append([started("mine", session_id="z", event_id=owned)])

    assert listed(store)[0].run_id == "mine"


def test_a_run_of_a_process_is_found_behind_many_whose_starts_were_named(
    ledger: Ledger, store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sqlite.reader", "postgres.runs"):
        monkeypatch.setattr(f"treering.storage.{module}.OPEN_RUNS_MAX", 3)
    ledger.append([
        started(f"r{number}", session_id=f"a{number}", event_id=f"start-{number}")
        for number in range(5)
    ])  # fmt: skip
    ledger.append([started("mine", session_id="z", event_id=start_id("mine", "file"))])

    assert [run.run_id for run in store.reader.open_runs(owned=True)] == ["mine"]


@pytest.mark.parametrize("others", [0, 1, 3])
@pytest.mark.parametrize("later", [0, 600], ids=["just now", "long ago"])
def test_runs_of_a_process_are_found_without_all_others(
    ledger: Ledger, store: EventStore, others: int, later: int
) -> None:
    """Whether they are few of those that are open or many, and however long ago they began."""

    def owned(*where: str) -> list[str]:
        return [run.run_id for run in store.reader.open_runs(*map(Scope, where), owned=True)]

    unnamed = start_id("no start", store.leases.owner())
    ledger.append([
        *(said("words", run_id=f"no start {other}") for other in range(others)),
        *[said("words", run_id="no start", event_id=unnamed)] * bool(others),
    ])  # fmt: skip
    before = owned()
    ledger.append([started("mine", event_id=start_id("mine", "file")), *run_of("over")])
    ledger.append([started("theirs", scope=ELSEWHERE, event_id=start_id("theirs", "file"))])
    ledger.append([started("no id"), *(said("words") for _ in range(later))])

    assert before == []
    assert sorted(owned()) == ["mine", "theirs"]
    assert (owned(HERE), owned(HERE, "s1"), owned(HERE, "s2")) == (["mine"], ["mine"], [])


def test_a_run_was_last_heard_of_when_its_session_was(ledger: Ledger, store: EventStore) -> None:
    """Also by events that are of no run: whoever records them is at work in the session."""
    ledger.append([started("r1")])
    ledger.append([said("elsewhere", session_id="s2")])
    latest = ledger.append([said("beside the run")])[0]

    (run,) = listed(store)

    assert run.seen_ms == latest.recorded_ms


def test_several_runs_of_a_session_are_listed_as_they_began(
    ledger: Ledger, store: EventStore
) -> None:
    ledger.append([started("r2"), started("r1"), started("r3")])

    assert [(run.run_id, run.first_seq) for run in listed(store, HERE, "s1")] == [
        ("r2", 1), ("r1", 2), ("r3", 3),
    ]  # fmt: skip


def test_open_runs_are_the_same_after_a_rebuild_and_in_a_copy(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([started("r1", refs={"owner": store_of(source).leases.owner()}), *run_of("r2")])
    before = listed(store_of(source))

    source.admin.rebuild()
    source.admin.copy_to(target)

    assert before == listed(store_of(source)) == listed(store_of(target))
    assert len(before) == 1
