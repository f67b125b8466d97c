"""A chat history of LangChain in a ledger.

history = TreeringChatMessageHistory(ledger, "monday", scope="acme/app")
RunnableWithMessageHistory(chain, lambda _: history)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.adapters.item_log import ItemLog, MessagePart
from treering.errors import Unsupported
from treering.spine.conversion import plain

try:
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        ToolMessage,
        message_to_dict,
        messages_from_dict,
    )
except ImportError as missing:
    raise Unsupported(
        f"LangChain is not installed ({missing})", hint="pip install 'treering[langchain]'"
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.ledger import Ledger

__all__ = ["TreeringChatMessageHistory"]


class TreeringChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session; what they say is recorded in the ledger's session.

    Clearing removes the messages from the history, not from the session's past. If the ledger
    fails, messages wait in memory, unless ``strict``.
    """

    def __init__(
        self,
        ledger: Ledger,
        session_id: str,
        *,
        scope: str,
        agent: str = "langchain",
        user: str | None = None,
        strict: bool = False,
    ) -> None:
        self.session_id = session_id
        session = ledger.session(session_id, scope=scope, agent=agent, user=user)
        self.log = ItemLog(ledger, session, parts_of, name="messages", strict=strict)
        """The messages in the ledger, with what waits or was lost."""

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # There a mere attribute.
        """Return the messages in order."""
        return messages_from_dict(self.log.items())

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end."""
        self.log.add([message_to_dict(message) for message in messages])

    def clear(self) -> None:
        """Remove all messages."""
        self.log.clear()


def parts_of(item: dict[str, Any]) -> list[MessagePart]:
    """Return what a message says to others."""
    (message,) = messages_from_dict([item])
    text = plain(message.text)
    if isinstance(message, ToolMessage):
        failed = message.status == "error"
        output = message.content if message.artifact is None else message.artifact
        return [
            MessagePart(
                sort="output",
                call_id=message.tool_call_id,
                tool=message.name,
                value=output,
                is_error=failed,
            )
        ]
    if isinstance(message, HumanMessage):
        parts = [] if isinstance(message.content, str) else message.content
        rest = [part for part in parts if isinstance(part, dict) and part.get("type") != "text"]
        extra = {"attachments": rest} if rest else {}
        return [MessagePart(sort="user", text=text, extra=extra)] if text or rest else []
    if isinstance(message, AIMessage):
        answer = [MessagePart(sort="assistant", text=text)] if text else []
        return answer + [
            MessagePart(sort="call", call_id=call["id"], tool=call["name"], value=call["args"])
            for call in message.tool_calls
        ]
    return []
