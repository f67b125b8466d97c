"""Answers of chat completions, as far as they are read here."""

from __future__ import annotations

import msgspec


class ChatReply(msgspec.Struct):
    """What a model said."""

    content: str | None = None


class Choice(msgspec.Struct):
    """One of the answers that it gave."""

    message: ChatReply


class Used(msgspec.Struct):
    """What it counted."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None


class ChatAnswer(msgspec.Struct):
    """An answer of a chat completion."""

    choices: list[Choice] = []
    usage: Used | None = None

    @property
    def text(self) -> str:
        """Return what was said first; nothing if nothing was."""
        return (self.choices[0].message.content or "") if self.choices else ""
