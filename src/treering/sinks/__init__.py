"""Sinks: places that hear of what a run does. Names are imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from treering.sinks.hooks import Hooks, HookSink, PrivateHookSink, hookimpl
    from treering.sinks.log import LogSink
    from treering.sinks.trace import PrivateTraceSink, TraceSink
    from treering.sinks.transcript import TranscriptSink

__all__ = [
    "HookSink",
    "Hooks",
    "LogSink",
    "PrivateHookSink",
    "PrivateTraceSink",
    "TraceSink",
    "TranscriptSink",
    "hookimpl",
]

_HOMES: Final = {
    "LogSink": "treering.sinks.log",
    "PrivateTraceSink": "treering.sinks.trace",
    "TraceSink": "treering.sinks.trace",
    "TranscriptSink": "treering.sinks.transcript",
}


if not TYPE_CHECKING:  # A type checker would take any name for one that is here.

    def __getattr__(name: str) -> Any:
        """Import a sink when it is first used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES.get(name, "treering.sinks.hooks")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Return the sinks, also those that are not imported yet."""
    return sorted({*globals(), *__all__})
