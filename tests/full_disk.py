"""Ledgers that fail when a test wants them to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.errors import StorageFull, Unavailable

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


class LostServer(FullDisk):
    """Refuses to read, as well: nothing of the ledger can be reached while ``is_full``."""

    def __init__(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(ledger, monkeypatch)
        store: Any = ledger._engine.store
        for part in (store.record_keys, store.reader, store.sessions, store.erasure):
            for name in (name for name in dir(part) if not name.startswith("_")):
                if callable(act := getattr(part, name)) and hasattr(act, "__self__"):
                    monkeypatch.setattr(part, name, self._lost(act))

    def _lost(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def lost(*args: Any, **named: Any) -> Any:
            if self.is_full:
                raise Unavailable("the server is away")
            return act(*args, **named)

        return lost
