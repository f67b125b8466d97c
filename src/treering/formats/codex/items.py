"""The items of a rollout as events of the ledger, and the output of a tool of Codex."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.codex.drafts import (
    PendingEvent,
    called,
    input_of,
    key_of,
    observed,
    returned,
    said,
    short_id,
    text_of,
    texts_of,
)
from treering.formats.codex.twins import LaneText, unwrapped
from treering.formats.loose import fields_of
from treering.formats.loose import name as name_of
from treering.model.codec import decode
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping


ItemPart = PendingEvent | LaneText

_PASSING: Final = frozenset({"type", "id", "call_id", "name", "status", "timestamp"})
_DONE: Final = {"completed": None, "failed": "Failed", "incomplete": "Incomplete"}
"""How calls with their own outcome ended, and the class of a failure."""
_OWN_OUTCOMES: Final = frozenset({"web_search_call", "image_generation_call", "mcp_call"})
"""Calls that no other item answers."""
_ANSWERS: Final = ("output", "result", "results")


def read_item(item: dict[str, Any], tools: Mapping[str, str]) -> list[ItemPart]:
    """Return the parts of ``item``; ``tools`` are the names of open calls, by id."""
    sort = item.get("type")
    if sort == "message" or (sort is None and isinstance(item.get("role"), str)):
        return _read_message(item)
    if sort == "reasoning":
        return _read_reasoning(item)
    if isinstance(sort, str) and sort.endswith("_call"):
        return _read_call(item, sort)
    is_result = (
        isinstance(sort, str) and sort.endswith("_output") and ("output" in item or "tools" in item)
    )
    if is_result and name_of(item.get("call_id")):
        return [_read_result(item, tools)]
    return [observed(key_of(["item", item]), sort if isinstance(sort, str) else "item", item)]


def observation_of(item: dict[str, Any]) -> PendingEvent:
    """Return a message of neither side: instructions, context, images of an earlier text."""
    return observed(key_of(["item", item]), "message", item)


def has_pictures(item: dict[str, Any]) -> bool:
    """Whether a message holds more than texts."""
    content = item.get("content")
    return isinstance(content, list) and len(texts_of(content)) < len(content)


def _read_message(item: dict[str, Any]) -> list[ItemPart]:
    role, content = item.get("role"), item.get("content")
    if role == "assistant":
        more = {"phase": item.get("phase"), "message_id": name_of(item.get("id"))}
        text = text_of(content)
        if text.strip():
            return [LaneText(role="assistant", lane="item", text=text, more=more)]
    if role == "user":
        whole = text_of(content)
        # Each part is a text of its own: the context before the words may be one.
        parts = [unwrapped(text) for text in texts_of(content)] if isinstance(content, list) else []
        words = "\n".join(part for part in parts if part.strip()) or unwrapped(whole)
        if words.strip() or (has_pictures(item) and not whole.strip()):
            more = {"wrapped": whole} if words != whole else {}
            pictures = {"content": content} if has_pictures(item) else {}
            return [LaneText(role="user", lane="item", text=words, more={**more, **pictures})]
    return [observation_of(item)]


def _read_reasoning(item: dict[str, Any]) -> list[ItemPart]:
    stated = item.get("summary"), item.get("content")
    if not all(isinstance(field, list | None) for field in stated):
        return [observed(key_of(["item", item]), "reasoning", item)]
    parts = [text for field in stated for text in texts_of(field)]
    rest = {
        name: value
        for name, value in item.items()
        if name not in {"type", "summary", "content", "id"} and value is not None
    }
    if "encrypted_content" in rest and name_of(item.get("id")):
        # Sealed content names its item, and is refused under another id.
        rest["id"] = item["id"]
    if not parts:
        return [said("thinking", key_of(["reasoning", item]), "", **rest)] if rest else []
    return [
        LaneText(role="thinking", lane="item", text=text, more=rest if number == 0 else {})
        for number, text in enumerate(parts)
    ]


def _read_call(item: dict[str, Any], sort: str) -> list[ItemPart]:
    call_id = name_of(item.get("call_id")) or name_of(item.get("id")) or f"codex-{key_of(item)}"
    tool = name_of(item.get("name")) or sort.removesuffix("_call")
    call = called(f"call:{short_id(call_id)}", call_id, tool, _stated(item))
    error = _DONE.get(str(item.get("status")), "")
    if sort not in _OWN_OUTCOMES or error == "":
        return [call]
    output = next((item[name] for name in _ANSWERS if item.get(name) is not None), "")
    failure = item.get("error")
    if error or failure is not None:
        message = failure if isinstance(failure, str) else f"{tool} {item.get('status')}"
        stated = {"class": error or "Failed", "message": message}
    else:
        stated = None
    return [call, returned(f"result:{short_id(call_id)}", call_id, tool, output, stated)]


def _stated(item: dict[str, Any]) -> dict[str, Any]:
    """Return the input of a call, wherever its kind of call has it."""
    if "arguments" in item:
        return input_of(item["arguments"], "arguments")
    if isinstance(item.get("input"), dict):
        return fields_of(item["input"])
    if "input" in item:
        return {"input": item["input"]}
    if isinstance(item.get("action"), dict):
        return fields_of(item["action"])
    return {
        name: value
        for name, value in item.items()
        if name not in _PASSING and name not in _ANSWERS and value is not None
    }


def _read_result(item: dict[str, Any], tools: Mapping[str, str]) -> PendingEvent:
    call_id = item["call_id"]
    read = read_output(item.get("output", item.get("tools", "")))
    return returned(
        f"result:{short_id(call_id)}",
        call_id,
        tools.get(call_id),
        read.output,
        read.error,
        exit_code=read.exit_code,
        duration_ms=read.duration_ms,
    )


HEAD_CHARACTERS: Final = 400
"""Characters of a text in which its heading is looked for."""
DURATION_MS_MAX: Final = 2**40
_EXIT: Final = re.compile(
    r"^(?:Exit code: |Process exited with code )(-?[0-9]{1,9})$", re.MULTILINE
)
_WALL_TIME: Final = re.compile(r"^Wall time: ([0-9]{1,9}(?:\.[0-9]{1,9})?) ?s", re.MULTILINE)
_FAILURES: Final = {
    "failed in sandbox": "Sandbox",
    "patch rejected": "Rejected",
    "exec command rejected": "Rejected",
    "rejected by user": "Rejected",
    "exec_command failed": "Failed",
    "execution error": "Failed",
    "apply_patch verification failed": "Failed",
    "failed to parse function arguments": "Failed",
    "aborted": "Aborted",
    "err: ": "Failed",
    "unsupported call": "Unsupported",
}
"""How outputs begin that report a failure in words only, and the class of that failure."""


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a tool."""

    output: Any
    error: dict[str, str] | None = None
    exit_code: int | None = None
    duration_ms: int | None = None


