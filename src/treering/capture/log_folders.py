"""Where agents keep their logs, and how long they keep them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.model.codec import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SETTINGS_BYTES_MAX: Final = 4 * 1024 * 1024
CLAUDE_DAYS: Final = 30
GEMINI_DAYS: Final = 30
OPENCLAW_DAYS: Final = 30
"""How long agents keep sessions that nobody touches, unless their settings say otherwise."""


class Keeping(msgspec.Struct, frozen=True, kw_only=True):
    """How long an agent keeps its own logs."""

    days: float | None
    """None is for as long as nobody deletes them."""
    told_by: str
    """The setting that says so, or that it is the default."""
    remedy: str | None = None
    """What to write where to have them kept."""


class LogFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder in which an agent keeps its logs."""

    agent: str
    root: Path
    keeping: Keeping


def known_places() -> list[LogFolder]:
    """Return the folders of agents that are there, as far as their logs can be read."""
    return [place for place in _all_places() if place.root.is_dir()]


def openclaw_home() -> Path:
    """Return the folder in which OpenClaw keeps what it writes, whether it is there or not."""
    return _folder("OPENCLAW_STATE_DIR", Path.home() / ".openclaw")


def _all_places() -> Iterable[LogFolder]:
    home = Path.home()
    claude = _folder("CLAUDE_CONFIG_DIR", home / ".claude")
    codex = _folder("CODEX_HOME", home / ".codex")
    gemini = _folder("GEMINI_CLI_HOME", home) / ".gemini"
    openclaw = openclaw_home()
    pi = _folder("PI_CODING_AGENT_DIR", home / ".pi" / "agent")
    for agent, root, keeping in (
        ("claude-code", claude / "projects", lambda: _claude(claude)),
        ("codex", codex / "sessions", _codex),
        ("codex", codex / "archived_sessions", _codex),
        ("openclaw", openclaw / "agents", lambda: _openclaw(openclaw)),
        ("openclaw", openclaw / "cron" / "runs", lambda: _openclaw(openclaw)),
        ("openclaw-mem", openclaw / "memory", _kept),
        ("pi", pi / "sessions", _kept),
        ("gemini", gemini / "tmp", lambda: _gemini(gemini)),
    ):
        yield LogFolder(agent=agent, root=root, keeping=_safely(keeping))


def _folder(variable: str, otherwise: Path) -> Path:
    named = os.environ.get(variable)
    return Path(named).expanduser() if named else otherwise


def _safely(find: Callable[[], Keeping]) -> Keeping:
    """Return what an agent's settings say; what cannot be read is as good as nothing said."""
    try:
        return find()
    except (OSError, ValueError, RecursionError):
        return Keeping(days=None, told_by="its settings cannot be read")


def _claude(folder: Path) -> Keeping:
    remedy = f'set "cleanupPeriodDays": 36500 in {folder / "settings.json"}'
    # What is set for this machine alone goes before what is set for all.
    for name in ("settings.local.json", "settings.json"):
        days = _number(_settings(folder / name).get("cleanupPeriodDays"))
        if days is not None:
            return Keeping(days=days, told_by=f"cleanupPeriodDays in {name}", remedy=remedy)
    return Keeping(days=CLAUDE_DAYS, told_by="the default of cleanupPeriodDays", remedy=remedy)


def _codex() -> Keeping:
    return Keeping(days=None, told_by="it deletes no sessions by itself")


def _openclaw(folder: Path) -> Keeping:
    session = _settings(folder / "openclaw.json").get("session")
    upkeep = session.get("maintenance") if isinstance(session, dict) else None
    after = upkeep.get("pruneAfter") if isinstance(upkeep, dict) else None
    mode = upkeep.get("mode") if isinstance(upkeep, dict) else None
    if mode != "enforce":
        return Keeping(days=None, told_by="session.maintenance is not enforced")
    days = _days(after)
    return Keeping(
        days=OPENCLAW_DAYS if days is None else days,
        told_by="session.maintenance.pruneAfter in openclaw.json",
        remedy=f'set session.maintenance.mode to "warn" in {folder / "openclaw.json"}',
    )


def _gemini(folder: Path) -> Keeping:
    general = _settings(folder / "settings.json").get("general")
    kept = general.get("sessionRetention") if isinstance(general, dict) else None
    kept = kept if isinstance(kept, dict) else {}
    if kept.get("enabled") is False:
        return Keeping(days=None, told_by="general.sessionRetention is off")
    days = _days(kept.get("maxAge"))
    return Keeping(
        days=GEMINI_DAYS if days is None else days,
        told_by="general.sessionRetention in settings.json" if kept else "the default",
        remedy=f"set general.sessionRetention.enabled to false in {folder / 'settings.json'}",
    )


def _kept() -> Keeping:
    return Keeping(days=None, told_by="it deletes nothing by itself")


def _settings(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            found = decode(file.read(SETTINGS_BYTES_MAX))
    except FileNotFoundError:
        return {}
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if fits else None


def _days(value: Any) -> float | None:
    """Return a span such as 30d, 12h or a number of days."""
    if isinstance(value, str) and value[-1:] in _UNITS:
        try:
            return _number(float(value[:-1]) * _UNITS[value[-1]])
        except ValueError:
            return None
    return _number(value)


_UNITS: Final = {"h": 1 / 24, "d": 1.0, "w": 7.0, "m": 30.0, "y": 365.0}
