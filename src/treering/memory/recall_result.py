"""What was recalled, for reading and for a prompt; and how it is ranked."""

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
    """How facts are ranked; the defaults are those of the documentation."""

    importance: float = 0.3
    similarity: float = 0.5
    recency: float = 0.2
    threshold: float = 0.6
    """Facts that are less similar than this are not recalled."""
    archived: float = 0.9
    """Those that faded are recalled, and come back, if they are as similar as this."""
    episodes: float = 0.35
    """Episodes that are less similar than this are not recalled."""

    def __post_init__(self) -> None:
        """Raise InvalidInput unless all are numbers from 0 to 1."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (is_number and 0 <= value <= 1):
                raise InvalidInput(f"{name} is {value!r}", hint="give a number from 0 to 1")


WEIGHTS: Final = Weights()


class RecallResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was recalled, for reading and for a prompt."""

    scope: str
    query: str | None
    user: str | None
    session_id: str | None
    fact_hits: list[RecalledFact]
    episode_hits: list[RecalledEpisode]
    notes: list[str] = []
    """What kept it from finding more, and what to do about it."""
    event_id: str | None = None
    """The event that records it."""

    @property
    def ids(self) -> list[str]:
        """Return the ids of what was recalled, facts first."""
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
        """Return a block for a prompt with all of it, quoted so that it cannot give orders."""
        return self.block()[0]

    def block(
        self, max_tokens: int | None = None, *, count: Callable[[str], int] = estimate
    ) -> tuple[str, list[str]]:
        """Return the block with as much as ``max_tokens`` allow, and the ids of what is in it."""
        return prompt_block(self.fact_hits, self.episode_hits, max_tokens=max_tokens, count=count)
