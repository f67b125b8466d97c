"""The root of the command line: finds the command, runs it, turns what happened into a status."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from treering.errors import exit_status
from treering.surfaces.cli.commands import Invocation, LazyGroup, kind_of
from treering.surfaces.cli.completing import COMPLETION_VARIABLE
from treering.surfaces.cli.options import EVERYWHERE, KEYS
from treering.surfaces.cli.output import print_error
from treering.surfaces.cli.streams import (
    drop_unwritten,
    escape_unencodable,
    heed_signals,
    stand_in_for_closed,
    status_of,
    unwritable,
)
from treering.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM: Final = "treering"
USAGE: Final = 2
PIPE_CLOSED: Final = 141
"""128 + SIGPIPE: the reader of our output has left."""

_HERE: Final = "treering.surfaces.cli"


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
        reported = unwritable(error)
        print_error(
            PROGRAM, str(reported), code=reported.code, hint=reported.hint or "", as_json=as_json
        )
        return exit_status(reported)


@click.group(
    name=PROGRAM,
    cls=LazyGroup,
    sections={
        "Capture": {
            "import": f"{_HERE}.imports:import_",
            "watch": f"{_HERE}.watch:watch",
            "install": f"{_HERE}.install:install",
            "uninstall": f"{_HERE}.install:uninstall",
        },
        "Look": {
            "view": f"{_HERE}.view:view",
            "sessions": f"{_HERE}.sessions:sessions",
            "show": f"{_HERE}.show:show_transcript",
            "search": f"{_HERE}.search:search",
            "tail": f"{_HERE}.tail:tail",
            "file-history": f"{_HERE}.file_history:file_history",
            "trace": f"{_HERE}.trace:trace",
            "tools": f"{_HERE}.tools:tools",
            "stats": f"{_HERE}.stats:stats",
            "export": f"{_HERE}.export:export",
        },
        "Remember": {
            "recall": f"{_HERE}.recall:recall",
            "facts": f"{_HERE}.facts:facts",
            "users": f"{_HERE}.users:users",
            "fade": f"{_HERE}.fade:fade",
            "memory": f"{_HERE}.memory:memory",
            "context": f"{_HERE}.context:context",
            "mcp": f"{_HERE}.mcp:mcp",
        },
        "Prove and erase": {
            "verify": f"{_HERE}.verify:verify",
            "anchor": f"{_HERE}.verify:anchor",
            "verify-bundle": f"{_HERE}.verify:verify_bundle",
            "redact": f"{_HERE}.erase:redact",
            "forget": f"{_HERE}.erase:forget",
            "retention": f"{_HERE}.erase:retention",
            "gc": f"{_HERE}.erase:gc",
        },
        "Serve": {
            "serve": f"{_HERE}.serve:serve",
            "tokens": f"{_HERE}.tokens:tokens",
            "forward": f"{_HERE}.forward:forward",
            "mirror": f"{_HERE}.mirror:mirror",
            "query": f"{_HERE}.mirror:query",
        },
        "Administer": {
            "doctor": f"{_HERE}.doctor:doctor",
            "copy": f"{_HERE}.copy:copy",
            "rebuild": f"{_HERE}.rebuild:rebuild",
            "keys": f"{_HERE}.keys:keys",
            "db": f"{_HERE}.db:db",
            "completion": f"{_HERE}.completion:completion",
            "episodes": f"{_HERE}.episodes:episodes",
        },
    },
    params=[KEYS, *EVERYWHERE],
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
@click.pass_context
def root(context: click.Context) -> None:
    """Record what AI agents do in one append-only ledger; search, verify, erase and remember it."""
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
    """Whether --json is among the options; needed before they are parsed, for their errors."""
    options = list(arguments)
    return "--json" in options[: options.index("--")] if "--" in options else "--json" in options


def _message(error: click.UsageError) -> str:
    # An unknown option's own text repeats the suggestions that go into the hint.
    is_option = isinstance(error, click.NoSuchOption)
    text = " ".join((error.message if is_option else error.format_message()).split()).rstrip(".")
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
    settings = {"obj": Invocation(as_json=False)}
    return shell_complete(root, settings, PROGRAM, COMPLETION_VARIABLE, instruction)
