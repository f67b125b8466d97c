"""Lineages: a session and the pasts that it shares, read as one timeline in pages of any size."""

from __future__ import annotations

from typing import Any, cast

import pytest

from builders import HERE, run_of, said
from ledger.counted import Counted
from ports import store_of
from treering import Header, Ledger
from treering.ledger.lineage import NO_END, Lineage
from treering.model.events import Event
from treering.model.scopes import Scope

OURS = Scope(HERE)
SAID = frozenset({"conversation.user"})
PAGES = [1, 2, 3, 5, 100]


@pytest.fixture
def lineage(ledger: Ledger) -> Lineage:
    """Return the lineage of a fork of a fork; each part continues behind the cut."""
    last = ledger.session("s1", scope=HERE, agent="lyria")
    for name in ("a", "b"):
        ledger.append(run_of(f"{name}1", f"{name}1?", session_id=last.session_id))
        child = last.fork(name)
        ledger.append(run_of(f"{name}2", f"{name}2 elsewhere?", session_id=last.session_id))
        last = child
    ledger.append([said(text, session_id="b") for text in ("x?", "y?", "z?")])
    return Lineage(store_of(ledger), OURS, "b")


EXPECTED = [
    "run started", "a1?", "run over", "forked from s1 at 3",
    "run started", "b1?", "run over", "forked from a at 7",
    "x?", "y?", "z?",
]  # fmt: skip


def summaries(headers: list[Header]) -> list[str]:
    return [header.summary for header in headers]


def parts(lineage: Lineage) -> list[tuple[str, int, int]]:
    return [
        (segment.session_id, segment.after_seq, segment.until_seq) for segment in lineage.segments()
    ]


def forwards(lineage: Lineage, size: int, part: type[Header] = Header) -> list[Header]:
    found: list[Header] = []
    while page := lineage.after(part, found[-1].seq if found else 0, size):
        assert len(page) <= size
        found += page
    return found


def backwards(lineage: Lineage, size: int, part: type[Header] = Header) -> list[Header]:
    found: list[Header] = []
    while page := lineage.before(part, found[0].seq if found else None, size):
        assert len(page) <= size
        found = page + found
    return found


def test_its_parts_go_from_the_session_to_its_oldest_ancestor(lineage: Lineage) -> None:
    for _ in range(2):
        assert parts(lineage) == [("b", 7, NO_END), ("a", 3, 7), ("s1", 0, 3)]
    assert lineage.head_seq() == 11


def test_the_parts_can_be_asked_for_one_by_one(ledger: Ledger, lineage: Lineage) -> None:
    fresh = Lineage(store_of(ledger), OURS, "b")

    assert next(fresh.segments()).session_id == "b"
    assert list(fresh.segments()) == list(lineage.segments())


@pytest.mark.parametrize(("seq", "part"), [(1, "s1"), (3, "s1"), (4, "a"), (7, "a"), (8, "b")])
def test_each_event_is_of_one_part(lineage: Lineage, seq: int, part: str) -> None:
    found = lineage.segment_of(seq)

    assert found is not None
    assert found.session_id == part
    assert lineage.segment_of(0) is None


@pytest.mark.parametrize("size", PAGES)
def test_all_of_it_is_read_in_order_from_either_end(lineage: Lineage, size: int) -> None:
    for found in (
        forwards(lineage, size),
        backwards(lineage, size),
        forwards(lineage, size, Event),
        backwards(lineage, size, Event),
    ):
        assert summaries(found) == EXPECTED
        assert [header.seq for header in found] == list(range(1, 12))


@pytest.mark.parametrize("seq", range(13))
def test_it_is_read_from_any_seq_on(lineage: Lineage, seq: int) -> None:
    after = lineage.after(Header, seq, 2)
    before = lineage.before(Header, seq, 2)

    assert [header.seq for header in after] == list(range(seq + 1, seq + 1 + len(after)))
    assert bool(after) == (seq < 11)
    assert [header.seq for header in before] == list(
        range(min(seq, 12) - len(before), min(seq, 12))
    )
    assert bool(before) == (seq > 1)


