"""``treering-hook``: reports events of another agent to Treering, from within that agent.

An agent waits for its hooks, so this one imports next to nothing, writes one line to the spool and
exits. It never disturbs the agent: whatever fails, it prints ``{}`` and exits with 0.
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
"""The content of a longer line goes to a file beside it."""
READ_BYTES_MAX = 4_194_304
"""The part of the input that is parsed; the rest is read and dropped."""
READ_S_MAX = 2.0
WHOLE_S_MAX = 3.0
"""The limit for everything: a disk that hangs must not hold up an agent."""
SPOOL_BYTES_MAX = 67_108_864
"""A spool that nobody drains stops growing here; the transcripts still have everything."""
LOG_BYTES_MAX = 262_144
TRIES_MAX = 20
LEFT_OUT_MAX = 64
NAME_CHARACTERS_MAX = 200
PLACE_CHARACTERS_MAX = 8_192
"""A longer value is not a path or a session id."""
SIDE_FOLDER = "side"
SUFFIX = ".jsonl"

DECISIONS = frozenset({"PermissionRequest", "PermissionDenied"})
"""Hooks with information that no transcript has."""
_PLACES = ("session_id", "transcript_path", "cwd")
_KEPT = frozenset({"permission_mode", "agent_transcript_path"})
_KEPT_OF_DECISIONS = _KEPT | {"tool_name", "tool_input", "tool_use_id", "reason"}
"""Fields that are read later; fields that are not copied need no protection."""
LEVELS_MAX = 48
"""Deeper values are left out: a ledger allows 64 levels, including the enclosing ones."""
TOO_DEEP = "[TRUNCATED_DEPTH]"
MASK_S_MAX = 1.5
"""Content that cannot be masked in this time is not written."""
_CHUNK = 1_048_576
_BLANK = re.compile(r"[ \t\r\n]*")


def main() -> None:
    """Handle one call of a hook, as ``treering-hook AGENT``, and exit with 0."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, WHOLE_S_MAX)
        _answer()
        _record(sys.argv[1] if len(sys.argv) > 1 else "")
    except BaseException as error:  # noqa: BLE001  (an agent must never see a hook fail)
        _log_error(error)
    os._exit(0)


def spool_folder() -> str:
    """Return the folder of the spool: ``TREERING_SPOOL``, else one in the user's state folder."""
    named = os.environ.get(SPOOL_VARIABLE)
    if named and named.strip():
        return os.path.expanduser(named)  # noqa: PTH111  (importing pathlib costs more than the rest of the hook)
    return os.path.join(state_folder(), "spool")  # noqa: PTH118


def state_folder() -> str:
    """Return the folder for state that Treering can recreate."""
    state = os.environ.get("XDG_STATE_HOME", "").strip()
    if not state:
        mac = sys.platform == "darwin"
        state = os.path.expanduser("~/Library/Application Support" if mac else "~/.local/state")  # noqa: PTH111
    return os.path.join(state, "treering")  # noqa: PTH118


def _answer() -> None:
    # Answer first, so that the agent gets it whatever follows; every agent accepts JSON.
    try:
        os.write(1, b"{}\n")
    except OSError:
        return


def _record(agent: str) -> None:
    folder = spool_folder()
    body, size = _read()
    fields, fault = _parse(body, whole=size == len(body))
    line = _line(agent, fields, fault)
    if line["event"] in DECISIONS:
        _mask(line)
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    encoded = _encode(line)
    if len(encoded) > LINE_BYTES_MAX:
        line["content_file"] = _write_side_file(folder, _encode(line["content"]))
        line["content"] = None
        encoded = _encode(line)
    _append(os.path.join(folder, _host() + SUFFIX), encoded)  # noqa: PTH118


def _read() -> tuple[bytes, int]:
    """Return the beginning of standard input and its length; all of it is read."""
    deadline = time.monotonic() + READ_S_MAX
    chunks = []
    size = bytes_kept = 0
    try:
        while select.select([0], [], [], max(0.0, deadline - time.monotonic()))[0]:
            chunk = os.read(0, _CHUNK)
            if not chunk:
                break
            size += len(chunk)
            if bytes_kept < READ_BYTES_MAX:
                chunks.append(chunk[: READ_BYTES_MAX - bytes_kept])
                bytes_kept += len(chunks[-1])
    except (OSError, ValueError):
        # Closed: there is nothing to read, which is recorded as well.
        pass
    return b"".join(chunks), size


