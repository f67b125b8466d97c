"""Blocking work away from an event loop, finished even if the task that asked is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

Given = ParamSpec("Given")
Result = TypeVar("Result")


async def off_loop(
    thread: Executor | None, act: Callable[Given, Result], *args: Given.args, **named: Given.kwargs
) -> Result:
    """Call ``act`` in ``thread``, with the context variables of the caller.

    A cancelled caller waits until ``act`` is done: what it began to write is written.
    """
    call: Callable[[], Result] = partial(contextvars.copy_context().run, act, *args, **named)
    done = asyncio.get_running_loop().run_in_executor(thread, call)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        while not done.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([done])
        _ = done.exception()  # Otherwise the loop complains that nobody asked.
        raise


def in_event_loop() -> bool:
    """Whether the caller runs in an event loop of asyncio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def off_any_loop(act: Callable[..., Result], *args: Any) -> Result:
    """Call ``act`` off the event loop; in another library's loop, at once."""
    if in_event_loop():
        return await off_loop(None, act, *args)
    return act(*args)
