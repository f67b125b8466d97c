"""Drain the spool: import the transcripts that hooks named, and record decisions.

A part of the spool is moved away, read, processed and then removed, in this order. After a crash it
is read again: importing the same again adds nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.capture.intake import BOOKMARK_SCOPE
from treering.capture.intake.ledger_buffer import LedgerBuffer, NoteBuffer
from treering.capture.intake.record_import import ATTEMPTS_MAX
from treering.capture.intake.sessions import Sessions
from treering.capture.quarantine import Quarantine, is_line_fault, reason_of
from treering.errors import Conflict, DuplicateEvent, InvalidInput, StorageError, TreeringError
from treering.files import lock
from treering.formats.parsed import ParsedEvent, SessionHeader, content_key
from treering.formats.records.values import Unreadable, read_value
from treering.hook import DECISIONS, SCHEMA, SIDE_FOLDER, SUFFIX, shallow, spool_folder
from treering.model.scopes import parse_scope
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.capture.secrets import SecretGuard
    from treering.ledger.ledger import Ledger

LOCK: Final = "drain.lock"
UNREAD: Final = "unread.log"
"""The file for lines that cannot be recorded, with secrets masked."""
AWAY: Final = ".draining"
BARRIER_S_MAX: Final = 2.0
ORPHAN_S: Final = 3_600
"""A file beside the spool that no line names after this time belongs to a hook that was killed."""


class Refused(msgspec.Struct, frozen=True):
    """A transcript that could not be imported."""

    path: str
    error: str


class DrainReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the spool, and the result."""

    lines: int = 0
    transcripts: int = 0
    """The number of different transcripts imported."""
    missing: list[str] = []
    """Transcripts that do not exist, yet or any more."""
    refused: list[Refused] = []
    decisions: int = 0
    unread: int = 0
    """Lines that could not be read or recorded; they are kept, masked, in ``unread.log``."""
    taken: list[Any] = []
    """The results of ``take``."""
    is_busy: bool = False
    """Whether another process is draining the spool; then nothing was done."""


def default_spool() -> Path:
    """Return the folder that hooks write to."""
    return Path(spool_folder())


def is_waiting(folder: Path) -> bool:
    """Return whether there is something to drain."""
    return any(
        path.name.endswith(AWAY) or status.st_size > 0 for path, status in spool_files(folder)
    )


