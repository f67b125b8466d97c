"""Conversation items in any provider's format: what contributors may add to one call.

Items are messages, calls and results. A call is paired with its result, wherever that is among the
items; without one it has no output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from treering.context.media import split_media
from treering.context.texts import call_arguments, text_of
from treering.errors import InvalidInput
from treering.model.messages import AssistantMessage, Call, ModelMessage, Result, UserMessage

_ROLES: Final = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant",
    "model": "assistant", "tool": "tool",
}  # fmt: skip


class ConversationItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that somebody says, calls or returns."""

    sort: str
    """system, user, assistant, call or result."""
    content: Any = None
    call_id: str = ""
    tool: str = ""
    is_error: bool = False


def read_item(given: Any) -> Iterator[ConversationItem]:
    """Yield the items in a contribution. Raise InvalidInput if it is not one."""
    if isinstance(given, str):
        yield ConversationItem(sort="user", content=given)
        return
    if not isinstance(given, Mapping):
        raise _invalid_item(given)
    item_type = given.get("type", "message")
    if item_type == "function_call":
        yield _call(given, given.get("call_id"), given.get("arguments"))
    elif item_type == "function_call_output":
        yield _result(given.get("call_id"), given.get("output"))
    elif item_type == "message":
        yield from _message(given)
    else:
        raise _invalid_item(given)


def messages_of(items: Sequence[ConversationItem]) -> list[ModelMessage]:
    """Return ``items`` as messages, each call with its result.

    Raise InvalidInput for a result without a call, and for a duplicate id.
    """
    results = {item.call_id: item for item in items if item.sort == "result"}
    calls = [item.call_id for item in items if item.sort == "call"]
    if len(set(calls)) < len(calls) or not results.keys() <= set(calls):
        raise InvalidInput(
            "calls and results do not belong together",
            hint="give each call its own id, and its result the same id",
        )
    messages: list[ModelMessage] = []
    joins = False
    for item in items:
        if item.sort == "call":
            before = messages[-1] if joins else AssistantMessage(text="", seq=0)
            if not joins:
                messages.append(before)
            messages[-1] = _with_call(before, item, results.get(item.call_id))
            joins = True
        elif item.sort == "assistant":
            messages.append(AssistantMessage(text=text_of(item.content), seq=0))
            joins = True
        elif item.sort == "user":
            messages.append(_said(item.content))
            joins = False
        else:
            joins = False
    return [message for message in messages if _has_content(message)]


def with_unique_ids(messages: Sequence[ModelMessage], used: set[str]) -> list[ModelMessage]:
    """Return ``messages`` with valid call ids that are not in ``used``."""
    renamed: list[ModelMessage] = []
    for message in messages:
        if not isinstance(message, AssistantMessage) or not message.calls:
            renamed.append(message)
            continue
        names = {call.call_id: _valid_id(call.call_id, used) for call in message.calls}
        rename = msgspec.structs.replace
        renamed.append(
            rename(
                message,
                calls=tuple(rename(call, call_id=names[call.call_id]) for call in message.calls),
                results=tuple(
                    rename(result, call_id=names[result.call_id]) for result in message.results
                ),
            )
        )
    return renamed


def _message(given: Mapping[str, Any]) -> Iterator[ConversationItem]:
    role = _ROLES.get(str(given.get("role", "user")))
    content = given.get("content", given.get("parts"))
    parts = content if isinstance(content, list | tuple) else []
    has_content = isinstance(content, str | list | tuple)
    if role is None or not (has_content or (content is None and given.get("tool_calls"))):
        raise _invalid_item(given)
    if not all(isinstance(part, Mapping) for part in parts):
        raise _invalid_item(given)
    if role == "tool":
        yield _result(given.get("tool_call_id"), content)
        return
    texts: list[Any] = []
    items: list[ConversationItem] = []
    for part in content if isinstance(content, list | tuple) else [content]:
        item = _call_or_result(part)
        if item is None:
            texts.append(part)
        else:
            items.append(item)
    if [text for text in texts if text is not None]:
        words = texts[0] if len(texts) == 1 and isinstance(texts[0], str) else texts
        # Results come before the user's text, calls after the assistant's.
        item = ConversationItem(sort=role, content=words)
        items = [*items, item] if role == "user" else [item, *items]
    yield from items
    for call in given.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            raise _invalid_item(given)
        yield _call(function, call.get("id"), function.get("arguments"))


def _call_or_result(part: Any) -> ConversationItem | None:
    """Return the call or result in a part of a message; None if it is text."""
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
            raise _invalid_item(part)
    return None


def _call(function: Mapping[str, Any], call_id: Any, arguments: Any) -> ConversationItem:
    tool = function.get("name")
    if not isinstance(tool, str) or not isinstance(call_id, str) or not call_id:
        raise _invalid_item(function)
    given = call_arguments({"input": arguments})
    return ConversationItem(sort="call", content=given, call_id=call_id, tool=tool)


def _result(call_id: Any, output: Any, *, is_error: bool = False) -> ConversationItem:
    if not isinstance(call_id, str) or not call_id:
        raise _invalid_item({"output": output})
    return ConversationItem(sort="result", content=output, call_id=call_id, is_error=is_error)


def _with_call(
    message: ModelMessage, item: ConversationItem, result: ConversationItem | None
) -> AssistantMessage:
    rest, media = split_media(None if result is None else result.content)
    call = Call(call_id=item.call_id, tool=item.tool, arguments=item.content, event_id="")
    given = Result(
        call_id=item.call_id,
        tool=item.tool,
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
    rest, media = split_media(content)
    text = "" if media and not rest else text_of(rest)
    return UserMessage(text=text, seq=0, media=tuple(media))


def _has_content(message: ModelMessage) -> bool:
    if isinstance(message, UserMessage):
        return bool(message.text.strip() or message.media)
    return bool(message.text.strip() or message.calls)


def _valid_id(call_id: str, used: set[str]) -> str:
    name, number = call_id, 0
    legal = call_id.isascii() and call_id.replace("_", "").replace("-", "").isalnum()
    while name in used or not legal or len(name) > 40:
        number += 1
        legal = True
        digest = sha256(f"{number} {call_id}".encode(errors="surrogatepass")).hexdigest()
        name = f"call_{digest[:16]}"
    used.add(name)
    return name


def _invalid_item(item: Any) -> InvalidInput:
    description = sorted(map(str, item)) if isinstance(item, Mapping) else type(item).__name__
    return InvalidInput(
        f"not a conversation item: {description}",
        hint='return texts, {"role": "user", "content": …}, or calls and results',
    )
