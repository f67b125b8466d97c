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
    name: f"treering.{home}"
    for home, names in (
        ("ledger.following", "Follower"),
        ("model.carried", "PrivateEvent SafeEvent"),
        ("model.envelopes", "Envelope"),
        ("model.tools", "SyntheticPolicy"),
        ("sinks.hooks", "HookSink Hooks PrivateHookSink hookimpl"),
        ("sinks.log", "LogSink TranscriptSink"),
        ("sinks.nats", "NatsSink PrivateNatsSink"),
        ("sinks.otlp", "OtlpSink PrivateOtlpSink"),
        ("sinks.trace", "PrivateTraceSink TraceSink"),
        ("sinks.webhook", "PrivateWebhookSink WebhookSink"),
        ("spine.ports", "Delivery Gate Occasion Preparation PrivateSink SafeSink SinkStatus"),
        ("spine.ports", "Undeliverable Verdict"),
    )
    for name in names.split()
}

if not TYPE_CHECKING:  # A type checker would accept any name.
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
