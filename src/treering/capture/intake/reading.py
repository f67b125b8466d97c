"""Reading a log: parsing each record, here or in another process.

Reading a large log takes about as long as recording it. So if there is a second core, another
process reads it, and sends the parsed records as lines of JSON.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from treering.capture.quarantine import reason_of
from treering.errors import is_interruption
from treering.formats.format import Content
from treering.formats.openclaw import OpenClawReader
from treering.formats.parsed import LogRecord, ParsedRecord, SessionHeader
from treering.formats.records import read_records, read_text
from treering.formats.registry import reader_of
from treering.formats.sources import open_source
from treering.lazy import LazyModule

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from typing import BinaryIO

    from treering.capture.intake.bookmarks import Bookmark
    from treering.capture.intake.probe import Probe
    from treering.formats.parsed import LogReader, SessionSource
else:
    subprocess = LazyModule("subprocess")

APART_BYTES_MIN: Final = 16 * 1024 * 1024
"""A smaller file is read before another process has started."""
UNCHANGED: Final = "as it was when it was last imported"
"""The value of a record that represents an unchanged group of records."""
PARCEL_BYTES: Final = 1024 * 1024
"""Bytes of the log that are sent at once."""


class ReadStep(msgspec.Struct, frozen=True, gc=False):
    """One record, and the parsed records that are complete with it."""

    record: LogRecord | None
    """None for the records that were held back to the end."""
    outcomes: list[ParsedRecord] = []
    failure: str | None = None
    """Why the reader did not understand it."""
    is_named: bool = True
    """Whether a session was named before the end."""


class ReadJob(msgspec.Struct, frozen=True, kw_only=True):
    """The file that another process has to read."""

    path: str
    format: str
    grammar: str | None
    """The format that its format is a relative of."""
    content: Content
    offset: int
    line: int
    final: bool
    state: Any = None
    """The state that its reader continues from; None at the beginning."""
    names: dict[str, str] = {}
    """The first names of OpenClaw's sessions, by the marks of their headers."""


class ReadBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a file that another process has read."""

    steps: list[ReadStep] = []
    sessions: dict[str, SessionHeader] = {}
    """Sessions that are new, or have changed, since the last batch."""
    is_last: bool = False
    state: Any = None
    damage: str | None = None
    """Why the file cannot be read any further."""


def read_steps(reader: LogReader, records: Iterator[LogRecord]) -> Iterator[ReadStep]:
    """Give a step for each record, and one for those that were held back."""
    for record in records:
        if record.fault is not None:
            yield ReadStep(record)
            continue
        if record.value is UNCHANGED:
            yield ReadStep(record, [ParsedRecord(record=record, skipped=UNCHANGED)])
            continue
        if not record.value and not isinstance(record.value, int | float):
            yield ReadStep(record, [ParsedRecord(record=record, skipped="empty")])
            continue
        try:
            outcomes = reader.read(record)
        except Exception as error:  # (one odd record must not cost the others)
            if is_interruption(error):
                raise
            yield ReadStep(record, failure=f"not understood: {reason_of(error)}")
        else:
            yield ReadStep(record, outcomes)
    is_named = bool(reader.sessions)
    try:
        held_back = reader.finish()
    except Exception as error:  # (what was read before is kept)
        if is_interruption(error):
            raise
        nowhere = LogRecord(None, 0, 0, 0)
        held_back = [ParsedRecord(record=nowhere, skipped=f"not understood: {reason_of(error)}")]
    yield ReadStep(None, held_back, is_named=is_named)


class SubprocessReader:
    """A reader whose work is done in another process; it knows what that has sent so far."""

    def __init__(self, job: ReadJob, reader: SessionSource) -> None:
        """Start a process that reads as ``reader`` would. Raises OSError if it cannot."""
        self.keys_are_global = reader.keys_are_global
        self.copies_keep_times = reader.copies_keep_times
        self.sessions: dict[str, SessionHeader] = {}
        self._state: Any = None
        command = [sys.executable, "-m", "treering.capture.intake"]
        pipe = subprocess.PIPE
        # In a session of its own: Ctrl-C at the terminal stops us, and we stop it.
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
        # One that has ended already says so when its steps are read.
        with (
            contextlib.suppress(BrokenPipeError),
            self._process.stdin or contextlib.nullcontext() as stdin,
        ):
            if stdin is not None:
                stdin.write(msgspec.json.encode(job))

    def state(self) -> Any:
        """Return what the other reader needs to continue."""
        return self._state

    def steps(self) -> Iterator[ReadStep]:
        """Give the steps of the other reader. Raises OSError if it ends before they do."""
        with self._process as process:
            try:
                yield from self._received(process.stdout or io.BytesIO())
            finally:
                process.kill()

    def _received(self, stream: IO[bytes]) -> Iterator[ReadStep]:
        decode = msgspec.json.Decoder(ReadBatch).decode
        for line in stream:
            batch = decode(line)
            self.sessions.update(batch.sessions)
            yield from batch.steps
            if batch.damage is not None:
                raise OSError(batch.damage)
            if batch.is_last:
                self._state = batch.state
                return
        raise OSError("the process that reads it ended too early")


def make_reader(probe: Probe, names: dict[str, str]) -> LogReader:
    """Return a new reader for a file; ``names`` are those of ``ReadJob``."""
    assert probe.format is not None  # noqa: S101  (only our own exports have none)
    reader = probe.format.reader(probe.source.path)
    if isinstance(reader, OpenClawReader):
        reader.names = names
    return reader


def resume(
    probe: Probe, stream: BinaryIO, names: dict[str, str]
) -> tuple[LogReader, Bookmark | None]:
    """Return a reader, and the bookmark that it continues from; None if it starts again."""
    reader, bookmark = make_reader(probe, names), probe.bookmark
    if (
        bookmark is None
        or bookmark.format != probe.name
        or not stream.seekable()
        or not bookmark.can_resume(probe.source, stream)
    ):
        return reader, None
    try:
        reader.resume(bookmark.state)
    except ValueError:
        return make_reader(probe, names), None
    for name, header in bookmark.sessions.items():
        reader.sessions.setdefault(name, header)
    return reader, bookmark


def start_reading(
    job: ReadJob, stream: BinaryIO, reader: LogReader, *, apart: bool
) -> tuple[SessionSource, Iterator[ReadStep]]:
    """Return the reader of ``job``, here or ``apart`` in a process of its own, and its steps."""
    if apart:
        with contextlib.suppress(OSError):  # Without a process, it is read here.
            remote = SubprocessReader(job, reader)
            remote.sessions.update(reader.sessions)
            return remote, remote.steps()
    stream.seek(job.offset)
    return reader, read_steps(reader, _records(job, stream))


def use_subprocess(size: int) -> bool:
    """Whether a log of this size is read faster by a process of its own."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return size >= APART_BYTES_MIN and (cores or 1) > 1 and bool(sys.executable)


