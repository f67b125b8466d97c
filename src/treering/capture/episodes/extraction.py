"""Extraction: the messages of OpenClaw's transcripts as lines of a spool.

Transcripts are read from where the last pass ended. A line is spooled before it is marked as read:
a pass that dies repeats a few lines, which their ids identify.
"""

from __future__ import annotations

import os
import re
from copy import copy
from datetime import UTC, datetime
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from treering.capture.episodes.bounds import is_dump
from treering.capture.episodes.files import (
    Fingerprint,
    WholeLines,
    fingerprint_of,
    load_state,
    locked,
    open_plain,
    save_state,
)
from treering.capture.episodes.lines import (
    BY_FIELD,
    ID_DIGITS,
    SPOOL_SCHEMA,
    NotJsonObject,
    read_object,
    split_scope,
    storable,
)
from treering.capture.intake.event_ids import named_id
from treering.capture.quarantine import Quarantine, reason_of
from treering.clock import now_ms
from treering.errors import InvalidScope, NotFound
from treering.files import OWNER_FILE, make_folder, sync_folder
from treering.formats import openclaw
from treering.model.codec import encode
from treering.model.fields import TIME_MS_MAX, instant
from treering.model.scopes import GLOBAL, Scope, parse_scope
from treering.spine.conversion import plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from treering.capture.episodes.files import FileLine
    from treering.capture.episodes.lines import ScopeRule
    from treering.capture.secrets import SecretGuard

SUMMARY_CHARACTERS_MIN: Final = 40
SUMMARY_CHARACTERS_MAX: Final = 400
DUMP: Final = "[REDACTED_TOOL_DUMP]"
"""Replaces a message that is really the output of a tool."""
_ENVELOPES: Final = r"Conversation info|Sender|Replied message|System \(untrusted\)"
_LEFT_OUT: Final = (
    re.compile(r"<relevant-memories>.*?</relevant-memories>", re.DOTALL),
    re.compile(
        r"<<<BEGIN_(OPENCLAW_INTERNAL_CONTEXT|UNTRUSTED_CHILD_RESULT)>>>.*?<<<END_\1>>>", re.DOTALL
    ),
    re.compile(
        rf"^(?:{_ENVELOPES})[^\n]*:[ \t]*\n```json\n.*?\n```[ \t]*$", re.DOTALL | re.MULTILINE
    ),
    re.compile(
        r"^\[Subagent Context\][^\n]*(?:\n```json\n.*?\n```[ \t]*)?$", re.DOTALL | re.MULTILINE
    ),
    re.compile(r"^[ \t]*(?:System \(untrusted\)|memory-policy):[^\n]*$", re.MULTILINE),
    re.compile(r"^[ \t]*\[?transcript-recall\b[^\n]*$", re.MULTILINE | re.IGNORECASE),
    re.compile(r"<\|[a-z_]{1,32}\|>|\[/?INST\]|<</?SYS>>|<<<(?:BEGIN|END)_[A-Z_]{1,64}>>>"),
    re.compile(r"^[ \t]*(?:NO_REPLY|AUDIO_AS_VOICE|MEDIA:[^\n]*)[ \t]*$", re.MULTILINE),
)
_BLANKS: Final = re.compile(r"[ \t]+$", re.MULTILINE)
_GAPS: Final = re.compile(r"\n{3,}")

BATCH_LINES_MAX: Final = 500
LOCK_PATIENCE_S: Final = 30.0
ERRORS_SAMPLE_MAX: Final = 5
SECONDS_MAX: Final = 100_000_000_000
"""Smaller numbers are seconds, unless the field's name says milliseconds."""
_TIMES: Final = ("ts_ms", "timestamp_ms", "tsMs", "timestamp", "ts")


