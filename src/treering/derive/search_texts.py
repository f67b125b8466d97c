"""What an event says: the text by which it is found, its files and its tool.

A search by words reads all of the text, one by meaning the main content, in a few chunks. What
editors and agents put around a user's own words in a message is not read as theirs: open files,
reminders, rules of the project, output of local commands. Facts and episodes have texts of
their own.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.lazy import LazyModule, lazy_pattern
from treering.model.kinds import ERASURE_KINDS, KINDS, STATE_KINDS
from treering.model.search_words import spelt, tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from treering.model.events import Event, Header
    from treering.rules import claims
else:
    claims = LazyModule("treering.rules.claims")

TEXT_CHARACTERS_MAX: Final = 1_000_000
"""Per event, more than agents print. Of a longer text the beginning and the end are indexed."""
_TAIL: Final = 4
"""The share of the end in a clipped text: one part in four."""
_COMMAND_CHARACTERS_MAX: Final = 4_000
"""Characters of a command in which paths are searched."""
WIDE_CHARACTERS_MAX: Final = 1_050_000
"""Characters read before clipping, so that a secret at the edge is masked whole."""
STRINGS_MAX: Final = 20_000
FILES_MAX: Final = 50
FILE_CHARACTERS_MAX: Final = 400
DEPTH_MAX: Final = 20
_UNREADABLE: Final = 256
"""A longer string without a blank is not text."""

CHUNKED_CHARACTERS_MAX: Final = 4_000
"""Of a longer text, hybrid and semantic search compare the beginning and the end."""
CHUNK_WORDS: Final = 40
"""About two sentences: the vector of a longer text blurs what it says."""
CHUNKS_MAX: Final = 4
_NOTES: Final = frozenset({
    "boundary.checkpoint", "boundary.intent", "context.compacted", "goal.added", "inbox.received",
    "ops.alert", "ops.decision", "ops.error", "ops.observation", "session.titled",
})  # fmt: skip

TEXT_KINDS: Final = frozenset(
    name for name, kind in KINDS.items() if kind.role == "item" or name in _NOTES
)
"""Kinds with content. Other kinds only say that something began, ended or was counted."""

_UNSEARCHED: Final = ERASURE_KINDS | STATE_KINDS

_REPEATED_MAX: Final = 400
"""A shorter text may be the beginning of another one."""
_BEGINNINGS_MAX: Final = 8

_PASSED_OVER: Final = frozenset({
    "call_id", "data", "duration_ms", "encrypted_content", "id", "message_id", "parentUuid",
    "requestId", "request_id", "session_id", "sessionId", "signature", "status", "thoughtSignature",
    "timestamp", "type", "uuid",
})  # fmt: skip
"""Fields that name or measure, without content."""
_SAYING: Final = (
    "text", "content", "title", "summary", "thinking", "output", "error", "message", "command",
)  # fmt: skip
"""Fields with the main content of an event."""
_NOT_MORE: Final = _PASSED_OVER.union(_SAYING)
_PATHS: Final = frozenset({
    "absolute_path", "dir_path", "file", "file_name", "file_path", "filePath", "filename", "files",
    "notebook_path", "path", "paths", "relative_workspace_path", "target_file",
})  # fmt: skip
_ASKED: Final = ("command", "cmd", "script", "query", "pattern", "url")
"""Short inputs of tools."""
_COMMANDS: Final = frozenset({"cmd", "command", "commands", "input", "patch", "script"})
_PATCHED: Final = lazy_pattern(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$|^(?:\+\+\+|---) [ab]/(\S+)",
    re.MULTILINE,
)
# Not a possessive group: up to Python 3.11.4 it would match past an unclosed bracket.
_PART: Final = r"(?:[\w.@+-]++|\\[ ()\[\]&']|\([\w.@+-]*\)|\[\[?[\w.@+-]*\]?\])+"
"""A part of a path. Balanced brackets belong to it: routes are named app/(group)/[slug]/page.tsx.
"""
_IN_COMMANDS: Final = lazy_pattern(
    rf"(?<![\w./:~-])(?:~|\.{{1,2}})?(?:/?{_PART}/)+{_PART}|(?<![\w./:-])[\w-]+\.[A-Za-z]\w{{0,5}}\b"
)
_ESCAPED: Final = lazy_pattern(r"\\(.)")
_QUOTED: Final = lazy_pattern(r"""\"([^\"\n]{1,400})\"|'([^'\n]{1,400})'""")
_SPACED: Final = lazy_pattern(
    r"(?=[~/.]|.*\.\w{1,8}$)(?:[\w.@+,&()\[\]~-][\w.@+,&()\[\]~ -]*+)?"
    r"(?:/[\w.@+,&()\[\] -]++)+"
)
"""A path with blanks, which must be quoted: absolute, relative, or with an extension."""
_BLANKS: Final = lazy_pattern(r"\s")


