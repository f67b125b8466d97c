"""The fast path through a log: lines of users and assistants as Claude Code usually writes them.

Nearly all lines of a log are a prompt, a result, or one part of an answer, with an id of their own,
after a line that was read before, and with nothing else to say. They are read here without the
questions that other lines need. A line with anything unusual is left to the reader for all lines,
and changes nothing here: both ways give the same events and remember the same.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from treering.formats.claude_code.blocks import NO_CONTENT, NOBODY
from treering.formats.claude_code.lines import (
    CALL_ID_CHARACTERS_MAX,
    ID_CHARACTERS_MAX,
    OURS,
    brief,
    text_of,
)
from treering.formats.claude_code.results import (
    INTERRUPTED,
    REFUSALS,
    TASK_TOOLS,
    call_words,
    duration_of,
    more_in,
)
from treering.formats.claude_code.state import (
    CALLS_MAX,
    MARK_DIGITS,
    MESSAGES_MAX,
    NODES_MAX,
    LineNode,
    NextEvent,
)
from treering.formats.claude_code.usage import USED, count
from treering.formats.loose import keep, usual_time_ms
from treering.formats.parsed import ParsedEvent, content_key
from treering.model.codec import encode

if TYPE_CHECKING:
    from treering.formats.claude_code.facts import FactRepeats
    from treering.formats.claude_code.state import ClaudeCodeState

_UNUSUAL: Final = frozenset({
    OURS, "agentId", "apiErrorStatus", "costUSD", "error", "forkedFrom", "isApiErrorMessage",
    "isCompactSummary", "isMeta", "isVisibleInTranscriptOnly", "logicalParentUuid", "origin",
    "parent_tool_use_id", "session_id", "snapshot", "toolDenialKind",
})  # fmt: skip
"""Fields of lines that mean more than what is said in them."""
_UUID: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)
_BLOCK_DIGITS: Final = 12

_Pieces = tuple[list[ParsedEvent], str, str]
"""Events, what of the conversation they are (_PROMPT, _SPOKEN or _BESIDE), and the line's mark."""
_PROMPT: Final = "prompt"
_SPOKEN: Final = "spoken"
_BESIDE: Final = "beside"


def read_straight(
    value: dict[str, Any], past: ClaudeCodeState, repeats: FactRepeats
) -> list[ParsedEvent] | None:
    """Return the events of a line; None, and nothing changed, if it is not as usual."""
    key, parent, session = value.get("uuid"), value.get("parentUuid"), value.get("sessionId")
    message, time = value.get("message"), value.get("timestamp")
    nodes = past.nodes
    if (
        type(key) is not str
        or type(session) is not str
        or type(time) is not str
        or type(message) is not dict
        or not _UNUSUAL.isdisjoint(value)
        or value.get("isSidechain") is True
        or past.leaves
        or key in nodes
        or not (parent is None or (type(parent) is str and parent in nodes))
        or not repeats.holds(session, value, past)
        or _UUID.fullmatch(key) is None
    ):
        return None
    ts_ms = usual_time_ms(time)
    if ts_ms is None:
        return None
    sort = value.get("type")
    after = None if parent is None else nodes[parent].key or parent
    if sort == "assistant":
        line = _assistant(value, message, past, (session, key, ts_ms, after))
    elif sort == "user":
        line = _user(value, message, past, (session, key, ts_ms, after), parent)
    else:
        return None
    if line is None:
        return None
    events, share, mark = line
    past.lines += 1
    past.ts_ms, past.session, past.key = ts_ms, session, key
    number, stem = past.number(session), ""
    if parent is not None:
        if share is _BESIDE:
            stem = nodes[parent].stem or parent
        else:
            past.follow(parent, NextEvent(key, number), prompt=share is _PROMPT)
    nodes[key] = LineNode(number, "", stem, mark)
    if len(nodes) > NODES_MAX:
        del nodes[next(iter(nodes))]
    return events


_Place = tuple[str, str, int, str | None]
"""Session, key and time of a line, and the key of what came before it."""


