"""A session as an ATIF trajectory, the format of agent evaluations and of training data.

A step is one message: of the user, of the system, or of the model with its tool calls and their
results. Subagents are embedded, and referred to by the result of the call that began them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.context.dialects.turns import arguments_of, calls_with_results, is_blank
from treering.context.pairing import pair
from treering.context.thoughts import is_thought
from treering.derive.entity_log import name_in
from treering.derive.reports import Report, larger_report, report_of, total_usage
from treering.derive.reports import add_up as add_up_reports
from treering.derive.visible import visible
from treering.model.fields import instant
from treering.model.messages import INSTRUCTIONS, AssistantMessage
from treering.model.parts import ToolReturned, safe_part
from treering.model.tools import SyntheticPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.model.events import Event
    from treering.model.messages import Call, Media, ModelMessage, Result

SCHEMA: Final = "ATIF-v1.8"
UNKNOWN_VERSION: Final = "unknown"
_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_AUDIO: Final = {
    "audio/mp3": "audio/mpeg", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav",
    "audio/x-m4a": "audio/mp4", "audio/m4a": "audio/mp4", "audio/x-flac": "audio/flac",
} | {f"audio/{name}": f"audio/{name}" for name in (
    "wav", "mpeg", "mp4", "aac", "ogg", "flac", "webm", "aiff")}  # fmt: skip
"""The types of sound that the format knows, by the names that are in use."""


class SubagentTrajectory(msgspec.Struct, frozen=True, kw_only=True):
    """The trajectory of a subagent."""

    trajectory: dict[str, Any]
    call_id: str | None
    """The call that began it."""


def trajectory(
    events: Sequence[Event],
    *,
    session_id: str,
    agent: str,
    subagents: Sequence[SubagentTrajectory] = (),
) -> dict[str, Any] | None:
    """Return all ``events`` of a session, given in order, as a trajectory; None if it has no step.

    Failed runs and undone turns are left out of the steps. Their usage is in the final metrics, and
    so is that of ``subagents``: they cost money as well.
    """
    shown = visible(events)
    messages, _ = pair(shown, SyntheticPolicy())
    steps = _Steps({event.event_id: event for event in shown}, subagents)
    summaries = [event for event in shown if _summary_in(event)]
    for message in messages:
        while summaries and summaries[0].seq < message.seq:
            steps.add_summary(summaries.pop(0))
        steps.add(message)
    for event in summaries:
        steps.add_summary(event)
    if not steps.steps:
        return None
    reports = _reports(events)
    steps.add_usage((event, report) for event, report in reports if event.event_id in steps.events)
    spent = total_usage(add_up_reports(report for _, report in reports))
    embedded = [subagent.trajectory for subagent in subagents]
    final: dict[str, Any] = {"total_steps": len(steps.steps)}
    if reports:
        final |= {
            "total_prompt_tokens": spent.input_tokens,
            "total_completion_tokens": spent.output_tokens,
            "total_cached_tokens": spent.cached_tokens,
        }
        cost = None if spent.cost_usd is None else float(spent.cost_usd)
        final["total_cost_usd"] = _with_costs(cost, embedded)
    models = [step["model_name"] for step in steps.steps if step.get("model_name")]
    described = {
        "name": agent,
        "version": _version(events),
        "model_name": models[-1] if models else None,
    }
    whole = {
        "schema_version": SCHEMA,
        "session_id": session_id,
        "trajectory_id": session_id,
        "agent": _known(described),
        "steps": steps.steps,
        "final_metrics": _known(final),
        "subagent_trajectories": embedded or None,
    }
    return _known(whole)


def _with_costs(cost: float | None, subagents: Iterable[dict[str, Any]]) -> float | None:
    """Return a cost with those of subagents; None if a model's price is unknown."""
    for subagent in subagents:
        metrics = subagent["final_metrics"]
        theirs = metrics.get("total_cost_usd", None if "total_prompt_tokens" in metrics else 0.0)
        cost = None if cost is None or theirs is None else cost + theirs
    return cost


