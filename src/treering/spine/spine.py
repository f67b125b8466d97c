"""The spine: runs and sinks of a ledger, for callers that add sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

from treering.errors import InvalidInput
from treering.model.arguments import checks_arguments
from treering.model.parts import RunStarted
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from treering.ledger.engine import Engine
    from treering.ledger.sessions import Session
    from treering.model.parts import RunDetails
    from treering.spine.ports import SinkStatus
    from treering.spine.runs import Run

FLUSH_S: Final = 5.0


@checks_arguments
class Spine:
    """Delivers recorded events, in order, to the sinks. A ledger has one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(
        self,
        session: Session,
        *,
        agent: str | None = None,
        prompt: str | None = None,
        turn_id: str | None = None,
        wait_s: float | None = None,
        **started: Unpack[RunDetails],
    ) -> Run:
        """Return a run of ``session``: a context manager, or to be started and ended.

        A session has one at a time. Another waits for ``wait_s``, which goes by the session's
        mode if it is not given, and is refused then. ``prompt`` is what gates are shown of the
        user's words.
        """
        if not hasattr(session, "session_id"):
            raise InvalidInput(
                f"a run is part of a session, not of {session!r}", hint="give ledger.session(…)"
            )
        return self._engine.run(
            session,
            RunStarted(**started),
            agent=agent,
            turn_id=turn_id,
            prompt=prompt,
            wait_s=wait_s,
        )

    def follow(self, scope: str, *, from_now: bool = False) -> None:
        """Bring durable sinks up to date with a scope, and keep them so; a run does it itself.

        ``from_now`` leaves out what a sink that never followed the scope has missed.
        """
        self._engine.dispatcher.follow(parse_scope(scope), from_now=from_now)

    def status(self) -> list[SinkStatus]:
        """Return the state of each sink: events that it took, that failed, that were lost."""
        return self._engine.dispatcher.status()

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Wait until the sinks have all recorded events; return False if that took too long."""
        return self._engine.dispatcher.flush(timeout_s)
