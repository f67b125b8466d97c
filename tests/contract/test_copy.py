"""What every database promises about copying from one ledger to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, called, said
from ports import store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering import Event, Ledger
    from treering.ledger.records import Record

    Change = Callable[[Record], Record | None]


def contents(ledger: Ledger, scope: str = HERE) -> list[Event]:
    """Return the events of a scope in the order they are followed, wherever they stand."""
    found = ledger.follow_events(scope, idle_s=0)
    return [msgspec.structs.replace(event, position=0) for event in found]


def said_in(ledger: Ledger, session_id: str) -> list[str]:
    return [event.summary for event in contents(ledger) if event.session_id == session_id]


def reasons(receipt: treering.receipts.CopyReceipt) -> list[tuple[str, int, str]]:
    return [(fault.session_id, fault.seq, fault.reason) for fault in receipt.refused_sample]


class Stopped(Exception):
    """Whoever looked on has had enough."""


def stopping_after(events: int) -> Callable[[int, int], None]:
    def look(done: int, _: int) -> None:
        if done >= events:
            raise Stopped

    return look


@pytest.fixture
def target(open_ledger: Callable[[], Ledger]) -> Ledger:
    return open_ledger()


@pytest.fixture
def long(open_ledger: Callable[[], Ledger]) -> Ledger:
    """Return a ledger that is more than one page, its sessions mixed."""
    ledger = open_ledger()
    ledger.append([said(str(n), session_id=f"s{n % 3}", event_id=f"e{n}") for n in range(1_500)])
    return ledger


def test_a_copy_is_the_same_events_in_the_same_order_with_the_same_chain(
    source: Ledger, target: Ledger
) -> None:
    receipt = source.admin.copy_to(target)

    proof = source.admin.verify()
    assert receipt == treering.receipts.CopyReceipt(
        scopes=2,
        sessions=proof.sessions,
        copied=proof.events,
        present=0,
        refused=0,
        complete=True,
        intact=True,
        refused_sample=[],
    )
    assert contents(target) == contents(source)
    assert contents(target, ELSEWHERE) == contents(source, ELSEWHERE)
    assert target.admin.verify() == proof


def test_a_copy_by_way_of_another_sort_of_ledger_is_the_same(
    source: Ledger, target: Ledger
) -> None:
    with treering.open(":memory:") as between:
        there, back = source.admin.copy_to(between), between.admin.copy_to(target)

    assert there == back
    assert contents(target) == contents(source)
    assert target.admin.verify() == source.admin.verify()


def test_copying_again_brings_nothing(source: Ledger, target: Ledger) -> None:
    first = source.admin.copy_to(target)

    second = source.admin.copy_to(target)

    assert (second.copied, second.present) == (0, first.copied)
    assert (second.complete, second.intact) == (True, True)


def test_what_was_recorded_since_is_brought_by_the_next_copy(
    source: Ledger, target: Ledger
) -> None:
    before = source.admin.copy_to(target).copied
    source.append([said("more"), said("new", session_id="s3"), said("and more", session_id="s2")])

    receipt = source.admin.copy_to(target)

    assert (receipt.copied, receipt.present, receipt.complete) == (3, before, True)
    assert contents(target) == contents(source)
    assert target.admin.verify() == source.admin.verify()


def test_one_session_with_news_is_brought_alone(long: Ledger, target: Ledger) -> None:
    long.admin.copy_to(target)
    long.append([said(f"more {n}", session_id="s1") for n in range(700)])

    receipt = long.admin.copy_to(target)

    assert (receipt.copied, receipt.present, receipt.intact) == (700, 1_500, True)
    assert said_in(target, "s1") == said_in(long, "s1")


def test_one_scope_is_copied_alone(source: Ledger, target: Ledger) -> None:
    """Promise 3: a copy of scope A holds not a byte of scope B."""
    receipt = source.admin.copy_to(target, scope=HERE)

    assert (receipt.scopes, receipt.sessions, receipt.complete) == (1, 2, True)
    assert target.admin.verify(HERE) == source.admin.verify(HERE)
    assert contents(target, ELSEWHERE) == []


def test_a_scope_without_events_gives_an_empty_receipt(source: Ledger, target: Ledger) -> None:
    receipt = source.admin.copy_to(target, scope="nobody")

    assert (receipt.scopes, receipt.sessions, receipt.copied) == (0, 0, 0)
    assert (receipt.complete, receipt.intact) == (True, True)


@pytest.mark.parametrize("times", [1, 2])
def test_a_copy_that_was_stopped_goes_on_where_it_ended(
    long: Ledger, target: Ledger, times: int
) -> None:
    for _ in range(times):
        with pytest.raises(Stopped):
            long.admin.copy_to(target, progress=stopping_after(500))
    there = target.admin.verify().events

    receipt = long.admin.copy_to(target)

    assert 0 < there < 1_500
    assert (receipt.copied, receipt.present) == (1_500 - there, there)
    assert (receipt.complete, receipt.intact) == (True, True)
    assert contents(target) == contents(long)


def test_whoever_looks_on_is_told_exactly_how_much_there_is_to_do(
    long: Ledger, target: Ledger
) -> None:
    told: list[tuple[int, int]] = []
    with pytest.raises(Stopped):
        long.admin.copy_to(target, progress=stopping_after(500))
    there = target.admin.verify().events

    long.admin.copy_to(target, progress=lambda done, total: told.append((done, total)))

    assert {total for _, total in told} == {1_500 - there}
    assert told[-1][0] == 1_500 - there
    assert told == sorted(told)


def test_a_session_of_the_same_name_is_refused_and_costs_no_other(
    source: Ledger, target: Ledger
) -> None:
    target.append([said("theirs")])

    receipt = source.admin.copy_to(target, scope=ELSEWHERE)
    mixed = source.admin.copy_to(target)

    assert receipt.complete
    assert (mixed.refused, mixed.complete, mixed.intact) == (1, False, True)
    assert reasons(mixed) == [("s1", 0, "the target has another session of this name")]
    assert said_in(target, "s1") == ["theirs"]
    assert said_in(target, "s2") == said_in(source, "s2")


def test_a_session_that_went_another_way_is_refused_where_it_did(
    long: Ledger, target: Ledger
) -> None:
    long.admin.copy_to(target)
    target.append([said("theirs", session_id="s1")])
    long.append([said(f"ours in {name}", session_id=name) for name in ("s0", "s1", "s1", "s2")])

    receipt = long.admin.copy_to(target)

    assert (receipt.copied, receipt.refused, receipt.complete) == (2, 1, False)
    assert reasons(receipt) == [("s1", 501, "the target has other events, at seq 501 or before")]
    assert said_in(target, "s1")[-1] == "theirs"
    assert said_in(target, "s2")[-1] == "ours in s2"


def test_a_target_that_has_more_is_left_as_it_is(long: Ledger, target: Ledger) -> None:
    long.admin.copy_to(target)
    target.append([said("theirs", session_id="s1")])

    receipt = long.admin.copy_to(target)

    assert (receipt.copied, receipt.present, receipt.complete) == (0, 1_500, True)


def test_an_id_that_the_target_has_elsewhere_costs_its_session_only(
    long: Ledger, target: Ledger
) -> None:
    target.append([said("taken", session_id="theirs", event_id="e601")])

    receipt = long.admin.copy_to(target)

    assert (receipt.refused, receipt.intact) == (1, True)
    assert reasons(receipt) == [("s1", 201, "event_id already exists: e601")]
    assert len(said_in(target, "s1")) == 200
    assert said_in(target, "s2") == said_in(long, "s2")


def test_refusals_are_told_as_far_as_there_is_room(open_ledger: Callable[[], Ledger]) -> None:
    one, other = open_ledger(), open_ledger()
    one.append([said("ours", session_id=f"s{n}") for n in range(9)])
    other.append([said("theirs", session_id=f"s{n}") for n in range(8)])

    receipt = one.admin.copy_to(other)

    assert (receipt.refused, len(receipt.refused_sample), receipt.copied) == (8, 5, 1)


@pytest.mark.parametrize("replacement", ["placeholder", "null"])
def test_what_was_redacted_after_it_was_copied_is_redacted_by_the_next_copy(
    source: Ledger, target: Ledger, replacement: Any
) -> None:
    source.append([said("secret", event_id="e1", payload={"password": "hunter2"})])
    source.admin.copy_to(target)
    source.redact(HERE, event_id="e1", replacement=replacement)

    receipt = source.admin.copy_to(target)

    assert (receipt.copied, receipt.complete, receipt.intact) == (1, True, True)
    assert target.event(HERE, "e1").redacted
    assert contents(target) == contents(source)
    assert target.admin.verify() == source.admin.verify()


def test_what_expired_after_it_was_copied_expires_with_the_next_copy(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([called(event_id="old", ts_ms=NOON), said("kept"), called(ts_ms=NOON)])
    source.admin.copy_to(target)
    source.expire(HERE, now_ms=NOON + 45 * DAY)

    receipt = source.admin.copy_to(target)

    assert (receipt.copied, receipt.complete, receipt.intact) == (1, True, True)
    assert target.admin.verify() == source.admin.verify()
    assert target.append([called(event_id="old", ts_ms=NOON)])[0].expired


def test_a_copy_that_was_stopped_between_an_erasure_and_its_word_goes_on(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([said(str(n), event_id=f"e{n}") for n in range(600)])
    source.append([said("beside", session_id="s2")])
    source.redact(HERE, event_id="e3")
    with pytest.raises(Stopped):
        source.admin.copy_to(target, progress=stopping_after(500))

    receipt = source.admin.copy_to(target)

    assert (receipt.copied, receipt.complete, receipt.intact) == (102, True, True)
    assert target.admin.verify() == source.admin.verify()


def test_a_copy_taken_while_somebody_erases_and_appends_holds(long: Ledger, target: Ledger) -> None:
    erased = iter(["e10", "e1100", "e20", "e1450"])

    def meanwhile(_: int, __: int) -> None:
        for event_id in erased:
            long.redact(HERE, event_id=event_id)
            long.append(
                [said("meanwhile", session_id=f"new {event_id}"), said("s", session_id="s1")]
            )

    first = long.admin.copy_to(target, progress=meanwhile)
    second = long.admin.copy_to(target)

    assert (first.complete, first.intact, first.refused_sample) == (True, True, [])
    assert (second.complete, second.intact) == (True, True)
    assert target.admin.verify() == long.admin.verify()
    assert sorted(contents(target), key=order) == sorted(contents(long), key=order)


def order(event: Event) -> tuple[str, int]:
    return event.session_id, event.seq


def test_the_retention_of_a_scope_is_copied_unless_the_target_has_its_own(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, fresh, settled = open_ledger(), open_ledger(), open_ledger()
    source.append([called(event_id="old", ts_ms=NOON), said("kept")])
    source.set_retention(HERE, {"conversation.user": 3})
    source.expire(HERE, now_ms=NOON + 45 * DAY)
    source.admin.copy_to(settled)
    settled.set_retention(HERE, {"conversation.user": 5})

    receipt = source.admin.copy_to(fresh)
    source.admin.copy_to(settled)

    assert receipt.complete
    assert fresh.retention(HERE) == source.retention(HERE)
    assert settled.retention(HERE)["conversation.user"] == 5


def test_a_policy_without_events_makes_no_scope_in_the_target(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, target = open_ledger(), open_ledger()
    source.set_retention(HERE, {"conversation.user": 3})
    source.admin.copy_to(target, scope=HERE)
    source.append([called(event_id="old", ts_ms=NOON)])
    source.expire(HERE, now_ms=NOON + 45 * DAY)

    receipt = source.admin.copy_to(target, scope=HERE)

    assert (receipt.complete, receipt.refused_sample) == (True, [])
    assert target.retention(HERE)["conversation.user"] == 3


def test_a_ledger_is_not_copied_into_itself(source: Ledger) -> None:
    with pytest.raises(treering.InvalidInput, match="into itself"):
        source.admin.copy_to(source)


def test_a_scope_that_is_encrypted_is_not_copied_to_where_it_is_not(
    source: Ledger, target: Ledger
) -> None:
    source.admin.copy_to(target, scope=ELSEWHERE)
    source.keys.create(HERE)
    source.append([said("sealed", event_id="sealed")])

    with pytest.raises(treering.InvalidInput, match=f"scope {HERE} is encrypted") as refused:
        source.admin.copy_to(target)
    before = contents(target)
    target.keys.create(HERE)
    receipt = source.admin.copy_to(target)

    assert "keys create" in (refused.value.hint or "")
    assert before == []
    assert (receipt.complete, receipt.intact, receipt.refused_sample) == (True, True, [])
    assert contents(target) == contents(source)
    assert sum(key.payloads for key in target.keys.list()) > 1


class Changed:
    """A store whose events are not what was recorded."""

    def __init__(self, store: Any, change: Change) -> None:
        self._store = store
        self.reader = ChangedReader(store.reader, change)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class ChangedReader:
    """The reader of such a store."""

    def __init__(self, reader: Any, change: Change) -> None:
        self._reader = reader
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def record_pages(self, *place: Any, **options: Any) -> Iterator[list[Record]]:
        for page in self._reader.record_pages(*place, **options):
            yield [changed for record in page if (changed := self._change(record)) is not None]


def changing(session_id: str, seq: int, **fields: Any) -> Change:
    """Change fields of one event; take it away if none is named."""

    def change(record: Record) -> Record | None:
        if (record.session_id, record.seq) != (session_id, seq):
            return record
        return msgspec.structs.replace(record, **fields) if fields else None

    return change


@pytest.mark.parametrize(
    ("fields", "seq", "reason"),
    [
        ({"summary": "a lie"}, 300, "does not hold what its digest says"),
        ({"payload": b'{"text":"a lie"}'}, 300, "does not hold what its digest says"),
        ({"payload": None, "salt": None}, 300, "lacks its content"),
        ({"kind": "ops.alert"}, 300, "does not follow"),
        ({"ts_ms": 7}, 300, "does not follow"),
        ({"link": bytes(32)}, 300, "does not follow"),
        ({}, 300, "jumps from seq 299 to 301"),
        ({"source": "evil\x1b[31m"}, 300, "invalid source"),
    ],
)
def test_a_changed_event_is_refused_with_its_seq_and_the_rest_is_copied(
    long: Ledger, target: Ledger, fields: dict[str, Any], seq: int, reason: str
) -> None:
    long.admin._store = Changed(store_of(long.admin), changing("s1", 300, **fields))

    receipt = long.admin.copy_to(target)

    assert (receipt.refused, receipt.complete, receipt.intact) == (1, False, True)
    ((session_id, place, said_why),) = reasons(receipt)
    assert (session_id, place) == ("s1", seq)
    assert reason in said_why
    assert "\x1b" not in said_why
    assert said_in(target, "s1") == [str(n) for n in range(1, 898, 3)]
    assert len(contents(target)) == 1_000 + 299


def test_a_tail_that_the_source_does_not_give_is_missed(long: Ledger, target: Ledger) -> None:
    long.admin._store = Changed(
        store_of(long.admin),
        lambda record: None if record.session_id == "s1" and record.seq > 400 else record,
    )

    receipt = long.admin.copy_to(target)

    assert (receipt.copied, receipt.complete) == (1_400, False)
    assert reasons(receipt) == [("s1", 401, "seq 401 is missing: the session ends at seq 500")]


def test_an_event_that_changed_on_the_way_is_copied_when_it_is_put_right(
    long: Ledger, target: Ledger
) -> None:
    store = store_of(long.admin)
    long.admin._store = Changed(store, changing("s1", 300, summary="a lie"))
    long.admin.copy_to(target)
    long.admin._store = store

    receipt = long.admin.copy_to(target)

    assert (receipt.copied, receipt.present, receipt.complete) == (201, 1_299, True)
    assert target.admin.verify() == long.admin.verify()
