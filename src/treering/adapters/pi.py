"""Records the pi agent from the JSON lines that ``pi --mode json`` prints.

    record_pi(spine, session, process.stdout)

A PiRecorder records events that come one by one, for example from pi-agent-core's subscribers.

If pi retries by itself, after an error or a compaction, the run continues.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from treering.adapters.lenient_writer import Reply, record_reply
from treering.errors import InvalidInput, NotFound, ToolDenied
from treering.model.parts import UsageReported, part_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from treering.ledger.sessions import Session
    from treering.spine.dispatcher import Spine
    from treering.spine.runs import Run

__all__ = ["BadLine", "PiReceipt", "PiRecorder", "record_pi"]

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The longest line to read; pi repeats the whole message in every update."""
BAD_LINES_MAX: Final = 100


class BadLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that could not be recorded."""

    line: int
    """Counted from 1."""
    message: str


class PiReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The result of recording a stream of lines."""

    lines: int
    runs: int
    bad: int
    """The number of lines that could not be recorded; each left a warning."""
    bad_lines: tuple[BadLine, ...]
    """The first of these lines."""


def record_pi(
    spine: Spine,
    session: Session,
    lines: Iterable[str | bytes],
    *,
    agent: str | None = None,
    entry_point: str | None = None,
    model: str | None = None,
    provider: str | None = None,
    wait_s: float | None = None,
) -> PiReceipt:
    """Record a whole stream of pi's JSON lines as they arrive.

    A line that is not an event leaves a warning with its number, and recording continues. If the
    stream ends before the agent does, the run is interrupted. Raises RunInterrupted if the session
    is interrupted meanwhile: then stop pi.
    """
    bad: list[BadLine] = []
    number = refused = 0
    recorder = PiRecorder(
        spine,
        session,
        agent=agent,
        entry_point=entry_point,
        model=model,
        provider=provider,
        wait_s=wait_s,
    )
    with recorder:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                recorder.take(_event(line))
            except InvalidInput as error:
                refused += 1
                recorder.warn(f"line {number}: {error}", code="bad_line", line=number)
                if len(bad) < BAD_LINES_MAX:
                    bad.append(BadLine(line=number, message=str(error)))
    return PiReceipt(lines=number, runs=recorder.runs, bad=refused, bad_lines=tuple(bad))


def _event(line: str | bytes) -> dict[str, Any]:
    if len(line) > LINE_BYTES_MAX:
        raise InvalidInput(
            f"the line is longer than {LINE_BYTES_MAX} bytes", hint="pass one event per line"
        )
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInput(f"not JSON: {error}", hint="run pi with --mode json") from None
    if not isinstance(event, dict):
        raise InvalidInput("not an event", hint="run pi with --mode json")
    return event


_RUNTIME: Final = "pi"
_SILENT: Final = frozenset({"turn_start", "turn_end", "message_start", "tool_execution_update"})
"""Events whose content another event repeats; they are not recorded."""
_BROKEN_OFF: Final = "the stream of events broke off"


