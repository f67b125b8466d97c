"""The fields that are read from chat completion responses."""

from __future__ import annotations

import msgspec


class ChatReply(msgspec.Struct):
    """The message of a model."""

    content: str | None = None


class Choice(msgspec.Struct):
    """One of the model's answers."""

    message: ChatReply


class ChatUsage(msgspec.Struct):
    """The token counts of a chat completion."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None


class ChatAnswer(msgspec.Struct):
    """The response of a chat completion."""

    choices: list[Choice] = []
    usage: ChatUsage | None = None

    @property
    def text(self) -> str:
        """Return the text of the first answer, or an empty string."""
        return (self.choices[0].message.content or "") if self.choices else ""
