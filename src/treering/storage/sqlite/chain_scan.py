"""The chains of all sessions at once, read in the order of the file.

Session by session, a proof jumps through the file and makes a record of each event. A scan reads
every page once, and hashes what the rows hold. It does not say what is wrong: a session that has
anything but plain events in an unbroken chain is in doubt, and has to be proved by itself.

    positions  1 ............ 50,000 | 50,001 ........... 100,000
    session 7  seq 1 ......... 812   | seq 813 .......... 1,644

Stretches of positions are scanned in any order, by any process. Each says how the first event of
each session in it was hashed, so that ``join`` can check it against the last one before.

A large ledger is scanned on every core. This process hands out stretches, and scans others itself
meanwhile. What another does not answer for in time, it scans as well: without any other process the
result is the same.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections import Counter, deque
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec
from uuid_utils import UUID

from treering.ledger import chain
from treering.ledger.chain import SALT_BYTES
from treering.ledger.records import ProvedChain, Unread
from treering.model.codec import encode
from treering.model.kinds import ERASURE_KINDS
from treering.storage.encoding import (
    ERASED,
    EXPIRED,
    NAMED,
    PLACEHOLDER,
    PRIVATE,
    UNREADABLE,
    name_of,
)
from treering.storage.keys import KeyFolder
from treering.storage.sqlite.database import Database
from treering.storage.sqlite.opening import shares_live_log
from treering.storage.sqlite.reader import Reader
from treering.storage.sqlite.rows import RECORD, WITH_CONTENT, Row, fetch_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import apsw

PAGE: Final = 1_000
"""Positions that are read at once."""
_ANY_ERASURE: Final = ERASED | PLACEHOLDER | EXPIRED
# A left join: a payload row that was torn out must not hide its event.
ROWS: Final = f"""
SELECT {RECORD}
FROM events AS e
LEFT {WITH_CONTENT}
WHERE e.position > ?1 AND e.position <= ?2 AND (?3 IS NULL OR e.scope = ?3)
ORDER BY e.position
"""
_BEGINNINGS: Final = """
SELECT s.id, s.genesis, coalesce(f.seq, 0)
FROM sessions AS s
LEFT JOIN forks AS f ON f.session = s.id
"""


class Positions(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of the file, of one scope or of all."""

    after: int
    until: int
    scope: int | None = None


class SessionPart(msgspec.Struct, array_like=True):
    """The events of one session in a stretch: they follow each other, and hold what they held."""

    first_seq: int
    header: bytes
    """The digest of the first event's header."""
    content: bytes
    first_link: bytes
    seq: int
    link: bytes
    sealed: int = 0


class Scan(msgspec.Struct, array_like=True):
    """What a stretch of the file proves."""

    parts: dict[int, SessionPart] = msgspec.field(default_factory=dict)
    """By session."""
    doubtful: set[int] = msgspec.field(default_factory=set)
    """Sessions that have to be proved by themselves."""

    def count(self) -> int:
        """Return how many events it proves."""
        parts = (part for session, part in self.parts.items() if session not in self.doubtful)
        return sum(part.seq - part.first_seq + 1 for part in parts)


def scan(reader: Reader, stretch: Positions, pause: Callable[[], None]) -> Scan:
    """Return what a stretch proves; call ``pause`` after each page."""
    result = Scan()
    for after in range(stretch.after, stretch.until, PAGE):
        until = min(after + PAGE, stretch.until)
        bounds = (after, until, stretch.scope)
        # Row by row: in a list, most have left the processor's cache before they are hashed.
        with (
            reader.database.reading() as connection,
            closing(connection.execute(ROWS, bounds)) as rows,
        ):
            _take(reader, rows, result)
        pause()
    return result


