"""Closing the runs of traces whose root span never comes, while a server lives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from treering.errors import TreeringError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from treering.ledger.ledger import Ledger

CHECK_S: Final = 900
"""How often a server looks for them: they are closed after an hour without a span."""

_log: Final = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def closing_lost_runs(ledger: Ledger) -> AsyncIterator[None]:
    """Close such runs when the server starts, from time to time, and when it ends."""
    checks = asyncio.create_task(_check(ledger))
    try:
        yield
    finally:
        checks.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await checks
        await asyncio.to_thread(_close, ledger)


async def _check(ledger: Ledger) -> None:
    while True:
        await asyncio.to_thread(_close, ledger)
        await asyncio.sleep(CHECK_S)


def _close(ledger: Ledger) -> None:
    from treering.capture.otel_intake import close_lost_runs  # noqa: PLC0415  (not for the start)

    try:
        close_lost_runs(ledger)
    except TreeringError as error:
        # The key of a scope is not here, or the disk is full: the server serves the others.
        _log.warning("runs without an end stay open: %s", error)
