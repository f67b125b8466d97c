"""The reader of OpenClaw's session logs: pi's format, with topics, mirrors and repaired results."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from functools import lru_cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from treering.formats import pi, retention
from treering.formats.format import ChosenShare, Format, LogPlace
from treering.formats.loose import (
    blocks_of,
    bounded,
    digest,
    fields_of,
    items_of,
    name,
    text_of,
    without_none,
)
from treering.formats.pi import PiReader, family_share, id_in_name
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from treering.formats.event_content import EventContent
    from treering.formats.parsed import SessionHeader

NAME: Final = "openclaw"

INDEX: Final = "sessions.json"
INDEX_BYTES_MAX: Final = 64 * 1024 * 1024
HOME: Final = ".openclaw"
SYNTHETIC: Final = "[openclaw] missing tool result in session history"
"""How a result begins that OpenClaw inserted for one that never came."""
RECENT_MAX: Final = 64
"""The number of recent texts kept to recognize a mirrored one."""
_MIRROR: Final = "delivery-mirror"
_STAMP: Final = re.compile(
    r"\[[A-Z][a-z]{2} [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{5,8}[^\]\n]{0,40}\]\s*"
)
"""The timestamp before a message's text."""
_TOPIC: Final = re.compile(r"-topic-.+$")
_SKIPPED_FILES: Final = (
    (re.compile(r"\.trajectory\.jsonl"), "a trace of a session"),
    (re.compile(r"\.checkpoint\.[^/]*\.jsonl"), "a checkpoint that repeats a session"),
    (re.compile(r"\.bak([.-]|$)"), "a backup copy"),
    (re.compile(r"^sessions\.json$"), "an index of sessions"),
)


class IndexedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session's entry in the index of an agent's sessions."""

    key: str
    """The session's name in its channel."""
    channel: str | None = None


def has_marks(values: Sequence[Any]) -> bool:
    """Return whether any entry holds something that only OpenClaw writes."""
    return any(_is_marked(value) for value in values if isinstance(value, dict))


score: Final = ChosenShare(family_share, has_marks)
"""Returns the share of values that are OpenClaw's entries."""


def header_digest(header: dict[str, Any]) -> str:
    """Return a digest of a header: only the file name tells topics of the same session apart."""
    return digest(header)


def skip_reason(name: str) -> str | None:
    """Return what a file is that is not a session, by its name; otherwise None.

    Reset or deleted sessions count as sessions; files that repeat another do not.
    """
    return next((what for pattern, what in _SKIPPED_FILES if pattern.search(name)), None)


def is_openclaw_path(path: PurePath) -> bool:
    """Return whether a file of pi's format is in a folder of OpenClaw's."""
    if HOME in path.parts:
        return True
    return _agent_of(path) is not None and Path(path).with_name(INDEX).is_file()


def sessions_index(value: Any) -> dict[str, IndexedSession]:
    """Return the entries of ``sessions.json``, by session id.

    The file that a session was reset from has the key of that session, too.
    """
    current: dict[str, IndexedSession] = {}
    older: dict[str, IndexedSession] = {}
    for key, listed in fields_of(value).items():
        fields = fields_of(listed)
        entry = IndexedSession(key=key, channel=_channel_of(key, fields))
        if session := name(fields.get("sessionId")):
            current[session] = entry
        if isinstance(file := fields.get("sessionFile"), str) and (session := id_in_name(file)):
            older[session] = entry
    return older | current


