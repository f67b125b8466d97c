"""Replace event ids that earlier versions derived from the text, so that it could be guessed.

Expired events get their ids hidden under a key that is stored outside the ledger. A redacted event
keeps its id, since the chain holds it; if that id is guessable, the event expires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.lazy import lazy_pattern
from treering.ledger.erasure import KEPT, voucher
from treering.ledger.records import Selection

if TYPE_CHECKING:
    from treering.ledger.drafts import Drafter
    from treering.ledger.ports import EventStore

_OF_WORDS: Final = lazy_pattern(
    r"(?:memory:)?[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    r"|ep-[0-9a-f]{16,32}(?:~\d+)?|(?:apeira|tape):[0-9a-f]{16}(?:\.\d+)?"
    r"|clawser-[0-9a-f]{40}|[0-9a-f]{32}(?:\..*)?"
)
"""Ids that earlier versions derived from the text."""


def rekey(store: EventStore, drafter: Drafter) -> int:
    """Rekey events that were erased before; return how many ids were hidden."""
    hidden = 0
    if not store.reader.has_legacy():
        return hidden
    for scope, event_id, kind in store.erasure.legacy_redacted():
        if kind not in KEPT and _OF_WORDS.fullmatch(event_id):
            vouch = voucher(drafter, scope, "ledger.expired", "expired", "expired")
            selection = Selection(scope=scope, event_ids=(event_id,))
            erased = store.erasure.erase(selection, erasure="expired", limit=1, vouch=vouch)
            hidden += sum(erased.by_kind.values())
    hidden += store.erasure.settle_legacy()
    if hidden:
        store.erasure.finish()
    return hidden
