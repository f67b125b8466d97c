"""LangGraph's checkpoints and store in a ledger (``pip install 'treering[langgraph]'``)."""

from __future__ import annotations

from treering.errors import Unsupported

try:
    from treering.adapters.langgraph.saver import TreeringSaver
    from treering.adapters.langgraph.store import TreeringStore
except ImportError as missing:
    raise Unsupported(
        f"LangGraph is not installed ({missing})", hint="pip install 'treering[langgraph]'"
    ) from missing

__all__ = ["TreeringSaver", "TreeringStore"]
