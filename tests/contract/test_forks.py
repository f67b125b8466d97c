"""Forks, what counts in a context, heads of sessions and snapshots: every store keeps these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, called, run_of, said
from forks import fork
from ports import store_of
from treering import Conflict, Event, Ledger, NotFound
from treering.errors import DuplicateEvent, RunClosed
from treering.ledger import chain
from treering.model.events import Header
from treering.model.scopes import Scope
from treering.storage.encoding import PAGE_BYTES_MAX

if TYPE_CHECKING:
    from treering.ledger.records import ForkPoint, SessionRecord

OURS, THEIRS = Scope(HERE), Scope(ELSEWHERE)
SAID = ("conversation.user",)


def record_of(ledger: Ledger, session_id: str) -> SessionRecord:
    return next(iter(store_of(ledger).sessions.records(OURS, session_id)))


def own_seqs(ledger: Ledger, session_id: str) -> list[int]:
    found = store_of(ledger).reader.by_seq(Header, OURS, session_id, after_seq=0, limit=1_000)
    return [header.seq for header in found]


def cut_of(ledger: Ledger, session_id: str) -> ForkPoint:
    cut = store_of(ledger).sessions.cut(OURS, session_id)
    assert cut is not None
    return cut


def committed(ledger: Ledger, **asked: Any) -> list[Event]:
    place: dict[str, Any] = {
        "kinds": SAID, "before_seq": 1_000, "until_seq": 1_000, "run_id": None, "limit": 100,
    }  # fmt: skip
    session_id = asked.pop("session_id", "s1")
    return store_of(ledger).reader.committed_events(OURS, session_id, **(place | asked))


def texts(events: list[Event]) -> list[str]:
    return [event.summary for event in events]


# Opening.


def test_a_fork_goes_on_behind_its_cut(ledger: Ledger) -> None:
    ledger.append([said(text) for text in "abc"])

    header = fork(ledger, "f", parent="s1", seq=2)
    [added] = ledger.append([said("d", session_id="f")])

    assert (header.seq, header.session_id, header.kind) == (3, "f", "session.forked")
    assert added.seq == 4
    assert own_seqs(ledger, "f") == [3, 4]


def test_a_fork_changes_nothing_of_its_parent(ledger: Ledger) -> None:
    ledger.append([said(text) for text in "abc"])
    before, events = (
        record_of(ledger, "s1"),
        store_of(ledger).reader.records(OURS, "s1", after_seq=0, limit=10),
    )

    fork(ledger, "f", parent="s1", seq=2)
    ledger.append([said("d", session_id="f")])

    assert record_of(ledger, "s1") == before
    assert store_of(ledger).reader.records(OURS, "s1", after_seq=0, limit=10) == events
    assert ledger.append([said("e")])[0].seq == 4


def test_a_cut_holds_the_genesis_and_the_link_of_the_parent(ledger: Ledger) -> None:
    added = ledger.append([said(text) for text in "abc"])
    fork(ledger, "f", parent="s1", seq=2)

    cut, child = cut_of(ledger, "f"), record_of(ledger, "f")

    assert (cut.parent, cut.seq, cut.link) == ("s1", 2, added[1].link)
    assert cut.genesis == record_of(ledger, "s1").genesis
    assert child.cut == cut
    assert child.genesis == chain.genesis(child.salt, HERE, "f", cut)


def test_the_first_event_of_a_fork_chains_from_its_genesis(ledger: Ledger) -> None:
    ledger.append([said("a")])
    header = fork(ledger, "f", parent="s1", seq=1)

    child = record_of(ledger, "f")

    assert (child.head_seq, child.head_link) == (2, header.link)
    assert store_of(ledger).sessions.link_at(OURS, child.genesis, 2) == header.link
    assert store_of(ledger).sessions.link_at(OURS, child.genesis, 1) is None


def test_a_session_that_is_no_fork_has_no_cut(ledger: Ledger) -> None:
    ledger.append([said("a")])

    assert store_of(ledger).sessions.cut(OURS, "s1") is None
    assert store_of(ledger).sessions.cut(OURS, "none") is None
    assert store_of(ledger).sessions.cut(Scope("acme/none"), "s1") is None
    assert record_of(ledger, "s1").cut is None


def test_a_fork_can_be_forked_at_its_own_events(ledger: Ledger) -> None:
    ledger.append([said(text) for text in "ab"])
    fork(ledger, "f", parent="s1", seq=2)
    ledger.append([said("c", session_id="f")])

    header = fork(ledger, "g", parent="f", seq=3)

    assert header.seq == 4
    assert cut_of(ledger, "g").parent == "f"
    assert cut_of(ledger, "g").genesis == record_of(ledger, "f").genesis


@pytest.mark.parametrize("seq", [-1, 0, 4, 1_000])
def test_a_fork_needs_an_event_of_its_parent(ledger: Ledger, seq: int) -> None:
    ledger.append([said(text) for text in "abc"])

    with pytest.raises(NotFound, match="s1"):
        fork(ledger, "f", parent="s1", seq=seq)

    assert [record.session_id for record in store_of(ledger).sessions.records(OURS)] == ["s1"]


def test_what_a_fork_shares_is_not_its_own_to_be_forked_at(ledger: Ledger) -> None:
    ledger.append([said(text) for text in "abc"])
    fork(ledger, "f", parent="s1", seq=2)

    for seq in (1, 2):
        with pytest.raises(NotFound, match="f"):
            fork(ledger, "g", parent="f", seq=seq)


def test_a_fork_needs_a_parent_in_its_own_scope(ledger: Ledger) -> None:
    ledger.append([said("a", scope=ELSEWHERE), said("b", session_id="s2")])

    for scope in (HERE, "acme/none"):
        with pytest.raises(NotFound, match="s1"):
            fork(ledger, "f", parent="s1", seq=1, scope=scope)

    assert store_of(ledger).sessions.cut(OURS, "f") is None
    assert next(iter(store_of(ledger).sessions.records(Scope("acme/none"))), None) is None


def test_a_session_that_is_there_is_not_forked_over(ledger: Ledger) -> None:
    ledger.append([said("a"), said("b"), said("c", session_id="s2")])

    for taken in ("s1", "s2"):
        with pytest.raises(Conflict, match=taken) as raised:
            fork(ledger, taken, parent="s1", seq=1)
        assert raised.value.current_seq == {"s1": 2, "s2": 1}[taken]

    assert own_seqs(ledger, "s2") == [1]
    assert store_of(ledger).sessions.cut(OURS, "s2") is None


def test_a_fork_whose_event_id_is_taken_is_not_opened(ledger: Ledger) -> None:
    ledger.append([said("a", event_id="mine"), said("b", event_id="gone")])
    ledger.redact(HERE, event_id="gone")

    for event_id in ("mine", "gone"):
        with pytest.raises(DuplicateEvent, match=event_id):
            fork(ledger, "f", parent="s1", seq=1, event_id=event_id)

    assert store_of(ledger).sessions.cut(OURS, "f") is None
    assert store_of(ledger).sessions.forks(OURS, "s1") == []
    assert ledger.append([said("c", session_id="f")])[0].seq == 1
    assert ledger.admin.verify().intact


def test_what_failed_to_be_forked_can_be_forked_again(ledger: Ledger) -> None:
    ledger.append([said("a"), said("b", run_id="r1", kind="run.started")])
    ledger.append([said("b", run_id="r1", kind="run.ended")])
    with pytest.raises(NotFound):
        fork(ledger, "f", parent="s1", seq=9)

    header = fork(ledger, "f", parent="s1", seq=1)

    assert header.seq == 2
    assert ledger.append([said("c", session_id="f"), said("d")])[0].seq == 3
    assert ledger.admin.verify().intact


@pytest.mark.parametrize("way", ["redacted", "expired"])
def test_an_erased_event_can_be_forked_at(ledger: Ledger, way: str) -> None:
    ledger.append([called(ts_ms=NOON, event_id="old"), said("b")])
    if way == "redacted":
        ledger.redact(HERE, event_id="old")
    else:
        ledger.expire(HERE, policy={"tool.call": 0}, now_ms=NOON + DAY)

    assert fork(ledger, "f", parent="s1", seq=1).seq == 2
    assert ledger.admin.verify().intact


def test_forks_are_told_the_oldest_first(ledger: Ledger) -> None:
    ledger.append([said("a"), said("b"), said("x", scope=ELSEWHERE)])
    for name, seq in (("z", 1), ("m", 2), ("a", 1)):
        fork(ledger, name, parent="s1", seq=seq)
    fork(ledger, "of-m", parent="m", seq=3)
    fork(ledger, "theirs", parent="s1", seq=1, scope=ELSEWHERE)

    assert store_of(ledger).sessions.forks(OURS, "s1") == ["z", "m", "a"]
    assert store_of(ledger).sessions.forks(OURS, "m") == ["of-m"]
    assert store_of(ledger).sessions.forks(OURS, "a") == []
    assert store_of(ledger).sessions.forks(OURS, "none") == []
    assert store_of(ledger).sessions.forks(THEIRS, "s1") == ["theirs"]


def test_a_fork_made_by_one_is_known_to_another(location: str) -> None:
    with treering.open(location) as one, treering.open(location) as other:
        one.append([said("a"), said("b")])
        other.append([said("c")])

        fork(one, "f", parent="s1", seq=2)
        added = other.append([said("d", session_id="f")], expected_seq=3)
        with pytest.raises(Conflict):
            fork(other, "f", parent="s1", seq=1)
        fork(other, "g", parent="f", seq=4)

        assert [header.seq for header in added] == [4]
        assert one.append([said("e", session_id="g")])[0].seq == 6
        assert one.admin.verify().intact


# A fork is a session.


def test_expected_seq_speaks_of_the_forks_own_head(ledger: Ledger) -> None:
    ledger.append([said(text) for text in "abc"])
    fork(ledger, "f", parent="s1", seq=2)

    with pytest.raises(Conflict) as raised:
        ledger.append([said("d", session_id="f")], expected_seq=0)
    [added] = ledger.append([said("d", session_id="f")], expected_seq=3)

    assert raised.value.current_seq == 3
    assert added.seq == 4


def test_reads_of_a_fork_give_its_own_events(ledger: Ledger) -> None:
    ledger.append([said(text) for text in "abc"])
    fork(ledger, "f", parent="s1", seq=2)
    ledger.append([said("d", session_id="f")])
    store = store_of(ledger)

    assert [e.seq for e in store.reader.by_seq(Event, OURS, "f", after_seq=0, limit=9)] == [3, 4]
    assert [h.seq for h in store.reader.by_seq(Header, OURS, "f", after_seq=3, limit=9)] == [4]
    assert [
        h.seq for h in store.reader.last_by_seq(Header, OURS, "f", before_seq=None, limit=9)
    ] == [3, 4]
    assert [e.seq for e in store.reader.last_by_seq(Event, OURS, "f", before_seq=4, limit=9)] == [3]
    assert [r.seq for r in store.reader.records(OURS, "f", after_seq=0, limit=9)] == [3, 4]
    assert [h.seq for h in ledger.headers(HERE, session_id="f").items] == [3, 4]


def test_a_fork_has_runs_of_its_own(ledger: Ledger) -> None:
    ledger.append(run_of("r1", "a"))
    fork(ledger, "f", parent="s1", seq=2)
    ledger.append(run_of("r1", "b", session_id="f")[:2])

    assert [run.session_id for run in store_of(ledger).reader.open_runs(OURS)] == ["f"]
    ledger.append([said("over", session_id="f", run_id="r1", kind="run.ended")])

    assert [h.seq for h in store_of(ledger).reader.by_run(Header, OURS, "f", "r1")] == [4, 5, 6]
    assert [h.seq for h in store_of(ledger).reader.by_run(Header, OURS, "s1", "r1")] == [1, 2, 3]
    with pytest.raises(RunClosed):
        ledger.append([said("late", session_id="f", run_id="r1")])


def test_tool_calls_of_a_fork_are_its_own(ledger: Ledger) -> None:
    refs = {"call_id": "c1", "tool": "git_log"}
    ledger.append([called(refs=refs)])
    fork(ledger, "f", parent="s1", seq=1)
    ledger.append([called(session_id="f", refs=refs)])

    assert len(ledger.tool_calls(HERE, session_id="f").items) == 1
    assert len(ledger.tool_calls(HERE).items) == 2


def test_a_fork_is_erased_without_its_parent(ledger: Ledger) -> None:
    ledger.append([said(text) for text in "ab"])
    fork(ledger, "f", parent="s1", seq=1)
    ledger.append([said("c", session_id="f")])

    ledger.redact(HERE, session_id="f")

    assert [h.redacted for h in ledger.headers(HERE, session_id="s1").items] == [False, False]
    assert [h.redacted for h in ledger.headers(HERE, session_id="f").items][:2] == [True, True]
    assert ledger.admin.verify().intact


def test_a_ledger_with_forks_is_whole_and_can_be_rebuilt(ledger: Ledger) -> None:
    ledger.append([*run_of("r1", "a", "b"), called()])
    fork(ledger, "f", parent="s1", seq=3)
    ledger.append([*run_of("r2", "c", session_id="f"), called(session_id="f")])
    fork(ledger, "g", parent="f", seq=5)
    ledger.redact(HERE, session_id="f")

    before = ledger.admin.verify()
    ledger.admin.rebuild()

    assert before.intact
    assert before.sessions == 3
    assert ledger.admin.verify() == before


def test_forks_in_an_encrypted_scope_are_sealed_and_verify(ledger: Ledger) -> None:
    ledger.keys.create(HERE)
    ledger.append([said(text) for text in "ab"])

    fork(ledger, "f", parent="s1", seq=1)
    ledger.append([said("c", session_id="f")])

    [event] = store_of(ledger).reader.events_at(OURS, "f", [3])
    assert event.payload == {"text": "c"}
    assert sum(store_of(ledger).seals.payloads(OURS).values()) == 4
    assert ledger.admin.verify().intact


def test_followers_hear_of_a_fork(ledger: Ledger) -> None:
    ledger.append([said("a")])
    seen = store_of(ledger).reader.followed(Header, OURS, (), limit=10)

    header = fork(ledger, "f", parent="s1", seq=1)
    behind = store_of(ledger).reader.followed(Header, OURS, seen.last, limit=10)

    assert behind.items == [header]
    assert store_of(ledger).wait(OURS, seen.last, 0.0)


# Events by their places.


def test_events_at_places_come_in_order_and_once(ledger: Ledger) -> None:
    ledger.append([said(text) for text in "abcde"])

    found = store_of(ledger).reader.events_at(OURS, "s1", [4, 2, 9, 2, 0])

    assert [(event.seq, event.payload) for event in found] == [
        (2, {"text": "b"}), (4, {"text": "d"}),
    ]  # fmt: skip


def test_events_at_places_are_the_sessions_own(ledger: Ledger) -> None:
    ledger.append([said(text) for text in "abc"])
    fork(ledger, "f", parent="s1", seq=2)

    assert [e.seq for e in store_of(ledger).reader.events_at(OURS, "f", [1, 2, 3])] == [3]
    assert store_of(ledger).reader.events_at(OURS, "f", []) == []
    assert store_of(ledger).reader.events_at(OURS, "none", [1]) == []


def test_events_at_places_leave_out_what_expired_and_show_what_was_redacted(ledger: Ledger) -> None:
    ledger.append([called(ts_ms=NOON), said("b", event_id="b")])
    ledger.expire(HERE, policy={"tool.call": 0}, now_ms=NOON + DAY)
    ledger.redact(HERE, event_id="b")

    found = store_of(ledger).reader.events_at(OURS, "s1", [1, 2])

    assert [(event.seq, event.redacted) for event in found] == [(2, True)]


# What counts.


def test_what_belongs_to_no_run_counts(ledger: Ledger) -> None:
    ledger.append([said("a"), called(), said("b")])

    assert texts(committed(ledger)) == ["a", "b"]
    assert texts(committed(ledger, kinds=("tool.call", *SAID))) == ["a", "git_log called", "b"]
    assert committed(ledger, kinds=()) == []
    assert committed(ledger, kinds=("ops.alert",)) == []
    assert committed(ledger, session_id="none") == []


@pytest.mark.parametrize("end", ["run.failed", "run.interrupted"])
def test_of_runs_only_those_count_that_ended_well(ledger: Ledger, end: str) -> None:
    ledger.append(run_of("r1", "well"))
    ledger.append(run_of("r2", "badly", end=end))
    ledger.append([said("still", run_id="r3")])
    ledger.append([said("alone")])

    assert texts(committed(ledger)) == ["well", "alone"]


def test_the_run_that_is_asked_for_counts_whatever_became_of_it(ledger: Ledger) -> None:
    ledger.append(run_of("r1", "badly", end="run.failed"))
    ledger.append([said("still", run_id="r2"), said("other", run_id="r3")])

    assert texts(committed(ledger, run_id="r2")) == ["still"]
    assert texts(committed(ledger, run_id="r1")) == ["badly"]
    assert texts(committed(ledger, run_id="none")) == []


def test_a_run_counts_from_where_it_ended(ledger: Ledger) -> None:
    ledger.append(run_of("r1", "a"))
    ledger.append([said("b")])

    assert texts(committed(ledger, until_seq=2)) == ["b"]
    assert texts(committed(ledger, until_seq=3)) == ["a", "b"]
    assert texts(committed(ledger, until_seq=2, run_id="r1")) == ["a", "b"]


def test_the_last_that_count_come_before_a_place(ledger: Ledger) -> None:
    ledger.append([said(text) for text in "abcde"])

    assert texts(committed(ledger, limit=2)) == ["d", "e"]
    assert texts(committed(ledger, before_seq=4, limit=2)) == ["b", "c"]
    assert committed(ledger, before_seq=1) == []


def test_a_run_that_failed_takes_no_room_on_the_page(ledger: Ledger) -> None:
    ledger.append([said("a"), said("b")])
    ledger.append(run_of("r1", *map(str, range(300)), end="run.failed"))
    ledger.append([said("c")])

    assert texts(committed(ledger, limit=3)) == ["a", "b", "c"]


def test_what_counts_in_a_fork_is_its_own(ledger: Ledger) -> None:
    ledger.append(run_of("r1", "a"))
    fork(ledger, "f", parent="s1", seq=3)
    ledger.append(run_of("r1", "b", end="run.failed", session_id="f"))
    ledger.append([said("c", session_id="f")])

    assert texts(committed(ledger, session_id="f")) == ["c"]
    assert texts(committed(ledger)) == ["a"]


def test_expired_events_do_not_count_and_redacted_ones_are_told(ledger: Ledger) -> None:
    ledger.append([said("a", ts_ms=NOON), said("b", event_id="b"), said("c")])
    ledger.expire(HERE, policy={"conversation.user": 1}, now_ms=NOON + 2 * DAY)
    ledger.redact(HERE, event_id="b")

    assert [(e.summary, e.redacted) for e in committed(ledger)] == [
        ("[REDACTED]", True), ("c", False),
    ]  # fmt: skip


def test_a_page_of_large_payloads_is_shorter(ledger: Ledger) -> None:
    large = "x" * (PAGE_BYTES_MAX // 3)
    ledger.append([said(text, payload={"text": large}) for text in "abcd"])

    found = committed(ledger)
    behind = committed(ledger, before_seq=found[0].seq)

    assert texts(behind + found) == ["a", "b", "c", "d"]
    assert texts(found)[-1] == "d"
    assert len(found) < 4


# Heads.


def test_the_session_that_was_last_written_to_comes_first(ledger: Ledger) -> None:
    for session in ("s1", "s2", "s3", "s1"):
        ledger.append([said("a", session_id=session)])
    ledger.append([said("x", scope=ELSEWHERE)])

    found = store_of(ledger).sessions.heads(OURS, before_position=None, limit=10)

    assert [(head.session_id, head.head_seq) for head in found] == [("s1", 2), ("s3", 1), ("s2", 1)]
    last = ledger.headers(HERE, session_id="s1").items[-1]
    assert (found[0].position, found[0].updated_ms) == (last.position, last.recorded_ms)
    assert store_of(ledger).sessions.heads(Scope("acme/none"), before_position=None, limit=9) == []


def test_heads_come_page_by_page(ledger: Ledger) -> None:
    names = [f"s{n}" for n in range(7)]
    for name in names:
        ledger.append([said("a", session_id=name)])

    found: list[str] = []
    before: int | None = None
    while page := store_of(ledger).sessions.heads(OURS, before_position=before, limit=3):
        found += [head.session_id for head in page]
        before = page[-1].position

    assert found == names[::-1]


def test_heads_of_forks_say_where_they_were_cut(ledger: Ledger) -> None:
    ledger.append([said("a"), said("b")])
    fork(ledger, "f", parent="s1", seq=1)

    child, parent = store_of(ledger).sessions.heads(OURS, before_position=None, limit=10)

    assert (child.session_id, child.head_seq, child.cut) == ("f", 2, cut_of(ledger, "f"))
    assert (parent.session_id, parent.cut) == ("s1", None)


# Snapshots.


def keep(ledger: Ledger, *seqs: int, session_id: str = "s1") -> None:
    for seq in seqs:
        store_of(ledger).snapshots.keep(OURS, session_id, seq=seq, body=str(seq).encode())


def kept(ledger: Ledger, session_id: str = "s1") -> list[int]:
    """Return the seqs of all that is kept of a session, the newest first."""
    found: list[int] = []
    until = 2**62
    while (one := store_of(ledger).snapshots.latest(OURS, session_id, until_seq=until)) is not None:
        assert one[1] == str(one[0]).encode()
        found.append(one[0])
        until = one[0] - 1
    return found


def test_the_latest_snapshot_before_a_place_is_found(ledger: Ledger) -> None:
    ledger.append([said(text) for text in "abc"])
    keep(ledger, 1, 3)

    store = store_of(ledger)
    assert store.snapshots.latest(OURS, "s1", until_seq=9) == (3, b"3")
    assert store.snapshots.latest(OURS, "s1", until_seq=3) == (3, b"3")
    assert store.snapshots.latest(OURS, "s1", until_seq=2) == (1, b"1")
    assert store.snapshots.latest(OURS, "s1", until_seq=0) is None
    assert store.snapshots.latest(OURS, "none", until_seq=9) is None
    assert store.snapshots.latest(THEIRS, "s1", until_seq=9) is None


def test_a_snapshot_takes_the_place_of_one_at_the_same_seq(ledger: Ledger) -> None:
    ledger.append([said("a")])
    keep(ledger, 1)

    store_of(ledger).snapshots.keep(OURS, "s1", seq=1, body=b"other")

    assert store_of(ledger).snapshots.latest(OURS, "s1", until_seq=1) == (1, b"other")


def test_snapshots_are_thinned_the_more_the_older_they_are(ledger: Ledger) -> None:
    ledger.append([said("a")])
    keep(ledger, *range(10, 810, 10))

    found = kept(ledger)

    assert found[:3] == [800, 790, 780]
    assert found[-1] == 10
    assert len(found) <= 12
    for place in range(10, 800):
        nearest = next(seq for seq in found if seq <= place)
        assert 800 - nearest <= 2 * (800 - place) + 10


def test_an_older_snapshot_does_not_thin_the_newest(ledger: Ledger) -> None:
    ledger.append([said("a")])
    keep(ledger, 100, 90, 80, 50, 95)

    assert kept(ledger) == [100, 95, 90, 80, 50]


def test_a_snapshot_of_no_session_is_not_kept(ledger: Ledger) -> None:
    keep(ledger, 1, session_id="none")
    ledger.append([said("a", session_id="none")])

    assert kept(ledger, "none") == []
    assert ledger.admin.verify().intact


@pytest.mark.parametrize("way", ["redact", "session", "expire"])
def test_an_erasure_drops_the_snapshots_of_its_session_and_of_all_its_forks(
    ledger: Ledger, way: str
) -> None:
    ledger.append([called(ts_ms=NOON, event_id="old"), said("b"), said("c", session_id="s2")])
    fork(ledger, "f", parent="s1", seq=2)
    fork(ledger, "g", parent="f", seq=3)
    for session in ("s1", "s2", "f", "g"):
        keep(ledger, 1, 2, session_id=session)

    if way == "redact":
        ledger.redact(HERE, event_id="old")
    elif way == "session":
        ledger.redact(HERE, session_id="s1")
    else:
        ledger.expire(HERE, policy={"tool.call": 0}, now_ms=NOON + DAY)

    assert [kept(ledger, session) for session in ("s1", "f", "g", "s2")] == [[], [], [], [2, 1]]


def test_an_erasure_in_a_fork_leaves_the_snapshots_of_its_parent(ledger: Ledger) -> None:
    ledger.append([said("a")])
    fork(ledger, "f", parent="s1", seq=1)
    keep(ledger, 1)
    keep(ledger, 2, session_id="f")

    ledger.redact(HERE, session_id="f")

    assert (kept(ledger), kept(ledger, "f")) == ([1], [])


def test_a_rebuild_drops_every_snapshot(ledger: Ledger) -> None:
    ledger.append([said("a")])
    keep(ledger, 1)

    ledger.admin.rebuild()

    assert kept(ledger) == []


def test_where_nothing_may_be_written_no_snapshot_is_kept(location: str) -> None:
    with treering.open(location) as writing:
        writing.append([said("a")])
        keep(writing, 1)

    with treering.open(location, mode="ro") as reading:
        keep(reading, 2)
        assert kept(reading) == [1]
