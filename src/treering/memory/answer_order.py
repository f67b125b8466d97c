"""Orders the best matches by a second look: those with the form of an answer come first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from treering.context.texts import message_text
from treering.derive.answer_cues import FROM_PERSON, answer_form, date_gain, form_gain, is_question
from treering.memory.fusion import PARTS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.memory.event_index import EventIndex, Ranked
    from treering.model.events import Event

    EventsAt = Callable[[list[int]], dict[int, Event]]
    """Returns the events at positions, without erased ones."""

LOOKED_AT: Final = 60
"""Best matches that are looked at: they include nine in ten of the turns that answer."""
PERSON: Final = "conversation.user"
ASSISTANT: Final = "conversation.assistant"


class Match(NamedTuple):
    """A document that matches: its number, score up to about 1, and what its form adds to that."""

    number: int
    score: float
    form: float


def order_answers(
    index: EventIndex, ranked: Ranked, query: str, events_at: EventsAt
) -> list[Match]:
    """Return the ranked documents in the order in which they answer a query, best first.

    The caller holds the index's lock.
    """
    if ranked.ranking is None:
        return []
    scores = [float(ranked.ranking.scores[number]) / PARTS_MAX for number in ranked.order]
    first = ranked.order[:LOOKED_AT]
    gains = _gains(index, first, query, events_at) + [0.0] * (len(ranked.order) - len(first))
    matches = [
        Match(number, score + gain, gain)
        for number, score, gain in zip(ranked.order, scores, gains, strict=True)
    ]
    return sorted(matches, key=lambda match: -match.score)


def _gains(
    index: EventIndex, numbers: Sequence[int], query: str, events_at: EventsAt
) -> list[float]:
    positions = index.documents.column("position")
    before = index.documents_before(numbers)
    wanted = {*numbers, *(number for number in before if number is not None)}
    events = events_at(sorted(int(positions[number]) for number in wanted))
    asked_events = [events.get(int(positions[number])) for number in numbers]
    form = answer_form(query)
    with_assistant = any(event is not None and event.kind == ASSISTANT for event in asked_events)
    gains = []
    for event, previous in zip(asked_events, before, strict=True):
        if event is None or event.kind not in {PERSON, ASSISTANT}:
            gains.append(0.0)
        elif with_assistant:
            # What a person asks an assistant says what the session is about.
            gains.append(FROM_PERSON * (event.kind == PERSON) + date_gain(form, event.ts_ms))
        else:
            asked = None if previous is None else events.get(int(positions[previous]))
            gains.append(
                form_gain(
                    form,
                    message_text(event),
                    speaker=event.user_id,
                    ts_ms=event.ts_ms,
                    follows_question=asked is not None and is_question(message_text(asked)),
                )
            )
    return gains
