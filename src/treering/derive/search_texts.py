"""The words by which an event is found: what it says, the files it names, the tool it is about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.lazy import lazy_pattern
from treering.model.kinds import ERASURE_KINDS
from treering.model.search_words import grams_in, pieces_in, spelt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from treering.model.events import Event, Header

TEXT_CHARACTERS_MAX: Final = 1_000_000
"""Of one event: more than agents print. Of a longer one its beginning and its end are found."""
_TAIL: Final = 4
"""The end that is found is so small a part of all that is."""
_COMMAND_CHARACTERS_MAX: Final = 4_000
"""Paths are looked for in so much of a command."""
WIDE_CHARACTERS_MAX: Final = 1_050_000
"""What is looked at before it is clipped, so that a secret is masked whole."""
STRINGS_MAX: Final = 20_000
FILES_MAX: Final = 50
FILE_CHARACTERS_MAX: Final = 400
GRAMS_MAX: Final = 8_000
DEPTH_MAX: Final = 20
_UNREADABLE: Final = 256
"""A string that goes on so long without a blank is no text."""

_REPEATED_MAX: Final = 400
"""A text that is shorter may be how another begins."""
_BEGINNINGS_MAX: Final = 8

_PASSED_OVER: Final = frozenset({
    "call_id", "data", "duration_ms", "encrypted_content", "id", "message_id", "parentUuid",
    "requestId", "request_id", "session_id", "sessionId", "signature", "status", "thoughtSignature",
    "timestamp", "type", "uuid",
})  # fmt: skip
"""Fields that name or measure, and say nothing."""
_SAYING: Final = (
    "text", "content", "title", "summary", "thinking", "output", "error", "message", "command",
)  # fmt: skip
"""Fields that say what an event is about."""
_PATHS: Final = frozenset({
    "absolute_path", "dir_path", "file", "file_name", "file_path", "filePath", "filename", "files",
    "notebook_path", "path", "paths", "relative_workspace_path", "target_file",
})  # fmt: skip
_ASKED: Final = ("command", "cmd", "script", "query", "pattern", "url")
"""What a tool is asked in a few words."""
_COMMANDS: Final = frozenset({"cmd", "command", "commands", "input", "patch", "script"})
_PATCHED: Final = lazy_pattern(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$|^(?:\+\+\+|---) [ab]/(\S+)",
    re.MULTILINE,
)
# Not a possessive group: up to Python 3.11.4 it would go on behind a bracket that is not closed.
_PART: Final = r"(?:[\w.@+-]++|\\[ ()\[\]&']|\([\w.@+-]*\)|\[\[?[\w.@+-]*\]?\])+"
"""A part of a path. Whole brackets belong to it: routes are named app/(group)/[slug]/page.tsx."""
_IN_COMMANDS: Final = lazy_pattern(
    rf"(?<![\w./:~-])(?:~|\.{{1,2}})?(?:/?{_PART}/)+{_PART}|(?<![\w./:-])[\w-]+\.[A-Za-z]\w{{0,5}}\b"
)
_ESCAPED: Final = lazy_pattern(r"\\(.)")
_QUOTED: Final = lazy_pattern(r"""\"([^\"\n]{1,400})\"|'([^'\n]{1,400})'""")
_SPACED: Final = lazy_pattern(
    r"(?=[~/.]|.*\.\w{1,8}$)(?:[\w.@+,&()\[\]~-][\w.@+,&()\[\]~ -]*+)?"
    r"(?:/[\w.@+,&()\[\] -]++)+"
)
"""A path with blanks, which has to be in quotes: from the top, from here, or with an ending."""
_BLANKS: Final = lazy_pattern(r"\s")


class SearchText(msgspec.Struct, frozen=True, gc=False):
    """Words with blanks between them, each in its one spelling."""

    words: str
    pieces: str
    """Parts of names that are joined by capitals."""
    files: str
    grams: str
    """All that is three characters long in names of code."""
    tool: str | None


def is_searchable(event: Header) -> bool:
    """Whether anything can be found in an event."""
    return event.kind not in ERASURE_KINDS and not event.redacted and not event.expired


def search_text(event: Event) -> SearchText:
    """Return the words of an event. Its secrets are masked already."""
    text, files = text_of(event), files_in(event)
    joined = f"{text}\n{' '.join(files)}" if files else text
    return SearchText(
        words=spelt(text),
        pieces=" ".join(dict.fromkeys(pieces_in(joined))),
        # A word that stands nowhere keeps a phrase from going on into the next file.
        files=" _ ".join(map(spelt, files)),
        grams=" ".join(sorted(grams_in(joined))[:GRAMS_MAX]),
        tool=tool_of(event),
    )


def text_of(event: Event) -> str:
    """Return what an event says, its beginning and its end."""
    told = "\n".join(_strings(event.payload))
    summary = event.summary
    if not told:
        text = summary
    elif summary[:40].rstrip(" …") in told:
        text = told
    else:
        text = f"{summary}\n{told}"
    return clipped(text)


