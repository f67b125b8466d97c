"""What messages cost, and how much room there is for them."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Final

import msgspec

from treering.context.thoughts import thoughts_of
from treering.context.tokens import LESS_MAX, MARGIN, MORE_MAX, counter_name, estimate
from treering.model.codec import encode
from treering.model.messages import UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.media import Media
    from treering.model.messages import ModelMessage, Thought

MESSAGE_TOKENS: Final = 6
"""What a message costs beside its words, whichever provider counts."""
CALL_TOKENS: Final = 10
"""What a call or a result costs beside its words, its id and its tool."""
MEDIA_TOKENS: Final = 10
"""What a file costs beside itself: its type, its name, and the tags around it."""
SEALED_CHARACTERS: Final = 4
"""Characters of a sealed thought to a token of it: about three bytes."""
REQUEST_TOKENS: Final = 12
"""What a request costs beside its messages, with what a provider wants put in front of them."""
_SEALS: Final = ("signature", "data", "encrypted_content", "thought_signature")


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

    def between(self, tokens: int) -> tuple[int, int]:
        """Return what ``tokens`` may be in truth: the least and the most."""
        if self.count is not estimate:
            return tokens, tokens
        return int(tokens * (1 - LESS_MAX)), ceil(tokens * (1 + MORE_MAX))

    @property
    def accuracy(self) -> str:
        """Return how far its tokens can be relied on, in words."""
        if self.count is not estimate:
            return f"counted by {counter_name(self.count)}"
        return (
            "estimated: texts mostly cost within 15 % of this, single ones up to"
            f" {LESS_MAX:.0%} less or {MORE_MAX:.0%} more, and some rare languages more still"
        )

    def told(self, counted: int) -> int:
        """Return our count as the provider is expected to see it."""
        return round((counted + REQUEST_TOKENS) * self.ratio)

    def cost(self, message: ModelMessage) -> int:
        """Return what a message costs."""
        count = self.count
        if isinstance(message, UserMessage):
            return MESSAGE_TOKENS + count(message.text) + self.media_cost(message.media)
        cost = MESSAGE_TOKENS + (count(message.text) if message.text else 0)
        cost += sum(map(self.thought_cost, thoughts_of(message)))
        for call, result in zip(message.calls, message.results, strict=True):
            # A result names its call and its tool once more.
            named = CALL_TOKENS + count(f"{call.call_id} {call.tool}")
            cost += 2 * named + count(encode(call.arguments).decode()) + count(result.output)
            cost += self.media_cost(result.media)
        return cost

    def media_cost(self, media: Sequence[Media]) -> int:
        """Return what goes with a message costs, in our own tokens."""
        if not media:
            return 0
        # Their price is the provider's own count, which no calibration has to mend.
        return ceil(sum(one.tokens + MEDIA_TOKENS for one in media) / min(self.ratio, 1.0))

    def thought_cost(self, thought: Thought) -> int:
        """Return what a thought costs: its words, or what is sealed, whichever is more."""
        block = thought.block
        sealed = max(len(block.get(name, "")) for name in _SEALS)
        words = block.get("thinking") or "".join(
            str(one.get("text", "")) for one in block.get("summary", []) if isinstance(one, dict)
        )
        return CALL_TOKENS + max(self.count(words), ceil(sealed / SEALED_CHARACTERS))