def spool_files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Return the regular files of the spool, including those moved away."""
    files: list[tuple[Path, os.stat_result]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((SUFFIX, AWAY)):
                with contextlib.suppress(OSError):  # Skip only the file that is gone.
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        files.append((Path(entry.path), status))
    return files


def drain(
    folder: Path,
    *,
    take: Callable[[Sequence[Path]], Any],
    note: Callable[[PermissionDecision], Any],
    guard: SecretGuard,
) -> DrainReceipt:
    """Process everything in the spool, then remove it.

    ``take`` receives the transcripts, ``note`` each decision; both may receive known ones again. A
    line that cannot be read or recorded is set aside. If they raise an error of the database or the
    disk, everything stays for the next time, and it is raised.
    """
    if not is_waiting(folder):
        return DrainReceipt()
    with _only_one(folder) as is_only:
        if not is_only:
            return DrainReceipt(is_busy=True)
        parts = _set_aside(folder)
        return _act(folder, parts, take, note, guard)


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[bool]:
    """Yield whether this process is the only one that drains, and keep others out meanwhile."""
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield lock(descriptor)
    finally:
        os.close(descriptor)


def _set_aside(folder: Path) -> list[Path]:
    """Move away the files that hooks have written, and return all moved ones, oldest first."""
    for path in sorted(path for path, _ in spool_files(folder) if path.name.endswith(SUFFIX)):
        with contextlib.suppress(FileNotFoundError):
            away = path.with_name(f"{path.name}.{time.time_ns()}{AWAY}")
            path.rename(away)
            _wait_for_writers(away)
    moved = [(status.st_mtime_ns, path) for path, status in spool_files(folder)]
    return [path for _, path in sorted(moved) if path.name.endswith(AWAY)]


def _wait_for_writers(path: Path) -> None:
    """Wait for hooks that are writing to ``path``; no other hook will open it."""
    deadline = time.monotonic() + BARRIER_S_MAX
    with path.open("rb") as stream:
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(0.002)
                    continue
            except OSError:
                # Without file locks, wait for a moment.
                time.sleep(0.05)
            return


def _act(
    folder: Path,
    parts: list[Path],
    take: Callable[[Sequence[Path]], Any],
    note: Callable[[PermissionDecision], Any],
    guard: SecretGuard,
) -> DrainReceipt:
    lines = 0
    named: dict[Path, None] = {}
    noted: list[tuple[PermissionDecision, bytes]] = []
    side_files: list[Path] = []
    quarantine = Quarantine(folder / UNREAD, guard=guard)
    unread = 0
    for line in (line for part in parts for line in spooled_lines(part)):
        try:
            wake = read_wake(line)
            paths, path = transcripts(wake), side_file(wake, folder)
            decided = decision(wake, folder, guard)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  (one line must not hold up later ones)
            unread += 1
            quarantine.add(reason_of(error), line)
            continue
        lines += 1
        named |= dict.fromkeys(paths)
        noted += [(decided, line)] if decided else []
        side_files += [path] if path else []
    # A path that is too long or in an unreadable folder counts as missing.
    there = [path for path in named if os.path.isfile(path)]  # noqa: PTH113  (it never raises)
    taken, refused = _import(there, take)
    decisions = 0
    for decided, line in noted:
        try:
            note(decided)
            decisions += 1
        except Exception as error:
            if not is_line_fault(error):
                raise
            unread += 1
            quarantine.add(reason_of(error), line)
    quarantine.flush()
    for path in [*side_files, *_orphans(folder)]:
        with contextlib.suppress(OSError):  # A line may name something other than a file.
            path.unlink(missing_ok=True)
    for path in parts:
        path.unlink(missing_ok=True)
    return DrainReceipt(
        lines=lines,
        transcripts=len(there) - len(refused),
        missing=[str(path) for path in named if path not in there],
        refused=refused,
        decisions=decisions,
        unread=unread,
        taken=taken,
    )


def _orphans(folder: Path) -> list[Path]:
    """Return files beside the spool whose line was never written, or was set aside."""
    try:
        with os.scandir(folder / SIDE_FOLDER) as entries:
            before = time.time() - ORPHAN_S
            return [Path(entry.path) for entry in entries if entry.stat().st_mtime < before]
    except OSError:
        return []


def _import(
    paths: list[Path], take: Callable[[Sequence[Path]], Any]
) -> tuple[list[Any], list[Refused]]:
    """Import all transcripts at once; if that fails, one by one."""
    if not paths:
        return [], []
    try:
        return [take(paths)], []
    except (StorageError, MemoryError):
        raise
    except Exception:  # noqa: BLE001  (the loop below finds out which one failed)
        taken: list[Any] = []
    refused: list[Refused] = []
    for path in paths:
        try:
            taken.append(take([path]))
        except (StorageError, MemoryError):
            raise
        except (TreeringError, OSError) as error:
            refused.append(Refused(str(path), str(error)))
        except Exception as error:  # noqa: BLE001  (one transcript must not hold up others)
            refused.append(Refused(str(path), reason_of(error)))
    return taken, refused


LINE_BYTES_MAX: Final = 8_388_608
SIDE_BYTES_MAX: Final = 16_777_216
_SIDE_NAME: Final = re.compile(r"[0-9A-Za-z-]{1,100}\.json")
_TRANSCRIPTS: Final = ("agent_transcript_path",)
"""Fields that name a transcript other than the session's own."""


