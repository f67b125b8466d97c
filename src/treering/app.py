"""The composition root: ``open`` wires a store, a guard and a clock into a ledger."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from treering.config import mask_key
from treering.errors import InvalidInput
from treering.ledger.drafts import Drafter
from treering.ledger.ledger import Ledger

if TYPE_CHECKING:
    from treering.capture.secrets import Guard
    from treering.ledger.drafts import GuardMode
    from treering.storage.sqlite.database import Durability, Mode


def open(  # noqa: A001  (the public door is treering.open)
    location: str | os.PathLike[str],
    *,
    mode: Mode = "rw",
    durability: Durability = "full",
    guard: GuardMode = "safe",
) -> Ledger:
    """Open the ledger at ``location``: a file path, or ``:memory:``; made if it is not there.

    ``mode="ro"`` never changes a byte. ``durability="normal"`` survives a crash of the process
    but may lose the last moments at a power cut. ``guard`` says where secrets are looked for:
    ``"safe"`` masks them in summaries and refs, ``"mask"`` in payloads too, ``"reject"`` refuses
    such events, ``"off"`` looks nowhere.
    """
    path = _path(location)
    for name, value, allowed in (
        ("mode", mode, ("rw", "ro")),
        ("durability", durability, ("full", "normal")),
        ("guard", guard, ("off", "safe", "mask", "reject")),
    ):
        if value not in allowed:
            raise InvalidInput(f"invalid {name}: {value}", hint=f"use {' or '.join(allowed)}")
    from treering.storage.sqlite.database import Database  # noqa: PLC0415  (only when asked for)
    from treering.storage.sqlite.store import SqliteStore  # noqa: PLC0415

    database = Database(path, durability=durability, mode=mode)
    drafter = Drafter(guard=_guard, mode=guard, clock=now_ms)
    return Ledger(SqliteStore(database), drafter=drafter, clock=now_ms)


def _path(location: str | os.PathLike[str]) -> str:
    try:
        path = os.fspath(location)
    except TypeError as error:
        raise InvalidInput(
            f"a location is text or a path, not {location!r}", hint="name a file, or :memory:"
        ) from error
    if not path or not isinstance(path, str):
        raise InvalidInput("a location is required", hint="name a file, or :memory:")
    if "://" in path or path.startswith("file:"):
        raise InvalidInput(
            f"{path.split(':')[0]} locations are not supported", hint="name a file by its path"
        )
    return path


def _guard() -> Guard:
    from treering.capture.secrets import Guard  # noqa: PLC0415  (only when something is recorded)

    return Guard(key=mask_key)


def now_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000
