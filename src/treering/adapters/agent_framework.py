"""A history provider of Microsoft's Agent Framework in a ledger.

    Agent(client=…, context_providers=[TreeringHistoryProvider(ledger, scope="acme/app")])

With ``load_messages=False`` it only records, beside whatever else loads the history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from treering.adapters.item_log import ItemLog, MessagePart
from treering.adapters.wire import arguments_of
from treering.errors import Unsupported
from treering.model.fields import fit_name
from treering.spine.conversion import plain
from treering.spine.off_loop import Lanes
from treering.spine.words import new_id

try:
    from agent_framework import HistoryProvider, Message
except ImportError as missing:
    raise Unsupported(
        f"the Agent Framework is not installed ({missing})",
        hint="pip install 'treering[agent-framework]'",
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.ledger import Ledger

__all__ = ["TreeringHistoryProvider"]

_ID = "treering_session_id"


class StoredMessages(TypedDict, total=False):
    """What a provider loads and stores, in the framework's words."""

    load_messages: bool
    store_inputs: bool
    store_context_messages: bool
    store_context_from: set[str] | None
    store_outputs: bool


class TreeringHistoryProvider(HistoryProvider):
    """Keeps the messages of an agent's sessions; what they say is in the ledger's sessions.

    If the ledger fails, messages wait in memory, unless ``strict``.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        scope: str,
        source_id: str = "treering",
        agent: str = "agent-framework",
        strict: bool = False,
        **stored: Unpack[StoredMessages],
    ) -> None:
        super().__init__(source_id, **stored)
        self._ledger = ledger
        self._scope = scope
        self._agent = agent
        self._strict = strict
        self._logs: dict[str, ItemLog] = {}
        self._lanes = Lanes()

    def log(self, session_id: str) -> ItemLog:
        """Return the messages of a session in the ledger, with what waits or was lost."""
        name, _ = fit_name(session_id, "session_id")
        if name not in self._logs:
            session = self._ledger.session(name, scope=self._scope, agent=self._agent)
            self._logs[name] = ItemLog(
                self._ledger, session, parts_of, name=self.source_id, strict=self._strict
            )
        return self._logs[name]

    async def get_messages(
        self,
        session_id: str | None,
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002  (the framework's)
    ) -> list[Message]:
        """Return the messages of a session in order."""
        name = _name(session_id, state)
        items = await self._lanes.run(name, self.log(name).items)
        return [Message.from_dict(item) for item in items]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002  (the framework's)
    ) -> None:
        """Add messages to a session; completed even if the task is cancelled."""
        name = _name(session_id, state)
        items = [message.to_dict() for message in messages]
        await self._lanes.complete(name, self.log(name).add, items)


def _name(session_id: str | None, state: dict[str, Any] | None) -> str:
    """Return the session's id; a session without one gets an id in its state."""
    if session_id:
        return session_id
    return "agent-framework" if state is None else str(state.setdefault(_ID, new_id()))


def parts_of(item: dict[str, Any]) -> list[MessagePart]:
    """Return what a message says to others."""
    message = Message.from_dict(item)
    text = plain(message.text or "")
    sort = {"user": "user", "assistant": "assistant"}.get(str(message.role))
    rest = [content.to_dict() for content in message.contents if content.type in {"data", "uri"}]
    parts: list[MessagePart] = []
    if sort == "user" and (text or rest):
        parts.append(
            MessagePart(sort="user", text=text, extra={"attachments": rest} if rest else {})
        )
    elif sort == "assistant" and text:
        parts.append(MessagePart(sort="assistant", text=text))
    for content in message.contents:
        if content.type == "function_call":
            given = arguments_of(content.arguments)
            parts.append(
                MessagePart(sort="call", call_id=content.call_id, tool=content.name, value=given)
            )
        elif content.type == "function_result":
            error = content.exception
            value = content.result if error is None else error
            parts.append(
                MessagePart(
                    sort="output", call_id=content.call_id, value=value, is_error=error is not None
                )
            )
    return parts