def _take(reader: Reader, rows: Iterable[Row], result: Scan) -> None:
    # Written out as ``chain`` has it: its functions would cost a quarter more.
    names, parts, doubtful = reader.names, result.parts, result.doubtful
    for (
        _, session, seq, event_id, name, kind, source, origin, run, run_seq, turn, agent, user,
        ts_ms, recorded_ms, flags, version, payload_bytes, digest, link, summary, refs, stored,
        blob, stored_salt,
    ) in rows:  # fmt: skip
        if session in doubtful:
            continue
        try:
            salt, payload, is_read = stored_salt, stored, True
            if blob is not None or len(salt) > SALT_BYTES:
                salt, payload, unread = _opened(reader, session, event_id, salt, stored, blob)
                is_read = unread not in {"destroyed", "missing"}
            header = sha256(encode((
                str(UUID(None, event_id)) if not flags & NAMED else name_of(event_id, name),
                run and names[run], run_seq, turn and names[turn], names[agent],
                user and names[user], (kind_name := names[kind]), names[source],
                origin and names[origin], ts_ms, recorded_ms,
                "private" if flags & PRIVATE else "safe", version,
            ))).digest()  # fmt: skip
            if (
                flags & _ANY_ERASURE
                or kind_name in ERASURE_KINDS
                or type(summary) is not str
                or (name is not None and type(name) is not str)
                or (is_read and (
                    payload_bytes != (0 if payload is None else len(payload))
                    or sha256(b"%b[%b,%b,%b]" % (
                        salt, encode(summary), refs or b"null", payload or b"null"
                    )).digest() != digest
                ))
            ):  # fmt: skip
                doubtful.add(session)
                continue
            part = parts.get(session)
            if part is None:
                first = (seq, header, digest, link, seq, link)
                parts[session] = part = msgspec.convert(first, SessionPart)
            elif (
                seq == part.seq + 1
                and sha256(part.link + seq.to_bytes(8, "big") + header + digest).digest() == link
            ):
                part.seq = seq
                part.link = link
            else:
                doubtful.add(session)
            if not is_read:
                part.sealed += 1
        except UNREADABLE:
            doubtful.add(session)


def _opened(
    reader: Reader,
    session: int,
    event_id: bytes,
    salt: bytes | None,
    payload: bytes | None,
    blob: int | None,
) -> tuple[bytes | None, bytes | None, Unread | None]:
    large = None if blob is None else partial(reader.blobs.__getitem__, blob)
    return reader.opener.recorded(reader.sessions[session][0], event_id, salt, payload, large)


def join(connection: apsw.Connection, scans: Iterable[Scan]) -> dict[bytes, ProvedChain]:
    """Return by genesis the chains that ``scans`` prove together, which come in order."""
    geneses: dict[int, bytes] = {}
    chains: dict[int, ProvedChain] = {}
    for session, genesis, shared in fetch_all(connection, _BEGINNINGS):
        geneses[session] = genesis
        chains[session] = ProvedChain(seq=shared, link=genesis)
    for result in scans:
        for session in result.doubtful:
            chains.pop(session, None)
        for session, part in result.parts.items():
            before = chains.pop(session, None)
            if (
                before is not None
                and part.first_seq == before.seq + 1
                and part.first_link
                == chain.link(before.link, part.first_seq, part.header, part.content)
            ):
                events = before.events + part.seq - before.seq
                sealed = before.sealed + part.sealed
                chains[session] = ProvedChain(
                    seq=part.seq, link=part.link, events=events, sealed=sealed
                )
    twice = {genesis for genesis, count in Counter(geneses.values()).items() if count > 1}
    return {
        geneses[session]: proved
        for session, proved in chains.items()
        if proved.events and geneses[session] not in twice
    }


EVENTS_MIN: Final = 50_000
"""Fewer are scanned before another process has started."""
STRETCH: Final = 20_000
HELPERS_MAX: Final = 7
PATIENCE_S: Final = 60.0
"""How long a process may take for a stretch; it takes a fraction of a second."""
_CHUNK_BYTES: Final = 1 << 20
_FAILURES: Final = (OSError, ValueError, msgspec.MsgspecError)


class ScanJob(msgspec.Struct, frozen=True):
    """The ledger that other processes have to open."""

    path: str
    keys: str
    """The folder of its keys."""


def helper_count(events: int) -> int:
    """Return how many other processes are worth starting for this number of events."""
    if events < EVENTS_MIN or not sys.executable or getattr(sys, "frozen", False):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min((cores or 1) - 1, HELPERS_MAX)


