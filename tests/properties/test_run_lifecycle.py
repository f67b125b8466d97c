"""One start, one end, one outcome for each call: for every sequence of calls, crashes and restarts.

Two authors share a file, each with a ledger of its own. One crashes when its store is closed
underneath: its lease is let go, its runs stay open, and nothing of it can write any more.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

import treering
from builders import HERE
from expected_calls import tool_calls
from ports import store_of
from run_records import runs
from treering.model.kinds import RUN_ENDS

if TYPE_CHECKING:
    from treering import Header, Ledger, Run, ToolCall

SESSIONS = ("s1", "s2")
AUTHORS = (0, 1)


class Attempt:
    """A run as the book has it, beside the run itself."""

    def __init__(self, run: Run, author: int, session: str) -> None:
        self.run = run
        self.author = author
        self.session = session
        self.state = "open"
        self.reason: str | None = None
        self.calls: dict[str, Call] = {}

    def over(self, state: str, why: str) -> None:
        """Note that it is over, and its open calls with it."""
        self.state = state
        for call in self.calls.values():
            call.outcome = call.outcome or ("synthetic", why)


class Call:
    """A tool call as the book has it."""

    def __init__(self, call: ToolCall, attempt: Attempt) -> None:
        self.call = call
        self.attempt = attempt
        self.outcome: tuple[str, str | None] | None = None
        self.late: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the tool itself has had its say."""
        return self.late is not None or (self.outcome or ("synthetic",))[0] != "synthetic"


