"""Keyed records: the latest value of a key, whoever put it; nothing of another scope."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import ELSEWHERE, HERE, said
from concurrency.processes import begin_together, colleagues
from effort import PATIENCE_S
from treering.errors import Conflict, InvalidInput, SensitiveContent
from treering.ledger.keyed_records import KeyedRecords, RecordChange

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from treering import Ledger

VALUES: list[Any] = [
    None,
    0,
    1.5,
    "text",
    "",
    [1, [2]],
    {"a": {"b": None}},
    b"",
    b"\x00\xff" * 9_000,
    {"mixed": [b"bytes", "text"], "$bytes": "c2VjcmV0"},
    {"$bytes": "c2VjcmV0"},
    {"inner": {"$bytes": "bm8="}, "bytes": b"yes"},
    "large " * 4_000,
]


@pytest.fixture
def records(ledger: Ledger) -> KeyedRecords:
    """Return records that nobody has put yet."""
    return ledger.records(HERE, "settings")


def test_a_value_comes_back_as_it_was_put(records: KeyedRecords) -> None:
    for at, value in enumerate(VALUES):
        put = records.put(f"k{at}", value)
        got = records.get(f"k{at}")
        assert got == put
        assert got is not None
        assert got.value == value

    many = records.get_many([f"k{at}" for at in range(len(VALUES))] + ["unknown"])
    assert [one.value for one in many.values()] == VALUES
    assert records.versions([*many, "unknown"]) == {key: one.version for key, one in many.items()}


def test_the_latest_value_counts_and_the_others_are_history(records: KeyedRecords) -> None:
    for value in range(5):
        records.put("k", value)
    assert records.remove(["k", "unknown"]) == 1
    assert records.get("k") is None
    assert records.versions(["k"]) == {}
    assert records.keys() == []
    assert records.remove(["k"]) == 0

    records.put("k", 9, expected=records.ABSENT)

    assert [one.value for one in records.history("k")] == [0, 1, 2, 3, 4, 9]


def test_a_change_that_expects_another_version_is_refused_and_leaves_nothing(
    ledger: Ledger, records: KeyedRecords
) -> None:
    first = records.put("k", 1, expected="")
    with pytest.raises(Conflict):
        records.put("k", 2, expected="")
    second = records.put("k", 2, expected=first.version)
    with pytest.raises(Conflict):
        records.put_all(
            [
                RecordChange(key="other", value=1),
                RecordChange(key="k", value=3, expected=first.version),
            ]
        )
    with pytest.raises(Conflict):
        records.put("unknown", 1, expected=second.version)

    assert records.get("k") == second
    assert records.keys() == ["k"]
    assert len(ledger.replay(HERE, records.session_id).items) == 2


def test_of_many_who_expect_the_same_one_wins(open_shared: Callable[[], Ledger]) -> None:
    """Two to a ledger, in two sessions, by connections that share nothing but the database."""
    ledgers = [open_shared() for _ in range(3)]
    barrier = threading.Barrier(6)
    won: list[int] = []

    def compete(at: int) -> None:
        records = ledgers[at % 3].records(HERE, "race", session_id=f"s{at % 2}")
        for turn in range(8):
            current = records.get("k")
            barrier.wait(PATIENCE_S)
            try:
                records.put("k", at, expected=current.version if current else "")
                won.append(turn)
            except Conflict:
                pass
            barrier.wait(PATIENCE_S)

    threads = [threading.Thread(target=compete, args=(at,)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert sorted(won) == list(range(8))
    assert len(list(ledgers[0].records(HERE, "race").history("k"))) == 8


def count_up(pipe: Connection, location: str, times: int, number: int) -> None:
    """Once told to, add one to a counter so many times; tell how often another was faster."""
    with treering.open(location) as ledger:
        records = ledger.records(HERE, "counters", session_id=f"counted by {number}")
        pipe.send("ready")
        pipe.recv()
        conflicts = added = 0
        while added < times:
            current = records.get("k")
            value, version = (current.value, current.version) if current else (0, "")
            try:
                records.put("k", value + 1, expected=version)
                added += 1
            except Conflict:
                conflicts += 1
        pipe.send(conflicts)


def claim(pipe: Connection, location: str, number: int) -> None:
    """In each round, put keys that nobody may have put before, all or none; tell who did."""
    with treering.open(location) as ledger:
        records = ledger.records(HERE, "claims")
        pipe.send("ready")
        while (keys := pipe.recv()) is not None:
            changes = [RecordChange(key=key, value=number, expected="") for key in keys]
            try:
                pipe.send(records.put_all(changes)[0].value)
            except Conflict:
                pipe.send(None)


def test_processes_that_count_together_lose_no_step(location: str) -> None:
    """Compare-and-set by processes that share nothing but the database."""
    with treering.open(location) as ledger:
        records = ledger.records(HERE, "counters")
        with colleagues(3, count_up, location, 8) as counters:
            begin_together(counters)
            for counter in counters:
                counter.hear()

        assert [one.value for one in records.history("k")] == list(range(1, 25))
        assert ledger.admin.verify(derived=True).intact


def test_of_processes_that_claim_the_same_keys_one_has_them_all(location: str) -> None:
    with treering.open(location) as ledger, colleagues(3, claim, location) as claimants:
        for claimant in claimants:
            claimant.hear()
        for number in range(4):
            keys = [f"{number}/{at}" for at in range(3)]
            for claimant in claimants:
                claimant.tell(keys)
            [owner] = {word for claimant in claimants if (word := claimant.hear()) is not None}

            held = ledger.records(HERE, "claims").get_many(keys)
            assert {one.value for one in held.values()} == {owner}
            assert len(held) == 3
        assert ledger.admin.verify(derived=True).intact


def test_a_put_that_was_acknowledged_is_read_by_everybody(
    open_shared: Callable[[], Ledger],
) -> None:
    one, other = open_shared(), open_shared()
    for value in range(20):
        put = one.records(HERE, "n").put("k", value)
        assert other.records(HERE, "n").get("k") == put


def test_records_of_another_scope_or_name_are_not_seen(ledger: Ledger) -> None:
    ledger.records(HERE, "a").put("k", "ours")

    assert ledger.records(ELSEWHERE, "a").get("k") is None
    assert ledger.records(ELSEWHERE, "a").keys() == []
    assert ledger.records(HERE, "b").get("k") is None
    assert ledger.records(HERE, "b").keys() == []
    assert list(ledger.records(ELSEWHERE, "a").history("k")) == []


def test_keys_are_listed_in_order_by_prefix_and_in_pages(records: KeyedRecords) -> None:
    names = [f"{part}/{n:02}" for part in ("a", "b", "b2") for n in range(5)] + ["a", "ä/1"]
    records.put_all([RecordChange(key=key, value=1) for key in reversed(names)])
    records.remove(["b/03"])
    listed = sorted(set(names) - {"b/03"})

    assert records.keys() == listed
    assert records.keys("b") == [key for key in listed if key.startswith("b")]
    assert records.keys("b/") == ["b/00", "b/01", "b/02", "b/04"]
    assert records.keys("b/0", limit=2, after="b/00") == ["b/01", "b/02"]
    assert records.keys("c/") == []


def test_a_value_is_found_by_each_of_its_keys_until_another_takes_one(
    records: KeyedRecords,
) -> None:
    records.put_all([RecordChange(key="t/1", value=1, also=("t/latest",), kind="state.saved")])
    records.put_all([RecordChange(key="t/2", value=2, also=("t/latest",), kind="state.saved")])

    assert {
        key: one.value for key, one in records.get_many(["t/1", "t/2", "t/latest"]).items()
    } == {"t/1": 1, "t/2": 2, "t/latest": 2}
    assert records.keys("t/") == ["t/1", "t/2", "t/latest"]


def test_an_erased_value_is_gone_and_its_key_is_free(ledger: Ledger, records: KeyedRecords) -> None:
    first, second = records.put("k", "old"), records.put("k", "secret")
    ledger.redact(HERE, event_id=second.version)
    assert records.get("k") == first
    assert ledger.generation(HERE, records.session_id) == 3

    records.put("other", "kept")
    receipt = records.erase(["k", "unknown"])

    assert receipt is not None
    assert receipt.redacted_count == 1
    assert records.get("k") is None
    assert records.keys() == ["other"]
    assert records.erase(["k"]) is None
    records.put("k", "new", expected="")
    ledger.redact(HERE, session_id=records.session_id)
    assert records.keys() == []
    assert ledger.admin.verify(derived=True).intact


def test_many_events_are_erased_at_once_and_one_event_a_session_vouches(ledger: Ledger) -> None:
    ledger.append([said(f"n{n}", session_id=f"s{n % 2}", event_id=f"e{n}") for n in range(40)])

    receipt = ledger.redact(HERE, event_ids=[f"e{n}" for n in range(30)] + ["e3", "unknown"])

    assert receipt.redacted_count == 30
    assert [one.redacted for one in ledger.replay(HERE, "s0").items] == [*[True] * 15, *[False] * 6]
    vouchers = ledger.headers(HERE, kinds=["ledger.redacted"]).items
    assert sorted(one.session_id for one in vouchers) == ["s0", "s1"]
    assert ledger.generation(HERE, "s0") == 21
    assert ledger.generation(HERE, "s9") == 0
    assert ledger.admin.verify(derived=True).intact
    for wrong in ({}, {"event_ids": ["e1"], "event_id": "e1"}):
        with pytest.raises(InvalidInput):
            ledger.redact(HERE, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        ledger.redact(HERE, event_ids="e1")


def test_a_copy_has_the_same_records(open_ledger: Callable[[], Ledger]) -> None:
    source, target = open_ledger(), open_ledger()
    for value in range(3):
        source.records(HERE, "n").put("k", value)
    erased = source.records(HERE, "n").put("gone", b"\0")
    source.redact(HERE, event_id=erased.version)

    source.admin.copy_to(target)

    got = target.records(HERE, "n")
    assert got.get("k") == source.records(HERE, "n").get("k")
    assert got.keys() == ["k"]
    assert target.generation(HERE, "records:n") == source.generation(HERE, "records:n")
    assert target.admin.verify(derived=True).intact


def test_state_is_not_searched_and_is_encrypted_with_its_scope(ledger: Ledger) -> None:
    ledger.keys.create(HERE)
    records = ledger.records(HERE, "n")
    put = records.put("a key with words of the value", {"text": "words of the value"})

    assert records.get(put.key) == put
    assert ledger.search("words", scope=HERE).total == 0
    assert ledger.admin.verify(derived=True).intact


def test_a_key_that_looks_like_a_secret_is_refused(records: KeyedRecords) -> None:
    with pytest.raises(SensitiveContent):
        records.put("ghp_0123456789abcdefghijABCDEFGHIJ012345", 1)
    for wrong in ("", "x" * 501, 7, "\ud800"):
        with pytest.raises(InvalidInput):
            records.put(wrong, 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        records.put("k", {1, 2})
    with pytest.raises(InvalidInput):
        records.put_all([RecordChange(key="k", value=1), RecordChange(key="k", value=2)])


def test_a_guard_that_rejects_refuses_bytes_that_it_cannot_read() -> None:
    with treering.open(":memory:", guard="reject") as ledger:
        records = ledger.records(HERE, "n")
        with pytest.raises(SensitiveContent):
            records.put("k", b"\x00")
        assert records.put("k", "text").value == "text"
