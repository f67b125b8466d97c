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
from treering.formats.codex.drafts import (
    PendingEvent,
    called,
    count_of,
    digest,
    input_of,
    observed,
    returned,
    said,
    short_id,
    text_of,
    texts_of,
)
from treering.formats.format import Format, LogPlace, OwnShare
from treering.formats.loose import (
    bounded,
    fields_of,
    items_of,
    objects_in,
    says_beyond,
    says_something,
    word,
)
from treering.formats.loose import name as name_of
from treering.formats.loose import time_ms as time_of
from treering.formats.parsed import LogRecord, ParsedEvent, ParsedRecord, SessionHeader, content_key
from treering.formats.whole import compacted, timed, undone, used, version_key
from treering.formats.whole import titled as title_event
from treering.spine.conversion import plain
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
            key = f"title.{content_key(digest(summary)[:8])}"
            drafts.append(msgspec.structs.replace(title_event(summary), key=key))
        handled = _IGNORED_FIELDS | {"summary", "startTime", "kind"}
        rest = {name: value for name, value in patch.items() if name not in handled and value}
        if rest:
            drafts.append(observed(f"session.{content_key(digest(rest)[:16])}", "session", rest))
        return self._now.new(drafts)

    def _all(self, messages: Any) -> list[PendingEvent]:
        return [draft for message in items_of(messages) for draft in self._listed(message)]

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
        return self._now.new([undone(key, "session rewound", first, payload)])

    def _checkpoint(self, messages: list[Any]) -> list[PendingEvent]:
        """Return the events of a full message list: new messages, a summary, or a removed tail."""
        objects = objects_in(messages)
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
        taken_back = msgspec.structs.replace(
            undone(f"{text.key}.undone", "replaced by a later version", before),
            refs={"turns": int(text.kind == "conversation.user")},
            ts_ms=text.ts_ms,
        )
        return [*self.new([taken_back]), *drafts]

    def note(self, message_id: str, fresh: list[PendingEvent]) -> None:
        """Remember the last text of the message and the last event of the conversation."""
        for draft in fresh:
            if draft.kind.startswith(_SPOKEN):
                self.last = draft.key
            if draft.kind in _SAID:
                self.texts[message_id] = draft.key


def _mark(draft: PendingEvent) -> str:
    return digest([draft.kind, draft.payload])[:8]


ANSWERS: Final = frozenset({"gemini", "model"})
"""Types of the model's messages."""
PROVIDER: Final = "google"
SNAPSHOT: Final = "<state_snapshot>"
"""How a message begins that summarizes all earlier ones."""
_CONTEXT: Final = ("<session_context>", "This is the Gemini CLI. We are setting up the context")
"""How user messages begin that the CLI wrote itself."""
_TROUBLE: Final = {"error": "ops.error", "warning": "ops.warning"}
_ENDS: Final = {"success": None, "error": "Failed", "cancelled": "Cancelled"}
"""The outcomes of calls, with the error class of those that failed."""
_SIGNATURE: Final = "thoughtSignature"
"""The signature of a thought, stored on the part that followed from it."""
_TEXT: Final = ""
"""The key for the signature of an answer's text; calls use their id or name."""
_LISTS: Final = ("thoughts", "toolCalls")
"""Fields of an answer that list objects."""
_MESSAGE_FIELDS: Final = frozenset(
    {"id", "type", "timestamp", "content", "displayContent", "model", "tokens", *_LISTS}
)
_CALL_FIELDS: Final = frozenset(
    {"id", "name", "args", "result", "status", "timestamp", "resultDisplay"}
)


def read_message(message: dict[str, Any], message_id: str) -> list[PendingEvent]:
    """Return the events of ``message``; an undo of the message starts at the first."""
    type_ = message.get("type")
    if type_ == "user":
        drafts = _read_user(message, message_id)
    elif isinstance(type_, str) and type_ in ANSWERS:
        drafts = _read_answer(message, message_id)
    else:
        drafts = [_read_note(message, message_id, str(type_))]
    if _has_unknown_content(message, drafts):
        key = f"{message_id}.whole" if drafts else message_id
        drafts = [*drafts, observed(key, str(type_), message)]
    return timed(drafts, time_of(message.get("timestamp")))


