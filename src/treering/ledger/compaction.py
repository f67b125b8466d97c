"""Compaction: a summary replaces older messages in contexts. Nothing is deleted."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from treering.context.budgets import OUTPUT_CHARACTERS_MAX, Budget, shorten_to
from treering.context.fitting import summary_message, with_outputs
from treering.context.pairing import pair
from treering.context.summaries import Summariser, summarise
from treering.context.tokens import estimate
from treering.errors import InvalidInput, NotFound
from treering.ledger.turn_bounds import redoable
from treering.ledger.windows import read_window
from treering.model.codec import canonical
from treering.model.parts import CompactionReported, ContextCompacted, RunEnded, RunStarted
from treering.model.views import COMPACTION
from treering.spine.run_events import KERNEL, make_event, run_end
from treering.spine.words import describe, new_id, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.ledger.lineage import Lineage
    from treering.model.events import Event, NewEvent
    from treering.model.messages import ModelMessage
    from treering.model.tools import SyntheticPolicy

COMPACTED: Final = "context.compacted"
THRESHOLD: Final = 0.8
"""The part of a budget above which a session is compacted."""
GAIN_MIN: Final = 0.9
"""A compaction is not worth its events that leaves more than this part of the tokens."""
KEEP_MESSAGES: Final = 20
"""Messages that stay as they are."""
BREAK_TOKENS: Final = 2
"""What the blank line between two summaries costs."""
COMPACTION_TOKENS_MAX: Final = 2_000
"""The longest summary that a compaction puts in the place of messages."""
WINDOW_EVENTS_MAX: Final = 50_000
"""Events that one compaction looks at, if none was made before."""


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction would put in the place of older messages."""

    summary: str
    through_seq: int
    from_tokens: int
    to_tokens: int
    messages: int
    messages_before: int
    messages_after: int
    by: str
    failure: dict[str, str] | None = None
    """Why a summariser was not heard, if it failed."""

    def events(self, template: NewEvent) -> list[NewEvent]:
        """Return the events that make it so."""
        part = ContextCompacted(
            through_seq=self.through_seq,
            from_tokens=self.from_tokens,
            to_tokens=self.to_tokens,
            messages=self.messages,
            by=self.by,
        )
        payload: dict[str, Any] = {
            "summary": self.summary,
            "through_seq": self.through_seq,
            "from_tokens": self.from_tokens,
            "to_tokens": self.to_tokens,
            "messages_removed": self.messages,
            "by": self.by,
        }
        if self.failure is not None:
            payload["failure"] = self.failure
        noun = "message" if self.messages == 1 else "messages"
        phase = CompactionReported(
            tokens_before=self.from_tokens,
            messages=self.messages,
            messages_before=self.messages_before,
        )
        after = msgspec.structs.replace(
            phase, tokens_after=self.to_tokens, messages_after=self.messages_after
        )
        return [
            make_event(
                template,
                "compaction.started",
                "compaction started",
                refs=phase.as_refs(),
                origin=KERNEL,
            ),
            make_event(
                template,
                COMPACTED,
                f"{self.messages} {noun} summarised",
                payload=payload,
                refs=part.as_refs(),
            ),
            make_event(
                template,
                "compaction.ended",
                "compaction ended",
                refs=after.as_refs(),
                origin=KERNEL,
            ),
        ]


def as_run(template: NewEvent, events: Sequence[NewEvent], duration_ms: int) -> list[NewEvent]:
    """Return the events of a compaction as a run of its own, for when no other is under way."""
    template = replace(template, run_id=new_id())
    started = RunStarted(entry_point=COMPACTION).as_refs()
    ended = RunEnded(duration_ms=duration_ms, tool_calls=0, reason=COMPACTION)
    first = make_event(template, "run.started", "run started", refs=started, origin=KERNEL)
    whole = [first, *events, run_end(template, "ended", ended)]
    return [
        replace(event, run_id=template.run_id, run_seq=at)
        for at, event in enumerate(whole, start=1)
    ]


