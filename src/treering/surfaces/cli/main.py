"""The root of the command line: finds the command, runs it, turns what happened into a status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from treering.errors import exit_status
from treering.surfaces.cli.commands import Invocation, LazyGroup, kind_of
from treering.surfaces.cli.completing import COMPLETION_VARIABLE
from treering.surfaces.cli.declare import EVERYWHERE, KEYS
from treering.surfaces.cli.output import (
    drop_unwritten,
    escape_unencodable,
    heed_signals,
    print_error,
    stand_in_for_closed,
    status_of,
    unwritable,
)
from treering.surfaces.shared.times import usual_zone
from treering.version import __version__

PROGRAM: Final = "treering"
USAGE: Final = 2
PIPE_CLOSED: Final = 141
"""128 + SIGPIPE: the reader of our output has left."""


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


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001
    if wanted and not context.resilient_parsing:
        click.echo(f"{PROGRAM} {__version__}", color=context.color)
        context.exit()


@click.group(
    name=PROGRAM,
    cls=LazyGroup,
    sections={
        "Capture": {
            "import": ("imports:import_", "Import the logs that agents have written."),
            "watch": ("watch:watch", "Follow agents' logs, and import what is new."),
            "install": ("install:install", "Install hooks, or the MCP server, in an agent."),
            "uninstall": ("install:uninstall", "Remove those hooks, or the server, from an agent."),
        },
        "Look": {
            "view": ("serve:view", "Look at everything in a browser, while it happens."),
            "sessions": ("sessions:sessions", "List, show, fork, undo, close and prune sessions."),
            "show": ("show:show_transcript", "Read one session, turn by turn."),
            "search": ("search:search", "Search what was said and done in a scope."),
            "tail": ("tail:tail", "Show the latest events; -f follows."),
            "file-history": (
                "file_history:file_history",
                "Show which tool calls touched a file, and why.",
            ),
            "trace": ("trace:trace", "List runs, show how one went, export it as a file."),
            "tools": ("tools:tools", "List tool calls, show one, and measure tools."),
            "stats": ("stats:stats", "Show recent activity, and what changed."),
            "export": ("export:export", "Write one session to a file."),
        },
        "Remember": {
            "recall": ("recall:recall", "Recall facts, turns and episodes about a question."),
            "facts": ("facts:facts", "List, add, accept and reject facts."),
            "users": ("users:users", "Link handles to people, and merge people."),
            "fade": ("memory:fade", "Archive facts that nobody has used for long."),
            "memory": ("memory:memory", "Keep the memory up to date."),
            "context": ("context:context", "Show what a model sees of a session."),
            "mcp": ("serve:mcp", "Serve the record of a project to an agent (MCP)."),
        },
        "Prove and erase": {
            "verify": ("verify:verify", "Prove that no recorded event was changed."),
            "anchor": ("verify:anchor", "Write an anchor, to verify against later."),
            "verify-bundle": (
                "verify:verify_bundle",
                "Check a bundle of treering export, without a ledger.",
            ),
            "redact": ("erase:redact", "Erase the content of events or a session."),
            "forget": ("erase:forget", "Erase one person from a scope."),
            "retention": (
                "erase:retention",
                "Show and set how long a scope keeps each kind of event.",
            ),
            "gc": ("erase:gc", "Remove events past their retention."),
        },
        "Serve": {
            "serve": (
                "serve:serve",
                "Serve the ledger and its viewer over HTTP, with live events.",
            ),
            "tokens": ("serve:tokens", "Create and remove tokens for treering serve."),
            "forward": ("forward:forward", "Send events to a webhook, a collector or NATS."),
            "mirror": ("mirror:mirror", "Mirror events in Parquet files, for treering query."),
            "query": ("mirror:query", "Query a mirror in SQL."),
        },
        "Administer": {
            "doctor": ("doctor:doctor", "Find problems, and say how to fix them."),
            "copy": ("episodes.copy:copy", "Copy events from one ledger to another."),
            "rebuild": ("verify:rebuild", "Rebuild all derived data."),
            "keys": ("keys:keys", "Encrypt the payloads of a scope, and manage its keys."),
            "db": ("db:db", "Manage a ledger on PostgreSQL."),
            "completion": ("completion:completion", "Print the completion script for your shell."),
            "episodes": ("episodes:episodes", "Work with single events, at a low level."),
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
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version,
    help="Show the version and exit.",
)  # fmt: skip
@click.pass_context
def root(context: click.Context) -> None:
    """Record what AI agents do in one append-only ledger; search, verify, erase and remember it."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _carry_out(arguments: Sequence[str], invocation: Invocation) -> int:
    try:
        with usual_zone(), root.make_context(PROGRAM, list(arguments), obj=invocation) as context:
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
