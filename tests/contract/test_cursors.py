"""Places that followers keep in the ledger: theirs alone, durable, and not copied."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

import treering
from builders import HERE, said
from ports import store_of
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from postgres_server import Places
    from treering import Ledger

OURS, THEIRS = Scope(HERE), Scope("acme/other")


def test_a_follower_that_kept_nothing_has_no_cursor(ledger: Ledger) -> None:
    ledger.append([said("hello")])

    assert store_of(ledger).cursors.find(OURS, "sink") is None
    assert store_of(ledger).cursors.find(Scope("acme/none"), "sink") is None


def test_the_last_cursor_counts(ledger: Ledger) -> None:
    for cursor in ("one", "two", "two"):
        store_of(ledger).cursors.set(OURS, "sink", cursor)

    assert store_of(ledger).cursors.find(OURS, "sink") == "two"


def test_scopes_and_followers_keep_cursors_of_their_own(ledger: Ledger) -> None:
    kept = {(OURS, "a"): "1", (OURS, "b"): "2", (THEIRS, "a"): "3", (THEIRS, "b"): "4"}

    for (scope, follower), cursor in kept.items():
        store_of(ledger).cursors.set(scope, follower, cursor)

    assert {place: store_of(ledger).cursors.find(*place) for place in kept} == kept


def test_several_cursors_are_kept_at_once(ledger: Ledger) -> None:
    store_of(ledger).cursors.set(OURS, "a", "0")

    store_of(ledger).cursors.set_all(OURS, {"a": "1", "b": "2"})
    store_of(ledger).cursors.set_all(OURS, {"b": "3"})

    assert store_of(ledger).cursors.all(OURS) == {"a": "1", "b": "3"}
    assert store_of(ledger).cursors.find_all(OURS, ["b", "c"]) == {"b": "3"}
    assert store_of(ledger).cursors.find_all(OURS, []) == {}


def test_a_cursor_is_no_event(ledger: Ledger) -> None:
    ledger.append([said("hello")])
    store_of(ledger).cursors.set(OURS, "sink", "one")

    ledger.admin.rebuild()

    assert store_of(ledger).cursors.find(OURS, "sink") == "one"
    assert len(ledger.headers(HERE).items) == 1
    assert ledger.admin.verify().intact


def test_cursors_stay_behind_when_events_are_copied_or_exported(
    open_ledger: Callable[[], Ledger],
) -> None:
    """A place in one ledger says nothing in another."""
    source, copied, restored = open_ledger(), open_ledger(), open_ledger()
    source.append([said("hello")])
    store_of(source).cursors.set(OURS, "sink", "a-place-of-its-own")
    stream = io.BytesIO()

    source.admin.copy_to(copied)
    source.admin.export(HERE, stream, payloads="included")
    restored.admin.restore(io.BytesIO(stream.getvalue()))

    assert b"a-place-of-its-own" not in stream.getvalue()
    for target in (copied, restored):
        assert len(target.headers(HERE).items) == 1
        assert store_of(target).cursors.find(OURS, "sink") is None


def test_a_cursor_is_kept_and_cannot_be_changed_by_one_who_only_reads(
    shared_database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    location = str(tmp_path / "ledger.db")
    if shared_database == "postgres":
        places: Places = request.getfixturevalue("postgres")
        location = places.fresh()
    with treering.open(location) as ledger:
        store_of(ledger).cursors.set(OURS, "sink", "one")

    with treering.open(location, mode="ro") as reading:
        with pytest.raises(treering.errors.ReadOnly) as refused:
            store_of(reading).cursors.set(OURS, "sink", "two")
        kept = store_of(reading).cursors.find(OURS, "sink")

    assert kept == "one"
    assert refused.value.hint
