"""``treering export``: one session as a file, for people, for providers, for other ledgers."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import Command, show, show_aside
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.files import STANDARD, output_stream, refuse_folder
from treering.surfaces.cli.ledgers import database_path
from treering.surfaces.cli.opening import open_to_ask
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import counted
from treering.surfaces.cli.projects import find_scope, project_scope_options

if TYPE_CHECKING:
    from treering.surfaces.cli.export_formats import Exported

_SUFFIXES: Final = {"jsonl": "jsonl", "markdown": "md", "html": "html", "claude-code": "jsonl",
                    "openai": "json", "apeira": "jsonl", "apeira-state": "json",
                    "clawser": "jsonl"}  # fmt: skip
FORMATS: Final = tuple(_SUFFIXES)
_ENDINGS: Final = {".html": "html", ".md": "markdown"}
"""Formats that the name of a file is enough for; several write .json and .jsonl."""
_SPOKEN: Final = frozenset({"claude-code", "openai", "apeira", "apeira-state", "clawser"})
"""Formats that are nothing without what was said."""
_NOUNS: Final = {"jsonl": "event", "openai": "message", "claude-code": "line", "apeira": "episode",
                 "apeira-state": "episode", "clawser": "event"}  # fmt: skip
"""What a file consists of; one for people, of entries."""


class SessionExport(msgspec.Struct, frozen=True, kw_only=True):
    """What was exported."""

    scope: str
    session_id: str
    format: str
    out: str
    payloads: str
    items: int
    """Events of jsonl and clawser, messages of openai, lines of claude-code, episodes of apeira,
    entries of the others."""
    masked: int
    """How many texts held a secret, which is masked in the file."""
    withheld: int
    """Entries that still looked like a secret when the file was checked."""
    secrets: int
    """Of jsonl, which is an exact copy: lines with a secret that is recorded as it is."""


@click.command(
    "export",
    cls=Command,
    short_help="Write one session to a file.",
    examples="""
    treering export main:telegram:jo --scope acme/app --format html --out jo.html
    treering export main:tele --scope acme/app --format markdown --payload | less
    treering export main:tele --scope acme/app --format openai --out messages.json
    """,
    if_stopped="a file appears when it is complete; run it again",
)
@click.argument("session", shell_complete=complete_session)
@project_scope_options
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="The format to write. Default: by the ending of --out, .html or .md.",
)
@click.option(
    "--out", default=STANDARD, metavar="FILE", help="The file to write. Default: standard output."
)
@click.option(
    "--payload",
    is_flag=True,
    help="Include private content: full messages, tool inputs and outputs. Formats of other agents"
    " always do.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@keys_option
@json_option
@db_option
def export(
    *,
    session: str,
    scope: str | None,
    is_global: bool,
    form: str | None,
    out: str,
    payload: bool,
    force: bool,
) -> None:
    """Write SESSION to a file, readable by you alone.

    markdown and html are for people. openai is a list of chat messages. claude-code is a log as
    Claude Code writes it; apeira and clawser are logs of those agents; apeira-state is what
    Apeira stores of a session. jsonl is an exact copy that treering episodes import reads.
    Secrets are masked, except in jsonl.

    The file appears under its name when it is complete. An export to standard output puts its
    receipt on standard error.
    """
    from treering.surfaces.cli.export_formats import write_session  # noqa: PLC0415  (not for --help)
    from treering.surfaces.cli.sessions.search import open_session  # noqa: PLC0415

    name = find_scope(scope, is_global=is_global)
    form = form or _format_of(out)
    held = "included" if payload or form in _SPOKEN else "withheld"
    _check_target(out, form, force=force)
    with open_to_ask() as ledger:
        opened = open_session(ledger, name, session)
        example = f"session.{_SUFFIXES[form]}"
        with output_stream(out, database=database_path(), example=example) as stream:
            done = write_session(
                ledger, opened, stream, form=form, with_payloads=held == "included"
            )
    receipt = SessionExport(
        scope=name,
        session_id=opened.session_id,
        format=form,
        out=out,
        payloads=held,
        **msgspec.structs.asdict(done),
    )
    if out == STANDARD:
        show_aside(receipt)
    else:
        show(receipt, *_told(receipt, done), done=f"the export was written to {out}")


def _format_of(out: str) -> str:
    """Return the format that a file's name asks for. Raise InvalidInput if it asks for none."""
    form = _ENDINGS.get(PurePath(out).suffix.lower())
    if form is None:
        raise InvalidInput(
            "--format is required", hint=f"pass one of {', '.join(FORMATS)}, or --out FILE.html"
        )
    return form


def _check_target(out: str, form: str, *, force: bool) -> None:
    if out == STANDARD:
        return
    refuse_folder(out, example=f"session.{_SUFFIXES[form]}")
    # A pipe or a device is written to, never replaced.
    if os.path.lexists(out) and not force and (os.path.isfile(out) or os.path.islink(out)):  # noqa: PTH113, PTH114
        raise InvalidInput(
            f"{out} already exists", hint="name another file, or pass --force to overwrite it"
        )


def _told(receipt: SessionExport, done: Exported) -> list[str]:
    noun = _NOUNS.get(receipt.format)
    size = counted(done.items, noun) if noun else _entries(done.items)
    lines = [f"exported session {receipt.session_id} to {receipt.out}: {size}"]
    if receipt.payloads == "withheld":
        lines.append(
            "texts are shortened; --payload includes full messages, tool inputs and outputs"
        )
    else:
        lines.append("it holds private content: be careful whom you give it to")
    if done.masked:
        lines.append(f"{counted(done.masked, 'text')} held secrets, which are masked in it")
    if done.withheld:
        lines.append(_withheld(done.withheld))
    if done.secrets:
        lines.append(f"secrets as recorded in {counted(done.secrets, 'line')}: it is an exact copy")
    return lines


def _entries(number: int) -> str:
    return f"{number:,} {'entry' if number == 1 else 'entries'}"


def _withheld(number: int) -> str:
    looked = "looked like a secret and was" if number == 1 else "looked like secrets and were"
    return f"{_entries(number)} {looked} withheld"
