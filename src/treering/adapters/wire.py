"""Requests and answers of the APIs of OpenAI and Anthropic, as JSON.

An API turns a request into what is new in it, and an answer, whole or streamed, into a reply with
the calls that the model asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from treering.adapters.lenient_writer import Reply
from treering.derive.tool_facts import plausible
from treering.model.parts import UsageReported
from treering.spine.conversion import plain

Json = dict[str, Any]
TEXTS: Final = frozenset({"text", "input_text", "output_text"})
LOCAL_CALLS: Final = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "shell_call",
    }
)
"""Calls of the Responses API whose tools the caller runs: the model waits for their results."""
_OUTPUT: Final = "_output"


class ModelCall(msgspec.Struct, frozen=True):
    """A tool call in a model's answer."""

    call_id: str
    tool: str
    input: Any


class ToolOutput(msgspec.Struct, frozen=True):
    """The output of a tool."""

    call_id: str
    output: Any
    is_error: bool = False


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is new in a request: all that follows the last answer in it."""

    users: tuple[tuple[str, list[Any]], ...] = ()
    """What the user says, each with its images, files and audio."""
    outputs: tuple[ToolOutput, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    """The calls of the answer before."""
    model: str | None = None


class ModelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a model answered."""

    reply: Reply
    calls: tuple[ModelCall, ...] = ()
    """Calls of tools that the caller runs."""
    ran: tuple[tuple[ModelCall, ToolOutput], ...] = ()
    """Calls of tools that the provider ran itself."""
    others: tuple[str, ...] = ()
    """Further answers to choose from."""
    usage_extra: Json = {}
    """Counts that only some providers report."""


class AnswerStream(Protocol):
    """Assembles the events of a streamed answer."""

    is_complete: bool

    def take(self, event: Json) -> str:
        """Take the next event; return the piece of text in it, if any."""

    def body(self) -> Json:
        """Return what has arrived so far, in the form of an answer that is not streamed."""


class WireApi(Protocol):
    """One API of a provider."""

    provider: str

    def asked(self, body: Json) -> Asked:
        """Return what is new in a request."""

    def answer(self, body: Json) -> ModelAnswer:
        """Return what an answer says."""

    def stream(self) -> AnswerStream:
        """Return a new stream of events."""


def api_of(method: str, path: str) -> WireApi | None:
    """Return the API that a request is for; None if it is not for a conversation."""
    if method.upper() != "POST":
        return None
    return next((api for ending, api in _APIS.items() if path.endswith(ending)), None)


# Chat completions.


class ChatApi:
    """OpenAI's chat completions, which many other providers offer, too."""

    provider = "openai"

    def asked(self, body: Json) -> Asked:
        """Return what is new in a request."""
        answer, new = _split(objects(body.get("messages")))
        outputs = tuple(
            ToolOutput(str(message.get("tool_call_id") or ""), _joined(message.get("content")))
            for message in new
            if message.get("role") == "tool"
        )
        return Asked(
            users=users_in(new),
            outputs=outputs,
            calls=tuple(_chat_calls(answer)),
            model=text_in(body, "model"),
        )

    def answer(self, body: Json) -> ModelAnswer:
        """Return what an answer says; further choices are kept apart."""
        choices = objects(body.get("choices"))
        messages = [object_in(choice, "message") for choice in choices] or [{}]
        stop = text_in(choices[0], "finish_reason") if choices else None
        message, model = messages[0], text_in(body, "model")
        calls = tuple(_chat_calls(message))
        reply = Reply(
            text=_said_in(message),
            thinking=text_in(message, "reasoning_content") or text_in(message, "reasoning"),
            model=model,
            provider=self.provider,
            stop_reason="tool_use" if calls else _STOPS.get(stop or "", stop),
            usage=openai_usage(object_in(body, "usage"), model, self.provider),
        )
        others = tuple(text for alternative in messages[1:] if (text := _said_in(alternative)))
        return ModelAnswer(reply=reply, calls=calls, others=others)

    def stream(self) -> AnswerStream:
        """Return a new stream of chunks."""
        return ChatStream()


