"""Records what an agent of the OpenAI Agents SDK does, through the SDK's own run hooks.

    async with record(spine, session) as hooks:
        result = await Runner.run(agent, "What changed since Friday?", hooks=hooks)

The block is one run. What ends it without an answer fails or interrupts it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

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
except ImportError as missing:
    raise Unsupported(
        f"the OpenAI Agents SDK is not installed ({missing})",
        hint="pip install 'treering[openai-agents]'",
    ) from missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from treering.ledger.sessions import Session
    from treering.spine.spine import Spine

__all__ = ["TreeringHooks", "record"]

_RUNTIME: Final = "openai-agents"
_TRIPWIRES: Final = (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)


@contextlib.asynccontextmanager
async def record(
    spine: Spine,
    session: Session,
    *,
    agent: str | None = None,
    entry_point: str | None = None,
    model: str | None = None,
    provider: str | None = None,
    turn_id: str | None = None,
    prompt: str | None = None,
    wait_seconds: float | None = None,
) -> AsyncIterator[TreeringHooks]:
    """Record a run of the SDK's: give the hooks to ``Runner.run`` or ``Runner.run_streamed``.

    ``prompt`` is what hooks that prepare a run are shown. Raises RunActive if the session is busy
    with another run, RunInterrupted if somebody interrupts this one, and ToolDenied if the agent
    wants to use a tool that it may not.
    """
    run = spine.run(
        session,
        agent=agent,
        entry_point=entry_point,
        runtime=_RUNTIME,
        model=model,
        provider=provider,
        prompt=prompt,
        turn_id=turn_id,
        wait_seconds=wait_seconds,
    )
    hooks = TreeringHooks(run, provider=provider)
    await hooks.in_order(run.start)
    try:
        yield hooks
    except BaseException as error:
        if run.is_open and isinstance(error, AgentsException):
            await _explain(hooks, error)
        told = _unwrapped(error)
        await hooks.in_order(run.__exit__, type(told), told, told.__traceback__)
        if told is error:
            raise
        raise told from error
    if hooks.is_unfinished:
        await hooks.in_order(run.interrupt, "the stream was left unfinished")
    else:
        await hooks.in_order(run.__exit__, None, None, None)


async def _explain(hooks: TreeringHooks, error: AgentsException) -> None:
    """Record what the hooks were not told of before the SDK gave up."""
    if error.run_data is not None:
        await hooks.hear(error.run_data.input)
    if isinstance(error, _TRIPWIRES):
        told = {"code": "guardrail", "guardrail": type(error).__name__}
        await hooks.in_order(hooks.run.emit, "ops.blocked", told)


def _unwrapped(error: BaseException) -> BaseException:
    """Return our own error where the SDK has wrapped it: what stops a tool is a UserError to it."""
    cause = error.__cause__
    return cause if isinstance(error, UserError) and isinstance(cause, TreeringError) else error
