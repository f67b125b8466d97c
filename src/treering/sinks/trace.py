"""The traces of runs: a folder with five files each, from a live run or from the ledger."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

import msgspec

from treering.errors import InvalidInput, KeyMissing
from treering.ledger.runs import safe_events
from treering.model.arguments import check_arguments
from treering.model.carried import Carried, PrivateEvent, SafeEvent
from treering.model.envelopes import SafeEnvelope
from treering.model.sessions import settings_of
from treering.sinks.bundle import About, Bundle, DeliveredLine, Erasure, PrivateBundle, SafeBundle
from treering.sinks.bundle_files import (
    ABOUT,
    DRAFT,
    EVENTS,
    FILES,
    PAYLOADS,
    REDACTIONS,
    TOOLS,
    FolderFiles,
    TraceLimits,
    file_name,
    with_digest,
)
from treering.sinks.lines import LineFile, OpenFiles, renew_after_fork
from treering.spine.ports import Delivery
from treering.spine.sink_queue import private_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.ledger.ledger import Ledger
    from treering.ledger.ports import ContentGuard
    from treering.model.events import Header
    from treering.model.scopes import Scope
    from treering.sinks.bundle_files import BundleFiles

DAY_S: Final = 86_400
ABANDONED_DAYS: Final = 7
"""An unfinished trace without changes for this long counts as finished."""
ABOUT_BYTES_MAX: Final = 64 * 1024
LOOK_EVERY: Final = 256
"""After this many own traces, scan the folder for those of others."""

_REMOVED: Final = (DRAFT, EVENTS, TOOLS, PAYLOADS, REDACTIONS, ABOUT)
"""The files to remove, with the one that identifies a trace last."""

KEEP_DAYS: Final = 30
KEEP_BYTES: Final = 256 * 1024 * 1024
RUNS_OPEN_MAX: Final = 2_000
"""The number of unfinished traces held in memory; others are resumed from their files."""

AnyBundle = TypeVar("AnyBundle", bound=Bundle)
AnyEvent = TypeVar("AnyEvent", bound="Carried")
_DEFAULT_CAPS: Final = TraceLimits()
_DEFAULT_ABOUT: Final = About()


class _RunSink(Generic[AnyEvent]):
    """What the sinks of traces share."""

    _traces: _Traces[Any]

    def accepts(self, event: AnyEvent, /) -> bool:
        """Return whether ``event`` belongs to a run."""
        return event.run_id is not None

    def handle(self, event: AnyEvent, /) -> None:
        """Write ``event`` to the trace of its run."""
        with self._traces.lock:
            bundle = self._traces.of(event)
            if bundle is not None:
                bundle.take(event)
                self._traces.settle(event)

    def close(self) -> None:
        """Close the files; traces of open runs are resumed with their next event."""
        self._traces.close()


class TraceSink(_RunSink[SafeEvent]):
    """Writes the trace of every run to ``<folder>/<run id>/``, without private content.

    A finished trace is kept for ``keep_days`` and while all traces together are within
    ``keep_bytes``; None means no limit. A ``durable`` sink follows the ledger and misses no run,
    even if another process closed it; deltas are not in the ledger.
    """

    @check_arguments
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


class PrivateTraceSink(_RunSink[PrivateEvent]):
    """Writes traces with private content: prompts, answers, inputs and outputs of tools.

    ``guard`` masks the secrets in it.
    """

    visibility: Literal["private"] = "private"

    @check_arguments
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
            envelopes = files.lines(EVENTS, _ENVELOPES)
            bundle.resume(about, envelopes, files.lines(PAYLOADS, _DELIVERED))
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


class _Kept(msgspec.Struct, frozen=True, order=True):
    """A finished trace."""

    changed_s: float
    path: Path
    size: int


class TraceFolder:
    """Keeps finished traces within limits of days and bytes; the oldest are removed first."""

    def __init__(self, folder: Path, *, keep_days: float | None, keep_bytes: int | None) -> None:
        for name, value in (("keep_days", keep_days), ("keep_bytes", keep_bytes)):
            if value is not None and value <= 0:
                raise InvalidInput(
                    f"{name} must be more than 0, not {value}", hint="None keeps all of them"
                )
        self.folder = folder
        self._keep_s = None if keep_days is None else keep_days * DAY_S
        self._keep_bytes = keep_bytes
        self._kept: deque[_Kept] = deque()
        self._total = 0
        self._until_look = 0

    def find(self, run_id: str, owner: tuple[str, str, str]) -> tuple[Path, dict[str, Any] | None]:
        """Return the folder of a run's trace, and its metadata, if it exists.

        ``owner`` is its scope, session and visibility: runs of others may have the same id.
        """
        name = file_name(run_id)
        distinct = with_digest(name, "\0".join((run_id, *owner)).encode(errors="surrogatepass"))
        for path in (self.folder / name, self.folder / distinct):
            about = read_about(path)
            if about is None and not os.path.lexists(path):
                return path, None
            if about is not None and _owner(about) == owner and about.get("runId") == run_id:
                return path, about
        return self.folder / distinct, None

    def finished(self, path: Path, size: int) -> None:
        """Note a finished trace, and remove traces over the limits."""
        if self._keep_s is None and self._keep_bytes is None:
            return
        if self._until_look == 0:
            self._until_look = LOOK_EVERY
            others = (_kept(other) for other in self._folders() if other != path)
            self._kept = deque(sorted(filter(None, others)))
            self._total = sum(trace.size for trace in self._kept)
        self._until_look -= 1
        self._kept.append(_Kept(time.time(), path, size))
        self._total += size
        while len(self._kept) > 1 and self._is_due(self._kept[0]):
            oldest = self._kept.popleft()
            self._total -= oldest.size
            _remove(oldest.path)

    def _is_due(self, kept: _Kept) -> bool:
        if self._keep_bytes is not None and self._total > self._keep_bytes:
            return True
        return self._keep_s is not None and time.time() - kept.changed_s > self._keep_s

    def _folders(self) -> list[Path]:
        with os.scandir(self.folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]


def read_about(path: Path) -> dict[str, Any] | None:
    """Return the metadata of a trace; None if ``path`` holds no trace."""
    try:
        with (path / ABOUT).open("rb") as stream:
            about = msgspec.json.decode(stream.read(ABOUT_BYTES_MAX))
    except (OSError, msgspec.MsgspecError, ValueError):
        return None
    is_trace = isinstance(about, dict) and isinstance(about.get("runId"), str)
    return about if is_trace else None


def _owner(about: dict[str, Any]) -> tuple[Any, Any, Any]:
    return about.get("scope"), about.get("sessionId"), about.get("visibility")


def _kept(path: Path) -> _Kept | None:
    """Return the trace at ``path`` if it is one and finished."""
    about = read_about(path)
    if (
        about is None
        or path.name.partition("%%")[0] != file_name(about["runId"]).partition("%%")[0]
    ):
        return None
    statuses = []
    for name in FILES:
        with contextlib.suppress(OSError):
            statuses.append((path / name).lstat())
    changed_s = max((status.st_mtime for status in statuses), default=0.0)
    abandoned = time.time() - changed_s > ABANDONED_DAYS * DAY_S
    if not (about.get("complete") is True or abandoned):
        return None
    return _Kept(changed_s, path, sum(status.st_size for status in statuses))


def _remove(path: Path) -> None:
    for name in _REMOVED:
        with contextlib.suppress(OSError):
            (path / name).unlink(missing_ok=True)
    # The folder stays if it contains other files.
    with contextlib.suppress(OSError):
        path.rmdir()


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
