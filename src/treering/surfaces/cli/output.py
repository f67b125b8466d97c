"""What a command prints and writes: receipts and errors, the standard streams, whole files."""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import os
import select
import signal
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

import click
import msgspec

from treering.errors import InvalidInput, StorageError, TooLarge
from treering.lazy import LazyModule
from treering.model.codec import SPILL_BYTES_MAX
from treering.surfaces.shared.texts import printable
from treering.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

    from treering import files
else:
    files = LazyModule("treering.files")

RECEIPT_VERSION: Final = "v1"
FIELDS_VERSION: Final = "v0"
"""The version of the receipts' fields, which programs of earlier ledgers read."""


def print_receipt(
    kind: str, body: Mapping[str, Any] | msgspec.Struct, *, ok: bool = True, err: bool = False
) -> None:
    """Print what a command did, as one JSON object; to standard error if ``err``."""
    fields = msgspec.structs.asdict(body) if isinstance(body, msgspec.Struct) else body
    print_json({**_opening(kind), "ok": ok, **fields}, err=err)


def print_error(
    kind: str,
    message: str,
    *,
    code: str,
    hint: str,
    as_json: bool,
    body: msgspec.Struct | None = None,
) -> None:
    """Print what went wrong and what to do: JSON on standard output, or text on standard error.

    ``body`` is the receipt of a command that ran and found something amiss. JSON that standard
    output does not take goes to standard error.
    """
    if as_json:
        opening = {"kind": f"{kind}.{RECEIPT_VERSION}"} if body is None else _opening(kind)
        fields = {} if body is None else msgspec.structs.asdict(body)
        problem = {"error": _encodable(message), "code": code, "hint": _encodable(hint)}
        account = {**opening, "ok": False, **fields, **problem}
        try:
            print_json(account)
        except OSError:
            print_json(account, err=True)
        return
    _echo(f"error: {printable(message)}", err=True)
    _echo(f"hint: {printable(hint)}", err=True)


def print_json(value: Mapping[str, Any], *, err: bool = False) -> None:
    """Print ``value`` on one line, or laid out if a person is looking."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:  # The name of a file may hold bytes that are no text.
        encoded = msgspec.json.encode(_all_encodable(msgspec.to_builtins(value)))
    stream = sys.stderr if err else sys.stdout
    _echo(msgspec.json.format(encoded, indent=2) if stream.isatty() else encoded, err=err)


def say(text: str) -> None:
    """Print a line for people."""
    _echo(printable(text))


def note(text: str) -> None:
    """Print a remark for people where it does not mix with the output."""
    _echo(f"note: {printable(text)}", err=True)


def say_painted(text: str) -> None:
    """Print a line that holds what ``painted`` gave, and is printable otherwise."""
    click.echo(text, color=has_colour())


def painted(text: str, colour: str | None = None, *, bold: bool = False, dim: bool = False) -> str:
    """Return ``text`` in a colour, if standard output is to have any."""
    if not has_colour() or not (colour or bold or dim):
        return text
    return click.style(text, fg=colour, bold=bold or None, dim=dim or None)


def has_colour() -> bool:
    """Whether to colour standard output: on a terminal, unless NO_COLOR is set."""
    return is_terminal() and not os.environ.get("NO_COLOR")


def is_terminal() -> bool:
    """Whether standard output is laid out for a terminal: it is one, or FORCE_COLOR says so."""
    return sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))


def say_price_hint() -> None:
    """Say how to know prices, where the table of prices is not installed."""
    if find_spec("genai_prices") is None:
        say("  prices: pip install 'treering[prices]'")


def _echo(text: str | bytes, *, err: bool = False) -> None:
    # If standard error takes nothing, only the exit status can report it.
    with contextlib.suppress(OSError) if err else contextlib.nullcontext():
        click.echo(text, err=err)


def _opening(kind: str) -> dict[str, Any]:
    return {
        "kind": f"{kind}.{RECEIPT_VERSION}",
        "ts": datetime.now(UTC).isoformat(),
        "version": {"treering": __version__, "schema": FIELDS_VERSION},
    }


def _all_encodable(value: Any) -> Any:
    """Return ``value`` with every text in it as ``_encodable`` returns it."""
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, dict):
        return {_encodable(name): _all_encodable(item) for name, item in value.items()}
    return [_all_encodable(item) for item in value] if isinstance(value, list) else value


def _encodable(text: str) -> str:
    """Return ``text`` without the lone surrogates by which a shell passes on stray bytes."""
    return text.encode(errors="backslashreplace").decode()


INTERRUPTED: Final = 128 + signal.SIGINT
"""How shells report a signal: 128 and its number."""
ORDER_S: Final = 6.0
"""How long putting in order may wait for something; a supervisor kills after ten seconds."""
_FINAL: Final = (signal.SIGTERM, signal.SIGHUP)


def stand_in_for_closed() -> None:
    """Give every closed stream a stand-in, so that no file of ours is opened under its number.

    Standard input has nothing to read, standard output refuses all that is written.
    """
    # In this order: an opened file gets the lowest number that is free.
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def escape_unencodable() -> None:
    """Write characters that the terminal's encoding lacks as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        # Flush what is written first; the next write reports that it cannot.
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):
                stream.reconfigure(errors="backslashreplace")


