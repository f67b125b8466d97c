"""Long texts in a few chunks, for a vector that stands for too much stands for nothing."""

from __future__ import annotations

from typing import Final

CHUNK_WORDS: Final = 40
"""About two sentences. A text is cut into even chunks of so many words, or more if it is long."""
CHUNKS_MAX: Final = 4


def chunks(text: str) -> list[str]:
    """Return a text in 1 to 4 chunks of about the same number of words."""
    words = text.split()
    count = min(CHUNKS_MAX, -(-len(words) // CHUNK_WORDS))
    if count <= 1:
        return [text]
    size = -(-len(words) // count)
    return [" ".join(words[first : first + size]) for first in range(0, len(words), size)]
