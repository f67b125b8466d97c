"""Sinks that tests listen with: they remember, wait, fail or hang as they are told."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, Literal

from effort import PATIENCE_S
from treering.spine.ports import Delivery, SinkStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Ledger
    from treering.model.carried import PrivateEvent, SafeEvent
    from treering.spine.dispatcher import Spine

SOON: Final = PATIENCE_S
"""Seconds to wait for what must happen; a test that waits so long has failed."""
SCOPE: Final = "acme/app"


class Listener:
    """Remembers what it is handed, or does with it what it was given to do."""

    def __init__(
        self,
        name: str = "listener",
        do: Callable[[SafeEvent], object] | None = None,
        *,
        only: str | None = None,
        delivery: Delivery | None = None,
    ) -> None:
        self.name = name
        self.delivery = delivery or Delivery()
        self.heard: list[SafeEvent] = []
        self._do = do
        self._only = only
        self._more = threading.Condition()

    def accepts(self, event: SafeEvent, /) -> bool:
        return self._only is None or event.kind == self._only

    def handle(self, event: SafeEvent, /) -> None:
        if self._do is not None:
            self._do(event)
        self.remember(event)

    def remember(self, event: SafeEvent) -> None:
        """Note that ``event`` was heard."""
        with self._more:
            self.heard.append(event)
            self._more.notify_all()

    def await_event(self, summary: str) -> None:
        """Return when it has heard of an event."""
        with self._more:
            assert self._more.wait_for(lambda: summary in self.summaries, SOON), self.summaries

    @property
    def summaries(self) -> list[str | None]:
        """Return what it heard, in order."""
        return [event.summary for event in self.heard]


class PrivateListener:
    """Remembers private events."""

    visibility: Literal["private"] = "private"

    def __init__(self, name: str = "private", *, delivery: Delivery | None = None) -> None:
        self.name = name
        self.delivery = delivery or Delivery()
        self.heard: list[PrivateEvent] = []

    def accepts(self, event: PrivateEvent, /) -> bool:
        return bool(event.kind)

    def handle(self, event: PrivateEvent, /) -> None:
        self.heard.append(event)


class Door:
    """Something to wait in front of, and to be seen waiting."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._opened = threading.Event()
        self.threads: list[threading.Thread] = []

    def wait(self, _: object = None) -> None:
        self.threads.append(threading.current_thread())
        self._reached.set()
        assert self._opened.wait(SOON)

    def await_guest(self) -> None:
        """Return when somebody waits."""
        assert self._reached.wait(SOON)

    def open(self) -> None:
        """Let everybody through."""
        self._opened.set()

    def see_off(self) -> None:
        """Let everybody through, and wait until their threads have ended."""
        self._opened.set()
        for thread in self.threads:
            thread.join(SOON)
            assert not thread.is_alive()


def fail_at(*texts: str, error: BaseException | None = None) -> Callable[[SafeEvent], None]:
    """Return what raises an error at some events."""

    def do(event: SafeEvent) -> None:
        if event.summary in texts:
            raise error or ValueError(event.summary)

    return do


class Log(logging.Handler):
    """Keeps lines of the spine's log, and lets one wait for them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._more = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._more:
            self.lines.append(record.getMessage())
            self._more.notify_all()

    def await_line(self, text: str) -> None:
        """Return when a line that holds ``text`` was logged."""
        with self._more:
            assert self._more.wait_for(lambda: any(text in line for line in self.lines), SOON)


def note(ledger: Ledger, *texts: str, session_id: str = "s") -> None:
    """Record a note for each of ``texts``."""
    session = ledger.session(session_id, scope=SCOPE, agent="lyria")
    for text in texts:
        session.record("ops.decision", text)


def status_of(spine: Spine, name: str) -> SinkStatus:
    """Return how one sink is doing."""
    return next(status for status in spine.status() if status.name == name)


def run_program(program: str, *arguments: str) -> list[Any]:
    """Run a Python program of its own; return the JSON that it printed, line by line."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=SOON * 3,
    )
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]