class Extracted(msgspec.Struct, kw_only=True):
    """Counts of all passes over transcripts so far, never content."""

    files_seen: int = 0
    files_with_updates: int = 0
    lines_total: int = 0
    invalid_json: int = 0
    unsupported_rows: int = 0
    emitted: int = 0
    payload_redacted: int = 0
    payload_truncated: int = 0
    sanitized_dropped: int = 0
    trailing_partial_bytes: int = 0
    ignored_files: int = 0
    errors_sample: list[str] = []
    iterations: int = 0
    mended: int = 0
    """Lines of invalid JSON that were repaired."""

    def fault(self, position: str, reason: str) -> None:
        """Note a fault, up to a limit."""
        if len(self.errors_sample) < ERRORS_SAMPLE_MAX:
            self.errors_sample.append(f"{position}:{reason}")


class TextLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The largest payload and summary of a message."""

    payload_bytes: int
    summary_characters: int


class SpoolExtractor:
    """Writes the messages below ``root`` to a spool; ``key`` protects the hashes in its state."""

    def __init__(
        self,
        root: Path,
        spool: Path,
        state: Path,
        *,
        guard: SecretGuard,
        key: Callable[[], bytes],
        limits: TextLimits,
        scope_rule: ScopeRule = BY_FIELD,
        quarantine: Quarantine | None = None,
    ) -> None:
        self._root = root
        self._spool = spool
        self._state = state
        self._guard = guard
        self._key = key
        self._payload_cap = limits.payload_bytes
        self._summary_characters = limits.summary_characters
        self._scope = scope_rule.scope
        self._allows_markers = scope_rule.allows_markers
        self._quarantine = quarantine

    def once(self, done: Extracted) -> None:
        """Extract everything new, and count it in ``done``. Raises NotFound without a root."""
        if not self._root.is_dir():
            raise NotFound(
                f"no transcripts at {self._root}", hint="set the folder with --sessions-root"
            )
        make_folder(self._spool.parent)
        with locked(self._spool, patience_s=LOCK_PATIENCE_S):
            state = load_state(self._state, ExtractState) or ExtractState()
            paths, done.ignored_files = transcripts(self._root)
            done.files_seen = len(paths)
            done.trailing_partial_bytes = 0
            done.iterations += 1
            by_inode = {
                previous.inode: previous
                for previous in state.files.values()
                if previous.inode is not None
            }
            owners = Owners(self._scope)
            files: dict[str, FileState] = {}
            for path in paths:
                name = plain(str(path))
                previous = state.files.get(name)
                try:
                    # A renamed transcript continues from where it was, whatever its name.
                    previous = by_inode.get(path.stat().st_ino) or previous
                    current = FileState() if previous is None else copy(previous)
                    self._read(path, current, owners.of(path), done)
                    files[name] = current
                except (FileNotFoundError, NotFound):
                    done.ignored_files += 1
                    done.fault(name, "vanished")
                except PermissionError:
                    # An unreadable transcript must not stop the others.
                    done.ignored_files += 1
                    done.fault(name, "may_not_be_read")
                    if previous is not None:
                        files[name] = previous
            state.schema = ExtractState().schema
            state.sessions_root, state.files = plain(str(self._root)), files
            state.updated_at = instant(now_ms())
            save_state(self._state, state)

    def _read(
        self, path: Path, position: FileState, owner: TranscriptOwner, done: Extracted
    ) -> None:
        with open_plain(path) as stream:
            position.settle(stream, self._key)
            status = os.fstat(stream.fileno())
            position.last_ts_ms = position.last_ts_ms or max(1, status.st_mtime_ns // 1_000_000)
            lines = WholeLines(stream, position.offset, status.st_size)
            batch: list[bytes] = []
            before = done.lines_total
            for line in lines:
                spooled = self._spooled(path, line, position, owner, done)
                if spooled is not None:
                    batch.append(spooled)
                if len(batch) >= BATCH_LINES_MAX:
                    done.emitted += self._write(batch)
                    batch.clear()
            done.emitted += self._write(batch)
            done.files_with_updates += done.lines_total > before
            done.trailing_partial_bytes += lines.trailing
            if self._quarantine is not None:
                self._quarantine.flush()
            if (
                lines.offset != position.offset
                or position.print is None
                or not position.print.is_keyed
            ):
                now = instant(now_ms())
                position.reached(stream, lines.offset, now, key=self._key())

    def _spooled(
        self,
        path: Path,
        line: FileLine,
        position: FileState,
        owner: TranscriptOwner,
        done: Extracted,
    ) -> bytes | None:
        """Return the spool line for a line of a transcript, or None."""
        if not line.too_long and not line.body.strip():
            return None
        done.lines_total += 1
        try:
            row, mended = read_object(line)
            event = self._event(path, line, row, position, owner, done)
            # File names may contain bytes that no encoding allows.
            spooled = None if event is None else encode(storable(event)) + b"\n"
        except (OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  (one line must not hold up later ones)
            done.invalid_json += 1
            reason = str(error) if isinstance(error, NotJsonObject) else reason_of(error)
            done.fault(plain(f"{path}@{line.start}"), self._guard.mask_text(reason))
            if self._quarantine is not None:
                self._quarantine.add(reason, line.body, offset=line.start, source=plain(str(path)))
            return None
        done.mended += mended
        return spooled

    def _event(
        self,
        path: Path,
        line: FileLine,
        row: dict[str, Any],
        position: FileState,
        owner: TranscriptOwner,
        done: Extracted,
    ) -> dict[str, Any] | None:
        position.last_ts_ms = _time(row) or position.last_ts_ms
        message = message_in(row)
        if message is None:
            done.unsupported_rows += 1
            return None
        kind = f"conversation.{message[0]}"
        scope, text = self._scoped(row, message[1], owner)
        text = cleaned(text)
        if not text:
            done.sanitized_dropped += 1
            return None
        session = _named(row, "sessionKey", "session_id", "session") or owner.session
        event: dict[str, Any] = {
            "schema": SPOOL_SCHEMA,
            "event_id": _event_id(path, line, row, session, kind),
            "ts_ms": position.last_ts_ms,
            "scope": scope,
            "session_id": session,
            "agent_id": _named(row, "agentId", "agent_id") or owner.agent or AGENT,
            "type": kind,
            "refs": {
                "source": "session_jsonl_tail",
                "path": str(path),
                "offset": line.start,
                **owner.links,
            },
        }
        return event | self._content(kind, text, done)

    def _scoped(self, row: dict[str, Any], text: str, owner: TranscriptOwner) -> tuple[str, str]:
        """Return the scope and text of a row; a row may name its scope only if this is allowed."""
        if not self._allows_markers:
            return owner.scope, text
        marked, rest = _split(text)
        if self._scope is not None:
            return self._scope, rest
        return _named(row, "scope") or marked or owner.scope, rest

    def _content(self, kind: str, text: str, done: Extracted) -> dict[str, Any]:
        if is_dump(text):
            done.payload_redacted += 1
            return {"summary": f"{kind}: {DUMP}", "payload": None, "redacted": True}
        masked = self._guard.mask_text(text)
        payload, was_cut = payload_of(masked, self._payload_cap)
        done.payload_redacted += masked != text
        done.payload_truncated += was_cut
        return {"summary": summary_of(kind, masked, self._summary_characters), "payload": payload}

    def _write(self, lines: list[bytes]) -> int:
        """Append ``lines`` to the spool durably; return their number."""
        if not lines:
            return 0
        is_new = not self._spool.exists()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        descriptor = os.open(self._spool, flags, OWNER_FILE)
        try:
            size = os.fstat(descriptor).st_size
            # A line that another writer left unfinished must not absorb ours.
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            body = b"\n" * torn + b"".join(lines)
            while body:
                body = body[os.write(descriptor, body) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            sync_folder(self._spool.parent)
        return len(lines)


def _event_id(path: Path, line: FileLine, row: dict[str, Any], session: str, kind: str) -> str:
    # A row's own id survives moves and compactions of its file, and is also the id under which an
    # import of the same log records it.
    own = _named(row, "id")
    if own:
        return named_id(openclaw.NAME, session, own)
    # Never from its text, which could be guessed from an id after it is erased.
    position = f"{path}:{line.start}:{kind}:{_time(row)}"
    return f"ep-{sha256(position.encode(errors='replace')).hexdigest()[:ID_DIGITS]}"


def _named(row: dict[str, Any], *names: str) -> str | None:
    values = (row.get(name) for name in names)
    return next(
        (value.strip() for value in values if isinstance(value, str) and value.strip()), None
    )


def _split(text: str) -> tuple[Scope | None, str]:
    try:
        return split_scope(text)
    except InvalidScope:
        # Leave it in the text, where it is visible.
        return None, text


def _time(row: dict[str, Any]) -> int | None:
    """Return the time of a row in milliseconds since 1970."""
    message = row.get("message")
    for fields in (row, message if isinstance(message, dict) else {}):
        for name in _TIMES:
            ts_ms = _instant(fields.get(name), name)
            if ts_ms is not None:
                return ts_ms
    return None


def _instant(value: Any, name: str) -> int | None:
    if isinstance(value, str) and not value.strip().isdigit():
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000
    try:
        number = round(float(value))
    except (TypeError, ValueError, OverflowError):
        return None
    if number < SECONDS_MAX and name in {"timestamp", "ts"}:
        number *= 1_000
    return number if 0 < number <= TIME_MS_MAX else None


def message_in(row: dict[str, Any]) -> tuple[str, str] | None:
    """Return the role and the text of a transcript's row, or None if it is not a message."""
    message = row.get("message")
    fields = message if isinstance(message, dict) else row
    role = fields.get("role")
    if role not in ("user", "assistant") or fields.get("model") == "delivery-mirror":
        return None
    content = fields.get("content")
    if isinstance(content, str):
        return (role, content) if content.strip() else None
    if not isinstance(content, list):
        return None
    texts = [
        block["text"]
        for block in content
        if isinstance(block, dict)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
    ]
    return (role, "\n".join(texts)) if any(text.strip() for text in texts) else None


