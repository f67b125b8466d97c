"""Forks on their way from one ledger to another: never without what they were forked from."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from builders import DAY, HERE, NOON, called, said
from forks import fork
from ports import store_of
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger

OURS = Scope(HERE)


def exported(ledger: Ledger, session_id: str | None = None) -> bytes:
    stream = io.BytesIO()
    ledger.admin.export(HERE, stream, session_id=session_id, payloads="included")
    return stream.getvalue()


def lines(export: bytes, record: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in export.splitlines()]
    return [line for line in found if line["record"] == record]


def seqs(ledger: Ledger) -> dict[str, list[int]]:
    """Return the seqs of each session's own events."""
    return {
        session.session_id: [
            record.seq
            for record in store_of(ledger).reader.records(
                OURS, session.session_id, after_seq=0, limit=1_000
            )
        ]
        for session in store_of(ledger).sessions.records(OURS)
    }


def chains(ledger: Ledger) -> dict[str, tuple[object, ...]]:
    """Return where each session begins, was cut, and ends."""
    return {
        session.session_id: (session.genesis, session.cut, session.head_seq, session.head_link)
        for session in store_of(ledger).sessions.records(OURS)
    }


@pytest.fixture
def family(open_ledger: Callable[[], Ledger]) -> Ledger:
    """Return a ledger with a session of five events, a fork at 3, and one of that at 5."""
    ledger = open_ledger()
    ledger.append([said(f"s{n}") for n in range(1, 6)])
    fork(ledger, "f", parent="s1", seq=3)
    ledger.append([said(f"f{n}", session_id="f") for n in range(5, 8)])
    fork(ledger, "g", parent="f", seq=5)
    ledger.append([said("g7", session_id="g"), said("aside", session_id="s2")])
    return ledger