# Tuples: a union of types is made, and asked, far more slowly.
_CONTAINERS: Final = (dict, list)
_NUMBERS: Final = (int, float)


class SearchText(msgspec.Struct, frozen=True, gc=False):
    """Normalised words separated by blanks."""

    words: str
    pieces: str
    """Parts of camel-case names."""
    files: str
    names: str
    """Names in code, to be found by what is inside of them."""
    tool: str | None


def is_searchable(event: Header) -> bool:
    """Return whether an event has searchable content."""
    return event.kind not in _UNSEARCHED and not event.redacted and not event.expired


def search_text(event: Event) -> SearchText:
    """Return the searchable words of an event whose secrets are already masked."""
    files = files_in(event)
    tokens = tokens_of(text_of(event), " ".join(files))
    return SearchText(
        words=tokens.words,
        pieces=tokens.pieces,
        # A word that occurs nowhere keeps phrases from matching across files.
        files=" _ ".join(map(spelt, files)),
        names=tokens.names,
        tool=tool_of(event),
    )


def text_of(event: Event) -> str:
    """Return the text of an event, clipped to its beginning and end."""
    content = "\n".join(_strings(event.payload))
    summary = event.summary
    if not content:
        text = summary
    elif summary[:40].rstrip(" …") in content:
        text = content
    else:
        text = f"{summary}\n{content}"
    return clip(text)


def texts_of(event: Event) -> Iterator[str]:
    """Yield texts of an event, most natural first: its main content, its summary, all of it."""
    for source in (_said(event), event.summary, event.payload):
        text = clip("\n".join(_strings(source)))
        if text:
            yield text
    yield text_of(event)


def event_texts(event: Event) -> list[str]:
    """Return the text of an event, in a few chunks if it is long; empty if it has none."""
    if event.kind not in TEXT_KINDS or event.redacted:
        return []
    text = next(texts_of(event), "").strip()
    if event.kind == "conversation.user":
        text = own_words(text) or text
    return chunks(clip(text, CHUNKED_CHARACTERS_MAX)) if text else []


