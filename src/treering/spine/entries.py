"""Entries: what a run is about to record, before the spine gives it order and place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from treering.model.codec import canonical
from treering.model.events import NewEvent
from treering.model.parts import RunEnded, ToolReturned, part_of, safe_part
from treering.model.runs import INTERRUPT_CONTENT, INTERRUPT_TITLE
from treering.model.scopes import Scope
from treering.spine.words import plain, shorten

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


class Entry(msgspec.Struct, frozen=True, kw_only=True):
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


class Author(msgspec.Struct, frozen=True, kw_only=True):
    """Whose events these are: a run, and its place."""

    scope: Scope
    session_id: str
    agent_id: str
    user_id: str | None
    run_id: str
    turn_id: str | None

    def event(self, entry: Entry, run_seq: int | None) -> NewEvent:
        """Return ``entry`` as an event of the run; without a number, as one apart from it."""
        return NewEvent(
            scope=self.scope,
            session_id=self.session_id,
            kind=entry.kind,
            agent_id=self.agent_id,
            summary=entry.summary,
            payload=entry.payload,
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
) -> Entry:
    """Return how a run ended; ``told`` is what only those may know who ask for it."""
    why = part.error_class or part.reason
    return Entry(
        kind=f"run.{state}",
        summary=f"run {state}" if why is None or why == state else f"run {state}: {why}",
        payload=told,
        refs=part.as_refs(),
        origin=KERNEL,
    )


def without_words(entry: Entry) -> Entry:
    """Return ``entry`` with facts alone, for when its words cannot be recorded."""
    part = safe_part(entry.kind, entry.refs)
    facts = part.as_refs()
    facts.pop("error_class", None)
    payload: dict[str, Any] = {"withheld": True}
    payload |= {name: facts[name] for name in ("call_id", "status") if name in facts}
    summary = entry.kind.replace(".", " ")
    return msgspec.structs.replace(entry, summary=summary, refs=facts or None, payload=payload)


def said(kind: str, text: str, content: dict[str, Any], **refs: Any) -> Entry:
    """Return what somebody said; ``content`` is kept beside the text."""
    payload = {"text": text, **content}
    return Entry(
        kind=kind,
        summary=shorten(text),
        payload=payload,
        refs={**part_of(kind, payload).as_refs(), **refs},
    )


def interrupt_mark(why: str, run_id: str) -> Entry:
    """Return the boundary that an interrupt leaves for the next turn; it stands apart from runs."""
    return Entry(
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
    ) -> Entry:
        """Return the outcome of a tool that gave ``output``."""
        canonical(output, "output")
        kept = self._persist(occasion, tool, call_id, output, is_error=False, is_synthetic=False)
        return _result(tool, call_id, "ok", f"{tool} returned", duration_ms, {"output": kept})

    def failed(
        self, occasion: Occasion, tool: str, call_id: str, duration_ms: int, error: dict[str, str]
    ) -> Entry:
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
    ) -> Entry:
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
) -> Entry:
    size = len(canonical(told["output"], "output")) if "output" in told else 0
    part = ToolReturned(
        call_id=call_id,
        tool=tool,
        status=status,
        duration_ms=duration_ms,
        output_bytes=size,
        **facts,
    )
    lasted = {} if duration_ms is None else {"duration_ms": duration_ms}
    return Entry(
        kind="tool.result",
        summary=summary if duration_ms is None else f"{summary} after {duration_ms} ms",
        payload={"call_id": call_id, "name": tool, "status": status, **lasted, **told},
        refs=part.as_refs(),
        origin=TOOL_LEDGER,
    )
