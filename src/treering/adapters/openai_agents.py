"""Records the runs of the OpenAI Agents SDK through its run hooks, and keeps its sessions.

    async with record(spine, session) as hooks:
        result = await Runner.run(agent, "What changed since Friday?", hooks=hooks)

The block is one run. Leaving it without an answer fails or interrupts the run. A TreeringSession
is the memory of an agent: with or without a recorder.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack, cast

from treering.adapters.item_log import ItemLog, MessagePart
from treering.adapters.wire import LOCAL_CALLS, item_call, items_text, users_in
from treering.errors import TreeringError, Unsupported
from treering.spine.conversion import plain
from treering.spine.off_loop import Lanes

try:
    from agents.exceptions import (
        AgentsException,
        InputGuardrailTripwireTriggered,
        OutputGuardrailTripwireTriggered,
        ToolInputGuardrailTripwireTriggered,
        ToolOutputGuardrailTripwireTriggered,
        UserError,
    )
    from agents.memory.session_settings import SessionSettings, resolve_session_limit

    from treering.adapters.openai_hooks import TreeringHooks
except ImportError as missing:
    raise Unsupported(
        f"the OpenAI Agents SDK is not installed ({missing})",
        hint="pip install 'treering[openai-agents]'",
    ) from missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agents.items import TResponseInputItem

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.spine.dispatcher import Spine

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

    ``options`` are those of ``spine.run``. Raises RunActive if the session is busy with another
    run, RunInterrupted if this run is interrupted, and ToolDenied if the agent calls a tool that it
    may not use. If the ledger fails, the run continues unrecorded, unless ``strict``.
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


class TreeringSession:
    """The memory of an agent: pass it as ``session`` to ``Runner.run``.

    What the items say is recorded in the ledger's session of the same id: searched, shown and
    remembered like any other. If the run is recorded as well, by ``record``, nothing is recorded
    twice. Popped items are hidden; cleared ones stay in the past. A ledger that fails costs the
    record: items wait in memory, unless ``strict``.
    """

    def __init__(
        self,
        ledger: Ledger,
        session_id: str,
        *,
        scope: str,
        agent: str = "openai-agents",
        user: str | None = None,
        session_settings: SessionSettings | None = None,
        strict: bool = False,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        session = ledger.session(session_id, scope=scope, agent=agent, user=user)
        self.log = ItemLog(ledger, session, parts_of, strict=strict)
        """The items in the ledger, with what waits or was lost."""
        self._lanes = Lanes()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items in order: all, or the last ones."""
        last = resolve_session_limit(limit, self.session_settings)
        return await self._lanes.run(self, self.log.items, last)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items; completed even if the task is cancelled."""
        await self._lanes.complete(self, self.log.add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it; None if the session is empty."""
        popped = await self._lanes.complete(self, self.log.pop)
        return cast("TResponseInputItem | None", popped)

    async def clear_session(self) -> None:
        """Remove all items."""
        await self._lanes.complete(self, self.log.clear)


def parts_of(item: Any) -> list[MessagePart]:
    """Return what an item of the Responses API says to others: a message, a call or its output."""
    if not isinstance(item, dict):
        return []
    kind, role = item.get("type") or "message", item.get("role")
    if kind == "message" and role == "user":
        return [
            MessagePart(sort="user", text=text, extra={"attachments": attached} if attached else {})
            for text, attached in users_in([item])
        ]
    if kind == "message" and role == "assistant":
        content = item.get("content")
        text = plain(content) if isinstance(content, str) else items_text([{**item, "type": kind}])
        return [MessagePart(sort="assistant", text=text)] if text else []
    if kind in LOCAL_CALLS:
        call = item_call(item)
        return [MessagePart(sort="call", call_id=call.call_id, tool=call.tool, value=call.input)]
    if kind.endswith("_call_output"):
        call_id = str(item.get("call_id") or "")
        return [MessagePart(sort="output", call_id=call_id, value=item.get("output"))]
    return []
