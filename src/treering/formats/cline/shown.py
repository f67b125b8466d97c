"""What the editor showed of a task, and calls by tags, for models without tool calling.

<read_file><path>tides.py</path></read_file>        in an answer
[read_file for 'tides.py'] Result:                  and after it, in the next message
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from treering.formats.blocks import WaitingCalls, failure_of
from treering.formats.codex.drafts import PendingEvent, called, count_of, observed, returned, said
from treering.formats.loose import fields_of, time_ms, word
from treering.formats.loose import name as name_of
from treering.formats.parsed import content_key
from treering.formats.whole import json_of, timed, version_key
from treering.spine.conversion import plain
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_USAGE: Final = frozenset({"api_req_started", "subagent_usage", "deleted_api_reqs"})
_ERRORS: Final = frozenset(
    {"error", "api_req_failed", "diff_error", "clineignore_error", "rooignore_error"}
)
_USERS: Final = frozenset({"task", "user_feedback", "user_feedback_diff"})
_ANSWERS: Final = frozenset(
    {"text", "completion_result", "followup", "plan_mode_respond", "act_mode_respond"}
)
_CALLS: Final = frozenset(
    {"tool", "command", "use_mcp_server", "browser_action", "browser_action_launch"}
)
_RESULTS: Final = frozenset({"command_output", "mcp_server_response", "browser_action_result"})
_MARKS: Final = frozenset({
    "api_req_finished", "api_req_retried", "checkpoint_created", "checkpoint_saved", "resume_task",
    "resume_completed_task", "mcp_server_request_started", "shell_integration_warning", "reasoning",
})  # fmt: skip
"""What only says that something was shown, or repeats it."""


def events(value: dict[str, Any], key: str, *, is_repeated: bool, by: str) -> list[PendingEvent]:
    """Return what a message in the editor adds to the conversation, which may repeat it."""
    sort = word(value.get(str(value.get("type")))) or "shown"
    text = value["text"] if isinstance(value.get("text"), str) else ""
    ts_ms = time_ms(value.get("ts"))
    drafts: list[PendingEvent]
    condensed = fields_of(value.get("contextCondense"))
    if sort in _USAGE:
        drafts = _used(fields_of(json_of(text)), value, key)
    elif sort in _ERRORS:
        shown = shorten(plain(text)) or sort
        payload = {"message": text, "code": sort}
        drafts = [
            PendingEvent(
                key=key, kind="ops.error", summary=shown, payload=payload, refs={"code": sort}
            )
        ]
    elif word(condensed.get("summary")):
        drafts = [] if is_repeated else [compaction(str(condensed["summary"]), key, by=by)]
    elif is_repeated and sort in _USERS | _ANSWERS | _CALLS | _RESULTS | _MARKS:
        drafts = []
    else:
        drafts = _conversation(sort, text, value, key)
    return timed(drafts, ts_ms)


def compaction(text: str, key: str, *, by: str) -> PendingEvent:
    """Return the event for a summary that replaced the messages before it."""
    payload = {"summary": text, "by": by}
    return PendingEvent(
        key=key, kind="context.compacted", summary=shorten(text), payload=payload, refs={"by": by}
    )


def usage(
    counts: dict[str, int], key: str, cost: Any, *, model: str | None, provider: str | None
) -> PendingEvent:
    """Return what a request used."""
    named = {"model": model, "provider": provider, "message_id": key}
    refs = {**{at: value for at, value in named.items() if value is not None}, **counts}
    is_known = isinstance(cost, int | float) and not isinstance(cost, bool) and cost > 0
    payload = {**refs, **({"cost_usd": cost} if is_known else {})}
    return PendingEvent(
        key=key, kind="usage.reported", summary="usage reported", payload=payload, refs=refs
    )


def _used(request: dict[str, Any], value: dict[str, Any], key: str) -> list[PendingEvent]:
    """Return what a request used, and that it was broken off."""
    read = count_of(request.get("cacheReads")) or 0
    written = count_of(request.get("cacheWrites")) or 0
    counts = {
        "input_tokens": (count_of(request.get("tokensIn")) or 0) + read + written,
        "output_tokens": count_of(request.get("tokensOut")) or 0,
        "cached_tokens": read,
        "cache_creation_tokens": written,
    }
    drafts = []
    if any(counts.values()):
        info = fields_of(value.get("modelInfo"))
        model, provider = name_of(info.get("modelId")), name_of(info.get("providerId"))
        drafts.append(
            usage(
                counts,
                version_key(key, counts),
                request.get("cost"),
                model=model,
                provider=provider,
            )
        )
    if reason := word(request.get("cancelReason")):
        message = word(request.get("streamingFailedMessage")) or reason
        kind = "boundary.interrupt" if reason == "user_cancelled" else "ops.error"
        payload = {"message": message, "code": reason}
        refs = {} if kind == "boundary.interrupt" else {"code": reason}
        drafts.append(
            PendingEvent(
                key=f"{key}.end",
                kind=kind,
                summary=shorten(plain(message)),
                payload=payload,
                refs=refs,
            )
        )
    return drafts


def _conversation(sort: str, text: str, value: dict[str, Any], key: str) -> list[PendingEvent]:
    """Return what was shown as the conversation, in place of one that is missing."""
    made = version_key(key, text)
    images = {"attached": value["images"]} if value.get("images") else {}
    if sort in _USERS and (text.strip() or images):
        return [said("user", made, text, **images)]
    if sort in _ANSWERS:
        stated = fields_of(json_of(text))
        shown = next((stated[at] for at in ("question", "response") if word(stated.get(at))), text)
        return [said("assistant", made, shown)] if shown.strip() else []
    if sort == "reasoning":
        return [said("thinking", made, text)] if text.strip() else []
    if sort in _CALLS and text.strip():
        stated = fields_of(json_of(text)) or {"command": text}
        tool = name_of(stated.get("tool")) or name_of(stated.get("toolName")) or sort
        return [called(made, key, tool, stated)]
    if sort in _RESULTS and text.strip():
        return [returned(made, key, sort, text, None)]
    if sort in _MARKS or not (text.strip() or images):
        return []
    return [observed(made, sort, value)]


_CALL: Final = re.compile(r"<([a-z][a-z0-9]*(?:_[a-z0-9]+)+)>\s*(<[a-z_]+>.*?|\s*)</\1>", re.DOTALL)
"""A tool has a name of several words, and its arguments in tags of their own."""
_ARGUMENT: Final = re.compile(r"<([a-zA-Z_]+)>(.*?)</\1>", re.DOTALL)
_THOUGHT: Final = re.compile(r"\s*<thinking>(.*?)</thinking>\s*", re.DOTALL)
_RESULT: Final = re.compile(
    r"\[([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?: for .*?| in .*?|)\] Result:\s*", re.DOTALL
)
_NO_TOOLS: Final = frozenset({"environment_details", "user_message"})


def calls_in(
    blocks: Sequence[dict[str, Any]], calls: WaitingCalls, key_of: Callable[[Any], str]
) -> tuple[list[dict[str, Any]], list[PendingEvent]]:
    """Return an answer's blocks without calls and thoughts in tags, and these calls."""
    rest: list[dict[str, Any]] = []
    events: list[PendingEvent] = []
    for block in blocks:
        text = block.get("text")
        if block.get("type") != "text" or not isinstance(text, str) or "<" not in text:
            rest.append(block)
            continue
        rest += [{"type": "thinking", "thinking": match[1]} for match in _THOUGHT.finditer(text)]
        text = _THOUGHT.sub("", text)
        found_calls = [match for match in _CALL.finditer(text) if match[1] not in _NO_TOOLS]
        for call in found_calls:
            key = key_of(["call", call[0]])
            call_id = content_key(f"call.{key}")
            given = {name: value.strip("\n") for name, value in _ARGUMENT.findall(call[2])}
            calls.add(call_id, call[1])
            events.append(called(f"call:{call_id}", call_id, call[1], given))
        for call in found_calls:
            text = text.replace(call[0], "", 1)
        rest.append({**block, "text": text.strip("\n") if found_calls else text})
    return rest, events


def results_in(
    blocks: Sequence[dict[str, Any]], calls: WaitingCalls, key_of: Callable[[Any], str]
) -> tuple[list[PendingEvent], list[dict[str, Any]]]:
    """Return the results of calls by tags among a user's blocks, and the other blocks."""
    events: list[PendingEvent] = []
    rest: list[dict[str, Any]] = []
    ahead = [*blocks]
    while ahead:
        block = ahead.pop(0)
        text = str(block.get("text"))
        match = _RESULT.match(text)
        if match is None or block.get("type") != "text":
            rest.append(block)
            continue
        output: Any = text[match.end() :]
        if (
            not output.strip()
            and ahead
            and "<environment_details>" not in str(ahead[0].get("text"))
        ):
            following = ahead.pop(0)
            given = following.get("text")
            output = given if isinstance(given, str) else [following]
        call_id, tool = calls.take(None, match[1])
        key = key_of(["result", match[1], output])
        call_id = call_id or content_key(f"call.{key}")
        events.append(returned(f"result:{call_id}", call_id, tool, output, failure_of(output)))
    return events, rest
