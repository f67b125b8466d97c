"""Conversations of Pydantic AI in a ledger, and a capability that records its runs.

store = TreeringConversationStore(ledger, scope="acme/app")
agent = Agent(…, capabilities=[TreeringRecorder(session)])
"""

from __future__ import annotations

from treering.errors import Unsupported

try:
    from treering.adapters.pydantic_store import TreeringConversationStore, TreeringRecorder
except ImportError as missing:
    raise Unsupported(
        f"Pydantic AI is not installed ({missing})", hint="pip install 'treering[pydantic-ai]'"
    ) from missing

__all__ = ["TreeringConversationStore", "TreeringRecorder"]
