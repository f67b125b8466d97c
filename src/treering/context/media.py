"""Finds pictures, files and sounds in events, in any provider's format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from treering.model.messages import Media, MediaSort

ATTACHMENT_FIELDS: Final = (
    "attachments",
    "attached",
    "images",
    "files",
    "media",
    "content",
    "parts",
)
"""Fields in which events keep attachments."""
LEVELS_MAX: Final = 12
"""How deep tool output is searched."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,")
_MAGIC: Final = (
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGODlh", "image/gif"),
    ("R0lGODdh", "image/gif"),
    ("UklGR", "image/webp"),
    ("JVBERi0", "application/pdf"),
    ("SUQz", "audio/mpeg"),
    ("T2dnUw", "audio/ogg"),
)
"""First base64 characters of well-known file types."""
_BEGINNINGS: Final = ("data:", *(prefix for prefix, _ in _MAGIC))
_BARE_CHARACTERS_MIN: Final = 64
"""Shorter texts are not files, whatever they begin with."""
_TYPES: Final[dict[str, str]] = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
    "webp": "image/webp", "wav": "audio/wav", "mp3": "audio/mpeg", "pdf": "application/pdf",
}  # fmt: skip


def media_of(part: Any) -> Media | None:
    """Return the file in ``part``, in any provider's format; None if there is none."""
    if isinstance(part, str):
        return _in_text(part)
    if not isinstance(part, Mapping):
        return None
    for name in ("inlineData", "inline_data", "fileData", "file_data", "source", "resource"):
        inner = part.get(name)
        if isinstance(inner, Mapping) and (media_file := _plain(inner, part)) is not None:
            return media_file
    part_type = part.get("type")
    match part_type:
        case "image_url" | "input_image":
            return _linked(part.get("image_url"), "image", part) or _filed(part, "image")
        case "image" if part.get("image_url"):
            return _linked(part["image_url"], "image", part)
        case "input_audio" if isinstance(part.get("input_audio"), Mapping):
            return _plain(part["input_audio"], part)
        case "file" | "input_file":
            inner = part.get("file")
            file = inner if isinstance(inner, Mapping) else part
            media_file = _linked(file.get("file_data") or file.get("file_url"), "file", file)
            return media_file or _filed(file, "file") or _plain(file, part)
        case "image" | "audio" | "video" | "document" | "media":
            return _plain(part, part)
    mime = _mime_of(part)
    return _plain(part, part) if mime and ("data" in part or "base64" in part) else None


def split_media(value: Any, levels: int = LEVELS_MAX) -> tuple[Any, list[Media]]:
    """Return ``value`` without the files in it, and those files, in order.

    In a list they leave no gap; elsewhere a word replaces each.
    """
    if isinstance(value, str):
        media_file = _in_text(value)
        return (value, []) if media_file is None else ("", [media_file])
    if not isinstance(value, dict | list) or levels == 0:
        return value, []
    own = media_of(value) if isinstance(value, dict) else None
    if own is not None:
        return "", [own]
    media: list[Media] = []
    if isinstance(value, list):
        rests = []
        for item in value:
            rest, inner = split_media(item, levels - 1)
            media += inner
            if not inner or rest != "":
                rests.append(rest)
        return (rests, media) if media else (value, media)
    fields = {}
    for name, item in value.items():
        rest, inner = split_media(item, levels - 1)
        media += inner
        fields[name] = f"[{inner[0].sort}]" if inner and rest == "" else rest
    return (fields, media) if media else (value, media)


def attachments_of(payload: Any) -> list[Media]:
    """Return the attachments of a message, in any field."""
    if isinstance(payload, list):
        return [media_file for part in payload if (media_file := media_of(part)) is not None]
    if not isinstance(payload, dict):
        return []
    media: list[Media] = []
    for name in ATTACHMENT_FIELDS:
        value = payload.get(name)
        for part in (
            value if isinstance(value, list) else [value] if isinstance(value, dict) else []
        ):
            # A message text is text, whatever it begins with.
            media_file = media_of(part) if isinstance(part, Mapping) or name == "images" else None
            if media_file is not None and media_file not in media:
                media.append(media_file)
    return media