class RunLifecycle(RuleBasedStateMachine):
    """Two authors beside a book of what they did."""

    begun = Bundle("begun")
    made = Bundle("made")

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "ledger.db"
        self.authors: list[Ledger] = []
        self.book: list[Attempt] = []
        self.crashed: set[int] = set()
        """The attempts, by their place in the book, whose author is gone."""

    @initialize()
    def open(self) -> None:
        self.authors = [self.opened() for _ in AUTHORS]

    def opened(self) -> Ledger:
        return treering.open(self.path, durability="normal", guard="off")

    def is_there(self, attempt: Attempt) -> bool:
        """Whether the author of ``attempt`` can still do something."""
        return self.book.index(attempt) not in self.crashed

    def find_dead(self, session: str | None = None) -> None:
        """Note that somebody looks, and closes the runs of those who are gone."""
        for place in self.crashed:
            attempt = self.book[place]
            if attempt.state == "open" and session in {None, attempt.session}:
                attempt.over("interrupted", "crashed")

    # Runs.

    @rule(target=begun, author=st.sampled_from(AUTHORS), session=st.sampled_from(SESSIONS))
    def start(self, author: int, session: str) -> Any:
        run = self.authors[author].session(session, scope=HERE, agent="lyria").turn()
        self.find_dead(session)
        busy = any(a.state == "open" and a.session == session for a in self.book)
        try:
            run.start()
        except treering.errors.RunActive:
            assert busy
            return multiple()
        assert not busy
        self.find_dead()  # A first run in a scope looks at all of it.
        self.book.append(Attempt(run, author, session))
        return self.book[-1]

    @rule(attempt=begun, kind=st.sampled_from(["user", "delta", "emit"]))
    def write(self, attempt: Attempt, kind: str) -> None:
        if not self.is_there(attempt):
            return
        run = attempt.run
        try:
            if kind == "user":
                run.user("hello")
            elif kind == "emit":
                run.emit("warning", {"code": "x"})
            elif run.is_open:  # What is not kept learns of nothing.
                run.delta("he")
        except treering.RunInterrupted:
            assert attempt.state == "interrupted"
        except treering.errors.RunClosed:
            assert attempt.state in {"ended", "failed"}
        else:
            assert attempt.state == "open" or kind == "delta"

    @rule(attempt=begun, how=st.sampled_from(["end", "fail", "interrupt", "leave", "raise"]))
    def finish_run(self, attempt: Attempt, how: str) -> None:
        if not self.is_there(attempt):
            return
        was, run = attempt.state, attempt.run
        error = LookupError("x")
        try:
            if how == "leave":
                run.__exit__(None, None, None)
            elif how == "raise":
                run.__exit__(LookupError, error, None)
            else:
                getattr(run, how)(*([] if how == "end" else ["because"]))
        except treering.RunInterrupted:
            assert was == "interrupted"
        if was == "open":
            ended = {"end": "ended", "leave": "ended", "interrupt": "interrupted"}
            state = ended.get(how, "failed")
            why = {"ended": "missing_result", "failed": "aborted", "interrupted": "interrupted"}
            attempt.over(state, why[state])

    @rule(author=st.sampled_from(AUTHORS), session=st.sampled_from(SESSIONS))
    def interrupt(self, author: int, session: str) -> None:
        self.find_dead(session)
        active = [a for a in self.book if a.state == "open" and a.session == session]

        mark = self.authors[author].session(session, scope=HERE, agent="lyria").interrupt("stop")

        assert (mark is not None) == bool(active)
        for attempt in active:
            attempt.over("interrupted", "interrupted")

    @rule(attempt=begun)
    def ask(self, attempt: Attempt) -> None:
        if self.is_there(attempt):
            assert attempt.run.interrupted == (attempt.state == "interrupted")

    # Tools.

    @rule(target=made, attempt=begun, call_id=st.sampled_from(["c1", "c2", "c3"]))
    def call(self, attempt: Attempt, call_id: str) -> Any:
        if not self.is_there(attempt):
            return multiple()
        try:
            made = attempt.run.tools.started("look", {"at": 1}, call_id=call_id)
        except treering.errors.RunClosed:
            assert attempt.state != "open"
            return multiple()
        except treering.InvalidInput:
            assert call_id in attempt.calls
            return multiple()
        assert attempt.state == "open"
        attempt.calls[call_id] = Call(made, attempt)
        return attempt.calls[call_id]

    @rule(call=made, how=st.sampled_from(["finish", "fail"]))
    def conclude(self, call: Call, how: str) -> None:
        """Let the tool itself have its say: in time, late, or a second time."""
        if not self.is_there(call.attempt):
            return
        status = {"finish": "ok", "fail": "failed"}[how]
        try:
            header = getattr(call.call, how)("told")
        except treering.errors.RunClosed:
            assert call.is_settled
            return
        assert not call.is_settled
        if call.outcome is None:
            call.outcome = (status, None)
        else:
            call.late = status
        assert bool(header.refs.get("late")) == (call.late is not None)

    @rule(call=made, reason=st.sampled_from(["timeout", "aborted"]))
    def give_up(self, call: Call, reason: Any) -> None:
        if not self.is_there(call.attempt):
            return
        try:
            call.call.give_up(reason)
        except treering.RunInterrupted:
            assert call.attempt.state == "interrupted"
        call.outcome = call.outcome or ("synthetic", reason)

    # Crashes and restarts.

    @rule(author=st.sampled_from(AUTHORS))
    def crash(self, author: int) -> None:
        store_of(self.authors[author]).close()
        self.crashed |= {at for at, a in enumerate(self.book) if a.author == author}
        self.authors[author] = self.opened()
        self.find_dead()

    @rule(author=st.sampled_from(AUTHORS))
    def restart(self, author: int) -> None:
        """Close a ledger as it should be, and open it again."""
        for attempt in self.book:
            if attempt.author == author and attempt.state == "open" and self.is_there(attempt):
                attempt.over("interrupted", "interrupted")
        self.authors[author].close()
        self.crashed |= {at for at, a in enumerate(self.book) if a.author == author}
        self.authors[author] = self.opened()
        self.find_dead()

    @rule(attempt=consumes(begun))
    def forget(self, attempt: Attempt) -> None:
        """Nobody does anything more with the run."""

    # What holds.

    @invariant()
    def runs_are_as_the_book_has_them(self) -> None:
        if not self.authors:
            return
        found: dict[str, list[Header]] = {}
        for session in SESSIONS:
            found |= runs(self.authors[0].session(session, scope=HERE, agent="lyria"))
        assert set(found) == {attempt.run.run_id for attempt in self.book}
        for attempt in self.book:
            events = found[attempt.run.run_id]
            assert RUN_ENDS.get(events[-1].kind, "open") == attempt.state
            self.check_calls(attempt, events)

    def check_calls(self, attempt: Attempt, events: list[Header]) -> None:
        called = Counter(e.refs["call_id"] for e in events if e.kind == "tool.call")
        counting = [e.refs for e in events if e.kind == "tool.result"]
        assert called == Counter(attempt.calls.keys())
        assert {r["call_id"]: (r["status"], r.get("reason")) for r in counting} == {
            call_id: call.outcome for call_id, call in attempt.calls.items() if call.outcome
        }
        assert len(counting) == sum(call.outcome is not None for call in attempt.calls.values())
        assert not any("late" in refs for refs in counting)
        if attempt.state != "open":
            assert len(counting) == len(called)

    @invariant()
    def late_results_are_linked_and_apart(self) -> None:
        if not self.authors:
            return
        headers = self.authors[0].headers(HERE, first=1_000).items
        known = {header.event_id: header for header in headers}
        late = [h for h in headers if h.kind == "tool.result" and h.run_id is None]
        expected = Counter(
            (attempt.run.run_id, call_id, call.late)
            for attempt in self.book
            for call_id, call in attempt.calls.items()
            if call.late
        )
        assert Counter((h.refs["run"], h.refs["call_id"], h.refs["status"]) for h in late) == (
            expected
        )
        for header in late:
            outcome = known[header.refs["outcome"]]
            assert header.refs["late"] is True
            assert (outcome.run_id, outcome.refs["call_id"], outcome.refs["status"]) == (
                header.refs["run"], header.refs["call_id"], "synthetic",
            )  # fmt: skip
            assert outcome.position < header.position

    @invariant()
    def the_records_of_tools_say_the_same(self) -> None:
        if not self.authors:
            return
        headers = sorted(self.authors[0].headers(HERE, first=1_000).items, key=_position)
        records = tool_calls(headers)
        told = {
            (r.run_id, r.call_id): (r.status, r.reason, r.late_status, r.run_state) for r in records
        }
        assert told == {
            (attempt.run.run_id, call_id): (
                *(call.outcome or ("open", None)), call.late, attempt.state,
            )
            for attempt in self.book
            for call_id, call in attempt.calls.items()
        }  # fmt: skip
        assert len(told) == len(records)
        kept = self.authors[1].tool_calls(HERE, first=1_000).items
        assert sorted(kept, key=_position) == sorted(records, key=_position)

    @invariant()
    def the_chain_holds(self) -> None:
        if self.authors:
            assert self.authors[0].admin.verify().intact

    def teardown(self) -> None:
        for ledger in self.authors:
            ledger.close()
        if self.authors:
            with treering.open(self.path) as ledger:
                for session in SESSIONS:
                    found = runs(ledger.session(session, scope=HERE, agent="lyria"))
                    assert all(events[-1].kind in RUN_ENDS for events in found.values())
                assert ledger.admin.verify().intact
        self._folder.cleanup()


def _position(of: Any) -> int:
    return int(of.position)


def test_every_run_has_one_start_and_one_end_whatever_happens() -> None:
    """Event ordering invariants: per run exactly one start/terminal, monotonic seq."""
    run_state_machine_as_test(RunLifecycle)
