"""OpenClaw's session logs: pi's format, with ways of its own to name, mirror and mend."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from treering.formats.loose import (
    blocks_of,
    bounded,
    digest,
    fields_of,
    name,
    text_of,
    without_none,
)
from treering.formats.pi import PiReader, family_score, id_in_name
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import PurePath

    from treering.formats.event_content import EventContent
    from treering.formats.parsed import SessionHeader

NAME: Final = "openclaw"

INDEX: Final = "sessions.json"
INDEX_BYTES_MAX: Final = 64 * 1024 * 1024
HOME: Final = ".openclaw"
SYNTHETIC: Final = "[openclaw] missing tool result in session history"
"""How a result begins that OpenClaw put in the place of one that never came."""
RECENT_MAX: Final = 64
"""How many texts are remembered to know a mirror by."""
_MIRROR: Final = "delivery-mirror"
_STAMP: Final = re.compile(
    r"\[[A-Z][a-z]{2} [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{5,8}[^\]\n]{0,40}\]\s*"
)
"""The time that a message came with, before its text."""
_TOPIC: Final = re.compile(r"-topic-.+$")
_PASSED_OVER: Final = (
    (re.compile(r"\.trajectory\.jsonl"), "a trace of what a session tells"),
    (re.compile(r"\.checkpoint\.[^/]*\.jsonl"), "a checkpoint that repeats a session"),
    (re.compile(r"\.bak([.-]|$)"), "a backup copy"),
    (re.compile(r"^sessions\.json$"), "an index of sessions"),
)


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """What the index of an agent's sessions says of one."""

    key: str
    """The name that its channel knows it by."""
    channel: str | None = None


def score(values: Sequence[Any]) -> float:
    """Return how much of a file is entries of OpenClaw's."""
    return family_score(values) if has_marks(values) else 0.0


def has_marks(values: Sequence[Any]) -> bool:
    """Whether entries of pi's format hold something that only OpenClaw writes."""
    return any(_is_marked(value) for value in values if isinstance(value, dict))


def mark_of(header: dict[str, Any]) -> str:
    """Return what tells a header from others: of a topic, only the file's name says which it is."""
    return digest(header)


def passed_over(name: str) -> str | None:
    """Return what a file beside the sessions is, if it is none of them; by its name.

    What was reset or deleted is a session; what repeats another file is not.
    """
    return next((what for sort, what in _PASSED_OVER if sort.search(name)), None)


def lies_there(path: PurePath) -> bool:
    """Whether a file of pi's format lies where OpenClaw keeps those that it writes."""
    if HOME in path.parts:
        return True
    return _agent_of(path) is not None and Path(path).with_name(INDEX).is_file()


def sessions_index(value: Any) -> dict[str, Listed]:
    """Return what ``sessions.json`` says of each session, by its id.

    A file that a session was reset from is known by the key of that session as well.
    """
    found: dict[str, Listed] = {}
    older: dict[str, Listed] = {}
    for key, told in fields_of(value).items():
        entry = fields_of(told)
        listed = Listed(key=key, channel=_channel_of(key, entry))
        if session := name(entry.get("sessionId")):
            found[session] = listed
        if isinstance(file := entry.get("sessionFile"), str) and (session := id_in_name(file)):
            older[session] = listed
    return older | found