def scan_all(
    reader: Reader,
    whole: Positions,
    progress: Callable[[int], None],
    *,
    job: ScanJob,
    helpers: int,
    size: int = STRETCH,
) -> list[Scan]:
    """Return what the stretches of ``whole`` prove, in order, with the help of other processes."""
    starts = range(whole.after, whole.until, size)
    waiting = deque(Positions(at, min(at + size, whole.until), whole.scope) for at in starts)
    scans: dict[int, Scan] = {}

    def keep(stretch: Positions, result: Scan) -> None:
        scans[stretch.after] = result
        progress(result.count())

    with _Helpers(job, helpers) as others:
        while waiting or others.are_busy():
            others.exchange(waiting, keep, wait_s=0 if waiting else PATIENCE_S)
            if waiting:
                own = waiting.popleft()
                keep(own, scan(reader, own, lambda: others.exchange(waiting, keep, wait_s=0)))
    return [scans[after] for after in sorted(scans)]


class _Helpers:
    """The other processes, each with at most one stretch to scan."""

    def __init__(self, job: ScanJob, count: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._helpers: list[_Helper] = []
        with contextlib.suppress(OSError):  # Without another process, all is scanned here.
            for _ in range(count):
                helper = _Helper(job)
                self._helpers.append(helper)
                self._selector.register(helper.output, selectors.EVENT_READ, helper)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for helper in self._helpers:
            helper.kill()
        self._selector.close()

    def are_busy(self) -> bool:
        return any(helper.stretch is not None for helper in self._helpers)

    def exchange(
        self, waiting: deque[Positions], keep: Callable[[Positions, Scan], None], *, wait_s: float
    ) -> None:
        """Take results, and hand out stretches of ``waiting``; those of failures return to it."""
        ready = {key.data for key, _ in self._selector.select(wait_s)} if self._helpers else set()
        for helper in tuple(self._helpers):
            stretch, result = helper.stretch, None
            try:
                if helper in ready:
                    result = helper.receive()
                if helper.stretch is None and waiting:
                    helper.send(waiting.pop())
                helper.check_time()
            except _FAILURES:
                self._drop(helper, waiting)
            if stretch is not None and result is not None:
                keep(stretch, result)

    def _drop(self, helper: _Helper, waiting: deque[Positions]) -> None:
        if helper.stretch is not None:
            waiting.append(helper.stretch)
        self._helpers.remove(helper)
        self._selector.unregister(helper.output)
        helper.kill()


class _Helper:
    """One other process."""

    def __init__(self, job: ScanJob) -> None:
        """Start it. Raises OSError if that is not possible."""
        pipe = subprocess.PIPE
        # In a session of its own: Ctrl-C at the terminal stops us, and we stop it.
        self._process = subprocess.Popen(  # noqa: S603  (ours)
            [sys.executable, "-P", "-m", __name__],
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None  # noqa: S101  (a pipe)
        assert self._process.stdout is not None  # noqa: S101  (a pipe)
        self._input, self.output = self._process.stdin, self._process.stdout
        self._received = bytearray()
        self._deadline = 0.0
        self.stretch: Positions | None = None
        self._unsent = _line(job)

    def send(self, stretch: Positions) -> None:
        """Have it scan a stretch. Raises OSError if it has ended."""
        self.stretch = stretch
        self._deadline = time.monotonic() + PATIENCE_S
        self._input.write(self._unsent + _line(stretch))
        self._input.flush()
        self._unsent = b""

    def receive(self) -> Scan | None:
        """Return its result if that is complete. Raises OSError if it has ended."""
        chunk = os.read(self.output.fileno(), _CHUNK_BYTES)
        if not chunk:
            raise OSError("the process has ended")
        self._received += chunk
        if not chunk.endswith(b"\n"):
            return None
        result = msgspec.json.decode(self._received, type=Scan)
        self._received.clear()
        self.stretch = None
        return result

    def check_time(self) -> None:
        """Raise TimeoutError if it takes too long."""
        if self.stretch is not None and time.monotonic() > self._deadline:
            raise TimeoutError("the process does not answer")

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        with contextlib.suppress(OSError):
            self._input.close()
        self.output.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE_S)


def _line(message: ScanJob | Positions | Scan) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def main() -> None:
    """Scan the stretches that standard input names, and write to standard output."""
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=ScanJob)
    if not shares_live_log(job.path):
        return  # To read it, the file would be copied first.
    database = Database(job.path, mode="ro")
    reader = Reader(database, KeyFolder(lambda: Path(job.keys), database.ledger_id))
    # The other process may be gone by now.
    with contextlib.suppress(BrokenPipeError):
        for line in sys.stdin.buffer:
            result = scan(reader, msgspec.json.decode(line, type=Positions), lambda: None)
            sys.stdout.buffer.write(_line(result))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
