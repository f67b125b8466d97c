"""Conversations: the messages of a session since it was last read for facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.rules.fact_extraction import Candidate, Utterance

if TYPE_CHECKING:
    from collections.abc import Iterator

PART_CHARACTERS_MAX: Final = 6_000
"""Characters shown to a model at once: fits the smallest context windows."""
SHOWN_CHARACTERS_MAX: Final = {"user": 4_000, "assistant": 400, "tool": 800}
"""Characters shown of one text, by role: facts are about the user's own words."""


class Spoken(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One message, with its seq and speaker."""

    utterance: Utterance
    seq: int
    user: str | None
    """The speaker, or the user of the session; None if unknown."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a session that count."""

    session_id: str
    in_group: bool
    earlier: list[Spoken]
    """The last messages before the new ones: a correction may refer to them."""
    spoken: list[Spoken]
    """New messages, in order."""
    until_seq: int
    """No message up to this seq can still change."""


class ConversationPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a conversation that is read at once."""

    earlier: list[Spoken]
    spoken: list[Spoken]
    until_seq: int
    in_group: bool


class AttributedCandidate(msgspec.Struct, frozen=True):
    """A candidate fact found in a conversation, and the user it is about."""

    candidate: Candidate
    user: str | None


def whole_part(conversation: Conversation) -> ConversationPart:
    """Return a conversation as one part."""
    return ConversationPart(
        earlier=conversation.earlier,
        spoken=conversation.spoken,
        until_seq=conversation.until_seq,
        in_group=conversation.in_group,
    )


def conversation_parts(conversation: Conversation, reach: int) -> Iterator[ConversationPart]:
    """Yield parts small enough for a model, each with ``reach`` messages before it."""
    spoken = conversation.spoken
    start, size = 0, 0
    for at, message in enumerate(spoken):
        weight = min(len(message.utterance.text), SHOWN_CHARACTERS_MAX[message.utterance.role])
        if size and size + weight > PART_CHARACTERS_MAX:
            yield _part(conversation, start, at, reach)
            start, size = at, 0
        size += weight
    if spoken:
        yield _part(conversation, start, len(spoken), reach)


def shown(utterance: Utterance) -> Utterance:
    """Return as much of an utterance as a model is shown."""
    text, limit = utterance.text, SHOWN_CHARACTERS_MAX[utterance.role]
    if len(text) <= limit:
        return utterance
    return msgspec.structs.replace(utterance, text=f"{text[: limit - 1]}…")


def _part(conversation: Conversation, start: int, end: int, reach: int) -> ConversationPart:
    spoken = conversation.spoken
    is_last = end == len(spoken)
    before = [*conversation.earlier, *spoken[max(start - reach, 0) : start]]
    return ConversationPart(
        earlier=before[-reach:],
        spoken=spoken[start:end],
        until_seq=conversation.until_seq if is_last else spoken[end - 1].seq,
        in_group=conversation.in_group,
    )