class OpenClawReader(PiReader):
    """Reads one file of entries, with what the index says of its session."""

    agent = NAME
    times_tell_apart: ClassVar[bool] = False
    """What the other lane brings has the time of the message, not of the entry."""

    def __init__(
        self, path: PurePath | None = None, listed: Mapping[str, Listed] | None = None
    ) -> None:
        super().__init__(path)
        self.names: dict[str, str] = {}
        """What the session of a header was called when it came first, by the header's mark."""
        self._listed = listed or {}
        self._recent: deque[str] = deque(maxlen=RECENT_MAX)
        """What was said or handed to a tool of late, as digests."""

    def session_of(self, header: dict[str, Any]) -> str:
        """Return the session's id; a topic of a group is a session of its own."""
        known = self.names.get(mark_of(header))
        if known is not None:
            return known
        session = super().session_of(header)
        stem = id_in_name(self._path.name) if self._path else None
        topic = _TOPIC.search(stem or "")
        return session if not topic or session.endswith(topic[0]) else session + topic[0]

    def opening(self, session: str, header: dict[str, Any]) -> SessionHeader:
        """Return what the header and the index say of the session, and whose it is."""
        found = super().opening(session, header)
        agent = _agent_of(self._path)
        listed = self._listed.get(session) or self._listed.get(str(header.get("id")))
        # What an agent does belongs to the agent: all of them share one folder to work in.
        about = without_none(
            channel=listed.channel if listed else None,
            scope=f"{NAME}/{agent}" if agent else None,
        )
        return msgspec.structs.replace(
            found,
            agent=agent or NAME,
            key=listed.key if listed else None,
            about={**found.about, **about},
        )

    def state(self) -> Any:
        """Return what it needs to go on, None if that is too much."""
        state = super().state()
        return None if state is None else bounded({**state, "recent": list(self._recent)})

    def resume(self, state: Any) -> None:
        """Go on from what ``state`` returned. Raises ValueError if it cannot."""
        super().resume(state)
        recent = state.get("recent")
        self._recent.extend(map(str, recent if isinstance(recent, list) else []))

    def repeated(self, entry: dict[str, Any]) -> str | None:
        """Return why an entry repeats others: what was delivered is written down once more.

        A text that nobody in this session said or sent is no repeat, whoever mirrors it.
        """
        message = fields_of(entry.get("message"))
        if message.get("role") != "assistant":
            return None
        texts = [_plain(text) for text in _texts(message)]
        is_mirror = message.get("model") == _MIRROR and message.get("provider") == NAME
        if is_mirror and texts and all(text in self._recent for text in texts):
            return "mirrors the delivered text"
        self._recent.extend(texts)
        return None

    def dressed(self, saying: EventContent) -> EventContent:
        """Return an event as it is told: no stamp in its summary, and synthetic if it is."""
        payload = saying.payload
        if saying.kind == "conversation.user":
            text = _STAMP.sub("", payload["text"], count=1)
            shown = shorten(text) if _STAMP.match(payload["text"]) else saying.summary
            return msgspec.structs.replace(saying, summary=shown)
        if saying.kind == "tool.result" and text_of(payload["output"]).startswith(SYNTHETIC):
            marks = {"status": "synthetic", "is_synthetic": True, "reason": "missing_result"}
            payload = {at: value for at, value in payload.items() if at != "error"} | marks
            refs = fields_of(saying.refs) | marks
            refs.pop("error_class", None)
            tool = refs.get("tool", "a tool")
            return msgspec.structs.replace(
                saying, summary=f"{tool} gave no result", payload=payload, refs=refs
            )
        return saying


def beside_index(path: PurePath | None) -> OpenClawReader:
    """Return a reader that knows what the index beside the file says, if one is there."""
    known: dict[str, Listed] = {}
    if path is not None and path.name:
        index = Path(path).with_name(INDEX)
        with contextlib.suppress(OSError, msgspec.DecodeError):
            found = index.stat()
            if found.st_size <= INDEX_BYTES_MAX:
                known = _read_index(index, found.st_mtime_ns)
    return OpenClawReader(path, known)


READER: Final = beside_index


@lru_cache(maxsize=8)
def _read_index(path: Path, _: int) -> dict[str, Listed]:
    return sessions_index(msgspec.json.decode(path.read_bytes()))


def _is_marked(value: dict[str, Any]) -> bool:
    message = fields_of(value.get("message"))
    return (
        value.get("customType") == "model-snapshot"
        or str(value.get("customType")).startswith("openclaw")
        or f"{HOME}/" in f"{value.get('cwd')}/".replace("\\", "/")
        or message.get("provider") == NAME
    )


def _agent_of(path: PurePath | None) -> str | None:
    """Return the agent whose folder a file is in: ``agents/<agent>/sessions``."""
    parts = path.parts[:-1] if path else ()
    inside = len(parts) > 2 and parts[-1] == "sessions" and parts[-3] == "agents"
    return name(parts[-2]) if inside else None


def _channel_of(key: str, entry: dict[str, Any]) -> str | None:
    stated = entry.get("channel"), entry.get("lastChannel"), _origin_of(entry)
    in_key = key.split(":")
    named = next((found for one in stated if (found := name(one))), None)
    # agent:<agent>:<channel>:…; what is left is the agent's own session.
    return named or (name(in_key[2]) if len(in_key) > 3 and in_key[0] == "agent" else None)


def _origin_of(entry: dict[str, Any]) -> Any:
    return fields_of(entry.get("origin")).get("provider")


def _texts(message: dict[str, Any]) -> Iterator[str]:
    """Give what a message says, and each text that it hands to a tool."""
    for block in blocks_of(message.get("content")):
        if block.get("type") == "text" and text_of([block]).strip():
            yield text_of([block])
        elif block.get("type") == "toolCall":
            given = fields_of(block.get("arguments")).values()
            yield from (value for value in given if isinstance(value, str) and value.strip())


def _plain(text: str) -> str:
    return digest(" ".join(text.split()))