class OpenClawReader(PiReader):
    """Reads one file of entries, with the index entry of its session."""

    agent = NAME
    copies_keep_times: ClassVar[bool] = False
    """The live channel reports the message's time, not the entry's."""

    def __init__(
        self, path: PurePath | None = None, index: Mapping[str, IndexedSession] | None = None
    ) -> None:
        super().__init__(path)
        self.names: dict[str, str] = {}
        """The first name of the session of each header, by the header's digest."""
        self._index = index or {}
        self._recent: deque[str] = deque(maxlen=RECENT_MAX)
        """Digests of texts that were recently said or passed to a tool."""

    def session_of(self, header: dict[str, Any]) -> str:
        """Return the session's id; a topic of a group is a session of its own."""
        earlier = self.names.get(header_digest(header))
        if earlier is not None:
            return earlier
        session = super().session_of(header)
        stem = id_in_name(self._path.name) if self._path else None
        topic = _TOPIC.search(stem or "")
        return session if not topic or session.endswith(topic[0]) else session + topic[0]

    def opening(self, session: str, header: dict[str, Any]) -> SessionHeader:
        """Return the session header from the file's header and the index."""
        header_of_file = super().opening(session, header)
        agent = _agent_of(self._path)
        entry = self._index.get(session) or self._index.get(str(header.get("id")))
        # The agent defines the scope: all agents share one working folder.
        about = without_none(
            channel=entry.channel if entry else None, scope=f"{NAME}/{agent}" if agent else None
        )
        return msgspec.structs.replace(
            header_of_file,
            agent=agent or NAME,
            key=entry.key if entry else None,
            about={**header_of_file.about, **about},
        )

    def state(self) -> Any:
        """Return the state to resume from; None if it is too large."""
        state = super().state()
        return None if state is None else bounded({**state, "recent": list(self._recent)})

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""
        super().resume(state)
        self._recent.extend(map(str, items_of(state.get("recent"))))

    def repeat_reason(self, entry: dict[str, Any]) -> str | None:
        """Return why an entry repeats earlier ones: OpenClaw mirrors delivered texts.

        A mirrored text that was not said or sent in this session is not a repeat.
        """
        message = fields_of(entry.get("message"))
        if message.get("role") != "assistant":
            return None
        texts = [digest(" ".join(text.split())) for text in _texts(message)]
        is_mirror = message.get("model") == _MIRROR and message.get("provider") == NAME
        if is_mirror and texts and all(text in self._recent for text in texts):
            return "mirrors the delivered text"
        self._recent.extend(texts)
        return None

    def adjusted(self, content: EventContent) -> EventContent:
        """Return the event without a timestamp in its summary, and marked synthetic if it is."""
        payload = content.payload
        if content.kind == "conversation.user":
            text = _STAMP.sub("", payload["text"], count=1)
            shown = shorten(text) if _STAMP.match(payload["text"]) else content.summary
            return msgspec.structs.replace(content, summary=shown)
        if content.kind == "tool.result" and text_of(payload["output"]).startswith(SYNTHETIC):
            marks = {"status": "synthetic", "is_synthetic": True, "reason": "missing_result"}
            payload = {at: value for at, value in payload.items() if at != "error"} | marks
            refs = fields_of(content.refs) | marks
            refs.pop("error_class", None)
            tool = refs.get("tool", "a tool")
            return msgspec.structs.replace(
                content, summary=f"{tool} gave no result", payload=payload, refs=refs
            )
        return content


def reader_with_index(path: PurePath | None) -> OpenClawReader:
    """Return a reader that uses the index beside the file, if there is one."""
    entries: dict[str, IndexedSession] = {}
    if path is not None and path.name:
        index = Path(path).with_name(INDEX)
        with contextlib.suppress(OSError, msgspec.DecodeError):
            status = index.stat()
            if status.st_size <= INDEX_BYTES_MAX:
                entries = _read_index(index, status.st_mtime_ns)
    return OpenClawReader(path, entries)


_STATE: Final = "OPENCLAW_STATE_DIR"
FORMAT: Final = Format(
    name=NAME,
    version=2,
    score=score,
    reader=reader_with_index,
    places=(
        LogPlace(HOME, "agents", _STATE, retention.openclaw),
        LogPlace(HOME, "cron/runs", _STATE, retention.openclaw),
    ),
    patterns=("*.trajectory.jsonl*", "*.checkpoint.*.jsonl*", "*.bak", "*.bak[.-]*"),
    left_out=lambda path: skip_reason(path.name),
    family=(pi.NAME,),
    claims=is_openclaw_path,
)


def home() -> Path:
    """Return OpenClaw's state folder, which may not exist."""
    return FORMAT.places[0].at()


@lru_cache(maxsize=8)
def _read_index(path: Path, _: int) -> dict[str, IndexedSession]:
    return sessions_index(msgspec.json.decode(path.read_bytes()))


def _is_marked(value: dict[str, Any]) -> bool:
    custom_type, folder = value.get("customType"), value.get("cwd")
    return (
        (
            custom_type is not None
            and (custom_type == "model-snapshot" or str(custom_type).startswith("openclaw"))
        )
        or (folder is not None and f"{HOME}/" in f"{folder}/".replace("\\", "/"))
        or fields_of(value.get("message")).get("provider") == NAME
    )


def _agent_of(path: PurePath | None) -> str | None:
    """Return the agent whose folder a file is in: ``agents/<agent>/sessions``."""
    parts = path.parts[:-1] if path else ()
    is_session_file = len(parts) > 2 and parts[-1] == "sessions" and parts[-3] == "agents"
    return name(parts[-2]) if is_session_file else None


def _channel_of(key: str, entry: dict[str, Any]) -> str | None:
    stated = entry.get("channel"), entry.get("lastChannel"), _origin_of(entry)
    in_key = key.split(":")
    named = next((channel for value in stated if (channel := name(value))), None)
    # agent:<agent>:<channel>:…; shorter keys are the agent's own sessions.
    return named or (name(in_key[2]) if len(in_key) > 3 and in_key[0] == "agent" else None)


def _origin_of(entry: dict[str, Any]) -> Any:
    return fields_of(entry.get("origin")).get("provider")


def _texts(message: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of a message, and each text it passes to a tool."""
    for block in blocks_of(message.get("content")):
        if block.get("type") == "text" and text_of([block]).strip():
            yield text_of([block])
        elif block.get("type") == "toolCall":
            given = fields_of(block.get("arguments")).values()
            yield from (value for value in given if isinstance(value, str) and value.strip())
