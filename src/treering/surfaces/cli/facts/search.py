"""One fact, found by its id or by how its id begins."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from treering.errors import InvalidInput, NotFound
from treering.model.memories import FACT_STATES
from treering.model.queries import PAGE_ITEMS_MAX
from treering.surfaces.cli.options import require
from treering.surfaces.cli.run_search import PREFIX_CHARACTERS_MIN, some_of
from treering.surfaces.cli.search_commands import scope_flag

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from treering.memory.memory import Memory
    from treering.model.memories import Fact

PAGES_MAX: Final = 20
"""Pages of facts that are looked through for one whose id begins so: the newest 20,000."""

_ALL: Final[Any] = FACT_STATES


def find_fact(memory: Memory, text: str) -> Fact:
    """Return the fact with this id, or the only one whose id begins like this.

    Raises NotFound if there is none, and InvalidInput if there are several.
    """
    name = require(text, "fact", hint="name the fact before the options")
    with contextlib.suppress(NotFound):
        return memory.fact(name)
    begun = memory.fact_ids(name) if len(name) >= PREFIX_CHARACTERS_MIN else []
    if len(begun) > 1:
        raise InvalidInput(
            f"{len(begun)} facts begin with {name}",
            hint=f"write more of the id: {some_of(begun)}",
        )
    if not begun:
        raise NotFound(
            f"no fact {name} in scope {memory.scope}",
            hint=f"treering facts list {scope_flag(memory.scope)} --state all shows them;"
            f" an id may be cut to {PREFIX_CHARACTERS_MIN} characters or more",
        )
    return memory.fact(begun[0])


def every_fact(memory: Memory, *, pages_max: int = PAGES_MAX) -> Iterator[Fact]:
    """Return all facts of a scope, whatever became of them, the newest first."""
    cursor = None
    for _ in range(pages_max):
        page = memory.facts(state=_ALL, first=PAGE_ITEMS_MAX, after=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            break