def cleaned(text: str) -> str:
    """Return ``text`` without additions; empty if nothing remains."""
    plain = text.replace("\r\n", "\n")
    for pattern in _LEFT_OUT:
        plain = pattern.sub("", plain)
    return _GAPS.sub("\n\n", _BLANKS.sub("", plain)).strip()


def summary_of(kind: str, text: str, characters: int) -> str:
    """Return ``text`` on one line after its kind, cut to ``characters``."""
    line = " ".join(text.split())
    most = min(max(SUMMARY_CHARACTERS_MIN, characters), SUMMARY_CHARACTERS_MAX)
    return f"{kind}: {line if len(line) <= most else line[: most - 1].rstrip() + '…'}"


def payload_of(text: str, cap: int) -> tuple[dict[str, Any], bool]:
    """Return ``text`` as a payload within ``cap`` bytes, and whether it was cut."""
    whole: dict[str, Any] = {"text": text}
    size = len(encode(whole))
    if size <= cap:
        return whole, False
    mark = {"_truncated": True, "original_bytes": size}
    # Escapes make JSON longer than its text; a few steps find a length that fits.
    shortened = text[:cap]
    while len(encode({"text": f"{shortened}…", **mark})) > cap:
        shortened = shortened[: int(len(shortened) * 0.9)]
    return {"text": f"{shortened}…", **mark}, True