def chunks(text: str) -> list[str]:
    """Return a text in 1 to 4 chunks of about the same number of words."""
    words = text.split()
    count = min(CHUNKS_MAX, -(-len(words) // CHUNK_WORDS))
    if count <= 1:
        return [text]
    size = -(-len(words) // count)
    return [" ".join(words[first : first + size]) for first in range(0, len(words), size)]


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
    """Return the files that a tool was given or that refs name, without duplicates."""
    paths: dict[str, None] = {}
    payload = event.payload if isinstance(event.payload, dict) else {}
    arguments = (
        payload.get("input", payload.get("arguments", payload))
        if event.kind == "tool.call"
        else None
    )
    for part in (event.refs, arguments):
        for path in _files(part, "", 0):
            if 0 < len(path) <= FILE_CHARACTERS_MAX:
                paths[path] = None
            if len(paths) >= FILES_MAX:
                return list(paths)
    return list(paths)


def _said(event: Event) -> Any:
    """Return the main content of a payload."""
    payload = event.payload
    if event.kind == "tool.call" and isinstance(payload, dict):
        arguments = payload.get("input", payload.get("arguments"))
        if isinstance(arguments, dict):
            first = [arguments[key] for key in _ASKED if key in arguments]
            paths = [item for key, item in arguments.items() if key in _PATHS]
            return [_plain(item, 0) for item in (*first, *paths, *arguments.values())]
        payload = arguments or payload
    return _plain(payload, 0)


def _plain(value: Any, depth: int) -> Any:
    """Return the main content of a value, without names, models and numbers."""
    if depth > DEPTH_MAX or not isinstance(value, dict | list | str):
        return None
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value[:STRINGS_MAX]]
    if isinstance(value, dict):
        content = [value[key] for key in _SAYING if value.get(key)]
        return [_plain(item, depth + 1) for item in content or _items(value)]
    return value


def clip(text: str, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """Return a text, or its beginning and end if it is longer."""
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
            yield from (patched or diffed for patched, diffed in _PATCHED.findall(text))
            if name != "patch":
                yield from _paths_in(text[:_COMMAND_CHARACTERS_MAX])


def _paths_in(command: str) -> Iterator[str]:
    """Yield the paths in a command, as the shell would read them."""
    for quoted in _QUOTED.finditer(command):
        path = quoted[1] or quoted[2]
        if " " in path and _SPACED.fullmatch(path):
            yield path
            command = command.replace(quoted[0], " ")
    for path in _IN_COMMANDS.findall(command):
        yield _ESCAPED.sub(r"\1", path)


def _strings(payload: Any) -> list[str]:
    """Return the distinct texts in a payload, in order, up to the size limit."""
    walked: list[str] = []
    _walk(payload, 0, walked)
    if not walked or (len(walked) == 1 and _is_read_whole(walked[0])):
        return walked
    texts: dict[str, None] = {}
    beginnings: list[str] = []
    room = WIDE_CHARACTERS_MAX
    for text in walked:
        beginning = " ".join(text[:_REPEATED_MAX].split())
        if text in texts or (len(text) < _REPEATED_MAX and _repeats(beginning, beginnings)):
            continue
        if len(beginnings) < _BEGINNINGS_MAX:
            beginnings.append(beginning)
        if not _is_readable(text):
            continue
        clipped_text = (
            text if len(text) <= room else f"{text[: room // 2]}\n…\n{text[-(room // 2) :]}"
        )
        texts[clipped_text] = None
        room -= len(clipped_text)
        if room <= 0 or len(texts) >= STRINGS_MAX:
            break
    return list(texts)


def _is_read_whole(text: str) -> bool:
    return len(text) <= WIDE_CHARACTERS_MAX and _is_readable(text)


def _is_readable(text: str) -> bool:
    return (
        len(text) <= _UNREADABLE
        or _BLANKS.search(text[:_UNREADABLE]) is not None
        or not text.isascii()
    )


def _repeats(text: str, beginnings: list[str]) -> bool:
    """Return whether a one-line text is the beginning of another, cut or at the end of a word."""
    is_cut = text.endswith("…")
    beginning = text[:-1].rstrip() if is_cut else text
    return any(
        text_before.startswith(beginning)
        and (is_cut or not text_before[len(beginning) : len(beginning) + 1].isalnum())
        for text_before in beginnings
    )


def _walk(value: Any, depth: int, texts: list[str]) -> None:
    """Append the texts and numbers in a value to ``texts``."""
    if isinstance(value, str):
        if value:
            texts.append(value)
    elif isinstance(value, _CONTAINERS):
        if depth <= DEPTH_MAX:
            for item in _items(value):
                _walk(item, depth + 1, texts)
    elif isinstance(value, _NUMBERS) and not isinstance(value, bool) and depth:
        texts.append(str(value))


def _items(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    """Return the parts of a value, most meaningful first: stored fields have no order."""
    if isinstance(value, list):
        return value
    if len(value) == 1:
        return [item for key, item in value.items() if key not in _PASSED_OVER]
    first = [value[key] for key in _SAYING if key in value]
    return first + [item for key, item in value.items() if key not in _NOT_MORE]


_TAGS: Final = (
    r"system[-_]reminder|environment_(?:context|details)|user_instructions|instructions|ide_\w+"
    r"|git-context|local-command-\w+|command-(?:name|message|args|contents)|bash-\w+|attached_files"
    r"|open_and_recently_viewed_files|user_info|user_rules|editor_context|terminal_selection"
    r"|additional_data|task-notification|context_window|project_layout|git_status|current_datetime"
    r"|turn_aborted|skill|session_context|hook_context|user-prompt-submit-hook"
)
_OPENED: Final = lazy_pattern(rf"<(?P<tag>{_TAGS})(?: [^<>\n]{{0,200}})?>", re.IGNORECASE)
_USER_QUERY: Final = lazy_pattern(
    r"<user_query>\s*(?P<words>.*?)\s*(?:</user_query>|\Z)", re.DOTALL
)
_EDITOR: Final = lazy_pattern(
    r"\s*# Context from my IDE setup:.*?(?:^## My request for \w+:\s*|\Z)", re.DOTALL | re.MULTILINE
)
_RULES: Final = lazy_pattern(
    r"^\s*# (?:AGENTS|CLAUDE|GEMINI)\.md instructions for \S+\s*$", re.MULTILINE
)
_FOREIGN: Final = lazy_pattern(
    r"\s*(?:Caveat: The messages below were generated by the user while running local commands"
    r"|This session is being continued from a previous conversation that ran out of context"
    r"|\[Request interrupted by user)"
)
"""Beginnings of messages that nobody typed."""


def own_words(text: str) -> str:
    """Return what the user said in a message; empty if all of it comes from a program."""
    if "<" not in text and "#" not in text and _FOREIGN.match(text) is None:
        return text
    asked = _USER_QUERY.search(text)
    if asked is not None:
        return asked["words"]
    if _FOREIGN.match(text) is not None:
        return ""
    own = _RULES.sub("", _EDITOR.sub("", _untagged(text), count=1))
    return text if own == text else own.strip()


def _untagged(text: str) -> str:
    """Return a text without tagged parts; a tag that is not closed is a word like any other.

    At the beginning it is the rest that is not closed: nobody begins with such a tag.
    """
    parts, start, unclosed = [], 0, set[str]()
    for opened in _OPENED.finditer(text):
        close = f"</{opened['tag']}>"
        if opened.start() < start or close in unclosed:
            continue
        end = text.find(close, opened.end())
        if end < 0 and text[: opened.start()].strip():
            unclosed.add(close)
            continue
        parts.append(text[start : opened.start()])
        start = len(text) if end < 0 else end + len(close)
    return "".join((*parts, text[start:]))


WORDS_HELD: Final = 1_024


def memory_texts(event: Event) -> list[str]:
    """Return the texts by which a memory event is found; empty if it has none."""
    content = event.payload if isinstance(event.payload, dict) else {}
    if event.kind == "episode.written":
        summary = content.get("summary")
        return [" ".join([summary, *_topics(content)])] if isinstance(summary, str) else []
    text = content.get("text")
    return [fact_text(text)] if isinstance(text, str) and text else []


def fact_text(text: str) -> str:
    """Return the text of a fact with the name of its attribute.

    A person who moved to a town has a residence, even if nobody says so.
    """
    attribute = claims.read_claim(text).attribute
    return text if attribute is None else f"{text} {attribute}"


@lru_cache(maxsize=WORDS_HELD)
def asked_attributes(word: str) -> tuple[str, ...]:
    """Return the names of the attributes that a word of a question asks for: a wife is a spouse."""
    from treering.rules.claim_attributes import known_attribute  # noqa: PLC0415  (slow to load)

    named = (known_attribute(phrase) for phrase in (word, f"{word} in", f"{word} at", f"{word} as"))
    return tuple(dict.fromkeys(name for name in named if name is not None and name != word))


def _topics(content: dict[str, Any]) -> list[str]:
    topics = content.get("topics")
    return [topic for topic in topics if isinstance(topic, str)] if isinstance(topics, list) else []
