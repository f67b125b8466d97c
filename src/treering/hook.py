"""``treering-hook``: tells Treering, from within another agent, that something has happened there.

An agent waits for its hooks, so this one imports next to nothing, writes one line to the spool and
is gone. It never disturbs: whatever goes wrong, it prints ``{}`` and ends well.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import select
import signal
import sys
import time

SCHEMA = "treering.spool.v1"
SPOOL_VARIABLE = "TREERING_SPOOL"
LINE_BYTES_MAX = 65_536
"""A longer line's content goes to a file beside it."""
READ_BYTES_MAX = 4_194_304
"""So much of the input is looked at; the rest is read and dropped."""
READ_S_MAX = 2.0
WHOLE_S_MAX = 3.0
"""After that it ends, come what may: a disk that hangs must not hold up an agent."""
SPOOL_BYTES_MAX = 67_108_864
"""A spool that nobody drains grows no further; the transcripts have it all."""
LOG_BYTES_MAX = 262_144
TRIES_MAX = 20
LEFT_OUT_MAX = 64
NAME_CHARACTERS_MAX = 200
PLACE_CHARACTERS_MAX = 8_192
"""A longer path or session id is not one."""
SIDE_FOLDER = "side"
SUFFIX = ".jsonl"

DECISIONS = frozenset({"PermissionRequest", "PermissionDenied"})
"""Hooks that tell what no transcript does."""
_PLACES = ("session_id", "transcript_path", "cwd")
_KEPT = frozenset({"permission_mode", "agent_transcript_path"})
_KEPT_OF_DECISIONS = _KEPT | {"tool_name", "tool_input", "tool_use_id", "reason"}
"""Fields that are read later: what is not copied need not be kept safe."""
LEVELS_MAX = 48
"""Deeper values are left out: a ledger holds 64 levels, with those around them."""
TOO_DEEP = "[TRUNCATED_DEPTH]"
MASK_S_MAX = 1.5
"""What cannot be masked in that time is not written down."""
_CHUNK = 1_048_576
_BLANK = re.compile(r"[ \t\r\n]*")


def main() -> None:
    """Take one call of a hook, as ``treering-hook AGENT``, and exit with 0."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, WHOLE_S_MAX)
        _answer()
        _tell(sys.argv[1] if len(sys.argv) > 1 else "")
    except BaseException as error:  # noqa: BLE001  (an agent must never see a hook fail)
        _complain(error)
    os._exit(0)


def spool_folder() -> str:
    """Return the folder of the spool: ``TREERING_SPOOL``, else one in the user's state folder."""
    named = os.environ.get(SPOOL_VARIABLE)
    if named and named.strip():
        return os.path.expanduser(named)  # noqa: PTH111  (pathlib costs more than all of this)
    return os.path.join(state_folder(), "spool")  # noqa: PTH118


def state_folder() -> str:
    """Return where Treering keeps what it could make again."""
    state = os.environ.get("XDG_STATE_HOME", "").strip()
    if not state:
        mac = sys.platform == "darwin"
        state = os.path.expanduser("~/Library/Application Support" if mac else "~/.local/state")  # noqa: PTH111
    return os.path.join(state, "treering")  # noqa: PTH118


def _answer() -> None:
    # First of all, so that it is said whatever comes; and as JSON, which every agent takes.
    try:
        os.write(1, b"{}\n")
    except OSError:
        return


def _tell(agent: str) -> None:
    folder = spool_folder()
    body, size = _read()
    fields, fault = _parse(body, whole=size == len(body))
    line = _line(agent, fields, fault)
    if line["event"] in DECISIONS:
        _mask(line)
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    encoded = _encode(line)
    if len(encoded) > LINE_BYTES_MAX:
        line["content_file"] = _put_aside(folder, _encode(line["content"]))
        line["content"] = None
        encoded = _encode(line)
    _append(os.path.join(folder, _host() + SUFFIX), encoded)  # noqa: PTH118


def _read() -> tuple[bytes, int]:
    """Return the beginning of standard input, and how long it was. All of it is taken in."""
    deadline = time.monotonic() + READ_S_MAX
    chunks = []
    size = kept = 0
    try:
        while select.select([0], [], [], max(0.0, deadline - time.monotonic()))[0]:
            chunk = os.read(0, _CHUNK)
            if not chunk:
                break
            size += len(chunk)
            if kept < READ_BYTES_MAX:
                chunks.append(chunk[: READ_BYTES_MAX - kept])
                kept += len(chunks[-1])
    except (OSError, ValueError):
        # Closed: there is nothing to read, which is worth a line as well.
        pass
    return b"".join(chunks), size


def _parse(body: bytes, *, whole: bool) -> tuple[dict[str, object], str | None]:
    """Return the fields of the input, as many as can be read, and what is wrong with it."""
    text = body.decode("utf-8", "replace").lstrip("\ufeff")
    if not text.strip():
        return {}, "empty"
    decoder = json.JSONDecoder(parse_constant=str)
    if whole:
        try:
            value = decoder.decode(text)
        except (ValueError, RecursionError):
            return _first_fields(decoder, text), "not JSON"
        return (value, None) if isinstance(value, dict) else ({}, "no object")
    return _first_fields(decoder, text), "too long"


