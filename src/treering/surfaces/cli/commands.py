"""Commands and groups: loaded when they are called, each reporting its own errors."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
import msgspec

from treering.errors import Corrupt, StorageError, TreeringError, exit_status
from treering.lazy import LazyModule
from treering.surfaces.cli.output import print_error, print_receipt, say, status_of, writing_output

if TYPE_CHECKING:
    import difflib
    from collections.abc import Callable, Collection, Iterator, Mapping

    from click.shell_completion import CompletionItem
else:
    difflib = LazyModule("difflib")

_EXTRA: Final = re.compile(r"unexpected extra argument \((\S+)\)")
_PACKAGE: Final = __name__.rpartition(".")[0]
TRACEBACK_VARIABLE: Final = "TREERING_TRACEBACK"


class Invocation(msgspec.Struct):
    """What one command line says about all of its parts."""

    as_json: bool
    database: str | None = None
    """The ledger that ``--db`` names; the innermost one counts."""
    keys: str | None = None
    """The folder that ``--keys`` names; the innermost one counts."""
    has_begun: bool = False
    """Whether a command runs, or ran: only then can something have been changed."""


def _show_help(context: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001
    if wanted and not context.resilient_parsing:
        click.echo(context.get_help(), color=context.color)
        context.exit()


class _Shown(click.Command):
    """A command whose help shows examples before it explains."""

    def __init__(self, *arguments: Any, examples: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.examples = inspect.cleandoc(examples).splitlines()
        self._help: click.Option | None = None

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option for help: click's searches the disk for translations of its text."""
        if self._help is None and (names := self.get_help_option_names(ctx)):
            self._help = click.Option(
                [*names, "is_help"], is_flag=True, expose_value=False, is_eager=True,
                help="Show this message and exit.", callback=_show_help,
            )  # fmt: skip
        return self._help

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of this command, and report errors in them as its own."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            extra = _EXTRA.search(error.message)
            options = {option for parameter in self.params for option in parameter.opts}
            # Episodes commands say what they always said.
            if extra and "--session" in options and " episodes " not in ctx.command_path:
                raise ExtraArgument(error, f"--session {extra[1]}") from error
            raise

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence, the examples, then the rest."""
        opening, _, rest = inspect.cleandoc(self.help or "").partition("\n\n")
        with formatter.indentation():
            formatter.write_paragraph()
            formatter.write_text(opening)
        with formatter.section("Examples"):
            indent = " " * formatter.current_indent
            # A command may be known under two paths; its examples show the one that was typed.
            lines = (line.replace("{command}", ctx.command_path) for line in self.examples)
            formatter.write("".join(f"{indent}{line}\n" for line in lines))
        if rest:
            with formatter.indentation():
                formatter.write_paragraph()
                formatter.write_text(rest)


class Command(_Shown):
    """A command that reports its errors, and what holds ``if_stopped``, under its own kind."""

    def __init__(
        self,
        *arguments: Any,
        if_stopped: str = "nothing was changed; run it again",
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self._if_stopped = if_stopped

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error becomes text or JSON and an exit status."""
        with reporting(ctx, kind_of(ctx)):
            try:
                invocation().has_begun = True
                return super().invoke(ctx)
            except KeyboardInterrupt as stopped:
                print_error(
                    kind_of(ctx),
                    str(stopped) or "interrupted",
                    code="interrupted",
                    hint=self._if_stopped,
                    as_json=invocation().as_json,
                )
                ctx.exit(status_of(stopped))


