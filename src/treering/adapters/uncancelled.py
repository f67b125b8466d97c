"""Work that is completed even if the task that waits for it is cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

Result = TypeVar("Result")


async def uncancelled(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of ``work``; raise CancelledError only once it is done."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        _ = task.exception()  # Otherwise the loop reports an exception that was never retrieved.
        raise cancelled
    return task.result()