def test_a_scope_with_forks_is_restored_as_it_is(
    family: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()

    first = target.admin.restore(io.BytesIO(exported(family)))
    again = target.admin.restore(io.BytesIO(exported(family)))

    assert (first.complete, first.imported, first.errors) == (True, 12, 0)
    assert (again.complete, again.imported, again.duplicates) == (True, 0, 12)
    assert chains(target) == chains(family)
    assert store_of(target).sessions.forks(OURS, "s1") == ["f"]
    assert target.admin.verify() == family.admin.verify()
    assert target.append([said("on", session_id="g")])[0].seq == 8


def test_an_ordinary_session_is_written_as_before(family: Ledger) -> None:
    introduced = {line["session_id"]: line for line in lines(exported(family), "session")}

    assert set(introduced["s1"]) == {"record", "session_id", "salt", "genesis", "scope_key"}
    assert introduced["g"]["parent"]["session_id"] == "f"
    assert introduced["g"]["parent"]["seq"] == 5


def test_a_fork_is_exported_with_all_that_it_shares_and_nothing_else(
    family: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()

    export = exported(family, "g")
    receipt = target.admin.restore(io.BytesIO(export))

    assert receipt.complete
    assert seqs(target) == {"s1": [1, 2, 3], "f": [4, 5], "g": [6, 7]}
    assert lines(export, "end") == [{"record": "end", "sessions": 3, "events": 7}]
    assert target.admin.verify().intact
    assert chains(target)["g"] == chains(family)["g"]
    assert exported(target, "g").split(b"\n")[1:] == export.split(b"\n")[1:]


def test_a_later_import_of_the_parent_goes_on_where_the_fork_left_it(
    family: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()
    target.admin.restore(io.BytesIO(exported(family, "g")))

    receipts = [target.admin.restore(io.BytesIO(exported(family, name))) for name in ("s1", "f")]

    assert [(r.complete, r.imported, r.duplicates) for r in receipts] == [
        (True, 2, 3), (True, 2, 5),
    ]  # fmt: skip
    assert {name: chains(target)[name] for name in ("s1", "f", "g")} == {
        name: chains(family)[name] for name in ("s1", "f", "g")
    }
    assert target.admin.verify().intact


def without(export: bytes, session_id: str) -> bytes:
    """Return an export that lacks a session."""
    kept = [
        line for line in export.splitlines() if json.loads(line).get("session_id") != session_id
    ]
    return b"\n".join(kept) + b"\n"


def test_a_fork_without_its_parent_is_refused_by_name(
    family: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()

    receipt = target.admin.restore(io.BytesIO(without(exported(family, "f"), "s1")))

    assert not receipt.complete
    assert (receipt.imported, receipt.errors) == (0, 5)
    assert all("forked from s1 at seq 3" in error.reason for error in receipt.errors_sample)
    assert seqs(target) == {}
    assert target.admin.verify().intact


def test_a_fork_finds_its_parent_where_it_comes_to(
    family: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()
    target.admin.restore(io.BytesIO(exported(family, "s1")))

    receipt = target.admin.restore(io.BytesIO(without(exported(family, "f"), "s1")))

    assert (receipt.imported, receipt.errors) == (4, 0)
    assert chains(target)["f"] == chains(family)["f"]


def test_a_parent_that_ends_before_the_cut_is_none(
    family: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()
    short = [
        line
        for line in exported(family, "f").splitlines()
        if (entry := json.loads(line)).get("session_id") != "s1" or entry.get("seq", 0) < 3
    ]

    receipt = target.admin.restore(io.BytesIO(b"\n".join(short) + b"\n"))

    assert not receipt.complete
    assert seqs(target) == {"s1": [1, 2]}
    assert target.admin.verify().intact


def test_another_session_of_the_parents_name_is_not_the_parent(
    family: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()
    target.append([said(f"other {n}") for n in range(1, 6)])

    receipt = target.admin.restore(io.BytesIO(without(exported(family, "f"), "s1")))

    assert (receipt.imported, receipt.errors) == (0, 5)
    assert list(seqs(target)) == ["s1"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seq", 2),
        ("seq", 0),
        ("link", "00" * 32),
        ("link", ""),
        ("genesis", "00" * 32),
        ("session_id", "s2"),
        ("session_id", ""),
    ],
)
def test_a_fork_that_names_another_cut_is_refused(
    family: Ledger, open_ledger: Callable[[], Ledger], field: str, value: object
) -> None:
    target = open_ledger()
    forged = []
    for line in exported(family, "f").splitlines():
        entry = json.loads(line)
        if entry.get("parent"):
            entry["parent"][field] = value
        forged.append(json.dumps(entry).encode())

    receipt = target.admin.restore(io.BytesIO(b"\n".join(forged) + b"\n"))

    assert not receipt.complete
    assert seqs(target) == {"s1": [1, 2, 3]}
    assert target.admin.verify().intact


@pytest.mark.parametrize("way", ["redacted", "expired", "later"])
def test_what_was_erased_before_the_cut_comes_with_what_vouches_for_it(
    open_ledger: Callable[[], Ledger], way: str
) -> None:
    source, target = open_ledger(), open_ledger()
    source.append([said("a", event_id="a"), called(ts_ms=NOON), said("c"), said("d")])
    if way == "redacted":
        source.redact(HERE, event_id="a")
    fork(source, "f", parent="s1", seq=3)
    source.append([said("e"), said("unshared")])
    if way == "later":
        target.admin.restore(io.BytesIO(exported(source, "f")))
        source.redact(HERE, event_id="a")
    if way == "expired":
        source.expire(HERE, policy={"tool.call": 0}, now_ms=NOON + DAY)

    receipt = target.admin.restore(io.BytesIO(exported(source, "f")))

    assert receipt.complete
    assert target.admin.verify().intact
    erased = {"redacted": 1, "later": 1, "expired": 2}[way]
    [record] = store_of(target).reader.records(OURS, "s1", after_seq=erased - 1, limit=1)
    assert record.erasure == ("expired" if way == "expired" else "placeholder")
    assert chains(target)["f"] == chains(source)["f"]


def test_erasures_of_a_whole_family_are_carried_over(
    family: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target, whole = open_ledger(), open_ledger()
    for session in ("s1", "f", "g"):
        family.redact(HERE, session_id=session)

    receipt = target.admin.restore(io.BytesIO(exported(family, "g")))
    family.admin.copy_to(whole)

    assert receipt.complete
    assert chains(target)["g"] == chains(family)["g"]
    assert target.admin.verify().intact
    assert whole.admin.verify() == family.admin.verify()


# Copying.


def test_forks_are_copied_behind_their_parents(
    family: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()

    first, again = family.admin.copy_to(target), family.admin.copy_to(target)

    assert (first.complete, first.intact, first.copied, first.present) == (True, True, 12, 0)
    assert (again.complete, again.copied, again.present) == (True, 0, 12)
    assert chains(target) == chains(family)
    assert target.admin.verify() == family.admin.verify()


def test_a_copy_goes_on_with_forks_that_are_new(
    family: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()
    family.admin.copy_to(target)
    fork(family, "h", parent="s1", seq=2)
    fork(family, "i", parent="g", seq=7)
    family.append([said("more", session_id="f"), said("more", session_id="i")])

    progress: list[tuple[int, int]] = []
    receipt = family.admin.copy_to(target, progress=lambda done, of: progress.append((done, of)))

    assert (receipt.complete, receipt.copied, receipt.present) == (True, 4, 12)
    assert progress[-1] == (4, 4)
    assert chains(target) == chains(family)
    assert target.admin.verify().intact


def test_a_fork_is_copied_alone_if_only_it_is_new(
    family: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()
    family.admin.copy_to(target)
    fork(family, "h", parent="s1", seq=2)

    receipt = family.admin.copy_to(target)

    assert (receipt.complete, receipt.copied) == (True, 1)
    assert chains(target) == chains(family)


def test_a_fork_of_what_the_target_has_otherwise_is_refused_and_no_other(
    family: Ledger, open_ledger: Callable[[], Ledger]
) -> None:
    target = open_ledger()
    target.append([said("another s1")])

    receipt = family.admin.copy_to(target)

    assert not receipt.complete
    assert (receipt.refused, receipt.copied) == (3, 1)
    reasons = {refusal.session_id: refusal.reason for refusal in receipt.refused_sample}
    assert "forked from s1 at seq 3" in reasons["f"]
    assert "forked from f at seq 5" in reasons["g"]
    assert sorted(seqs(target)) == ["s1", "s2"]
    assert target.admin.verify().intact


def test_forks_of_an_encrypted_scope_are_copied_and_restored(
    open_ledger: Callable[[], Ledger],
) -> None:
    source, copied, restored = open_ledger(), open_ledger(), open_ledger()
    for ledger in (source, copied, restored):
        ledger.keys.create(HERE)
    source.append([said("a"), said("b")])
    fork(source, "f", parent="s1", seq=1)
    source.append([said("c", session_id="f")])

    copy, restore = (
        source.admin.copy_to(copied),
        restored.admin.restore(io.BytesIO(exported(source, "f"))),
    )

    assert (copy.complete, restore.complete) == (True, True)
    assert chains(copied) == chains(source)
    assert seqs(restored) == {"s1": [1], "f": [2, 3]}
    for ledger in (copied, restored):
        [event] = store_of(ledger).reader.events_at(OURS, "f", [3])
        assert event.payload == {"text": "c"}
        assert ledger.admin.verify().intact


def test_an_anchor_holds_the_heads_of_forks(family: Ledger) -> None:
    stream = io.BytesIO()
    receipt = family.admin.anchor(stream)
    stream.seek(0)
    family.append([said("more", session_id="g")])

    result = family.admin.verify(anchor=stream)

    assert (receipt.sessions, receipt.events) == (4, 12)
    assert result.intact
    assert result.anchored_sessions == 4