class Wake(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a hook."""

    agent: str
    ts_ms: int
    event: str | None = None
    session_id: str | None = None
    transcript_path: str | None = None
    cwd: str | None = None
    content: Any = None
    content_file: str | None = None
    """The file beside the spool with content that is too long for a line."""
    fault: str | None = None
    """What was wrong with the hook's input."""


class PermissionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A permission that was requested or denied, which no transcript records."""

    opening: SessionHeader
    event: ParsedEvent
    transcript: str | None
    """The session's transcript, which determines its scope."""


class _SpoolLine(Wake, frozen=True, kw_only=True):
    schema: str


_DECODER: Final = msgspec.json.Decoder(_SpoolLine)


def spooled_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a part of the spool that are not blank, each cut at a limit."""
    with path.open("rb") as stream:
        while line := stream.readline(LINE_BYTES_MAX + 1):
            text = line.strip(b" \t\r\n\0")
            while len(line) > LINE_BYTES_MAX and not line.endswith(b"\n"):
                line = stream.readline(LINE_BYTES_MAX + 1)
            if text:
                yield text


def read_wake(line: bytes) -> Wake:
    """Return the hook call in ``line``.

    Invalid UTF-8, lone surrogates and numbers that JSON does not have are repaired. Raises
    InvalidInput if it is not such a line, and whatever else a parser raises.
    """
    if len(line) > LINE_BYTES_MAX:
        raise InvalidInput("the line is too long", hint="see docs/how-to/capture-hooks.md")
    try:
        wake = _DECODER.decode(line)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            "not a line that a hook writes", hint="see docs/how-to/capture-hooks.md"
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        wake = _repaired(line)
    if wake.schema != SCHEMA:
        raise InvalidInput("not a line that a hook writes", hint="see docs/how-to/capture-hooks.md")
    return wake


def _repaired(line: bytes) -> _SpoolLine:
    value, _ = read_value(line)
    try:
        return msgspec.convert(value, _SpoolLine)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            "not a line that a hook writes", hint="see docs/how-to/capture-hooks.md"
        ) from error


def transcripts(wake: Wake) -> list[Path]:
    """Return the transcripts that a call names, existing or not."""
    more = wake.content if isinstance(wake.content, dict) else {}
    named = [wake.transcript_path, *(more.get(name) for name in _TRANSCRIPTS)]
    # An empty or relative path would depend on the drainer's working folder.
    return [
        Path(text).expanduser()
        for text in named
        if isinstance(text, str) and text.startswith(("/", "~/")) and "\0" not in text
    ]


def side_file(wake: Wake, folder: Path) -> Path | None:
    """Return the file with the content of a call, or None."""
    if wake.content_file is None:
        return None
    name = Path(wake.content_file).name
    # Hooks do not create other names, and some of them no file system allows.
    return folder / SIDE_FOLDER / name if _SIDE_NAME.fullmatch(name) else None


def decision(wake: Wake, folder: Path, guard: SecretGuard) -> PermissionDecision | None:
    """Return the decision in a call, with secrets masked; None if the call is not one."""
    if wake.event not in DECISIONS or not wake.session_id:
        return None
    content = _content(wake, folder)
    tool = content.get("tool_name")
    name = tool if isinstance(tool, str) and tool.strip() else "a tool"
    verdict = "denied" if wake.event == "PermissionDenied" else "asked"
    fields = {
        "decision": verdict,
        "tool": name,
        "input": content.get("tool_input"),
        "reason": content.get("reason"),
        "call_id": content.get("tool_use_id"),
        "mode": content.get("permission_mode"),
    }
    payload = _mapping(
        guard.mask_value({key: value for key, value in fields.items() if value is not None})
    )
    # The payload has them in full; refs are small.
    refs = {
        key: shorten(value)
        for key in ("decision", "tool", "call_id")
        if isinstance(value := payload.get(key), str) and value
    }
    session = guard.mask_text(wake.session_id)
    cwd = None if wake.cwd is None else guard.mask_text(wake.cwd)
    return PermissionDecision(
        opening=SessionHeader(session=session, agent=wake.agent, cwd=cwd),
        event=ParsedEvent(
            session=session,
            key=_key(wake, content),
            kind="ops.decision",
            summary=shorten(guard.mask_text(f"permission {verdict}: {name}")),
            ts_ms=max(1, wake.ts_ms),
            payload=payload,
            refs=refs,
        ),
        transcript=wake.transcript_path,
    )


def _content(wake: Wake, folder: Path) -> dict[str, Any]:
    path = side_file(wake, folder)
    if path is None:
        return _mapping(shallow(wake.content))
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as stream:
            return _mapping(shallow(read_value(stream.read(SIDE_BYTES_MAX))[0]))
    except (OSError, Unreadable):
        # Drained before, when the end of that was cut off; or never written completely.
        return {}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _key(wake: Wake, content: dict[str, Any]) -> str:
    """Return a key for a decision that is the same whenever its line is read."""
    identity = [wake.agent, wake.session_id, wake.event, wake.ts_ms, content]
    return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()[:32]


def note_decision(
    ledger: Ledger, decision: PermissionDecision, *, scope: str | None = None
) -> None:
    """Record a decision once, however often it is passed in."""
    opening, event = decision.opening, decision.event
    chosen = None if scope is None else parse_scope(scope)
    log_format = opening.agent
    # The notes know the scope of the session: a hook may run in another folder than its session.
    notes = NoteBuffer(ledger.importing.bookmarks(chosen or BOOKMARK_SCOPE))
    sessions = Sessions(
        LedgerBuffer(ledger, notes, dry_run=False), scope=chosen, format_name=log_format
    )
    where = sessions.scopes.find(event.session, opening)
    for _ in range(ATTEMPTS_MAX):
        events = sessions.open(
            where,
            event.session,
            opening,
            ts_ms=event.ts_ms,
            after=None,
            file=decision.transcript or "",
        )
        notes.write()
        try:
            ledger.importing.append_missing([waiting.event for waiting in events])
            break
        except (Conflict, DuplicateEvent):  # An import has opened it meanwhile.
            sessions.close(where, event.session)
    handle = ledger.session(
        sessions.name(event.session), scope=where, agent=sessions.agent(opening)
    )
    try:
        handle.record(
            event.kind,
            event.summary,
            payload=event.payload,
            refs=event.refs,
            event_id=sessions.ids.named(event.session, content_key(event.key)),
            ts_ms=event.ts_ms,
            origin=log_format,
        )
    except DuplicateEvent:
        return