class _Steps:
    """The steps of one trajectory, in order."""

    def __init__(self, events: dict[str, Event], subagents: Iterable[SubagentTrajectory]) -> None:
        self.steps: list[dict[str, Any]] = []
        self.events = events
        self._thoughts = [event for event in events.values() if is_thought(event)]
        self._by_message: dict[str, dict[str, Any]] = {}
        """The first step of each answer, by the id that its provider gave it."""
        self._seqs: list[int] = []
        """Of each step, the seq of its first event."""
        self._begun: dict[str, list[dict[str, Any]]] = {}
        for subagent in subagents:
            if subagent.call_id is not None:
                name = subagent.trajectory["trajectory_id"]
                reference = {"trajectory_id": name, "session_id": subagent.trajectory["session_id"]}
                self._begun.setdefault(subagent.call_id, []).append(reference)

    def add(self, message: ModelMessage) -> None:
        """Add the step of a message."""
        if isinstance(message, AssistantMessage):
            self._add_answer(message)
            return
        source = "system" if message.mark in {"summary", *INSTRUCTIONS} else "user"
        extra = {"mark": message.mark} if message.mark and source == "user" else None
        if not is_blank(message.text) or message.media:
            self._add(message, source, _content(message.text, message.media), extra=extra)

    def add_summary(self, event: Event) -> None:
        """Add a step for a compaction: from here on, a summary replaces what came before."""
        step = {"source": "system", "message": _summary_in(event), "extra": {"kind": event.kind}}
        self._append(step, event.seq, event.ts_ms)

    def add_usage(self, reports: Iterable[tuple[Event, Report]]) -> None:
        """Add what was used to the steps that used it."""
        for event, report in reports:
            step = self._by_message.get(_ref(event, "message_id") or "")
            step = step or self._step_near(event)
            if step is None:
                continue
            tokens = report.tokens
            before = step.setdefault("metrics", {})
            used = {
                "prompt_tokens": tokens.input_tokens,
                "completion_tokens": tokens.output_tokens,
                "cached_tokens": tokens.cached_tokens,
            }
            for name, number in used.items():
                before[name] = before.get(name, 0) + number
            spent = total_usage(add_up_reports([report])).cost_usd
            if spent is not None:
                before["cost_usd"] = before.get("cost_usd", 0.0) + float(spent)
            step["llm_call_count"] = step.get("llm_call_count", 0) + 1
            if report.name.model is not None:
                step.setdefault("model_name", report.name.model)

    def _step_near(self, event: Event) -> dict[str, Any] | None:
        """Return the last step of the model before ``event``, else the first one after it."""
        pairs = zip(self._seqs, self.steps, strict=True)
        agents = [(seq, step) for seq, step in pairs if step["source"] == "agent"]
        earlier = [step for seq, step in agents if seq < event.seq]
        return earlier[-1] if earlier else next((step for _, step in agents), None)

    def _add_answer(self, message: AssistantMessage) -> None:
        events = [
            self.events[event_id] for event_id in message.event_ids if event_id in self.events
        ]
        model = next(filter(None, (_ref(event, "model") for event in events)), None)
        results = [self._result(call, result) for call, result in calls_with_results(message)]
        step = self._add(
            message,
            "agent",
            message.text,
            model_name=model,
            reasoning_content=self._reasoning(message, events),
            tool_calls=[self._call(call) for call in message.calls] or None,
            observation={"results": results} if results else None,
        )
        for name in filter(None, (_ref(event, "message_id") for event in events)):
            self._by_message.setdefault(name, step)

    def _reasoning(self, message: AssistantMessage, events: Sequence[Event]) -> str | None:
        """Return the thoughts before an answer, as far as they can be read."""
        last = max((event.seq for event in events), default=message.seq)
        words: list[str] = []
        while self._thoughts and self._thoughts[0].seq <= last:
            payload = self._thoughts.pop(0).payload
            thinking = payload.get("thinking") if isinstance(payload, dict) else None
            words += [thinking] if isinstance(thinking, str) and thinking.strip() else []
        return "\n\n".join(words) or None

    def _call(self, call: Call) -> dict[str, Any]:
        return {
            "tool_call_id": call.call_id,
            "function_name": call.tool,
            "arguments": arguments_of(call),
        }

    def _result(self, call: Call, result: Result) -> dict[str, Any]:
        event = self.events.get(result.event_id or "")
        part = None if event is None else safe_part(event.kind, event.refs)
        extra: dict[str, Any] = {"is_error": True} if result.is_error else {}
        if isinstance(part, ToolReturned):
            facts = {"duration_ms": part.duration_ms, "error_class": part.error_class}
            extra |= _known(facts)
        if result.reason is not None:
            extra["missing"] = result.reason
        return _known(
            {
                "source_call_id": call.call_id,
                "content": _content(result.output, result.media),
                "subagent_trajectory_ref": self._begun.get(call.call_id),
                "extra": extra or None,
            }
        )

    def _add(self, message: ModelMessage, source: str, content: Any, **more: Any) -> dict[str, Any]:
        first = next(
            (self.events[event_id] for event_id in message.event_ids if event_id in self.events),
            None,
        )
        step = {"source": source, "message": content, **_known(more)}
        return self._append(step, message.seq, None if first is None else first.ts_ms)

    def _append(self, step: dict[str, Any], seq: int, ts_ms: int | None) -> dict[str, Any]:
        placed = {"step_id": len(self.steps) + 1}
        timed = {} if ts_ms is None else {"timestamp": instant(ts_ms)}
        self.steps.append({**placed, **timed, **step})
        self._seqs.append(seq)
        return self.steps[-1]


