"""Messages of the Gemini CLI as events with stable keys, and the header of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

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
from treering.formats.format import share
from treering.formats.loose import fields_of, says_beyond, says_something, word
from treering.formats.loose import name as name_of
from treering.formats.loose import time_ms as time_of
from treering.formats.parsed import SessionHeader, content_key
from treering.spine.conversion import plain
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import PurePath


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
    ts_ms = time_of(message.get("timestamp"))
    return [
        draft if draft.ts_ms else msgspec.structs.replace(draft, ts_ms=ts_ms) for draft in drafts
    ]


def _has_unknown_content(message: dict[str, Any], drafts: list[PendingEvent]) -> bool:
    """Return whether a message has content in a shape that ``drafts`` do not cover."""
    if any(draft.kind == "ops.observation" and draft.payload.get("record") for draft in drafts):
        return False  # The whole message is recorded already.
    lists = [message.get(name) for name in _LISTS]
    if any(not isinstance(listed, list) and says_something(listed) for listed in lists):
        return True
    parts = [part for listed in lists for part in (listed if isinstance(listed, list) else [])]
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
    summary = words_of(message.get("content"))
    return PendingEvent(
        key=message_id,
        kind="context.compacted",
        summary=shorten(summary),
        payload={"summary": summary, "by": "gemini"},
        refs={"by": "gemini"},
        first=first,
        ts_ms=time_of(message.get("timestamp")),
    )


def _version(name: str, content: Any) -> str:
    """Return a key for this version of the content: a rewritten file may change it."""
    return f"{name}.v{content_key(digest(content)[:8])}"


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
    key = _version(message_id, [text, original])
    return [*results, said("user", key, text, message_id=message_id, content=original)]


def _read_answer(message: dict[str, Any], message_id: str) -> list[PendingEvent]:
    content, model = message.get("content"), name_of(message.get("model"))
    thoughts = message.get("thoughts")
    drafts = [
        _thought(fields_of(thought), f"{message_id}.thought.{number}", message_id)
        for number, thought in enumerate(thoughts if isinstance(thoughts, list) else [], 1)
        if isinstance(thought, dict)
    ]
    text, more = words_of(content), content if _has_more(content) else None
    signed = _signatures(content)
    extra = {"model": model, "message_id": message_id, _SIGNATURE: signed.pop(_TEXT, None)}
    if text.strip() or more is not None:
        key = _version(message_id, [text, more])
        drafts.append(said("assistant", key, text, **extra, content=more))
    elif extra[_SIGNATURE] is not None:
        drafts.append(said("thinking", f"{message_id}.signature", "", **extra))
    calls = message.get("toolCalls")
    for number, call in enumerate(calls if isinstance(calls, list) else [], 1):
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
    named = {"model": model} if model else {}
    refs = {**named, "provider": PROVIDER, **counts}
    return PendingEvent(
        key=_version(f"{message_id}.usage", counts),
        kind="usage.reported",
        summary="usage reported",
        payload={**refs, "message_id": message_id, "tokens": tokens},
        refs={**refs, "message_id": message_id},
    )


def _has_more(content: Any) -> bool:
    """Return whether an answer holds more than texts and calls."""
    return any(
        "functionCall" not in part and ("text" not in part or bool(part.get("thought")))
        for part in _parts(content)
    )


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, dict):
        return [content]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


AGENT: Final = "gemini"
CHATS: Final = "chats"
"""The folder of a project's sessions; subagent sessions are in a subfolder named by their
parent."""
_MESSAGE_TYPES: Final = frozenset({"user", "info", "error", "warning"}) | ANSWERS
_OF_A_USER: Final = frozenset({"id", "timestamp", "type", "content", "displayContent"})
"""All fields of a user's message."""


def score(values: Sequence[Any]) -> float:
    """Return the share of values that belong to a Gemini CLI session."""
    return share(verdict for value in values for verdict in _verdicts(fields_of(value)))


def _verdicts(value: dict[str, Any]) -> Iterator[bool | None]:
    """Yield a verdict for a value; for a whole session, one for each of its messages."""
    if isinstance(value.get("sessionId"), str) and "type" not in value:
        messages = value.get("messages")
        yield True if "projectHash" in value else None
        for message in messages if isinstance(messages, list) else []:
            yield word(fields_of(message).get("type")) in _MESSAGE_TYPES
    elif "$set" in value or "$rewindTo" in value:
        yield True
    else:
        yield _is_own(value)


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
