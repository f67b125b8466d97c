"""What a session has recorded, as tests look at it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from treering import Header, NewEvent, Session
from treering.model.kinds import RUN_ENDS
from treering.spine.ports import Occasion, Preparation, Verdict

START: Final = "run.started"


def kinds(session: Session) -> list[str]:
    """Return the kinds of all events, in order."""
    return [header.kind for header in session.headers()]


def runs(session: Session) -> dict[str, list[Header]]:
    """Return the events of each run, in order, after checking that their order is sound.

    Events of a session have no gap; those of a run are numbered from 1 and upwards, the first is
    its start and nothing follows its end.
    """
    headers = list(session.headers())
    assert [header.seq for header in headers] == list(range(1, len(headers) + 1))
    found: dict[str, list[Header]] = {}
    for header in headers:
        if header.run_id is not None:
            found.setdefault(header.run_id, []).append(header)
    for events in found.values():
        numbers = [event.run_seq or 0 for event in events]
        assert numbers[0] == 1
        assert all(one < other for one, other in pairwise(numbers))
        assert [event.kind for event in events].index(START) == 0
        assert [event.kind for event in events].count(START) == 1
        assert not any(event.kind in RUN_ENDS for event in events[:-1])
    return found


def ends(session: Session) -> list[str]:
    """Return how each run ended, in order of their starts. Every run has to be over."""
    found = [events[-1].kind for events in runs(session).values()]
    assert all(kind in RUN_ENDS for kind in found), found
    return found


def results(session: Session) -> list[Any]:
    """Return the refs of all tool results, in order, without what differs from run to run."""
    unsteady = {"duration_ms", "output_bytes"}
    return [
        {name: value for name, value in header.refs.items() if name not in unsteady}
        for header in session.headers()
        if header.kind == "tool.result"
    ]


def started_elsewhere(session: Session, run_id: str, **refs: Any) -> NewEvent:
    """Return the start of a run as somebody records it who does not use the spine."""
    return NewEvent(
        scope=session.scope,
        session_id=session.session_id,
        kind=START,
        agent_id="another",
        summary="run started",
        run_id=run_id,
        run_seq=1,
        refs=refs or None,
    )


class Doorkeeper:
    """A gate that lets all pass, and remembers what it was asked."""

    name = "doorkeeper"

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    @property
    def kept(self) -> list[tuple[Any, ...]]:
        """Return what it was asked about results: each tool, call, output, and what that is."""
        return [asked[1:] for asked in self.asked if asked[0] == "persist"]

    def accepts(self, _: object, /) -> bool:
        return False

    def handle(self, _: object, /) -> None: ...

    def before_run(self, occasion: Occasion, prompt: str | None, /) -> Preparation:
        self.asked.append(("run", occasion.session_id, prompt))
        return Preparation(system_prompt="Be brief.", prepend_context="It is Monday.")

    def before_tool(self, _: Occasion, tool: str, call_id: str, input: Any, /) -> Verdict:  # noqa: A002
        self.asked.append(("tool", tool, call_id, input))
        return Verdict()

    def before_sending(self, _: Occasion, text: str, to: str | None, /) -> Verdict:
        self.asked.append(("sending", text, to))
        return Verdict()

    def persist(
        self,
        _: Occasion,
        tool: str,
        call_id: str,
        output: Any,
        /,
        *,
        is_error: bool,
        is_synthetic: bool,
    ) -> Any:
        self.asked.append(("persist", tool, call_id, output, is_error, is_synthetic))
        return output
