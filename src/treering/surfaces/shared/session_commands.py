"""Commands that lead to a session: one shows it, one resumes it in its agent."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import KeyMissing, TreeringError
from treering.model.kinds import IMPORTED
from treering.model.scopes import GLOBAL, Scope

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger

_RESUMED: Final = {
    "claude-code": "claude --resume {id}",
    "codex": "codex resume {id}",
    "gemini": "gemini --resume {id}",
    "pi": "pi --session {file}",
}
"""How agents resume a session; the others cannot."""
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session was taken from."""

    format: str
    file: str | None = None
    cwd: str | None = None
    """The folder that it worked in."""

    @property
    def is_there(self) -> bool | None:
        """Whether its log is still where it was; None if that is unknown."""
        if self.file is None:
            return None
        try:
            return Path(self.file).is_file()
        except (OSError, ValueError):
            return False


def scope_flag(scope: Scope) -> str:
    """Return the option that names a scope, fit for a shell."""
    return "--global" if scope == GLOBAL else f"--scope {shlex.quote(scope)}"


def show_command(scope: Scope, session_id: str) -> str:
    """Return the command that shows a session."""
    return f"treering show {_argument(session_id)} {scope_flag(scope)}"


def origin_of(ledger: Ledger, scope: Scope, session_id: str) -> Origin | None:
    """Return where a session was taken from; None if it was not, or that was erased."""
    with contextlib.suppress(KeyMissing):
        page = ledger.events(scope, session_id=session_id, kinds=[IMPORTED], first=1)
        for event in page.items:
            payload: dict[str, Any] = event.payload if isinstance(event.payload, dict) else {}
            log_format = (event.refs or {}).get("format")
            return Origin(
                format=log_format if isinstance(log_format, str) else event.agent_id,
                file=_text(payload.get("file")),
                cwd=_text(payload.get("cwd")),
            )
    return None


def resuming(
    origin: Origin, scope: Scope, session_id: str, *, parent: str | None
) -> tuple[str | None, str | None]:
    """Return the command that resumes a session in its agent, or why there is none.

    A subagent's session is resumed in its parent.
    """
    shape = _RESUMED.get(origin.format)
    if shape is None or (parent is not None and origin.format == "pi"):
        return None, None
    if origin.is_there is False:
        return None, _gone(origin, scope, session_id)
    resumed = parent or session_id
    if origin.format == "claude-code" and _UUID.fullmatch(resumed) is None:
        return None, f"claude-code can only resume UUIDs, and {resumed} is not one"
    command = shape.format(id=_argument(resumed), file=shlex.quote(origin.file or ""))
    folder = origin.cwd or _folder_in(origin)
    if folder is None:
        return command, None
    if not _is_folder(folder):
        return None, f"{folder} does not exist here, so {origin.format} cannot resume it"
    return f"cd {shlex.quote(folder)} && {command}", None


def _gone(origin: Origin, scope: Scope, session_id: str) -> str:
    gone = f"its log is gone, so {origin.format} cannot resume it"
    if origin.format != "claude-code":
        return gone
    written = f"treering export {_argument(session_id)} {scope_flag(scope)} --format claude-code"
    return f"{gone}; this writes it again: {written}"


def _is_folder(folder: str) -> bool:
    try:
        return Path(folder).is_dir()
    except (OSError, ValueError):
        return False


def _folder_in(origin: Origin) -> str | None:
    """Return the folder that a log names at its beginning."""
    if origin.file is None or not origin.is_there:
        return None
    from treering.capture.health import folder_in  # noqa: PLC0415  (only where nothing was noted)

    try:
        return folder_in(Path(origin.file))
    except (TreeringError, OSError):
        return None


def _argument(text: str) -> str:
    """Return ``text`` as one word of a shell that no command takes for an option."""
    quoted = shlex.quote(text)
    return f"-- {quoted}" if text.startswith("-") else quoted


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
