"""What is loaded or compiled at its first use, so that a short command starts quickly."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from threading import Event, get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any, AnyStr, Final, Generic, cast

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Collection, Mapping

LOOKS_MAX: Final = 10_000
"""How often a fork looks for the imports of other threads, and they for it: about 10 s."""


def lazy_names(
    module: str, modules: Mapping[str, str], submodules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a module.

    ``modules`` maps each name to the module that defines it; ``submodules`` are imported on access.
    """

    def find(name: str) -> Any:
        if name in modules:
            value = getattr(_import(modules[name]), name)
        elif name in submodules:
            value = _import(f"{module}.{name}")
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        here = vars(sys.modules[module])
        # Not what the module imports for its own use.
        special = {name for name in here if name.startswith("__")}
        return sorted({*here.get("__all__", ()), *special, *modules, *submodules})

    return find, names


class LazyModule(ModuleType):
    """A module that is imported when something of it is first used.

    For parts that a short command never uses. Type checkers see an ordinary import:

        if TYPE_CHECKING:
            from treering.ledger import search
        else:
            search = LazyModule("treering.ledger.search")
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._user = sys._getframe(1).f_globals  # noqa: SLF001  (the module that names it)

    def __getattr__(self, name: str) -> Any:
        module = _import(self.__name__)
        for own, value in list(self._user.items()):
            if value is self:
                self._user[own] = module  # From now on its user has the module itself.
        return getattr(module, name)


_importing: Final[set[int]] = set()
"""The threads that import a module now."""
_forking: Final[set[int]] = set()
"""The threads that fork now."""


def _import(name: str) -> ModuleType:
    """Import a module. A fork waits for it, and it waits for a fork that has begun.

    Python locks each module while it is imported. A child that is forked meanwhile inherits the
    lock without the thread that would release it, and waits forever when it needs the module.
    """
    thread = get_ident()
    if thread in _importing or thread in _forking:
        return import_module(name)
    try:
        # Sets instead of a lock: an interrupt cannot leave them locked. Both sides add themselves
        # before they look for the other.
        _importing.add(thread)
        for _ in range(LOOKS_MAX):
            if not _forking:
                break
            _importing.discard(thread)
            Event().wait(0.001)
            _importing.add(thread)
        return import_module(name)
    finally:
        _importing.discard(thread)


def _before_fork() -> None:
    """Wait for the imports of other threads, and hold back new ones."""
    thread = get_ident()
    _forking.add(thread)
    for _ in range(LOOKS_MAX):
        if not _importing - {thread}:
            break
        Event().wait(0.001)


def _after_fork_in_child() -> None:
    """Forget the threads that the child does not have."""
    _forking.clear()
    _importing.intersection_update({get_ident()})


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _forking.discard(get_ident()),
        after_in_child=_after_fork_in_child,
    )


def lazy_logger(name: str) -> logging.Logger:
    """Return a logger; logging is imported when something is logged."""
    return cast("logging.Logger", _LazyLogger(name))


class _LazyLogger:
    """A logger before its first use; it has what a logger has."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(_import("logging").getLogger(self._name), name)


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled at its first use.

    The guard alone has 130 of them: compiling all takes as long as starting Python three times,
    and a command that lists sessions uses none.
    """
    return cast("re.Pattern[AnyStr]", LazyPattern(pattern, flags))


def packaged_text(module: str, name: str) -> str:
    """Return a text file that is packaged beside a module: a table, read as the code is."""
    here: Any = sys.modules[module]
    folder = os.path.dirname(here.__file__)  # noqa: PTH120  (pathlib would take longer to load)
    content: bytes = here.__loader__.get_data(f"{folder}/{name}")
    return content.decode()


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
