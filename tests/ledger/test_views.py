"""Views of a session, on every database: carried on from snapshots, reached by erasures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import HERE, NOON, said
from forks import fork
from ledger.counted import Counted
from ports import store_of
from treering.derive import snapshots
from treering.derive.snapshots import COUNTS, FOLDED
from treering.ledger.lineage import Lineage
from treering.ledger.views import SNAPSHOT_EVENTS, Views
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger, NewEvent

OFTEN: Final = {"snapshot_events": 0, "replay_events": 5}


def lineage_of(ledger: Ledger, session_id: str = "s1") -> Lineage:
    return Lineage(store_of(ledger), parse_scope(HERE), session_id)


def views_of(ledger: Ledger, session_id: str = "s1") -> Views:
    return Views(lineage_of(ledger, session_id), **OFTEN)


def goal(name: str, verb: str = "added", **fields: Any) -> NewEvent:
    content = {"id": name, "description": f"GOAL-{name}"}
    return said(f"goal {verb}", kind=f"goal.{verb}", payload=content, **fields)


def used(tokens: int, **fields: Any) -> NewEvent:
    refs = {"model": "gpt-4o", "input_tokens": 0, "output_tokens": tokens}
    return said("used", kind="usage.reported", payload=refs, refs=refs, **fields)


def undo(from_seq: int) -> NewEvent:
    return said("undone", kind="session.undone", refs={"from_seq": from_seq, "turns": 1})


def names(views: Views) -> list[str]:
    return [found.id for found in views.goals()]


def test_a_session_without_a_past_has_nothing_to_tell(ledger: Ledger) -> None:
    views = views_of(ledger)

    assert (list(views.turns()), views.goals(), views.schedules(), views.memories()) == (
        [], [], [], [],
    )  # fmt: skip
    assert (views.counts().events, views.usage().total.calls) == (0, 0)


def test_views_tell_what_a_session_recorded(ledger: Ledger) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user("Ship it.")
        turn.emit("goal.added", {"id": "g1", "description": "ship"})
        turn.emit("schedule.added", {"id": "j1", "prompt": "look"})
        turn.emit("memory.stored", {"id": "m1", "key": "home"})
        turn.emit("usage.reported", {"model": "gpt-4o", "inputTokens": 1, "outputTokens": 2})
        with turn.tool("git_log") as call:
            call.finish("3 commits")
        assert views_of(ledger).goals() == []
        assert names(views_of(ledger)) == []
        assert [found.id for found in views_of(ledger).goals(run_id=turn.run_id)] == ["g1"]

    views = views_of(ledger)

    assert (names(views), views.schedules()[0].prompt, views.memories()[0].key) == (
        ["g1"], "look", "home",
    )  # fmt: skip
    (told,) = views.turns()
    assert (told.prompt, told.state, told.tool_calls) == ("Ship it.", "ended", 1)
    assert views.usage().by_model == told.usage
    assert (views.counts().turns, views.counts().open_runs) == (1, 0)


def test_a_run_that_a_snapshot_lies_in_counts_once_it_has_ended(ledger: Ledger) -> None:
    ledger.append([goal("a", run_id="r1"), goal("b", run_id="r2"), goal("c")])
    assert names(views_of(ledger)) == ["c"]

    ends = {"r1": "run.ended", "r2": "run.failed"}
    ledger.append([said("over", kind=kind, run_id=run) for run, kind in ends.items()])

    assert names(views_of(ledger)) == ["a", "c"]


def test_a_fork_goes_on_from_its_parents_snapshot_and_sees_no_later_end(ledger: Ledger) -> None:
    ledger.append([goal("a", run_id="r1"), used(5, run_id="r1"), goal("b")])
    assert names(views_of(ledger)) == ["b"]
    ledger.append([said("over", kind="run.failed", run_id="r1"), goal("c")])
    assert names(views_of(ledger)) == ["b", "c"]

    fork(ledger, "s2", parent="s1", seq=3)

    child = views_of(ledger, "s2")
    assert names(child) == ["b"]
    assert (child.counts().open_runs, child.counts().events) == (1, 4)
    assert (child.usage().total.calls, child.usage().failed.calls) == (1, 0)
    ledger.append([said("over", kind="run.ended", run_id="r1", session_id="s2")])
    assert names(views_of(ledger, "s2")) == ["a", "b"]
    assert names(views_of(ledger)) == ["b", "c"]


def test_an_undo_that_reaches_behind_a_snapshot_goes_back_to_an_older_one(ledger: Ledger) -> None:
    for name in "abcd":
        ledger.append([goal(name)])
        assert names(views_of(ledger))[-1] == name

    ledger.append([undo(2)])
    assert names(views_of(ledger)) == ["a"]
    ledger.append([said("redone", kind="session.redone", refs={"undone_seq": 5})])

    assert names(views_of(ledger)) == ["a", "b", "c", "d"]


def test_an_erasure_reaches_what_was_folded_before(ledger: Ledger) -> None:
    header, *_ = ledger.append([goal("a"), goal("b"), used(7, event_id="u1")])
    assert (names(views_of(ledger)), views_of(ledger).usage().total.calls) == (["a", "b"], 1)

    for event_id in (header.event_id, "u1"):
        ledger.redact(HERE, event_id=event_id)

    views = views_of(ledger)
    assert (names(views), views.usage().total.calls, views.counts().erased) == (["b"], 0, 2)


def test_a_state_from_before_an_erasure_is_not_gone_on_from(ledger: Ledger) -> None:
    """Somebody may have folded the session just before, and kept the snapshot just after."""
    ledger.append([goal("a"), used(7, event_id="u1")])
    assert views_of(ledger).usage().total.calls == 1
    seq, body = lineage_of(ledger).snapshot(2) or (0, b"")
    ledger.redact(HERE, event_id="u1")
    lineage_of(ledger).keep_snapshot(seq, body)

    assert views_of(ledger).usage().total.calls == 0


def test_a_snapshot_holds_no_text_of_any_event(ledger: Ledger) -> None:
    ledger.append([
        said("PRIVATE-input", run_id="PRIVATE-run"),
        goal("PRIVATE-goal", run_id="PRIVATE-run"),
        said("stored", kind="memory.stored", payload={"id": "PRIVATE-memory"}),
        said("added", kind="schedule.added", payload={"id": "PRIVATE-job", "prompt": "PRIVATE"}),
        said("used", kind="usage.reported", payload={
            "model": "PRIVATE-model", "output_tokens": 4, "message_id": "PRIVATE-message",
        }),
    ])  # fmt: skip
    assert len(views_of(ledger).memories()) == 1
    assert views_of(ledger).counts().open_runs == 1

    bodies = [(lineage_of(ledger).snapshot(5, view) or (0, b""))[1] for view in (FOLDED, COUNTS)]

    assert all(bodies)
    assert b"goal.added" in bodies[1]
    for text in (b"PRIVATE", b"lyria", b"acme", b"s1"):
        assert not any(text in body for body in bodies)


@pytest.mark.parametrize("spoilt", [b"", b"\x00", b"nonsense" * 9, bytes(200)])
def test_a_snapshot_that_cannot_be_read_is_made_anew(ledger: Ledger, spoilt: bytes) -> None:
    ledger.append([goal("a"), goal("b")])
    views_of(ledger).goals()
    kept = lineage_of(ledger).snapshot(2)
    lineage_of(ledger).keep_snapshot(2, spoilt)

    assert names(views_of(ledger)) == ["a", "b"]
    assert lineage_of(ledger).snapshot(2) == kept


def test_costs_are_found_again_when_prices_have_changed(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append([used(5), goal("a")])
    views_of(ledger).usage()
    monkeypatch.setattr(snapshots, "prices_version", lambda: "another")
    before = lineage_of(ledger).snapshot(2)

    views_of(ledger).usage()

    assert lineage_of(ledger).snapshot(2) != before


def test_other_prices_do_not_matter_where_nothing_was_used(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append([goal("a"), goal("b")])
    views_of(ledger).usage()
    monkeypatch.setattr(snapshots, "prices_version", lambda: "another")
    before = lineage_of(ledger).snapshot(2)

    views_of(ledger).usage()

    assert lineage_of(ledger).snapshot(2) == before


def test_too_much_that_waits_for_open_runs_is_not_kept(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "WAITING_MAX", 2)
    ledger.append([goal(name, run_id="r1") for name in "abc"])

    assert names(views_of(ledger)) == []
    assert lineage_of(ledger).snapshot(3) is None
    ledger.append([said("over", kind="run.ended", run_id="r1")])
    assert names(views_of(ledger)) == ["a", "b", "c"]
    assert lineage_of(ledger).snapshot(4) is not None


def test_views_can_be_asked_for_where_nothing_may_be_written(tmp_path: Path) -> None:
    with treering.open(tmp_path / "ledger.db") as ledger:
        ledger.append([goal("a"), goal("b")])

    with treering.open(tmp_path / "ledger.db", mode="ro") as ledger:
        assert names(views_of(ledger)) == ["a", "b"]


def test_fewer_than_no_turns_are_refused(ledger: Ledger) -> None:
    with pytest.raises(treering.InvalidInput):
        views_of(ledger).turns(last=-1)


def test_the_last_turns_are_the_last_of_all_turns(ledger: Ledger) -> None:
    for run in ("r1", "r2", "r3"):
        ledger.append([
            said("run started", kind="run.started", run_id=run),
            said(f"asked {run}", run_id=run),
            said("run over", kind="run.ended", run_id=run),
        ])  # fmt: skip
    views = views_of(ledger)

    every = list(views.turns())

    assert [turn.prompt for turn in every] == ["asked r1", "asked r2", "asked r3"]
    for count in range(5):
        assert list(views.turns(last=count)) == every[max(3 - count, 0) :]


def long_story(turns: int, per_turn: int, first: int = 0) -> list[NewEvent]:
    """Return turns of a session, of a few sorts of events each."""
    found = []
    for turn in range(first, first + turns):
        run: dict[str, Any] = {"run_id": f"r{turn}", "ts_ms": NOON + turn}
        found += [
            said("run started", kind="run.started", **run),
            said(f"asked {turn}", **run),
            goal(f"g{turn % 3}", **run),
            used(turn % 7, **run),
            *(said("called", kind="tool.call", payload=None, **run) for _ in range(per_turn - 5)),
            said("over", kind="run.ended" if turn % 5 else "run.failed", **run),
        ]
    return found


def test_a_view_of_a_long_session_reads_its_snapshot_and_the_tail() -> None:
    """Promise 10: it costs the same whether much or little lies before."""
    with treering.open(":memory:") as ledger:
        for first in range(0, 1_500, 50):
            ledger.append(long_story(50, 20, first))
        store = Counted(store_of(ledger))
        views = Views(Lineage(store, parse_scope(HERE), "s1"))
        assert views.counts().events == 30_000
        assert store.read > 30_000
        store.items.clear()
        views.usage()
        assert store.read > 3_000  # Of those kinds that it is folded from.

        ledger.append(long_story(2, 20, 1_500))
        costs = {}
        for name in ("counts", "goals", "schedules", "memories", "usage"):
            store.items.clear()
            getattr(views, name)()
            costs[name] = store.read
        ledger.append([undo(29_990)])
        store.items.clear()
        views.usage()
        costs["undone"] = store.read
        undone = views.counts()
        store.items.clear()
        assert [turn.prompt for turn in views.turns(last=2)] == ["asked 1500", "asked 1501"]
        costs["turns"] = store.read

    assert undone.events == 30_041
    assert max(costs[name] for name in costs if name != "undone") < SNAPSHOT_EVENTS
    assert costs["undone"] < 25_000
    assert costs["turns"] < 300


def test_a_long_session_is_read_again_by_another_without_a_replay(ledger: Ledger) -> None:
    for first in range(0, 150, 50):
        ledger.append(long_story(50, 20, first))
    expected = views_of(ledger).usage()

    store = Counted(store_of(ledger))
    views = Views(Lineage(store, parse_scope(HERE), "s1"))

    assert views.usage() == expected
    assert store.read < 200