def _plain(fields: Mapping[str, Any], part: Mapping[str, Any]) -> Media | None:
    """Return a file that has its bytes or its URL, and perhaps its type."""
    if fields.get("type") == "text":
        return None
    mime = _mime_of(fields) or _mime_of(part)
    name = _text(part, "filename", "title", "name") or _text(fields, "filename", "title", "name")
    address = _text(fields, "url", "fileUri", "file_uri", "uri")
    data = _text(fields, "data", "base64", "blob", "bytes")
    if data is not None and data.startswith("data:"):
        address, data = data, None
    if data is not None and _BASE64.fullmatch(data):
        mime = mime or _sniffed(data) or ""
        return Media(sort=_sort_of(mime, part), mime=mime, data=_standard(data), name=name)
    if address is None:
        return None
    if (inline := _in_text(address)) is not None:
        return Media(sort=inline.sort, mime=mime or inline.mime, data=inline.data, name=name)
    if fields.get("type") == "text" or "text" in fields:
        return None
    return Media(sort=_sort_of(mime, part), mime=mime, url=address, name=name)


def _linked(address: Any, sort: MediaSort, part: Mapping[str, Any]) -> Media | None:
    """Return a file that OpenAI's formats name by URL or contain in a data URL."""
    if isinstance(address, Mapping):
        address = address.get("url")
    if not isinstance(address, str) or not address:
        return None
    name = _text(part, "filename", "name")
    inline = _in_text(address)
    if inline is not None:
        return Media(sort=inline.sort, mime=inline.mime, data=inline.data, name=name)
    if _BASE64.fullmatch(address) and "://" not in address:
        mime = _sniffed(address) or ""
        return Media(sort=_sort_of(mime, part), mime=mime, data=_standard(address), name=name)
    return Media(sort=sort, mime=_named_type(address), url=address, name=name)


def _filed(part: Mapping[str, Any], sort: MediaSort) -> Media | None:
    """Return a file that only its provider has, under an id."""
    name = _text(part, "file_id")
    return None if name is None else Media(sort=sort, name=name)


def _in_text(text: str) -> Media | None:
    """Return the file that a text is: a data URL, or the bare base64 of a well-known type."""
    if not text.startswith(_BEGINNINGS):
        return None
    if text.startswith("data:") and (match := _DATA_URL.match(text)) is not None:
        data = text[match.end() :]
        if data and _BASE64.fullmatch(data):
            mime = match[1] or _sniffed(data) or ""
            return Media(sort=_sort_of(mime, {}), mime=mime, data=_standard(data))
    if len(text) >= _BARE_CHARACTERS_MIN:
        mime = _sniffed(text) or ""
        if mime and _BASE64.fullmatch(text):
            return Media(sort=_sort_of(mime, {}), mime=mime, data=_standard(text))
    return None


def _standard(data: str) -> str:
    """Return base64 in the standard alphabet, padded."""
    if "-" in data or "_" in data:
        data = data.replace("-", "+").replace("_", "/")
    return data + "=" * (-len(data) % 4)


def _sniffed(data: str) -> str | None:
    for prefix, mime in _MAGIC:
        if data.startswith(prefix):
            # Both are RIFF files; the bytes after the size distinguish them.
            return "audio/wav" if prefix == "UklGR" and data[11:16] == "XQVZF" else mime
    return None


def _mime_of(fields: Mapping[str, Any]) -> str:
    mime = _text(fields, "media_type", "mediaType", "mimeType", "mime_type", "mime")
    if mime is not None:
        return mime.lower()
    kind = _text(fields, "format")
    return _TYPES.get(kind.lower(), "") if kind is not None else ""


def _named_type(address: str) -> str:
    ending = address.split("?", maxsplit=1)[0].rsplit(".", 1)[-1].lower()
    return _TYPES.get(ending, "")


def _sort_of(mime: str, part: Mapping[str, Any]) -> MediaSort:
    given_type = mime or part.get("type")
    named = given_type if isinstance(given_type, str) else ""
    if named.startswith(("image", "input_image")):
        return "image"
    if named.startswith(("audio", "input_audio")):
        return "audio"
    return "video" if named.startswith("video") else "file"


def _text(fields: Mapping[str, Any], *names: str) -> str | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value
    return None
