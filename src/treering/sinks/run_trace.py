"""The trace of one run, written from the events that the ledger holds."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import KeyMissing
from treering.ledger.runs import safe_events
from treering.model.sessions import settings_of
from treering.sinks.bundle import About, Bundle, PrivateBundle, SafeBundle
from treering.sinks.capped import TraceLimits
from treering.spine.sink_events import private_event

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.ledger.ports import ContentGuard
    from treering.model.events import Header
    from treering.model.scopes import Scope
    from treering.sinks.bundle import Erasure
    from treering.sinks.bundle_files import BundleFiles

_CAPS: Final = TraceLimits()
_ABOUT: Final = About()


class RunTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The trace of a run."""

    bundle: Bundle
    kept: int
    """The number of the run's events in the ledger, including those that a trace leaves out."""


def write_safe_trace(
    ledger: Ledger, scope: Scope, session_id: str, run_id: str, files: BundleFiles
) -> RunTrace:
    """Write the trace of a run, without private content."""
    bundle = SafeBundle(files, caps=_CAPS, about=_ABOUT)
    count = 0
    headers = ledger.run_headers(scope, session_id, run_id)
    for event, header in safe_events(headers, _session_key(ledger, scope, session_id)):
        bundle.take(event, _erasure(header))
        count += 1
    bundle.finish()
    return RunTrace(bundle=bundle, kept=count)


def write_private_trace(
    ledger: Ledger,
    scope: Scope,
    session_id: str,
    run_id: str,
    files: BundleFiles,
    guard: ContentGuard,
) -> RunTrace:
    """Write the trace of a run with private content, its secrets masked."""
    bundle = PrivateBundle(files, caps=_CAPS, about=_ABOUT, guard=guard)
    key = _session_key(ledger, scope, session_id)
    count = number = 0
    for event in ledger.run_events(scope, session_id, run_id):
        number = event.run_seq or number + 1
        numbered = msgspec.structs.replace(private_event(event, key), run_seq=number)
        bundle.take(numbered, _erasure(event))
        count += 1
    bundle.finish()
    return RunTrace(bundle=bundle, kept=count)


def _session_key(ledger: Ledger, scope: Scope, session_id: str) -> str | None:
    """Return the session's name in another system, if it can be read."""
    with contextlib.suppress(KeyMissing):
        opened = ledger.events(scope, session_id=session_id, kinds=["session.opened"], first=1)
        return settings_of(opened.items[0].payload).key if opened.items else None
    return None


def _erasure(header: Header) -> Erasure | None:
    if header.expired:
        return "expired"
    return "redacted" if header.redacted else None
