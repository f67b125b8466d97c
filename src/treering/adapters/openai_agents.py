"""Records the runs of the OpenAI Agents SDK through its run hooks, and keeps its sessions.

    async with record(spine, session) as hooks:
        result = await Runner.run(agent, "What changed since Friday?", hooks=hooks)

The block is one run. Leaving it without an answer fails or interrupts the run. A TreeringSession
is the memory of an agent: with or without a recorder.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from treering.errors import TreeringError, Unsupported

try:
    from agents.exceptions import (
        AgentsException,
        InputGuardrailTripwireTriggered,
        OutputGuardrailTripwireTriggered,
        ToolInputGuardrailTripwireTriggered,
        ToolOutputGuardrailTripwireTriggered,
        UserError,
    )

    from treering.adapters.openai_hooks import TreeringHooks
    from treering.adapters.openai_session import TreeringSession
except ImportError as missing:
    raise Unsupported(
        f"the OpenAI Agents SDK is not installed ({missing})",
        hint="pip install 'treering[openai-agents]'",
    ) from missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from treering.ledger.sessions import Session
    from treering.spine.spine import Spine

__all__ = ["TreeringHooks", "TreeringSession", "record"]

_RUNTIME: Final = "openai-agents"
_TRIPWIRES: Final = (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)


class RunOptions(TypedDict, total=False):
    """What may be said of a run before it begins."""

    agent: str | None
    entry_point: str | None
    model: str | None
    turn_id: str | None
    prompt: str | None
    """Shown to hooks that prepare a run."""
    wait_s: float | None


@contextlib.asynccontextmanager
async def record(
    spine: Spine,
    session: Session,
    *,
    provider: str | None = None,
    strict: bool = False,
    **options: Unpack[RunOptions],
) -> AsyncIterator[TreeringHooks]:
    """Record a run of the SDK: pass the hooks to ``Runner.run`` or ``Runner.run_streamed``.

    ``options`` are those of ``spine.run``. Raises RunActive if the session is busy with
    another run, RunInterrupted if this run is interrupted, and ToolDenied if the agent calls a tool
    that it may not use. A ledger that fails costs the record, not the run, unless ``strict``.
    """
    run = spine.run(session, runtime=_RUNTIME, provider=provider, **options)
    hooks = TreeringHooks(run, provider=provider, strict=strict)
    hooks.is_off = await hooks.in_order(run.start) is None
    try:
        yield hooks
    except BaseException as error:
        if run.is_open and isinstance(error, AgentsException):
            await _explain(hooks, error)
        cause = _unwrapped(error)
        await hooks.in_order(run.__exit__, type(cause), cause, cause.__traceback__)
        await hooks.report()
        if cause is error:
            raise
        raise cause from error
    if hooks.is_unfinished:
        await hooks.in_order(run.interrupt, "the stream was left unfinished")
    else:
        await hooks.in_order(run.__exit__, None, None, None)
    await hooks.report()


async def _explain(hooks: TreeringHooks, error: AgentsException) -> None:
    """Record what the hooks did not receive before the SDK gave up."""
    if error.run_data is not None:
        await hooks.record_input(error.run_data.input)
    if isinstance(error, _TRIPWIRES):
        payload = {"code": "guardrail", "guardrail": type(error).__name__}
        await hooks.in_order(hooks.run.emit, "ops.blocked", payload)


def _unwrapped(error: BaseException) -> BaseException:
    """Return our own error if the SDK wrapped it: an error in a tool becomes a UserError."""
    cause = error.__cause__
    return cause if isinstance(error, UserError) and isinstance(cause, TreeringError) else error
