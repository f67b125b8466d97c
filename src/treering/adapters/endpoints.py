"""A summariser that asks any OpenAI-compatible chat completions endpoint.

session.compact(100_000, summariser=EndpointSummariser("http://localhost:8080/v1", "qwen3"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.adapters.chats import ChatAnswer, ChatUsage
from treering.context.transcripts import KEPT, SUMMARY_PROMPT, transcript
from treering.embedders.json_endpoint import Endpoint
from treering.model.parts import UsageReported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.messages import ModelMessage

TIMEOUT_S: Final = 60.0
TRANSCRIPT_CHARACTERS_MAX: Final = 200_000
"""The longest conversation to send; the middle of a longer one is left out."""
ANSWER_BYTES_MAX: Final = 4 * 2**20


class EndpointSummariser:
    """Summarises older messages with a model. Pass it to ``session.compact``.

    If the model is unavailable, the compaction uses its structural summary and records why.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        characters_max: int = TRANSCRIPT_CHARACTERS_MAX,
    ) -> None:
        self.name = model
        self._endpoint = Endpoint(
            url=f"{url.rstrip('/')}/chat/completions",
            wanted="summary",
            api_key=api_key,
            timeout_s=timeout_s,
            answer_bytes_max=ANSWER_BYTES_MAX,
        )
        self._characters_max = characters_max
        self.usage: UsageReported | None = None
        """The usage of the last call, if the endpoint reported it."""

    def __repr__(self) -> str:
        return f"EndpointSummariser({self._endpoint.url!r}, {self.name!r})"

    def __call__(self, messages: Sequence[ModelMessage], earlier: str | None, tokens: int) -> str:
        """Return the model's summary of ``messages``. Raises Unavailable if the request fails."""
        self.usage = None
        conversation = transcript(messages, self._characters_max)
        if earlier:
            conversation = f"{KEPT} {earlier}\n\n{conversation}"
        answer = self._endpoint.ask(
            {
                "model": self.name,
                "max_tokens": tokens,
                "messages": [
                    {"role": "system", "content": SUMMARY_PROMPT},
                    {"role": "user", "content": conversation},
                ],
            },
            ChatAnswer,
        )
        used = answer.usage or ChatUsage()
        self.usage = UsageReported(
            model=self.name,
            input_tokens=used.prompt_tokens,
            output_tokens=used.completion_tokens,
            total_tokens=used.total_tokens,
        )
        return answer.text