def _first_fields(decoder: json.JSONDecoder, text: str) -> dict[str, object]:
    """Return the fields before the place where ``text`` stops being JSON."""
    fields: dict[str, object] = {}
    at = _behind_blanks(text, 0)
    opening = "{"
    try:
        while text[at] == opening:
            name, at = decoder.raw_decode(text, _behind_blanks(text, at + 1))
            at = _behind_blanks(text, at)
            if text[at] != ":" or not isinstance(name, str):
                break
            value, at = decoder.raw_decode(text, _behind_blanks(text, at + 1))
            fields[name] = value
            at = _behind_blanks(text, at)
            opening = ","
    except (ValueError, IndexError, RecursionError):
        return fields
    return fields


def _behind_blanks(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _line(agent: str, fields: dict[str, object], fault: str | None) -> dict[str, object]:
    event = _text(fields.get("hook_event_name"))
    kept = _KEPT_OF_DECISIONS if event in DECISIONS else _KEPT
    line: dict[str, object] = {
        "schema": SCHEMA,
        "agent": agent if re.fullmatch(r"[a-z][a-z0-9-]{0,39}", agent) else "unknown",
        "ts_ms": time.time_ns() // 1_000_000,
        "event": event,
    }
    line |= {name: _text(fields.get(name)) for name in _PLACES}
    line["content"] = {name: shallow(fields[name]) for name in fields if name in kept}
    left_out = [
        name[:NAME_CHARACTERS_MAX]
        for name in fields
        if name not in kept and name not in _PLACES and name != "hook_event_name"
    ]
    if left_out:
        line["left_out"] = left_out[:LEFT_OUT_MAX]
    if fault:
        line["fault"] = fault
    return line


def shallow(value: object, levels: int = LEVELS_MAX) -> object:
    """Return ``value`` with what lies deeper than so many levels left out, and marked."""
    if not isinstance(value, dict | list):
        return value
    if levels <= 0:
        return TOO_DEEP
    if isinstance(value, dict):
        return {key: shallow(item, levels - 1) for key, item in value.items()}
    return [shallow(item, levels - 1) for item in value]


def _mask(line: dict[str, object]) -> None:
    """Mask what a permission is asked for; leave it out if that fails or takes too long.

    A person is about to be asked, so the time to load the rules is not felt. All other calls
    carry nothing to mask.
    """

    def stop(*_: object) -> None:
        raise TimeoutError

    left, _ = signal.setitimer(signal.ITIMER_REAL, MASK_S_MAX)
    exits = signal.signal(signal.SIGALRM, stop)
    content = line["content"]
    try:
        from treering.capture.secrets import SecretGuard  # noqa: PLC0415  (for these calls alone)
        from treering.config import mask_key  # noqa: PLC0415

        guard = SecretGuard(key=mask_key)
        for name in ("session_id", "cwd"):
            if isinstance(line[name], str):
                line[name] = guard.mask_text(str(line[name]))
        line["content"] = guard.mask_value(content)  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001
        line["content"] = {}
        line["fault"] = "cannot be masked"
        _complain(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, max(left - MASK_S_MAX, 0.5))
        signal.signal(signal.SIGALRM, exits)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= PLACE_CHARACTERS_MAX else None


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _put_aside(folder: str, content: bytes) -> str:
    """Write ``content`` to a file of its own, and return its name."""
    os.makedirs(os.path.join(folder, SIDE_FOLDER), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH118
    name = f"{time.time_ns()}-{os.getpid()}.json"
    path = os.path.join(folder, SIDE_FOLDER, name)  # noqa: PTH118
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)
    return name


def _append(path: str, line: bytes) -> None:
    """Write one line to the end of the spool.

    Whoever drains it moves the file away, then waits for those who have it locked. So a line goes
    into a file that is locked and still has its name, or the file is opened anew.
    """
    # A line begins a new one, too: it is never welded to one that a full disk cut short.
    line = b"\n" + line + b"\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    for tried in range(TRIES_MAX):
        descriptor = os.open(path, flags, 0o600)
        try:
            if _is_ours(descriptor, path) or tried == TRIES_MAX - 1:
                if os.fstat(descriptor).st_size > SPOOL_BYTES_MAX:
                    raise OSError(errno.EFBIG, "nobody drains the spool")
                if os.write(descriptor, line) < len(line):
                    raise OSError(errno.ENOSPC, "only a part of the line was written")
                return
        finally:
            os.close(descriptor)
        time.sleep(0.005)


def _is_ours(descriptor: int, path: str) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError:
        # A disk without locks; then the name alone has to do.
        return True


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "-", os.uname().nodename)[:100].lstrip(".") or "host"


def _complain(error: BaseException) -> None:
    """Note an error in the log beside the spool, else on standard error."""
    # Its text may quote what was read; its type and place do not.
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    number = f" {error.errno}" if isinstance(error, OSError) else ""
    where = f" at line {at.tb_lineno}" if at else ""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    text = f"{stamp} treering-hook: {type(error).__name__}{number}{where}\n"
    try:
        path = os.path.join(spool_folder(), "hook.log")  # noqa: PTH118
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            if os.fstat(descriptor).st_size < LOG_BYTES_MAX:
                os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except Exception:  # noqa: BLE001
        _whisper(text)


def _whisper(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except Exception:  # noqa: BLE001
        return


if __name__ == "__main__":
    main()
