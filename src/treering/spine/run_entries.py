"""Entries: what a run is about to record, before the spine gives it order and place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from treering.model.codec import REFS_BYTES_MAX, encode, is_plain
from treering.model.events import SUMMARY_CHARACTERS_MAX, NewEvent
from treering.model.parts import RunEnded, ToolReturned, part_of, safe_part
from treering.model.runs import INTERRUPT_CONTENT, INTERRUPT_TITLE
from treering.model.scopes import Scope
from treering.spine.conversion import (
    Mark,
    plain,
    shorten_values,
    to_json,
    to_text,
    type_name,
    with_marks,
)
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.model.tools import Reason, SyntheticPolicy
    from treering.spine.ports import Occasion

    Persist = Callable[..., Any]
    """Asks the gates what to keep of an output: see ``Gate.persist``."""

TOOL_LEDGER: Final = "tool-ledger"
KERNEL: Final = "kernel"
RUNTIME: Final = "runtime"
"""The components of the spine, as the event envelope spells them."""


class RunEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a run, in its author's words."""

    kind: str
    summary: str
    payload: Any = None
    refs: Any = None
    origin: str | None = RUNTIME
    source: str | None = None
    visibility: str | None = None
    event_id: str | None = None
    """Given where the id itself says something."""
    converted: Sequence[Mark] | None = None
    """What was changed to make the payload JSON; None if that has not been looked at yet."""


class Author(msgspec.Struct, frozen=True, kw_only=True):
    """Whose events these are: a run, and its place."""

    scope: Scope
    session_id: str
    agent_id: str
    user_id: str | None
    run_id: str
    turn_id: str | None

    def event(self, entry: RunEntry, run_seq: int | None) -> NewEvent:
        """Return ``entry`` as an event of the run; without a number, as one apart from it.

        A payload that is not JSON is converted, and marked.
        """
        payload, marks = entry.payload, entry.converted
        if marks is None and not is_plain(payload):
            payload, marks = to_json(payload)
        return NewEvent(
            scope=self.scope,
            session_id=self.session_id,
            kind=entry.kind,
            agent_id=self.agent_id,
            summary=entry.summary,
            payload=with_marks(payload, marks) if marks else payload,
            refs=entry.refs,
            run_id=None if run_seq is None else self.run_id,
            run_seq=run_seq,
            turn_id=self.turn_id,
            user_id=self.user_id,
            source=entry.source,
            origin=entry.origin,
            visibility=entry.visibility,
            event_id=entry.event_id,
        )


def run_end(
    state: Literal["ended", "failed", "interrupted"],
    part: RunEnded,
    told: dict[str, str] | None,
) -> RunEntry:
    """Return how a run ended; ``told`` is what only those may know who ask for it."""
    why = part.error_class or part.reason
    return RunEntry(
        kind=f"run.{state}",
        summary=f"run {state}" if why is None or why == state else f"run {state}: {why}",
        payload=told,
        refs=part.as_refs(),
        origin=KERNEL,
    )


def without_words(entry: RunEntry) -> RunEntry:
    """Return ``entry`` with facts alone, for when its words cannot be recorded."""
    part = safe_part(entry.kind, entry.refs)
    facts = part.as_refs()
    facts.pop("error_class", None)
    payload: dict[str, Any] = {"withheld": True}
    payload |= {name: facts[name] for name in ("call_id", "status") if name in facts}
    summary = entry.kind.replace(".", " ")
    return msgspec.structs.replace(entry, summary=summary, refs=facts or None, payload=payload)


def said(kind: str, text: Any, content: dict[str, Any], **refs: Any) -> RunEntry:
    """Return what somebody said; ``content`` is kept beside the text."""
    words, marks = to_text(text, "/text")
    payload: Any = {"text": words, **content}
    if marks or not is_plain(payload):
        payload, more = to_json(payload)
        marks = [*marks, *more]
    return RunEntry(
        kind=kind,
        summary=shorten(words),
        payload=payload,
        refs={**part_of(kind, payload).as_refs(), **refs},
        converted=marks,
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
    return msgspec.structs.replace(
        event, summary=plain(summary), payload=with_marks(payload, [*marks, *cut]), refs=refs
    )


def _content(payload: Any) -> dict[str, Any]:
    if isinstance(payload, dict):
        return payload
    return {} if payload is None else {"value": payload}


def interrupt_mark(why: str, run_id: str) -> RunEntry:
    """Return the boundary that an interrupt leaves for the next turn; it stands apart from runs."""
    return RunEntry(
        kind="boundary.interrupt",
        summary=INTERRUPT_TITLE,
        payload={"title": INTERRUPT_TITLE, "content": INTERRUPT_CONTENT, "why": plain(why)},
        refs={"interrupted_run": run_id},
        origin=KERNEL,
    )


class Results:
    """Makes the events of tools' outcomes: gates asked once, texts by one policy."""

    def __init__(self, persist: Persist, policy: SyntheticPolicy) -> None:
        self._persist = persist
        self.policy = policy

    def returned(
        self, occasion: Occasion, tool: str, call_id: str, duration_ms: int, output: Any
    ) -> RunEntry:
        """Return the outcome of a tool that gave ``output``."""
        found, marks = to_json(output, "/output")
        kept = self._persist(occasion, tool, call_id, found, is_error=False, is_synthetic=False)
        entry = _result(tool, call_id, "ok", f"{tool} returned", duration_ms, {"output": kept})
        return msgspec.structs.replace(entry, converted=marks) if marks else entry

    def failed(
        self, occasion: Occasion, tool: str, call_id: str, duration_ms: int, error: dict[str, str]
    ) -> RunEntry:
        """Return the outcome of a tool that failed."""
        text = error["message"]
        kept = self._persist(occasion, tool, call_id, text, is_error=True, is_synthetic=False)
        # What the gates did not keep must not stay behind as the error's message.
        message = kept if isinstance(kept, str) else "see the output"
        told: dict[str, Any] = {"error": {**error, "message": message}}
        told |= {} if isinstance(kept, str) else {"output": kept}
        summary = f"{tool} failed: {error['class']}"
        return _result(
            tool, call_id, "failed", summary, duration_ms, told, error_class=error["class"]
        )

    def synthetic(
        self, occasion: Occasion, tool: str, call_id: str, duration_ms: int | None, reason: Reason
    ) -> RunEntry:
        """Return what stands in for the outcome of a tool that gave none."""
        text = self.policy.text(tool, reason)
        kept = self._persist(occasion, tool, call_id, text, is_error=True, is_synthetic=True)
        told = {"output": kept, "is_synthetic": True, "reason": reason}
        summary = f"{tool} gave no result: {reason}"
        return _result(
            tool, call_id, "synthetic", summary, duration_ms, told, is_synthetic=True, reason=reason
        )


def _result(
    tool: str,
    call_id: str,
    status: Any,
    summary: str,
    duration_ms: int | None,
    told: dict[str, Any],
    **facts: Any,
) -> RunEntry:
    size = len(encode(told["output"])) if "output" in told else 0
    part = ToolReturned(
        call_id=call_id,
        tool=tool,
        status=status,
        duration_ms=duration_ms,
        output_bytes=size,
        **facts,
    )
    lasted = {} if duration_ms is None else {"duration_ms": duration_ms}
    return RunEntry(
        kind="tool.result",
        summary=summary if duration_ms is None else f"{summary} after {duration_ms} ms",
        payload={"call_id": call_id, "name": tool, "status": status, **lasted, **told},
        refs=part.as_refs(),
        origin=TOOL_LEDGER,
        converted=(),
    )
