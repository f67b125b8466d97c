"""The state of a ledger on a server, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.surfaces.cli.output import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from treering.model.receipts import Blocker, DatabaseStatus, Partition

PARTITIONS_SHOWN_MAX: Final = 8
EVEN: Final = 1.5
"""A partition is reported if it is larger than this many times the smallest."""
BEHIND_BYTES_MIN: Final = 64 * 1024
"""A replica that lags less is up to date: a little is always in flight."""
_MARGIN: Final = 12


def lines_of(status: DatabaseStatus) -> Iterator[str]:
    """Return what a person wants to know of ``status``, one thing a line."""
    for title, lines in (
        ("server", [f"PostgreSQL {status.server}{', a replica' if status.is_replica else ''}"]),
        ("ledger", [f"schema {status.schema}, {_version(status)}"]),
        ("size", [sized(status.bytes)]),
        ("partitions", _partitions(status.partitions)),
        ("followers", _followers(status)),
        ("replicas", _replicas(status)),
        ("erasure", [_erasure(status)]),
        ("roles", _roles(status.roles)),
        ("changes", _changes(status)),
    ):
        yield from _titled(title, lines)


def _changes(status: DatabaseStatus) -> Iterator[str]:
    """Say how the schema differs from what this program makes, if it does."""
    yield from status.differences
    if status.differences:
        yield "treering db init renews the walls: policies, grants; a backup has the rest"


def sized(size: int) -> str:
    """Return ``512 bytes`` or ``1.2 MB``, of 1,024 each, as PostgreSQL shows sizes."""
    amount, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1_000:
            break
        amount, unit = amount / 1_024, larger
    digits = 1 if amount < 10 and unit != "bytes" else 0
    return f"{amount:,.{digits}f} {unit}"


def lasting(seconds: float) -> str:
    """Return ``12 s``, ``3 min`` or ``5 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:,.0f} h"


def _titled(title: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{title:<{_MARGIN}}{line}"
        title = ""


def _version(status: DatabaseStatus) -> str:
    version, known = status.schema_version, status.schema_version_known
    if version < known:
        return f"version {version} of {known}: run treering db init"
    if version > known:
        return f"version {version}, newer than this program: upgrade treering"
    return f"version {version}"


def _partitions(partitions: Sequence[Partition]) -> Iterator[str]:
    by_size = sorted(partitions, key=lambda partition: (-partition.bytes, partition.name))
    smallest = by_size[-1].bytes if by_size else 0
    larger = [partition for partition in by_size if partition.bytes > smallest * EVEN]
    if not larger:
        total = sum(partition.events_estimated for partition in by_size)
        yield f"{len(by_size)} of {sized(smallest)} each{_events(total)}"
        return
    shown = larger[:PARTITIONS_SHOWN_MAX]
    width = max(len(partition.name) for partition in shown)
    for partition in shown:
        size = sized(partition.bytes)
        yield f"{partition.name:<{width}}  {size:>8}{_events(partition.events_estimated)}"
    rest = by_size[len(shown) :]
    yield f"and {len(rest)} of {sized(rest[0].bytes)} or less"


def _events(estimated: int) -> str:
    # The server has no estimate before it first analyses a table.
    return f", about {counted(estimated, 'event')}" if estimated else ""


def _followers(status: DatabaseStatus) -> Iterator[str]:
    waiting, blocker = status.events_unsettled, status.blocker
    events = f"{counted(waiting, 'event')} {'waits' if waiting == 1 else 'wait'}"
    if blocker is None:
        yield f"{events} a moment longer" if waiting else "see every event"
        return
    yield f"{events} for {_who(blocker)}" if waiting else f"wait for {_who(blocker)}"
    if blocker.pid is not None:
        yield f"to end it: SELECT pg_terminate_backend({blocker.pid})"
    else:
        yield f"to end it: ROLLBACK PREPARED '{blocker.prepared}', or COMMIT PREPARED"


def _who(blocker: Blocker) -> str:
    what = (
        f"prepared transaction {blocker.prepared}" if blocker.pid is None else f"pid {blocker.pid}"
    )
    since = "" if blocker.seconds is None else f" for {lasting(blocker.seconds)}"
    state = "open" if blocker.state in {None, "prepared"} else blocker.state
    facts = [f"user {blocker.user}" if blocker.user else "", blocker.application, f"{state}{since}"]
    return f"{what} ({', '.join(fact for fact in facts if fact)})"


def _replicas(status: DatabaseStatus) -> Iterator[str]:
    if status.is_replica:
        yield "see them on the primary"
    elif not status.replicas:
        yield "none"
    for replica in status.replicas:
        behind = replica.bytes_behind
        if behind is None:
            lag = "how far is unknown"
        else:
            lag = "up to date" if behind < BEHIND_BYTES_MIN else f"{sized(behind)} behind"
        yield f"{replica.name}: {replica.state}, {lag}"


def _erasure(status: DatabaseStatus) -> str:
    pending = status.erasure_pending
    if not pending:
        return "nothing is left to scrub"
    hold = "holds" if len(pending) == 1 else "hold"
    return f"{', '.join(pending)} still {hold} erased bytes: run treering db scrub"


def _roles(roles: dict[str, list[str] | None]) -> Iterator[str]:
    if not roles:
        yield "none but the owner: see treering db grant"
        return
    width = max(len(role) for role in roles)
    for role, scopes in roles.items():
        yield f"{role:<{width}}  {_held(scopes)}"


def _held(scopes: Sequence[str] | None) -> str:
    if scopes is None:
        return "states its scope"
    return f"held to {', '.join(scopes)}" if scopes else "held, to no scope that can be seen here"
