"""What every database promises to the memory about rows and documents."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import pytest

from builders import DAY, ELSEWHERE, HERE, NOON, run_of, said
from ports import store_of
from threads import in_threads
from treering.memory.records import IndexEntry, IndexState, Row
from treering.model.scopes import Scope
from treering.storage.memory import PAGE_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering import Event, Ledger, NewEvent
    from treering.ledger.ports import EventStore
    from treering.memory.records import IndexName

SPACE: Final = "space-1"
"""The name of an embedder."""
SCOPE, OTHER = Scope(HERE), Scope(ELSEWHERE)


def stored(text: str, **fields: object) -> NewEvent:
    """Return a fact that was stored."""
    return said(text, **({"kind": "memory.stored", "session_id": "memory"} | fields))


def tell(events: Sequence[Event]) -> list[IndexEntry]:
    """Enter each event by its own words, with a vector for those that have a blank in them."""
    return [
        IndexEntry(event.position, text.encode(), b"vector" if " " in text else b"")
        for event in events
        for text in [str(event.summary)]
    ]


def catch_up(store: EventStore, shelf: IndexName, scope: Scope = SCOPE) -> None:
    while store.memory.follow_documents(scope, shelf, tell, embedder=SPACE).more:
        pass


def shelved(store: EventStore, shelf: IndexName, scope: Scope = SCOPE) -> list[str]:
    """Return the words of all documents on a shelf, in order."""
    found = store.memory.documents(scope, shelf, after=0, limit=9_999)
    assert [number for number, _ in found] == sorted({number for number, _ in found})
    return [document.terms.decode() for _, document in found]


def remembered(store: EventStore, scope: Scope = SCOPE) -> list[str]:
    """Return what is said by all that is remembered, the unsettled tail included."""
    stretch = store.memory.remembered_after(scope, (), limit=100)
    assert not stretch.more
    return [str(event.summary) for event in stretch.items]


# What is remembered.


def test_what_was_just_written_is_remembered_and_shelved_in_order(ledger: Ledger) -> None:
    store = store_of(ledger)
    for number in range(3):
        ledger.append([stored(f"fact {number}"), said("chat"), stored("theirs", scope=ELSEWHERE)])
        catch_up(store, "memories")

        told = [f"fact {n}" for n in range(number + 1)]
        assert remembered(store) == shelved(store, "memories") == told
    [*_, last] = store.memory.remembered_after(SCOPE, (), limit=9).items
    assert (last.payload, last.kind) == ({"text": "fact 2"}, "memory.stored")


def test_a_stretch_goes_on_behind_its_last_mark(ledger: Ledger) -> None:
    ledger.append([stored(f"fact {number}") for number in range(5)])
    store = store_of(ledger)

    found: list[str] = []
    mark: tuple[int, ...] = ()
    for _ in range(9):
        stretch = store.memory.remembered_after(SCOPE, mark, limit=2)
        settled = [one <= stretch.last for one in stretch.marks]
        found += [
            str(event.summary)
            for event, is_settled in zip(stretch.items, settled, strict=True)
            if is_settled or not stretch.more
        ]
        mark = stretch.last
        if not stretch.more:
            break

    assert found == [f"fact {number}" for number in range(5)]


def test_what_was_erased_is_not_told_and_what_vouches_for_it_is(ledger: Ledger) -> None:
    ledger.append([stored("gone", event_id="e1"), stored("kept")])
    ledger.redact(HERE, event_id="e1")

    told = store_of(ledger).memory.remembered_after(SCOPE, (), limit=9).items

    catch_up(store_of(ledger), "memories")
    assert shelved(store_of(ledger), "memories") == ["kept"]
    assert [event.kind for event in told] == ["memory.stored", "ledger.redacted"]
    assert told[0].summary == "kept"
    assert told[1].payload["ranges"] == [[1, 1]]


def test_only_runs_that_ended_are_told(ledger: Ledger) -> None:
    for state in ("run.ended", "run.failed", "run.interrupted"):
        start, end = run_of(state, end=state, session_id="memory")
        ledger.append([start, stored(f"in {state}", run_id=state), end])
    ledger.append([said("open", kind="run.started", run_id="open"), stored("x", run_id="open")])

    assert remembered(store_of(ledger)) == ["in run.ended"]


def test_events_come_by_position_as_they_are_asked_for(ledger: Ledger) -> None:
    headers = ledger.append(
        [said(f"e{n}", event_id=f"e{n}") for n in range(4)] + [said("theirs", scope=ELSEWHERE)]
    )
    ledger.redact(HERE, event_id="e1")
    asked = [headers[at].position for at in (3, 0, 1, 4, 2)]

    found = store_of(ledger).memory.events_at_positions(SCOPE, [*asked, 10**9])

    assert [event.summary for event in found] == ["e3", "e0", "e2"]
    assert found[0].payload == {"text": "e3"}


# Rows.


def test_rows_are_kept_changed_and_taken_out(ledger: Ledger) -> None:
    ledger.append([stored("a"), stored("b")])
    store = store_of(ledger)
    first = store.reader.end(SCOPE)
    kept = [Row("fact", "a", b"1"), Row("fact", "b", b"2"), Row("user", "a", b"3")]
    changed = [Row("fact", "a", None), Row("fact", "b", b"4"), Row("fact", "c", b"5")]

    assert store.memory.memory_rows(SCOPE).items == []
    assert store.memory.memory_rows(SCOPE).mark == ()
    assert store.memory.keep_memory_rows(SCOPE, kept, since=(), until=first, replace=False)
    assert store.memory.keep_memory_rows(SCOPE, changed, since=first, until=first, replace=False)

    assert store.memory.memory_rows(SCOPE).mark == first
    assert sorted(store.memory.memory_rows(SCOPE).items, key=str) == [
        Row("fact", "b", b"4"), Row("fact", "c", b"5"), Row("user", "a", b"3"),
    ]  # fmt: skip
    assert store.memory.memory_rows(OTHER).items == []
    assert store.memory.keep_memory_rows(SCOPE, kept[:1], since=first, until=first, replace=True)
    assert store.memory.memory_rows(SCOPE).items == kept[:1]


def test_rows_come_back_whatever_is_in_them_and_however_many_there_are(ledger: Ledger) -> None:
    ledger.append([stored("a")])
    store = store_of(ledger)
    odd = [
        Row("fact", '"key\\', bytes(range(256))),
        Row("fact", "ключ", b""),
        Row("user", "", b"1"),
    ]
    many = [Row("fact", f"{at:05}", b"%d" % at) for at in range(2 * PAGE_ROWS)]

    store.memory.keep_memory_rows(
        SCOPE, [*odd, *many], since=(), until=store.reader.end(SCOPE), replace=False
    )

    found = store.memory.memory_rows(SCOPE)
    assert sorted(found.items, key=str) == sorted([*odd, *many], key=str)
    assert [*found.tables["fact"]] == sorted(row.key for row in [*odd[:2], *many])


def test_whoever_comes_late_changes_nothing(ledger: Ledger) -> None:
    ledger.append([stored("a"), stored("b")])
    store = store_of(ledger)
    end, late = store.reader.end(SCOPE), [Row("fact", "late", b"1")]
    assert store.memory.keep_memory_rows(
        SCOPE, [Row("fact", "a", b"1")], since=(), until=end, replace=False
    )

    assert not store.memory.keep_memory_rows(SCOPE, late, since=(), until=end, replace=False)
    assert not store.memory.keep_memory_rows(SCOPE, late, since=(), until=end, replace=True)

    assert store.memory.memory_rows(SCOPE).items == [Row("fact", "a", b"1")]


def test_of_several_who_keep_rows_at_once_one_does(ledger: Ledger) -> None:
    ledger.append([stored("a")])
    store = store_of(ledger)
    end = store.reader.end(SCOPE)

    kept: dict[str, bool] = {}

    def keep(key: str) -> None:
        rows = [Row("fact", key, b"1")]
        kept[key] = store.memory.keep_memory_rows(SCOPE, rows, since=(), until=end, replace=False)

    in_threads(*(partial(keep, key) for key in "abcd"))

    assert sorted(kept.values()) == [False, False, False, True]
    assert [kept[row.key] for row in store.memory.memory_rows(SCOPE).items] == [True]


def test_rows_are_folded_anew_after_something_remembered_was_erased(ledger: Ledger) -> None:
    ledger.append([stored("a", event_id="a"), said("chat", event_id="chat")])
    store = store_of(ledger)
    for scope in (SCOPE, OTHER):
        ledger.append([stored("x", scope=scope)])
        end = store.reader.end(scope)
        assert store.memory.keep_memory_rows(
            scope, [Row("f", "a", b"1")], since=(), until=end, replace=False
        )

    ledger.redact(HERE, event_id="chat")
    assert store.memory.memory_rows(SCOPE).items == [Row("f", "a", b"1")]
    before = store.projection_counts(SCOPE)
    ledger.redact(HERE, event_id="a")

    after = store.projection_counts(SCOPE)
    assert (before["memory_rows"], after["memory_rows"]) == (1, 0)
    assert (store.memory.memory_rows(SCOPE).mark, store.memory.memory_rows(SCOPE).items) == ((), [])
    assert store.memory.memory_rows(OTHER).items == [Row("f", "a", b"1")]


# Documents.


def test_each_shelf_follows_its_kinds(ledger: Ledger) -> None:
    ledger.append(
        [
            said("talk"),
            stored("a fact"),
            stored("recalled", kind="memory.recalled"),
            said("theirs", scope=ELSEWHERE),
            *run_of("r1", "tried", end="run.failed"),
            stored("an episode", kind="episode.written"),
            stored("blank", kind="memory.archived"),
        ]
    )
    store = store_of(ledger)
    assert (
        store.memory.documents_lag(SCOPE, "events"),
        store.memory.documents_lag(SCOPE, "memories"),
    ) == (4, 2)

    for shelf in ("events", "memories"):
        catch_up(store, shelf)

    assert shelved(store, "events") == ["talk", "run started", "tried", "run over"]
    assert shelved(store, "memories") == ["a fact", "an episode"]
    assert shelved(store, "events", OTHER) == []
    assert (
        store.memory.documents_lag(SCOPE, "events"),
        store.memory.documents_lag(SCOPE, "memories"),
    ) == (0, 0)


def test_a_document_says_where_its_event_stands_and_which_space_it_is_in(ledger: Ledger) -> None:
    first, second = ledger.append([said("two words", ts_ms=NOON), said("one", session_id="s2")])
    store = store_of(ledger)
    catch_up(store, "events")

    [(_, long), (_, short)] = store.memory.documents(SCOPE, "events", after=0, limit=9)

    assert (long.position, long.seq, long.ts_ms) == (first.position, 1, NOON)
    assert (long.kind, long.embedder, long.vectors) == ("conversation.user", SPACE, b"vector")
    assert (short.position, short.embedder, short.vectors) == (second.position, "", b"")
    assert long.session != short.session


def test_columns_have_what_the_documents_have_and_vectors_of_one_embedder(ledger: Ledger) -> None:
    def read(events: Sequence[Event]) -> list[IndexEntry]:
        return [
            IndexEntry(event.position, b"\0\xff" * event.seq, bytes(range(256)) * (event.seq % 2))
            for event in events
        ]

    events = [said(f"e{n}", ts_ms=NOON + n, session_id=f"s{n % 3}") for n in range(1, 8)]
    ledger.append([*events, said("other", scope=ELSEWHERE)])
    store = store_of(ledger)
    store.memory.follow_documents(SCOPE, "events", read, embedder=SPACE)
    page = store.memory.documents(SCOPE, "events", after=0, limit=9)
    after = page[1][0]

    columns = store.memory.document_columns(SCOPE, "events", after=after, limit=4, embedder=SPACE)
    others = store.memory.document_columns(
        SCOPE, "events", after=after, limit=4, embedder="another"
    )
    none = store.memory.document_columns(SCOPE, "events", after=page[-1][0], limit=4, embedder="")

    expected = [
        (number, one.position, one.session, one.seq, len(one.terms), len(one.vectors))
        for number, one in page[2:6]
    ]
    assert list(zip(*msgspec.structs.astuple(columns)[:6], strict=True)) == expected
    assert columns.terms == b"".join(one.terms for _, one in page[2:6])
    assert columns.vectors == b"".join(one.vectors for _, one in page[2:6])
    assert columns.vectors
    assert (others.vectors, others.vector_bytes, others.terms) == (b"", [0] * 4, columns.terms)
    assert none.numbers == []


def test_an_event_of_which_nothing_is_told_is_passed_by(ledger: Ledger) -> None:
    ledger.append([said("a"), said("b")])
    store = store_of(ledger)

    step = store.memory.follow_documents(
        SCOPE,
        "events",
        lambda events: [IndexEntry(event.position, b"", b"") for event in events],
        embedder=SPACE,
    )

    assert (step.events, shelved(store, "events")) == (2, [])
    assert store.memory.documents_lag(SCOPE, "events") == 0


def test_documents_come_in_pages_and_new_ones_behind_them(ledger: Ledger) -> None:
    ledger.append([said(f"e{n}") for n in range(5)])
    store = store_of(ledger)
    catch_up(store, "events")
    before = store.memory.index_state(SCOPE, "events")
    page = store.memory.documents(SCOPE, "events", after=0, limit=3)
    ledger.append([said("e5"), said("other", scope=ELSEWHERE)])
    catch_up(store, "events")

    rest = store.memory.documents(SCOPE, "events", after=page[-1][0], limit=9)

    after = store.memory.index_state(SCOPE, "events")
    assert [document.terms for _, document in page + rest] == [b"e%d" % n for n in range(6)]
    assert (before.count, after.count) == (5, 6)
    assert before.generation == after.generation
    assert before.newest < after.newest == rest[-1][0]


def test_threads_that_follow_at_once_enter_each_event_once(ledger: Ledger) -> None:
    ledger.append([said(f"e{n}") for n in range(1_100)])
    store = store_of(ledger)

    def follow(number: int) -> None:
        for at in range(3):
            ledger.append([said(f"by {number} {at}", session_id=f"t{number}")])
            catch_up(store, "events")

    in_threads(*(partial(follow, number) for number in range(3)))

    catch_up(store, "events")
    found = shelved(store, "events")
    assert len(found) == len(set(found)) == 1_109
    assert store.memory.index_state(SCOPE, "events").count == 1_109


def test_whoever_follows_while_others_erase_keeps_nothing_of_it(ledger: Ledger) -> None:
    store = store_of(ledger)

    def write_and_erase(number: int) -> None:
        for at in range(8):
            name = f"{number}-{at}"
            ledger.append([said(name, event_id=name, session_id=f"s{number}")])
            catch_up(store, "events")
            if at % 2:
                ledger.redact(HERE, event_id=name)

    in_threads(*(partial(write_and_erase, number) for number in range(3)))

    catch_up(store, "events")
    assert sorted(shelved(store, "events")) == [
        f"{number}-{at}" for number in range(3) for at in range(0, 8, 2)
    ]
    assert store.memory.index_state(SCOPE, "events").count == 12


@pytest.mark.parametrize("how", ["event", "session", "expired"])
def test_documents_leave_with_what_is_erased(ledger: Ledger, how: str) -> None:
    ledger.append(
        [
            said("gone", event_id="e1", ts_ms=NOON),
            said("kept", session_id="s2", ts_ms=NOON + 99 * DAY),
            said("theirs", scope=ELSEWHERE, ts_ms=NOON + 99 * DAY),
            stored("a fact", ts_ms=NOON + 99 * DAY),
        ]
    )
    store = store_of(ledger)
    for scope in (SCOPE, OTHER):
        catch_up(store, "events", scope)
    catch_up(store, "memories")
    before = {shelf: store.memory.index_state(SCOPE, shelf) for shelf in ("events", "memories")}
    elsewhere = store.memory.index_state(OTHER, "events")

    if how == "event":
        ledger.redact(HERE, event_id="e1")
    elif how == "session":
        ledger.redact(HERE, session_id="s1")
    else:
        ledger.expire(HERE, now_ms=NOON + 100 * DAY)

    assert shelved(store, "events") == ["kept"]
    assert store.projection_counts(SCOPE)["documents"] == 2
    after = store.memory.index_state(SCOPE, "events")
    assert (after.count, before["events"].count) == (1, 2)
    assert after.generation != before["events"].generation
    assert store.memory.index_state(SCOPE, "memories") == before["memories"]
    assert store.memory.index_state(OTHER, "events") == elsewhere
    catch_up(store, "events")
    assert shelved(store, "events") == ["kept"]


def test_documents_are_dropped_and_entered_anew(ledger: Ledger) -> None:
    ledger.append([said("ours"), stored("a fact"), said("theirs", scope=ELSEWHERE)])
    store = store_of(ledger)
    for scope in (SCOPE, OTHER):
        catch_up(store, "events", scope)
        catch_up(store, "memories", scope)
    before = store.memory.index_state(SCOPE, "events")

    assert store.memory.drop_documents(SCOPE) == 2
    assert shelved(store, "events") == shelved(store, "memories") == []
    assert store.memory.documents_lag(SCOPE, "events") == 1
    catch_up(store, "events")
    assert shelved(store, "events") == ["ours"]
    assert store.memory.index_state(SCOPE, "events").generation != before.generation
    assert shelved(store, "events", OTHER) == ["theirs"]
    assert store.memory.drop_documents() == 2
    assert store.memory.index_state(OTHER, "events").count == 0


def test_a_rebuild_drops_all_of_it_and_the_ledger_stays_sound(ledger: Ledger) -> None:
    ledger.append([said("talk"), stored("a fact")])
    store = store_of(ledger)
    catch_up(store, "events")
    end = store.reader.end(SCOPE)
    store.memory.keep_memory_rows(
        SCOPE, [Row("fact", "a", b"1")], since=(), until=end, replace=False
    )
    before = store.memory.index_state(SCOPE, "events")

    store.rebuild()

    kept = store.memory.memory_rows(SCOPE)
    assert (kept.mark, kept.items, shelved(store, "events")) == ((), [], [])
    catch_up(store, "events")
    assert shelved(store, "events") == ["talk"]
    assert store.memory.index_state(SCOPE, "events").generation != before.generation
    assert ledger.admin.verify().intact


def test_nothing_is_there_of_a_scope_that_nobody_wrote_to(ledger: Ledger) -> None:
    store, nobody = store_of(ledger), Scope("acme/nobody")

    catch_up(store, "events", nobody)

    assert (store.memory.memory_rows(nobody).items, remembered(store, nobody)) == ([], [])
    assert (
        store.memory.index_state(nobody, "events").count
        == store.memory.documents_lag(nobody, "events")
        == 0
    )
    assert not store.memory.keep_memory_rows(
        nobody, [], since=(1,) * 3, until=(2,) * 3, replace=False
    )
    assert isinstance(store.memory.index_state(nobody, "events"), IndexState)
