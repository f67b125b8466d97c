"""A view that continues from snapshots says what the fold over all events says, to the byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from hypothesis import given
from hypothesis import strategies as st

import treering
from builders import HERE, NOON, said
from derive.folds import counts, goals, memories, schedules, turns, usage
from forks import fork
from ports import store_of
from treering import Event
from treering.derive.snapshots import COUNTS, FOLDED, VERSION
from treering.ledger.lineage import Lineage
from treering.ledger.views import Views
from treering.model.kinds import RUN_ENDS
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering import Ledger

RUNS: Final = ["r1", "r2", None]
THINGS: Final = ["a", 3]

goal_events = st.tuples(
    st.sampled_from(["goal.added", "goal.added", "goal.updated", "goal.updated", "goal.removed"]),
    st.fixed_dictionaries(
        {"id": st.sampled_from(THINGS)},
        optional={
            "status": st.sampled_from(["active", "done", 7]),
            "description": st.sampled_from(["x", "y"]),
            "progress": st.integers(0, 3),
            "parent": st.sampled_from(THINGS),
        },
    ),
)
schedule_events = st.tuples(
    st.sampled_from(["schedule.added", "schedule.fired", "schedule.fired", "schedule.removed"]),
    st.one_of(
        st.fixed_dictionaries({"id": st.sampled_from(THINGS), "prompt": st.just("go")}),
        st.fixed_dictionaries({"job_id": st.sampled_from(THINGS)}),
    ),
)
memory_events = st.tuples(
    st.sampled_from(
        [f"memory.{verb}" for verb in ("stored", "revised", "superseded", "archived", "restored")]
        + ["memory.forgotten", "memory.recalled"]
    ),
    st.fixed_dictionaries(
        {"id": st.sampled_from(THINGS)},
        optional={"key": st.sampled_from("kl"), "category": st.sampled_from("cd")},
    ),
)
usage_events = st.tuples(
    st.just("usage.reported"),
    st.fixed_dictionaries(
        {
            "model": st.sampled_from(["gpt-4o", "nobody-knows-it"]),
            "input_tokens": st.integers(0, 5),
            "output_tokens": st.integers(0, 5),
        },
        optional={
            "message_id": st.just("m"),
            "request_id": st.just("q"),
            "cache_creation_tokens": st.integers(-1, 2),
        },
    ),
)
other_events = st.tuples(
    st.sampled_from(
        [
            "conversation.user",
            "conversation.user",
            "tool.call",
            "run.started",
            "run.started",
            "run.ended",
            *RUN_ENDS,
        ]
    ),
    st.none(),
)
place = st.integers(0, 40)
marks = st.tuples(
    st.sampled_from(["undo", "redo", "redact", "fork", "leave", "spoil", "look", "look", "look"]),
    place,
)


def stories(*told: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Return what happens, told mostly in the kinds of events that are given."""
    recorded = st.tuples(
        st.just("record"), st.one_of(*told, other_events), st.sampled_from(RUNS), st.integers(0, 3)
    )
    return st.lists(st.one_of(recorded, recorded, recorded, marks), min_size=8, max_size=60)


steps = st.one_of(
    stories(goal_events),
    stories(usage_events, usage_events),
    stories(goal_events, schedule_events, memory_events, usage_events),
)


@given(steps=steps, snapshot_events=st.integers(0, 5), replay_events=st.integers(1, 9))
def test_views_from_snapshots_are_the_views_of_all_events(
    steps: list[Any], snapshot_events: int, replay_events: int
) -> None:
    with treering.open(":memory:") as ledger:
        story = Story(ledger, snapshot_events, replay_events)
        for step in steps:
            getattr(story, step[0])(*step[1:])
        for session_id in story.sessions:
            story.session_id = session_id
            story.look(2)


class Story:
    """What happens to a few sessions, one of which is written to."""

    def __init__(self, ledger: Ledger, snapshot_events: int, replay_events: int) -> None:
        self.ledger = ledger
        self.often = {"snapshot_events": snapshot_events, "replay_events": replay_events}
        self.sessions = ["s1"]
        self.session_id = "s1"

    def record(self, content: tuple[str, Any], run_id: str | None, later: int) -> None:
        kind, payload = content
        events = self.events()
        over = {event.run_id for event in events if event.kind in RUN_ENDS}
        if kind == "run.started":
            over |= {event.run_id for event in events}
        if run_id in over or (kind.startswith("run.") and run_id is None):
            run_id = f"r-{len(events)}"  # A run starts once and takes nothing after its end.
        self.append(kind, payload=payload, run_id=run_id, ts_ms=NOON + 7 * later)

    def undo(self, at: int) -> None:
        head = len(self.events())
        self.append("session.undone", refs={"from_seq": max(head + 1 - at, 1), "turns": 1})

    def redo(self, at: int) -> None:
        undone = [event.seq for event in self.events() if event.kind == "session.undone"] or [1]
        self.append("session.redone", refs={"undone_seq": undone[at % len(undone)]})

    def redact(self, at: int) -> None:
        events = self.events()
        if events:
            self.ledger.redact(HERE, event_id=events[at % len(events)].event_id)

    def fork(self, at: int) -> None:
        own = [event.seq for event in self.events() if event.session_id == self.session_id]
        if own:
            child = f"s{len(self.sessions) + 1}"
            fork(self.ledger, child, parent=self.session_id, seq=own[at % len(own)])
            self.sessions.append(child)
            self.session_id = child

    def leave(self, at: int) -> None:
        self.session_id = self.sessions[at % len(self.sessions)]

    def spoil(self, at: int) -> None:
        for view in (FOLDED, COUNTS):
            found = self.lineage().snapshot(at, view)
            if found is None:
                continue
            seq, body = found
            spoilt = [
                b"",
                bytes([VERSION + 1]) + body[1:],
                body[:-1],
                bytes([*body[:-5], *(byte ^ 1 for byte in body[-5:])]),
            ]
            self.lineage().keep_snapshot(seq, spoilt[at % len(spoilt)], view)

    def look(self, at: int) -> None:
        events = self.events()
        views = Views(self.lineage(), **self.often)
        over = {event.run_id for event in events if event.kind in RUN_ENDS}
        own = next((run for run in RUNS if run not in over), None)

        assert encoded(views.counts()) == encoded(counts(events))
        assert encoded(views.usage()) == encoded(usage(events))
        assert encoded(views.goals()) == encoded(goals(events))
        assert encoded(views.goals(run_id=own)) == encoded(goals(events, run_id=own))
        assert encoded(views.schedules()) == encoded(schedules(events))
        assert encoded(views.memories()) == encoded(memories(events))
        divided = list(turns(events))
        assert encoded(list(views.turns())) == encoded(divided)
        some = at % 4
        assert encoded(list(views.turns(last=some))) == encoded(
            divided[max(len(divided) - some, 0) :]
        )

    def append(self, kind: str, **fields: Any) -> None:
        stated = {"payload": None, "session_id": self.session_id, "ts_ms": NOON, **fields}
        self.ledger.append([said(f"{kind} happened", kind=kind, **stated)])

    def lineage(self) -> Lineage:
        return Lineage(store_of(self.ledger), parse_scope(HERE), self.session_id)

    def events(self) -> list[Event]:
        return list(self._pages())

    def _pages(self) -> Iterator[Event]:
        lineage, seq = self.lineage(), 0
        while page := lineage.after(Event, seq, 1_000):
            yield from page
            seq = page[-1].seq


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)
