"""Windows: the end of a session as far back as a model call needs it, and no further."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from treering.context.assemble import Window
from treering.context.budgets import MESSAGE_TOKENS, OUTPUT_CHARACTERS_MAX
from treering.context.pairing import MESSAGE_KINDS
from treering.context.texts import (
    boundary_text,
    call_arguments,
    call_names,
    instruction_text,
    message_media,
    message_role,
    message_text,
    tool_output,
)
from treering.context.thoughts import is_thought
from treering.derive.visible import UndoFilter
from treering.ledger.lineage import NO_END, Lineage, next_limit
from treering.model.codec import encode
from treering.model.kinds import HIDING_KINDS
from treering.model.parts import ContextAssembled, UsageReported, safe_part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.model.events import Event
    from treering.model.messages import Media

PAIRS_MAX: Final = 8
"""Latest calls that are compared; a changed tokenizer shows after five of them."""
RATIO_MIN: Final = 0.5
RATIO_MAX: Final = 3

WHOLE_KINDS: Final = MESSAGE_KINDS | HIDING_KINDS
"""What is read of the whole past: messages, and what hides them."""
SHOWN_KINDS: Final = WHOLE_KINDS | {
    "context.compacted", "context.assembled", "usage.reported", "ops.observation",
}  # fmt: skip
"""What is read for a model: also what replaces messages, what they turned out to cost, and what
may be an instruction or a thought."""
OPENING_KINDS: Final = HIDING_KINDS | {"conversation.user", "context.compacted"}
"""Kinds that can begin a turn, hide it or summarise it."""
CHARACTERS_PER_TOKEN: Final = 8
"""So many characters are read for each token of a budget: more than it can take."""
SPARE_CHARACTERS: Final = 4_096
FRAME_CHARACTERS: Final = MESSAGE_TOKENS * CHARACTERS_PER_TOKEN
"""What an event counts for beside its words: none is shown for less."""
Past = Literal["shown", "whole"]
"""What a model is shown begins at the last compaction; the whole past, at the beginning."""
PAGE_FIRST: Final = 64
PAGE_LAST: Final = 1_000


def read_window(
    lineage: Lineage,
    *,
    tokens: int | None,
    events: int | None = None,
    run_id: str | None = None,
    before_seq: int | None = None,
    after_seq: int = 0,
    past: Past = "shown",
    model: str | None = None,
    media_tokens: Callable[[Media], int] = lambda _: 0,
) -> Window:
    """Return what counts before ``before_seq``: enough for ``tokens``, or about ``events`` many.

    It goes back to the last compaction at most, unless the ``whole`` past is asked for. ``run_id``
    is the run that asks. Nothing up to ``after_seq`` is read. The ratio is that of ``model``, else
    of the one that reported last. ``media_tokens`` says what a picture or a file takes of
    ``tokens``, so that no more of these are read than could be shown.
    """
    wanted = None if tokens is None else tokens * CHARACTERS_PER_TOKEN + SPARE_CHARACTERS
    reading = _WindowScan(wanted, events, past, media_tokens)
    reading.floor = after_seq
    kinds = WHOLE_KINDS if past == "whole" else SHOWN_KINDS
    # Others may write while it is read, page by page: what they write is not there yet.
    until_seq = lineage.head_seq() if before_seq is None else before_seq - 1
    before, limit = until_seq + 1, PAGE_LAST if tokens is events is None else PAGE_FIRST
    while before > reading.floor + 1 and not reading.enough:
        page = lineage.committed_before(
            before, kinds=kinds, until_seq=until_seq, run_id=run_id, limit=limit
        )
        if not page:
            break
        reading.take(page)
        before = min(page[0].seq, reading.hidden.before or NO_END)
        limit = next_limit(limit, page, PAGE_LAST)
    cut = reading.enough and before > reading.floor + 1
    if cut:
        # A session may begin with events that are not messages, and a page may end with its first.
        cut = bool(
            lineage.committed_before(
                before, kinds=MESSAGE_KINDS, until_seq=until_seq, run_id=run_id, limit=1
            )
        )
    opening = None
    if cut and tokens is not None and not reading.starts_turn:
        opening = _opening(lineage, reading, before, until_seq=until_seq, run_id=run_id)
    return reading.window(cut=cut, opening=opening, until_seq=until_seq, model=model)


def _opening(
    lineage: Lineage, reading: _WindowScan, before: int, *, until_seq: int, run_id: str | None
) -> Event | None:
    """Return the words that began a turn of which only the end was read.

    A compaction before them is taken into account as well, or a long turn would forget it.
    """
    opening, kinds = None, OPENING_KINDS
    while before > reading.floor + 1 and not (opening and reading.is_compacted):
        page = lineage.committed_before(
            before, kinds=kinds, until_seq=until_seq, run_id=run_id, limit=1
        )
        if not page:
            break
        [event] = page
        if reading.hidden.is_visible(event):
            if event.kind == "conversation.user":
                opening, kinds = event, kinds - {event.kind}
            reading.restart(event)
        before = min(event.seq, reading.hidden.before or NO_END)
    return opening


class _WindowScan:
    """What was found so far, from the end backwards."""

    def __init__(
        self,
        wanted: int | None,
        wanted_events: int | None,
        past: Past,
        media_tokens: Callable[[Media], int],
    ) -> None:
        self.hidden = UndoFilter()
        self.floor = 0
        self._past = past
        self._media_tokens = media_tokens
        self._wanted = wanted
        """In characters."""
        self._wanted_events = wanted_events
        self._characters = 0
        self._events: list[Event] = []
        self._costs: list[Event] = []
        self._compaction: Event | None = None

    @property
    def enough(self) -> bool:
        """Whether more could not be used."""
        if self._wanted_events is not None and len(self._events) >= self._wanted_events:
            return True
        return self._wanted is not None and self._characters > self._wanted

    @property
    def starts_turn(self) -> bool:
        """Whether a turn begins in what was found."""
        return any(event.kind == "conversation.user" for event in self._events)

    @property
    def is_compacted(self) -> bool:
        """Whether a compaction summarises what went before."""
        return self._compaction is not None

    def take(self, page: list[Event]) -> None:
        """Look at a page of events, from its last to its first."""
        for event in reversed(page):
            if event.seq <= self.floor:
                return
            if not self.hidden.is_visible(event):
                continue
            if event.kind in MESSAGE_KINDS:
                self._events.append(event)
                if self._wanted is not None:
                    self._characters += self._weight(event)
            elif event.kind == "context.compacted":
                self.restart(event)
            elif event.kind in {"context.assembled", "usage.reported"}:
                self._costs.append(event)
            elif is_thought(event) or message_role(event) is not None:
                self._events.append(event)
                if self._wanted is not None:
                    self._characters += self._weight(event)

    def _weight(self, event: Event) -> int:
        size, media = _weight(event)
        return size + CHARACTERS_PER_TOKEN * sum(map(self._media_tokens, media)) if media else size

    def window(
        self, *, cut: bool, opening: Event | None, until_seq: int, model: str | None
    ) -> Window:
        """Return all that was found; ``cut`` if there is more before it."""
        events = self._events[::-1]
        start = _first_turn(events) if cut else 0
        compaction = self._compaction
        return Window(
            events=events[start:],
            lead=events[:start],
            summary=None if compaction is None else compaction.payload["summary"],
            summary_id=None if compaction is None else compaction.event_id,
            opening=opening,
            cut=cut,
            until_seq=until_seq,
            ratio=ratio(_pairs(self._costs, model)),
        )

    def restart(self, event: Event) -> None:
        """Go no further back than ``event``, if it is a compaction."""
        through = compacted_through(event)
        if through is not None and self._compaction is None and self._past == "shown":
            self._compaction = event
            self.floor = through


def compacted_through(event: Event) -> int | None:
    """Return the seq up to which a compaction summarises; None if it cannot be used."""
    payload = event.payload
    if event.kind != "context.compacted" or event.redacted or not isinstance(payload, dict):
        return None
    through, summary = payload.get("through_seq"), payload.get("summary")
    if type(through) is not int or not 0 < through < event.seq:
        return None
    return through if isinstance(summary, str) and summary.strip() else None


def _weight(event: Event) -> tuple[int, list[Media]]:
    """Return how many characters of an event would be shown, at most, and what goes with them.

    It is 0 if the event says nothing.
    """
    media: list[Media] = []
    match event.kind:
        case "tool.call":
            _, tool = call_names(event)
            size = len(tool) + len(encode(call_arguments(event.payload)))
        case "tool.result":
            output, media = tool_output(event)
            size = min(len(output), OUTPUT_CHARACTERS_MAX)
        case "conversation.user" | "conversation.assistant":
            size, media = len(message_text(event)), message_media(event)
            if not size and not media:
                return 0, []
            if event.kind == "conversation.assistant":
                media = []  # What a model drew is not shown to one.
        case "ops.observation":
            if is_thought(event):
                return 0, []  # It may be for another model, and is not shown then.
            size = len(instruction_text(event))
        case _:
            size = len(boundary_text(event))
    return FRAME_CHARACTERS + size, media


def _first_turn(events: list[Event]) -> int:
    """Return where to begin: with a turn or, if none begins, after results of unread calls."""
    results = 0
    for index, event in enumerate(events):
        if event.kind == "conversation.user":
            return index
        if event.kind == "tool.result" and index == results:
            results += 1
    return results


def _pairs(costs: list[Event], model: str | None) -> list[tuple[int, int]]:
    """Return what contexts were estimated at and what ``model`` reported for them, lately.

    A provider may report another name than it was asked by: both are the model's. Without a name
    it is the model that reported last. ``costs`` begin with the newest.
    """
    pairs: list[tuple[int, int]] = []
    reported: tuple[str | None, UsageReported] | None = None
    for event in costs:
        part = safe_part(event.kind, event.refs)
        if isinstance(part, UsageReported):
            reported = (event.run_id, part)
        elif isinstance(part, ContextAssembled) and reported is not None:
            run_id, usage = reported
            reported = None
            estimated, used = part.estimated_tokens, _input_tokens(usage)
            if run_id != event.run_id or not estimated or not used:
                continue
            if model is None and not pairs:
                model = usage.model
            if model in {usage.model, part.model or usage.model}:
                pairs.append((estimated, used))
                if len(pairs) == PAIRS_MAX:
                    break
    return pairs[::-1]


def _input_tokens(part: UsageReported) -> int:
    """Return how many tokens went in; some providers count apart what they had cached."""
    tokens = part.input_tokens or 0
    if part.total_tokens is not None and part.output_tokens is not None:
        tokens = max(tokens, part.total_tokens - part.output_tokens)
    cached = part.cached_tokens or 0
    return tokens + cached if cached > tokens else tokens


def ratio(pairs: Sequence[tuple[int, int]]) -> float:
    """Return the factor for estimates, from pairs of estimated and reported tokens.

    The pairs are of one model, newest last. The median of the latest pairs is used, so that one odd
    report changes nothing; pairs without tokens are ignored. It is 1.0 if none is left.
    """
    ratios: list[float] = []
    for estimated, reported in reversed(pairs):
        if estimated > 0 and reported > 0:
            # Compared as integers first: a quotient may be too large for a float.
            too_many = reported > RATIO_MAX * estimated
            ratios.append(float(RATIO_MAX) if too_many else max(reported / estimated, RATIO_MIN))
            if len(ratios) == PAIRS_MAX:
                break
    return _median(sorted(ratios)) if ratios else 1.0


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
