"""Which pictures, files and sounds a provider accepts, and what they cost.

Others are replaced by a placeholder and reported. docs/reference/provider-rules.md has the source
of every rule and number.
"""

from __future__ import annotations

import base64
import binascii
import re
from math import ceil
from typing import TYPE_CHECKING, Final

import msgspec

from treering.model.messages import AssistantMessage, Repair, UserMessage
from treering.model.pictures import picture_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.context.dialects import Dialect
    from treering.model.messages import Media, ModelMessage, Result

HEAD_CHARACTERS: Final = 262_144
"""Base64 characters of a picture that are read: its size comes before its pixels."""
SOUND_BYTES_PER_SECOND: Final = 4_000
"""A sound of unknown length has at least this many bytes per second."""
PAGE_BYTES: Final = 50_000
"""Bytes per page of a document whose pages cannot be counted."""
_PAGE: Final = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")

PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
SOUNDS: Final = frozenset({"audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3"})
PDF: Final = "application/pdf"
GEMINI: Final = frozenset({
    "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif",
    "audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3", "audio/aiff", "audio/aac", "audio/ogg",
    "audio/flac", PDF,
    "video/mp4", "video/mpeg", "video/webm", "video/quicktime",
})  # fmt: skip
TAKEN: Final[dict[str, frozenset[str]]] = {
    "openai-chat": PICTURES | SOUNDS | {PDF},
    "openai-responses": PICTURES | {PDF},
    "anthropic": PICTURES | {PDF},
    "gemini": GEMINI,
    "plain": frozenset(),
}
"""File types that each dialect accepts."""
LINKED: Final[dict[str, frozenset[str]]] = {
    "openai-chat": frozenset({"image"}),
    "openai-responses": frozenset({"image", "file"}),
    "anthropic": frozenset({"image", "file"}),
}
"""What the provider may read from a URL."""
BYTES_MAX: Final[dict[str, int]] = {
    "openai-chat": 36_000_000,
    "openai-responses": 36_000_000,
    "anthropic": 24_000_000,
    "gemini": 15_000_000,
}
"""Bytes of files in one request; older files are left out. Base64 adds a third, and the rest of the
request needs room, too."""
FILE_BYTES_MAX: Final[dict[str, int]] = {"anthropic": 3_750_000}
"""Bytes of one picture."""
COUNT_MAX: Final[dict[str, int]] = {"anthropic": 100, "openai-chat": 500, "openai-responses": 500}
"""Pictures in one request."""
PIXELS_MAX: Final[dict[str, int]] = {"anthropic": 8_000}
"""Maximum length of each side of a picture."""
FEW: Final[dict[str, int]] = {"anthropic": 20}
FEW_PIXELS_MAX: Final = 2_000
"""If one picture has a longer side, only a few are allowed in the request."""
PAGES_MAX: Final[dict[str, int]] = {"anthropic": 100}
"""Pages of documents in one request."""
PLACEHOLDER_TOKENS: Final = 10
"""The least that a placeholder costs."""
UNKNOWN_SIZE: Final = (1_568, 1_568)
"""The assumed size of a picture whose size is unknown."""

_OLDER_CLAUDE: Final = re.compile(r"claude-(?:[1-3]|instant)|claude-(?:\w+-)?4(?:-[0-6])?(?!\d)")
_OLDER_GEMINI: Final = re.compile(r"gemini-[12]")


def with_media(
    messages: Sequence[ModelMessage], dialect: Dialect, model: str | None
) -> tuple[list[ModelMessage], list[Repair]]:
    """Return ``messages`` with the accepted files, priced, and placeholders for the others."""
    if not any(True for message in messages for _ in _all_media(message)):
        return list(messages), []
    choice = _Choice(dialect, model)
    # Newest first: the oldest files are left out.
    chosen = [choice.message(message) for message in reversed(messages)]
    return chosen[::-1], choice.repairs[::-1]


def media_tokens_of(media: Media, dialect: Dialect, model: str | None) -> int:
    """Return the tokens that a file takes in a context, as itself or as a placeholder."""
    if _Choice(dialect, model).refuses(media):
        return PLACEHOLDER_TOKENS
    return tokens_of(media, dialect, model or "")