def _split(messages: Sequence[Json]) -> tuple[Json, list[Json]]:
    """Return the last answer in a conversation, and what follows it."""
    at = next(
        (n for n in reversed(range(len(messages))) if messages[n].get("role") == "assistant"), None
    )
    return ({}, list(messages)) if at is None else (messages[at], list(messages[at + 1 :]))


def _chat_calls(message: Json) -> Iterator[ModelCall]:
    for call in objects(message.get("tool_calls")):
        kind = "custom" if "custom" in call else "function"
        called = object_in(call, kind)
        given = called.get("input" if kind == "custom" else "arguments")
        name = text_in(called, "name") or "tool"
        yield ModelCall(str(call.get("id") or ""), name, arguments_of(given))


def _said_in(message: Json) -> str:
    return plain(_joined(message.get("content")) or text_in(message, "refusal") or "")


class ChatStream:
    """The chunks of a chat completion."""

    def __init__(self) -> None:
        self.is_complete = False
        self._whole: Json = {}
        self._choices: dict[int, Json] = {}

    def take(self, event: Json) -> str:
        """Take a chunk; return the text that it adds to the first choice."""
        if event.get("data") == "[DONE]":
            self.is_complete = True
            return ""
        self._whole |= {name: value for name, value in event.items() if name != "choices" and value}
        piece = ""
        for choice in objects(event.get("choices")):
            number = choice.get("index")
            state = self._choices.setdefault(
                number if isinstance(number, int) else 0, {"message": {}}
            )
            state["finish_reason"] = choice.get("finish_reason") or state.get("finish_reason")
            delta = object_in(choice, "delta")
            _merge(state["message"], delta)
            if not number and isinstance(delta.get("content"), str):
                piece += delta["content"]
        return piece

    def body(self) -> Json:
        """Return the completion so far."""
        return {**self._whole, "choices": [self._choices[n] for n in sorted(self._choices)]}


def _merge(known: Json, delta: Mapping[str, Any]) -> None:
    """Add a delta: texts grow, lists are merged by index, the rest is replaced."""
    for name, value in delta.items():
        before = known.get(name)
        if isinstance(value, str) and isinstance(before, str) and name not in {"role", "id"}:
            known[name] = before + value
        elif isinstance(value, dict):
            known[name] = grown = before if isinstance(before, dict) else {}
            _merge(grown, value)
        elif isinstance(value, list):
            known[name] = listed = before if isinstance(before, list) else []
            for item in objects(value):
                at = item.get("index")
                same = next((entry for entry in listed if entry.get("index") == at), None)
                if same is None or at is None:
                    listed.append(same := {})
                _merge(same, item)
        elif value is not None or name not in known:
            known[name] = value


# Responses.


class ResponsesApi:
    """OpenAI's Responses API."""

    provider = "openai"

    def asked(self, body: Json) -> Asked:
        """Return what is new in a request."""
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given)
        new = new_items(items)
        earlier = items[: len(items) - len(new)]
        return Asked(
            users=users_in(new),
            outputs=tuple(
                ToolOutput(str(item.get("call_id") or ""), item.get("output"))
                for item in new
                if str(item.get("type")).endswith(_OUTPUT)
            ),
            calls=tuple(item_call(item) for item in earlier if item.get("type") in LOCAL_CALLS),
            model=text_in(body, "model"),
        )

    def answer(self, body: Json) -> ModelAnswer:
        """Return what an answer says."""
        output, model = objects(body.get("output")), text_in(body, "model")
        calls = tuple(item_call(item) for item in output if item.get("type") in LOCAL_CALLS)
        status = text_in(body, "status")
        detail = object_in(body, "incomplete_details").get("reason")
        stop = "length" if detail == "max_output_tokens" else "stop"
        reply = Reply(
            text=items_text(output),
            thinking=items_thinking(output),
            sealed=tuple(items_sealed(output)),
            model=model,
            provider=self.provider,
            stop_reason="tool_use" if calls else "error" if status == "failed" else stop,
            usage=openai_usage(object_in(body, "usage"), model, self.provider),
        )
        ran = tuple(_ran_item(item) for item in output if _is_hosted(item))
        return ModelAnswer(reply=reply, calls=calls, ran=ran)

    def stream(self) -> AnswerStream:
        """Return a new stream of events."""
        return ResponsesStream()


