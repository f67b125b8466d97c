"""The monthly token budget for models that extract facts, counted from the scope's events."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Final

from treering.context.budgets import MESSAGE_TOKENS
from treering.context.tokens import MARGIN, estimate
from treering.model.parts import UsageReported, safe_part
from treering.model.queries import TimelinePoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering.ledger.memory_factory import Recorder
    from treering.model.events import Header
    from treering.model.scopes import Scope

ORIGIN: Final = "memory"
"""The origin of usage events that count."""
PROMPT_TOKENS: Final = 600
"""Tokens of the prompt around the conversation, at most."""
ANSWER_TOKENS_MAX: Final = 600
"""Maximum length of an answer."""


class MonthlyBudget:
    """The rest of a monthly token budget, in UTC months.

    Other processes may use the same budget: every query counts what they used meanwhile.
    """

    def __init__(self, recorder: Recorder, scope: Scope, budget_tokens: int) -> None:
        self._recorder = recorder
        self._scope = scope
        self._budget = budget_tokens
        self._month_ms = -1
        self._after: TimelinePoint | None = None
        self._spent = 0
        self._ratio = 1.0
        """The highest ratio of the model's token count to our estimate."""

    def permits(self, texts: Iterable[str]) -> bool:
        """Return whether a call that shows ``texts`` to a model fits the rest of the budget."""
        expected = PROMPT_TOKENS + _tokens(texts)
        return self.spent() + ceil(expected * self._ratio * MARGIN) + ANSWER_TOKENS_MAX <= (
            self._budget
        )

    def learn(self, texts: Iterable[str], input_tokens: int) -> None:
        """Adjust the estimate by what a model counted for ``texts``: models differ a lot."""
        self._ratio = max(self._ratio, input_tokens / (PROMPT_TOKENS + _tokens(texts)))

    def spent(self) -> int:
        """Return how many tokens were used this month."""
        month_ms = month_start_ms(self._recorder.engine.now_ms())
        if month_ms != self._month_ms:
            self._month_ms, self._after, self._spent = month_ms, None, 0
        while page := self._recorder.usage(self._scope, since_ms=month_ms, after=self._after):
            self._spent += sum(tokens_of(header) for header in page if header.origin == ORIGIN)
            self._after = TimelinePoint(page[-1].ts_ms, page[-1].position)
        return self._spent


def month_start_ms(now_ms: int) -> int:
    """Return the start of the month of ``now_ms``, in milliseconds since 1970."""
    now = datetime.fromtimestamp(now_ms / 1_000, UTC)
    return int(datetime(now.year, now.month, 1, tzinfo=UTC).timestamp()) * 1_000


def tokens_of(header: Header) -> int:
    """Return how many tokens an event reports."""
    part = safe_part(header.kind, header.refs)
    if not isinstance(part, UsageReported):
        return 0
    return max((part.input_tokens or 0) + (part.output_tokens or 0), part.total_tokens or 0)


def _tokens(texts: Iterable[str]) -> int:
    return sum(MESSAGE_TOKENS + estimate(text) for text in texts)
