"""The cost of messages in tokens, the budget for them, and texts shortened in the middle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

import msgspec

from treering.context.thoughts import thoughts_of
from treering.context.tokens import LESS_MAX, MARGIN, MORE_MAX, Counter, counter_name, estimate
from treering.model.codec import encode
from treering.model.messages import Media, ModelMessage, Thought, UserMessage

MESSAGE_TOKENS: Final = 6
"""Tokens of a message besides its text, with any provider."""
CALL_TOKENS: Final = 10
"""Tokens of a call or result besides its text, id and tool."""
MEDIA_TOKENS: Final = 10
"""Tokens of a file besides its content: type, name and tags."""
SEALED_CHARACTERS: Final = 4
"""Characters of a sealed thought per token: about three bytes."""
REQUEST_TOKENS: Final = 12
"""Tokens of a request besides its messages, including required preambles."""
_SEALS: Final = ("signature", "data", "encrypted_content", "thought_signature")


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The token limit, and how tokens are counted."""

    limit: int | None = None
    """Tokens of the whole input; None is unlimited."""
    ratio: float = 1.0
    """Ratio of the provider's count to ours."""
    count: Callable[[str], int] = estimate
    margin: float = MARGIN

    @property
    def room(self) -> int | None:
        """Return the limit in our own tokens, with a margin for estimation errors."""
        if self.limit is None:
            return None
        return max(int(self.limit / (self.ratio * self.margin)) - REQUEST_TOKENS, 0)

    def between(self, tokens: int) -> tuple[int, int]:
        """Return the lower and upper bound of the real count."""
        if self.count is not estimate:
            return tokens, tokens
        return int(tokens * (1 - LESS_MAX)), ceil(tokens * (1 + MORE_MAX))

    @property
    def accuracy(self) -> str:
        """Return how reliable the token counts are, in words."""
        if self.count is not estimate:
            return f"counted by {counter_name(self.count)}"
        return (
            "estimated: texts mostly cost within 15 % of this, single ones up to"
            f" {LESS_MAX:.0%} less or {MORE_MAX:.0%} more, and some rare languages more still"
        )

    def expected(self, counted: int) -> int:
        """Return our count as the provider is expected to report it."""
        return round((counted + REQUEST_TOKENS) * self.ratio)

    def cost(self, message: ModelMessage) -> int:
        """Return the cost of a message."""
        count = self.count
        if isinstance(message, UserMessage):
            return MESSAGE_TOKENS + count(message.text) + self.media_cost(message.media)
        cost = MESSAGE_TOKENS + (count(message.text) if message.text else 0)
        cost += sum(map(self.thought_cost, thoughts_of(message)))
        for call, result in zip(message.calls, message.results, strict=True):
            # A result names its call and tool again.
            named = CALL_TOKENS + count(f"{call.call_id} {call.tool}")
            cost += 2 * named + count(encode(call.arguments).decode()) + count(result.output)
            cost += self.media_cost(result.media)
        return cost

    def media_cost(self, media: Sequence[Media]) -> int:
        """Return the cost of attachments in our own tokens."""
        if not media:
            return 0
        # Their price is the provider's own count and needs no calibration.
        return ceil(
            sum(attachment.tokens + MEDIA_TOKENS for attachment in media) / min(self.ratio, 1.0)
        )

    def thought_cost(self, thought: Thought) -> int:
        """Return the cost of a thought: its words or its sealed data, whichever is more."""
        block = thought.block
        sealed = max(len(block.get(name, "")) for name in _SEALS)
        words = block.get("thinking") or "".join(
            str(part.get("text", "")) for part in block.get("summary", []) if isinstance(part, dict)
        )
        return CALL_TOKENS + max(self.count(words), ceil(sealed / SEALED_CHARACTERS))


OUTPUT_CHARACTERS_MAX: Final = 8_000
"""Longer tool outputs are shortened in every context."""
CHARACTERS_PER_TOKEN_MAX: Final = 12
"""No useful text has more characters per token."""
MARKED_TOKENS_MIN: Final = 40
"""With fewer tokens a text is cut at its end, without a marker."""


def shorten(text: str, characters: int) -> str:
    """Return the first and last characters of ``text``, about ``characters`` in all.

    The result is never longer than ``text``.
    """
    if len(text) <= characters:
        return text
    half = max(characters, 0) // 2
    omitted = len(text) - 2 * half
    marker = f"\n\n(truncated: {omitted} chars omitted)\n\n"
    shorter = text[:half] + marker + (text[-half:] if half else "")
    return shorter if len(shorter) < len(text) else text


def shorten_to(text: str, tokens: int, count: Counter) -> str:
    """Return as much of ``text`` as fits into ``tokens``; empty if nothing does.

    More tokens never leave less text.
    """
    if tokens <= 0:
        return ""
    if len(text) <= tokens * CHARACTERS_PER_TOKEN_MAX and count(text) <= tokens:
        return text
    if tokens >= MARKED_TOKENS_MIN:
        characters = _marked(text, tokens, count)
        return shorten(text, characters) if characters else _beginning(text, tokens, count)
    # A marker would take most of the room. But without one more text would be left than with a few
    # more tokens and a marker, so the length is capped.
    most = _marked(text, MARKED_TOKENS_MIN, count)
    return _beginning(text, tokens, count)[: most or None]


def _marked(text: str, tokens: int, count: Counter) -> int:
    """Return how many characters fit around a marker; 0 if none fit."""
    low, high = 0, min(len(text), tokens * CHARACTERS_PER_TOKEN_MAX)
    while low < high:
        middle = (low + high + 1) // 2
        if count(shorten(text, middle)) <= tokens:
            low = middle
        else:
            high = middle - 1
    # Both halves are equal, so an odd character is not shown.
    return low // 2 * 2


def _beginning(text: str, tokens: int, count: Counter) -> str:
    """Return the start of ``text``, where a marker does not fit."""
    low, high = 0, min(len(text), tokens * CHARACTERS_PER_TOKEN_MAX)
    while low < high:
        middle = (low + high + 1) // 2
        if count(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]