def without_media(message: ModelMessage) -> ModelMessage:
    """Return ``message`` with placeholders for all its files."""
    if isinstance(message, UserMessage):
        if not message.media:
            return message
        text = _with_placeholders(message.text, message.media)
        return msgspec.structs.replace(message, text=text, media=())
    if not any(result.media for result in message.results):
        return message
    results = tuple(
        msgspec.structs.replace(
            result, output=_with_placeholders(result.output, result.media), media=()
        )
        for result in message.results
    )
    return msgspec.structs.replace(message, results=results)


def media_ids(message: ModelMessage) -> list[str | None]:
    """Return the event of each file in a message."""
    if isinstance(message, UserMessage):
        return [message.event_ids[0] if message.event_ids else None for _ in message.media]
    return [result.event_id for result in message.results for _ in result.media]


class _Choice:
    """Chooses the files to send, from the newest message to the oldest."""

    def __init__(self, dialect: Dialect, model: str | None) -> None:
        self.repairs: list[Repair] = []
        self._dialect = dialect
        self._model = model or ""
        self._bytes = 0
        self._count = 0
        self._wide = False
        """Whether one picture is larger than allowed among many."""
        self._pages = 0

    def message(self, message: ModelMessage) -> ModelMessage:
        """Return a message with its accepted files."""
        if isinstance(message, AssistantMessage):
            results = [self._result(result) for result in reversed(message.results)]
            return msgspec.structs.replace(message, results=tuple(reversed(results)))
        event_id = message.event_ids[0] if message.event_ids else None
        accepted, left = self._sorted(message.media, event_id)
        return msgspec.structs.replace(
            message, text=_with_placeholders(message.text, left), media=accepted
        )

    def _result(self, result: Result) -> Result:
        accepted, left = self._sorted(result.media, result.event_id)
        return msgspec.structs.replace(
            result, output=_with_placeholders(result.output, left), media=accepted
        )

    def _sorted(
        self, media: Sequence[Media], event_id: str | None
    ) -> tuple[tuple[Media, ...], list[Media]]:
        accepted: list[Media] = []
        left: list[Media] = []
        for attachment in reversed(media):
            why = self.refuses(attachment)
            if why is None:
                tokens = tokens_of(attachment, self._dialect, self._model)
                accepted.append(msgspec.structs.replace(attachment, tokens=tokens))
                self._bytes += attachment.size
                self._count += 1
                self._wide = self._wide or _edge(attachment) > FEW_PIXELS_MAX
                self._pages += (
                    pages_of(attachment)
                    if attachment.mime == PDF and attachment.data is not None
                    else 0
                )
            else:
                left.append(attachment)
                detail = f"{attachment.mime or attachment.sort}: {why}"
                self.repairs.append(
                    Repair(code="left_out_attachment", event_id=event_id, detail=detail)
                )
        return tuple(accepted[::-1]), left[::-1]

    def refuses(self, media: Media) -> str | None:
        """Return why the provider would refuse a file; None if it accepts it."""
        dialect = self._dialect
        if media.url is not None:
            takes = media.sort in LINKED.get(dialect, ()) and media.url.startswith("https://")
            return None if takes else f"{dialect} does not read it from where it lies"
        if media.mime not in TAKEN[dialect] or media.data is None:
            return f"{dialect} does not take it"
        if not media.size:
            return "it is empty"
        if self._bytes + media.size > BYTES_MAX[dialect]:
            return "it is too large"
        if self._count >= COUNT_MAX.get(dialect, 3_000):
            return "there are too many"
        if media.mime == PDF and dialect in PAGES_MAX:
            too_long = self._pages + pages_of(media) > PAGES_MAX[dialect]
            return "it has too many pages" if too_long else None
        return self._refuses_picture(media) if media.sort == "image" else None

    def _refuses_picture(self, picture: Media) -> str | None:
        if picture.size > FILE_BYTES_MAX.get(self._dialect, picture.size):
            return "it is too large"
        if self._dialect not in PIXELS_MAX:
            return None
        edge = _edge(picture)
        if edge > PIXELS_MAX[self._dialect]:
            return "it is too large"
        wide = self._wide or edge > FEW_PIXELS_MAX
        return "there are too many" if wide and self._count >= FEW[self._dialect] else None


