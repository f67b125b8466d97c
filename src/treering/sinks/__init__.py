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
    from treering.sinks.log import LogSink, TranscriptSink
    from treering.sinks.nats import NatsSink, PrivateNatsSink
    from treering.sinks.otlp import OtlpSink, PrivateOtlpSink
    from treering.sinks.trace import PrivateTraceSink, TraceSink
    from treering.sinks.webhook import PrivateWebhookSink, WebhookSink
    from treering.spine.ports import (
        Delivery,
        Gate,
        Occasion,
        Preparation,
        PrivateSink,
        SafeSink,
        SinkStatus,
        Undeliverable,
        Verdict,
    )

__all__ = [
    "Delivery",
    "Envelope",
    "Follower",
    "Gate",
    "HookSink",
    "Hooks",
    "LogSink",
    "NatsSink",
    "Occasion",
    "OtlpSink",
    "Preparation",
    "PrivateEvent",
    "PrivateHookSink",
    "PrivateNatsSink",
    "PrivateOtlpSink",
    "PrivateSink",
    "PrivateTraceSink",
    "PrivateWebhookSink",
    "SafeEvent",
    "SafeSink",
    "SinkStatus",
    "SyntheticPolicy",
    "TraceSink",
    "TranscriptSink",
    "Undeliverable",
    "Verdict",
    "WebhookSink",
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
    "NatsSink": "treering.sinks.nats",
    "Occasion": "treering.spine.ports",
    "OtlpSink": "treering.sinks.otlp",
    "Preparation": "treering.spine.ports",
    "PrivateEvent": "treering.model.carried",
    "PrivateHookSink": "treering.sinks.hooks",
    "PrivateNatsSink": "treering.sinks.nats",
    "PrivateOtlpSink": "treering.sinks.otlp",
    "PrivateSink": "treering.spine.ports",
    "PrivateTraceSink": "treering.sinks.trace",
    "PrivateWebhookSink": "treering.sinks.webhook",
    "SafeEvent": "treering.model.carried",
    "SafeSink": "treering.spine.ports",
    "SinkStatus": "treering.spine.ports",
    "SyntheticPolicy": "treering.model.tools",
    "TraceSink": "treering.sinks.trace",
    "TranscriptSink": "treering.sinks.log",
    "Undeliverable": "treering.spine.ports",
    "Verdict": "treering.spine.ports",
    "WebhookSink": "treering.sinks.webhook",
    "hookimpl": "treering.sinks.hooks",
}

if not TYPE_CHECKING:  # A type checker would accept any name.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
