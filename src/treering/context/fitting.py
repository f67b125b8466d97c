"""Fits messages into a budget: whole turns go before parts, and a pair is never split.

    1. long tool outputs are always shortened
    2. older messages than the last checkpoint or interrupt are dropped
    3. the oldest turns are dropped
    4. the rest of the last turn is shortened, and its oldest steps are dropped
    5. what was dropped is summarised, if there is room

All of it is deterministic, without a model or a clock.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

import msgspec

from treering.context.attachments import media_ids, without_media
from treering.context.budgets import MESSAGE_TOKENS, OUTPUT_CHARACTERS_MAX, shorten, shorten_to
from treering.context.thoughts import thoughts_of, without_thoughts
from treering.model.messages import AssistantMessage, ModelMessage, Repair, RepairCode, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.context.budgets import Budget
    from treering.context.summaries import Summariser

SUMMARY_TOKENS_MAX: Final = 1_500
"""Maximum length of the summary of dropped messages."""
SUMMARY_TOKENS_MIN: Final = 24
"""With less room nothing is summarised."""
SUMMARY_SHARE: Final = 8
"""One part in this many of the room is for the summary."""
RESTARTS: Final = frozenset({"checkpoint", "interrupt"})
"""Marks from which a model can continue without earlier messages."""
_CAPS: Final = (4_000, 2_000, 1_000, 500, 200)
"""Characters to which outputs of the last turn are shortened, step by step."""


class EarlierSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of everything before the messages."""

    words: str
    event_ids: tuple[str, ...] = ()
    """The event that holds it."""

    def message(self) -> UserMessage:
        """Return it as a message."""
        return summary_message(self.words, event_ids=self.event_ids)


class FittedMessages(msgspec.Struct, frozen=True, kw_only=True):
    """The remaining messages, their cost, and what was changed."""

    messages: list[ModelMessage]
    cost: int
    repairs: list[Repair]


def fit(
    messages: Sequence[ModelMessage],
    *,
    earlier: EarlierSummary | None,
    room: int | None,
    budget: Budget,
    summarise: Summariser,
) -> FittedMessages:
    """Return messages that cost at most ``room``; ``earlier`` summarises everything before them."""
    fitting = _Fitting(budget, summarise)
    shortened = [with_outputs(message, OUTPUT_CHARACTERS_MAX) for message in messages]
    before = [] if earlier is None else [earlier.message()]
    costs = [budget.cost(message) for message in shortened]
    cost = sum(costs) + sum(map(budget.cost, before))
    if room is not None and cost > room and any(map(thoughts_of, shortened)):
        shortened = fitting.forget(shortened)
        costs = [budget.cost(message) for message in shortened]
        cost = sum(costs) + sum(map(budget.cost, before))
    fitted = [*before, *shortened]
    if room is not None and cost > room:
        fitted, cost = fitting.cut(shortened, costs, earlier, room)
        if not fitted:
            fitting.note("budget_too_small", shortened[-1] if shortened else earlier)
    repairs = [*fitting.repairs, *_shortened(messages, fitted)]
    return FittedMessages(messages=fitted, cost=cost, repairs=repairs)


