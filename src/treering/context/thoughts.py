"""Model thoughts, and returning them to the model that made them.

A thought is sealed by its provider. If it is changed or sent to another model, it is at worst
refused and at best useless, so it is left out and reported.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.model.codec import decode
from treering.model.messages import AssistantMessage, Maker, Repair, Thought, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.context.dialects import Dialect
    from treering.model.events import Event
    from treering.model.messages import ModelMessage

MASK: Final = "[redacted:"
"""The beginning of a mask. Masked content is no longer what was sealed."""
MAKERS: Final[dict[str, Maker]] = {
    "anthropic": "anthropic",
    "gemini": "gemini",
    "openai-responses": "openai",
}
"""Whose thoughts each dialect accepts; other dialects have no place for thoughts."""
UNSIGNED: Final = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""What Google documents for a call without a signature: skip_thought_signature_validator."""
_SIGNING: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")
"""Models that refuse a call of the last turn without a signature."""
_SIGNATURES: Final = ("thought_signature", "thoughtSignature")
_HOLDING: Final = ("thinking", *_SIGNATURES)
"""Fields of messages and calls that hold the thoughts before them."""
_NAMED: Final[tuple[tuple[str, Maker], ...]] = (
    ("anthropic", "anthropic"),
    ("claude", "anthropic"),
    ("google", "gemini"),
    ("gemini", "gemini"),
    ("openai", "openai"),
    ("gpt", "openai"),
    ("codex", "openai"),
)
"""Parts of the names of providers, interfaces and models."""
_DATED: Final = re.compile(r"[-@]?(?:\d{4}-?\d{2}-?\d{2}|latest)$")


def is_thought(event: Event) -> bool:
    """Return whether an event holds a model's thought."""
    refs = event.refs if isinstance(event.refs, dict) else {}
    return event.kind == "ops.observation" and refs.get("observed") == "thinking"


def thoughts_in(event: Event) -> list[Thought]:
    """Return the sealed thoughts of an event: its own, or those before its message."""
    payload = event.payload if isinstance(event.payload, dict) else {}
    if is_thought(event):
        return _read([payload], event)
    if not any(name in payload for name in _HOLDING):
        return []
    thinking = payload.get("thinking")
    blocks = (
        [thinking] if isinstance(thinking, dict) else thinking if isinstance(thinking, list) else []
    )
    own = {name: payload[name] for name in _SIGNATURES if name in payload}
    return _read([*blocks, *([own] if own else [])], event)


def with_thoughts(
    messages: Sequence[ModelMessage], dialect: Dialect, model: str | None
) -> tuple[list[ModelMessage], list[Repair]]:
    """Return ``messages`` with the thoughts that ``model`` accepts, and a report of those left out.

    Without a ``model``, it is the one that thought last.
    """
    maker = MAKERS.get(dialect)
    thoughts = list(_all_thoughts(messages))
    if model is None:
        made = [thought.model for thought in thoughts if thought.maker == maker and thought.model]
        model = made[-1] if made else None
    accepted: list[ModelMessage] = [] if thoughts else list(messages)
    repairs: list[Repair] = []
    for turn in _turns(messages) if thoughts else ():
        why = next(
            (
                why
                for thought in _all_thoughts(turn)
                if (why := _unwanted(thought, dialect, maker, model))
            ),
            None,
        )
        if why is None and maker == "anthropic" and not _thinks_first(turn):
            why = "it would not stand first in its message"
        if why is None:
            accepted += turn
            continue
        repairs += [
            Repair(code="dropped_thinking", event_id=thought.event_id, detail=why)
            for thought in _all_thoughts(turn)
        ]
        accepted += map(without_thoughts, turn)
    if maker == "gemini" and model is not None and _SIGNING.search(model.lower()):
        accepted, more = _signed(accepted)
        repairs += more
    return accepted, repairs


def _signed(messages: Sequence[ModelMessage]) -> tuple[list[ModelMessage], list[Repair]]:
    """Return ``messages`` with a signature on the first call of each step of the last turn."""
    signed: list[ModelMessage] = []
    repairs: list[Repair] = []
    turn_start = max(
        (
            at
            for at, message in enumerate(messages)
            if isinstance(message, UserMessage) and not message.mark
        ),
        default=0,
    )
    for at, message in enumerate(messages):
        signs = isinstance(message, AssistantMessage) and message.calls and at > turn_start
        if not isinstance(message, AssistantMessage) or not signs:
            signed.append(message)
            continue
        first = message.calls[0]
        if first.thoughts or (message.thoughts and not message.text.strip()):
            signed.append(message)
            continue
        stand_in = Thought(
            maker="gemini", block={"thought_signature": UNSIGNED}, event_id=first.event_id
        )
        call = msgspec.structs.replace(first, thoughts=(stand_in,))
        signed.append(msgspec.structs.replace(message, calls=(call, *message.calls[1:])))
        repairs.append(Repair(code="missing_thinking", event_id=first.event_id))
    return signed, repairs


