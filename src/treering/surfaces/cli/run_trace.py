"""The events of one run, read from the ledger, and the trace that they make."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import KeyMissing
from treering.model.sessions import settings_of
from treering.sinks.bundle import About, Bundle, PrivateBundle, SafeBundle
from treering.sinks.capped import TraceLimits
from treering.spine.sink_events import private_event, safe_event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.ledger import Ledger
    from treering.ledger.ports import ContentGuard
    from treering.model.carried import SafeEvent
    from treering.model.events import Header
    from treering.sinks.bundle import Erasure
    from treering.sinks.bundle_files import BundleFiles

_CAPS: Final = TraceLimits()
_ABOUT: Final = About()


class RunTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The trace of a run, made."""

    bundle: Bundle
    kept: int
    """How many events of the run the ledger has; those without a place in a trace counted."""


def safe_events_of(ledger: Ledger, started: Header) -> Iterator[tuple[SafeEvent, Header]]:
    """Give the events of a run as anybody may see them, numbered if they are not."""
    key = _session_key(ledger, started)
    last = 0
    for header in ledger.run_headers(*_place(started)):
        last = header.run_seq or last + 1
        yield msgspec.structs.replace(safe_event(header, key), run_seq=last), header


def write_safe_trace(ledger: Ledger, started: Header, files: BundleFiles) -> RunTrace:
    """Make the trace of a run, without private content."""
    bundle = SafeBundle(files, caps=_CAPS, about=_ABOUT)
    kept = 0
    for event, header in safe_events_of(ledger, started):
        bundle.take(event, _erasure(header))
        kept += 1
    bundle.finish()
    return RunTrace(bundle=bundle, kept=kept)


def write_private_trace(
    ledger: Ledger, started: Header, files: BundleFiles, guard: ContentGuard
) -> RunTrace:
    """Make the trace of a run with private content, its secrets masked."""
    bundle = PrivateBundle(files, caps=_CAPS, about=_ABOUT, guard=guard)
    key = _session_key(ledger, started)
    kept = last = 0
    for event in ledger.run_events(*_place(started)):
        last = event.run_seq or last + 1
        numbered = msgspec.structs.replace(private_event(event, key), run_seq=last)
        bundle.take(numbered, _erasure(event))
        kept += 1
    bundle.finish()
    return RunTrace(bundle=bundle, kept=kept)


def _session_key(ledger: Ledger, started: Header) -> str | None:
    """Return the name that another system knows the session by, if it can be read."""
    scope, session_id, _ = _place(started)
    with contextlib.suppress(KeyMissing):
        opened = ledger.events(scope, session_id=session_id, kinds=["session.opened"], first=1)
        return settings_of(opened.items[0].payload).key if opened.items else None
    return None


def _erasure(header: Header) -> Erasure | None:
    if header.expired:
        return "expired"
    return "redacted" if header.redacted else None


def _place(started: Header) -> tuple[Any, str, str]:
    return started.scope, started.session_id, started.run_id or ""
