"""Install hooks into other agents and remove them: planned first, then applied.

A plan holds each file's content before and after, so that it can be shown instead of applied.
Replaced files have a backup beside them, and uninstalling restores the same bytes.
"""

from __future__ import annotations

import contextlib
import difflib
import glob
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from treering.capture.hooks import settings_openclaw as openclaw
from treering.capture.hooks.settings import (
    HOOKED,
    HookedAgent,
    found_hooks,
    switched_off,
    with_hooks,
    without_hooks,
)
from treering.errors import InvalidInput, NotFound, StorageError
from treering.files import replacing

AGENTS: Final = (*HOOKED, openclaw.AGENT)
_EMPTY: Final = "{}\n"
"""The content of missing settings."""
MAIN_PROGRAM: Final = "treering"
_NO_DECISIONS: Final = "{name} has no hook for permissions"
_BOM: Final = "\ufeff"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The planned changes for one agent."""

    agent: str
    name: str
    settings: Path
    changes: list[Change]
    remarks: list[str] = []
    next_steps: list[str] = []


def plan_install(
    agent: str,
    *,
    program: Path,
    spool: Path,
    home: Path,
    environment: Mapping[str, str],
    decisions: bool = False,
) -> Plan:
    """Plan the installation of ``program`` in ``agent``. Raises InvalidInput if it is not safe."""
    if agent == openclaw.AGENT:
        plan = _plan_openclaw(program, spool, home, environment)
        notes = [_NO_DECISIONS.format(name=plan.name)] if decisions else []
        return msgspec.structs.replace(plan, remarks=[*notes, *plan.remarks])
    hooked = _hooked(agent)
    settings = hooked.settings(home, environment)
    check_folder(hooked.name, settings.parent, hooked.variable)
    change = edit(settings, lambda text: with_hooks(text, hooked, program, decisions=decisions))
    notes = [hooked.decisions_note] if decisions and hooked.decisions_note else []
    if decisions and not hooked.decisions:
        notes = [_NO_DECISIONS.format(name=hooked.name)]
    body = change.after if change else read_settings(Path(os.path.realpath(settings)))
    off = switched_off((body or b"{}").decode().removeprefix(_BOM), hooked)
    if off is not None:
        notes.append(f"{off} in {settings} keeps all hooks from running until it is changed")
    return Plan(
        agent=agent,
        name=hooked.name,
        settings=settings,
        changes=[change] if change else [],
        remarks=notes,
        next_steps=list(hooked.next_steps) if change else [],
    )


def plan_uninstall(agent: str, *, home: Path, environment: Mapping[str, str]) -> Plan:
    """Plan the removal of what ``plan_install`` installed, and nothing else."""
    if agent == openclaw.AGENT:
        return _plan_openclaw_removal(home, environment)
    hooked = _hooked(agent)
    settings = hooked.settings(home, environment)
    change = edit(settings, lambda text: without_hooks(text, hooked))
    if change is not None:
        program, decisions = found_hooks((change.before or b"").decode().removeprefix(_BOM), hooked)
        change = restored(
            change, lambda text: with_hooks(text, hooked, program, decisions=decisions)
        )
    return Plan(
        agent=agent, name=hooked.name, settings=settings, changes=[change] if change else []
    )


def apply(plan: Plan, *, stamp: str) -> list[Done]:
    """Apply the plan; ``stamp`` is part of the names of backups.

    Raises StorageError if a file has changed since, or cannot be written.
    """
    return [replace(change, stamp=stamp) for change in plan.changes]


def diff(plan: Plan) -> str:
    """Return the plan as a unified diff."""
    lines: list[str] = []
    for change in plan.changes:
        before, after = (
            (body or b"").decode("utf-8", "replace").splitlines(keepends=True)
            for body in (change.before, change.after)
        )
        old = "/dev/null" if change.before is None else str(change.path)
        new = "/dev/null" if change.after is None else str(change.path)
        for line in difflib.unified_diff(before, after, old, new):
            ending = "" if line.endswith("\n") else "\n\\ no newline at the end\n"
            lines += [line + ending]
    return "".join(lines)


def _hooked(agent: str) -> HookedAgent:
    if agent not in HOOKED:
        raise InvalidInput(f"unknown agent: {agent}", hint=f"name one of {', '.join(AGENTS)}")
    return HOOKED[agent]


def check_folder(name: str, folder: Path, variable: str) -> None:
    """Raise NotFound if an agent has no folder, and so was never started."""
    if not folder.is_dir():
        raise NotFound(
            f"{name} has no folder {folder}",
            hint=f"start {name} once, or name its folder with {variable}",
        )


def edit(settings: Path, change: Callable[[str], str], *, empty: str = _EMPTY) -> Change | None:
    """Return the change of a settings file, or None if it stays the same.

    ``empty`` is the content of settings that are missing or blank.
    """
    path = Path(os.path.realpath(settings))
    before = read_settings(path)
    text = empty if before is None else decoded(settings, before)
    bom = _BOM if text.startswith(_BOM) else ""
    text = text.removeprefix(_BOM)
    try:
        after = change(text if text.strip() else empty)
    except InvalidInput as error:
        raise InvalidInput(
            f"{settings} was not changed: {error}", hint=error.hint or "repair it, then try again"
        ) from error
    if after == (text if text.strip() else empty):
        return None
    return Change(path=path, before=before, after=(bom + after).encode())


def restored(change: Change, install: Callable[[str], str], *, empty: str = _EMPTY) -> Change:
    """Return the change of an uninstallation, with the exact original bytes if they are known.

    These are the bytes of a backup, or no file at all, from which ``install`` produces the current
    file.
    """
    for body in backups(change.path):
        if _becomes(body, change.before, install, empty):
            return msgspec.structs.replace(change, after=body)
    if _becomes(None, change.before, install, empty):
        return msgspec.structs.replace(change, after=None, is_ours=True)
    return change


def _becomes(
    body: bytes | None, after: bytes | None, install: Callable[[str], str], empty: str
) -> bool:
    try:
        text = empty if body is None else body.decode()
        bom = _BOM if text.startswith(_BOM) else ""
        text = text.removeprefix(_BOM)
        return (bom + install(text if text.strip() else empty)).encode() == after
    except (InvalidInput, UnicodeDecodeError):
        return False


def openclaw_folder(home: Path, environment: Mapping[str, str]) -> tuple[Path, Path]:
    """Return OpenClaw's folder and its settings file."""
    named = environment.get("OPENCLAW_STATE_DIR", "").strip()
    base = environment.get("OPENCLAW_HOME", "").strip()
    folder = (
        Path(named).expanduser()
        if named
        else (Path(base).expanduser() if base else home) / ".openclaw"
    )
    settings = environment.get("OPENCLAW_CONFIG_PATH", "").strip()
    return folder, Path(settings).expanduser() if settings else folder / "openclaw.json"


