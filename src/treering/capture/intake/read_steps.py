"""Steps: what a reader makes of each record of a log, here or in a process of its own.

Reading a large log takes about as long as recording it, so where there is a second core, another
process reads it and hands on what it tells, as lines of JSON.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from treering.capture.quarantine import reason_of
from treering.formats.openclaw import OpenClawReader
from treering.formats.parsed import LogRecord, ParsedRecord, SessionHeader
from treering.formats.records import read_records
from treering.formats.registry import named_format
from treering.formats.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.formats.parsed import LogReader, SessionSource

APART_BYTES_MIN: Final = 16 * 1024 * 1024
"""A smaller file is read before another process has begun."""
PARCEL_BYTES: Final = 1024 * 1024
"""What is handed on at once."""


class ReadStep(msgspec.Struct, frozen=True):
    """One record, and the outcomes that are settled with it."""

    record: LogRecord | None
    """None for what was held back to the end."""
    outcomes: list[ParsedRecord] = []
    failure: str | None = None
    """Why the reader did not understand it."""
    is_named: bool = True
    """Whether a session was told of before the end."""


class ReadJob(msgspec.Struct, frozen=True, kw_only=True):
    """What another process is to read."""

    path: str
    format: str
    """The module of its format."""
    offset: int
    line: int
    final: bool
    state: Any = None
    """Where its reader goes on; None if it begins."""
    names: dict[str, str] = {}
    """What sessions of OpenClaw's were called when they came first."""


class ReadBatch(msgspec.Struct, frozen=True, kw_only=True):
    """What another process has read."""

    steps: list[ReadStep] = []
    sessions: dict[str, SessionHeader] = {}
    """Sessions told of since the last one."""
    is_last: bool = False
    state: Any = None
    damage: str | None = None
    """Why the file cannot be read any further."""


def read_steps(reader: LogReader, records: Iterator[LogRecord]) -> Iterator[ReadStep]:
    """Give a step for each record, and one for what was held back."""
    for record in records:
        if record.fault is not None:
            yield ReadStep(record)
            continue
        if not record.value and not isinstance(record.value, int | float):
            yield ReadStep(record, [ParsedRecord(record=record, skipped="empty")])
            continue
        try:
            outcomes = reader.read(record)
        except Exception as error:  # noqa: BLE001  (one odd record must not cost all the others)
            yield ReadStep(record, failure=f"not understood: {reason_of(error)}")
        else:
            yield ReadStep(record, outcomes)
    is_named = bool(reader.sessions)
    try:
        held_back = reader.finish()
    except Exception as error:  # noqa: BLE001  (what was read before is kept all the same)
        nowhere = LogRecord(None, 0, 0, 0)
        held_back = [ParsedRecord(record=nowhere, skipped=f"not understood: {reason_of(error)}")]
    yield ReadStep(None, held_back, is_named=is_named)


class SubprocessReader:
    """A reader whose work is done in another process; it knows what that has told so far."""

    def __init__(self, job: ReadJob, like: SessionSource) -> None:
        """Send a process on its errand, to read as ``like`` does. Raises OSError if none can be."""
        self.keys_are_global = like.keys_are_global
        self.times_tell_apart = like.times_tell_apart
        self.sessions: dict[str, SessionHeader] = {}
        self._state: Any = None
        command = [sys.executable, "-m", "treering.capture.intake"]
        pipe = subprocess.PIPE
        # In a session of its own: who stops an import at the terminal stops us, and we stop it.
        self._process = subprocess.Popen(  # noqa: S603  (ours)
            command, stdin=pipe, stdout=pipe, start_new_session=True
        )
        with self._process.stdin or contextlib.nullcontext() as asked:
            if asked is not None:
                asked.write(msgspec.json.encode(job))

    def state(self) -> Any:
        """Return what the other reader needs to go on."""
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
        raise OSError("the process that read it has ended too early")


def use_subprocess(size: int) -> bool:
    """Whether a log of so many bytes is read faster by a process of its own."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return size >= APART_BYTES_MIN and (cores or 1) > 1 and bool(sys.executable)


def run(job: ReadJob, out: IO[bytes]) -> None:
    """Read what was asked for, and write it down in parcels."""
    reader = named_format(job.format).READER(Path(job.path))
    if isinstance(reader, OpenClawReader):
        reader.names = job.names
    if job.state is not None:
        reader.resume(job.state)
    told: dict[str, SessionHeader] = {}
    damage: str | None = None
    steps: list[ReadStep] = []
    size = 0
    try:
        with open_source(job.path) as stream:
            stream.seek(job.offset)
            records = read_records(stream, offset=job.offset, line=job.line, final=job.final)
            for step in read_steps(reader, records):
                steps.append(_light(step))
                size += 0 if step.record is None else step.record.end - step.record.offset
                if size >= PARCEL_BYTES:
                    _write(out, ReadBatch(steps=steps, sessions=_fresh(reader, told)))
                    steps, size = [], 0
    except OSError as error:
        damage = error.strerror or str(error)
    sessions = _fresh(reader, told)
    state = reader.state()
    _write(out, ReadBatch(steps=steps, sessions=sessions, is_last=True, state=state, damage=damage))


def _light(step: ReadStep) -> ReadStep:
    """Return a step without the values of its records: their events tell what is in them."""
    record = None if step.record is None else _place(step.record)
    outcomes = [
        ParsedRecord(record=_place(one.record), events=one.events, skipped=one.skipped)
        for one in step.outcomes
    ]
    return ReadStep(record, outcomes, step.failure, step.is_named)


def _place(record: LogRecord) -> LogRecord:
    return LogRecord(
        None, record.line, record.offset, record.end, record.fault, record.mended, record.lines
    )


def _fresh(reader: LogReader, told: dict[str, SessionHeader]) -> dict[str, SessionHeader]:
    """Return the sessions that were not told of before, or are told of otherwise now."""
    fresh = {name: one for name, one in reader.sessions.items() if told.get(name) != one}
    told.update(fresh)
    return fresh


def _write(out: IO[bytes], batch: ReadBatch) -> None:
    out.write(msgspec.json.encode(batch) + b"\n")
    out.flush()


def main() -> None:
    """Read what standard input asks for, to standard output."""
    asked = sys.stdin.buffer.read()
    # Whoever asked may be gone by now, even before all was said.
    with contextlib.suppress(BrokenPipeError, msgspec.DecodeError):
        run(msgspec.json.decode(asked, type=ReadJob), sys.stdout.buffer)