def compact(
    lineage: Lineage,
    policy: SyntheticPolicy,
    *,
    max_tokens: int | None,
    keep: int = KEEP_MESSAGES,
    summariser: Summariser | None = None,
    below_seq: int | None = None,
) -> Compaction | None:
    """Return what would be compacted; None if there is too little.

    With ``max_tokens``, nothing is done below its ``THRESHOLD``. ``below_seq`` is where the first
    run begins that is under way: what it says is not known yet. What can still be redone is not
    summarised either, or a redo would not bring it back.
    """
    if keep < 1:
        raise InvalidInput(f"cannot keep {keep} messages", hint="keep 1 or more")
    window = read_window(lineage, tokens=None, events=WINDOW_EVENTS_MAX)
    events = [*window.lead, *window.events]
    paired, _ = pair(events, policy)
    # They cost what a model is shown of them, so one long output is not a reason.
    messages = [with_outputs(message, OUTPUT_CHARACTERS_MAX) for message in paired]
    budget = Budget(ratio=window.ratio)
    earlier = window.summary
    cost = sum(map(budget.cost, messages)) + (budget.count(earlier) if earlier else 0)
    if max_tokens is not None and budget.expected(cost) <= THRESHOLD * max_tokens:
        return None
    bounds = [seq for seq in (below_seq, _redoable_from(lineage)) if seq is not None]
    cut, through = _cut(events, messages, len(messages) - keep, min(bounds, default=None))
    if cut <= 0:
        return None
    older, rest = messages[:cut], sum(map(budget.cost, messages[cut:]))
    if max_tokens is not None and rest > GAIN_MIN * cost:
        # What stays is the most of it: again and again there would be next to nothing to gain.
        # It is known before anybody is asked for a summary, which may cost more than it saves.
        return None
    tokens = COMPACTION_TOKENS_MAX
    if max_tokens is not None:
        tokens = min(max_tokens // 4, tokens)
    text, by, failure = _summarised(older, earlier, tokens, summariser)
    if not text:
        # Not a single word fits, and messages without a summary must stay.
        return None
    return Compaction(
        summary=text,
        through_seq=through,
        from_tokens=budget.expected(cost),
        to_tokens=budget.expected(rest + budget.cost(summary_message(text))),
        messages=len(older),
        messages_before=len(messages) + bool(earlier),
        messages_after=len(messages) - len(older) + 1,
        by=by,
        failure=failure,
    )


def _redoable_from(lineage: Lineage) -> int | None:
    """Return where that begins which could be redone."""
    with contextlib.suppress(NotFound):
        # One that was undone before it, and could be redone after it, begins later.
        return redoable(lineage).from_seq
    return None


def _cut(
    events: Sequence[Event], messages: Sequence[ModelMessage], cut: int, below_seq: int | None
) -> tuple[int, int]:
    """Return how many messages to summarise, and up to which seq: none is cut in two."""
    seqs = {event.event_id: event.seq for event in events}
    spans = [_span(message, seqs) for message in messages]
    first = below_seq if below_seq is not None else events[-1].seq + 1 if events else 0
    starts: list[int] = []
    for low, _ in reversed(spans):
        first = min(first, low)
        starts.append(first)
    starts.reverse()
    last, ends = 0, []
    for _, high in spans:
        last = max(last, high)
        ends.append(last)
    while cut > 0 and cut < len(messages) and ends[cut - 1] >= starts[cut]:
        cut -= 1
    return (cut, starts[cut] - 1) if 0 < cut < len(messages) else (0, 0)


def _span(message: ModelMessage, seqs: dict[str, int]) -> tuple[int, int]:
    covered: Iterable[int] = [seqs[event_id] for event_id in message.event_ids if event_id in seqs]
    own = [message.seq, *covered]
    return min(own), max(own)


def _summarised(
    messages: Sequence[ModelMessage],
    earlier: str | None,
    tokens: int,
    summariser: Summariser | None,
) -> tuple[str, str, dict[str, str] | None]:
    """Return the summary, what wrote it, and why it was not what was asked to."""
    failure = None
    if summariser is not None:
        try:
            name = shorten(str(getattr(summariser, "name", None) or "model"))
            room = _room(earlier, tokens)
            text = summariser(messages, earlier, room)
            if isinstance(text, str) and text.strip():
                canonical([name, text], "the summary")
                return (
                    _joined(earlier, shorten_to(text.strip(), room, estimate), tokens),
                    name,
                    None,
                )
            failure = {"class": "ValueError", "message": "the summariser gave no text"}
        except Exception as error:  # noqa: BLE001 - a compaction needs no model, and none may stop it.
            failure = describe(error)
    summary = summarise(messages, earlier=earlier, limit=tokens, count=Budget().count)
    return summary.text, "structure", failure


def _room(earlier: str | None, tokens: int) -> int:
    """Return how many of ``tokens`` the new summary gets: what is left, or half of them."""
    return tokens if not earlier else max(tokens - estimate(earlier) - BREAK_TOKENS, tokens // 2)


def _joined(earlier: str | None, text: str, tokens: int) -> str:
    """Return a summary after the one before it, which is cut if both do not fit."""
    if not earlier:
        return text
    shortened = shorten_to(earlier, tokens - estimate(text) - BREAK_TOKENS, estimate).strip()
    return f"{shortened}\n\n{text}" if shortened else text