@pytest.mark.parametrize("size", PAGES)
def test_what_counts_is_read_from_the_end(lineage: Lineage, size: int) -> None:
    found: list[str] = []
    seq = NO_END
    while page := lineage.committed_before(seq, kinds=SAID, limit=size):
        found = summaries([*page]) + found
        seq = page[0].seq

    assert found == ["a1?", "b1?", "x?", "y?", "z?"]


def test_a_run_counts_only_if_it_ended_within_the_lineage_and_in_time(
    ledger: Ledger, lineage: Lineage
) -> None:
    def told(until_seq: int = NO_END, run_id: str | None = None) -> list[str]:
        found, seq = list[str](), NO_END
        while page := lineage.committed_before(
            seq, kinds=SAID, until_seq=until_seq, run_id=run_id, limit=100
        ):
            found, seq = summaries([*page]) + found, page[0].seq
        return found

    ledger.append(run_of("open", "open?", session_id="b")[:-1])

    assert told() == ["a1?", "b1?", "x?", "y?", "z?"]
    assert told(run_id="open") == ["a1?", "b1?", "x?", "y?", "z?", "open?"]
    assert "b1?" not in told(until_seq=6)
    assert "a1?" in told(until_seq=6)


def test_single_events_are_found_wherever_they_are(lineage: Lineage) -> None:
    assert summaries([*lineage.events_at([9, 2, 6, 2])]) == ["a1?", "b1?", "x?"]
    assert summaries([*lineage.events_at([11])]) == ["z?"]
    assert lineage.events_at([]) == []
    assert lineage.events_at([0, 99]) == []


def test_a_snapshot_of_an_ancestor_is_good_up_to_the_cut(ledger: Ledger, lineage: Lineage) -> None:
    parent = Lineage(store_of(ledger), OURS, "a")
    parent.keep_snapshot(6, b"six")
    parent.keep_snapshot(9, b"nine, elsewhere")

    assert lineage.snapshot(11) == (6, b"six")
    assert lineage.snapshot(5) is None
    lineage.keep_snapshot(10, b"ten")
    assert lineage.snapshot(11) == (10, b"ten")
    assert lineage.snapshot(9) == (6, b"six")


def test_a_session_that_is_not_there_has_an_empty_lineage_until_somebody_makes_it(
    ledger: Ledger, lineage: Lineage
) -> None:
    waiting = Lineage(store_of(ledger), OURS, "c")
    assert waiting.head_seq() == 0
    assert waiting.after(Header, 0, 10) == waiting.before(Header, None, 10) == []
    assert waiting.committed_before(NO_END, kinds=SAID, limit=10) == []

    ledger.session("s1", scope=HERE, agent="lyria").fork("c")

    assert [header.seq for header in forwards(waiting, 4)] == list(range(1, 8))
    assert next(waiting.segments()).after_seq == 6


def test_a_session_without_a_parent_is_a_lineage_of_one_part(ledger: Ledger) -> None:
    ledger.append([said(text) for text in "abc"])
    alone = Lineage(store_of(ledger), OURS, "s1")

    assert parts(alone) == [("s1", 0, NO_END)]
    assert summaries(forwards(alone, 2)) == ["a", "b", "c"]


def test_a_session_with_its_first_event_is_not_asked_for_a_parent_again(ledger: Ledger) -> None:
    ledger.append([said(text, session_id="s1") for text in ("x?", "y?", "z?")])
    store = Counted(store_of(ledger))
    lineage = Lineage(cast("Any", store), OURS, "s1")

    forwards(lineage, 1)

    assert store.asked["cut"] == 1


def test_a_session_may_become_a_fork_until_it_has_an_event(ledger: Ledger) -> None:
    ledger.append([said(text, session_id="s1") for text in ("x?", "y?")])
    lineage = Lineage(store_of(ledger), OURS, "s2")
    assert lineage.after(Header, 0, 10) == []

    ledger.session("s1", scope=HERE, agent="lyria").fork("s2")

    assert summaries(lineage.after(Header, 0, 10))[:2] == ["x?", "y?"]
    assert summaries(lineage.before(Header, None, 10))[-1] == "forked from s1 at 2"
