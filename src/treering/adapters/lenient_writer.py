"""Writes that never fail their agent: an error loses the record, not the turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from treering.adapters.backlog import Backlog, BacklogStatus
from treering.locks import Lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.ledger.sessions import Session

Given = ParamSpec("Given")
Result = TypeVar("Result")


class LenientWriter(BacklogStatus):
    """Calls functions that write to a ledger, one after another, and swallows their errors.

    A write that the storage refuses is kept, and tried again before later ones. A write that can
    never succeed, or exceeds the limit, is lost: counted here, logged, and noted in the ledger as
    soon as that works again. With ``strict``, every error is raised instead.
    """

    def __init__(
        self,
        session: Session,
        *,
        strict: bool = False,
        raising: tuple[type[Exception], ...] = (),
    ) -> None:
        self._session = session
        self._strict = strict
        self._raising = raising
        """Errors that are meant for the agent: a turn interrupted, a tool denied."""
        self._backlog: Backlog[Callable[[], object]] = Backlog(lambda act: act(), self._report)
        self._lock = Lock()

    def write(self, act: Callable[[], object]) -> None:
        """Call ``act``, which writes once to the ledger; after all that wait."""
        if self._strict:
            act()
            return
        with self._lock.guard, self._lock:
            self._backlog.add(act)

    def attempt(
        self, act: Callable[Given, Result], *args: Given.args, **named: Given.kwargs
    ) -> Result | None:
        """Return what ``act`` returns; None if it fails, which counts as one lost record."""
        try:
            return act(*args, **named)
        except self._raising:
            raise
        except Exception as error:
            if self._strict:
                raise
            with self._lock.guard, self._lock:
                self._backlog.lose(error)
            return None

    def flush(self) -> bool:
        """Write what waits, without a pause, and report; return whether nothing waits any more."""
        with self._lock.guard, self._lock:
            return self._backlog.drain()

    def _report(self, summary: str, payload: dict[str, Any]) -> None:
        refs = {name: payload[name] for name in ("code", "error_class") if name in payload}
        self._session.record("ops.warning", summary, payload=payload, refs=refs, origin="runtime")
