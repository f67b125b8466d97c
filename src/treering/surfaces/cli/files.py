"""Files that a command reads and writes: whole or not at all, and for their owner's eyes."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from treering.capture.episodes.files import sync_folder
from treering.errors import InvalidInput, StorageError, TooLarge
from treering.model.codec import SPILL_BYTES_MAX
from treering.surfaces.cli.streams import writing_output

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD: Final = "-"
"""Stands for standard input or output."""
_PRIVATE: Final = 0o600
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
    with _replacing(path) as stream:
        yield stream


def refuse_folder(name: str, *, example: str) -> None:
    """Raise InvalidInput if ``name`` is a folder; a file in it could be called ``example``."""
    if Path(name).is_dir():
        raise InvalidInput(
            f"{name} is a folder", hint=f"name a file in it, as in {name.rstrip('/')}/{example}"
        )


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    # Named by chance, so that it is ours to remove whatever the moment of an interruption.
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}.partial")
    try:
        with _create(draft, path) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _create(draft: Path, path: Path) -> IO[bytes]:
    try:
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}",
            hint="check that the folder exists and may be written to",
        ) from error
    return os.fdopen(descriptor, "wb")
