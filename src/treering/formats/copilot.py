"""GitHub Copilot CLI: the events of a session, and of its subagents, in one file."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from treering.formats.event_content import (
    EventContent,
    called,
    compacted,
    interrupted,
    observation,
    outcome,
    said,
    shortened,
    thought,
    titled,
    trouble,
    used,
)
from treering.formats.format import Format, LogPlace, OwnShare
from treering.formats.loose import (
    count,
    digest,
    fields_of,
    items_of,
    keep,
    name,
    text_of,
    without_none,
    word,
)
from treering.formats.parsed import SessionHeader
from treering.formats.record_reader import NAMES_MAX, ReaderState, RecordReader
from treering.spine.words import shorten

NAME: Final = "copilot"
EVENTS: Final = "events.jsonl"
"""The log of a session in a folder that is named after it."""
_DETAILS: Final = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadTokens",
    "cache_write": "cacheWriteTokens",
}
_FAMILIES: Final = frozenset(
    {"session", "user", "assistant", "tool", "subagent", "hook", "system", "skill", "abort"}
)


class CopilotState(ReaderState, kw_only=True):
    """The state of a session."""

    main: str = ""
    model: str | None = None
    asked: dict[str, str] = msgspec.field(default_factory=dict)
    """Calls that a message asked for, or that have begun, but not both."""
    thought: str = ""
    """A digest of the last reasoning."""
    reported: int = 0
    """Tokens of answers since the last sum."""


class CopilotReader(RecordReader):
    """Reads one session."""

    agent = NAME
    state_type = CopilotState

    def session_of(self, record: dict[str, Any]) -> SessionHeader | str | None:
        """Return the session of an event: a subagent's have the call that started it."""
        now, content = self.now, fields_of(record.get("data"))
        if word(record.get("type")) in {"session.start", "session.resume"}:
            stated = name(content.get("sessionId"))
            now.main = stated or now.main or self.own_session()
            return self._header(content)
        now.main = now.main or self.own_session()
        caller = name(content.get("parentToolCallId"))
        if caller is None:
            return str(now.main)
        child = f"{now.main}/{caller}"
        if child in now.sessions:
            return child
        return SessionHeader(
            session=child, agent=f"{self.agent}:subagent", parent=now.main, call_id=caller
        )

    def own_session(self) -> str:
        """Return the name of the session's file, or folder."""
        if self.path is not None and self.path.name.startswith(EVENTS):
            return name(self.path.parent.name) or super().own_session()
        return super().own_session()

    def parse(self, record: dict[str, Any]) -> list[EventContent] | str:
        """Return the events of a record."""
        content = fields_of(record.get("data"))
        parser = _PARSERS.get(word(record.get("type")) or "")
        return [] if parser is None or not content else parser(self, content)

    def _header(self, content: dict[str, Any]) -> SessionHeader:
        before = self.now.sessions.get(self.now.main)
        context = fields_of(content.get("context"))
        self.now.model = name(content.get("selectedModel")) or self.now.model
        about = without_none(
            version=name(content.get("copilotVersion")),
            branch=name(context.get("branch")),
            repository=name(context.get("repository")),
            commit=name(context.get("headCommit")),
        )
        cwd = word(context.get("cwd")) or word(context.get("gitRoot"))
        return SessionHeader(
            session=self.now.main,
            agent=self.agent,
            # A session may be resumed elsewhere; it belongs to where it began.
            cwd=(before.cwd if before else None) or cwd,
            about={**about, **(before.about if before else {})},
        )

    def user(self, content: dict[str, Any]) -> list[EventContent]:
        """Return what the user said."""
        text, sent = text_of(content.get("content")), content.get("transformedContent")
        attached = content.get("attachments") or None
        if not text.strip() and not attached:
            return []
        sent = sent if sent != content.get("content") else None
        return [said("user", text, attached=attached, transformed=sent or None)]

    def assistant(self, content: dict[str, Any]) -> list[EventContent] | str:
        """Return what the model said, thought and asked for."""
        now = self.now
        message_id = name(content.get("messageId"))
        named = without_none(model=self._model(content), message_id=message_id)
        contents: list[EventContent] = []
        reasoning = word(content.get("reasoningText"))
        if reasoning and digest(reasoning) != now.thought:
            signature = content.get("reasoningOpaque") or content.get("encryptedContent")
            contents.append(thought(reasoning, signature=signature or None, **named))
        text = text_of(content.get("content"))
        if text.strip():
            contents.append(said("assistant", text, **named))
        requests = items_of(content.get("toolRequests"))
        for at, request in enumerate(requests):
            call = fields_of(request)
            call_id = name(call.get("toolCallId")) or f"{message_id}:{at}"
            tool, given = name(call.get("name")) or "tool", call.get("arguments")
            intention = call.get("intentionSummary") or call.get("toolTitle")
            contents += self._call(call_id, tool, given, "request", intention=intention or None)
        tokens = count(content.get("outputTokens"))
        now.reported += tokens
        spent = used(input_tokens=0, output_tokens=tokens, **named)
        contents += [spent] if spent else []
        return contents or ("repeats calls" if requests else "empty")

    def _model(self, content: dict[str, Any]) -> str | None:
        """Return the model of an event; subagents may have others."""
        stated = name(content.get("model"))
        if "parentToolCallId" in content:
            return stated
        self.now.model = stated or self.now.model
        return self.now.model and str(self.now.model)

    def reasoning(self, content: dict[str, Any]) -> list[EventContent]:
        """Return what the model thought."""
        text = word(content.get("content"))
        self.now.thought = digest(text)
        return [thought(text, model=self.now.model)] if text else []

    def begun(self, content: dict[str, Any]) -> list[EventContent] | str:
        """Return a call that has begun, unless a message asked for it."""
        call_id, tool = name(content.get("toolCallId")), name(content.get("toolName"))
        if call_id is None or tool is None:
            return []
        call = self._call(call_id, tool, content.get("arguments"), "start")
        return call or "begins a call that was asked for"

    def requested(self, content: dict[str, Any]) -> list[EventContent]:
        """Return a call that the user asked for."""
        call_id, tool = name(content.get("toolCallId")), name(content.get("toolName"))
        if call_id is None or tool is None:
            return []
        calls = self._call(call_id, tool, content.get("arguments"), "request")
        return [msgspec.structs.replace(call, source="user") for call in calls]

    def _call(
        self, call_id: str, tool: str, given: Any, how: str, **more: Any
    ) -> list[EventContent]:
        """Return a call; nothing if it was recorded before, from a request or a start."""
        asked = self.now.asked
        before = asked.pop(call_id, None)
        if before is not None and before != how:
            return []
        keep(asked, call_id, how, NAMES_MAX)
        self.name_call(call_id, tool)
        return [called(call_id, tool, given, **more)]

    def complete(self, content: dict[str, Any]) -> list[EventContent]:
        """Return the outcome of a call."""
        call_id, result = name(content.get("toolCallId")), content.get("result")
        self._model(content)
        error, fields = content.get("error"), fields_of(result)
        output = fields.get("content", result)
        if output is None and error is not None:
            output = fields_of(error).get("message", error)
        telemetry = fields_of(content.get("toolTelemetry"))
        rest = without_none(
            detailed=fields.get("detailedContent"), error=error, telemetry=telemetry or None
        )
        failed = content.get("success") is False or (error is not None and "success" not in content)
        duration = fields_of(telemetry.get("metrics")).get("durationMs")
        return [
            outcome(
                call_id,
                self.tool_of(call_id) or name(content.get("toolName")),
                output,
                failed=failed,
                duration_ms=duration,
                details=rest,
            )
        ]

    def subagent(self, content: dict[str, Any]) -> list[EventContent]:
        """Note what a subagent is; the event itself is kept whole."""
        caller, kind = name(content.get("toolCallId")), name(content.get("agentName"))
        child = f"{self.now.main}/{caller}"
        if caller is not None and child not in self.now.sessions:
            title = word(content.get("agentDescription")) or word(content.get("agentDisplayName"))
            self.now.sessions[child] = SessionHeader(
                session=child,
                agent=f"{self.agent}:{kind or 'subagent'}",
                parent=self.now.main,
                call_id=caller,
                title=shorten(title) if title else None,
            )
        return []

    def model_changed(self, content: dict[str, Any]) -> list[EventContent]:
        """Note which model answers from now on; the event itself is kept whole."""
        self.now.model = name(content.get("newModel")) or self.now.model
        return []

    def compaction(self, content: dict[str, Any]) -> list[EventContent]:
        """Return a compaction with its summary."""
        summary = word(content.get("summaryContent")) or word(content.get("summary"))
        before = count(content.get("preCompactionTokens")) or None
        if summary is None:
            return [shortened(content, tokens_before=before)]
        return [compacted(summary, by=self.agent, from_tokens=before)]

    def truncated(self, content: dict[str, Any]) -> list[EventContent]:
        """Return the event for a context whose oldest messages were dropped."""
        before = count(content.get("preTruncationTokensInMessages"))
        after = count(content.get("postTruncationTokensInMessages"))
        return [shortened(content, tokens_before=before, tokens_after=after)]

    def rewound(self, content: dict[str, Any]) -> list[EventContent]:
        """Return the event for a session that was rewound to an earlier event."""
        taken = self.rewind(name(content.get("upToEventId")), **content)
        return [taken] if taken else []

    def shutdown(self, content: dict[str, Any]) -> list[EventContent]:
        """Return the total usage, without what answers have already reported."""
        contents = [observation("session.shutdown", content)]
        metrics = fields_of(content.get("modelMetrics"))
        sums = {
            model: fields_of(fields_of(stated).get("usage")) for model, stated in metrics.items()
        }
        if not any(sums.values()):
            details = fields_of(content.get("tokenDetails"))
            total = {
                theirs: fields_of(details.get(at)).get("tokenCount")
                for at, theirs in _DETAILS.items()
            }
            sums = {str(content.get("currentModel")): total}
        for model, usage in sums.items():
            sent = count(usage.get("outputTokens"))
            reported = min(sent, self.now.reported)
            self.now.reported -= reported
            spent = used(
                input_tokens=count(usage.get("inputTokens")),
                output_tokens=sent - reported,
                cached_tokens=count(usage.get("cacheReadTokens")),
                cache_creation_tokens=count(usage.get("cacheWriteTokens")),
                model=name(model),
                stated=fields_of(metrics.get(model)) or usage,
            )
            contents += [spent] if spent else []
        self.now.reported = 0
        return contents

    def error(self, content: dict[str, Any]) -> list[EventContent]:
        """Return an error that was shown."""
        message = word(content.get("message"))
        code = word(content.get("errorType")) or "error"
        rest = {at: value for at, value in content.items() if at not in {"message", "code"}}
        return [trouble(message, code=code, **rest)] if message else []

    def abort(self, content: dict[str, Any]) -> list[EventContent]:
        """Return the event for an interrupted turn."""
        return [interrupted(word(content.get("reason")))]

    def title(self, content: dict[str, Any]) -> list[EventContent]:
        """Return the title of the session."""
        title = word(content.get("title"))
        return [titled(title)] if title else []


