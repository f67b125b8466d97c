"""A session of the OpenAI Agents SDK whose items are in a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agents.memory.session_settings import SessionSettings, resolve_session_limit

from treering.adapters.item_log import ItemLog
from treering.adapters.message_recorder import MessagePart
from treering.adapters.wire import LOCAL_CALLS, item_call, items_text, users_in
from treering.spine.conversion import plain
from treering.spine.off_loop import Lanes

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

    from treering.ledger.ledger import Ledger


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
