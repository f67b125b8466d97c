"""Finding and opening the ledger that a command line means.

Reading a missing ledger returns nothing and creates nothing. Where a receipt would promise
something, such as erased, proved or copied, the ledger has to be there.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from urllib.parse import parse_qsl, urlsplit

from treering.clock import now_ms
from treering.config import DATABASE_VARIABLE, default_database, keys_folder
from treering.errors import (
    InvalidInput,
    NotFound,
    NotPermitted,
    ReadOnly,
    SchemaTooOld,
    StorageError,
    TreeringError,
    Unsupported,
)
from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.declare import scope_shown
from treering.surfaces.cli.output import note, say
from treering.surfaces.cli.progress import counting
from treering.surfaces.shared.texts import Item, counted
from treering.surfaces.shared.times import check_order, parse_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.queries import Page
    from treering.model.receipts import Physical
    from treering.model.scopes import Scope

MEMORY: Final = ":memory:"

Access = Literal["read", "change"]
"""What a command means to do with what is recorded."""
Decorated = TypeVar("Decorated", bound="Callable[..., Any]")


def open_to_write() -> Ledger:
    """Open the ledger for writing, as given: nothing is masked. Made if it is not there."""
    from treering.app import open as open_ledger  # noqa: PLC0415  (after the input was checked)

    return open_ledger(database_path(), guard="off", keys=_named_keys())


def open_if_there(access: Access = "read") -> Ledger:
    """Open the ledger; one that is not there reads as empty, and nothing is made."""
    path = database_path()
    try:
        return _open_found(path, access, hint="name another, or record something")
    except NotFound:
        if not invocation().as_json:
            note(f"no ledger at {shown(path)} yet")
        return _open(MEMORY, access)


def open_existing(access: Access = "read") -> Ledger:
    """Open the ledger. Raises NotFound if it is not there."""
    return _open_found(database_path(), access, hint="name it with --db, or set TREERING_DB")


@contextlib.contextmanager
def open_pair(source: str, target: str) -> Iterator[tuple[Ledger, Ledger]]:
    """Open one ledger to read it, and one to copy into, as given; that is made if need be.

    Raises NotFound if the source is not there, and InvalidInput if both are the same.
    """
    from treering.app import open as open_ledger  # noqa: PLC0415  (not for --help)

    here, there = (_checked(location, is_named=True) for location in (source, target))
    if _place_of(here) == _place_of(there):
        raise InvalidInput(
            "source and target are the same ledger", hint="name another ledger to copy into"
        )
    # The source goes first: if it cannot be opened, no target is made.
    with (
        _open_found(here, "read", hint="check the path of the source") as ledger,
        open_ledger(there, guard="off", keys=_named_keys()) as other,
    ):
        yield ledger, other


def database_path() -> str:
    """Return where the ledger is. Raises if a named one cannot be there."""
    named = invocation().database
    if named is not None and not named.strip():
        raise InvalidInput("--db is empty", hint="name a file, or leave --db out")
    is_named = named is not None or bool(os.environ.get(DATABASE_VARIABLE))
    return _checked(named or default_database(), is_named=is_named)


def damage_of_ledger() -> str | None:
    """Return what is wrong with the file of the ledger, or None."""
    from treering.storage.sqlite.integrity import find_damage  # noqa: PLC0415  (rarely needed)

    try:
        path = database_path()
    except (TreeringError, RuntimeError):  # It is not named well, or no command is running.
        return None
    return None if is_on_server() or path == MEMORY else find_damage(path)


@contextlib.contextmanager
def of_all_scopes() -> Iterator[None]:
    """Do inside what takes the whole ledger, where no scope can be named."""
    try:
        yield
    except NotPermitted as error:
        raise NotPermitted(
            str(error), hint="this takes the whole ledger: connect as its owner"
        ) from error


def check_keys(access: Access = "read") -> None:
    """Raise StorageError if the key folder cannot be used, or not be made."""
    folder = keys_folder(invocation().keys)
    nearest = next(path for path in (folder, *folder.absolute().parents) if os.path.exists(path))  # noqa: PTH110  (False where it may not look)
    if not nearest.is_dir():
        reason = "it is not a folder" if nearest == folder else f"{nearest} is not a folder"
    elif not os.access(nearest, os.X_OK | (os.W_OK if access == "change" else 0)):
        reason = "permission denied"
    else:
        return
    raise StorageError(
        f"{folder} cannot be the key folder: {reason}",
        hint="name another with --keys or TREERING_KEYS, or check its permissions",
    )


def is_on_server() -> bool:
    """Whether the ledger is on a server, and not in a file."""
    return _is_url(database_path())


def physically(physical: Physical) -> str:
    """Say whether the bytes of what was erased are gone, and if not, what it takes."""
    if is_on_server():
        if physical == "done":
            return "the bytes are gone from the tables"
        return "the bytes are still in the tables: run treering db scrub"
    if physical == "done":
        return "the bytes are gone from the file"
    return "the bytes leave the file once other programs stop reading it"


def shown(location: str) -> str:
    """Return ``location`` without a password."""
    if not _is_url(location):
        return location
    from treering.storage.postgres.address import parse_address  # noqa: PLC0415  (only for a URL)

    return parse_address(location).shown


def _checked(location: str, *, is_named: bool) -> str:
    """Return where a ledger is. Raises StorageError if it cannot be there."""
    if location.startswith(("http://", "https://")):
        raise Unsupported(
            "commands do not work over HTTP",
            hint=f"name a file or postgresql://…, or use treering.open({location!r}, token=…)",
        )
    if _is_url(location):
        return location
    path = Path(location).expanduser()
    if str(path) == MEMORY:
        return MEMORY
    if path.is_dir():
        raise StorageError(
            f"{path} is a folder, not a ledger", hint=f"name a file in it, as in {path}/ledger.db"
        )
    # The default's folder is ours to make; a missing one that was named is most likely a typo.
    if is_named and not path.absolute().parent.is_dir():
        raise StorageError(
            f"the folder {path.absolute().parent} does not exist",
            hint=f"create it, or correct the path: {path}",
        )
    return str(path)


def _open_found(path: str, access: Access, *, hint: str) -> Ledger:
    if _is_url(path):
        if access == "change":
            # Opened to be written to, it would be made; opened to be read, it is missed.
            with contextlib.suppress(SchemaTooOld):
                _open(path, "read").close()
    elif path != MEMORY and not Path(path).exists():
        raise NotFound(f"no ledger at {path}", hint=hint)
    return _open(path, access)


def _open(path: str, access: Access) -> Ledger:
    from treering.app import open as open_ledger  # noqa: PLC0415  (after the input was checked)

    # What may not be written to can still be read, from a copy that leaves no trace.
    shared = access == "change" or path == MEMORY or _is_writable(path)
    return open_ledger(path, mode="rw" if shared else "ro", keys=_named_keys())


def _named_keys() -> str | None:
    """Return the key folder that the command line names, if it does."""
    named = invocation().keys
    if named is not None:
        check_keys()
    return named


def _is_writable(path: str) -> bool:
    # Reading from a server needs no more rights.
    file = Path(path).absolute()
    return not _is_url(path) and os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)


def _is_url(location: str) -> bool:
    return "://" in location


def _place_of(location: str) -> tuple[object, ...]:
    """Return what two names of the same ledger have in common."""
    if location == MEMORY:
        return (object(),)
    if _is_url(location):
        parts = urlsplit(location)
        options = parse_qsl(parts.query)
        settings = sorted(option for option in options if option[0] not in {"user", "password"})
        return (parts.netloc.rpartition("@")[2], parts.path, *settings)
    path = Path(location).resolve()
    if not path.exists():
        return (path,)
    status = path.stat()
    return (status.st_dev, status.st_ino)


def read_span(since: str | None, until: str | None) -> dict[str, int | None]:
    """Return the times that --since and --until name. Raise InvalidInput if they make no sense."""
    now = now_ms()
    since_ms = parse_moment(since, now_ms=now, flag="--since")
    until_ms = parse_moment(until, now_ms=now, flag="--until")
    check_order((since, since_ms), (until, until_ms))
    return {"since_ms": since_ms, "until_ms": until_ms}


def show_page(
    page: Page[Item],
    noun: str,
    *,
    scope: Scope | None,
    location: str | None,
    filters: Mapping[str, Any],
    table: Callable[[Sequence[Item]], None],
    nothing: Callable[[], None],
    fields: Mapping[str, Any] | None = None,
) -> None:
    """Show a page of a list: its ``table`` and how to continue, or what ``nothing`` says.

    Filters that are times have to be repeated: an age would mean another time by then.
    """
    stated = "".join(
        f"--{name.removesuffix('_ms').replace('_', '-')} {ms} "
        for name, ms in filters.items()
        if name.endswith("_ms") and ms is not None
    )
    more = f", and more: run it again with {stated}--cursor {page.next_cursor}"

    def print_page() -> None:
        if not (page.items or page.has_more):
            nothing()
            return
        if page.items:
            table(page.items)
        rest = more if page.has_more else ""
        say(f"{counted(len(page.items), noun)} of {scope_shown(scope)}{rest}")

    body = {
        "scope": scope,
        "ledger": location,
        "filters": filters,
        "count": len(page.items),
        f"{noun}s": page.items,
        "has_more": page.has_more,
        "next_cursor": page.next_cursor,
        **(fields or {}),
    }
    show(body, page=print_page)


@contextlib.contextmanager
def asking(opening: Callable[[], Ledger]) -> Iterator[Ledger | None]:
    """Open the ledger to read it; None, and nothing is created, if it does not exist."""
    with contextlib.ExitStack() as stack:
        ledger = None
        try:
            ledger = stack.enter_context(opening())
        except NotFound:
            if not invocation().as_json:
                note(f"no ledger at {shown(database_path())} yet")
        yield ledger


def open_to_ask() -> Ledger:
    """Open the ledger to ask about its tool calls; what is caught up with is kept, if we may.

    Raises NotFound if it is not there.
    """
    if not is_on_server():
        return open_existing()
    try:
        return open_existing("change")
    except (ReadOnly, NotPermitted):
        return open_existing()


@contextlib.contextmanager
def catching_up() -> Iterator[Callable[[int], None] | None]:
    """Count the events that are caught up with, on a terminal."""
    with counting("catching up with", "events") as progress:
        yield progress


def location_of(ledger: Ledger | None) -> str | None:
    """Return where the ledger is, without a password; None if it does not exist."""
    return None if ledger is None else shown(database_path())


def say_nothing_found(
    nouns: str, scope: Scope | None, *, is_filtered: bool, is_there: bool, remark: str = ""
) -> None:
    """Say that nothing was found."""
    nothing = f"no {nouns} are recorded"
    if not is_there:
        say(f"{nothing} in {scope_shown(scope)}")
    elif is_filtered:
        of = scope_shown(scope)
        say(f"no {nouns} of {of} match{remark}: drop a filter, or check the names")
    elif scope is None:
        say(f"{nothing}{remark}")
    else:
        say(f"{nothing} in scope {scope}{remark}: check its name")
        say("  treering stats --by scope lists all scopes")


def is_unknown(ledger: Ledger, scope: Scope) -> bool:
    """Return whether nothing at all is recorded in a scope."""
    return not ledger.headers(scope, first=1).items


def say_unknown(scope: Scope | None) -> None:
    """Say that nothing at all is recorded in a scope."""
    say(f"nothing is recorded in {scope_shown(scope)}: check its name")
    say("  treering stats --by scope lists all scopes")
