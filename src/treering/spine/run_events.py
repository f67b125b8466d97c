"""The events of a run, made from a template that knows whose they are.

A template is a NewEvent with the scope, session, agent, user, run and turn, and nothing said yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec.structs import replace

from treering.model.codec import REFS_BYTES_MAX, encode, is_plain
from treering.model.events import SUMMARY_CHARACTERS_MAX, NewEvent
from treering.model.parts import RunEnded, ToolReturned, part_of, safe_part
from treering.model.views import INTERRUPT_CONTENT, INTERRUPT_TITLE
from treering.spine.conversion import (
    Mark,
    plain,
    shorten_values,
    to_json,
    to_text,
    type_name,
    with_marks,
)
from treering.spine.ports import Occasion
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.tools import Reason, SyntheticPolicy
    from treering.spine.gates import Gates

TOOL_LEDGER: Final = "tool-ledger"
KERNEL: Final = "kernel"
RUNTIME: Final = "runtime"
"""The components of the spine, as the event envelope spells them."""


def make_event(
    template: NewEvent,
    kind: str,
    summary: str,
    *,
    payload: Any = None,
    refs: Any = None,
    origin: str | None = RUNTIME,
    event_id: str | None = None,
    marks: Sequence[Mark] | None = None,
) -> NewEvent:
    """Return ``template`` as an event that says this.

    A payload that is not JSON is converted and marked; ``marks`` are those of a payload that was
    converted before. ``event_id`` is given where the id itself says something.
    """
    if marks is None and not is_plain(payload):
        payload, marks = to_json(payload)
    if marks:
        payload = with_marks(payload, marks)
    return replace(
        template, kind=kind, summary=summary, payload=payload, refs=refs, origin=origin,
        event_id=event_id,
    )  # fmt: skip


def run_end(
    template: NewEvent,
    state: Literal["ended", "failed", "interrupted"],
    part: RunEnded,
    cause: dict[str, str] | None = None,
) -> NewEvent:
    """Return the event that ends a run; ``cause`` is private, ``part`` is safe to show."""
    why = part.error_class or part.reason
    summary = f"run {state}" if why is None or why == state else f"run {state}: {why}"
    return make_event(
        template, f"run.{state}", summary, payload=cause, refs=part.as_refs(), origin=KERNEL
    )


def without_words(event: NewEvent) -> NewEvent:
    """Return ``event`` with facts alone, for when its words cannot be recorded."""
    part = safe_part(event.kind, event.refs)
    facts = part.as_refs()
    facts.pop("error_class", None)
    payload: dict[str, Any] = {"withheld": True}
    payload |= {name: facts[name] for name in ("call_id", "status") if name in facts}
    summary = event.kind.replace(".", " ")
    return replace(event, summary=summary, refs=facts or None, payload=payload)


def said(
    template: NewEvent, kind: str, text: Any, content: dict[str, Any], **refs: Any
) -> NewEvent:
    """Return what somebody said; ``content`` is kept beside the text."""
    words, marks = to_text(text, "/text")
    payload: Any = {"text": words, **content}
    if not content and not marks:  # A text and nothing else: most of what is said.
        refs["characters"] = len(words)
        return replace(
            template, kind=kind, summary=shorten(words), payload=payload, refs=refs, origin=RUNTIME
        )
    if marks or not is_plain(payload):
        payload, more = to_json(payload)
        marks = [*marks, *more]
    return make_event(
        template,
        kind,
        shorten(words),
        payload=payload,
        refs={**part_of(kind, payload).as_refs(), **refs},
        marks=marks,
    )


def fit(event: NewEvent) -> NewEvent:
    """Return ``event`` so that it can be recorded, for when it cannot be as it is.

    What is too long is shortened, refs that are too many go into the payload: both are marked.
    """
    payload, marks = to_json(event.payload)
    refs, more = to_json(event.refs)
    marks += [{**mark, "in": "refs"} for mark in more]
    summary = event.summary if isinstance(event.summary, str) else to_text(event.summary)[0]
    if len(summary) > SUMMARY_CHARACTERS_MAX or "\0" in summary or not summary.strip():
        payload = {**_content(payload), "summary": plain(summary)}
        marks.append({"at": "/summary", "type": "str", "as": "shortened", "in": "summary"})
        summary = shorten(summary, SUMMARY_CHARACTERS_MAX)
    if refs is not None and len(encode(refs)) > REFS_BYTES_MAX:
        payload = {**_content(payload), "refs": refs}
        marks.append({"at": "/refs", "type": type_name(event.refs), "as": "object", "in": "refs"})
        refs = None
    payload, cut = shorten_values(payload)
    return replace(
        event, summary=plain(summary), payload=with_marks(payload, [*marks, *cut]), refs=refs
    )


def _content(payload: Any) -> dict[str, Any]:
    if isinstance(payload, dict):
        return payload
    return {} if payload is None else {"value": payload}


def interrupt_mark(template: NewEvent, why: str) -> NewEvent:
    """Return the boundary that an interrupt leaves for the next turn; it is not part of the run."""
    return make_event(
        replace(template, run_id=None),
        "boundary.interrupt",
        INTERRUPT_TITLE,
        payload={"title": INTERRUPT_TITLE, "content": INTERRUPT_CONTENT, "why": plain(why)},
        refs={"interrupted_run": template.run_id},
        origin=KERNEL,
    )


class CalledTool(msgspec.Struct, frozen=True):
    """A tool call that gets its result: its run, as gates see it, and the template of the event."""

    occasion: Occasion
    template: NewEvent
    tool: str
    call_id: str
    duration_ms: int | None


class Results:
    """Makes the events of tools' outcomes: gates asked once, texts by one policy."""

    def __init__(self, gates: Gates, policy: SyntheticPolicy) -> None:
        self._gates = gates
        self.policy = policy

    def returned(self, call: CalledTool, output: Any) -> NewEvent:
        """Return the result of a tool that gave ``output``."""
        converted, marks = to_json(output, "/output")
        recorded = self._gates.persist(call, converted)
        return _result(call, "ok", f"{call.tool} returned", {"output": recorded}, marks=marks)

    def failed(self, call: CalledTool, error: dict[str, str]) -> NewEvent:
        """Return the result of a tool that failed."""
        recorded = self._gates.persist(call, error["message"], is_error=True)
        # What the gates did not keep must not stay behind as the error's message.
        message = recorded if isinstance(recorded, str) else "see the output"
        content: dict[str, Any] = {"error": {**error, "message": message}}
        content |= {} if isinstance(recorded, str) else {"output": recorded}
        summary = f"{call.tool} failed: {error['class']}"
        return _result(call, "failed", summary, content, error_class=error["class"])

    def synthetic(self, call: CalledTool, reason: Reason) -> NewEvent:
        """Return the result that replaces the one which a tool never gave."""
        text = self.policy.text(call.tool, reason)
        recorded = self._gates.persist(call, text, is_error=True, is_synthetic=True)
        content = {"output": recorded, "is_synthetic": True, "reason": reason}
        summary = f"{call.tool} gave no result: {reason}"
        return _result(call, "synthetic", summary, content, is_synthetic=True, reason=reason)


def _result(
    call: CalledTool,
    status: Any,
    summary: str,
    content: dict[str, Any],
    marks: Sequence[Mark] = (),
    **facts: Any,
) -> NewEvent:
    duration_ms = call.duration_ms
    part = ToolReturned(
        call_id=call.call_id,
        tool=call.tool,
        status=status,
        duration_ms=duration_ms,
        output_bytes=len(encode(content["output"])) if "output" in content else 0,
        **facts,
    )
    lasted = {} if duration_ms is None else {"duration_ms": duration_ms}
    return make_event(
        call.template,
        "tool.result",
        summary if duration_ms is None else f"{summary} after {duration_ms} ms",
        payload={"call_id": call.call_id, "name": call.tool, "status": status, **lasted, **content},
        refs=part.as_refs(),
        origin=TOOL_LEDGER,
        marks=marks,
    )