def _user(
    value: dict[str, Any],
    message: dict[str, Any],
    past: ClaudeCodeState,
    place: _Place,
    parent: str | None,
) -> _Pieces | None:
    content = message.get("content")
    if type(content) is list:
        block = content[0] if len(content) == 1 else None
        if type(block) is not dict:
            return None
        sort = block.get("type")
        if sort == "tool_result":
            return _result(block, value, past, place)
        text = block.get("text") if sort == "text" else None
    else:
        text = content
    if type(text) is not str or not text.strip():
        return None
    # Commands, reminders and notices begin with a tag.
    if text.startswith(INTERRUPTED) or text.lstrip()[:1] == "<":
        return None
    if parent is not None and past.first_after(parent, place[0]) is not None:
        return None  # The user went back.
    mark = sha256(encode(["user", content])).hexdigest()[:MARK_DIGITS]
    event = _event(
        place, mark, "conversation.user", brief(text), {"text": text}, {"characters": len(text)}
    )
    return [event], _PROMPT, mark


def _result(
    block: dict[str, Any], value: dict[str, Any], past: ClaudeCodeState, place: _Place
) -> _Pieces | None:
    call_id, failed = block.get("tool_use_id"), block.get("is_error")
    if not _is_name(call_id, CALL_ID_CHARACTERS_MAX) or "content" not in block:
        return None
    output = block["content"]
    words = output if type(output) is str else text_of(output)
    if (failed is not None and failed is not False) or words.startswith(REFUSALS):
        return None
    detail = value.get("toolUseResult")
    if type(detail) is dict and "agentId" in detail:
        return None
    past.tasks.pop(call_id, None)
    tool = past.calls.get(call_id)
    payload: dict[str, Any] = {"call_id": call_id, "status": "ok", "output": output}
    if output is None:
        payload["output"] = ""
    refs: dict[str, Any] = {"call_id": call_id, "status": "ok"}
    if tool is not None:
        payload["name"] = refs["tool"] = tool
    duration_ms = duration_of(detail)
    if duration_ms is not None:
        payload["duration_ms"] = refs["duration_ms"] = duration_ms
    more = more_in(detail, words)
    if more is not None:
        payload["detail"] = more
    mark = sha256(b'["user",[%b]]' % encode(block)).hexdigest()[:MARK_DIGITS]
    summary = brief(f"{tool or 'a tool'} returned: {words}")
    return [_event(place, mark, "tool.result", summary, payload, refs)], _SPOKEN, mark


def _assistant(
    value: dict[str, Any], message: dict[str, Any], past: ClaudeCodeState, place: _Place
) -> _Pieces | None:
    content, message_id, model = message.get("content"), message.get("id"), message.get("model")
    request_id = value.get("requestId")
    block = content[0] if type(content) is list and len(content) == 1 else None
    if (
        type(block) is not dict
        or not _is_name(message_id)
        or not _is_name(model)
        or not _is_name(request_id)
        or model == NOBODY
    ):
        return None
    session, key = place[0], place[1]
    spelt = encode(block)
    digest = sha256(spelt).hexdigest()[:_BLOCK_DIGITS]
    number = past.number(session)
    message_key = f"{number}:{message_id}"
    parts = past.blocks.get(message_key)
    if parts is not None and digest in parts:
        return None  # The message is written again.
    sort = block.get("type")
    if sort == "tool_use":
        part = _call(block, past, (number, key, digest), message_id)
    elif sort == "text":
        part = _answer(block, message, model, message_id)
    elif sort == "thinking":
        part = _thought(block, model, message_id)
    else:
        return None
    if part is None:
        return None
    if parts is None:
        parts = {}
        keep(past.blocks, message_key, parts, MESSAGES_MAX)
    parts[digest] = key
    mark = sha256(b'["assistant",[%b]]' % spelt).hexdigest()[:MARK_DIGITS]
    events = [_event(place, mark, *part)]
    usage = message.get("usage")
    if type(usage) is dict:
        events += _usage(usage, past, place, (message_id, request_id, model))
    return events, _BESIDE if sort == "thinking" else _SPOKEN, mark


