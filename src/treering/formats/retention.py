"""How long agents keep their logs, from their own settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.formats.format import LogRetention
from treering.model.codec import decode

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS_BYTES_MAX: Final = 4 * 1024 * 1024
CLAUDE_DAYS: Final = 30
GEMINI_DAYS: Final = 30
OPENCLAW_DAYS: Final = 30
"""How long agents keep inactive sessions by default."""


def claude(folder: Path) -> LogRetention:
    """Return how long Claude Code keeps logs, whose settings are in ``folder``."""
    remedy = f'set "cleanupPeriodDays": 36500 in {folder / "settings.json"}'
    # The local settings override the shared ones.
    for name in ("settings.local.json", "settings.json"):
        days = _number(_settings(folder / name).get("cleanupPeriodDays"))
        if days is not None:
            return LogRetention(days=days, source=f"cleanupPeriodDays in {name}", remedy=remedy)
    return LogRetention(days=CLAUDE_DAYS, source="the default of cleanupPeriodDays", remedy=remedy)


def openclaw(folder: Path) -> LogRetention:
    """Return how long OpenClaw keeps logs, whose settings are in ``folder``."""
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


def gemini(home: Path) -> LogRetention:
    """Return how long Gemini CLI keeps logs, whose settings are in ``.gemini`` of ``home``."""
    settings = home / ".gemini" / "settings.json"
    general = _settings(settings).get("general")
    retention = general.get("sessionRetention") if isinstance(general, dict) else None
    retention = retention if isinstance(retention, dict) else {}
    if retention.get("enabled") is False:
        return LogRetention(days=None, source="general.sessionRetention is off")
    days = _days(retention.get("maxAge"))
    return LogRetention(
        days=GEMINI_DAYS if days is None else days,
        source="general.sessionRetention in settings.json" if retention else "the default",
        remedy=f"set general.sessionRetention.enabled to false in {settings}",
    )


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
