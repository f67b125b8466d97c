"""Exact token counts for OpenAI's models, with the optional extra ``tokens``.

The vocabularies are part of the package, so nothing is downloaded.
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
    """Return a counter of tokens in ``encoding``; special tokens count as plain text.

    Raise Unsupported if the tokenizer is not installed.
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
        """Return the number of tokens in ``text``."""
        try:
            return self._count(text)
        except UnicodeEncodeError:
            # Lone surrogates have no tokens; providers get a replacement character as well.
            return self._count(text.encode("utf-8", "replace").decode())
