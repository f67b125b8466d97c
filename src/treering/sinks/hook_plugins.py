"""Plugins that register hooks: packages installed beside Treering.

A package declares ``my-hooks = "my_package.hooks"`` in its entry points of the group ``treering``;
that object has a ``treering_register_hooks(hooks)``, marked with ``hookimpl``.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

import pluggy

from treering.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import EntryPoint

    from treering.sinks.hooks import Hooks

GROUP: Final = "treering"
SPECIFICATION: Final = "treering_register_hooks"

hookspec: Final = pluggy.HookspecMarker(GROUP)
hookimpl: Final = pluggy.HookimplMarker(GROUP)
"""Marks a plugin's implementation."""


@hookspec
def treering_register_hooks(hooks: Hooks) -> None:
    """Register the plugin's functions with ``hooks``. Called once for each plugin."""


class Plugins:
    """The plugins of a registry; each registers once."""

    def __init__(self) -> None:
        self._known = pluggy.PluginManager(GROUP)
        self._known.add_hookspecs(_Specifications)

    def knows(self, name: str) -> bool:
        """Return whether a plugin of this name has registered."""
        return self._known.has_plugin(name)

    def register(self, plugin: Any, name: str, hooks: Hooks) -> None:
        """Let ``plugin`` register with ``hooks``. Raises whatever it raises, and then drops it."""
        self._known.register(plugin, name)
        try:
            self._ask(plugin, name, hooks)
        except BaseException:
            self._known.unregister(plugin)
            raise

    def _ask(self, plugin: Any, name: str, hooks: Hooks) -> None:
        callers = self._known.get_hookcallers(plugin) or []
        if not any(caller.name == SPECIFICATION for caller in callers):
            raise InvalidInput(
                f"the plugin {name} registers nothing",
                hint=f"add a function {SPECIFICATION}(hooks), marked with hookimpl",
            )
        others = [other for other in self._known.get_plugins() if other is not plugin]
        self._known.subset_hook_caller(SPECIFICATION, others)(hooks=hooks)


def installed(group: str = GROUP) -> Iterator[tuple[str, EntryPoint]]:
    """Yield the entry points of ``group``, each with a name that includes its package."""
    entries = sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value))
    for entry in entries:
        package = f"{entry.dist.name}:" if entry.dist else ""
        yield f"{package}{entry.name}", entry


class _Specifications:
    treering_register_hooks = staticmethod(treering_register_hooks)