def drop_unwritten() -> None:
    """Let go of what could not be written: the interpreter would try, and complain, once more."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def writing_output(done: str = "") -> Iterator[None]:
    """Do the writing to standard output inside. Raises StorageError if it takes nothing more.

    ``done`` is what has happened nevertheless. A reader that has left stays a BrokenPipeError.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(error, done) from error


def check_reader() -> None:
    """Raise BrokenPipeError if the program that reads standard output has ended."""
    output = select.poll()
    output.register(1, 0)  # Errors are reported whatever is asked for.
    if output.poll(0):
        raise BrokenPipeError


def unwritable(error: OSError, done: str = "") -> StorageError:
    """Return what to say of an ``error`` of standard output."""
    reason = "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)
    if done:
        return StorageError(
            f"{done}; only its receipt could not be written to standard output: {reason}",
            hint="do not run it again just for the receipt; check where the output goes",
        )
    return StorageError(
        f"standard output cannot be written: {reason}", hint="check where the output goes"
    )


class Stopped(KeyboardInterrupt):
    """The process was asked to end."""

    def __init__(self, number: int) -> None:
        name = signal.Signals(number).name
        super().__init__("interrupted" if number == signal.SIGINT else f"stopped by {name}")
        self.status = 128 + number


def heed_signals() -> None:
    """Let SIGINT, SIGTERM and SIGHUP raise Stopped; one that is ignored stays ignored."""
    for number in (signal.SIGINT, *_FINAL):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    # Near its end, the interpreter takes its handlers back: an alarm would kill the process.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)


def status_of(stopped: BaseException) -> int:
    """Return the exit status of a process that ends because of ``stopped``."""
    return stopped.status if isinstance(stopped, Stopped) else INTERRUPTED


def _stop(number: int, _: FrameType | None) -> NoReturn:
    # Being asked again must not cut short what the first time has set going.
    for each in _FINAL:
        signal.signal(each, signal.SIG_IGN)

    def stop_again(_: int, __: FrameType | None) -> NoReturn:
        raise Stopped(number)

    # An exception that strikes while a lock changes hands can leave it locked. Whoever then waits
    # for it on the way out is called off, so that the rest of the way is gone.
    signal.signal(signal.SIGALRM, stop_again)
    signal.setitimer(signal.ITIMER_REAL, ORDER_S, ORDER_S)
    raise Stopped(number)


STANDARD: Final = "-"
"""Stands for standard input or output."""
_LEDGER_SUFFIXES: Final = ("", "-wal", "-shm", ".lock", ".leases")
"""The files that make up a ledger."""


def is_url(name: str) -> bool:
    """Return whether ``name`` is an address on the web, not a file."""
    return name.lower().startswith(("http://", "https://"))


def read_input(name: str) -> bytes:
    """Return what the file, or standard input for ``-``, holds."""
    with input_stream(name) as stream:
        body = stream.read(SPILL_BYTES_MAX + 1)
    if len(body) > SPILL_BYTES_MAX:
        raise TooLarge(
            f"{name} is larger than {SPILL_BYTES_MAX} bytes",
            hint="keep the file elsewhere and refer to it with --refs-json",
        )
    return body


@contextlib.contextmanager
def input_stream(name: str) -> Iterator[IO[bytes]]:
    """Open a file, or standard input for ``-``, to read it."""
    if name == STANDARD:
        yield sys.stdin.buffer
        return
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(Path(name).open("rb"))
        except OSError as error:
            raise InvalidInput(
                f"cannot read {name}: {error.strerror}",
                hint="check the path; - reads standard input",
            ) from error
        yield stream


@contextlib.contextmanager
def output_stream(
    name: str, *, database: str, example: str = "export.jsonl"
) -> Iterator[IO[bytes]]:
    """Open a file, or standard output for ``-``, to write it.

    A file appears under its name when it is whole; until then, and after an error, what was there
    stays. Raises InvalidInput rather than write over the ledger. ``example`` is such a file's name.
    """
    if name == STANDARD:
        with writing_output():
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        return
    refuse_folder(name, example=example)
    path = Path(name).resolve()
    ledger = Path(database).resolve()
    if path in {ledger.with_name(ledger.name + suffix) for suffix in _LEDGER_SUFFIXES}:
        raise InvalidInput(f"{name} is the ledger itself", hint="name another file")
    if path.exists() and not path.is_file():
        # A pipe or a device is written to, never replaced.
        with path.open("wb") as stream:
            yield stream
        return
    with contextlib.ExitStack() as stack:
        try:
            draft = stack.enter_context(files.replacing(path))
        except OSError as error:
            raise StorageError(
                f"cannot write {path}: {error.strerror}",
                hint="check that the folder exists and may be written to",
            ) from error
        yield draft


def refuse_folder(name: str, *, example: str) -> None:
    """Raise InvalidInput if ``name`` is a folder; a file in it could be called ``example``."""
    if Path(name).is_dir():
        raise InvalidInput(
            f"{name} is a folder", hint=f"name a file in it, as in {name.rstrip('/')}/{example}"
        )