class LazyGroup(_Shown, click.Group):
    """A group that imports a command when it is called, and suggests one when it is unknown."""

    def __init__(
        self,
        *arguments: Any,
        lazy: Mapping[str, str] | None = None,
        sections: Mapping[str, Mapping[str, tuple[str, str]]] | None = None,
        aliases: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        """Take where commands are, by name; ``sections`` also say what each does.

        A list of many commands, for help or a shell's Tab, imports none of those.
        """
        super().__init__(*arguments, **settings)
        listed = {name: row for rows in (sections or {}).values() for name, row in rows.items()}
        self._lazy = lazy or {
            name: f"{_PACKAGE}.{address}" for name, (address, _) in listed.items()
        }
        self._sections: Mapping[str, Collection[str]] = sections or {"Commands": self._lazy}
        self._summaries = {name: summary for name, (_, summary) in listed.items()}
        self._aliases = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Return the names of the commands, in the order in which people meet them."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return a command, or None if it does not exist."""
        address = self._lazy.get(self._aliases.get(cmd_name, cmd_name))
        if address is None:
            return None
        module, _, name = address.partition(":")
        command: click.Command = getattr(import_module(module), name)
        command.short_help = self._summaries.get(cmd_name, command.short_help)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group of commands, all in the same columns."""
        room = formatter.width - 6 - max(map(len, self._lazy))
        widest = max(map(len, self._lazy))
        for title, names in self._sections.items():
            rows = [(name.ljust(widest), self._summary(ctx, name, room)) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)

    def _summary(self, ctx: click.Context, name: str, room: int) -> str:
        if name in self._summaries:
            return self._summaries[name]
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(room)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands, and else the options, that begin with what was typed."""
        if not self._summaries:
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem  # noqa: PLC0415  (only for a shell's Tab)

        return [
            CompletionItem(name, help=summary)
            for name, summary in self._summaries.items()
            if name.startswith(incomplete)
        ] or click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that ``args`` start with. Raises UnknownCommand with a suggestion."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise UnknownCommand(args[0], self._nearest(ctx, args[0]), ctx)
        return super().resolve_command(ctx, args)

    def _nearest(self, ctx: click.Context, name: str) -> list[str]:
        """Return command lines that look like ``name``, here or one level below."""
        here = {command: f"{ctx.command_path} {command}" for command in self._lazy}
        near = difflib.get_close_matches(name, here, n=2)
        if near:
            return [here[command] for command in near]
        for command in self._lazy:
            group = self.get_command(ctx, command)
            if isinstance(group, LazyGroup) and name in group.list_commands(ctx):
                return [f"{here[command]} {name}"]
        return []


class ExtraArgument(click.UsageError):
    """A word where none is expected; most likely it names a session."""

    def __init__(self, error: click.UsageError, suggestion: str) -> None:
        super().__init__(error.message, error.ctx)
        self.possibilities = [suggestion]


class UnknownCommand(click.UsageError):
    """The command does not exist."""

    def __init__(self, name: str, possibilities: list[str], context: click.Context) -> None:
        super().__init__(f"no such command: {name}", context)
        self.possibilities = possibilities


def kind_of(context: click.Context, *inner: str) -> str:
    """Return the receipt kind's stem: ``treering.episodes.query``, whatever alias was typed."""
    names: list[str] = list(inner)
    at: click.Context | None = context
    while at is not None:
        names.insert(0, at.command.name or "")
        at = at.parent
    return ".".join(names)


def invocation() -> Invocation:
    """Return what the running command line says about all of its parts; a server has none."""
    context = click.get_current_context(silent=True)
    current = None if context is None else context.find_object(Invocation)
    return current or Invocation(as_json=False)


def show(
    body: Mapping[str, Any] | msgspec.Struct,
    *lines: str,
    page: Callable[[], object] | None = None,
    done: str = "",
) -> None:
    """Print the receipt of the running command; for people its page, then its lines.

    Raise StorageError if that fails; the error says what was ``done`` nevertheless.
    """
    with writing_output(done):
        if invocation().as_json:
            print_receipt(kind_of(click.get_current_context()), body)
            return
        if page is not None:
            page()
        for line in lines:
            say(line)


def show_aside(body: msgspec.Struct) -> None:
    """Print the receipt on standard error, where standard output carries something else."""
    if invocation().as_json:
        print_receipt(kind_of(click.get_current_context()), body, err=True)


def fail(body: msgspec.Struct, message: str, *, code: str, hint: str) -> NoReturn:
    """Print the receipt of a command that ran and found a problem, and exit with 1."""
    context = click.get_current_context()
    as_json = invocation().as_json
    print_error(kind_of(context), message, code=code, hint=hint, as_json=as_json, body=body)
    context.exit(1)


@contextlib.contextmanager
def reporting(context: click.Context, kind: str) -> Iterator[None]:
    """Turn an error into its text or JSON and its exit status."""
    try:
        yield
    except (TreeringError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        reported = error if isinstance(error, TreeringError) else _from_system(error)
        _report(context, kind, reported)
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        _report(context, kind, _unexpected(error))


def _report(context: click.Context, kind: str, error: TreeringError) -> None:
    running = context.find_object(Invocation)
    print_error(
        kind,
        str(error),
        code=error.code,
        hint=error.hint or f"see {context.command_path} --help",
        as_json=running is not None and running.as_json,
    )
    context.exit(exit_status(error))


def _from_system(error: OSError) -> StorageError:
    name = f"{error.filename}: " if error.filename else ""
    return StorageError(
        f"{name}{error.strerror or error}", hint="check the path, its permissions and the disk"
    )


def _unexpected(error: Exception) -> TreeringError:
    from treering.surfaces.cli.ledgers import damage_of_ledger  # noqa: PLC0415  (it imports us)

    if (damage := damage_of_ledger()) is not None:
        return Corrupt(
            f"the ledger is damaged: {damage}",
            hint="keep a copy, then run treering verify and restore from an export or a backup",
        )
    # The text of an unforeseen error may quote what was being recorded, so only its type is shown.
    frame = sys.exc_info()[2]
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" ({frame.tb_frame.f_globals.get('__name__')}:{frame.tb_lineno})" if frame else ""
    return TreeringError(
        f"unexpected {type(error).__name__}{where}",
        hint=f"this is a bug in treering; set {TRACEBACK_VARIABLE}=1 to see where, and report it",
    )