def _plan_openclaw(program: Path, spool: Path, home: Path, environment: Mapping[str, str]) -> Plan:
    folder, settings = openclaw_folder(home, environment)
    check_folder(openclaw.NAME, folder, "OPENCLAW_STATE_DIR")
    change = edit(settings, openclaw.with_plugin)
    plugin_folder = Path(os.path.realpath(folder / "extensions" / openclaw.PLUGIN))
    changes = []
    for name, text in openclaw.plugin_files(spool, program.with_name(MAIN_PROGRAM)).items():
        path = plugin_folder / name
        before = read_settings(path)
        if before is not None and not openclaw.is_own_file(name, decoded(path, before)):
            raise InvalidInput(
                f"{path} is not ours", hint="move that plugin elsewhere, then try again"
            )
        if before != text.encode():
            changes.append(Change(path=path, before=before, after=text.encode(), is_ours=True))
    # The settings come last: they must not name a plugin that does not exist yet.
    changes += [change] if change else []
    body = change.after if change else read_settings(Path(os.path.realpath(settings)))
    return Plan(
        agent=openclaw.AGENT,
        name=openclaw.NAME,
        settings=settings,
        changes=changes,
        remarks=openclaw.remarks((body or b"{}").decode().removeprefix(_BOM)),
        next_steps=["restart the gateway, as in: openclaw gateway restart"] if changes else [],
    )


