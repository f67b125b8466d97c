"""Whether an event matches the operators of a search query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.derive.search_texts import files_in, tool_of

if TYPE_CHECKING:
    from treering.model.events import Event
    from treering.model.search_queries import Narrowing, SearchQuery


def matches_operators(query: SearchQuery, event: Event) -> bool:
    """Return whether an event matches all operators of a query."""
    if query.since_ms is not None and event.ts_ms < query.since_ms:
        return False
    if query.before_ms is not None and event.ts_ms >= query.before_ms:
        return False
    return all(_holds(one, event) != one.is_negative for one in query.narrowings)


def _holds(narrowing: Narrowing, event: Event) -> bool:
    values = [value.casefold() for value in narrowing.values]
    match narrowing.operator:
        case "kind":
            return event.kind in narrowing.values
        case "agent":
            return event.agent_id.casefold() in values
        case "session":
            return event.session_id.startswith(narrowing.values)
        case "tool":
            return (tool_of(event) or "").casefold() in values
        case "file":
            paths = [path.casefold() for path in files_in(event)]
            return any(value in path for value in values for path in paths)
