"""Messages of the Gemini CLI, in the ledger's words: each tells its events, under stable keys."""

from __future__ import annotations

from typing import Any, Final

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
from treering.formats.loose import fields_of, says_beyond, says_something
from treering.formats.loose import name as name_of
from treering.formats.loose import time_ms as time_of
from treering.formats.parsed import of_words
from treering.spine.conversion import plain
from treering.spine.words import shorten

ANSWERS: Final = frozenset({"gemini", "model"})
"""Types of messages that the model gave."""
PROVIDER: Final = "google"
SNAPSHOT: Final = "<state_snapshot>"
"""How a summary begins that stands for what was said before it."""
_CONTEXT: Final = ("<session_context>", "This is the Gemini CLI. We are setting up the context")
"""How messages of a user begin that no user wrote."""
_TROUBLE: Final = {"error": "ops.error", "warning": "ops.warning"}
_ENDS: Final = {"success": None, "error": "Failed", "cancelled": "Cancelled"}
"""How calls end, and what that is called if it is a failure."""
_SIGNATURE: Final = "thoughtSignature"
"""The seal of a thought, which stands on the part that was thought of."""
_TEXT: Final = ""
"""Stands for the text of an answer, where calls stand for themselves."""
_LISTS: Final = ("thoughts", "toolCalls")
"""Fields of an answer that list objects."""
_MESSAGE_FIELDS: Final = frozenset(
    {"id", "type", "timestamp", "content", "displayContent", "model", "tokens", *_LISTS}
)
_CALL_FIELDS: Final = frozenset(
    {"id", "name", "args", "result", "status", "timestamp", "resultDisplay"}
)


def read_message(message: dict[str, Any], message_id: str) -> list[PendingEvent]:
    """Return what ``message`` tells; the first is what is hidden first when it is taken back."""
    sort = message.get("type")
    if sort == "user":
        drafts = _read_user(message, message_id)
    elif sort in ANSWERS:
        drafts = _read_answer(message, message_id)
    else:
        drafts = [_read_note(message, message_id, str(sort))]
    if _is_unheard(message, drafts):
        key = f"{message_id}.whole" if drafts else message_id
        drafts = [*drafts, observed(key, str(sort), message)]
    ts_ms = time_of(message.get("timestamp"))
    return [
        draft if draft.ts_ms else msgspec.structs.replace(draft, ts_ms=ts_ms) for draft in drafts
    ]


def _is_unheard(message: dict[str, Any], drafts: list[PendingEvent]) -> bool:
    """Whether a message says something that is not told, in a shape that nobody knows."""
    if any(draft.kind == "ops.observation" and draft.payload.get("record") for draft in drafts):
        return False  # It is told whole already.
    lists = [message.get(name) for name in _LISTS]
    if any(not isinstance(one, list) and says_something(one) for one in lists):
        return True
    parts = [part for one in lists for part in (one if isinstance(one, list) else [])]
    if any(not isinstance(part, dict) and says_something(part) for part in parts):
        return True
    if drafts:
        return False
    content = message.get("content")
    is_known = isinstance(content, str | list | None)
    return not is_known or says_beyond(message, _MESSAGE_FIELDS)


def id_of(message: dict[str, Any]) -> str:
    """Return the id of ``message``; one made of its content if it has none."""
    named = name_of(message.get("id"))
    return short_id(named) if named else f"gemini-{of_words(digest(message))}"


def is_snapshot(message: dict[str, Any]) -> bool:
    """Whether ``message`` is a summary of what was said before it."""
    return message.get("type") == "user" and words_of(message.get("content")).lstrip().startswith(
        SNAPSHOT
    )


def compaction_of(message: dict[str, Any], message_id: str, first: str | None) -> PendingEvent:
    """Return a summary as what it is; ``first`` is the key of the first event that it keeps."""
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
    """Return the key of what a message says just now: a file that is written anew may change it."""
    return f"{name}.v{of_words(digest(content)[:8])}"


def words_of(content: Any) -> str:
    """Return the text of a content, without the thoughts among its parts."""
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
    kept = content if extras else None
    key = _version(message_id, [text, kept])
    return [*results, said("user", key, text, message_id=message_id, content=kept)]


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
    told = {"model": model, "message_id": message_id, _SIGNATURE: signed.pop(_TEXT, None)}
    if text.strip() or more is not None:
        key = _version(message_id, [text, more])
        drafts.append(said("assistant", key, text, **told, content=more))
    elif told[_SIGNATURE] is not None:
        drafts.append(said("thinking", f"{message_id}.signature", "", **told))
    calls = message.get("toolCalls")
    for number, call in enumerate(calls if isinstance(calls, list) else [], 1):
        if isinstance(call, dict):
            seal = _seal(call, signed, model)
            drafts += _read_call(call, f"{message_id}.call.{number}", **seal)
    listed = {draft.refs.get("call_id") for draft in drafts}
    asked = [fields_of(part.get("functionCall")) for part in _parts(content)]
    for call in asked:
        if call and name_of(call.get("id")) not in {*listed, None}:
            drafts += _read_call(call, "", **_seal(call, signed, model))
    usage = _usage(message.get("tokens"), message_id, model)
    return drafts if usage is None else [*drafts, usage]


