"""Owners of runs: the names under which processes hold their runs, and whether one still lives.

A name says where it is held, on which machine, and by which process. Its start time tells a process
from a later one with the same number.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, Self

import msgspec

from treering.errors import check_from_system
from treering.lazy import lazy_pattern

SILENCE_ELSEWHERE_MS: Final = 86_400_000
"""A process that cannot be looked at is given up when nothing was heard of it for a day."""

_NAME: Final = lazy_pattern(
    r"(?P<place>[a-z]+-[0-9a-f]+(?:-[0-9a-f]+)?)/(?P<machine>[0-9a-f]{12})"
    r"/(?P<process>[0-9a-f]{1,8})-(?P<started>[0-9a-f]{1,16})/(?P<token>[0-9a-f]{8})"
)
_GONE_STATES: Final = frozenset({"Z", "X", "x"})
"""What a process has become that is dead and still listed."""

_in_use: set[str] = set()
"""Names that stores of this process hold; a forked child has those of its parent in it, too."""


class LeaseOwner(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a run."""

    place: str
    """What distinguishes the ledger from others."""
    machine: str
    process: int
    started: int
    """When the process was started, in the machine's own count; 0 if that cannot be learnt."""
    token: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the owner that ``text`` names, or None if it is not an owner."""
        match = _NAME.fullmatch(text)
        if match is None:
            return None
        return cls(
            place=match["place"],
            machine=match["machine"],
            process=int(match["process"], 16),
            started=int(match["started"], 16),
            token=match["token"],
        )

    def __str__(self) -> str:
        """Return the text that ``parse`` reads."""
        return f"{self.place}/{self.machine}/{self.process:x}-{self.started:x}/{self.token}"


def new_owner(place: str) -> str:
    """Return a name for a store of this process, not in use yet."""
    process = os.getpid()
    return str(
        LeaseOwner(
            place=place,
            machine=machine(),
            process=process,
            started=_started(process) or 0,
            token=os.urandom(4).hex(),
        )
    )


def use(name: str) -> None:
    """Note that a store of this process is called ``name``."""
    _in_use.add(name)


def disuse(name: str) -> None:
    """Note that no store is called ``name`` any more."""
    _in_use.discard(name)


def is_running(owner: LeaseOwner) -> bool | None:
    """Whether ``owner`` can still be at work; None if it is on another machine."""
    if owner.machine != machine():
        return None
    if owner.process == os.getpid():
        return str(owner) in _in_use
    return _exists(owner.process, owner.started)


def is_gone_from_sight(owner: LeaseOwner, silent_ms: int) -> bool:
    """Whether one who holds nothing in this ledger can be given up.

    Its run was copied here from elsewhere, or what shows its holdings was removed.
    """
    running = is_running(owner)
    return silent_ms > SILENCE_ELSEWHERE_MS if running is None else not running


@cache
def machine() -> str:
    """Return a short name of this machine as it runs now, and of what it sees as its processes."""
    parts = (
        os.uname().nodename,
        _read("/proc/sys/kernel/random/boot_id"),
        _target("/proc/self/ns/pid"),
    )
    return blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()


def _exists(process: int, started: int) -> bool:
    """Whether a process is there that was started then. In doubt it is."""
    if sys.platform == "win32":
        return True  # A signal would not ask there, but end it.
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    state = _read(f"/proc/{process}/stat").rpartition(")")[2].split()
    if not state:
        return True
    return state[0] not in _GONE_STATES and started in {0, _started(process)}


def _started(process: int) -> int | None:
    """Return when a process was started, in ticks of the machine's clock, if that can be learnt."""
    # The name before the bracket may hold anything; the start is the 20th value after it.
    values = _read(f"/proc/{process}/stat").rpartition(")")[2].split()
    return int(values[19]) if len(values) > 19 else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        check_from_system(error)
        return ""


def _target(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115  (its target is not a path)
    except OSError as error:
        check_from_system(error)
        return ""
