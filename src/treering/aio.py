"""The ledger in a coroutine: the same names, and no event loop waits for a disk.

    async with treering.aio.open("agents.db") as ledger:
        await ledger.search("x", scope="acme/app")

The types of all calls are in ``aio.pyi``, which ``scripts/make_aio_types.py`` writes.
"""

from __future__ import annotations

from treering.async_objects import (
    AsyncImportAccess,
    AsyncItems,
    AsyncKeyedRecords,
    AsyncLedger,
    AsyncLedgerAdmin,
    AsyncLedgerKeys,
    AsyncMemory,
    AsyncObject,
    AsyncRun,
    AsyncSession,
    AsyncToolCall,
    AsyncUserIdentities,
    open,  # noqa: A004  (the same name as treering.open)
)
from treering.spine.off_loop import Lanes

__all__ = [
    "AsyncImportAccess",
    "AsyncItems",
    "AsyncKeyedRecords",
    "AsyncLedger",
    "AsyncLedgerAdmin",
    "AsyncLedgerKeys",
    "AsyncMemory",
    "AsyncObject",
    "AsyncRun",
    "AsyncSession",
    "AsyncToolCall",
    "AsyncUserIdentities",
    "Lanes",
    "open",
]