class PiRecorder:
    """Records pi's events in a session, one by one, in order.

    A context manager: a run that is open at its end is interrupted.
    """

    def __init__(
        self,
        spine: Spine,
        session: Session,
        *,
        agent: str | None = None,
        entry_point: str | None = None,
        model: str | None = None,
        provider: str | None = None,
        wait_s: float | None = None,
    ) -> None:
        self._session = session
        self._next_run = partial(
            spine.run,
            session,
            agent=agent,
            entry_point=entry_point,
            runtime=_RUNTIME,
            model=model,
            provider=provider,
            wait_s=wait_s,
        )
        self.run: Run | None = None
        """The run of the latest events, open or closed."""
        self.runs = 0
        self._failure: str | None = None
        """Why the agent stopped, until it is known whether pi retries."""
        self._retrying = False
        """Whether pi announced a retry: then the next start continues the run."""
        self._last: dict[str, Any] = {}
        """The latest message of the assistant."""
        self._settled: set[str] = set()
        """The ids of calls whose results are recorded."""
        self._is_interruption_reported = False
        """Whether the interruption of the run was reported."""
        self._steps = {
            "agent_start": self._start,
            "agent_end": self._end,
            "message_update": self._update,
            "message_end": self._message,
            "tool_execution_start": self._tool_start,
            "tool_execution_end": self._tool_end,
            "auto_retry_start": self._retry,
            "auto_retry_end": self._retried,
            "compaction_start": self._compaction,
            "compaction_end": self._compacted,
            "auto_compaction_start": self._compaction,
            "auto_compaction_end": self._compacted,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, event: Mapping[str, Any]) -> None:
        """Record one event; unknown types are kept as observations.

        Raises InvalidInput if it is not an event or cannot be stored, and RunInterrupted, once, if
        the run was interrupted from outside; later events of that run are ignored.
        """
        kind = event.get("type")
        if not isinstance(kind, str):
            raise InvalidInput("a pi event needs a type", hint='pass {"type": "agent_start", …}')
        if self._failure is not None and not kind.startswith(("auto_", "compaction_")):
            self._fail()
        if kind in _SILENT:
            return
        step = self._steps.get(kind)
        if step is None:
            self._observe(kind, event)
        else:
            step(event)

    def warn(self, message: str, *, code: str, **content: Any) -> None:
        """Record a warning, in the run if one is open."""
        self._note("ops.warning", {**content, "code": code, "message": message})

    def close(self) -> None:
        """Note that no more events will come."""
        if self._failure is not None:
            self._fail()
        elif self.run is not None and self.run.is_open:
            self._interrupt(self.run, _BROKEN_OFF)

    # Runs.

    def _start(self, _: Mapping[str, Any]) -> None:
        is_retry, self._retrying = self._retrying, False
        if self.run is not None and self.run.is_open:
            if is_retry:
                return
            self._interrupt(self.run, _BROKEN_OFF)
        self._begin()

    def _end(self, event: Mapping[str, Any]) -> None:
        if self.run is None or not self.run.is_open:
            return
        messages = event.get("messages")
        last = messages[-1] if isinstance(messages, list) and messages else self._last
        stop_reason = last.get("stopReason") if isinstance(last, dict) else None
        if stop_reason == "error":
            # pi announces only after this whether it retries.
            self._failure = str(last.get("errorMessage") or "the model gave an error")
        elif stop_reason == "aborted":
            self._interrupt(self.run, "aborted")
        else:
            self.run.end()

    def _begin(self) -> Run:
        run = self._next_run()
        run.start()
        self.run, self._last, self._settled, self._is_interruption_reported = run, {}, set(), False
        self.runs += 1
        return run

    def _current(self) -> Run | None:
        """Return the run to record in: a new one if its start was lost; None after an interrupt.

        A run that was interrupted from outside is returned once more, so that recording raises.
        """
        if self.run is None or self.run.state in {"ended", "failed"}:
            return self._begin()
        if self.run.is_open:
            return self.run
        is_reported, self._is_interruption_reported = self._is_interruption_reported, True
        return None if is_reported else self.run

    def _interrupt(self, run: Run, reason: str) -> None:
        run.interrupt(reason)
        self._is_interruption_reported = True

    def _fail(self) -> None:
        reason, self._failure, self._retrying = self._failure, None, False
        if self.run is not None and self.run.is_open:
            self.run.fail(reason or "failed")

    # Messages and tools.

    def _update(self, event: Mapping[str, Any]) -> None:
        update = event.get("assistantMessageEvent")
        if not isinstance(update, dict) or update.get("type") != "text_delta":
            return
        piece, run = update.get("delta"), self._current()
        if isinstance(piece, str) and run is not None:
            run.delta(piece)

    def _message(self, event: Mapping[str, Any]) -> None:
        message = event.get("message")
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(role, str):
            raise InvalidInput(
                "a pi message_end needs a message with a role", hint="pass events unchanged"
            )
        if role == "toolResult":
            self._result(message, message)
        elif role not in {"user", "assistant"}:
            self._observe(f"message_end {role}", event)
        elif (run := self._current()) is None:
            return
        elif role == "user":
            content = message.get("content")
            pictures = images_in(content)
            run.user(text_of(content), **({"attachments": pictures} if pictures else {}))
        else:
            self._last = message
            self._reply(run, message)

    def _reply(self, run: Run, message: dict[str, Any]) -> None:
        reply = reply_of(message)
        if reply.stop_reason == "error":
            # pi discards a broken answer before it retries: it is not part of the conversation.
            if reply.text:
                run.emit("ops.observation", {"text": reply.text}, summary="a broken answer")
            reply = msgspec.structs.replace(reply, text="")
        record_reply(run, reply)

    def _tool_start(self, event: Mapping[str, Any]) -> None:
        call_id, tool = call_of(event)
        if (run := self._current()) is not None:
            _start_call(run, tool, event.get("args"), call_id)

    def _tool_end(self, event: Mapping[str, Any]) -> None:
        self._result(event, event.get("result"))

    def _result(self, event: Mapping[str, Any], result: Any) -> None:
        """Record an outcome unless it is recorded: pi sends it twice, and a line may be lost."""
        call_id, tool = call_of(event)
        run = self.run if self.run is not None and not self.run.is_open else self._current()
        if run is None or call_id in self._settled:
            return
        try:
            call = run.tools.find(call_id)
        except NotFound:
            if not run.is_open:
                return
            _start_call(run, tool, None, call_id)
            call = run.tools.find(call_id)
        output = output_of(result)
        if event.get("isError") is True:
            call.fail(error_of(output))
        else:
            call.finish(output)
        self._settled.add(call_id)

    # Retries, compactions and observations.

    def _retry(self, event: Mapping[str, Any]) -> None:
        self._failure, self._retrying = None, True
        message = str(event.get("errorMessage") or "the model gave an error")
        self._note("ops.warning", {**rest_of(event), "code": "retry", "message": message})

    def _retried(self, event: Mapping[str, Any]) -> None:
        if event.get("success") is True:
            self._observe("auto_retry_end", event)
            return
        message = str(event.get("finalError") or "given up")
        self._note("ops.warning", {**rest_of(event), "code": "retry_failed", "message": message})
        self._failure = self._failure or message
        self._fail()

    def _compaction(self, event: Mapping[str, Any]) -> None:
        self._note("compaction.started", rest_of(event))

    def _compacted(self, event: Mapping[str, Any]) -> None:
        result = event.get("result")
        before = result.get("tokensBefore") if isinstance(result, dict) else None
        counts = {} if before is None else {"tokens_before": before}
        self._note("compaction.ended", {**counts, **rest_of(event)})
        if self._failure is not None:
            if event.get("willRetry") is True:
                self._failure, self._retrying = None, True
            else:
                self._fail()

    def _observe(self, kind: str, event: Mapping[str, Any]) -> None:
        # Nested as a whole, so that none of its fields counts as safe to show.
        content = {"event": without_images(dict(event))}
        self._note("ops.observation", content, summary=f"pi: {kind[:100]}")

    def _note(self, kind: str, content: dict[str, Any], *, summary: str | None = None) -> None:
        """Record an event outside the conversation, in the open run or else in the session."""
        if self.run is not None and self.run.is_open:
            self.run.emit(kind, content, summary=summary)
            return
        refs = part_of(kind, content).as_refs()
        words = [kind.replace(".", " "), *([refs["code"]] if "code" in refs else [])]
        self._session.record(
            kind, summary or ": ".join(words), payload=content, refs=refs or None, origin="runtime"
        )


