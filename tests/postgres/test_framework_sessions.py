"""Sessions of frameworks on PostgreSQL: the same as on a file."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from claude_agent_sdk.testing import run_session_store_conformance
from pydantic_ai.conversation_store import InMemoryConversationStore

import treering
from adapters.test_pydantic_ai import scenario
from treering.adapters.claude_agent_sdk import TreeringSessionStore
from treering.adapters.openai_agents import TreeringSession
from treering.adapters.pydantic_ai import TreeringConversationStore

if TYPE_CHECKING:
    from postgres_places import Place


def test_stores_of_frameworks_keep_their_promises(place: Place) -> None:
    with treering.open(place.url) as ledger:
        made: list[str] = []

        def make() -> Any:
            made.append(f"acme/{len(made)}")
            return TreeringSessionStore(ledger, scope=made[-1], strict=True)

        asyncio.run(run_session_store_conformance(make))
        ours = asyncio.run(scenario(TreeringConversationStore(ledger, scope="acme/app")))
        assert ours == asyncio.run(scenario(InMemoryConversationStore()))

        session = TreeringSession(ledger, "s1", scope="acme/app", strict=True)

        async def talk() -> list[Any]:
            await session.add_items([{"role": "user", "content": "one"}])
            await session.add_items([{"role": "assistant", "content": "two"}])
            popped: Any = await session.pop_item()
            assert popped["content"] == "two"
            return list(await session.get_items())

        assert asyncio.run(talk()) == [{"role": "user", "content": "one"}]
        assert ledger.admin.verify().intact