def tokens_of(media: Media, dialect: Dialect, model: str) -> int:
    """Return the provider's price of a file in tokens."""
    if media.sort == "image":
        size = size_of(media) or UNKNOWN_SIZE
        match dialect:
            case "anthropic":
                return _claude_tokens(size, model)
            case "gemini":
                return _gemini_tokens(size, model)
            case _:
                return _openai_tokens(size, model)
    if media.sort == "audio":
        return seconds_of(media) * (32 if dialect == "gemini" else 10)
    if media.sort == "video":
        return seconds_of(media) * 300
    # A page is both read and viewed; Gemini only views it.
    page = 560 if dialect == "gemini" else 3_000 + (1_600 if dialect == "anthropic" else 1_100)
    return pages_of(media) * page if media.data is not None else 10 * page


def _claude_tokens(size: tuple[int, int], model: str) -> int:
    edge, most = (1_568, 1_600) if _OLDER_CLAUDE.search(model) else (2_576, 4_784)
    scale = min(1.0, edge / max(*size, 1))
    width, height = (ceil(side * scale) for side in size)
    return max(1, min(ceil(width * height / 750), most))


def _gemini_tokens(size: tuple[int, int], model: str) -> int:
    width, height = size
    tiles = 1 if max(size) <= 384 else ceil(width / 768) * ceil(height / 768)
    if _OLDER_GEMINI.search(model):
        return 258 * tiles
    # Later models charge the same for every picture; without a model the higher price counts.
    return 1_120 if model else max(1_120, 258 * tiles)


def _openai_tokens(size: tuple[int, int], model: str) -> int:
    width, height = size
    patches = ceil(width / 32) * ceil(height / 32)
    if "nano" in model or "mini" in model:
        if "4o-mini" in model:
            return 2_833 + 5_667 * _tiles(size)
        return ceil(min(patches, 1_536) * (2.46 if "nano" in model else 1.72))
    tiled = 85 + 170 * _tiles(size)
    if re.match(r"(gpt-4|gpt-5$|gpt-5-|o[1-4]|chatgpt-4)", model):
        return tiled
    # Later models count patches of 32 pixels. Without a model the higher price counts.
    return ceil(patches * 1.2) if model else max(tiled, ceil(patches * 1.2))


def _tiles(size: tuple[int, int]) -> int:
    """Return the number of 512-pixel tiles in a picture, scaled down as OpenAI does."""
    scale = min(1.0, 2_048 / max(*size, 1))
    width, height = size[0] * scale, size[1] * scale
    scale = min(1.0, 768 / max(min(width, height), 1))
    return ceil(width * scale / 512) * ceil(height * scale / 512)


def _edge(media: Media) -> int:
    """Return the longer side of a picture in pixels; 0 if it is not one, or unknown."""
    return max(size_of(media) or (0,)) if media.sort == "image" and media.data is not None else 0


def _with_placeholders(text: str, left: Sequence[Media]) -> str:
    """Return a text followed by a placeholder for each of ``left``."""
    if not left:
        return text
    lines = [attachment.placeholder() for attachment in left]
    return "\n".join([text, *lines] if text.strip() else lines)


def _all_media(message: ModelMessage) -> Iterator[Media]:
    if isinstance(message, UserMessage):
        yield from message.media
    else:
        for result in message.results:
            yield from result.media


def size_of(media: Media) -> tuple[int, int] | None:
    """Return width and height of a picture in pixels; None if unknown."""
    facts = picture_in(_bytes(media, HEAD_CHARACTERS))
    return None if facts is None else (facts.width, facts.height)


def seconds_of(media: Media) -> int:
    """Return the length of a sound, rounded up."""
    head = _bytes(media, 64)
    per_second = SOUND_BYTES_PER_SECOND
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE" and len(head) >= 32:
        per_second = int.from_bytes(head[28:32], "little") or per_second
    return max(1, ceil(media.size / per_second))


def pages_of(media: Media) -> int:
    """Return the number of pages of a document, counted or estimated."""
    counted = len(_PAGE.findall(_bytes(media, None)))
    return counted or max(1, ceil(media.size / PAGE_BYTES))


def _bytes(media: Media, characters: int | None) -> bytes:
    text = (media.data or "")[:characters]
    text = text.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text[: len(text) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""
