"""LangGraph's checkpoints and store in a ledger (``pip install 'treering[langgraph]'``)."""

from __future__ import annotations

from treering.adapters.langgraph.saver import TreeringSaver
from treering.adapters.langgraph.store import TreeringStore

__all__ = ["TreeringSaver", "TreeringStore"]