def new_items(items: Sequence[Json]) -> list[Json]:
    """Return the items that follow the last one of the model."""
    new: list[Json] = []
    for item in reversed(items):
        kind = str(item.get("type") or "message")
        if item.get("role") == "assistant" or not (kind == "message" or kind.endswith(_OUTPUT)):
            break
        new.append(item)
    return new[::-1]


def item_call(item: Json) -> ModelCall:
    """Return the call in an item of the Responses API."""
    kind = str(item.get("type"))
    given = item.get("arguments", item.get("input", item.get("action", item.get("operation"))))
    name = text_in(item, "name") or kind.removesuffix("_call")
    return ModelCall(str(item.get("call_id") or item.get("id") or ""), name, arguments_of(given))


def items_text(items: Iterable[Json]) -> str:
    """Return what a model says in its items."""
    parts = [
        part
        for item in items
        if item.get("type") == "message"
        for part in objects(item.get("content"))
    ]
    texts = (text_in(part, "text") or text_in(part, "refusal") for part in parts)
    return "\n".join(plain(text) for text in texts if text)


def items_thinking(items: Iterable[Json]) -> str | None:
    """Return the readable reasoning in a model's items."""
    parts = [part for item in _reasoning(items) for part in objects(item.get("summary"))]
    return "\n".join(plain(part["text"]) for part in parts if text_in(part, "text")) or None


def items_sealed(items: Iterable[Json]) -> Iterator[Json]:
    """Yield the reasoning items that the provider accepts back."""
    for item in _reasoning(items):
        if item.get("encrypted_content"):
            texts = [text_in(part, "text") or "" for part in objects(item.get("summary"))]
            yield {
                "id": item.get("id"),
                "summary": [{"type": "summary_text", "text": plain(text)} for text in texts],
                "encrypted_content": item["encrypted_content"],
            }


def _reasoning(items: Iterable[Json]) -> list[Json]:
    return [item for item in items if item.get("type") == "reasoning"]


def _is_hosted(item: Json) -> bool:
    kind = str(item.get("type"))
    return kind.endswith("_call") and kind not in LOCAL_CALLS


def _ran_item(item: Json) -> tuple[ModelCall, ToolOutput]:
    call = item_call(item)
    names = ("output", "results", "outputs", "result")
    output = next((item[name] for name in names if item.get(name) is not None), None)
    failed = item.get("status") in {"failed", "incomplete"} or bool(item.get("error"))
    return call, ToolOutput(call.call_id, item.get("error") if failed else output, failed)


class ResponsesStream:
    """The events of a response."""

    def __init__(self) -> None:
        self.is_complete = False
        self._whole: Json = {}
        self._items: list[Json] = []
        self._text = ""

    def take(self, event: Json) -> str:
        """Take an event; return its delta of text."""
        kind = event.get("type")
        if isinstance(event.get("response"), dict):
            self._whole = event["response"]
        if kind in {"response.completed", "response.incomplete", "response.failed"}:
            self.is_complete = True
        elif kind == "response.output_item.done" and isinstance(event.get("item"), dict):
            self._items.append(event["item"])
            self._text = ""
        elif kind == "response.output_text.delta" and isinstance(event.get("delta"), str):
            self._text += event["delta"]
            return str(event["delta"])
        return ""

    def body(self) -> Json:
        """Return the response so far."""
        if self.is_complete:
            return self._whole
        message = {"type": "message", "content": [{"type": "output_text", "text": self._text}]}
        return {**self._whole, "output": [*self._items, *([message] if self._text else [])]}


