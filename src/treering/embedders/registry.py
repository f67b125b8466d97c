"""Chooses an embedder by name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from treering.errors import InvalidInput

if TYPE_CHECKING:
    from treering.memory.ports import Embedder

KEY_VARIABLE: Final = "TREERING_EMBEDDER_KEY"
"""The environment variable with an endpoint's key, which is not part of the name."""
_ENDPOINT: Final = "endpoint:"


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
            f"unknown embedder: {text!r}",
            hint="use static, minilm, off or endpoint:<model>@<url>",
        )
    from treering.embedders.endpoint import EndpointEmbedder  # noqa: PLC0415

    return EndpointEmbedder(url, model, api_key=os.environ.get(KEY_VARIABLE))
