"""Ridding a ledger of ids that earlier versions made of words, which can be guessed from them.

What has expired has its id hidden under a key that lies apart from the ledger. What was redacted
keeps its id, which its chain holds; so it expires, if its id was made of words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from treering.ledger.erasure import KEPT, voucher
from treering.ledger.records import Selection

if TYPE_CHECKING:
    from treering.ledger.drafts import Drafter
    from treering.ledger.ports import EventStore

_OF_WORDS: Final = re.compile(
    r"(?:memory:)?[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    r"|ep-[0-9a-f]{16,32}(?:~\d+)?|(?:apeira|tape):[0-9a-f]{16}(?:\.\d+)?"
    r"|clawser-[0-9a-f]{40}|[0-9a-f]{32}(?:\..*)?"
)
"""How ids look that earlier versions made of what was said."""


def rekey(store: EventStore, drafter: Drafter) -> int:
    """See to what was erased before the ledger was rekeyed; return how many ids were hidden."""
    hidden = 0
    for scope, event_id, kind in store.legacy_redacted():
        if kind not in KEPT and _OF_WORDS.fullmatch(event_id):
            vouch = voucher(drafter, scope, "ledger.expired", "expired", "expired")
            selection = Selection(scope=scope, event_id=event_id)
            done = store.erase(selection, erasure="expired", limit=1, vouch=vouch)
            hidden += sum(done.by_kind.values())
    hidden += store.settle_legacy()
    if hidden:
        store.finish_erasure()
    return hidden
