"""Keys of events without ids: by their content, and how often that came before."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Final

import msgspec

MARK_CHARACTERS: Final = 8


class KeyRepeats(msgspec.Struct):
    """How often each content came in a file.

    A content is remembered by 48 bits, so that many fit into what is kept between two readings.
    """

    counts: dict[str, int] = {}

    def count(self, content: str) -> int:
        """Return how often ``content`` has come, this time included."""
        mark = _mark(content)
        self.counts[mark] = self.counts.get(mark, 0) + 1
        return self.counts[mark]

    def key(self, content: str) -> str:
        """Return the key of ``content``: itself, with a number from the second time on."""
        count = self.count(content)
        return content if count == 1 else f"{content}.{count}"

    def has(self, content: str) -> bool:
        """Whether ``content`` has come before."""
        return _mark(content) in self.counts

    def packed(self) -> tuple[str, dict[str, int]]:
        """Return the marks of contents that came once, as one text, and counts of the others."""
        once = "".join(mark for mark, count in self.counts.items() if count == 1)
        return once, {mark: count for mark, count in self.counts.items() if count > 1}

    @classmethod
    def unpack(cls, once: str, again: dict[str, int]) -> KeyRepeats:
        """Return the counts that ``packed`` returned."""
        starts = range(0, len(once), MARK_CHARACTERS)
        return cls({once[at : at + MARK_CHARACTERS]: 1 for at in starts} | again)


def _mark(content: str) -> str:
    return urlsafe_b64encode(sha256(content.encode()).digest()[:6]).decode()
