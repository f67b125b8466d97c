"""Google ADK's sessions and memory in a ledger (``pip install 'treering[adk]'``)."""

from __future__ import annotations

from treering.adapters.adk.memory import TreeringMemoryService
from treering.adapters.adk.sessions import TreeringSessionService

__all__ = ["TreeringMemoryService", "TreeringSessionService"]
