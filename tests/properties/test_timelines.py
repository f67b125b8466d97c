"""Sessions agree with plain lists, however turns, undo, redo, forks and erasures follow on another.

A list holds the turns that count; beside it is a stack of what undo took away.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import treering
from builders import HERE, said
from treering import InvalidInput, NotFound
from treering.model.events import REDACTED

if TYPE_CHECKING:
    from postgres_server import Places
    from treering import Session

SHAPES = ["run", "two questions", "no run", "asked before the run", "run without a start"]
MARKS = ["ops.observation", "session.titled", "boundary.intent"]


class Line(msgspec.Struct):
    """A session as plain lists."""

    shown: list[str] = []
    """The turns that count."""
    undone: list[list[str]] = []
    """What counted before each undo that can be taken back."""
    past: list[tuple[str, list[str]]] = []
    """Every turn there was, in order, with the turns that counted behind it."""

    def copy(self) -> Line:
        return Line([*self.shown], [[*shown] for shown in self.undone], [*self.past])


class Timelines(RuleBasedStateMachine):
    """Sessions beside their lists."""

    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = treering.open(self.fresh(), guard="off")
        self.lines: dict[str, Line] = {}
        self.erased: set[str] = set()
        self.count = 0

    def fresh(self) -> str:
        """Return where a new ledger can be made."""
        return ":memory:"

    def session(self, name: str) -> Session:
        """Return a handle that knows nothing from before."""
        return self.ledger.session(name, scope=HERE, agent="lyria")

    def next_name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    @initialize(target=names)
    def begin(self) -> str:
        self.lines["root"] = Line()
        self.session("root").open()
        return "root"

    # What happens.

    @rule(name=names, shape=st.sampled_from(SHAPES))
    def turn(self, name: str, shape: str) -> None:
        session, line, turn = self.session(name), self.lines[name], self.next_name()
        if shape == "no run":
            session.append([question(turn, name), answer(turn, name)])
        elif shape == "run without a start":
            over = said("over", session_id=name, kind="run.ended")
            session.append(
                [
                    msgspec.structs.replace(event, run_id=f"{name}-{turn}")
                    for event in (question(turn, name), answer(turn, name), over)
                ]
            )
        elif shape == "asked before the run":
            session.append([question(turn, name)])
            with session.turn() as run:
                run.assistant(f"{turn}!")
        else:
            with session.turn() as run:
                run.emit("conversation.user", {"text": f"{turn}?"})
                run.assistant(f"{turn}!")
                if shape == "two questions":
                    run.user("and?")
        line.shown.append(turn)
        line.undone.clear()
        line.past.append((turn, [*line.shown]))

    @rule(name=names)
    def fail(self, name: str) -> None:
        run = self.session(name).turn()
        run.start()
        run.user("never mind?")
        run.fail("no luck")

    @rule(
        name=names, kind=st.sampled_from(["ops.observation", "session.titled", "boundary.intent"])
    )
    def mark(self, name: str, kind: str) -> None:
        self.session(name).record(kind, "a mark", payload={"title": "a mark"})

    @rule(name=names, keep=st.integers(1, 5))
    def compact(self, name: str, keep: int) -> None:
        self.session(name).compact(keep=keep)

    @rule(name=names, turns=st.integers(1, 3))
    def undo(self, name: str, turns: int) -> None:
        line = self.lines[name]
        if turns > len(line.shown):
            with pytest.raises(InvalidInput):
                self.session(name).undo(turns=turns)
            return
        before = self.hidden(name)
        header = self.session(name).undo(turns=turns)
        assert header.refs["turns"] == self.hidden(name) - before
        line.undone.append([*line.shown])
        del line.shown[-turns:]

    @rule(name=names)
    def redo(self, name: str) -> None:
        line = self.lines[name]
        if not line.undone:
            with pytest.raises(NotFound):
                self.session(name).redo()
            return
        self.session(name).redo()
        line.shown = line.undone.pop()

    @rule(target=names, name=names)
    def fork(self, name: str) -> str:
        child = f"s{len(self.lines)}"
        self.session(name).fork(child)
        self.lines[child] = self.lines[name].copy()
        return child

    @rule(target=names, name=names, at=st.integers(0, 30))
    def fork_at(self, name: str, at: int) -> str:
        past = self.lines[name].past
        if not past:
            return name
        at %= len(past)
        child = f"s{len(self.lines)}"
        self.session(name).fork(child, at=self.event_of(name, past[at][0]))
        self.lines[child] = Line([*past[at][1]], [], past[: at + 1])
        return child

    @rule(name=names, at=st.integers(0, 30))
    def redact(self, name: str, at: int) -> None:
        past = self.lines[name].past
        if past:
            turn = past[at % len(past)][0]
            with contextlib.suppress(NotFound):
                self.ledger.redact(HERE, event_id=self.event_of(name, turn))
            self.erased.add(turn)

    # What is always so.

    @invariant()
    def history_is_what_counts(self) -> None:
        for name, line in self.lines.items():
            session = self.session(name)
            assert questions(session.history()) == self.told(line)

    @invariant()
    def the_context_is_the_end_of_it(self) -> None:
        for name, line in self.lines.items():
            context = self.session(name).context()
            shown, told = questions(context.messages), self.told(line)
            assert shown == told[len(told) - len(shown) :]
            begins = str(context.messages[0]["content"]) if context.messages else ""
            assert len(shown) == len(told) or begins.startswith("<summary>")

    @invariant()
    def turns_say_what_is_undone(self) -> None:
        for name, line in self.lines.items():
            told = [
                turn.is_undone
                for turn in self.session(name).turns()
                if turn.state != "failed" and turn.prompt != "and?"
            ]
            shown = set(line.shown)
            assert told == [turn not in shown for turn, _ in line.past]

    def teardown(self) -> None:
        assert self.ledger.admin.verify().intact
        self.ledger.close()

    # What it is compared by.

    def told(self, line: Line) -> list[str]:
        return [REDACTED if turn in self.erased else f"{turn}?" for turn in line.shown]

    def hidden(self, name: str) -> int:
        """Return how many turns are undone, of those that ended well."""
        turns = self.session(name).turns()
        return sum(turn.is_undone and turn.state != "failed" for turn in turns)

    def event_of(self, name: str, turn: str) -> str:
        """Return the id of the question of a turn, by its place: its words may be erased."""
        asked = [
            event.event_id
            for event in self.session(name).headers()
            if event.kind == "conversation.user" and event.summary not in {"and?", "never mind?"}
        ]
        place = [known for known, _ in self.lines[name].past].index(turn)
        return asked[place]


def question(turn: str, name: str) -> treering.NewEvent:
    return said(f"{turn}?", session_id=name)


def answer(turn: str, name: str) -> treering.NewEvent:
    return said(f"{turn}!", session_id=name, kind="conversation.assistant")


def questions(messages: list[dict[str, Any]]) -> list[str]:
    """Return what the user asked, but for second questions and summaries."""
    asked = [str(message["content"]) for message in messages if message["role"] == "user"]
    return [text for text in asked if text != "and?" and not text.startswith("<summary>")]


def test_sessions_agree_with_plain_lists_in_memory() -> None:
    run_state_machine_as_test(Timelines)


def test_sessions_agree_with_plain_lists_on_postgres(postgres: Places) -> None:
    class OnPostgres(Timelines):
        """The same, on a server."""

        def fresh(self) -> str:
            return postgres.fresh()

    few = settings(max_examples=settings().max_examples // 6, stateful_step_count=20)
    run_state_machine_as_test(OnPostgres, settings=few)
