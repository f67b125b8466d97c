"""Forks for tests, made at the store: one line says which session leaves which, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from builders import said
from ports import store_of

if TYPE_CHECKING:
    from treering import Header, Ledger


def fork(ledger: Ledger, session_id: str, *, parent: str, seq: int, **fields: Any) -> Header:
    """Open ``session_id`` as a fork, in HERE unless told otherwise; its first event says so."""
    stated = {"session_id": session_id, "kind": "session.forked", **fields}
    draft = ledger._drafter.draft([said(f"{session_id} leaves {parent}", **stated)])[0]
    return store_of(ledger).fork(draft, parent=parent, seq=seq)