_Part = tuple[str, str, dict[str, Any], dict[str, Any]]
"""Kind, summary, payload and refs of an event."""


def _call(
    block: dict[str, Any], past: ClaudeCodeState, named: tuple[int, str, str], message_id: str
) -> _Part | None:
    """Return a call; ``named`` are the number of its session, its key and its digest."""
    number, key, digest = named
    call_id, tool = block.get("id"), block.get("name")
    if not _is_name(call_id, CALL_ID_CHARACTERS_MAX) or not _is_name(tool) or tool in TASK_TOOLS:
        return None
    call_key = f"{number}:{call_id}"
    if past.asked.get(call_key, ("",))[0] == digest:
        return None  # The call is written again.
    keep(past.asked, call_key, (digest, key), CALLS_MAX)
    keep(past.calls, call_id, tool, CALLS_MAX)
    given = block.get("input")
    payload = {"call_id": call_id, "name": tool, "input": given}
    refs = {"call_id": call_id, "tool": tool, "message_id": message_id}
    return "tool.call", brief(call_words(tool, given)), payload, refs


def _answer(
    block: dict[str, Any], message: dict[str, Any], model: str, message_id: str
) -> _Part | None:
    text = block.get("text")
    if type(text) is not str or text.strip() in {"", NO_CONTENT}:
        return None
    about = {"model": model, "message_id": message_id}
    stop_reason = message.get("stop_reason")
    if stop_reason is not None and _is_name(stop_reason):
        about["stop_reason"] = stop_reason
    refs = {"characters": len(text), **about}
    return "conversation.assistant", brief(text), {"text": text, **about}, refs


def _thought(block: dict[str, Any], model: str, message_id: str) -> _Part | None:
    payload = {"thinking": "", **block}
    del payload["type"]
    if not any(payload.values()):
        return None
    refs = {"observed": "thinking", "message_id": message_id, "model": model}
    return "ops.observation", "thinking", payload, refs


def _usage(
    usage: dict[str, Any], past: ClaudeCodeState, place: _Place, names: tuple[str, str, str]
) -> list[ParsedEvent]:
    """Return the usage of a message, if it is more than was reported before."""
    message_id, request_id, model = names
    cached = count(usage.get("cache_read_input_tokens"))
    written = count(usage.get("cache_creation_input_tokens"))
    received, given = count(usage.get("output_tokens")), count(usage.get("input_tokens"))
    total = given + received + cached + written
    call = f"{message_id}:{request_id}"
    most, received_before = past.usage.get(call, (0, -1))
    if total <= most:
        return []
    keep(past.usage, call, (total, received), MESSAGES_MAX)
    key = f"usage:{call}:{received}"
    if received_before == received:
        key = f"{key}:{total}"
    session, _, ts_ms, after = place
    return [
        ParsedEvent(
            session=session,
            key=key,
            kind=USED,
            summary=f"{total} tokens used",
            ts_ms=ts_ms,
            payload={"usage": usage},
            refs={
                "model": model,
                "provider": "anthropic",
                "message_id": message_id,
                "request_id": request_id,
                "input_tokens": given + cached + written,
                "output_tokens": received,
                "cached_tokens": cached,
                "cache_creation_tokens": written,
                "total_tokens": total,
            },
            after=after,
        )
    ]


def _event(
    place: _Place, mark: str, kind: str, summary: str, payload: Any, refs: dict[str, Any]
) -> ParsedEvent:
    session, key, ts_ms, after = place
    return ParsedEvent(
        session=session,
        key=key,
        kind=kind,
        summary=summary,
        ts_ms=ts_ms,
        payload=payload,
        refs=refs,
        after=after,
        alternate_key=content_key(f"{key}~{mark}"),
    )


def _is_name(text: Any, most: int = ID_CHARACTERS_MAX) -> TypeGuard[str]:
    """Whether ``text`` can name something, as ``name_in`` asks of a field."""
    return type(text) is str and 0 < len(text) <= most and text.isprintable() and not text.isspace()
