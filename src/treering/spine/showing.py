"""What a model is shown, as an event: no text, and enough to make the same context again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.context.assemble import Context, Contributed
from treering.model.codec import decode, encode
from treering.model.messages import Repair
from treering.model.parts import ContextAssembled
from treering.spine.run_events import make_event

if TYPE_CHECKING:
    from treering.model.events import NewEvent

REPORT_MAX: Final = 100
"""Repairs that are kept with the event; all are counted."""


class ContextRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a context was asked for, and what it showed."""

    dialect: str
    max_tokens: int | None = None
    reserve_output_tokens: int = 0
    fixed_tokens: int = 0
    ratio: float = 1.0
    counter: str | None = None
    """What counted its tokens, if that was not the built-in estimate."""
    until_seq: int | None = None
    """The last seq that could be shown; None in events that were recorded without it."""
    digest: str = ""
    shown: list[tuple[int, int]] = []
    """First and last seq of each stretch of which every message was shown."""
    contributed: list[Contributed] = []
    report: list[Repair] = []
    """The first ``REPORT_MAX`` repairs."""

    @property
    def limit(self) -> int | None:
        """Return the tokens that there were for the input."""
        if self.max_tokens is None:
            return None
        return max(self.max_tokens - self.reserve_output_tokens, 0)


def showing(template: NewEvent, context: Context, *, model: str | None) -> NewEvent:
    """Return the event that says what a model is shown."""
    asked = ContextRecord(
        dialect=context.dialect,
        max_tokens=context.max_tokens,
        reserve_output_tokens=context.reserve_output_tokens,
        fixed_tokens=context.fixed_tokens,
        ratio=context.ratio,
        counter=context.counter,
        until_seq=context.until_seq,
        digest=context.recipe,
        shown=context.shown,
        # Without the digests: words that are erased elsewhere could be guessed from them.
        contributed=[msgspec.structs.replace(item, digest="") for item in context.contributed],
        report=context.report[:REPORT_MAX],
    )
    part = ContextAssembled(
        dialect=context.dialect,
        model=model,
        max_tokens=context.max_tokens,
        tokens=context.tokens,
        # Only our own estimate is to be calibrated by what a provider reports.
        estimated_tokens=context.estimated_tokens if context.counter is None else None,
        messages=len(context.messages),
        events=len(context.event_ids),
        repairs=len(context.report),
    )
    noun = "message" if len(context.messages) == 1 else "messages"
    return make_event(
        template,
        "context.assembled",
        f"context of {len(context.messages)} {noun}, about {context.tokens} tokens",
        payload=decode(encode(asked)),
        refs=part.as_refs(),
    )
