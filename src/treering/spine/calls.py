"""Handles on tool calls."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Self

from treering.errors import TreeringError
from treering.locks import Lock
from treering.model.arguments import checks_arguments
from treering.model.fields import fit_name
from treering.model.tools import check_reason
from treering.spine.conversion import to_text
from treering.spine.words import describe, new_id

if TYPE_CHECKING:
    from types import TracebackType

    from treering.model.events import Header
    from treering.model.tools import Reason
    from treering.spine.tools import Tools


@checks_arguments
class ToolCall:
    """One tool call: recorded before it runs, with exactly one outcome. A context manager."""

    def __init__(self, tools: Tools, name: str, input: Any, call_id: str | None) -> None:  # noqa: A002
        self._tools = tools
        self.name, is_cut = fit_name(name, "tool name")
        self.call_id: str = new_id() if call_id is None else fit_name(call_id, "call_id")[0]
        self.given_name: str | None = to_text(name)[0] if is_cut else None
        """The original name of the tool, if it cannot be recorded as a name."""
        self.input = input
        """The input of the tool: as given, or as a gate changed it."""
        self.intent: Header | None = None
        """The event that was recorded before the tool runs."""
        self.outcome: Header | None = None
        """The result, once there is one."""
        self.lock = Lock()
        """Held while its outcome is recorded; never acquired while the run's lock is held."""
        self.is_settled = False
        """Whether the tool itself has returned, even if late."""
        self.is_awaited = False
        """Whether a model asked for it, and nothing runs it yet."""
        self.started_at = 0.0
        """When the call was recorded, by the monotonic clock."""

    def __repr__(self) -> str:
        return f"ToolCall({self.name!r}, call_id={self.call_id!r})"

    def __enter__(self) -> Self:
        self._tools.begin(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.outcome is not None or not self._tools.is_here:
            return
        if error is None:
            self.give_up("missing_result")
            return
        # If this cannot be recorded, that must not hide what went wrong here: the end of
        # the run closes the call, or meets the same.
        with contextlib.suppress(TreeringError):
            if isinstance(error, TimeoutError):
                self.give_up("timeout")
            elif isinstance(error, Exception):
                self.fail(error)
            else:
                # What is not an Exception came from outside: Ctrl-C, a task cancelled, a generator
                # closed.
                self.give_up("interrupted")

    def finish(self, output: Any = None) -> Header:
        """Record that the tool returned ``output``.

        After a synthetic outcome, it is recorded as late, and linked to that one.
        """
        return self._tools.conclude(self, self._tools.results.returned, output)

    def fail(self, error: BaseException | str) -> Header:
        """Record that the tool failed; as late, if ``finish`` would be."""
        return self._tools.conclude(self, self._tools.results.failed, describe(error))

    def give_up(self, reason: Reason) -> Header:
        """Record that the tool gives no result: a synthetic one replaces it, with the reason.

        A call that already has its outcome does not change.
        """
        return self._tools.replace(self, check_reason(reason))

    @property
    def duration_ms(self) -> int:
        """Return how long it has run."""
        return int((time.monotonic() - self.started_at) * 1_000)
