"""Sinks, which receive the events of runs.

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.lazy import lazy_names

if TYPE_CHECKING:
    from treering.ledger.following import Follower
    from treering.model.carried import PrivateEvent, SafeEvent
    from treering.model.envelopes import Envelope
    from treering.model.tools import SyntheticPolicy
    from treering.sinks.hooks import Hooks, HookSink, PrivateHookSink, hookimpl
    from treering.sinks.log import LogSink
    from treering.sinks.trace import PrivateTraceSink, TraceSink
    from treering.sinks.transcript import TranscriptSink
    from treering.spine.ports import Delivery, Gate, Occasion, Preparation, SinkStatus, Verdict

__all__ = [
    "Delivery",
    "Envelope",
    "Follower",
    "Gate",
    "HookSink",
    "Hooks",
    "LogSink",
    "Occasion",
    "Preparation",
    "PrivateEvent",
    "PrivateHookSink",
    "PrivateTraceSink",
    "SafeEvent",
    "SinkStatus",
    "SyntheticPolicy",
    "TraceSink",
    "TranscriptSink",
    "Verdict",
    "hookimpl",
]

_HOMES: Final = {
    "Delivery": "treering.spine.ports",
    "Envelope": "treering.model.envelopes",
    "Follower": "treering.ledger.following",
    "Gate": "treering.spine.ports",
    "HookSink": "treering.sinks.hooks",
    "Hooks": "treering.sinks.hooks",
    "LogSink": "treering.sinks.log",
    "Occasion": "treering.spine.ports",
    "Preparation": "treering.spine.ports",
    "PrivateEvent": "treering.model.carried",
    "PrivateHookSink": "treering.sinks.hooks",
    "PrivateTraceSink": "treering.sinks.trace",
    "SafeEvent": "treering.model.carried",
    "SinkStatus": "treering.spine.ports",
    "SyntheticPolicy": "treering.model.tools",
    "TraceSink": "treering.sinks.trace",
    "TranscriptSink": "treering.sinks.transcript",
    "Verdict": "treering.spine.ports",
    "hookimpl": "treering.sinks.hooks",
}

if not TYPE_CHECKING:  # A type checker would accept any name.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
