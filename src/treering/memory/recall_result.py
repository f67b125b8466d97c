"""The result of a recall, as values and as text for a prompt, and the weights that rank it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.context.tokens import estimate
from treering.derive.memory_prompts import episode_lines, fact_lines, prompt_block
from treering.errors import InvalidInput
from treering.model.memories import RecalledEpisode, RecalledFact

if TYPE_CHECKING:
    from collections.abc import Callable


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """Weights and thresholds for ranking memories."""

    importance: float = 0.3
    similarity: float = 0.5
    recency: float = 0.2
    threshold: float = 0.6
    """Facts with a lower similarity are not recalled."""
    archived: float = 0.9
    """Archived facts are recalled, and become current again, from this similarity on."""
    episodes: float = 0.35
    """Episodes with a lower similarity are not recalled."""

    def __post_init__(self) -> None:
        """Raise InvalidInput unless every value is a number from 0 to 1."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (is_number and 0 <= value <= 1):
                raise InvalidInput(f"{name} is {value!r}", hint="give a number from 0 to 1")


WEIGHTS: Final = Weights()


class RecallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a recall found."""

    scope: str
    query: str | None
    user: str | None
    session_id: str | None
    fact_hits: list[RecalledFact]
    episode_hits: list[RecalledEpisode]
    notes: list[str] = []
    """Why more could not be found, and what to do about it."""
    event_id: str | None = None
    """The event that records the recall."""

    @property
    def ids(self) -> list[str]:
        """Return the ids of all results, facts first."""
        return [*(one.fact.id for one in self.fact_hits), *(one.id for one in self.episode_hits)]

    @property
    def facts(self) -> str:
        """Return the facts as lines: ``- fact (category)``."""
        return fact_lines(self.fact_hits)

    @property
    def episodes(self) -> str:
        """Return the episodes as paragraphs: ``[date] summary``."""
        return episode_lines(self.episode_hits)

    @property
    def formatted(self) -> str:
        """Return a block for a prompt, quoted so that it cannot give instructions."""
        return self.block()[0]

    def block(
        self, max_tokens: int | None = None, *, count: Callable[[str], int] = estimate
    ) -> tuple[str, list[str]]:
        """Return a block of at most ``max_tokens``, and the ids of the memories in it."""
        return prompt_block(self.fact_hits, self.episode_hits, max_tokens=max_tokens, count=count)
