"""Pictures, files and sounds that go with a message, before any provider's spelling."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

MediaSort = Literal["image", "file", "audio", "video"]


class Media(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that is seen or heard, not read: its bytes, or where they lie."""

    sort: MediaSort
    mime: str = ""
    """Such as image/png; empty if nobody says."""
    data: str | None = None
    """Its bytes in base64."""
    url: str | None = None
    name: str | None = None
    """What the file is called."""
    tokens: int = 0
    """What it costs with the provider that is asked."""

    @property
    def size(self) -> int:
        """Return how many bytes it has; 0 if they lie elsewhere."""
        if self.data is None:
            return 0
        return len(self.data) // 4 * 3 - self.data.count("=", -2)

    def placeholder(self) -> str:
        """Return what stands for it where it cannot be shown."""
        told = [self.mime or self.sort]
        if self.name:
            told.append(self.name)
        if self.url:
            told.append(self.url[:_URL_CHARACTERS_MAX])
        elif self.data is not None:
            told.append(f"{self.size:,} bytes")
        return f"[{self.sort} not shown: {', '.join(told)}]"


_URL_CHARACTERS_MAX: Final = 300