# Messages.


class MessagesApi:
    """Anthropic's Messages API."""

    provider = "anthropic"

    def asked(self, body: Json) -> Asked:
        """Return what is new in a request. A last message of the assistant is to be continued."""
        messages = objects(body.get("messages"))
        if messages and messages[-1].get("role") == "assistant":
            messages = messages[:-1]
        answer, new = _split(messages)
        blocks = [block for message in new for block in objects(message.get("content"))]
        return Asked(
            users=users_in(message for message in new if message.get("role") == "user"),
            outputs=tuple(
                _result_of(block) for block in blocks if block.get("type") == "tool_result"
            ),
            calls=tuple(_block_calls(objects(answer.get("content")), "tool_use")),
            model=text_in(body, "model"),
        )

    def answer(self, body: Json) -> ModelAnswer:
        """Return what an answer says."""
        blocks, model = objects(body.get("content")), text_in(body, "model")
        stop = text_in(body, "stop_reason")
        reply = Reply(
            text=plain(
                "\n".join(
                    block["text"]
                    for block in blocks
                    if block.get("type") == "text" and text_in(block, "text")
                )
            ),
            sealed=tuple(_thoughts(blocks)),
            model=model,
            provider=self.provider,
            stop_reason=_STOPS.get(stop or "", stop),
            usage=_anthropic_usage(object_in(body, "usage"), model, self.provider),
        )
        outputs = {block.get("tool_use_id"): block for block in blocks if "tool_use_id" in block}
        hosted = [*_block_calls(blocks, "server_tool_use"), *_block_calls(blocks, "mcp_tool_use")]
        written = tokens(object_in(body, "usage").get("cache_creation_input_tokens"))
        return ModelAnswer(
            reply=reply,
            calls=tuple(_block_calls(blocks, "tool_use")),
            ran=tuple(
                (call, _result_of(outputs[call.call_id]))
                for call in hosted
                if call.call_id in outputs
            ),
            usage_extra={"cache_creation_tokens": written} if written else {},
        )

    def stream(self) -> AnswerStream:
        """Return a new stream of events."""
        return MessagesStream()


def _block_calls(blocks: Iterable[Json], kind: str) -> Iterator[ModelCall]:
    for block in blocks:
        if block.get("type") == kind:
            name = text_in(block, "name") or "tool"
            yield ModelCall(str(block.get("id") or ""), name, block.get("input"))


def _result_of(block: Json) -> ToolOutput:
    content = block.get("content")
    output = _joined(content) if _is_text(content) else content
    failed = block.get("is_error") is True or (
        isinstance(content, dict) and str(content.get("type")).endswith("_error")
    )
    return ToolOutput(str(block.get("tool_use_id") or ""), output, failed)


def _thoughts(blocks: Iterable[Json]) -> Iterator[Json]:
    for block in blocks:
        if block.get("type") == "thinking":
            fields = {name: block[name] for name in ("thinking", "signature") if block.get(name)}
            yield {**fields, "thinking": plain(str(block.get("thinking") or ""))}
        elif block.get("type") == "redacted_thinking":
            yield {"data": block.get("data")}


def _anthropic_usage(given: Json, model: str | None, provider: str) -> UsageReported | None:
    """Return the usage; tokens from a cache, or into one, are part of the input."""
    cached = tokens(given.get("cache_read_input_tokens"))
    written = tokens(given.get("cache_creation_input_tokens"))
    taken = tokens(given.get("input_tokens")) + cached + written
    return _usage(model, provider, taken, tokens(given.get("output_tokens")), cached)


