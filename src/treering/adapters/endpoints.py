"""Summaries written by a model, by choice: any endpoint that speaks OpenAI's chat completions.

session.compact(100_000, summariser=EndpointSummariser("http://localhost:8080/v1", "qwen3"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.adapters.chats import ChatAnswer, Used
from treering.context.transcripts import KEPT, SUMMARY_PROMPT, transcript
from treering.embedders.posting import Endpoint
from treering.model.parts import UsageReported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.messages import ModelMessage

TIMEOUT_S: Final = 60.0
TRANSCRIPT_CHARACTERS_MAX: Final = 200_000
"""The longest conversation that is sent; what is in its middle is left out."""
ANSWER_BYTES_MAX: Final = 4 * 2**20


class EndpointSummariser:
    """Has a model tell older messages. Give it to ``session.compact``.

    If the model cannot be asked, the compaction tells them by structure, and says why.
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
        """What the last call used, as far as the endpoint says."""

    def __repr__(self) -> str:
        return f"EndpointSummariser({self._endpoint.url!r}, {self.name!r})"

    def __call__(self, messages: Sequence[ModelMessage], earlier: str | None, tokens: int) -> str:
        """Return what the model makes of ``messages``. Raises Unavailable if it cannot be asked."""
        self.usage = None
        told = transcript(messages, self._characters_max)
        if earlier:
            told = f"{KEPT} {earlier}\n\n{told}"
        answer = self._endpoint.ask(
            {
                "model": self.name,
                "max_tokens": tokens,
                "messages": [
                    {"role": "system", "content": SUMMARY_PROMPT},
                    {"role": "user", "content": told},
                ],
            },
            ChatAnswer,
        )
        used = answer.usage or Used()
        self.usage = UsageReported(
            model=self.name,
            input_tokens=used.prompt_tokens,
            output_tokens=used.completion_tokens,
            total_tokens=used.total_tokens,
        )
        return answer.text
