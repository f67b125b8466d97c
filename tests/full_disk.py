"""A disk that is full when a test wants it to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.errors import StorageFull

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from treering.ledger.ledger import Ledger


class FullDisk:
    """Refuses every append to a ledger while ``is_full``."""

    def __init__(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        store = ledger._engine.store
        monkeypatch.setattr(store, "append", self._limited(store.append))

    def _limited(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def limited(*args: Any, **named: Any) -> Any:
            if self.is_full:
                raise StorageFull("the disk is full")
            return act(*args, **named)

        return limited
