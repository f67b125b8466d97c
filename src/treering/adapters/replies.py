"""A model's answer, in the same form for every runtime.

Every adapter converts its runtime's messages to a Reply and records it here, so that the same
conversation produces the same events in any runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from treering.model.parts import UsageReported

if TYPE_CHECKING:
    from treering.spine.runs import Run


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a model: its text, why it stopped, and its usage."""

    text: str = ""
    """Empty if the model only called tools."""
    thinking: str | None = None
    sealed: tuple[dict[str, Any], ...] = ()
    """Its reasoning, as encrypted or signed by the provider."""
    agent: str | None = None
    """The answering agent, if a run has several."""
    model: str | None = None
    provider: str | None = None
    stop_reason: str | None = None
    """stop, tool_use, length, error, aborted, or the runtime's own word."""
    usage: UsageReported | None = None

    def without_text(self) -> Reply:
        """Return the reply of an agent that serves as a tool: its words are the tool's output."""
        return msgspec.structs.replace(self, text="")


def record_reply(run: Run, reply: Reply, *, usage_extra: dict[str, Any] | None = None) -> None:
    """Record the reply's text and reasoning, if any, and its usage, if known.

    ``usage_extra`` are counts that only some providers report.
    """
    maker = {"model": reply.model, "provider": reply.provider}
    for block in reply.sealed:
        fields = {**block, **{name: value for name, value in maker.items() if value}}
        run.thinking(str(fields.pop("thinking", "")), **fields)
    if reply.text:
        extra = {
            "model": reply.model,
            "provider": reply.provider,
            "stop_reason": reply.stop_reason,
            "agent": reply.agent,
            "thinking": reply.thinking,
        }
        run.assistant(reply.text, **{name: value for name, value in extra.items() if value})
    if reply.usage is not None:
        run.emit("usage.reported", {**reply.usage.as_refs(), **(usage_extra or {})})