def texts_of(event: Event) -> Iterator[str]:
    """Return what an event says, the most natural first: its words, its summary, all of it."""
    for told in (_said(event), event.summary, event.payload):
        text = clipped("\n".join(_strings(told)))
        if text:
            yield text
    yield text_of(event)


def tool_of(event: Event) -> str | None:
    """Return the tool that an event names."""
    if not event.kind.startswith("tool."):
        return None
    for part in (event.payload, event.refs):
        if isinstance(part, dict):
            for name in ("name", "tool"):
                if isinstance(part.get(name), str) and part[name]:
                    return str(part[name])
    return None


def files_in(event: Event) -> list[str]:
    """Return the files that a tool was given, or that refs name, each once."""
    found: dict[str, None] = {}
    given = event.payload if isinstance(event.payload, dict) else {}
    asked = given.get("input", given.get("arguments", given)) if event.kind == "tool.call" else None
    for part in (event.refs, asked):
        for path in _files(part, "", 0):
            if 0 < len(path) <= FILE_CHARACTERS_MAX:
                found[path] = None
            if len(found) >= FILES_MAX:
                return list(found)
    return list(found)


def _said(event: Event) -> Any:
    """Return the part of a payload that says something."""
    payload = event.payload
    if event.kind == "tool.call" and isinstance(payload, dict):
        asked = payload.get("input", payload.get("arguments"))
        if isinstance(asked, dict):
            first = [asked[key] for key in _ASKED if key in asked]
            paths = [item for key, item in asked.items() if key in _PATHS]
            return [_plain(item, 0) for item in (*first, *paths, *asked.values())]
        payload = asked or payload
    return _plain(payload, 0)


def _plain(value: Any, depth: int) -> Any:
    """Return what a value says, without names, models and numbers beside it."""
    if depth > DEPTH_MAX or not isinstance(value, dict | list | str):
        return None
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value[:STRINGS_MAX]]
    if isinstance(value, dict):
        said = [value[key] for key in _SAYING if value.get(key)]
        return [_plain(item, depth + 1) for item in said or _items(value)]
    return value


def clipped(text: str, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """Return a text, or its beginning and its end if it is longer."""
    if len(text) <= characters_max:
        return text
    tail = characters_max // _TAIL
    return f"{text[: characters_max - tail]}\n…\n{text[-tail:]}"


def _files(value: Any, name: str, depth: int) -> Iterator[str]:
    if depth > DEPTH_MAX:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _files(item, key, depth + 1)
    elif isinstance(value, list):
        for item in value[:STRINGS_MAX]:
            yield from _files(item, name, depth + 1)
    elif isinstance(value, str):
        if name in _PATHS:
            yield value.strip()
        elif name in _COMMANDS or not name:
            text = value[:WIDE_CHARACTERS_MAX]
            yield from (one or two for one, two in _PATCHED.findall(text))
            if name != "patch":
                yield from _paths_in(text[:_COMMAND_CHARACTERS_MAX])


def _paths_in(command: str) -> Iterator[str]:
    """Give the paths that stand in a command, as the shell understands them."""
    for found in _QUOTED.finditer(command):
        inside = found[1] or found[2]
        if " " in inside and _SPACED.fullmatch(inside):
            yield inside
            command = command.replace(found[0], " ")
    for path in _IN_COMMANDS.findall(command):
        yield _ESCAPED.sub(r"\1", path)


def _strings(payload: Any) -> list[str]:
    """Return the texts that a payload holds, each once, in order, as far as there is room."""
    found: dict[str, None] = {}
    beginnings: list[str] = []
    room = WIDE_CHARACTERS_MAX
    for text in _walked(payload, 0):
        beginning = " ".join(text[:_REPEATED_MAX].split())
        if text in found or (len(text) < _REPEATED_MAX and _repeats(beginning, beginnings)):
            continue
        if len(beginnings) < _BEGINNINGS_MAX:
            beginnings.append(beginning)
        if len(text) > _UNREADABLE and not _BLANKS.search(text[:_UNREADABLE]) and text.isascii():
            continue
        kept = text if len(text) <= room else f"{text[: room // 2]}\n…\n{text[-(room // 2) :]}"
        found[kept] = None
        room -= len(kept)
        if room <= 0 or len(found) >= STRINGS_MAX:
            break
    return list(found)


def _repeats(text: str, beginnings: list[str]) -> bool:
    """Whether a text on one line is how another begins, cut or at the end of a word."""
    is_cut = text.endswith("…")
    said = text[:-1].rstrip() if is_cut else text
    return any(
        one.startswith(said) and (is_cut or not one[len(said) : len(said) + 1].isalnum())
        for one in beginnings
    )


def _walked(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict | list):
        if depth <= DEPTH_MAX:
            for item in _items(value):
                yield from _walked(item, depth + 1)
    elif isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, int | float) and not isinstance(value, bool) and depth:
        yield str(value)


def _items(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    """Return what a value holds, the parts that say most first: stored fields are in no order."""
    if isinstance(value, list):
        return value
    first = [value[key] for key in _SAYING if key in value]
    return first + [
        item for key, item in value.items() if key not in _PASSED_OVER and key not in _SAYING
    ]