_PARSERS: Final = {
    "user.message": CopilotReader.user,
    "assistant.message": CopilotReader.assistant,
    "assistant.reasoning": CopilotReader.reasoning,
    "tool.user_requested": CopilotReader.requested,
    "tool.execution_start": CopilotReader.begun,
    "tool.execution_complete": CopilotReader.complete,
    "subagent.started": CopilotReader.subagent,
    "session.model_change": CopilotReader.model_changed,
    "session.compaction_complete": CopilotReader.compaction,
    "session.truncation": CopilotReader.truncated,
    "session.snapshot_rewind": CopilotReader.rewound,
    "session.shutdown": CopilotReader.shutdown,
    "session.error": CopilotReader.error,
    "session.title_changed": CopilotReader.title,
    "abort": CopilotReader.abort,
}


def _is_own(value: dict[str, Any]) -> bool | None:
    sort = word(value.get("type"))
    if sort is None or not isinstance(value.get("data"), dict) or "id" not in value:
        return False
    family = sort.partition(".")[0]
    return family in _FAMILIES and "timestamp" in value


score: Final = OwnShare(_is_own)
"""Returns the share of values that are Copilot's events."""

FORMAT: Final = Format(
    name=NAME,
    score=score,
    reader=CopilotReader,
    places=(LogPlace(".copilot", "session-state", "COPILOT_HOME"),),
)
