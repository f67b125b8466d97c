"""Events for tests: one line says what a test is about."""

from __future__ import annotations

from typing import Any, Final

from treering import NewEvent, Session

HERE: Final = "acme/app"
ELSEWHERE: Final = "acme/other"
NOON: Final = 1_790_000_000_000
DAY: Final = 86_400_000


def said(text: str = "hello", **fields: Any) -> NewEvent:
    """Return what a user said, in session s1 of HERE unless told otherwise."""
    stated: dict[str, Any] = {
        "scope": HERE,
        "session_id": "s1",
        "kind": "conversation.user",
        "agent_id": "lyria",
        "summary": text,
        "payload": {"text": text},
    }
    return NewEvent(**(stated | fields))


def called(tool: str = "git_log", **fields: Any) -> NewEvent:
    """Return a tool call."""
    return said(f"{tool} called", **({"kind": "tool.call", "payload": {"name": tool}} | fields))


def run_of(run_id: str, *texts: str, end: str = "run.ended", **fields: Any) -> list[NewEvent]:
    """Return a whole run: its start, what was said, its end."""
    return [
        said("run started", kind="run.started", run_id=run_id, **fields),
        *(said(text, run_id=run_id, **fields) for text in texts),
        said("run over", kind=end, run_id=run_id, **fields),
    ]


def exchange(session: Session, asked: str, answered: str) -> None:
    """Record a turn of one question and its answer."""
    with session.turn() as turn:
        turn.user(asked)
        turn.assistant(answered)