class _Fitting:
    """One attempt to fit messages."""

    def __init__(self, budget: Budget, summarise: Summariser) -> None:
        self.repairs: list[Repair] = []
        self._budget = budget
        self._summarise = summarise
        self._wordless: set[tuple[str, ...]] = set()
        """Messages without words: what says that their files are left out is not shortened."""

    def note(self, code: RepairCode, message: ModelMessage | EarlierSummary | None) -> None:
        """Report a change to a message."""
        ids = () if message is None else message.event_ids
        self.repairs.append(Repair(code=code, event_id=ids[0] if ids else None))

    def forget(self, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        """Return ``messages`` without thoughts of earlier turns, which no provider requires.

        Thoughts of the last turn are required as long as its calls are shown.
        """
        turn = _last_turn(messages)
        for message in messages[:turn]:
            for thought in thoughts_of(message):
                self.repairs.append(
                    Repair(
                        code="dropped_thinking", event_id=thought.event_id, detail="an earlier turn"
                    )
                )
        return [*map(without_thoughts, messages[:turn]), *messages[turn:]]

    def cut(
        self,
        messages: list[ModelMessage],
        costs: list[int],
        earlier: EarlierSummary | None,
        room: int,
    ) -> tuple[list[ModelMessage], int]:
        """Return the end of ``messages``, preceded by a summary of the rest, and the cost."""
        reserve = min(room // SUMMARY_SHARE, SUMMARY_TOKENS_MAX)
        left = list(accumulate(reversed(costs), initial=0))[::-1]
        start = self._start(messages, left, room - reserve)
        if start is None:
            turn = _last_turn(messages)
            dropped, last_turn = list(messages[:turn]), messages[turn:]
            self._note_dropped(dropped)
            squeezed, lost = self._squeeze(last_turn, room - reserve, room)
            dropped += lost
            spent = sum(self._budget.cost(message) for message in squeezed)
        else:
            dropped, squeezed, spent = list(messages[:start]), list(messages[start:]), left[start]
            self._note_dropped(dropped)
        summary = self._summary(dropped, earlier, min(room - spent, SUMMARY_TOKENS_MAX))
        if summary is None:
            return squeezed, spent
        return [summary, *squeezed], spent + self._budget.cost(summary)

    def _start(
        self, messages: Sequence[ModelMessage], left: Sequence[int], room: int
    ) -> int | None:
        """Return where to begin so that the rest fits; None if the last turn alone does not."""
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if isinstance(message, UserMessage) and message.mark in RESTARTS:
                turn = _last_turn(messages)
                if turn < index < len(messages) - 1 and left[turn] <= room:
                    # A mark in the middle of the last turn: keep its question, too.
                    return turn
                if left[index] <= room:
                    self.note("restarted", message)
                    return index
                break
        return next(
            (
                index
                for index, message in enumerate(messages)
                if left[index] <= room and _starts_turn(message)
            ),
            None,
        )

    def _note_dropped(self, dropped: Sequence[ModelMessage]) -> None:
        for message in dropped:
            if _starts_turn(message):
                self.note("dropped_turn", message)
        if dropped and not _starts_turn(dropped[0]):
            self.note("dropped_message", dropped[0])

    def _squeeze(
        self, turn: Sequence[ModelMessage], room: int, all_room: int
    ) -> tuple[list[ModelMessage], list[ModelMessage]]:
        """Return what is left of a turn that is too large, and what was dropped."""
        remaining: list[ModelMessage] = []
        cost = self._budget.cost
        bare = [without_media(message) for message in turn]
        self._wordless = {message.event_ids for message in turn if not message.text.strip()}
        for tried in [turn] if bare == turn else [turn, bare]:
            if tried is bare:
                self._note_media(turn)
            for cap in _CAPS:
                remaining = [with_outputs(message, cap) for message in tried]
                if sum(map(cost, remaining)) <= room:
                    return remaining, []
        questions: list[ModelMessage] = []
        lost: list[ModelMessage] = []
        left = room
        if remaining and isinstance(remaining[0], UserMessage):
            # The question has priority over the steps, with at most half of the room.
            question = remaining.pop(0)
            share = room // 2 if remaining else room
            first = self._shorten(question, share)
            (lost if first is None else questions).append(first or question)
            # The rest of a shortened question's share is not used for steps: otherwise more room
            # could leave fewer steps.
            left -= min(cost(question), share)
        steps: list[ModelMessage] = []
        while remaining and (next_cost := cost(remaining[-1])) <= left:
            steps.append(remaining.pop())
            left -= next_cost
        steps.reverse()
        spent = sum(map(cost, [*questions, *steps]))
        if remaining and not steps:
            # Not even the last step fits whole; its text may.
            last = self._words(remaining[-1], all_room - spent)
            if last is not None:
                remaining.pop()
                steps = [last]
        lost += remaining
        for message in lost:
            self.note("dropped_message", message)
        return [*questions, *steps], lost

    def _note_media(self, turn: Sequence[ModelMessage]) -> None:
        for message in turn:
            for event_id in media_ids(message):
                self.repairs.append(
                    Repair(code="left_out_attachment", event_id=event_id, detail="no room")
                )

    def _words(self, message: ModelMessage, room: int) -> ModelMessage | None:
        """Return only the text of a message, shortened to ``room``; None if there is none."""
        if isinstance(message, UserMessage) or not message.calls:
            return self._shorten(message, room)
        words = msgspec.structs.replace(
            message, event_ids=message.event_ids[:1], calls=(), results=(), thoughts=()
        )
        shortened = self._shorten(words, room) if words.text.strip() else None
        if shortened is words:
            self.note("shortened_message", words)
        return shortened

    def _shorten(self, message: ModelMessage, room: int) -> ModelMessage | None:
        if self._budget.cost(message) <= room:
            return message
        if message.event_ids in self._wordless:
            return None
        text = shorten_to(message.text, room - MESSAGE_TOKENS, self._budget.count)
        if not text.strip():
            return None
        self.note("shortened_message", message)
        # A thought belongs to the original text.
        return msgspec.structs.replace(without_thoughts(message), text=text)

    def _summary(
        self, dropped: Sequence[ModelMessage], earlier: EarlierSummary | None, room: int
    ) -> UserMessage | None:
        frame = self._budget.cost(summary_message(""))
        if (not dropped and earlier is None) or room - frame < SUMMARY_TOKENS_MIN:
            return None
        earlier_text = None if earlier is None else earlier.words
        text = self._summarise(dropped, earlier_text, room - frame)
        text = shorten_to(text, room - frame, self._budget.count).strip()
        summary = summary_message(
            text,
            seq=dropped[0].seq if dropped else 0,
            event_ids=() if earlier is None else earlier.event_ids,
        )
        if not text or self._budget.cost(summary) > room:
            return None
        self.note("summarised", dropped[0] if dropped else earlier)
        return summary


def with_outputs(message: ModelMessage, characters: int) -> ModelMessage:
    """Return ``message`` with tool outputs cut in the middle to about this many characters."""
    if not isinstance(message, AssistantMessage) or all(
        len(result.output) <= characters for result in message.results
    ):
        return message
    results = tuple(
        msgspec.structs.replace(result, output=shorten(result.output, characters))
        for result in message.results
    )
    return msgspec.structs.replace(message, results=results)


def summary_message(words: str, *, seq: int = 0, event_ids: tuple[str, ...] = ()) -> UserMessage:
    """Return a summary as a message."""
    text = f"<summary>\n{words}\n</summary>"
    return UserMessage(text=text, seq=seq, event_ids=event_ids, mark="summary")


def _shortened(given: Sequence[ModelMessage], kept: Sequence[ModelMessage]) -> Iterator[Repair]:
    """Yield a repair for each kept output that was longer before."""
    lengths = {
        result.call_id: len(result.output)
        for message in given
        if isinstance(message, AssistantMessage)
        for result in message.results
    }
    for message in kept:
        for result in message.results if isinstance(message, AssistantMessage) else ():
            length = lengths[result.call_id]
            if len(result.output) < length:
                yield Repair(
                    code="shortened_output", event_id=result.event_id, detail=f"{length} characters"
                )


def _starts_turn(message: ModelMessage) -> bool:
    return isinstance(message, UserMessage) and message.mark is None


def _last_turn(messages: Sequence[ModelMessage]) -> int:
    """Return the index at which the last turn begins; 0 if no turn does."""
    for index in range(len(messages) - 1, -1, -1):
        if _starts_turn(messages[index]):
            return index
    return 0
