"""Conversations: what was said in a session since it was last read for facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.fact_extraction import Candidate, Utterance

if TYPE_CHECKING:
    from collections.abc import Iterator

STRETCH_CHARACTERS_MAX: Final = 6_000
"""So much is shown to a model at once: it fits the smallest windows."""
SHOWN_CHARACTERS_MAX: Final = {"user": 4_000, "assistant": 400, "tool": 800}
"""So much of one text is shown: only the user's own words are what it is about."""


class Spoken(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that was said, where it stands, and who is talking."""

    utterance: Utterance
    seq: int
    user: str | None
    """The person who said it, or whose session it is; None if nobody knows."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What was said in a session that counts."""

    session_id: str
    in_group: bool
    earlier: list[Spoken]
    """The last that was said before: a correction may mean it."""
    spoken: list[Spoken]
    """What is new, in order."""
    until_seq: int
    """Nothing up to here will be said any more."""


class ConversationPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a conversation that is read at once."""

    earlier: list[Spoken]
    spoken: list[Spoken]
    until_seq: int
    in_group: bool


class AttributedCandidate(msgspec.Struct, frozen=True):
    """Something that was found in a conversation, and whose it is."""

    candidate: Candidate
    user: str | None


def whole(conversation: Conversation) -> ConversationPart:
    """Return a conversation as one stretch."""
    return ConversationPart(
        earlier=conversation.earlier,
        spoken=conversation.spoken,
        until_seq=conversation.until_seq,
        in_group=conversation.in_group,
    )


def conversation_parts(conversation: Conversation, reach: int) -> Iterator[ConversationPart]:
    """Return a conversation in parts that a model can be shown, each with a little before it."""
    spoken = conversation.spoken
    start, size = 0, 0
    for at, one in enumerate(spoken):
        weight = min(len(one.utterance.text), SHOWN_CHARACTERS_MAX[one.utterance.role])
        if size and size + weight > STRETCH_CHARACTERS_MAX:
            yield _stretch(conversation, start, at, reach)
            start, size = at, 0
        size += weight
    if spoken:
        yield _stretch(conversation, start, len(spoken), reach)


def shown(utterance: Utterance) -> Utterance:
    """Return as much of an utterance as a model is shown."""
    text, limit = utterance.text, SHOWN_CHARACTERS_MAX[utterance.role]
    if len(text) <= limit:
        return utterance
    return msgspec.structs.replace(utterance, text=f"{text[: limit - 1]}…")


def _stretch(conversation: Conversation, start: int, end: int, reach: int) -> ConversationPart:
    spoken = conversation.spoken
    is_last = end == len(spoken)
    before = [*conversation.earlier, *spoken[max(start - reach, 0) : start]]
    return ConversationPart(
        earlier=before[-reach:],
        spoken=spoken[start:end],
        until_seq=conversation.until_seq if is_last else spoken[end - 1].seq,
        in_group=conversation.in_group,
    )
