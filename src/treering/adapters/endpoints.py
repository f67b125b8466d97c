"""Summaries written by a model, by choice: any endpoint that speaks OpenAI's chat completions.

session.compact(100_000, summariser=EndpointSummariser("http://localhost:8080/v1", "qwen3"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import msgspec

from treering.context.transcripts import SUMMARY_PROMPT, transcript
from treering.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.messages import ModelMessage

TIMEOUT_S: Final = 60.0
TRANSCRIPT_CHARACTERS_MAX: Final = 200_000
"""The longest conversation that is sent; what is in its middle is left out."""
ANSWER_BYTES_MAX: Final = 4 * 2**20


class _Said(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Said


class _Answer(msgspec.Struct):
    choices: list[_Choice] = []


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
        if urlsplit(url).scheme not in {"http", "https"}:
            raise InvalidInput(
                f"invalid endpoint: {url}", hint="give its address, as http://localhost:8080/v1"
            )
        self.name = model
        self._url = f"{url.rstrip('/')}/chat/completions"
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._characters_max = characters_max

    def __repr__(self) -> str:
        return f"EndpointSummariser({self._url!r}, {self.name!r})"

    def __call__(self, messages: Sequence[ModelMessage], earlier: str | None, tokens: int) -> str:
        """Return what the model makes of ``messages``. Raises Unavailable if it cannot be asked."""
        told = transcript(messages, self._characters_max)
        if earlier:
            told = f"[summary of what went before]: {earlier}\n{told}"
        answer = self._ask(
            {
                "model": self.name,
                "max_tokens": tokens,
                "messages": [
                    {"role": "system", "content": SUMMARY_PROMPT},
                    {"role": "user", "content": told},
                ],
            }
        )
        return (answer.choices[0].message.content or "") if answer.choices else ""

    def _ask(self, body: dict[str, object]) -> _Answer:
        headers = {"Content-Type": "application/json"}
        if self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        request = Request(self._url, msgspec.json.encode(body), headers)  # noqa: S310  (checked)
        try:
            with urlopen(request, timeout=self._timeout_s) as response:  # noqa: S310
                return msgspec.json.decode(response.read(ANSWER_BYTES_MAX), type=_Answer)
        except HTTPError as error:
            why = f"it answered {error.code}"
            raise self._unavailable(why) from error
        except (URLError, OSError) as error:
            raise self._unavailable(str(getattr(error, "reason", error))) from error
        except msgspec.MsgspecError as error:
            raise self._unavailable("it answered something that is no completion") from error

    def _unavailable(self, why: str) -> Unavailable:
        return Unavailable(
            f"no summary from {self._url}: {why}", hint="check the address, the model and the key"
        )