def _content(text: str, media: Sequence[Media]) -> str | list[dict[str, Any]]:
    """Return a text, or parts if something is attached that the format has a place for."""
    parts = [_part(attachment) for attachment in media]
    if not parts:
        return text
    return [*([] if is_blank(text) else [{"type": "text", "text": text}]), *parts]


def _part(media: Media) -> dict[str, Any]:
    mime = media.mime.lower()
    kind = _AUDIO.get(mime) if media.sort == "audio" else mime if mime in _IMAGES else None
    path = media.url or (f"data:{mime};base64,{media.data}" if media.data else None)
    if kind is None or path is None or media.sort not in {"image", "audio"}:
        return {"type": "text", "text": media.placeholder()}
    return {"type": media.sort, "source": {"media_type": kind, "path": path}}


def _reports(events: Iterable[Event]) -> list[tuple[Event, Report]]:
    """Return what the calls of models used: of several reports of one call the largest."""
    by_call: dict[Any, tuple[Event, Report]] = {}
    for event in events:
        report = report_of(event)
        if report is None:
            continue
        key = report.call or event.event_id
        earlier = by_call.get(key)
        if earlier is None or larger_report(earlier[1], report) is report:
            by_call[key] = event, report
    return list(by_call.values())


def _ref(event: Event, name: str) -> str | None:
    return name_in(event.refs, name) if isinstance(event.refs, dict) else None


def _summary_in(event: Event) -> str:
    payload = event.payload if isinstance(event.payload, dict) else {}
    summary = payload.get("summary") if event.kind == "context.compacted" else None
    return summary if isinstance(summary, str) and not is_blank(summary) else ""


def _version(events: Iterable[Event]) -> str:
    """Return the version of the agent, if its log says it."""
    for event in events:
        if event.kind == "session.imported" and isinstance(event.payload, dict):
            version = event.payload.get("version") or event.payload.get("cli_version")
            if isinstance(version, str) and version:
                return version
    return UNKNOWN_VERSION


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