def _plan_openclaw_removal(home: Path, environment: Mapping[str, str]) -> Plan:
    folder, settings = openclaw_folder(home, environment)
    change = edit(settings, openclaw.without_plugin)
    changes = [restored(change, openclaw.with_plugin)] if change else []
    plugin_folder = Path(os.path.realpath(folder / "extensions" / openclaw.PLUGIN))
    for name in openclaw.plugin_files(folder, folder):
        before = read_settings(plugin_folder / name)
        if before is not None and openclaw.is_own_file(name, decoded(plugin_folder / name, before)):
            changes.append(
                Change(
                    path=plugin_folder / name,
                    before=before,
                    after=None,
                    is_ours=True,
                    in_own_folder=True,
                )
            )
    return Plan(
        agent=openclaw.AGENT,
        name=openclaw.NAME,
        settings=settings,
        changes=changes,
        next_steps=["restart the gateway, as in: openclaw gateway restart"] if changes else [],
    )


BACKUP: Final = ".treering-backup-"
SETTINGS_BYTES_MAX: Final = 16_777_216


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one file before and after; None if it does not exist."""

    path: Path
    """The file itself, with links resolved."""
    before: bytes | None
    after: bytes | None
    is_ours: bool = False
    """Whether Treering wrote it: then it needs no backup."""
    in_own_folder: bool = False
    """Whether its folder is Treering's as well, and is removed with its last file."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one file."""

    path: str
    backup: str | None
    """The path of the backup, unless the file was Treering's or did not exist."""


def replace(change: Change, *, stamp: str) -> Done:
    """Write a file's new content, and keep a backup beside it with ``stamp`` in its name.

    Raises StorageError if the file has changed since the change was planned.
    """
    path = change.path
    if read_settings(path) != change.before:
        raise StorageError(f"{path} has changed meanwhile", hint="nothing is lost: try again")
    backup = None
    if change.before is not None and not change.is_ours:
        backup = free_name(path.with_name(path.name + BACKUP + stamp))
        write_whole(backup, change.before, template=path)
    if change.after is None:
        path.unlink()
        if change.in_own_folder:
            # The folder stays if it contains other files.
            with contextlib.suppress(OSError):
                path.parent.rmdir()
    else:
        write_whole(path, change.after, template=path)
    return Done(path=str(path), backup=str(backup) if backup else None)


def backups(path: Path) -> list[bytes]:
    """Return the contents of a file's backups, latest first."""
    paths = sorted(
        path.parent.glob(f"{glob.escape(path.name)}{BACKUP}*"),
        key=lambda path: (path.stat().st_mtime_ns, path.name),
        reverse=True,
    )
    return [backup.read_bytes() for backup in paths]


def read_settings(path: Path) -> bytes | None:
    """Return a file's content, or None if it does not exist."""
    try:
        if path.stat().st_size > SETTINGS_BYTES_MAX:
            raise InvalidInput(f"{path} is too large for settings", hint="check the file")
        return path.read_bytes()
    except FileNotFoundError:
        return None


def decoded(path: Path, body: bytes) -> str:
    """Return a file's text. Raises InvalidInput if it is not UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} is not UTF-8", hint="save it as UTF-8, then try again"
        ) from error


def free_name(path: Path) -> Path:
    """Return ``path``, with a number appended if it exists."""
    number = 1
    free = path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def write_whole(path: Path, body: bytes, *, template: Path) -> None:
    """Replace a file, with the permissions and owner of ``template``."""
    try:
        status: os.stat_result | None = template.stat()
    except FileNotFoundError:
        status = None
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(path) as stream:
        stream.write(body)
        if status is not None:
            os.fchmod(stream.fileno(), stat.S_IMODE(status.st_mode))
            with contextlib.suppress(PermissionError):
                os.fchown(stream.fileno(), status.st_uid, status.st_gid)
