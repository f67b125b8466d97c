"""The transcript sink: one file per session, with one line per event."""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from treering.model.times import instant
from treering.sinks.lines import LineFile, OpenFiles, json_line, renew_after_fork
from treering.sinks.names import file_name
from treering.spine.ports import Delivery

if TYPE_CHECKING:
    import os

    from treering.model.carried import SafeEvent


class TranscriptSink:
    """Appends safe summaries to ``<folder>/<scope>/<session>.jsonl``, without deltas.

    A ``durable`` sink follows the ledger and misses nothing; events delivered again after a crash
    are not repeated.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, durable: bool = False, name: str = "transcript"
    ) -> None:
        self.name = name
        self.delivery = Delivery(durable=durable, on_error="retry" if durable else "skip")
        self._folder = Path(folder)
        self._renew()
        renew_after_fork(self._renew)

    def _renew(self) -> None:
        self._files = OpenFiles(_Transcript)
        # A durable sink in several scopes is called by several threads.
        self._lock = threading.Lock()

    def accepts(self, event: SafeEvent, /) -> bool:
        """Return whether ``event`` is stored and therefore has a seq."""
        return event.seq is not None

    def handle(self, event: SafeEvent, /) -> None:
        """Write ``event`` to the file of its session."""
        seq = event.seq
        if seq is None:
            return
        with self._lock:
            transcript = self._files.at(_path(self._folder, event.scope, event.session_id))
            if self.delivery.durable and seq <= transcript.last_seq():
                return
            transcript.append(json_line(transcript_line(event)))
            transcript.seq = seq

    def close(self) -> None:
        """Close the files; the next event opens its file again."""
        with self._lock:
            self._files.close()


def transcript_line(event: SafeEvent) -> dict[str, Any]:
    """Return the transcript line of ``event``; private events have no summary."""
    return {
        "at": instant(event.ts_ms),
        "seq": event.seq,
        "kind": event.kind,
        "run_id": event.run_id,
        "source": event.source,
        "summary": event.summary,
        "part": event.part.as_refs(),
    }


@lru_cache(maxsize=1_024)
def _path(folder: Path, scope: str, session_id: str) -> Path:
    return folder / file_name(scope) / f"{file_name(session_id)}.jsonl"


class _Transcript(LineFile):
    """The file of one session."""

    seq: int | None = None
    """The last seq written, once known."""

    def last_seq(self) -> int:
        """Return the last seq in the file; 0 if it is empty."""
        if self.seq is None:
            self.seq = next(filter(None, map(_seq_of, self.lines_backwards())), 0)
        return self.seq


def _seq_of(line: bytes) -> int:
    try:
        return msgspec.json.decode(line, type=_TranscriptLine).seq
    except msgspec.MsgspecError:
        return 0  # An incomplete line after a crash.


class _TranscriptLine(msgspec.Struct):
    seq: int