STATE_SCHEMA: Final = "treering.episodes.extract.state.v1"
STORE: Final = "sessions.json"
STORE_BYTES_MAX: Final = 16 * 1024 * 1024
AGENT: Final = "main"
"""The default agent."""
_REPLAYS: Final = (".checkpoint.", ".bak", ".trajectory.")
"""Parts of the names of files that repeat others."""
_PUT_ASIDE: Final = (".jsonl.reset.", ".jsonl.deleted.")


class FileState(msgspec.Struct, kw_only=True):
    """The read position of one transcript."""

    offset: int = 0
    inode: int | None = None
    size: int = 0
    updated_at: str | None = None
    last_ts_ms: int | None = None
    print: Fingerprint | None = None

    def settle(self, stream: IO[bytes], key: Callable[[], bytes]) -> None:
        """Restart at the beginning if the file was replaced or rewritten."""
        status = os.fstat(stream.fileno())
        is_same = (
            self.inode in {None, status.st_ino}
            and status.st_size >= self.offset
            and (self.print is None or self.print.fits(stream, key))
        )
        if not is_same:
            self.offset, self.last_ts_ms = 0, None
        self.inode = status.st_ino

    def reached(self, stream: IO[bytes], offset: int, at: str, *, key: bytes) -> None:
        """Note that everything before ``offset`` is in the spool."""
        self.offset, self.updated_at = offset, at
        self.size = os.fstat(stream.fileno()).st_size
        self.print = fingerprint_of(stream, offset, key)


