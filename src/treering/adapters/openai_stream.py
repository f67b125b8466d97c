"""A streamed run of the OpenAI Agents SDK, followed so that deltas come before their answer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agents.result import RunResultStreaming
    from agents.stream_events import StreamEvent

CATCH_UP_SECONDS_MAX: Final = 10.0
"""How long an answer waits for its own deltas to be read."""


class EventStream:
    """How far the reader of a streamed run has come, beside the runner that feeds it.

    The runner goes on while its events wait to be read. An answer that is about to be recorded
    therefore waits for the reader; deltas that come later still are old news, and dropped.
    """

    def __init__(self, result: RunResultStreaming) -> None:
        self.result = result
        self._read = 0
        """How many answers the reader has seen to their end."""
        self._recorded = 0
        """How many answers the runner has had recorded."""
        self._is_over = False
        self._moved = asyncio.Event()

    def take(self, event: StreamEvent) -> str | None:
        """Take note that the reader has ``event``; return the piece of text to carry on."""
        if event.type != "raw_response_event":
            return None
        if event.data.type == "response.completed":
            self._read += 1
            self._moved.set()
        elif event.data.type == "response.output_text.delta" and self._read >= self._recorded:
            return event.data.delta
        return None

    async def catch_up(self) -> None:
        """Wait until the reader has seen the next answer to its end, or is gone."""
        wanted = self._recorded + 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                while self._read < wanted and not self._is_over:
                    self._moved.clear()
                    await self._moved.wait()
        self._recorded = wanted

    def close(self) -> None:
        """Take note that nobody reads any more."""
        self._is_over = True
        self._moved.set()
