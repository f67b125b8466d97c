"""The reader of Gemini CLI sessions: one JSON value that is rewritten, or lines that are appended.

A line may replace an earlier message by its id. The last answer of the model is held back until
another message comes, so that usually only its final version is recorded; earlier versions are
skipped. When a recorded message comes again, its new calls, results, thoughts and counts are
recorded under keys of their own. The key of a text contains a digest of the text, and the key of a
usage report a digest of its counts, so a changed version is always recorded beside the earlier one;
of several reports, the largest counts are used. A reader that recorded the earlier text marks the
new one with ``replaces``, and undoes the earlier text if no later part of the conversation follows
it. A reader that restarts with a rewritten file cannot know the earlier text: both are recorded
with the same ``message_id``. A changed result, call or field is recorded as an observation with the
current message, since the first version is what happened.

A rewind hides the message it names and all later ones, as in the CLI itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats import retention
from treering.formats.codex.drafts import PendingEvent, digest, observed
from treering.formats.format import Format, LogPlace
from treering.formats.gemini.messages import (
    ANSWERS,
    compaction_of,
    id_of,
    is_message,
    is_snapshot,
    opening_of,
    read_message,
    score,
    session_of,
    titled,
)
from treering.formats.loose import bounded, fields_of, word
from treering.formats.loose import name as name_of
from treering.formats.loose import time_ms as time_of
from treering.formats.parsed import LogRecord, ParsedEvent, ParsedRecord, SessionHeader, content_key
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path, PurePath

_SAID: Final = frozenset({"conversation.user", "conversation.assistant"})
_SPOKEN: Final = ("conversation.", "tool.", "context.")
"""Kinds that are part of the conversation."""

__all__ = ["FORMAT", "NAME", "GeminiReader", "score"]

NAME: Final = "gemini"
NOTHING_NEW: Final = "tells nothing new"
_IGNORED_FIELDS: Final = frozenset({"lastUpdated", "messages", "sessionId", "projectHash"})
"""Fields that carry no content."""


class GeminiReader:
    """Reads the file of one session."""

    keys_are_global = False
    copies_keep_times = False
    agent: str = NAME

    def __init__(self, path: PurePath | None) -> None:
        """``path`` may contain the ids of the session and its parent."""
        self._path = path
        self._now = GeminiState()
        self._held: LogRecord | None = None
        self.sessions: dict[str, SessionHeader] = {}

    def read(self, record: LogRecord) -> list[ParsedRecord]:
        """Return the outcomes that ``record`` settles."""
        value = fields_of(record.value)
        self._open(value)
        if not is_message(value):
            keeps = "$set" in value and "messages" not in fields_of(value["$set"])
            settled = [] if keeps else self.finish()
            return [*settled, self._outcome(record, self._control(value, record.value))]
        if word(value.get("type")) not in ANSWERS:
            return [*self.finish(), self._outcome(record, self._message(value))]
        settled = []
        if self._held is not None and id_of(value) == id_of(self._held.value):
            settled = [ParsedRecord(record=self._held, skipped="replaced by a later version")]
            self._held = None
        settled += self.finish()
        self._held = record
        return settled

    def finish(self) -> list[ParsedRecord]:
        """Return the outcome of the record that is still held back, if any."""
        held, self._held = self._held, None
        return [] if held is None else [self._outcome(held, self._message(held.value))]

    def state(self) -> Any:
        """Return the state to resume from; None if it is too large or a record is held back."""
        if self._held:
            return None
        now = self._now
        bare = msgspec.structs.replace(now, opening=now.opening and now.opening.bare())
        return bounded(msgspec.to_builtins(bare))

    def resume(self, state: Any) -> None:
        """Resume from a value that ``state`` returned. Raises ValueError if it is not one."""
        try:
            self._now = msgspec.convert(state, GeminiState)
        except msgspec.ValidationError as error:
            raise ValueError("this is not a state of a Gemini reader") from error
        self._held = None
        opening = self._now.opening
        self.sessions = {} if opening is None else {opening.session: opening}

    # The session.

    def _open(self, value: dict[str, Any]) -> None:
        """Update the session header from the record."""
        patch = fields_of(value.get("$set"))
        stated = patch if "$set" in value else {} if is_message(value) else value
        header = self._now.opening
        if header is None:
            session = name_of(stated.get("sessionId")) or session_of(self._path, value)
            self._now.opening = opening_of(session, stated, self._path, agent=self.agent)
            self._now.ts_ms = time_of(stated.get("startTime")) or self._now.ts_ms
        else:
            self._now.opening = titled(header, stated)
        self.sessions[self._now.opening.session] = self._now.opening

    # Records.

    def _control(self, value: dict[str, Any], raw: Any) -> list[PendingEvent] | str:
        """Return the events of a record that is not a message, or why it has none."""
        if isinstance(value.get("$rewindTo"), str):
            return self._rewind(value["$rewindTo"])
        if isinstance(value.get("$set"), dict):
            patch = value["$set"]
            noted, listed = self._noted(patch), patch.get("messages")
            checked = self._checkpoint(listed) if isinstance(listed, list) else []
            return [*noted, *checked] or NOTHING_NEW
        if "sessionId" in value and "$patch" not in value:
            opened = self._header(value)
            return [*opened, *self._noted(value), *self._all(value.get("messages"))]
        name = next((name for name in value if name.startswith("$")), "record")
        return self._now.new([observed(content_key(digest(["record", raw])), name, raw)])

    def _header(self, value: dict[str, Any]) -> list[PendingEvent]:
        # Without the time of the last change: the header is recorded once, and the file is
        # rewritten often.
        fields = {
            name: value[name] for name in ("projectHash", "startTime", "kind") if name in value
        }
        return self._now.new([observed("session", "session", fields)])

    def _noted(self, patch: dict[str, Any]) -> list[PendingEvent]:
        """Return the events for session fields other than messages."""
        drafts = []
        summary = patch.get("summary")
        if isinstance(summary, str) and summary.strip():
            title = {"title": shorten(summary)}
            key = f"title.{content_key(digest(summary)[:8])}"
            drafts.append(
                PendingEvent(
                    key=key, kind="session.titled", summary=title["title"], payload=title, refs={}
                )
            )
        handled = _IGNORED_FIELDS | {"summary", "startTime", "kind"}
        rest = {name: value for name, value in patch.items() if name not in handled and value}
        if rest:
            drafts.append(observed(f"session.{content_key(digest(rest)[:16])}", "session", rest))
        return self._now.new(drafts)

    def _all(self, messages: Any) -> list[PendingEvent]:
        listed = messages if isinstance(messages, list) else []
        return [draft for message in listed for draft in self._listed(message)]

    def _listed(self, message: Any) -> list[PendingEvent]:
        """Return the events of one message in a list; a value that is not an object is kept."""
        if isinstance(message, dict):
            return self._version(message)
        key = content_key(digest(["message", message]))
        return self._now.new([observed(key, "message", message)]) if message else []

    def _message(self, message: dict[str, Any]) -> list[PendingEvent] | str:
        if self._now.seen.get(id_of(message)) == digest(message):
            return "repeats the message"
        return self._version(message) or NOTHING_NEW

    def _version(
        self, message: dict[str, Any], later_ids: Sequence[str] = ()
    ) -> list[PendingEvent]:
        """Return the new events of ``message``; ``later_ids`` name the messages after it."""
        now, message_id, mark = self._now, id_of(message), digest(message)
        before = now.seen.get(message_id)
        if before == mark:
            return []
        if is_snapshot(message):
            first = next((now.firsts[other] for other in later_ids if other in now.firsts), None)
            drafts = [compaction_of(message, message_id, first)]
        else:
            drafts = read_message(message, message_id)
        if before is None and word(message.get("type")) in ANSWERS:
            drafts = [self._now.with_unique_key(draft, message_id) for draft in drafts]
        fresh = self._now.new(drafts)
        if before is not None:
            changed = self._now.changed(message, drafts, fresh, mark)
            fresh = [*self._now.replaced(message_id, fresh), *changed]
        self._now.note(message_id, fresh)
        now.seen[message_id] = mark
        if before is None or message_id not in now.order:
            now.order.append(message_id)
        if fresh:
            now.firsts.setdefault(message_id, fresh[0].key)
        return fresh

    def _rewind(self, target: str) -> list[PendingEvent] | str:
        """Return the undo for a rewind: its target and all after it, or all if it is unknown."""
        order = self._now.order
        message_id = id_of({"id": target})
        start = order.index(message_id) if message_id in order else 0
        return self._hide(start, {"rewind_to": target}) or "nothing to take back"

    def _hide(self, start: int, payload: dict[str, Any]) -> list[PendingEvent]:
        now = self._now
        hidden, now.order = now.order[start:], now.order[:start]
        first = next((now.firsts[other] for other in hidden if other in now.firsts), None)
        if first is None:
            return []
        key = f"undone.{content_key(digest([payload, hidden]))}"
        undone = PendingEvent(
            key=key,
            kind="session.undone",
            summary="session rewound",
            payload=payload,
            refs={},
            first=first,
        )
        return self._now.new([undone])

    def _checkpoint(self, messages: list[Any]) -> list[PendingEvent]:
        """Return the events of a full message list: new messages, a summary, or a removed tail."""
        objects = [message for message in messages if isinstance(message, dict)]
        ids, before = [id_of(message) for message in objects], self._now.order
        if ids == before[: len(ids)] and len(ids) < len(before):
            undone = self._hide(len(ids), {"checkpoint": len(ids)})
            return [*self._all(objects), *undone]
        drafts = [
            draft
            for number, message in enumerate(objects, 1)
            for draft in self._version(message, ids[number:])
        ]
        self._now.order = [*dict.fromkeys(ids)]
        return drafts

    # Outcomes.

    def _outcome(self, record: LogRecord, parsed: list[PendingEvent] | str) -> ParsedRecord:
        if isinstance(parsed, str):
            return ParsedRecord(record=record, skipped=parsed)
        events = [*self._events(parsed)]
        return ParsedRecord(record=record, events=events, skipped=None if events else NOTHING_NEW)

    def _events(self, drafts: list[PendingEvent]) -> Iterator[ParsedEvent]:
        opening = self._now.opening
        assert opening is not None  # noqa: S101  (the first record opens the session)
        for draft in drafts:
            self._now.ts_ms = draft.ts_ms or self._now.ts_ms
            yield ParsedEvent(
                session=opening.session,
                key=draft.key,
                kind=draft.kind,
                summary=draft.summary,
                ts_ms=self._now.ts_ms,
                payload=draft.payload,
                refs=draft.refs or None,
                first=draft.first,
            )


def _left_out(path: Path) -> str | None:
    is_typed = path.name == "logs.json" and (path.parent / "chats").is_dir()
    return "what was typed, which the chats beside it repeat" if is_typed else None


FORMAT: Final = Format(
    name=NAME,
    version=3,
    score=score,
    reader=GeminiReader,
    left_out=_left_out,
    places=(LogPlace("", ".gemini/tmp", "GEMINI_CLI_HOME", retention.gemini),),
)


class GeminiState(msgspec.Struct):
    """State carried from one record to the next."""

    opening: SessionHeader | None = None
    ts_ms: int = 1
    order: list[str] = []
    """The ids of the visible messages, in order."""
    firsts: dict[str, str] = {}
    """The key of the first event of each message."""
    digests: dict[str, str] = msgspec.field(name="told", default_factory=dict)
    """A digest of the event recorded for each key."""
    seen: dict[str, str] = {}
    """A digest of the last version of each message."""
    texts: dict[str, str] = {}
    """The key of the last text of each message."""
    last: str = ""
    """The key of the last event that is part of the conversation."""

    def with_unique_key(self, draft: PendingEvent, message_id: str) -> PendingEvent:
        """Return ``draft`` under another key if another message has a call with the same id."""
        if self.digests.get(draft.key, _mark(draft)) == _mark(draft):
            return draft
        return msgspec.structs.replace(draft, key=f"{draft.key}@{message_id}")

    def new(self, drafts: list[PendingEvent]) -> list[PendingEvent]:
        """Return the drafts with new keys, and remember them."""
        fresh = [draft for draft in drafts if draft.key not in self.digests]
        self.digests |= {draft.key: _mark(draft) for draft in fresh}
        return fresh

    def changed(
        self,
        message: dict[str, Any],
        drafts: list[PendingEvent],
        fresh: list[PendingEvent],
        mark: str,
    ) -> list[PendingEvent]:
        """Return the observation for a message that changed."""
        recorded = self.digests
        updated = [draft for draft in drafts if recorded[draft.key] != _mark(draft)]
        recorded |= {draft.key: _mark(draft) for draft in updated}
        if fresh and not updated:
            return []
        message_id = id_of(message)
        raw = observed(f"{message_id}.whole.{mark[:8]}", str(message.get("type")), message)
        refs = {**raw.refs, "replaces": message_id}
        return self.new([msgspec.structs.replace(raw, refs=refs)])

    def replaced(self, message_id: str, fresh: list[PendingEvent]) -> list[PendingEvent]:
        """Return ``fresh`` with a new text marked as replacing the earlier one."""
        before = self.texts.get(message_id)
        text = next((draft for draft in fresh if draft.kind in _SAID), None)
        if text is None or before is None:
            return fresh
        refs = {**text.refs, "replaces": message_id}
        drafts = [
            msgspec.structs.replace(draft, refs=refs) if draft is text else draft for draft in fresh
        ]
        if self.last != before:
            return drafts
        undone = PendingEvent(
            key=f"{text.key}.undone",
            kind="session.undone",
            summary="replaced by a later version",
            payload=None,
            refs={"turns": int(text.kind == "conversation.user")},
            first=before,
            ts_ms=text.ts_ms,
        )
        return [*self.new([undone]), *drafts]

    def note(self, message_id: str, fresh: list[PendingEvent]) -> None:
        """Remember the last text of the message and the last event of the conversation."""
        for draft in fresh:
            if draft.kind.startswith(_SPOKEN):
                self.last = draft.key
            if draft.kind in _SAID:
                self.texts[message_id] = draft.key


def _mark(draft: PendingEvent) -> str:
    return digest([draft.kind, draft.payload])[:8]
