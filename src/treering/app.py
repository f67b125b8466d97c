"""The composition root: ``open`` wires a store, its keys, a guard and a clock into a ledger."""

from __future__ import annotations

import os
import re
import time
from copy import copy
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from treering.config import keys_folder, mask_key
from treering.errors import InvalidInput, Unsupported
from treering.ledger.drafts import Drafter
from treering.ledger.ledger import Ledger
from treering.model.arguments import check_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from treering.capture.secrets import SecretGuard
    from treering.context.summaries import Summariser
    from treering.ledger.drafts import GuardMode
    from treering.ledger.ports import EventStore
    from treering.memory.ports import Embedder
    from treering.model.intakes import IntakeReceipt
    from treering.model.tools import SyntheticPolicy
    from treering.spine.ports import Sink
    from treering.storage.modes import Durability, Mode
    from treering.storage.postgres.address import Address
    from treering.storage.postgres.administration import Administration


EMBEDDER_VARIABLE: Final = "TREERING_EMBEDDER"

_CONNINFO: Final = re.compile(r"(host|hostaddr|port|dbname|user|service|password) ?=")
"""How libpq's other sort of address begins."""


@check_arguments
def open(  # noqa: A001  (the public door is treering.open)
    location: str | os.PathLike[str],
    *,
    mode: Mode = "rw",
    durability: Durability = "full",
    guard: GuardMode = "safe",
    keys: str | os.PathLike[str] | None = None,
    sinks: Sequence[Sink] = (),
    synthetic: SyntheticPolicy | None = None,
    embedder: Embedder | str | None = None,
    summariser: Summariser | None = None,
) -> Ledger:
    """Open the ledger at ``location``, which is made if it is not there.

    That is a file path, ``:memory:``, or ``postgresql://user@host/database`` (``?schema=`` names
    another schema than ``treering``).

    ``mode="ro"`` never changes a byte. ``durability="normal"`` survives a crash of the process
    but may lose the last moments at a power cut. ``guard`` says where secrets are looked for:
    ``"safe"`` masks them in summaries and refs, ``"mask"`` in payloads too, ``"reject"`` refuses
    such events, ``"off"`` looks nowhere. ``keys`` is the folder of the keys of encrypted scopes.

    ``embedder`` turns texts into vectors, for the memory and for searches by meaning: ``"static"``,
    the table that comes with the package, is used where neither it nor ``TREERING_EMBEDDER`` names
    another (``"minilm"``, ``"endpoint:<model>@<url>"``, ``"off"``, or an object of yours).

    ``summariser`` writes the summaries of compactions and the episodes of sessions that are
    closed, swept or pruned, wherever nobody names another: a function of messages, the summary
    before them and a number of tokens. If it fails, Treering writes them without a model.

    Runs of processes that are gone are closed; ``sinks`` and ``synthetic``, as of
    ``Ledger.spine``, have their say in that if they are given here.
    """
    path = _path(location)
    for name, value, allowed in (
        ("mode", mode, ("rw", "ro")),
        ("durability", durability, ("full", "normal")),
        ("guard", guard, ("off", "safe", "mask", "reject")),
    ):
        if value not in allowed:
            raise InvalidInput(f"invalid {name}: {value}", hint=f"use {' or '.join(allowed)}")
    if summariser is not None and not callable(summariser):
        raise InvalidInput(
            f"summariser is a {type(summariser).__name__}",
            hint="give a function of messages, a summary and a number of tokens",
        )
    store = _store(path, durability, mode, partial(keys_folder, keys))
    drafter = Drafter(guard=new_guard, mode=guard, clock=now_ms, seals=store.vault.seals)
    ledger = Ledger(
        store,
        drafter=drafter,
        clock=now_ms,
        embedder=lru_cache(maxsize=1)(partial(_embedder, embedder)),
        summariser=summariser,
    )
    try:
        ledger.spine(sinks, synthetic=synthetic)
        if mode == "rw":
            ledger.rekey()
            ledger.recover()
    except BaseException:
        ledger.close()
        raise
    return ledger


