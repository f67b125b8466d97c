"""Follows a streamed run of the OpenAI Agents SDK, so that deltas precede their answer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agents.result import RunResultStreaming
    from agents.stream_events import StreamEvent

CATCH_UP_SECONDS_MAX: Final = 10.0
"""How long an answer waits until its deltas are read."""


class EventStream:
    """The progress of a streamed run's reader relative to the runner.

    The runner does not wait for its events to be read. An answer that is about to be recorded
    therefore waits for the reader; deltas that come even later are dropped.
    """

    def __init__(self, result: RunResultStreaming) -> None:
        self.result = result
        self._read = 0
        """The number of answers that the reader has read completely."""
        self._recorded = 0
        """The number of answers that the runner has recorded."""
        self._is_over = False
        self._moved = asyncio.Event()

    def take(self, event: StreamEvent) -> str | None:
        """Note that the reader has read ``event``; return its text delta, if any."""
        if event.type != "raw_response_event":
            return None
        if event.data.type == "response.completed":
            self._read += 1
            self._moved.set()
        elif event.data.type == "response.output_text.delta" and self._read >= self._recorded:
            return event.data.delta
        return None

    async def catch_up(self) -> None:
        """Wait until the reader has read the next answer completely, or has stopped."""
        wanted = self._recorded + 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                while self._read < wanted and not self._is_over:
                    self._moved.clear()
                    await self._moved.wait()
        self._recorded = wanted

    def close(self) -> None:
        """Note that the reader has stopped."""
        self._is_over = True
        self._moved.set()