def _parse(body: bytes, *, whole: bool) -> tuple[dict[str, object], str | None]:
    """Return the fields of the input that can be read, and its fault, if any."""
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
    """Return the fields before the point where ``text`` stops being JSON."""
    fields: dict[str, object] = {}
    at = _skip_blanks(text, 0)
    opening = "{"
    try:
        while text[at] == opening:
            name, at = decoder.raw_decode(text, _skip_blanks(text, at + 1))
            at = _skip_blanks(text, at)
            if text[at] != ":" or not isinstance(name, str):
                break
            value, at = decoder.raw_decode(text, _skip_blanks(text, at + 1))
            fields[name] = value
            at = _skip_blanks(text, at)
            opening = ","
    except (ValueError, IndexError, RecursionError):
        return fields
    return fields


def _skip_blanks(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _line(agent: str, fields: dict[str, object], fault: str | None) -> dict[str, object]:
    event = _text(fields.get("hook_event_name"))
    allowed = _KEPT_OF_DECISIONS if event in DECISIONS else _KEPT
    line: dict[str, object] = {
        "schema": SCHEMA,
        "agent": agent if re.fullmatch(r"[a-z][a-z0-9-]{0,39}", agent) else "unknown",
        "ts_ms": time.time_ns() // 1_000_000,
        "event": event,
    }
    line |= {name: _text(fields.get(name)) for name in _PLACES}
    line["content"] = {name: shallow(fields[name]) for name in fields if name in allowed}
    left_out = [
        name[:NAME_CHARACTERS_MAX]
        for name in fields
        if name not in allowed and name not in _PLACES and name != "hook_event_name"
    ]
    if left_out:
        line["left_out"] = left_out[:LEFT_OUT_MAX]
    if fault:
        line["fault"] = fault
    return line


def shallow(value: object, levels: int = LEVELS_MAX) -> object:
    """Return ``value`` with deeper levels replaced by a mark."""
    if not isinstance(value, dict | list):
        return value
    if levels <= 0:
        return TOO_DEEP
    if isinstance(value, dict):
        return {key: shallow(item, levels - 1) for key, item in value.items()}
    return [shallow(item, levels - 1) for item in value]


def _mask(line: dict[str, object]) -> None:
    """Mask the content of a permission request; remove it if that fails or takes too long.

    A person is about to be asked, so the time to load the rules goes unnoticed. Other calls carry
    nothing to mask.
    """

    def stop(*_: object) -> None:
        raise TimeoutError

    left, _ = signal.setitimer(signal.ITIMER_REAL, MASK_S_MAX)
    began = time.monotonic()
    exits = signal.signal(signal.SIGALRM, stop)
    content = line["content"]
    try:
        from treering.capture.secrets import SecretGuard  # noqa: PLC0415  (only for these calls)
        from treering.config import mask_key  # noqa: PLC0415

        guard = SecretGuard(key=mask_key)
        for name in ("session_id", "cwd"):
            if isinstance(line[name], str):
                line[name] = guard.mask_text(str(line[name]))
        line["content"] = guard.mask_value(content)  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001
        line["content"] = {}
        line["fault"] = "cannot be masked"
        _log_error(error)
    finally:
        # What masking did not need is there for the rest; on a busy machine that takes a while.
        signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 0.5))
        signal.signal(signal.SIGALRM, exits)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= PLACE_CHARACTERS_MAX else None


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _write_side_file(folder: str, content: bytes) -> str:
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
    """Append one line to the spool.

    The drainer moves the file away, then waits for the locks on it. So a line is only written to a
    file that is locked and still has its name; otherwise the file is opened again.
    """
    # Start with a newline, so that the line is not joined to one that a full disk cut short.
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
        # The file system has no locks; then checking the name must do.
        return True


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "-", os.uname().nodename)[:100].lstrip(".") or "host"


def _log_error(error: BaseException) -> None:
    """Write an error to the log beside the spool, else to standard error."""
    # Its text may quote the input; its type and line do not.
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
        _print_error(text)


def _print_error(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except Exception:  # noqa: BLE001
        return


if __name__ == "__main__":
    main()