def _start_call(run: Run, tool: str, given: Any, call_id: str) -> None:
    # A denied call is recorded as denied. pi runs it anyway: its result comes late.
    with contextlib.suppress(ToolDenied):
        run.tools.started(tool, given, call_id=call_id)


_STOP_REASONS: Final = {"toolUse": "tool_use"}
"""Values that pi spells in its own way."""


def call_of(event: Mapping[str, Any]) -> tuple[str, str]:
    """Return the call id and the tool of a tool event. Raises InvalidInput if one is missing."""
    call_id, tool = event.get("toolCallId"), event.get("toolName")
    if not (isinstance(call_id, str) and isinstance(tool, str)):
        raise InvalidInput(
            "a tool event of pi has a toolCallId and a toolName", hint="pass events unchanged"
        )
    return call_id, tool


def rest_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event without its type."""
    return {name: value for name, value in event.items() if name != "type"}


def text_of(content: Any) -> str:
    """Return the text of a message's content: a string, or blocks with texts."""
    if isinstance(content, str):
        return content
    return "\n".join(_texts(content, "text", "text"))


def images_in(content: Any) -> list[dict[str, Any]]:
    """Return the images in a message's content."""
    return [block for block in _blocks(content) if block.get("type") == "image"]


def reply_of(message: dict[str, Any]) -> Reply:
    """Return the reply in an assistant's message."""
    content = message.get("content")
    stop_reason = _word(message.get("stopReason"))
    return Reply(
        text=text_of(content),
        thinking="\n".join(_texts(content, "thinking", "thinking")) or None,
        sealed=tuple(
            {name: value for name, value in block.items() if name != "type"}
            for block in _blocks(content)
            if block.get("type") == "thinking" and _word(block.get("thinkingSignature"))
        ),
        model=_word(message.get("model")),
        provider=_word(message.get("provider")),
        stop_reason=_STOP_REASONS.get(stop_reason or "", stop_reason),
        usage=_usage_of(message),
    )