def read_output(output: Any) -> Returned:
    """Return what ``output`` says: a text, JSON in a text, an object or a list of parts."""
    if isinstance(output, str):
        return _read_text(output)
    if isinstance(output, list):
        texts = texts_of(output)
        only_words = len(texts) == len(output)
        return _read_text("\n".join(texts)) if only_words else Returned(output=output)
    stated = fields_of(output)
    if isinstance(stated.get("output"), str):
        return _read_object(stated)
    content = stated.get("content", output)
    read = read_output(content) if isinstance(content, str | list) else Returned(output=output)
    if stated.get("success") is False and read.error is None:
        return msgspec.structs.replace(read, error=_error("Failed", read.output))
    return read


def milliseconds(seconds: Any) -> int | None:
    """Return a duration in seconds, as a number or as Rust writes one, in milliseconds."""
    if isinstance(seconds, dict):
        whole, nanos = seconds.get("secs"), seconds.get("nanos")
        if type(whole) is not int or type(nanos) is not int:
            return None
        seconds = whole + nanos / 1e9
    if type(seconds) not in {int, float} or not 0 <= seconds < DURATION_MS_MAX / 1_000:
        return None
    return round(float(seconds) * 1_000)


def _read_text(text: str) -> Returned:
    stated = _json_of(text)
    if isinstance(stated.get("output"), str) and isinstance(stated.get("metadata"), dict):
        return _read_object(stated)
    head = text[:HEAD_CHARACTERS].partition("\nOutput:")[0]
    code, took = _EXIT.search(head), _WALL_TIME.search(head)
    read = _ended(text, int(code[1]) if code else None, float(took[1]) if took else None)
    return read if code else msgspec.structs.replace(read, error=_failure_in(text))


def _read_object(stated: dict[str, Any]) -> Returned:
    metadata = fields_of(stated.get("metadata"))
    code = metadata.get("exit_code")
    return _ended(
        stated["output"], code if type(code) is int else None, metadata.get("duration_seconds")
    )


def _ended(output: str, exit_code: int | None, seconds: Any) -> Returned:
    failed = {"class": "ExitCode", "message": f"exit code {exit_code}"} if exit_code else None
    return Returned(
        output=output, error=failed, exit_code=exit_code, duration_ms=milliseconds(seconds)
    )


def _failure_in(text: str) -> dict[str, str] | None:
    start = text[:HEAD_CHARACTERS].lstrip().lower()
    return next(
        (_error(named, text) for words, named in _FAILURES.items() if start.startswith(words)), None
    )


def _error(named: str, output: Any) -> dict[str, str]:
    return {"class": named, "message": shorten(output if isinstance(output, str) else "failed")}


def _json_of(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        return {}
    try:
        return fields_of(decode(text))
    except (msgspec.DecodeError, RecursionError):
        return {}
