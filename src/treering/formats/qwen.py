"""Qwen Code: Claude's envelope around Gemini's parts."""

from __future__ import annotations

import re
from typing import Any, Final

from treering.formats.event_content import (
    EventContent,
    called,
    compacted,
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
from treering.formats.loose import count, fields_of, name, objects_in, without_none, word
from treering.formats.parsed import SessionHeader
from treering.formats.record_reader import RecordReader

NAME: Final = "qwen"
_TYPES: Final = frozenset({"user", "assistant", "tool_result", "system"})
_INJECTED: Final = re.compile(r"\s*<qwen:[\w-]+>")
"""How text begins that the program adds to what the user said."""
_ASIDE: Final = frozenset({"notification", "cron", "background", "goal_continuation"})
"""Subtypes of user lines that no user wrote."""
_FAILED: Final = frozenset({"error", "cancelled", "canceled", "failed"})


class QwenReader(RecordReader):
    """Reads one chat."""

    agent = NAME

    def session_of(self, record: dict[str, Any]) -> SessionHeader | str | None:
        """Return the session that the line names; that of a subagent, if it names one."""
        session = name(record.get("sessionId"))
        if session is None:
            return None
        agent = name(record.get("agentId")) if record.get("isSidechain") is True else None
        session = session if agent is None else f"{session}/agent-{agent}"
        before = self.now.sessions.get(session)
        if before is not None and before.cwd is not None:
            return session
        fork = fields_of(record.get("forkedFrom"))
        kind = name(record.get("agentName")) or name(record.get("agentType"))
        return SessionHeader(
            session=session,
            agent=f"{self.agent}:{kind or 'subagent'}" if agent else self.agent,
            cwd=word(record.get("cwd")),
            parent=name(record.get("sessionId")) if agent else None,
            forked_from=name(fork.get("sessionId")) or name(record.get("parentSessionId")),
            about=without_none(
                version=name(record.get("version")), branch=name(record.get("gitBranch"))
            ),
        )

    def id_of(self, record: dict[str, Any]) -> str | None:
        """Return the line's own id."""
        return name(record.get("uuid"))

    def title_of(self, record: dict[str, Any]) -> str:
        """Return the type and the subtype."""
        sort, subtype = super().title_of(record), word(record.get("subtype"))
        return f"{sort}: {subtype}" if subtype else sort

    def parse(self, record: dict[str, Any]) -> list[EventContent] | str:
        """Return the events of a line."""
        match record.get("type"):
            case "user":
                return self._user(record)
            case "assistant":
                return self._assistant(record)
            case "tool_result":
                return self._results(record)
            case "system":
                return self._system(record)
        return []

    def _user(self, record: dict[str, Any]) -> list[EventContent]:
        if word(record.get("subtype")) in _ASIDE:
            return []
        parts, payload = _parts(record), fields_of(record.get("systemPayload"))
        texts = [text for part in parts if isinstance(text := part.get("text"), str)]
        added = [text for text in texts if _INJECTED.match(text)]
        text = "\n".join(text for text in texts if not _INJECTED.match(text))
        shown = word(payload.get("displayText"))
        others = [part for part in parts if not {"text", "functionResponse"} & part.keys()]
        contents = self._results(record)
        if (shown or text).strip() or others:
            sent = text if shown and shown != text else None
            context = {"context": added} if added else {}
            spoken = said("user", shown or text, attached=others, transformed=sent, **context)
            contents.append(spoken)
        return contents

    def _assistant(self, record: dict[str, Any]) -> list[EventContent]:
        model, message_id = name(record.get("model")), name(record.get("uuid"))
        named = without_none(model=model, message_id=message_id)
        contents: list[EventContent] = []
        for at, part in enumerate(_parts(record)):
            text, call = part.get("text"), fields_of(part.get("functionCall"))
            if call:
                call_id = name(call.get("id")) or f"{message_id}:{at}"
                tool = name(call.get("name")) or "tool"
                self.name_call(call_id, tool)
                signature = part.get("thoughtSignature")
                contents.append(called(call_id, tool, call.get("args"), signature=signature))
            elif isinstance(text, str) and text.strip():
                make = thought if part.get("thought") is True else _answer
                contents.append(make(text, **named))
            elif text is None and part:
                contents.append(observation("part", part))
        usage = fields_of(record.get("usageMetadata"))
        spent = used(
            input_tokens=count(usage.get("promptTokenCount")),
            output_tokens=count(usage.get("candidatesTokenCount"))
            + count(usage.get("thoughtsTokenCount")),
            cached_tokens=count(usage.get("cachedContentTokenCount")),
            total_tokens=count(usage.get("totalTokenCount")) or None,
            stated=usage,
            **named,
        )
        return [*contents, spent] if spent else contents

    def _results(self, record: dict[str, Any]) -> list[EventContent]:
        stated = fields_of(record.get("toolCallResult"))
        responses = [fields_of(part.get("functionResponse")) for part in _parts(record)]
        responses = [response for response in responses if response]
        if not responses and stated:
            responses = [{"id": stated.get("callId"), "response": stated.get("resultDisplay")}]
        return [
            self._result(response, stated if at == 0 else {})
            for at, response in enumerate(responses)
        ]

    def _result(self, response: dict[str, Any], stated: dict[str, Any]) -> EventContent:
        call_id, other = name(response.get("id")), name(stated.get("callId"))
        if call_id is None or (other is not None and self.tool_of(call_id) is None):
            call_id = other or call_id
        given = response.get("response")
        fields = fields_of(given)
        error = fields.get("error") or stated.get("error")
        output = fields.get("output", given)
        if error and "output" not in fields:
            output = fields_of(error).get("message", error)
        rest = {at: value for at, value in stated.items() if value and at not in _OF_A_RESULT}
        display = stated.get("resultDisplay")
        return outcome(
            call_id,
            name(response.get("name")) or self.tool_of(call_id),
            output,
            failed=bool(error) or word(stated.get("status")) in _FAILED,
            duration_ms=stated.get("durationMs"),
            details={**rest, **({"display": display} if display and display != output else {})},
        )

    def _system(self, record: dict[str, Any]) -> list[EventContent]:
        payload = fields_of(record.get("systemPayload"))
        match record.get("subtype"):
            case "custom_title" if title := word(payload.get("customTitle")):
                return [titled(title)]
            case "rewind":
                target = name(payload.get("targetUuid")) or name(record.get("parentUuid"))
                taken = self.rewind(target, **payload)
                return [taken] if taken else []
            case "chat_compression":
                return self._compaction(payload)
            case "ui_telemetry":
                event = fields_of(payload.get("uiEvent"))
                message = word(event.get("error_message"))
                code = word(event.get("error_type")) or "api_error"
                return [trouble(message, code=code, event=event)] if message else []
        return []

    def _compaction(self, payload: dict[str, Any]) -> list[EventContent]:
        history = payload.get("compressedHistory")
        first = fields_of(history[0]) if isinstance(history, list) and history else {}
        texts = [text for part in _parts({"message": first}) if (text := word(part.get("text")))]
        summary = word(payload.get("summary")) or "\n".join(texts)
        info = fields_of(payload.get("info"))
        before = count(info.get("originalTokenCount")) or None
        if not summary:
            after = count(info.get("newTokenCount"))
            return [shortened(payload, tokens_before=before, tokens_after=after)]
        return [compacted(summary, by=self.agent, from_tokens=before)]


_OF_A_RESULT: Final = frozenset({"callId", "status", "durationMs", "resultDisplay"})


def _is_own(value: dict[str, Any]) -> bool | None:
    if word(value.get("type")) not in _TYPES or "uuid" not in value or "sessionId" not in value:
        return False
    if "message" not in value:
        return True if "systemPayload" in value else None
    message = fields_of(value["message"])
    return "parts" in message and "content" not in message


score: Final = OwnShare(_is_own)
"""Returns the share of values that are Qwen Code's lines."""

FORMAT: Final = Format(
    name=NAME, score=score, reader=QwenReader, places=(LogPlace(".qwen", "projects"),)
)


def _answer(text: str, **named: Any) -> EventContent:
    return said("assistant", text, **named)


def _parts(record: dict[str, Any]) -> list[dict[str, Any]]:
    return objects_in(fields_of(record.get("message")).get("parts"))