def _has_unknown_content(message: dict[str, Any], drafts: list[PendingEvent]) -> bool:
    """Return whether a message has content in a shape that ``drafts`` do not cover."""
    if any(draft.kind == "ops.observation" and draft.payload.get("record") for draft in drafts):
        return False  # The whole message is recorded already.
    lists = [message.get(name) for name in _LISTS]
    if any(not isinstance(listed, list) and says_something(listed) for listed in lists):
        return True
    parts = [part for listed in lists for part in items_of(listed)]
    if any(not isinstance(part, dict) and says_something(part) for part in parts):
        return True
    if drafts:
        return False
    content = message.get("content")
    is_known = isinstance(content, str | list | None)
    return not is_known or says_beyond(message, _MESSAGE_FIELDS)


def id_of(message: dict[str, Any]) -> str:
    """Return the id of ``message``; derived from its content if it has none."""
    named = name_of(message.get("id"))
    return short_id(named) if named else f"gemini-{content_key(digest(message))}"


def is_snapshot(message: dict[str, Any]) -> bool:
    """Return whether ``message`` is a summary of the earlier conversation."""
    return message.get("type") == "user" and words_of(message.get("content")).lstrip().startswith(
        SNAPSHOT
    )


def compaction_of(message: dict[str, Any], message_id: str, first: str | None) -> PendingEvent:
    """Return the compaction event for a summary; ``first`` is the key of the first kept event."""
    summary = compacted(message_id, words_of(message.get("content")), by=NAME, first=first)
    return msgspec.structs.replace(summary, ts_ms=time_of(message.get("timestamp")))


def words_of(content: Any) -> str:
    """Return the text of ``content`` without its thoughts."""
    if isinstance(content, list):
        content = [part for part in content if not fields_of(part).get("thought")]
    return text_of(content)


def _read_user(message: dict[str, Any], message_id: str) -> list[PendingEvent]:
    content, shown = message.get("content"), message.get("displayContent")
    results = [
        _answered(fields_of(part["functionResponse"]), f"{message_id}.{number}")
        for number, part in enumerate(_parts(content), 1)
        if isinstance(part.get("functionResponse"), dict)
    ]
    text = words_of(shown) or words_of(content)
    if text.startswith(_CONTEXT):
        return [observed(message_id, "context", message)]
    extras = shown is not None or len(texts_of(content)) + len(results) < len(_parts(content))
    if not text.strip() and not extras:
        return results
    original = content if extras else None
    key = version_key(message_id, [text, original])
    return [*results, said("user", key, text, message_id=message_id, content=original)]


def _read_answer(message: dict[str, Any], message_id: str) -> list[PendingEvent]:
    content, model = message.get("content"), name_of(message.get("model"))
    drafts = [
        _thought(thought, f"{message_id}.thought.{number}", message_id)
        for number, thought in enumerate(items_of(message.get("thoughts")), 1)
        if isinstance(thought, dict)
    ]
    text, more = words_of(content), content if _has_more(content) else None
    signed = _signatures(content)
    extra = {"model": model, "message_id": message_id, _SIGNATURE: signed.pop(_TEXT, None)}
    if text.strip() or more is not None:
        key = version_key(message_id, [text, more])
        drafts.append(said("assistant", key, text, **extra, content=more))
    elif extra[_SIGNATURE] is not None:
        drafts.append(said("thinking", f"{message_id}.signature", "", **extra))
    for number, call in enumerate(items_of(message.get("toolCalls")), 1):
        if isinstance(call, dict):
            signature = _signature_of(call, signed, model)
            drafts += _read_call(call, f"{message_id}.call.{number}", **signature)
    listed = {draft.refs.get("call_id") for draft in drafts}
    asked = [fields_of(part.get("functionCall")) for part in _parts(content)]
    for call in asked:
        if call and name_of(call.get("id")) not in {*listed, None}:
            drafts += _read_call(call, "", **_signature_of(call, signed, model))
    usage = _usage(message.get("tokens"), message_id, model)
    return drafts if usage is None else [*drafts, usage]


def _read_note(message: dict[str, Any], message_id: str, type_: str) -> PendingEvent:
    """Return the event for a notice, or for a message of an unknown type."""
    text = text_of(message.get("content"))
    if type_ not in _TROUBLE:
        return observed(message_id, type_, message)
    return PendingEvent(
        key=message_id,
        kind=_TROUBLE[type_],
        summary=shorten(text),
        payload={**message, "message": text},
        refs={"code": type_},
    )


def _thought(thought: dict[str, Any], key: str, message_id: str) -> PendingEvent:
    parts = (thought.get("subject"), thought.get("description"))
    text = "\n".join(part for part in parts if isinstance(part, str) and part)
    draft = said("thinking", key, text, subject=thought.get("subject"), message_id=message_id)
    return msgspec.structs.replace(draft, ts_ms=time_of(thought.get("timestamp")))


