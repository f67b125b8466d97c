"""Where tests reach through a ledger: for its store, a port with a contract, and for its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from treering import Ledger
    from treering.ledger.ports import EventStore


class _HasStore(Protocol):
    @property
    def _store(self) -> EventStore: ...


def store_of(owner: _HasStore) -> EventStore:
    """Return the store of a ledger, or of a part of one."""
    return owner._store


def time_of(ledger: Ledger) -> int:
    """Return the time on the ledger's clock, in milliseconds."""
    return ledger._clock()