def run(job: ReadJob, out: IO[bytes]) -> None:
    """Read the file of ``job``, and write what is in it to ``out`` in batches."""
    reader = reader_of(job.format, job.grammar)(Path(job.path))
    if isinstance(reader, OpenClawReader):
        reader.names = job.names
    if job.state is not None:
        reader.resume(job.state)
    sent: dict[str, SessionHeader] = {}
    damage: str | None = None
    steps: list[ReadStep] = []
    size = 0
    try:
        with open_source(job.path) as stream:
            stream.seek(job.offset)
            for step in read_steps(reader, _records(job, stream)):
                steps.append(_light(step))
                size += 0 if step.record is None else step.record.end - step.record.offset
                if size >= PARCEL_BYTES:
                    _write(out, ReadBatch(steps=steps, sessions=_new_sessions(reader, sent)))
                    steps, size = [], 0
    except OSError as error:
        damage = error.strerror or str(error)
    sessions = _new_sessions(reader, sent)
    state = reader.state()
    _write(out, ReadBatch(steps=steps, sessions=sessions, is_last=True, state=state, damage=damage))


def _records(job: ReadJob, stream: BinaryIO) -> Iterator[LogRecord]:
    read = read_text if job.content == "text" else read_records
    return read(stream, offset=job.offset, line=job.line, final=job.final)


def _light(step: ReadStep) -> ReadStep:
    """Return a step without the values of its records: their events have all of it."""
    record = None if step.record is None else place_of(step.record)
    outcomes = [
        ParsedRecord(record=place_of(parsed.record), events=parsed.events, skipped=parsed.skipped)
        for parsed in step.outcomes
    ]
    return ReadStep(record, outcomes, step.failure, step.is_named)


def place_of(record: LogRecord) -> LogRecord:
    """Return a record without its value."""
    return LogRecord(
        None, record.line, record.offset, record.end, record.fault, record.mended, record.lines
    )


def _new_sessions(reader: LogReader, sent: dict[str, SessionHeader]) -> dict[str, SessionHeader]:
    """Return the sessions that were not sent before, or have changed since."""
    new = {name: header for name, header in reader.sessions.items() if sent.get(name) != header}
    sent.update(new)
    return new


def _write(out: IO[bytes], batch: ReadBatch) -> None:
    out.write(msgspec.json.encode(batch) + b"\n")
    out.flush()


def main() -> None:
    """Read the job on standard input, and write to standard output."""
    job = sys.stdin.buffer.read()
    # The importer may be gone by now, even before the job was complete.
    with contextlib.suppress(BrokenPipeError, msgspec.DecodeError):
        run(msgspec.json.decode(job, type=ReadJob), sys.stdout.buffer)
