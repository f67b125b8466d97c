"""Antigravity: the steps of a conversation. Calls have no ids: results follow them in order."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec

from treering.formats.event_content import (
    EventContent,
    called,
    compacted,
    outcome,
    said,
    thought,
    trouble,
)
from treering.formats.format import Format, LogPlace, OwnShare
from treering.formats.loose import digest, fields_of, items_of, name, text_of, without_none, word
from treering.formats.parsed import SessionHeader
from treering.formats.record_reader import ReaderState, RecordReader
from treering.formats.whole import json_of
from treering.model.codec import decode

NAME: Final = "antigravity"
_PLACE: Final = (".system_generated", "logs")
_REQUEST: Final = re.compile(r"<USER_REQUEST>\s*(.*?)\s*</USER_REQUEST>", re.DOTALL)
_STARTS: Final = "INVOKE_SUBAGENT"
_STARTED: Final = _STARTS.encode()
_CHILD: Final = re.compile(r'"conversationId":\s*"([^"\s]+)"')
_DEPTH: Final = 5
"""The parts of the path of a transcript, at least: those below the folder of all, and that."""
_ASIDE: Final = frozenset({"CONVERSATION_HISTORY", "SYSTEM_MESSAGE", "EPHEMERAL_MESSAGE"})
_FAILED: Final = frozenset({"ERROR", "FAILED", "CANCELED", "CANCELLED", "INTERRUPTED"})
_ENVELOPE: Final = frozenset({"step_index", "source", "type", "status", "created_at", "content"})
OPEN_MAX: Final = 64


class AntigravityState(ReaderState, kw_only=True):
    """The state of a conversation."""

    waiting: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """Calls without a result: their ids and tools."""


class AntigravityReader(RecordReader):
    """Reads one transcript."""

    agent = NAME
    state_type = AntigravityState

    def own_session(self) -> str:
        """Return the name of the conversation's folder."""
        if self.path is not None and self.path.parts[-3:-1] == _PLACE and len(self.path.parts) > 3:
            return name(self.path.parts[-4]) or super().own_session()
        return super().own_session()

    def session_of(self, record: dict[str, Any]) -> SessionHeader | None:
        """Return the conversation, with the one that it was started in as a subagent."""
        del record
        parent = None if self.now.session or self.path is None else _parent(self.path)
        if parent is None:
            return None
        agent = f"{self.agent}:subagent"
        return SessionHeader(session=self.own_session(), agent=agent, parent=parent)

    def id_of(self, record: dict[str, Any]) -> str | None:
        """Return the number of the step."""
        index = record.get("step_index")
        return f"step-{index}" if type(index) is int else None

    def title_of(self, record: dict[str, Any]) -> str:
        """Return the type of the step."""
        return (word(record.get("type")) or "step").lower()

    def parse(self, record: dict[str, Any]) -> list[EventContent] | str:
        """Return the events of a step."""
        sort, text = word(record.get("type")) or "", text_of(record.get("content"))
        if sort == "USER_INPUT":
            return self._user(text) if text.strip() else []
        if sort == "PLANNER_RESPONSE":
            return self._answer(record, text)
        if sort == "CHECKPOINT" and text.strip():
            return [compacted(text, by=self.agent)]
        if sort == "ERROR_MESSAGE" and text.strip():
            return [trouble(text, code="error_message")]
        if sort in _ASIDE or word(record.get("source")) != "MODEL" or not sort:
            return []
        return self._result(record, sort, text)

    def _user(self, text: str) -> list[EventContent]:
        asked = _REQUEST.search(text)
        if asked is None:
            return [said("user", text)]
        rest = _REQUEST.sub("", text, count=1).strip()
        return [said("user", asked[1], context=rest or None)]

    def _answer(self, record: dict[str, Any], text: str) -> list[EventContent] | str:
        self.now.waiting = []
        contents: list[EventContent] = []
        named = without_none(model=name(record.get("model")))
        if thinking := word(record.get("thinking")):
            contents.append(thought(thinking, **named))
        if text.strip():
            contents.append(said("assistant", text, **named))
        index = record.get("step_index")
        for at, entry in enumerate(items_of(record.get("tool_calls"))):
            call = fields_of(entry)
            tool = name(call.get("name")) or "tool"
            call_id = name(call.get("id")) or f"step-{index}.{at}-{digest(call)[:6]}"
            self.now.waiting = [*self.now.waiting, (call_id, tool)][-OPEN_MAX:]
            contents.append(called(call_id, tool, _decoded(call.get("args"))))
        return contents or "empty"

    def _result(self, record: dict[str, Any], sort: str, text: str) -> list[EventContent]:
        """Return a result; with a call, if none was logged for it."""
        rest = {at: value for at, value in record.items() if at not in _ENVELOPE}
        failed = word(record.get("status")) in _FAILED
        if self.now.waiting:
            call_id, tool = self.now.waiting[0]
            self.now.waiting = self.now.waiting[1:]
            return [outcome(call_id, tool, text, failed=failed, details=rest)]
        tool, call_id = sort.lower(), f"step-{record.get('step_index')}-{digest(record)[:6]}"
        return [
            called(call_id, tool, {}),
            outcome(call_id, tool, text, failed=failed, details=rest),
        ]


def _decoded(given: Any) -> Any:
    """Return the arguments of a call; if each is JSON in a text, as some are, its value."""
    fields = fields_of(given)
    texts = [value for value in fields.values() if isinstance(value, str)]
    if not texts or len(texts) < len(fields):
        return given
    try:
        return {at: decode(value) for at, value in fields.items()}
    except (ValueError, RecursionError):
        return given


def _parent(path: PurePath) -> str | None:
    """Return the conversation that started the one at ``path``: a step in it names its id."""
    if path.parts[-3:-1] != _PLACE or len(path.parts) < _DEPTH:
        return None
    own, brain = path.parts[-4], Path(*path.parts[:-4])
    try:
        logs = sorted(brain.glob("/".join(("*", *_PLACE, path.name))))
        begun = [(log, _children(log, log.stat().st_mtime_ns)) for log in logs if log != path]
    except OSError:
        return None
    return next((name(log.parts[-4]) for log, children in begun if own in children), None)


@lru_cache(maxsize=4_096)
def _children(log: Path, _mtime_ns: int) -> frozenset[str]:
    """Return the conversations that one has started."""
    try:
        with log.open("rb") as stream:
            steps = [fields_of(json_of(line)) for line in stream if _STARTED in line]
    except OSError:
        return frozenset()
    texts = (text_of(step.get("content")) for step in steps if step.get("type") == _STARTS)
    return frozenset(child for text in texts for child in _CHILD.findall(text))


def _left_out(path: Path) -> str | None:
    is_artifact = "brain" in path.parts and ".metadata.json" in path.name
    return "what an artifact is" if is_artifact else None


score: Final = OwnShare(lambda value: {"step_index", "source", "type", "status"} <= value.keys())
"""Returns the share of values that are Antigravity's steps."""

FORMAT: Final = Format(
    name=NAME,
    score=score,
    reader=AntigravityReader,
    places=(LogPlace(".gemini", "antigravity*/brain"),),
    left_out=_left_out,
)