def _signatures(content: Any) -> dict[str, str]:
    """Return the thought signatures of an answer's parts, by the calls they belong to."""
    signatures: dict[str, str] = {}
    for part in _parts(content):
        signature = part.get(_SIGNATURE)
        if isinstance(signature, str) and signature:
            call = fields_of(part.get("functionCall"))
            named = name_of(call.get("id")) or name_of(call.get("name"))
            signatures.setdefault(named or _TEXT, signature)
    return signatures


def _signature_of(
    call: dict[str, Any], signatures: dict[str, str], model: str | None
) -> dict[str, str]:
    """Return the signature of a call and its model; a part may name the call instead of its id."""
    stated = call.get(_SIGNATURE)
    names = (name_of(call.get("id")), name_of(call.get("name")))
    signature = stated or next((signatures.pop(name) for name in names if name in signatures), None)
    if not isinstance(signature, str):
        return {}
    return {_SIGNATURE: signature, **({"model": model} if model else {})}


def _read_call(call: dict[str, Any], default_id: str, **signature: str) -> list[PendingEvent]:
    """Return the event of a call and, once it has ended, of its outcome."""
    call_id = name_of(call.get("id")) or default_id
    tool = name_of(call.get("name")) or "unnamed"
    more = {
        name: value
        for name, value in call.items()
        if name not in _CALL_FIELDS and value and value != signature.get(name)
    }
    detail = {"detail": more} if more else {}
    began = called(
        f"call:{short_id(call_id)}",
        call_id,
        tool,
        input_of(call.get("args"), "args"),
        **detail,
        **signature,
    )
    status, result = str(call.get("status")), call.get("result")
    if status not in _ENDS and result is None:
        return [began]
    output, failure = _output_of(result)
    named = _ENDS.get(status) or ("Failed" if failure is not None else None)
    shown = call.get("resultDisplay")
    if result is None and isinstance(shown, str):
        output = shown
    reason = failure if failure is not None else output
    message = shorten(plain(reason)) if isinstance(reason, str) else status
    error = None if named is None else {"class": named, "message": message}
    ended = returned(f"result:{short_id(call_id)}", call_id, tool, output, error, detail=shown)
    return [began, msgspec.structs.replace(ended, ts_ms=time_of(call.get("timestamp")))]


def _answered(response: dict[str, Any], default_id: str) -> PendingEvent:
    """Return the outcome of a call from a user message."""
    call_id = name_of(response.get("id")) or default_id
    output, failure = _output_of([{"functionResponse": response}])
    error = None if failure is None else {"class": "Failed", "message": shorten(plain(failure))}
    return returned(
        f"result:{short_id(call_id)}", call_id, name_of(response.get("name")), output, error
    )


def _output_of(result: Any) -> tuple[Any, str | None]:
    """Return a tool's output, and its error message if it failed."""
    parts = _parts(result)
    responses = [
        fields_of(part["functionResponse"]) for part in parts if "functionResponse" in part
    ]
    texts, failure = [], None
    for response in responses:
        stated = response.get("response")
        fields = fields_of(stated)
        failure = fields["error"] if isinstance(fields.get("error"), str) else failure
        text = fields.get("output", fields.get("error", stated))
        if not isinstance(text, str) or response.get("parts"):
            return result, failure
        texts.append(text)
    if len(responses) < len(parts):
        # Images and other parts are listed beside the responses.
        loose = texts_of([part for part in parts if "functionResponse" not in part])
        if len(loose) + len(responses) < len(parts):
            return result, failure
        texts += loose
    if not parts and result not in (None, []):
        return result, failure
    return "\n".join(texts), failure


def _usage(tokens: Any, message_id: str, model: str | None) -> PendingEvent | None:
    """Return the usage of a model call: thoughts count as output, tool tokens as input."""
    stated = {name: count_of(value) or 0 for name, value in fields_of(tokens).items()}
    if not any(stated.values()):
        return None
    counts = {
        "input_tokens": stated.get("input", 0) + stated.get("tool", 0),
        "output_tokens": stated.get("output", 0) + stated.get("thoughts", 0),
        "cached_tokens": stated.get("cached", 0),
    }
    counts |= {"total_tokens": stated["total"]} if stated.get("total") else {}
    return used(
        version_key(f"{message_id}.usage", counts),
        counts,
        stated={"tokens": tokens},
        model=model,
        provider=PROVIDER,
        message_id=message_id,
    )


