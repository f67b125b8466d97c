"""What messages cost, and how much room there is for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from treering.context.tokens import MARGIN, estimate
from treering.model.codec import encode
from treering.model.messages import UserMessage

if TYPE_CHECKING:
    from treering.model.messages import ModelMessage

MESSAGE_TOKENS: Final = 6
"""What a message costs beside its words, whichever provider counts."""
CALL_TOKENS: Final = 10
"""What a call or a result costs beside its words, its id and its tool."""
REQUEST_TOKENS: Final = 12
"""What a request costs beside its messages, with what a provider wants put in front of them."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens there are, and how they are counted."""

    limit: int | None = None
    """Tokens for the whole input; None is as many as it takes."""
    ratio: float = 1.0
    """What the provider counted to one token of ours."""
    count: Callable[[str], int] = estimate
    margin: float = MARGIN

    @property
    def room(self) -> int | None:
        """Return the limit in our own tokens, with a margin for what we count wrong."""
        if self.limit is None:
            return None
        return max(int(self.limit / (self.ratio * self.margin)) - REQUEST_TOKENS, 0)

    def told(self, counted: int) -> int:
        """Return our count as the provider is expected to see it."""
        return round((counted + REQUEST_TOKENS) * self.ratio)

    def cost(self, message: ModelMessage) -> int:
        """Return what a message costs."""
        count = self.count
        if isinstance(message, UserMessage):
            return MESSAGE_TOKENS + count(message.text)
        cost = MESSAGE_TOKENS + (count(message.text) if message.text else 0)
        for call, result in zip(message.calls, message.results, strict=True):
            # A result names its call and its tool once more.
            named = CALL_TOKENS + count(f"{call.call_id} {call.tool}")
            cost += 2 * named + count(encode(call.arguments).decode()) + count(result.output)
        return cost