def _read_note(message: dict[str, Any], message_id: str, sort: str) -> PendingEvent:
    """Return what was shown besides the conversation, or a message of an unknown type."""
    text = text_of(message.get("content"))
    if sort not in _TROUBLE:
        return observed(message_id, sort, message)
    return PendingEvent(
        key=message_id,
        kind=_TROUBLE[sort],
        summary=shorten(text),
        payload={**message, "message": text},
        refs={"code": sort},
    )


def _thought(thought: dict[str, Any], key: str, message_id: str) -> PendingEvent:
    parts = (thought.get("subject"), thought.get("description"))
    text = "\n".join(part for part in parts if isinstance(part, str) and part)
    draft = said("thinking", key, text, subject=thought.get("subject"), message_id=message_id)
    return msgspec.structs.replace(draft, ts_ms=time_of(thought.get("timestamp")))


def _signatures(content: Any) -> dict[str, str]:
    """Return the seals of thoughts on the parts of an answer, by the calls that they stand on."""
    found: dict[str, str] = {}
    for part in _parts(content):
        seal = part.get(_SIGNATURE)
        if isinstance(seal, str) and seal:
            call = fields_of(part.get("functionCall"))
            named = name_of(call.get("id")) or name_of(call.get("name"))
            found.setdefault(named or _TEXT, seal)
    return found


def _seal(call: dict[str, Any], signed: dict[str, str], model: str | None) -> dict[str, str]:
    """Return the seal of a call, and the model that it goes back to; a part may not say its id."""
    stated = call.get(_SIGNATURE)
    names = (name_of(call.get("id")), name_of(call.get("name")))
    seal = stated or next((signed.pop(one) for one in names if one in signed), None)
    if not isinstance(seal, str):
        return {}
    return {_SIGNATURE: seal, **({"model": model} if model else {})}


def _read_call(call: dict[str, Any], place: str, **seal: str) -> list[PendingEvent]:
    """Return a call and, once it has ended, its outcome."""
    call_id = name_of(call.get("id")) or place
    tool = name_of(call.get("name")) or "unnamed"
    more = {
        name: told
        for name, told in call.items()
        if name not in _CALL_FIELDS and told and told != seal.get(name)
    }
    detail = {"detail": more} if more else {}
    began = called(
        f"call:{short_id(call_id)}",
        call_id,
        tool,
        input_of(call.get("args"), "args"),
        **detail,
        **seal,
    )
    status, result = str(call.get("status")), call.get("result")
    if status not in _ENDS and result is None:
        return [began]
    output, failure = _output_of(result)
    named = _ENDS.get(status) or ("Failed" if failure is not None else None)
    shown = call.get("resultDisplay")
    if result is None and isinstance(shown, str):
        output = shown
    told = failure if failure is not None else output
    message = shorten(plain(told)) if isinstance(told, str) else status
    error = None if named is None else {"class": named, "message": message}
    ended = returned(f"result:{short_id(call_id)}", call_id, tool, output, error, detail=shown)
    return [began, msgspec.structs.replace(ended, ts_ms=time_of(call.get("timestamp")))]


def _answered(response: dict[str, Any], place: str) -> PendingEvent:
    """Return the outcome of a call that a message of the user's side carries."""
    call_id = name_of(response.get("id")) or place
    output, failure = _output_of([{"functionResponse": response}])
    error = None if failure is None else {"class": "Failed", "message": shorten(plain(failure))}
    return returned(
        f"result:{short_id(call_id)}", call_id, name_of(response.get("name")), output, error
    )


def _output_of(result: Any) -> tuple[Any, str | None]:
    """Return what a tool gave back, and what went wrong if it says so."""
    parts = _parts(result)
    responses = [
        fields_of(part["functionResponse"]) for part in parts if "functionResponse" in part
    ]
    texts, failure = [], None
    for response in responses:
        stated = response.get("response")
        told = fields_of(stated)
        failure = told["error"] if isinstance(told.get("error"), str) else failure
        text = told.get("output", told.get("error", stated))
        if not isinstance(text, str) or response.get("parts"):
            return result, failure
        texts.append(text)
    if len(responses) < len(parts):
        # Pictures and other parts stand beside the responses.
        loose = texts_of([part for part in parts if "functionResponse" not in part])
        if len(loose) + len(responses) < len(parts):
            return result, failure
        texts += loose
    if not parts and result not in (None, []):
        return result, failure
    return "\n".join(texts), failure


def _usage(tokens: Any, message_id: str, model: str | None) -> PendingEvent | None:
    """Return what the call of a model used: thoughts are output, what tools added is input."""
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
    """Whether an answer holds more than texts and calls."""
    return any(
        "functionCall" not in part and ("text" not in part or bool(part.get("thought")))
        for part in _parts(content)
    )


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, dict):
        return [content]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
