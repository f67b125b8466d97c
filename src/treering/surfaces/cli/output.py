"""What a command prints: receipts and errors as JSON for programs, as text for people."""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.surfaces.shared.texts import (
    printable,
)
from treering.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

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
