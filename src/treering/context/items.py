"""Items of a talk, read in any provider's shape: what contributors may add to one call.

They are messages, calls and results. A call goes with its result, wherever among the items that
stands; without one it had no output.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.context.media import separated
from treering.context.texts import arguments_in, text_of
from treering.errors import InvalidInput
from treering.model.messages import AssistantMessage, Call, Result, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.model.messages import ModelMessage

_ROLES: Final = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant",
    "model": "assistant", "tool": "tool",
}  # fmt: skip


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that somebody says, calls or returns."""

    sort: str
    """system, user, assistant, call or result."""
    content: Any = None
    call_id: str = ""
    tool: str = ""
    is_error: bool = False


def acts_in(item: Any) -> Iterator[Act]:
    """Return what an item says. Raises InvalidInput for what is no item."""
    if isinstance(item, str):
        yield Act(sort="user", content=item)
        return
    if not isinstance(item, Mapping):
        raise _no_item(item)
    sort = item.get("type", "message")
    if sort == "function_call":
        yield _call(item, item.get("call_id"), item.get("arguments"))
    elif sort == "function_call_output":
        yield _result(item.get("call_id"), item.get("output"))
    elif sort == "message":
        yield from _message(item)
    else:
        raise _no_item(item)


def messages_of(acts: Sequence[Act]) -> list[ModelMessage]:
    """Return what ``acts`` say as messages, each call with its result.

    Raises InvalidInput for a result of no call, and for an id that is used twice.
    """
    results = {act.call_id: act for act in acts if act.sort == "result"}
    calls = [act.call_id for act in acts if act.sort == "call"]
    if len(set(calls)) < len(calls) or not results.keys() <= set(calls):
        raise InvalidInput(
            "calls and results do not belong together", hint="give each call one id, and its result"
        )
    messages: list[ModelMessage] = []
    joins = False
    for act in acts:
        if act.sort == "call":
            before = messages[-1] if joins else AssistantMessage(text="", seq=0)
            if not joins:
                messages.append(before)
            messages[-1] = _with_call(before, act, results.get(act.call_id))
            joins = True
        elif act.sort == "assistant":
            messages.append(AssistantMessage(text=text_of(act.content), seq=0))
            joins = True
        elif act.sort == "user":
            messages.append(_said(act.content))
            joins = False
        else:
            joins = False
    return [one for one in messages if _says(one)]


def distinct(messages: Sequence[ModelMessage], used: set[str]) -> list[ModelMessage]:
    """Return ``messages`` with ids of calls that are in none of ``used``, and that all take."""
    found: list[ModelMessage] = []
    for message in messages:
        if not isinstance(message, AssistantMessage) or not message.calls:
            found.append(message)
            continue
        names = {call.call_id: _minted(call.call_id, used) for call in message.calls}
        rename = msgspec.structs.replace
        found.append(
            rename(
                message,
                calls=tuple(rename(one, call_id=names[one.call_id]) for one in message.calls),
                results=tuple(rename(one, call_id=names[one.call_id]) for one in message.results),
            )
        )
    return found


def _message(item: Mapping[str, Any]) -> Iterator[Act]:
    role = _ROLES.get(str(item.get("role", "user")))
    content = item.get("content", item.get("parts"))
    parts = content if isinstance(content, list | tuple) else []
    has_content = isinstance(content, str | list | tuple)
    if role is None or not (has_content or (content is None and item.get("tool_calls"))):
        raise _no_item(item)
    if not all(isinstance(part, Mapping) for part in parts):
        raise _no_item(item)
    if role == "tool":
        yield _result(item.get("tool_call_id"), content)
        return
    said: list[Any] = []
    told: list[Act] = []
    for part in content if isinstance(content, list | tuple) else [content]:
        act = _act_of(part)
        if act is None:
            said.append(part)
        else:
            told.append(act)
    if [one for one in said if one is not None]:
        words = said[0] if len(said) == 1 and isinstance(said[0], str) else said
        # Results stand in front of what the user says with them, calls behind what led to them.
        act = Act(sort=role, content=words)
        told = [*told, act] if role == "user" else [act, *told]
    yield from told
    for call in item.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            raise _no_item(item)
        yield _call(function, call.get("id"), function.get("arguments"))


def _act_of(part: Any) -> Act | None:
    """Return the call or the result that a part of a message is; None if it is said."""
    if not isinstance(part, Mapping):
        return None
    for name in ("function_call", "functionCall"):
        if isinstance(part.get(name), Mapping):
            call = part[name]
            return _call(call, call.get("id") or call.get("name"), call.get("args"))
    for name in ("function_response", "functionResponse"):
        if isinstance(part.get(name), Mapping):
            response = part[name]
            return _result(response.get("id") or response.get("name"), response.get("response"))
    match part.get("type"):
        case "tool_use":
            return _call(part, part.get("id"), part.get("input"))
        case "tool_result":
            is_error = part.get("is_error") is True
            return _result(part.get("tool_use_id"), part.get("content"), is_error=is_error)
        case "thinking" | "redacted_thinking":
            raise _no_item(part)
    return None


def _call(told: Mapping[str, Any], call_id: Any, arguments: Any) -> Act:
    tool = told.get("name")
    if not isinstance(tool, str) or not isinstance(call_id, str) or not call_id:
        raise _no_item(told)
    given = arguments_in({"input": arguments})
    return Act(sort="call", content=given, call_id=call_id, tool=tool)


def _result(call_id: Any, output: Any, *, is_error: bool = False) -> Act:
    if not isinstance(call_id, str) or not call_id:
        raise _no_item({"output": output})
    return Act(sort="result", content=output, call_id=call_id, is_error=is_error)


def _with_call(message: ModelMessage, act: Act, result: Act | None) -> AssistantMessage:
    rest, media = separated(None if result is None else result.content)
    call = Call(call_id=act.call_id, tool=act.tool, arguments=act.content, event_id="")
    given = Result(
        call_id=act.call_id,
        tool=act.tool,
        output="" if media and not rest else text_of(rest),
        is_error=result is not None and result.is_error,
        media=tuple(media),
    )
    before = message if isinstance(message, AssistantMessage) else AssistantMessage(text="", seq=0)
    return msgspec.structs.replace(
        before, calls=(*before.calls, call), results=(*before.results, given)
    )


def _said(content: Any) -> UserMessage:
    if isinstance(content, str):
        return UserMessage(text=content, seq=0)
    rest, media = separated(content)
    text = "" if media and not rest else text_of(rest)
    return UserMessage(text=text, seq=0, media=tuple(media))


def _says(message: ModelMessage) -> bool:
    if isinstance(message, UserMessage):
        return bool(message.text.strip() or message.media)
    return bool(message.text.strip() or message.calls)


def _minted(call_id: str, used: set[str]) -> str:
    name, number = call_id, 0
    legal = call_id.isascii() and call_id.replace("_", "").replace("-", "").isalnum()
    while name in used or not legal or len(name) > 40:
        number += 1
        legal = True
        digest = sha256(f"{number} {call_id}".encode(errors="surrogatepass")).hexdigest()
        name = f"call_{digest[:16]}"
    used.add(name)
    return name


def _no_item(item: Any) -> InvalidInput:
    told = sorted(map(str, item)) if isinstance(item, Mapping) else type(item).__name__
    return InvalidInput(
        f"that is no item of a talk: {told}",
        hint='return texts, {"role": "user", "content": …}, or calls and results',
    )
