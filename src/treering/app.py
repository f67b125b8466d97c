"""The composition root: ``open`` wires a store, its keys, a guard and a clock into a ledger."""

from __future__ import annotations

import os
from copy import copy
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

from treering.clock import now_ms
from treering.config import DATABASE_VARIABLE, default_folder, keys_folder, mask_key
from treering.errors import InvalidInput, StorageError, Unsupported
from treering.lazy import LazyModule, lazy_pattern
from treering.ledger.drafts import Drafter
from treering.ledger.ledger import Ledger
from treering.model.arguments import check_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from treering.capture.secrets import SecretGuard
    from treering.context.summaries import Summariser
    from treering.ledger import rekeying
    from treering.ledger.drafts import GuardMode
    from treering.ledger.ports import EventStore
    from treering.memory.ports import Embedder
    from treering.model.intakes import ImportReceipt, SourceReceipt
    from treering.model.tools import SyntheticPolicy
    from treering.spine.ports import Sink
    from treering.storage import Durability, Mode
    from treering.storage.postgres.address import Address
    from treering.storage.postgres.administration import Administration
else:
    rekeying = LazyModule("treering.ledger.rekeying")

EMBEDDER_VARIABLE: Final = "TREERING_EMBEDDER"

_DEFAULTS: Final = ("rw", "full", "safe", None, (), None)
"""What ``open`` is given if nothing is chosen, in its order."""

_CONNINFO: Final = lazy_pattern(r"(host|hostaddr|port|dbname|user|service|password) ?=")
"""How a libpq connection string with keywords begins."""


class ModelOptions(TypedDict, total=False):
    """What turns texts into vectors and summaries."""

    embedder: Embedder | str | None
    summariser: Summariser | None


class ImportReports(TypedDict, total=False):
    """What is called while logs are imported."""

    progress: Callable[[int, int], None] | None
    report: Callable[[SourceReceipt], None] | None


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
    token: str | None = None,
    **models: Unpack[ModelOptions],
) -> Ledger:
    """Open the ledger at ``location``, creating it if it does not exist.

    That is a file path, ``:memory:``, ``postgresql://user@host/database`` (``?schema=`` selects a
    schema other than ``treering``), or the address of ``treering serve``, as
    ``http://127.0.0.1:8720``, with a ``token``; the server decides about everything below.

    ``mode="ro"`` never changes a byte. ``durability="normal"`` survives a crash of the process but
    may lose the last moments at a power cut. ``guard`` sets where secrets are looked for:
    ``"safe"`` masks them in summaries and refs, ``"mask"`` in payloads too, ``"reject"`` refuses
    such events, ``"off"`` disables the check. ``keys`` is the folder of the keys of encrypted
    scopes.

    ``embedder`` turns texts into vectors, for the memory and for searches by meaning. The default
    is ``TREERING_EMBEDDER``, or else ``"static"``, the table that comes with the package; facts are
    embedded by ``"minilm"`` instead if it is installed (``treering[memory]``). Others are
    ``"endpoint:<model>@<url>"``, ``"off"``, or an object of your own.

    ``summariser`` is the default for the summaries of compactions and for the episodes of sessions
    that are closed, swept or pruned: a function of messages, the previous summary and a number of
    tokens. If it fails, Treering writes them without a model.

    Runs of processes that no longer exist are closed; ``sinks`` and ``synthetic``, as in
    ``Ledger.spine``, apply to these runs if they are given here.
    """
    for name in models.keys() - ModelOptions.__annotations__.keys():
        raise TypeError(f"open() got an unexpected keyword argument '{name}'")
    path = _path(location)
    if _is_http(path):
        chosen = (mode, durability, guard, keys, tuple(sinks), synthetic)
        is_plain = chosen == _DEFAULTS and not any(models.values())
        return _open_remote(path, token, is_plain=is_plain)
    summariser = models.get("summariser")
    if token is not None:
        raise InvalidInput(
            "a token only works with a server", hint="leave it out, or write http://…"
        )
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
            hint="pass a function of messages, a summary and a number of tokens",
        )
    store = _store(path, durability, mode, partial(keys_folder, keys))
    drafter = Drafter(guard=new_guard, mode=guard, clock=now_ms, seals=store.vault.seals)
    ledger = Ledger(
        store,
        drafter=drafter,
        clock=now_ms,
        embedder=lru_cache(maxsize=1)(partial(_embedder, models.get("embedder"))),
        fact_embedder=lru_cache(maxsize=1)(partial(_fact_embedder, models.get("embedder"))),
        summariser=summariser,
    )
    try:
        ledger.spine(sinks, synthetic=synthetic)
        if mode == "rw":
            if store.reader.has_legacy():
                rekeying.rekey(store, drafter)
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
    **calls: Unpack[ImportReports],
) -> ImportReceipt:
    """Import agents' logs from files and folders, recognized by their content.

    Each session goes to the scope of its project, named after the git remote or the working folder,
    or to ``scope``. Secrets are masked. Known events are not imported again; files that did not
    change since the last import are not even read, unless ``again``. ``since_ms`` skips files last
    written before then. ``live`` leaves the last line of a file that is still being written for
    later. ``parallel`` reads large files in a separate process if there is a core for it.
    ``progress`` is called with the bytes done and the total, ``report`` with the receipt of each
    file, without a torn end, before the ledger notes how far it was read.
    """
    # Loaded only when needed.
    from treering.capture.intake import Importer, import_files  # noqa: PLC0415
    from treering.storage.sqlite.foreign import ForeignDatabases  # noqa: PLC0415

    importer = Importer(
        ledger,
        scope=scope,
        dry_run=dry_run,
        again=again,
        live=live,
        parallel=parallel,
        databases=ForeignDatabases(),
    )
    return import_files(importer, paths, since_ms=since_ms, **calls)


