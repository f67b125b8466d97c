"""A server on this machine that speaks the APIs of OpenAI and Anthropic, from a script."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from web_endpoint import Quiet, served

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Json = dict[str, Any]


class Scripted(msgspec.Struct, frozen=True):
    """One answer: JSON, or events of a stream; ``cut`` closes the connection in its midst."""

    body: Json | None = None
    events: tuple[Any, ...] = ()
    status: int = 200
    cut: bool = False

    def chunks(self) -> list[bytes]:
        """Return the bytes that are sent, in pieces that split events."""
        if self.body is not None:
            return [json.dumps(self.body).encode()]
        lines = b"".join(
            (f"event: {one['type']}\n" if isinstance(one, dict) and "type" in one else "").encode()
            + b"data: "
            + (one if isinstance(one, str) else json.dumps(one)).encode()
            + b"\n\n"
            for one in self.events
        )
        return [lines[at : at + 37] for at in range(0, len(lines), 37)]


@contextmanager
def model_server(*script: Scripted) -> Iterator[tuple[str, list[Json]]]:
    """Serve the answers of ``script`` in a circle; give the address, and what was asked."""
    asked: list[Json] = []
    lock = threading.Lock()

    class Answering(Quiet):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # noqa: N802  (so it is called)
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                answer = script[len(asked) % len(script)]
                asked.append({"path": self.path, **body})
            self.send_response(answer.status)
            kind = "application/json" if answer.body is not None else "text/event-stream"
            self.send_header("Content-Type", kind)
            self.send_header("Retry-After-Ms", "1")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in answer.chunks():
                self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            if answer.cut:
                self.close_connection = True
                return
            self.wfile.write(b"0\r\n\r\n")

    with served(Answering) as url:
        yield url, asked


# Chat completions.


def chat(text: str | None = None, calls: Sequence[tuple[str, str, Json]] = ()) -> Scripted:
    """Return a completion."""
    message: Json = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [_chat_call(*call) for call in calls]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return Scripted(
        {**_CHAT, "object": "chat.completion", "choices": [choice], "usage": _CHAT_USED}
    )


def chat_stream(
    *pieces: str, calls: Sequence[tuple[str, str, Json]] = (), cut: bool = False
) -> Scripted:
    """Return the chunks of a completion."""
    deltas: list[Json] = [
        {"role": "assistant", "content": ""},
        *({"content": one} for one in pieces),
    ]
    for number, (call_id, name, given) in enumerate(calls):
        text, called = json.dumps(given), {"index": number, "id": call_id, "type": "function"}
        deltas.append({"tool_calls": [{**called, "function": {"name": name, "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": number, "function": {"arguments": half}}]}
            for half in (text[:4], text[4:])
        ]
    chunk = {**_CHAT, "object": "chat.completion.chunk"}
    chunks: list[Any] = [
        {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    if not cut:
        stop = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
        chunks.append({**chunk, "choices": [stop]})
        chunks += [{**chunk, "choices": [], "usage": _CHAT_USED}, "[DONE]"]
    return Scripted(events=tuple(chunks), cut=cut)


def _chat_call(call_id: str, name: str, given: Json) -> Json:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(given)},
    }


_CHAT = {"id": "chat-1", "created": 1, "model": "small-1"}
_CHAT_USED = {
    "prompt_tokens": 12,
    "completion_tokens": 5,
    "total_tokens": 17,
    "prompt_tokens_details": {"cached_tokens": 4},
}


# Responses.


def response(text: str | None = None, calls: Sequence[tuple[str, str, Json]] = ()) -> Scripted:
    """Return a response."""
    return Scripted(_response(text, calls))


def response_stream(text: str, calls: Sequence[tuple[str, str, Json]] = ()) -> Scripted:
    """Return the events of a response."""
    whole = _response(text, calls)
    empty = {**whole, "output": [], "status": "in_progress", "usage": None}
    events: list[Json] = [{"type": "response.created", "response": empty}]
    where = {"item_id": "m1", "output_index": 0, "content_index": 0, "logprobs": []}
    events += [
        {"type": "response.output_text.delta", "delta": piece, **where}
        for piece in (text[:3], text[3:])
    ]
    events.append({"type": "response.completed", "response": whole})
    numbered = ({**event, "sequence_number": n} for n, event in enumerate(events))
    return Scripted(events=tuple(numbered))


def _response(text: str | None, calls: Sequence[tuple[str, str, Json]]) -> Json:
    output: list[Json] = [
        {
            "type": "reasoning",
            "id": "r1",
            "summary": [{"type": "summary_text", "text": "Look at the table."}],
            "encrypted_content": "sealed",
        }
    ]
    if text:
        part = {"type": "output_text", "text": text, "annotations": []}
        output.append(
            {
                "type": "message",
                "id": "m1",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    output += [
        {
            "type": "function_call",
            "id": f"f{call_id}",
            "call_id": call_id,
            "name": name,
            "arguments": json.dumps(given),
            "status": "completed",
        }
        for call_id, name, given in calls
    ]
    return {
        "id": "resp-1",
        "object": "response",
        "created_at": 1,
        "model": "small-2",
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 20,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 27,
        },
    }


# Messages.


def message(text: str | None = None, calls: Sequence[tuple[str, str, Json]] = ()) -> Scripted:
    """Return a message."""
    return Scripted({**_MESSAGE, "content": _blocks(text, calls), **_stop(calls), "usage": _USED})


def message_stream(text: str, calls: Sequence[tuple[str, str, Json]] = ()) -> Scripted:
    """Return the events of a message."""
    begun = {**_MESSAGE, "content": [], "stop_reason": None, "usage": {**_USED, "output_tokens": 1}}
    events: list[Json] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for at, block in enumerate(_blocks(text, calls)):
        for empty, delta in _deltas(block):
            if empty is not None:
                events.append({"type": "content_block_start", "index": at, "content_block": empty})
            events.append({"type": "content_block_delta", "index": at, "delta": delta})
        events.append({"type": "content_block_stop", "index": at})
    used = {"output_tokens": _USED["output_tokens"]}
    stop = {**_stop(calls), "stop_sequence": None}
    events += [{"type": "message_delta", "delta": stop, "usage": used}, {"type": "message_stop"}]
    return Scripted(events=tuple(events))


def _blocks(text: str | None, calls: Sequence[tuple[str, str, Json]]) -> list[Json]:
    blocks: list[Json] = [{"type": "thinking", "thinking": "Hm.", "signature": "signed"}]
    blocks += [{"type": "text", "text": text}] if text else []
    return blocks + [
        {"type": "tool_use", "id": call_id, "name": name, "input": given}
        for call_id, name, given in calls
    ]


def _deltas(block: Json) -> Iterator[tuple[Json | None, Json]]:
    if block["type"] == "tool_use":
        text = json.dumps(block["input"])
        yield {**block, "input": {}}, {"type": "input_json_delta", "partial_json": text[:5]}
        yield None, {"type": "input_json_delta", "partial_json": text[5:]}
    elif block["type"] == "thinking":
        empty = {**block, "thinking": "", "signature": ""}
        yield empty, {"type": "thinking_delta", "thinking": block["thinking"]}
        yield None, {"type": "signature_delta", "signature": block["signature"]}
    else:
        yield {**block, "text": ""}, {"type": "text_delta", "text": block["text"][:3]}
        yield None, {"type": "text_delta", "text": block["text"][3:]}


def _stop(calls: Sequence[Any]) -> Json:
    return {"stop_reason": "tool_use" if calls else "end_turn"}


_MESSAGE: Json = {
    "id": "msg-1",
    "type": "message",
    "role": "assistant",
    "model": "claude-small-3",
    "stop_sequence": None,
}
_USED: Json = {
    "input_tokens": 10,
    "cache_read_input_tokens": 30,
    "cache_creation_input_tokens": 2,
    "output_tokens": 6,
}
