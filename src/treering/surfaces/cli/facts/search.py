"""One fact, found by its id or a short id."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from treering.errors import NotFound
from treering.model.fields import COUNT_MAX
from treering.model.memories import FACT_STATES
from treering.model.queries import PAGE_ITEMS_MAX
from treering.surfaces.cli.options import require
from treering.surfaces.cli.search_commands import scope_flag
from treering.surfaces.cli.short_ids import TYPED_CHARACTERS_MIN, ShortIds, for_people

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from treering.memory.memory import Memory
    from treering.model.memories import Fact

PAGES_MAX: Final = 20
"""Pages of facts that are read: the newest 20,000 facts."""

_ALL: Final[Any] = FACT_STATES


def find_fact(memory: Memory, text: str) -> Fact:
    """Return the fact with this id or short id. Raise NotFound if none, or several, match."""
    name = require(text, "fact", hint="name the fact before the options")
    with contextlib.suppress(NotFound):
        return memory.fact(name)
    whole = ShortIds(_every_id(memory)).find(name, "fact")
    if whole is None:
        raise NotFound(
            f"no fact {name} in scope {memory.scope}",
            hint=f"treering facts list {scope_flag(memory.scope)} --state all shows them;"
            f" {TYPED_CHARACTERS_MIN} characters of an id are enough if no other fact matches",
        )
    return memory.fact(whole)


def short_facts(memory: Memory) -> ShortIds:
    """Return the ids of all facts of a scope, to show them to people."""
    return for_people(lambda: _every_id(memory))


def every_fact(memory: Memory, *, pages_max: int = PAGES_MAX) -> Iterator[Fact]:
    """Return all facts of a scope, whatever became of them, the newest first."""
    cursor = None
    for _ in range(pages_max):
        page = memory.facts(state=_ALL, limit=PAGE_ITEMS_MAX, after=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            break


def _every_id(memory: Memory) -> list[str]:
    return memory.fact_ids("", limit=COUNT_MAX)
