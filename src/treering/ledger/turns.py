"""Turns and tool calls, recorded as they happen.

A turn is one run: it starts once and ends once. What it wrote stays in the ledger either way; only
a run that ended well reaches a model again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Self

from treering.errors import RunClosed
from treering.ledger.drafts import new_id
from treering.model.codec import canonical

if TYPE_CHECKING:
    from types import TracebackType

    from treering.ledger.sessions import Session
    from treering.model.events import Header

SUMMARY_CHARACTERS: Final = 200
_ORIGIN: Final = "runtime"


class Turn:
    """One user input and all it causes. Use it as a context manager."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.turn_id = new_id()
        self.run_id = new_id()
        self._run_seq = 0
        self._state = "new"

    def __enter__(self) -> Self:
        if self._state != "new":
            raise RunClosed("a turn begins once", hint="begin another with session.turn()")
        self._state = "open"
        self.record("run.started", "run started", origin=_ORIGIN)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._state != "open":
            return
        if error is None:
            self.record("run.ended", "run ended", origin=_ORIGIN)
        else:
            # What is no Exception came from outside: Ctrl-C, a cancelled task, a closed generator.
            interrupted = not isinstance(error, Exception)
            self.record(
                "run.interrupted" if interrupted else "run.failed",
                f"run {'interrupted' if interrupted else 'failed'}: {type(error).__name__}",
                payload=describe(error),
                origin=_ORIGIN,
            )
        self._state = "closed"

    def user(self, text: str, **content: Any) -> Header:
        """Record what the user said; ``content`` is kept beside the text."""
        return self.record("conversation.user", shorten(text), payload={"text": text, **content})

    def assistant(self, text: str, **content: Any) -> Header:
        """Record what the assistant answered; ``content`` is kept beside the text."""
        return self.record(
            "conversation.assistant", shorten(text), payload={"text": text, **content}
        )

    def tool(self, name: str, input: Any = None, *, call_id: str | None = None) -> ToolCall:  # noqa: A002
        """Begin a tool call: a context manager. Its intent is durable before its body runs."""
        return ToolCall(self, name, input, call_id or new_id())

    def record(self, kind: str, summary: str, **fields: Any) -> Header:
        """Record one event of any kind as part of this turn."""
        if self._state != "open":
            raise RunClosed(
                "the turn is not open", hint="record inside `with session.turn() as turn:`"
            )
        self._run_seq += 1
        return self._session.record(
            kind,
            summary,
            run_id=self.run_id,
            run_seq=self._run_seq,
            turn_id=self.turn_id,
            **fields,
        )


class ToolCall:
    """One tool call: an intent, and exactly one outcome."""

    def __init__(self, turn: Turn, name: str, input: Any, call_id: str) -> None:  # noqa: A002
        self._turn = turn
        self.name = name
        self.call_id = call_id
        self._input = input
        self._started = 0.0
        self._finished = False

    def __enter__(self) -> Self:
        self._turn.record(
            "tool.call",
            f"{self.name} called",
            payload={"call_id": self.call_id, "name": self.name, "input": self._input},
            refs={"call_id": self.call_id, "tool": self.name},
        )
        self._started = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._finished:
            return
        if error is not None:
            self._conclude("failed", f"{self.name} failed: {type(error).__name__}",
                           error=describe(error))  # fmt: skip
        else:
            self._conclude(
                "synthetic",
                f"{self.name} gave no result",
                is_synthetic=True,
                reason="missing_result",
            )

    def finish(self, output: Any = None) -> Header:
        """Record that the tool returned ``output``."""
        if self._finished:
            raise RunClosed(f"the call {self.call_id} has its outcome", hint="finish a call once")
        return self._conclude("ok", f"{self.name} returned", output=output)

    def _conclude(self, status: str, summary: str, **outcome: Any) -> Header:
        duration_ms = int((time.monotonic() - self._started) * 1_000)
        size = len(canonical(outcome["output"], "output")) if "output" in outcome else 0
        header = self._turn.record(
            "tool.result",
            f"{summary} after {duration_ms} ms",
            payload={"call_id": self.call_id, "name": self.name, "status": status,
                     "duration_ms": duration_ms, **outcome},
            refs={"call_id": self.call_id, "tool": self.name, "status": status,
                  "duration_ms": duration_ms, "output_bytes": size},
        )  # fmt: skip
        self._finished = True
        return header


def shorten(text: str) -> str:
    """Return ``text`` as one line that fits a summary."""
    line = " ".join(text.split())
    if not line:
        return "(empty)"
    return line if len(line) <= SUMMARY_CHARACTERS else line[: SUMMARY_CHARACTERS - 1] + "…"


def describe(error: BaseException) -> dict[str, str]:
    """Return an exception as values, whatever its text is like."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001  (an exception that cannot say what it is about)
        message = "(it has no text)"
    plain = message.encode(errors="backslashreplace").decode()
    return {"class": type(error).__name__, "message": plain}