def without_thoughts(message: ModelMessage) -> ModelMessage:
    """Return ``message`` without its thoughts and those of its calls."""
    if not isinstance(message, AssistantMessage) or not thoughts_of(message):
        return message
    calls = tuple(msgspec.structs.replace(call, thoughts=()) for call in message.calls)
    return msgspec.structs.replace(message, thoughts=(), calls=calls)


def thoughts_of(message: ModelMessage) -> list[Thought]:
    """Return the thoughts in a message, in order."""
    if not isinstance(message, AssistantMessage):
        return []
    thoughts = list(message.thoughts)
    for call in message.calls:
        if call.thoughts:
            thoughts += call.thoughts
    return thoughts


def _turns(messages: Sequence[ModelMessage]) -> Iterator[list[ModelMessage]]:
    """Yield the messages that a provider sees as one assistant message."""
    turn: list[ModelMessage] = []
    for message in messages:
        joins = isinstance(message, AssistantMessage) and bool(turn)
        before = turn[-1] if turn else None
        if turn and not (joins and isinstance(before, AssistantMessage) and not before.calls):
            yield turn
            turn = []
        turn.append(message)
    if turn:
        yield turn


def _thinks_first(turn: Sequence[ModelMessage]) -> bool:
    """Return whether an assistant message that contains thoughts begins with one."""
    first = turn[0]
    if not any(True for _ in _all_thoughts(turn)):
        return True
    if not isinstance(first, AssistantMessage):
        return False
    if first.thoughts:
        return True
    return not first.text.strip() and bool(first.calls) and bool(first.calls[0].thoughts)


def _unwanted(
    thought: Thought, dialect: Dialect, maker: Maker | None, model: str | None
) -> str | None:
    """Return why a thought is not returned to the model; None if it is."""
    if maker is None:
        return f"{dialect} has no place for it"
    if thought.maker != maker:
        return f"a model of {thought.maker} thought it"
    if model is not None and thought.model is not None and not _same(thought.model, model):
        return f"{thought.model} thought it, and {model} is asked"
    return None


def _same(first: str, second: str) -> bool:
    """Return whether two names mean one model: the date and the provider are optional."""
    bare = [_DATED.sub("", name.lower().rsplit("/", 1)[-1]) for name in (first, second)]
    return bare[0] == bare[1]


def _all_thoughts(messages: Sequence[ModelMessage]) -> Iterator[Thought]:
    for message in messages:
        yield from thoughts_of(message)


def _read(blocks: Sequence[Any], event: Event) -> list[Thought]:
    refs = event.refs if isinstance(event.refs, dict) else {}
    payload = event.payload if isinstance(event.payload, dict) else {}
    thoughts: list[Thought] = []
    for item in blocks:
        if not isinstance(item, dict):
            continue
        named = {
            name: _name(item.get(name)) or _name(payload.get(name)) or _name(refs.get(name))
            for name in ("model", "provider", "api")
        }
        made = _sealed(item, " ".join(filter(None, named.values())).lower())
        if made is not None:
            maker, block = made
            thoughts.append(
                Thought(maker=maker, model=named["model"], block=block, event_id=event.event_id)
            )
    return thoughts


def _sealed(block: dict[str, Any], named: str) -> tuple[Maker, dict[str, Any]] | None:
    """Return the maker of a thought, and the block to send back."""
    words = block.get("thinking")
    words = words if isinstance(words, str) else ""
    sign = _text(block, "signature")
    for name in _SIGNATURES:
        if (signature := _text(block, name)) is not None:
            return "gemini", {"thought_signature": signature}
    if (sealed := _text(block, "encrypted_content")) is not None:
        return "openai", _reasoning(block, words, sealed)
    if (data := _text(block, "data")) is not None:
        return "anthropic", {"type": "redacted_thinking", "data": data}
    signature_text = _text(block, "thinkingSignature")
    if signature_text is not None:
        if signature_text.startswith("{"):
            return _sealed(_parsed(signature_text), named)
        maker = next((maker for part, maker in _NAMED if part in named), None)
        if maker == "gemini":
            return "gemini", {"thought_signature": signature_text}
        sign = signature_text if maker == "anthropic" else sign
    if sign is None or MASK in words:
        return None
    return "anthropic", {"type": "thinking", "thinking": words, "signature": sign}


def _reasoning(block: dict[str, Any], words: str, sealed: str) -> dict[str, Any]:
    """Return a reasoning item; its id is part of the seal and must not be invented."""
    summary = block.get("summary")
    if not isinstance(summary, list):
        summary = [{"type": "summary_text", "text": words}] if words else []
    own = {"id": block["id"]} if isinstance(block.get("id"), str) else {}
    return {"type": "reasoning", **own, "summary": summary, "encrypted_content": sealed}


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = decode(text.encode())
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(block: dict[str, Any], name: str) -> str | None:
    value = block.get(name)
    return value if isinstance(value, str) and value and MASK not in value else None


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