class MessagesStream:
    """The events of a message."""

    def __init__(self) -> None:
        self.is_complete = False
        self._message: Json = {}
        self._blocks: dict[int, Json] = {}

    def take(self, event: Json) -> str:
        """Take an event; return its delta of text."""
        kind, delta = event.get("type"), object_in(event, "delta")
        at = event.get("index")
        block = self._blocks.get(at) if isinstance(at, int) else None
        if kind == "message_start":
            self._message = dict(object_in(event, "message"))
        elif kind == "content_block_start" and isinstance(at, int):
            self._blocks[at] = dict(object_in(event, "content_block"))
        elif kind == "content_block_delta" and block is not None:
            return _grow(block, delta)
        elif kind == "message_delta":
            used = {**object_in(self._message, "usage"), **object_in(event, "usage")}
            self._message |= {**delta, "usage": {k: v for k, v in used.items() if v is not None}}
        elif kind == "message_stop":
            self.is_complete = True
        return ""

    def body(self) -> Json:
        """Return the message so far."""
        blocks = [dict(self._blocks[at]) for at in sorted(self._blocks)]
        for block in blocks:
            if "partial_json" in block:
                block["input"] = arguments_of(block.pop("partial_json"))
        return {**self._message, "content": blocks}


def _grow(block: Json, delta: Json) -> str:
    """Add a delta to a block; return its text."""
    for name in ("text", "thinking", "signature", "partial_json"):
        if isinstance(delta.get(name), str):
            block[name] = (block.get(name) or "") + delta[name]
    return str(delta["text"]) if isinstance(delta.get("text"), str) else ""


# What they have in common.


def users_in(messages: Iterable[Json]) -> tuple[tuple[str, list[Any]], ...]:
    """Return what users say in messages, each with what is attached."""
    contents = [
        _content(message.get("content")) for message in messages if message.get("role") == "user"
    ]
    return tuple((text, attached) for text, attached in contents if text or attached)


def arguments_of(text: Any) -> Any:
    """Return a call's arguments parsed as JSON, or unchanged if they are not JSON."""
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def openai_usage(given: Json, model: str | None, provider: str | None) -> UsageReported | None:
    """Return the usage that OpenAI reports, in either spelling."""
    taken = tokens(given.get("input_tokens", given.get("prompt_tokens")))
    made = tokens(given.get("output_tokens", given.get("completion_tokens")))
    details = given.get("input_tokens_details", given.get("prompt_tokens_details"))
    cached = tokens(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return _usage(model, provider, taken, made, cached)


def _usage(
    model: str | None, provider: str | None, taken: int, made: int, cached: int
) -> UsageReported | None:
    if not taken + made:
        return None
    return UsageReported(
        model=model,
        provider=provider,
        input_tokens=taken,
        output_tokens=made,
        cached_tokens=cached,
        total_tokens=taken + made,
    )


def tokens(value: Any) -> int:
    """Return a number of tokens; 0 if ``value`` is not one."""
    return plausible(value) or 0 if type(value) is int else 0


def objects(value: Any) -> list[Json]:
    """Return the objects in a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def object_in(value: Mapping[str, Any], name: str) -> Json:
    """Return a field that is an object, or an empty one."""
    field = value.get(name)
    return field if isinstance(field, dict) else {}


def text_in(value: Mapping[str, Any], name: str) -> str | None:
    """Return a field that is text, or None."""
    field = value.get(name)
    return field if isinstance(field, str) and field else None


def _content(content: Any) -> tuple[str, list[Any]]:
    """Return the text of a message, and its other parts but results of tools."""
    if isinstance(content, str):
        return plain(content), []
    parts = objects(content)
    texts = [part["text"] for part in parts if part.get("type") in TEXTS and text_in(part, "text")]
    rest = [part for part in parts if part.get("type") not in {*TEXTS, "tool_result"}]
    return plain("\n".join(texts)), rest


def _joined(content: Any) -> str:
    return content if isinstance(content, str) else _content(content)[0]


def _is_text(content: Any) -> bool:
    return isinstance(content, list) and all(
        part.get("type") == "text" for part in objects(content)
    )


_STOPS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_use",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
"""Words of the providers for why an answer ended; others are kept as they are."""
_APIS: Final[dict[str, WireApi]] = {
    "/chat/completions": ChatApi(),
    "/responses": ResponsesApi(),
    "/messages": MessagesApi(),
}
