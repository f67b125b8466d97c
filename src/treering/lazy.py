"""What is loaded or compiled at its first use, so that a short command starts quickly."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, AnyStr, Generic, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


def lazy_names(
    module: str, modules: Mapping[str, str], submodules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a module.

    ``homes`` maps each name to the module that defines it; ``rooms`` are submodules that are
    imported on access.
    """

    def find(name: str) -> Any:
        if name in modules:
            value = getattr(import_module(modules[name]), name)
        elif name in submodules:
            value = import_module(f"{module}.{name}")
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *modules, *submodules})

    return find, names


class LazyModule(ModuleType):
    """A module that is imported when something of it is first used.

    For parts that a short command never uses. Type checkers see an ordinary import:

        if TYPE_CHECKING:
            from treering.ledger import search
        else:
            search = LazyModule("treering.ledger.search")
    """

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        # An attribute of its own: the next use costs nothing more.
        setattr(self, name, value)
        return value


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled at its first use.

    The guard alone has 130 of them: compiling all takes as long as starting Python three times,
    and a command that lists sessions uses none.
    """
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, flags))


class LazyPattern(Generic[AnyStr]):
    """A regular expression before its first use; it has what a compiled one has."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self.pattern: AnyStr = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.pattern, self._flags), name)
        # An attribute of its own: the next use is as quick as that of a compiled pattern.
        setattr(self, name, value)
        return value
