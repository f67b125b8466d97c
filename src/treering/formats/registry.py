"""The log formats, ours and those of plug-ins, and the detection of a file's format."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import sys
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import is_interruption
from treering.formats.format import CLEARLY, Content, Format, LogPlace, OwnShare, no_reason, theirs
from treering.lazy import LazyModule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib import metadata
    from importlib.metadata import EntryPoint

    from treering.formats.parsed import LogReader
else:
    metadata = LazyModule("importlib.metadata")

NATIVE: Final = "treering"
"""Treering's own export, which is restored rather than parsed."""
GROUP: Final = "treering.readers"
"""The entry points of plug-ins: each is a ``Format``."""

_RELATIVES: Final = (
    Format(
        name="iflow",
        family=("claude-code", "gemini", "qwen"),
        places=(LogPlace(".iflow", "projects"), LogPlace(".iflow", "tmp")),
    ),
    Format(
        name="trae",
        family=("codex",),
        places=(
            LogPlace(".trae", "cli/sessions"),
            LogPlace(".trae", "cli/archived_sessions"),
            LogPlace(".trae", "sessions"),
        ),
    ),
    Format(name="prime", family=("pi",), places=(LogPlace(".prime/agent", "sessions"),)),
    Format(name="omp", family=("pi",), places=(LogPlace(".omp/agent", "sessions"),)),
)
"""Agents that write another agent's format, in their own folders."""
_OURS: Final = (
    "claude_code",
    "codex",
    "openclaw",
    "openclaw_mem",
    "pi",
    "gemini",
    "qwen",
    "copilot",
    "droid",
    "grok",
    "kimi",
    "antigravity",
    "codex.stream",
    _RELATIVES,
    "cowork",
    "openclaw_receipts",
    "apeira.lines",
    "clawser.lines",
    "tape",
    "cursor",
    "opencode",
    "cline",
    "chatgpt",
    "aider",
)
"""Formats, or modules of this package, each with a ``FORMAT``."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class FailedPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plug-in that cannot be used."""

    name: str
    reason: str


@cache
def formats() -> tuple[Format, ...]:
    """Return every format: ours, then those of plug-ins."""
    return (*_ours(), *_loaded()[0], *_added)


@contextlib.contextmanager
def adding(one: Format) -> Iterator[None]:
    """Register another format temporarily, to try it before it is installed."""
    if one in formats():
        yield
        return
    _added.append(one)
    _forget()
    try:
        yield
    finally:
        _added.remove(one)
        _forget()


def failed_plugins() -> tuple[FailedPlugin, ...]:
    """Return the plug-ins that could not be loaded; nothing else depends on them."""
    return _loaded()[1]


def named_format(name: str) -> Format:
    """Return the format with that name. Raises KeyError if there is none."""
    return _by_name()[name]


def find_format(
    values: Sequence[Any], *, content: Content = "json", clearly: float = CLEARLY
) -> Format | None:
    """Return the format of a file that starts with ``values``.

    Return None if no format claims it, or none ``clearly``: an unread log can be read later, while
    one that is read as another agent's is recorded wrongly.
    """
    best, winner = 0.0, None
    scores: dict[str, float] = {}
    for candidate in formats():
        if candidate.content == content:
            score = _score(candidate, values, best)
            if score:
                # One agent may have several formats.
                scores[candidate.name] = max(score, scores.get(candidate.name, 0.0))
                if score > best:
                    best, winner = score, candidate
    if winner is None:
        return None
    second = max((score for name, score in scores.items() if name != winner.name), default=0.0)
    return winner if best - second >= clearly else None


def relative_at(claimed: Format, path: PurePath, former: str | None = None) -> Format:
    """Return the format of a file whose grammar is that of ``claimed``, by its place.

    A file keeps the format it was read in ``former``ly, if that has the same grammar.
    """
    former_format = _by_name().get(former or "")
    if former_format is not None and (
        former_format is claimed
        or (claimed.name in former_format.family or former_format.name in claimed.family)
    ):
        return _joined(former_format, claimed)
    for relative in formats():
        if claimed.name in relative.family and _is_at(relative, path):
            return _joined(relative, claimed)
    return claimed


def reader_of(name: str, grammar: str | None) -> Callable[[PurePath | None], LogReader]:
    """Return what creates the readers of a format whose files have the grammar of another."""
    named = named_format(name)
    return (named if grammar is None else _joined(named, named_format(grammar))).reader


def version_of(name: str | None) -> int:
    """Return the reader version of the format with that name."""
    log_format = _by_name().get(name or "")
    return 1 if log_format is None else log_format.version


def others_of(path: Path, name: str | None = None) -> list[Path]:
    """Return the other files that are read with one, of the format with that name or of any."""
    others: dict[Path, None] = {}
    for log_format in formats():
        if log_format.files is not None and name in {None, log_format.name}:
            with contextlib.suppress(Exception):  # A plug-in must not end an import.
                others |= dict.fromkeys(log_format.files(path))
    # What is not written back to a database yet is in its log.
    log = path.with_name(f"{path.name}-wal")
    return [other for other in (log, *others) if other != path]


def left_out_by(path: Path) -> str | None:
    """Return why a file is not read on its own, by its path; None if it is."""
    return next(
        (reason for log_format in _leaving_out() if (reason := _left_out(log_format, path))), None
    )