@check_arguments
def import_logs(
    ledger: Ledger,
    paths: Sequence[str | os.PathLike[str]],
    *,
    scope: str | None = None,
    since_ms: int | None = None,
    dry_run: bool = False,
    again: bool = False,
    live: bool = False,
    parallel: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> IntakeReceipt:
    """Take in logs that agents wrote: files, and folders with all inside, by what is in them.

    Each session goes to the scope of its project, by the git remote or the name of the folder
    that it worked in, or to ``scope``. Secrets are masked. What is known is not taken in again;
    files that did not change since the last time are not even read, unless ``again``. ``since_ms``
    leaves out files that were last written before. ``live`` leaves the last line of a file that is
    being written for later. ``parallel`` has large files read by a process of their own, where
    there is a core for it. ``progress`` is told how many bytes are done, and of how many.
    """
    # Each is loaded only when asked for.
    from treering.capture.intake import take_logs  # noqa: PLC0415
    from treering.formats import openclaw_mem  # noqa: PLC0415
    from treering.storage.sqlite.foreign import read_rows  # noqa: PLC0415

    return take_logs(
        ledger,
        paths,
        scope=scope,
        since_ms=since_ms,
        dry_run=dry_run,
        again=again,
        live=live,
        parallel=parallel,
        rows=partial(
            read_rows,
            table=openclaw_mem.TABLE,
            columns=openclaw_mem.COLUMNS,
            order=openclaw_mem.ORDER,
        ),
        progress=progress,
    )


@check_arguments
def administer(location: str) -> Administration:
    """Return what the owner of a ledger on PostgreSQL needs: its layout, roles and state."""
    address = _address(location)
    from treering.storage.postgres.administration import Administration  # noqa: PLC0415

    return Administration(address)


def _store(path: str, durability: Durability, mode: Mode, folder: Callable[[], Path]) -> EventStore:
    # Each is loaded only when asked for.
    from treering.storage.keys import KeyFolder  # noqa: PLC0415

    if is_server(path):
        address = _address(path)
        from treering.storage.postgres.server import Server  # noqa: PLC0415
        from treering.storage.postgres.store import PostgresStore  # noqa: PLC0415

        server = Server(address, durability=durability, mode=mode)
        return PostgresStore(server, KeyFolder(folder, lambda: server.ledger_id))
    from treering.storage.sqlite.database import Database  # noqa: PLC0415
    from treering.storage.sqlite.store import SqliteStore  # noqa: PLC0415

    database = Database(path, durability=durability, mode=mode)
    return SqliteStore(database, KeyFolder(folder, database.ledger_id))


def is_server(location: str | os.PathLike[str]) -> bool:
    """Whether ``location`` is on a database server, and no file."""
    return isinstance(location, str) and location.startswith(("postgresql://", "postgres://"))


def _address(location: str) -> Address:
    if not is_server(location):
        raise InvalidInput(
            f"{location} is no database server", hint="name one: postgresql://user@host/database"
        )
    missing = next((name for name in ("psycopg", "psycopg_pool") if find_spec(name) is None), None)
    if missing is not None:
        raise _uninstalled(f"{missing}, which is not installed")
    try:
        from treering.storage.postgres.address import parse_address  # noqa: PLC0415
    except ImportError as error:
        raise _uninstalled("a psycopg that finds its libpq") from error
    return parse_address(location)


def _uninstalled(what: str) -> Unsupported:
    return Unsupported(f"PostgreSQL needs {what}", hint="pip install 'treering[postgres]'")


def _path(location: str | os.PathLike[str]) -> str:
    try:
        path = os.fspath(location)
    except TypeError as error:
        raise InvalidInput(
            f"a location is text or a path, not {location!r}", hint="name a file, or :memory:"
        ) from error
    if not path or not isinstance(path, str):
        raise InvalidInput("a location is required", hint="name a file, or :memory:")
    scheme = path.split(":")[0]
    misspelt = scheme in {"postgres", "postgresql"} or _CONNINFO.match(path)
    if misspelt and not is_server(location):
        raise InvalidInput(
            "a server is named by a URL, as text",
            hint="write postgresql://user@host/database",
        )
    if not is_server(path) and ("://" in path or path.startswith("file:")):
        raise InvalidInput(
            f"{scheme} locations are not supported",
            hint="name a file by its path, or a server as postgresql://user@host/database",
        )
    return path


def _embedder(chosen: Embedder | str | None) -> Embedder | None:
    """Return the embedder that was chosen; only when something is to be remembered or found."""
    if chosen is not None and not isinstance(chosen, str):
        return chosen
    from treering.embedders.choice import embedder_named  # noqa: PLC0415

    return embedder_named(chosen or os.environ.get(EMBEDDER_VARIABLE))


def new_guard(*, personal: bool = False) -> SecretGuard:
    """Return a guard that masks with the user's own key, which it asks for at the first mask."""
    return copy(_built_guard(personal=personal))


@lru_cache(maxsize=2)
def _built_guard(*, personal: bool) -> SecretGuard:
    """Build what all guards of a process share, for that takes longer than ten appends."""
    from treering.capture.secrets import SecretGuard  # noqa: PLC0415  (only when something is recorded)

    return SecretGuard(key=mask_key, personal=personal)


def now_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000
