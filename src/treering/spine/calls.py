"""Tool calls, as their authors hold them."""

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
    """One tool call: an intent, and exactly one outcome. A context manager."""

    def __init__(self, tools: Tools, name: str, input: Any, call_id: str | None) -> None:  # noqa: A002
        self._tools = tools
        self.name, is_cut = fit_name(name, "tool name")
        self.call_id: str = new_id() if call_id is None else fit_name(call_id, "call_id")[0]
        self.given_name: str | None = to_text(name)[0] if is_cut else None
        """The tool's name as it was given, if it cannot be recorded as a name."""
        self.input = input
        """What the tool is called with: as given, or as a gate has changed it."""
        self.intent: Header | None = None
        """What was recorded before the tool runs."""
        self.outcome: Header | None = None
        """What counts as the result, once there is one."""
        self.lock = Lock()
        """Held while its outcome is made and recorded; never asked for with the run's lock held."""
        self.is_settled = False
        """Whether the tool itself has had its say, be it late."""
        self.is_awaited = False
        """Whether a model asked for it, and what runs the tool is not known yet."""
        self.started_at = 0.0
        """When its intent was recorded, by the monotonic clock."""

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

        One that comes after a synthetic outcome is kept as late, and linked to that.
        """
        return self._tools.conclude(self, self._tools.results.returned, output)

    def fail(self, error: BaseException | str) -> Header:
        """Record that the tool failed; late, as ``finish`` may be."""
        return self._tools.conclude(self, self._tools.results.failed, describe(error))

    def give_up(self, reason: Reason) -> Header:
        """Record that the tool gives no result: a synthetic one replaces it, with the reason.

        A call that has its outcome keeps it.
        """
        return self._tools.replace(self, check_reason(reason))

    @property
    def duration_ms(self) -> int:
        """Return how long it has run."""
        return int((time.monotonic() - self.started_at) * 1_000)
