"""Trees of sessions: whatever is forked, appended and erased, each past is one plain list."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import msgspec
from hypothesis import given
from hypothesis import strategies as st

import treering
from builders import HERE, said
from forks import fork
from ports import store_of
from treering import Event
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from treering import Ledger

OURS: Final = Scope(HERE)
ROOTS: Final = ("r0", "r1")


class Row(msgspec.Struct):
    """What a plain list knows of an event."""

    text: str
    erasable: bool = True


class Session(msgspec.Struct):
    """A session as a plain list: all of its past, of which its parent holds the beginning."""

    past: list[Row]
    shared: int = 0


Step = tuple[str, int, int]
"""What is done, to which session, and where in it."""

STEPS: Final = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "fork", "fork", "redact", "redact all"]),
        st.integers(0, 20),
        st.integers(0, 20),
    ),
    max_size=25,
)


class Tree:
    """A ledger and the lists that it should be."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.sessions: dict[str, Session] = {}
        for name in ROOTS:
            self._record(name, self.sessions.setdefault(name, Session(past=[])))

    def take(self, step: Step) -> None:
        """Do the same to the ledger and to the lists."""
        action, which, where = step
        name = list(self.sessions)[which % len(self.sessions)]
        session = self.sessions[name]
        own = session.past[session.shared :]
        at = where % len(own)
        match action:
            case "append":
                self._record(name, session)
            case "fork":
                self._fork(name, session, session.shared + at + 1)
            case "redact":
                self._redact(name, session, own[at : at + 1], event_id=own[at].text)
            case _:
                self._redact(name, session, own, session_id=name)

    def _record(self, name: str, session: Session) -> None:
        text = f"{name}-{len(session.past) + 1}"
        [header] = self.ledger.append(
            [said(text, session_id=name, event_id=text)], expected_seq=len(session.past)
        )
        session.past.append(Row(text))
        assert header.seq == len(session.past)

    def _fork(self, parent: str, session: Session, seq: int) -> None:
        name = f"f{len(self.sessions)}"
        header = fork(self.ledger, name, parent=parent, seq=seq, event_id=f"{name}-{seq + 1}")
        assert header.seq == seq + 1
        past = [*session.past[:seq], Row(f"{name}-{seq + 1}")]
        self.sessions[name] = Session(past=past, shared=seq)

    def _redact(self, name: str, session: Session, rows: list[Row], **target: str) -> None:
        erasable = [row for row in rows if row.erasable]
        if not erasable:
            return
        self.ledger.redact(HERE, **target)  # type: ignore[arg-type]
        for row in erasable:
            row.text, row.erasable = "[REDACTED]", False
        session.past.append(Row(f"vouched in {name}", erasable=False))

    def past_of(self, ledger: Ledger, name: str) -> list[tuple[int, str, bool]]:
        """Return a session's past as ``ledger`` has it, from its own events and its ancestors'."""
        store, until = store_of(ledger), 2**62
        past: list[Event] = []
        place: str | None = name
        while place is not None:
            own = store.reader.by_seq(Event, OURS, place, after_seq=0, limit=1_000)
            past[:0] = [e for e in own if e.seq <= until]
            cut = store.sessions.cut(OURS, place)
            place, until = (None, 0) if cut is None else (cut.parent, cut.seq)
        return [(event.seq, event.event_id, event.redacted) for event in past]

    def check(self, ledger: Ledger, name: str) -> None:
        """Compare a session's past in ``ledger`` with its list."""
        session = self.sessions[name]
        found = self.past_of(ledger, name)
        assert [seq for seq, _, _ in found] == list(range(1, len(session.past) + 1))
        for (_, event_id, redacted), row in zip(found, session.past, strict=True):
            assert redacted == (row.text == "[REDACTED]")
            if row.erasable:
                assert event_id == row.text


@given(STEPS)
def test_every_past_is_a_plain_list_and_verifies(steps: list[Step]) -> None:
    with treering.open(":memory:") as ledger:
        tree = Tree(ledger)
        for step in steps:
            tree.take(step)

        for name in tree.sessions:
            tree.check(ledger, name)
        result = ledger.admin.verify()

    own = sum(len(session.past) - session.shared for session in tree.sessions.values())
    assert (result.intact, result.sessions, result.events) == (True, len(tree.sessions), own)


@given(STEPS, st.integers(0, 20))
def test_every_fork_stands_alone_in_its_export(steps: list[Step], which: int) -> None:
    with treering.open(":memory:") as source, treering.open(":memory:") as target:
        tree = Tree(source)
        for step in steps:
            tree.take(step)
        name = list(tree.sessions)[which % len(tree.sessions)]
        stream = io.BytesIO()
        source.admin.export(HERE, stream, session_id=name, payloads="included")
        stream.seek(0)

        receipt = target.admin.restore(stream)

        assert receipt.complete
        assert target.admin.verify().intact
        tree.check(target, name)


@given(STEPS, STEPS)
def test_a_copy_that_goes_on_has_the_same_pasts(before: list[Step], behind: list[Step]) -> None:
    with treering.open(":memory:") as source, treering.open(":memory:") as target:
        tree = Tree(source)
        for step in before:
            tree.take(step)
        first = source.admin.copy_to(target)
        for step in behind:
            tree.take(step)

        second = source.admin.copy_to(target)

        assert (first.complete, second.complete) == (True, True)
        assert target.admin.verify() == source.admin.verify()
        for name in tree.sessions:
            tree.check(target, name)
