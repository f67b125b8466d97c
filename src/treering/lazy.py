"""Public names that are imported when first used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


def lazy_names(
    module: str, homes: Mapping[str, str], rooms: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a module.

    ``homes`` says which module defines each name, ``rooms`` which submodules need no import.
    """

    def find(name: str) -> Any:
        if name in homes:
            value = getattr(import_module(homes[name]), name)
        elif name in rooms:
            value = import_module(f"{module}.{name}")
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes, *rooms})

    return find, names
