"""Tokens counted as OpenAI's models count them, by choice: the extra ``tokens``.

The vocabularies come with the package, so nothing is fetched when tokens are counted.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, get_args

from treering.errors import InvalidInput, Unsupported

if TYPE_CHECKING:
    from treering.context.tokens import Counter

Encoding = Literal["o200k_base", "cl100k_base"]
"""o200k_base: from GPT-4o on; cl100k_base: GPT-3.5 and GPT-4."""
ENCODINGS: Final[tuple[str, ...]] = get_args(Encoding)


def exact_counter(encoding: Encoding | str = "o200k_base") -> Counter:
    """Return a counter of the tokens of ``encoding``, in which special tokens are plain text.

    Raises Unsupported if the tokenizer is not installed.
    """
    if encoding not in ENCODINGS:
        raise InvalidInput(
            f"invalid encoding: {encoding}", hint=f"use one of {', '.join(ENCODINGS)}"
        )
    return _counter(encoding)


@cache
def _counter(encoding: str) -> Counter:
    try:
        tokenizers = import_module("rs_bpe.bpe").openai
    except ImportError as error:
        raise Unsupported(
            "exact token counts need the package rs-bpe",
            hint="install it: pip install 'treering[tokens]'",
        ) from error
    return ExactCounter(encoding, getattr(tokenizers, encoding)().count)


class ExactCounter:
    """Counts the tokens of one encoding."""

    def __init__(self, name: str, count: Counter) -> None:
        self.name = name
        self._count = count

    def __call__(self, text: str) -> int:
        """Return how many tokens ``text`` has."""
        try:
            return self._count(text)
        except UnicodeEncodeError:
            # Lone surrogates have no tokens; providers are sent something in their place as well.
            return self._count(text.encode("utf-8", "replace").decode())
