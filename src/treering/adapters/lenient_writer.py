"""Writes that must not fail their agent: an error costs the record, not the turn."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from treering.errors import Closed, OutcomeUnknown, StorageError
from treering.lazy import lazy_logger
from treering.locks import Lock
from treering.spine.words import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.ledger.sessions import Session

WAITING_MAX: Final = 1_000
"""How many writes wait for a ledger that fails."""
RETRY_S: Final = 1.0
RETRY_S_MAX: Final = 60.0
"""How long to wait before a failing ledger is tried again; doubled from the first to the second."""
Given = ParamSpec("Given")
Result = TypeVar("Result")
_log: Final = lazy_logger("treering")


class LenientWriter:
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
        self.lost = 0
        """How many writes were given up."""
        self.error: Exception | None = None
        """The last error."""
        self._waiting: deque[Callable[[], object]] = deque()
        self._late = self._unreported = 0
        self._pause_s = RETRY_S
        self._retry_at = 0.0
        self._lock = Lock()

    @property
    def waiting(self) -> int:
        """Return how many writes wait for the ledger."""
        return len(self._waiting)

    def write(self, act: Callable[[], object]) -> None:
        """Call ``act``, which writes once to the ledger; after all that wait."""
        if self._strict:
            act()
            return
        with self._lock.guard, self._lock:
            if len(self._waiting) >= WAITING_MAX:
                self._waiting.popleft()
                self._lose(StorageError("too many records wait for the ledger"))
            self._waiting.append(act)
            if self._retry_at <= time.monotonic():
                self._drain()

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
            self._lose(error)
            return None

    def flush(self) -> bool:
        """Write what waits, without a pause; return whether all of it was written."""
        with self._lock.guard, self._lock:
            self._drain()
            return not self._waiting

    def _drain(self) -> None:
        while self._waiting:
            try:
                self._waiting[0]()
            except StorageError as error:
                if isinstance(error, Closed | OutcomeUnknown):
                    self._lose(error)
                else:
                    self._postpone(error)
                    return
            except Exception as error:  # noqa: BLE001  (a recorder never breaks what it records)
                self._lose(error)
            self._waiting.popleft()
        self._pause_s, self._retry_at = RETRY_S, 0.0
        self._report()

    def _postpone(self, error: StorageError) -> None:
        if self._retry_at == 0.0:
            _log.warning("recording is delayed: %s", error)
            self._late = 0
        self.error = error
        self._late = max(self._late, len(self._waiting))
        self._retry_at = time.monotonic() + self._pause_s
        self._pause_s = min(self._pause_s * 2, RETRY_S_MAX)

    def _lose(self, error: Exception) -> None:
        self.error = error
        self.lost += 1
        self._unreported += 1
        cause = describe(error)
        _log.warning("not recorded: %s: %s", cause["class"], cause["message"])

    def _report(self) -> None:
        """Record in the ledger what was lost or late."""
        if not self._unreported and not self._late:
            return
        counts = {"lost": self._unreported, "late": self._late}
        code = "records_lost" if self._unreported else "records_late"
        last = {} if self.error is None else {"error_class": type(self.error).__name__}
        try:
            self._session.record(
                "ops.warning",
                f"{counts['lost']} records lost, {counts['late']} late",
                payload={"code": code, **counts, **last},
                refs={"code": code, **last},
                origin="runtime",
            )
        except Exception as error:  # noqa: BLE001  (it is reported after the next write)
            self.error = error
            return
        self._unreported = self._late = 0