@check_arguments
def administer(location: str) -> Administration:
    """Return the administration of a ledger on PostgreSQL: its schema, roles and status."""
    address = _address(location)
    from treering.storage.postgres.administration import Administration  # noqa: PLC0415

    return Administration(address)


def _store(path: str, durability: Durability, mode: Mode, folder: Callable[[], Path]) -> EventStore:
    # Loaded only when needed.
    from treering.storage.keys import KeyFolder  # noqa: PLC0415

    if is_server(path):
        address = _address(path)
        from treering.storage.postgres.server import Server  # noqa: PLC0415
        from treering.storage.postgres.store import PostgresStore  # noqa: PLC0415

        server = Server(address, durability=durability, mode=mode)
        return PostgresStore(server, KeyFolder(folder, lambda: server.ledger_id))
    from treering.storage.sqlite.database import Database  # noqa: PLC0415
    from treering.storage.sqlite.store import SqliteStore  # noqa: PLC0415

    if mode == "rw":
        _create_default_folder(Path(path).parent)
    database = Database(path, durability=durability, mode=mode)
    return SqliteStore(database, KeyFolder(folder, database.ledger_id))


def _create_default_folder(folder: Path) -> None:
    """Create ``folder`` if the default ledger belongs there: other folders are not ours."""
    if folder.is_dir() or folder != default_folder():
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot create {folder}: {error.strerror}",
            hint=f"name another ledger with {DATABASE_VARIABLE}",
        ) from error


def _open_remote(url: str, token: str | None, *, is_plain: bool) -> Ledger:
    if not is_plain:
        raise InvalidInput(
            "over HTTP, pass only a token", hint="set the other options where the server starts"
        )
    # Loaded only when needed.
    from treering.client.connection import ServerConnection  # noqa: PLC0415
    from treering.client.ledger import RemoteLedger  # noqa: PLC0415

    return RemoteLedger(ServerConnection(url, token), now_ms)


def _is_http(path: str) -> bool:
    return path.startswith(("http://", "https://"))


def is_server(location: str | os.PathLike[str]) -> bool:
    """Return whether ``location`` is a database server rather than a file."""
    return isinstance(location, str) and location.startswith(("postgresql://", "postgres://"))


def _address(location: str) -> Address:
    if not is_server(location):
        raise InvalidInput(
            f"{location} is not a database server", hint="name one: postgresql://user@host/database"
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
    looks_like_server = scheme in {"postgres", "postgresql"} or _CONNINFO.match(path)
    if looks_like_server and not is_server(location):
        raise InvalidInput(
            "a server location must be a URL, as text", hint="write postgresql://user@host/database"
        )
    if not is_server(path) and not _is_http(path) and ("://" in path or path.startswith("file:")):
        raise InvalidInput(
            f"{scheme} locations are not supported",
            hint="name a file by its path, or a server as postgresql://user@host/database",
        )
    return path


def _embedder(chosen: Embedder | str | None) -> Embedder | None:
    """Return the chosen embedder; called only when the memory or a search needs it."""
    if chosen is not None and not isinstance(chosen, str):
        return chosen
    from treering.embedders import find_embedder  # noqa: PLC0415

    return find_embedder(chosen or os.environ.get(EMBEDDER_VARIABLE))


def _fact_embedder(chosen: Embedder | str | None) -> Embedder | None:
    """Return the chosen embedder, or the best one for facts that is installed."""
    if chosen is not None and not isinstance(chosen, str):
        return chosen
    from treering.embedders import find_fact_embedder  # noqa: PLC0415

    return find_fact_embedder(chosen or os.environ.get(EMBEDDER_VARIABLE))


def new_guard(*, personal: bool = False) -> SecretGuard:
    """Return a guard that masks with the user's own key, which is read at the first mask."""
    return copy(_built_guard(personal=personal))


@lru_cache(maxsize=2)
def _built_guard(*, personal: bool) -> SecretGuard:
    """Build the part that all guards of a process share, which takes longer than ten appends."""
    from treering.capture.secrets import SecretGuard  # noqa: PLC0415  (only when something is recorded)

    return SecretGuard(key=mask_key, personal=personal)