@cache
def _leaving_out() -> tuple[Format, ...]:
    return tuple(log_format for log_format in formats() if log_format.left_out is not no_reason)


def is_pattern_of(folder: str, name: str) -> bool:
    """Return whether a file may be a log though its name does not end as logs mostly do."""
    # Most files pass by their names alone: paths take long, and there may be thousands.
    if _pattern_names().match(name) is None:
        return False
    path = PurePath(folder, name)
    return any(path.match(pattern) for log_format in formats() for pattern in log_format.patterns)


@cache
def _pattern_names() -> re.Pattern[str]:
    names = [PurePath(pattern).name for log_format in formats() for pattern in log_format.patterns]
    return re.compile("|".join(map(fnmatch.translate, names)) or r"(?!)")


def is_native(values: Sequence[Any]) -> bool:
    """Return whether a file is Treering's own export."""
    first = values[0] if values else None
    return (
        isinstance(first, dict)
        and first.get("record") == "export"
        and str(first.get("format")).startswith("treering.export.")
    )


_added: Final[list[Format]] = []


def _forget() -> None:
    for cached in (formats, _by_name, _leaving_out, _pattern_names):
        cached.cache_clear()


@cache
def _ours() -> tuple[Format, ...]:
    ours: list[Format] = []
    for item in _OURS:
        declared = (
            import_module(f"treering.formats.{item}").FORMAT if isinstance(item, str) else item
        )
        ours += declared if isinstance(declared, tuple) else (declared,)
    return tuple(ours)


@cache
def _by_name() -> dict[str, Format]:
    # The first of a name: the others are the same agent's, with other content.
    return {log_format.name: log_format for log_format in reversed(formats())}


@cache
def _loaded() -> tuple[tuple[Format, ...], tuple[FailedPlugin, ...]]:
    """Return the formats of plug-ins, and the plug-ins without one."""
    taken = {log_format.name for log_format in _ours()} | {NATIVE}
    plugins: list[Format] = []
    failed: list[FailedPlugin] = []
    entries = metadata.entry_points(group=GROUP) if _may_be_declared(GROUP) else ()
    for entry in sorted(entries, key=lambda entry: (entry.name, entry.value)):
        package = f"{entry.dist.name}:" if entry.dist else ""
        try:
            plugin = _plugin(entry, taken)
        except Exception as error:  # noqa: BLE001  (whatever a plug-in raises, ours continue)
            reason = str(error) if isinstance(error, _NotAFormat) else f"{error!r}"
            failed.append(FailedPlugin(name=f"{package}{entry.name}", reason=reason))
        else:
            taken.add(plugin.name)
            plugins.append(plugin)
    return tuple(plugins), tuple(failed)


def _may_be_declared(group: str) -> bool:
    """Return whether an installed package may have entry points of a group; mostly none has.

    Only ``importlib.metadata`` knows for sure, which takes 20 ms to load and to ask.
    """
    if any(
        hasattr(finder, "find_distributions") and finder is not PathFinder
        for finder in sys.meta_path
    ):
        return True
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208  (no path for each)
        except NotADirectoryError:
            return True  # It is packed.
        except OSError:
            continue
        for name in names:
            if name.endswith(".egg"):
                return True
            if name.endswith((".dist-info", ".egg-info")):
                declared = Path(folder, name, "entry_points.txt")
                with contextlib.suppress(OSError):
                    if group.encode() in declared.read_bytes():
                        return True
    return False


class _NotAFormat(Exception):
    """An entry point that does not name a usable format."""


def _plugin(entry: EntryPoint, taken: set[str]) -> Format:
    plugin = entry.load()
    if not isinstance(plugin, Format):
        raise _NotAFormat(f"{entry.value} is not a treering.importing.Format")
    if not _NAME.fullmatch(plugin.name):
        raise _NotAFormat(f"its name {plugin.name!r} is not one of a-z, 0-9, '.', '_' and '-'")
    if plugin.name in taken:
        raise _NotAFormat(f"there is another reader with the name {plugin.name}")
    return plugin


def _left_out(one: Format, path: Path) -> str | None:
    try:
        return one.left_out(path)
    except Exception as error:  # (a plug-in must not end an import)
        if is_interruption(error):
            raise
        return None


def _score(candidate: Format, values: Sequence[Any], best: float) -> float:
    """Return the score of a format; 0 if it is clearly below ``best``."""
    score = candidate.score
    try:
        if isinstance(score, OwnShare):
            return score.against(values, best)
        return min(1.0, float(score(values)))
    except Exception as error:  # (a plug-in must not end an import)
        if is_interruption(error):
            raise
        return 0.0


def _is_at(relative: Format, path: PurePath) -> bool:
    try:
        return relative.claims(path) or any(place.holds(path) for place in relative.places)
    except Exception as error:  # (a plug-in must not end an import)
        if is_interruption(error):
            raise
        return False


def _joined(relative: Format, claimed: Format) -> Format:
    """Return ``relative`` with the reader and records of the format whose grammar the file has."""
    if relative.reader is not theirs:
        return relative

    def reader(path: PurePath | None) -> LogReader:
        made = claimed.reader(path)
        made.agent = relative.name
        return made

    return msgspec.structs.replace(
        claimed,
        name=relative.name,
        reader=reader,
        places=relative.places,
        family=(claimed.name,),
        claims=relative.claims,
    )
