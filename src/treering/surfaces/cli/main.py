"""The root of the command line: finds the command, runs it, turns what happened into a status."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from treering.errors import exit_status
from treering.surfaces.cli.commands import Invocation, LazyGroup, kind_of
from treering.surfaces.cli.options import db_option, keys_option
from treering.surfaces.cli.output import print_error
from treering.surfaces.cli.signals import heed_signals, status_of
from treering.surfaces.cli.streams import (
    drop_unwritten,
    escape_unencodable,
    stand_in_for_closed,
    unwritable,
)
from treering.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM: Final = "treering"
USAGE: Final = 2
PIPE_CLOSED: Final = 141
"""128 + SIGPIPE: whoever read our output has left."""
COMPLETION_VARIABLE: Final = "_TREERING_COMPLETE"


def run() -> None:
    """Run the command line of this process, and exit with its status."""
    stand_in_for_closed()
    escape_unencodable()
    heed_signals()
    status = main(sys.argv[1:])
    drop_unwritten()
    sys.exit(status)


def main(arguments: Sequence[str]) -> int:
    """Carry out one command line and return its exit status."""
    if COMPLETION_VARIABLE in os.environ:
        return _complete()
    as_json = _wants_json(arguments)
    invocation = Invocation(as_json=as_json)
    try:
        return _carry_out(arguments, invocation)
    except (KeyboardInterrupt, click.Abort) as stopped:
        # Between commands: while one runs, it speaks for itself.
        print_error(
            PROGRAM,
            str(stopped) or "interrupted",
            code="interrupted",
            hint="look at what is recorded before you run it again"
            if invocation.has_begun
            else "nothing was changed; run it again",
            as_json=as_json,
        )
        return status_of(stopped)
    except BrokenPipeError:
        return PIPE_CLOSED
    except OSError as error:
        known = unwritable(error)
        print_error(PROGRAM, str(known), code=known.code, hint=known.hint or "", as_json=as_json)
        return exit_status(known)


@click.group(
    name=PROGRAM,
    cls=LazyGroup,
    lazy={
        "import": "treering.surfaces.cli.imports:import_",
        "watch": "treering.surfaces.cli.watch:watch",
        "install": "treering.surfaces.cli.install:install",
        "uninstall": "treering.surfaces.cli.install:uninstall",
        "episodes": "treering.surfaces.cli.episodes:episodes",
        "sessions": "treering.surfaces.cli.sessions:sessions",
        "show": "treering.surfaces.cli.show:show_transcript",
        "search": "treering.surfaces.cli.search:search",
        "file-history": "treering.surfaces.cli.file_history:file_history",
        "tail": "treering.surfaces.cli.tail:tail",
        "stats": "treering.surfaces.cli.stats:stats",
        "export": "treering.surfaces.cli.export:export",
        "context": "treering.surfaces.cli.context:context",
        "recall": "treering.surfaces.cli.recall:recall",
        "facts": "treering.surfaces.cli.facts:facts",
        "fade": "treering.surfaces.cli.fade:fade",
        "users": "treering.surfaces.cli.users:users",
        "trace": "treering.surfaces.cli.trace:trace",
        "tools": "treering.surfaces.cli.tools:tools",
        "doctor": "treering.surfaces.cli.doctor:doctor",
        "forget": "treering.surfaces.cli.forget:forget",
        "retention": "treering.surfaces.cli.retention:retention",
        "verify": "treering.surfaces.cli.verify:verify",
        "anchor": "treering.surfaces.cli.verify:anchor",
        "copy": "treering.surfaces.cli.copy:copy",
        "rebuild": "treering.surfaces.cli.rebuild:rebuild",
        "db": "treering.surfaces.cli.db:db",
        "keys": "treering.surfaces.cli.keys:keys",
    },
    aliases={"episodic": "episodes"},
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    examples=r"""
    treering import
    treering search no such table
    treering show 5b0c7f1e
    treering verify
    """,
)
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
@keys_option
@db_option
@click.pass_context
def root(context: click.Context) -> None:
    """Record what AI agents do, and read it back: one append-only ledger, a file or a database."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _carry_out(arguments: Sequence[str], invocation: Invocation) -> int:
    try:
        with root.make_context(PROGRAM, list(arguments), obj=invocation) as context:
            root.invoke(context)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.UsageError as error:
        print_error(
            kind_of(error.ctx) if error.ctx else PROGRAM,
            _message(error),
            code="usage",
            hint=_hint(error),
            as_json=invocation.as_json,
        )
        return USAGE
    return 0


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether --json stands among the options; asked before they are parsed, for their errors."""
    options = list(arguments)
    return "--json" in options[: options.index("--")] if "--" in options else "--json" in options


def _message(error: click.UsageError) -> str:
    # An unknown option's own text repeats the suggestions that go into the hint.
    known = isinstance(error, click.NoSuchOption)
    text = (error.message if known else error.format_message()).rstrip(".")
    return text[:1].lower() + text[1:]


def _hint(error: click.UsageError) -> str:
    near = getattr(error, "possibilities", None)
    if near:
        return f"did you mean {near[0]}?"
    path = error.ctx.command_path if error.ctx else PROGRAM
    return f"see {path} --help"


def _complete() -> int:
    from click.shell_completion import shell_complete  # noqa: PLC0415  (only for a shell's Tab)

    instruction = os.environ[COMPLETION_VARIABLE]
    return shell_complete(root, {}, PROGRAM, COMPLETION_VARIABLE, instruction)