def output_of(result: Any) -> Any:
    """Return a tool's result: its text if it has only text, otherwise its parts."""
    if not isinstance(result, dict):
        return result
    blocks = _blocks(result.get("content"))
    details = result.get("details")
    if all(block.get("type") == "text" for block in blocks) and not details:
        return text_of(blocks)
    return {"content": blocks, "details": details} if details else {"content": blocks}


def error_of(output: Any) -> str:
    """Return the text of a failed tool's output."""
    if isinstance(output, dict):
        return text_of(output.get("content")) or "failed"
    return output if isinstance(output, str) and output else "failed"


def without_images(value: Any) -> Any:
    """Return ``value`` with the bytes of every image replaced by their count."""
    if isinstance(value, list):
        return [without_images(part) for part in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "image":
        return _without_bytes(value)
    return {name: without_images(part) for name, part in value.items()}


def _usage_of(message: dict[str, Any]) -> UsageReported | None:
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return None
    cached = _count(usage.get("cacheRead"))
    # pi counts tokens read from or written to a cache apart from other input.
    sent = _count(usage.get("input")) + cached + _count(usage.get("cacheWrite"))
    received = _count(usage.get("output"))
    if not sent + received:
        return None
    return UsageReported(
        model=_word(message.get("model")),
        provider=_word(message.get("provider")),
        input_tokens=sent,
        output_tokens=received,
        cached_tokens=cached,
        total_tokens=_count(usage.get("totalTokens")) or sent + received,
    )


def _without_bytes(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") != "image":
        return block
    encoded = block.get("data")
    image = {"type": "image", "mimeType": block.get("mimeType")}
    return image | {"characters": len(encoded) if isinstance(encoded, str) else 0}


def _blocks(content: Any) -> list[dict[str, Any]]:
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict)]


def _texts(content: Any, kind: str, field: str) -> list[str]:
    texts = (block.get(field) for block in _blocks(content) if block.get("type") == kind)
    return [text for text in texts if isinstance(text, str) and text]


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0