class ExtractState(msgspec.Struct, kw_only=True):
    """The read positions of all transcripts."""

    schema: str = STATE_SCHEMA
    sessions_root: str = ""
    files: dict[str, FileState] = {}
    updated_at: str | None = None


def default_root() -> Path:
    """Return the folder of OpenClaw's agents, each with its sessions."""
    return openclaw.home() / "agents"


def transcripts(root: Path) -> tuple[list[Path], int]:
    """Return the transcripts below ``root``, sorted, and the number of ignored files."""
    paths: list[Path] = []
    ignored = 0
    for path in sorted(root.rglob("*.jsonl*")):
        name = path.name
        is_log = name.endswith(".jsonl") or any(part in name for part in _PUT_ASIDE)
        if not is_log or any(part in name for part in _REPLAYS) or name.startswith(STORE):
            ignored += 1
        elif path.is_file():
            paths.append(path)
    return paths, ignored


class TranscriptOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a transcript, from its path and the session index beside it."""

    session: str
    agent: str | None
    scope: Scope
    links: dict[str, str] = {}


class Owners:
    """Looks up the owners of transcripts; each session index is read once."""

    def __init__(self, scope: Scope | None) -> None:
        self._scope = scope
        self._stores: dict[Path, dict[str, dict[str, Any]]] = {}

    def of(self, path: Path) -> TranscriptOwner:
        """Return the owner of the transcript at ``path``."""
        stem = path.name.partition(".jsonl")[0]
        entry = self._store(path.parent).get(stem.partition("-topic-")[0], {})
        key = entry.get("key")
        agent = _agent_of_key(key) or _agent_of_path(path)
        links = {
            name: value
            for name, value in (("session_key", key), ("channel", entry.get("channel")))
            if isinstance(value, str) and value
        }
        scope = self._scope or _scope_of(agent)
        return TranscriptOwner(session=stem, agent=agent, scope=scope, links=links)

    def _store(self, folder: Path) -> dict[str, dict[str, Any]]:
        store = self._stores.get(folder)
        if store is None:
            store = self._stores[folder] = _read_store(folder / STORE)
        return store


def _read_store(path: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of a session index by session id; empty if it cannot be read."""
    try:
        if path.stat().st_size > STORE_BYTES_MAX:
            return {}
        index = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    entries = index.items() if isinstance(index, dict) else ()
    return {
        entry["sessionId"]: {**entry, "key": key}
        for key, entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("sessionId"), str)
    }


def _agent_of_key(key: Any) -> str | None:
    parts = key.split(":") if isinstance(key, str) else []
    return parts[1] if len(parts) > 2 and parts[0] == "agent" and parts[1] else None


def _agent_of_path(path: Path) -> str | None:
    parts = path.parts
    # …/agents/<agent>/sessions/<session>.jsonl
    if len(parts) >= 4 and parts[-2] == "sessions" and parts[-4] == "agents":
        return parts[-3]
    return None


def _scope_of(agent: str | None) -> Scope:
    if agent is None:
        return GLOBAL
    try:
        return parse_scope(f"openclaw/{agent}")
    except InvalidScope:
        return GLOBAL
