"""The trace sinks: a folder for every run, with the five files of its trace."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

import msgspec

from treering.model.envelopes import SafeEnvelope
from treering.sinks.bundle import About, Bundle, DeliveredLine, PrivateBundle, SafeBundle
from treering.sinks.bundle_files import EVENTS, PAYLOADS, FolderFiles
from treering.sinks.capped import TraceLimits
from treering.sinks.lines import LineFile, OpenFiles, renew_after_fork
from treering.sinks.trace_folder import TraceFolder
from treering.spine.ports import Delivery

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from treering.ledger.ports import ContentGuard
    from treering.model.carried import Carried, PrivateEvent, SafeEvent

KEEP_DAYS: Final = 30
KEEP_BYTES: Final = 256 * 1024 * 1024
RUNS_OPEN_MAX: Final = 2_000
"""The number of unfinished traces held in memory; others are resumed from their files."""

AnyBundle = TypeVar("AnyBundle", bound=Bundle)
Line = TypeVar("Line")
_DEFAULT_CAPS: Final = TraceLimits()
_DEFAULT_ABOUT: Final = About()


class TraceSink:
    """Writes the trace of every run to ``<folder>/<run id>/``, without private content.

    A finished trace is kept for ``keep_days`` and while all traces together are within
    ``keep_bytes``; None means no limit. A ``durable`` sink follows the ledger and misses no run,
    even if another process closed it; deltas are not in the ledger.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        keep_days: float | None = KEEP_DAYS,
        keep_bytes: int | None = KEEP_BYTES,
        caps: TraceLimits = _DEFAULT_CAPS,
        about: About = _DEFAULT_ABOUT,
        durable: bool = False,
        name: str = "trace",
    ) -> None:
        self.name = name
        self.delivery = Delivery(durable=durable, on_error="retry" if durable else "skip")
        traces = TraceFolder(Path(folder), keep_days=keep_days, keep_bytes=keep_bytes)
        self._traces = _Traces(traces, "safe", partial(SafeBundle, caps=caps, about=about))

    def accepts(self, event: SafeEvent, /) -> bool:
        """Return whether ``event`` belongs to a run."""
        return event.run_id is not None

    def handle(self, event: SafeEvent, /) -> None:
        """Write ``event`` to the trace of its run."""
        with self._traces.lock:
            bundle = self._traces.of(event)
            if bundle is not None:
                bundle.take(event)
                self._traces.settle(event)

    def close(self) -> None:
        """Close the files; traces of open runs are resumed with their next event."""
        self._traces.close()


class PrivateTraceSink:
    """Writes traces with private content: prompts, answers, inputs and outputs of tools.

    ``guard`` masks the secrets in it.
    """

    visibility: Literal["private"] = "private"

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        guard: ContentGuard,
        keep_days: float | None = KEEP_DAYS,
        keep_bytes: int | None = KEEP_BYTES,
        caps: TraceLimits = _DEFAULT_CAPS,
        about: About = _DEFAULT_ABOUT,
        durable: bool = False,
        name: str = "private-trace",
    ) -> None:
        self.name = name
        self.delivery = Delivery(durable=durable, on_error="retry" if durable else "skip")
        traces = TraceFolder(Path(folder), keep_days=keep_days, keep_bytes=keep_bytes)
        make = partial(PrivateBundle, caps=caps, about=about, guard=guard)
        self._traces = _Traces(traces, "private", make)

    def accepts(self, event: PrivateEvent, /) -> bool:
        """Return whether ``event`` belongs to a run."""
        return event.run_id is not None

    def handle(self, event: PrivateEvent, /) -> None:
        """Write ``event`` to the trace of its run."""
        with self._traces.lock:
            bundle = self._traces.of(event)
            if bundle is not None:
                bundle.take(event)
                self._traces.settle(event)

    def close(self) -> None:
        """Close the files; traces of open runs are resumed with their next event."""
        self._traces.close()


class _Traces(Generic[AnyBundle]):
    """The traces that are being written."""

    def __init__(
        self, folder: TraceFolder, visibility: str, make: Callable[[FolderFiles], AnyBundle]
    ) -> None:
        self._folder = folder
        self._visibility = visibility
        self._make = make
        self._renew()
        renew_after_fork(self._renew)

    def _renew(self) -> None:
        self.lock = threading.Lock()
        self._growing = OpenFiles(LineFile)
        self._open: dict[tuple[str, str, str], tuple[Path, AnyBundle]] = {}

    def of(self, event: Carried) -> AnyBundle | None:
        """Return the trace of the event's run; None if it is finished."""
        key = _key(event)
        if key in self._open:
            return self._open[key][1]
        owner = (event.scope, event.session_id, self._visibility)
        path, about = self._folder.find(event.run_id or "", owner)
        if about is not None and about.get("complete") is True:
            return None
        files = FolderFiles(path, self._growing)
        bundle = self._make(files)
        if about is not None:
            envelopes = _lines(files, EVENTS, _ENVELOPES)
            bundle.resume(about, envelopes, _lines(files, PAYLOADS, _DELIVERED))
        if len(self._open) >= RUNS_OPEN_MAX:
            del self._open[next(iter(self._open))]
        self._open[key] = (path, bundle)
        return bundle

    def settle(self, event: Carried) -> None:
        """Finish the trace if ``event`` ended the run."""
        path, bundle = self._open[_key(event)]
        if bundle.is_over:
            size = bundle.finish()
            del self._open[_key(event)]
            self._folder.finished(path, size)

    def close(self) -> None:
        """Close all files."""
        with self.lock:
            self._open.clear()
            self._growing.close()


def _key(event: Carried) -> tuple[str, str, str]:
    return event.scope, event.session_id, event.run_id or ""


_ENVELOPES: Final = msgspec.json.Decoder(SafeEnvelope)
_DELIVERED: Final = msgspec.json.Decoder(DeliveredLine)


def _lines(files: FolderFiles, name: str, line: msgspec.json.Decoder[Line]) -> list[Line]:
    """Return the lines of a trace file, in order, without incomplete ones."""
    decoded = []
    for body in files.lines(name):
        with contextlib.suppress(msgspec.MsgspecError):
            decoded.append(line.decode(body))
    return decoded[::-1]
