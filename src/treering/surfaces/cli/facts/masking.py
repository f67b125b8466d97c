"""Facts on their way out: secrets in what they say are masked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from treering.model.memories import Fact
    from treering.surfaces.cli.masking import Mask


def masked(fact: Fact, mask: Mask) -> Fact:
    """Return a fact with the secrets in its texts masked."""
    return msgspec.structs.replace(
        fact, text=mask.text(fact.text) or "", reason=mask.text(fact.reason)
    )
