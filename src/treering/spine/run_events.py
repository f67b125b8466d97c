"""The events of a run, made from a template that knows whose they are, and the gates before them.

A template is a NewEvent with the scope, session, agent, user, run and turn, and nothing said yet.

A gate that fails does not take the run with it: what it should have allowed is held back, and what
it should have changed stays as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec.structs import replace

from treering.context.assemble import Contributed
from treering.lazy import lazy_logger
from treering.model.codec import REFS_BYTES_MAX, canonical, decode, encode, is_plain
from treering.model.events import SUMMARY_CHARACTERS_MAX, NewEvent
from treering.model.messages import Repair
from treering.model.parts import ContextAssembled, RunEnded, ToolReturned, part_of, safe_part
from treering.model.runs import INTERRUPT_CONTENT, INTERRUPT_TITLE
from treering.spine.conversion import (
    Mark,
    plain,
    shorten_values,
    to_json,
    to_text,
    type_name,
    with_marks,
)
from treering.spine.ports import Occasion, Preparation, Verdict
from treering.spine.sink_queue import in_words
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.context.assemble import Context
    from treering.model.tools import Reason, SyntheticPolicy
    from treering.spine.ports import Gate


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
            template,
            kind=kind,
            summary=shorten(words),
            payload=payload,
            refs=refs,
            origin=RUNTIME,
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


_log = lazy_logger("treering.spine")


class Gates:
    """All gates of a spine as one."""

    def __init__(self) -> None:
        self._gates: tuple[Gate, ...] = ()

    def add(self, gate: Gate) -> None:
        """Ask ``gate`` too, after the others."""
        self._gates = (*self._gates, gate)

    def before_run(self, occasion: Occasion, prompt: str | None) -> Preparation:
        """Say what to add to a run: the last system prompt, and every context."""
        system: str | None = None
        contexts: list[str] = []
        for gate in self._gates:
            try:
                added = gate.before_run(occasion, prompt)
                system = system if added.system_prompt is None else added.system_prompt
                contexts += [added.prepend_context] if added.prepend_context else []
            except Exception as error:  # noqa: BLE001  (a gate may raise anything)
                _complain(gate, "before_run", error)
        return Preparation(system_prompt=system, prepend_context="\n\n".join(contexts) or None)

    def before_tool(self, occasion: Occasion, tool: str, call_id: str, input: Any) -> Verdict:  # noqa: A002
        """Say whether a tool may run; each gate sees the input that the one before left."""
        return self._ask(
            "before_tool",
            input,
            lambda gate, given: gate.before_tool(occasion, tool, call_id, given),
        )

    def before_sending(self, occasion: Occasion, text: str, to: str | None) -> Verdict:
        """Say whether a message may be sent; each gate sees what the one before left."""
        return self._ask(
            "before_sending", text, lambda gate, given: gate.before_sending(occasion, given, to)
        )

    def persist(
        self,
        call: CalledTool,
        output: Any,
        *,
        is_error: bool = False,
        is_synthetic: bool = False,
    ) -> Any:
        """Return the output of a tool as the gates want it recorded."""
        for gate in self._gates:
            try:
                recorded = gate.persist(
                    call.occasion, call.tool, call.call_id, output,
                    is_error=is_error, is_synthetic=is_synthetic,
                )  # fmt: skip
                canonical(recorded, "output")
                output = recorded
            except Exception as error:  # noqa: BLE001  (a gate may raise anything)
                _complain(gate, "persist", error)
        return output

    def _ask(self, name: str, given: Any, ask: Callable[[Gate, Any], Verdict]) -> Verdict:
        changed: Any = None
        for gate in self._gates:
            try:
                verdict = ask(gate, given if changed is None else changed)
                blocked, content = verdict.blocked, verdict.content
                canonical(content, "content")
            except Exception as error:  # noqa: BLE001  (a gate may raise anything)
                _complain(gate, name, error)
                return Verdict(blocked=True, reason=f"a gate failed: {type(error).__name__}")
            if blocked:
                return verdict
            changed = changed if content is None else content
        return Verdict(content=changed)


def _complain(gate: Gate, name: str, error: Exception) -> None:
    _log.error("%s of gate %s: %s", name, getattr(gate, "name", "?"), in_words(error))


REPORT_MAX: Final = 100
"""Repairs that are kept with the event; all are counted."""


class ContextRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a context was asked for, and what it showed."""

    dialect: str
    max_tokens: int | None = None
    reserve_output_tokens: int = 0
    fixed_tokens: int = 0
    ratio: float = 1.0
    counter: str | None = None
    """What counted its tokens, if that was not the built-in estimate."""
    until_seq: int | None = None
    """The last seq that could be shown; None in events that were recorded without it."""
    digest: str = ""
    shown: list[tuple[int, int]] = []
    """First and last seq of each stretch of which every message was shown."""
    contributed: list[Contributed] = []
    report: list[Repair] = []
    """The first ``REPORT_MAX`` repairs."""

    @property
    def limit(self) -> int | None:
        """Return the tokens that there were for the input."""
        if self.max_tokens is None:
            return None
        return max(self.max_tokens - self.reserve_output_tokens, 0)


def showing(template: NewEvent, context: Context, *, model: str | None) -> NewEvent:
    """Return the event that says what a model is shown."""
    asked = ContextRecord(
        dialect=context.dialect,
        max_tokens=context.max_tokens,
        reserve_output_tokens=context.reserve_output_tokens,
        fixed_tokens=context.fixed_tokens,
        ratio=context.ratio,
        counter=context.counter,
        until_seq=context.until_seq,
        digest=context.recipe,
        shown=context.shown,
        # Without the digests: words that are erased elsewhere could be guessed from them.
        contributed=[msgspec.structs.replace(item, digest="") for item in context.contributed],
        report=context.report[:REPORT_MAX],
    )
    part = ContextAssembled(
        dialect=context.dialect,
        model=model,
        max_tokens=context.max_tokens,
        tokens=context.tokens,
        # Only our own estimate is to be calibrated by what a provider reports.
        estimated_tokens=context.estimated_tokens if context.counter is None else None,
        messages=len(context.messages),
        events=len(context.event_ids),
        repairs=len(context.report),
    )
    noun = "message" if len(context.messages) == 1 else "messages"
    return make_event(
        template,
        "context.assembled",
        f"context of {len(context.messages)} {noun}, about {context.tokens} tokens",
        payload=decode(encode(asked)),
        refs=part.as_refs(),
    )