def _has_more(content: Any) -> bool:
    """Return whether an answer holds more than texts and calls."""
    return any(
        "functionCall" not in part and ("text" not in part or bool(part.get("thought")))
        for part in _parts(content)
    )


def _parts(content: Any) -> list[dict[str, Any]]:
    return [content] if isinstance(content, dict) else objects_in(content)


AGENT: Final = "gemini"
CHATS: Final = "chats"
"""The folder of a project's sessions; subagent sessions are in a subfolder named by their
parent."""
_MESSAGE_TYPES: Final = frozenset({"user", "info", "error", "warning"}) | ANSWERS
_OF_A_USER: Final = frozenset({"id", "timestamp", "type", "content", "displayContent"})
"""All fields of a user's message."""
_WITHIN: Final = object()
"""The key of a message of a whole session, which only its type tells."""


def _values_apart(values: Sequence[Any]) -> Sequence[Any]:
    """Return ``values``, each whole session with its messages after it."""
    if all("type" in fields for fields in values if isinstance(fields, dict)):
        return values  # As the lines of most logs.
    return [
        part
        for value in values
        for part in (_with_messages(value) if _is_session(value) else (value,))
    ]


def _is_session(value: Any) -> bool:
    return (
        isinstance(value, dict) and "type" not in value and isinstance(value.get("sessionId"), str)
    )


def _with_messages(session: dict[str, Any]) -> list[Any]:
    return [session, *({_WITHIN: message} for message in items_of(session.get("messages")))]


def _verdict(value: dict[Any, Any]) -> bool | None:
    """Return the verdict for a value, or for a message ``_WITHIN`` a whole session."""
    if _WITHIN in value:
        return word(fields_of(value[_WITHIN]).get("type")) in _MESSAGE_TYPES
    if _is_session(value):
        return True if "projectHash" in value else None
    return True if "$set" in value or "$rewindTo" in value else _is_own(value)


def _is_own(value: dict[str, Any]) -> bool | None:
    """Return the verdict for a single message, since the header may be damaged."""
    type_ = word(value.get("type"))
    if (
        not isinstance(value.get("id"), str)
        or "timestamp" not in value
        or type_ not in _MESSAGE_TYPES
    ):
        return False
    if not isinstance(value["timestamp"], str):
        return None
    if type_ == "user":
        return "content" in value and value.keys() <= _OF_A_USER
    return "content" in value if type_ in ANSWERS else None


score: Final = OwnShare(_verdict, _values_apart)
"""Returns the share of values that belong to a Gemini CLI session."""


def is_message(value: dict[str, Any]) -> bool:
    """Return whether a line is a message, not a header, patch or rewind."""
    return isinstance(value.get("id"), str) and "sessionId" not in value and "$patch" not in value


def session_of(path: PurePath | None, first: Any) -> str:
    """Return an id for a session that no record names: from its file name or first record."""
    named = name_of(f"gemini-{path.name.partition('.')[0]}") if path is not None else None
    return named or f"gemini-{content_key(digest(first))}"


def opening_of(
    session: str, stated: dict[str, Any], path: PurePath | None, *, agent: str = AGENT
) -> SessionHeader:
    """Return the session header from its first record and its file's location."""
    parent = _parent(path)
    project = {"project": stated["projectHash"]} if name_of(stated.get("projectHash")) else {}
    subagent = stated.get("kind") == "subagent" or parent is not None
    opened = SessionHeader(
        session=session,
        agent=f"{agent}:subagent" if subagent else agent,
        parent=parent if parent != session else None,
        about=project,
    )
    return titled(opened, stated)


def titled(opening: SessionHeader, stated: dict[str, Any]) -> SessionHeader:
    """Return ``opening`` with the title and folder in ``stated``."""
    summary, folders = stated.get("summary"), stated.get("directories")
    title = shorten(summary) if isinstance(summary, str) and summary.strip() else opening.title
    cwd = folders[0] if isinstance(folders, list) and folders else None
    return msgspec.structs.replace(
        opening, title=title, cwd=opening.cwd or (cwd if isinstance(cwd, str) and cwd else None)
    )


def _parent(path: PurePath | None) -> str | None:
    """Return the parent session of a subagent, which its folder is named after."""
    if path is None or path.parent.parent.name != CHATS:
        return None
    return name_of(path.parent.name)


FORMAT: Final = Format(
    name=NAME,
    version=3,
    score=score,
    reader=GeminiReader,
    left_out=_left_out,
    places=(LogPlace("", ".gemini/tmp", "GEMINI_CLI_HOME", retention.gemini),),
)
