"""Images, files and audio of a message, independent of any provider."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

MediaSort = Literal["image", "file", "audio", "video"]


class Media(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An attachment: its content, or a link to it."""

    sort: MediaSort
    mime: str = ""
    """Such as image/png; empty if unknown."""
    data: str | None = None
    """Its content in base64."""
    url: str | None = None
    name: str | None = None
    """The file's name."""
    tokens: int = 0
    """Its cost with the requested provider."""

    @property
    def size(self) -> int:
        """Return its size in bytes; 0 if it is only a link."""
        if self.data is None:
            return 0
        return len(self.data) // 4 * 3 - self.data.count("=", -2)

    def placeholder(self) -> str:
        """Return a text that replaces it where it cannot be shown."""
        details = [self.mime or self.sort]
        if self.name:
            details.append(self.name)
        if self.url:
            details.append(self.url[:_URL_CHARACTERS_MAX])
        elif self.data is not None:
            details.append(f"{self.size:,} bytes")
        return f"[{self.sort} not shown: {', '.join(details)}]"


_URL_CHARACTERS_MAX: Final = 300
