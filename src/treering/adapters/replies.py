"""What a model answered, the same whichever runtime asked it.

Every adapter turns its runtime's shapes into a Reply and records that here, so that one
conversation gives one stream of events whatever carried it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from treering.model.parts import UsageReported

if TYPE_CHECKING:
    from treering.spine.runs import Run


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a model: what it said, why it stopped, what that used."""

    text: str = ""
    """Empty if it only called tools."""
    thinking: str | None = None
    sealed: tuple[dict[str, Any], ...] = ()
    """What it thought, as its provider sealed it."""
    agent: str | None = None
    """The agent that speaks, where a run has several."""
    model: str | None = None
    provider: str | None = None
    stop_reason: str | None = None
    """stop, tool_use, length, error, aborted, or as the runtime spells it."""
    usage: UsageReported | None = None


def record_reply(run: Run, reply: Reply) -> None:
    """Record what was said, if anything was, and what the call used, if that is known."""
    maker = {"model": reply.model, "provider": reply.provider}
    for block in reply.sealed:
        told = {**block, **{name: value for name, value in maker.items() if value}}
        run.thinking(str(told.pop("thinking", "")), **told)
    if reply.text:
        beside = {
            "model": reply.model,
            "provider": reply.provider,
            "stop_reason": reply.stop_reason,
            "agent": reply.agent,
            "thinking": reply.thinking,
        }
        run.assistant(reply.text, **{name: told for name, told in beside.items() if told})
    if reply.usage is not None:
        run.emit("usage.reported", reply.usage.as_refs())
