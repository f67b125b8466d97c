"""The folders of agents' logs, and how long agents keep them."""

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
"""How long agents keep inactive sessions by default."""


class LogRetention(msgspec.Struct, frozen=True, kw_only=True):
    """How long an agent keeps its own logs."""

    days: float | None
    """None if they are never deleted automatically."""
    source: str
    """The setting that says so, or that it is the default."""
    remedy: str | None = None
    """How to configure the agent to keep them."""


class LogFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of an agent's logs."""

    agent: str
    root: Path
    keeping: LogRetention


def log_folders() -> list[LogFolder]:
    """Return the existing folders of agents whose logs can be read."""
    return [folder for folder in all_log_folders() if folder.root.is_dir()]


def openclaw_home() -> Path:
    """Return OpenClaw's state folder, which may not exist."""
    return _folder("OPENCLAW_STATE_DIR", Path.home() / ".openclaw")


def all_log_folders() -> Iterable[LogFolder]:
    """Return the folders where agents keep their logs, whether they exist or not."""
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
        ("openclaw-mem", openclaw / "memory", _unlimited),
        ("pi", pi / "sessions", _unlimited),
        ("gemini", gemini / "tmp", lambda: _gemini(gemini)),
    ):
        yield LogFolder(agent=agent, root=root, keeping=_safely(keeping))


def _folder(variable: str, default: Path) -> Path:
    named = os.environ.get(variable)
    return Path(named).expanduser() if named else default


def _safely(find: Callable[[], LogRetention]) -> LogRetention:
    """Return the retention in an agent's settings, or an unknown one if they cannot be read."""
    try:
        return find()
    except (OSError, ValueError, RecursionError):
        return LogRetention(days=None, source="its settings cannot be read")


def _claude(folder: Path) -> LogRetention:
    remedy = f'set "cleanupPeriodDays": 36500 in {folder / "settings.json"}'
    # The local settings override the shared ones.
    for name in ("settings.local.json", "settings.json"):
        days = _number(_settings(folder / name).get("cleanupPeriodDays"))
        if days is not None:
            return LogRetention(days=days, source=f"cleanupPeriodDays in {name}", remedy=remedy)
    return LogRetention(days=CLAUDE_DAYS, source="the default of cleanupPeriodDays", remedy=remedy)


def _codex() -> LogRetention:
    return LogRetention(days=None, source="it deletes no sessions by itself")


def _openclaw(folder: Path) -> LogRetention:
    session = _settings(folder / "openclaw.json").get("session")
    upkeep = session.get("maintenance") if isinstance(session, dict) else None
    after = upkeep.get("pruneAfter") if isinstance(upkeep, dict) else None
    mode = upkeep.get("mode") if isinstance(upkeep, dict) else None
    if mode != "enforce":
        return LogRetention(days=None, source="session.maintenance is not enforced")
    days = _days(after)
    return LogRetention(
        days=OPENCLAW_DAYS if days is None else days,
        source="session.maintenance.pruneAfter in openclaw.json",
        remedy=f'set session.maintenance.mode to "warn" in {folder / "openclaw.json"}',
    )


def _gemini(folder: Path) -> LogRetention:
    general = _settings(folder / "settings.json").get("general")
    retention = general.get("sessionRetention") if isinstance(general, dict) else None
    retention = retention if isinstance(retention, dict) else {}
    if retention.get("enabled") is False:
        return LogRetention(days=None, source="general.sessionRetention is off")
    days = _days(retention.get("maxAge"))
    return LogRetention(
        days=GEMINI_DAYS if days is None else days,
        source="general.sessionRetention in settings.json" if retention else "the default",
        remedy=f"set general.sessionRetention.enabled to false in {folder / 'settings.json'}",
    )


def _unlimited() -> LogRetention:
    return LogRetention(days=None, source="it deletes nothing by itself")


def _settings(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            value = decode(file.read(SETTINGS_BYTES_MAX))
    except FileNotFoundError:
        return {}
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if fits else None


def _days(value: Any) -> float | None:
    """Return the days of a span such as 30d, 12h or a number of days."""
    if isinstance(value, str) and value[-1:] in _UNITS:
        try:
            return _number(float(value[:-1]) * _UNITS[value[-1]])
        except ValueError:
            return None
    return _number(value)


_UNITS: Final = {"h": 1 / 24, "d": 1.0, "w": 7.0, "m": 30.0, "y": 365.0}
