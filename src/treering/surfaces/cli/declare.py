"""Declaring a command: a function of its own arguments, with what all commands share.

An option or an argument is declared where the function takes it, as the default of a parameter:

    def close(*, session: str = session_argument, reason: str | None = option("TEXT", "Why.")):

Options that belong together are the fields of an ``Options``, which the function takes as one:

    def stats(*, calls: ChosenCalls = together(ChosenCalls)):

``@command`` adds ``--scope`` and ``--global`` by the scope rule, ``--keys``, ``--json``, ``--db``
and ``--utc``, and hands the function its ``scope``. The function prints with ``show``: a receipt as
JSON, or lines for people. Options that several commands have are declared here.
"""

from __future__ import annotations

import functools
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

import click
import msgspec

from treering.clock import now_ms
from treering.errors import InvalidInput, InvalidKind, InvalidScope
from treering.lazy import LazyModule
from treering.model.fields import check_name, check_time
from treering.model.kinds import EPISODE_KINDS, KINDS, parse_kind, stored_kinds
from treering.model.scopes import GLOBAL, Scope, parse_scope
from treering.surfaces.cli.commands import Command, Invocation, LazyGroup
from treering.surfaces.cli.completing import complete_scope, complete_session
from treering.surfaces.shared.times import TIMES_HINT, milliseconds, use_utc

if TYPE_CHECKING:
    import difflib
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from treering.ledger.ledger import Ledger
else:
    difflib = LazyModule("difflib")

Read = TypeVar("Read")

PAGE_ITEMS_MAX: Final = 500
SCOPE_VARIABLE: Final = "TREERING_SCOPE"
_ECHO_CHARACTERS_MAX: Final = 60
JSON: Final = click.Option(
    ["--json"], is_flag=True, expose_value=False, help="Print one JSON object; errors, too."
)


class _Declared(NamedTuple):
    """An option or an argument of a command, as the default of the parameter that it fills."""

    sort: type[click.Parameter]
    names: Sequence[str]
    settings: Mapping[str, Any]

    def named(self, parameter: str) -> click.Parameter:
        """Return it as click has it, for ``parameter``."""
        own = (f"--{parameter.replace('_', '-')}",) if self.sort is click.Option else ()
        return self.sort([parameter, *(self.names or own)], **self.settings)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options that belong together; the defaults of the fields declare them."""


class _Together(NamedTuple):
    """Options of a command, as the default of the parameter that takes them as one value."""

    options: type[Options]


def together(options: type[Options]) -> Any:
    """Return the options that ``options`` declares, for a parameter that takes all of them."""
    return _Together(options)


def option(metavar: str | None, text: str | None, *names: str, **settings: Any) -> Any:
    """Return an option; its name is that of its parameter, unless ``names`` are given."""
    return _Declared(click.Option, names, {"metavar": metavar, "help": text, **settings})


def flag(text: str | None, *names: str, **settings: Any) -> Any:
    """Return an option that takes no value."""
    return option(None, text, *names, is_flag=True, **settings)


def choice(values: Sequence[str], text: str, *names: str, **settings: Any) -> Any:
    """Return an option that takes one of ``values``."""
    return option(None, text, *names, type=click.Choice(values), **settings)


def argument(**settings: Any) -> Any:
    """Return an argument."""
    return _Declared(click.Argument, (), settings)


def out_option(text: str, *, default: str | None = None) -> Any:
    """Return ``--out``, which is required unless it has a default."""
    given = {"required": True} if default is None else {"default": default}
    return option("FILE", text, "--out", "-o", **given)


def limit_option(
    default: int, maximum: int = PAGE_ITEMS_MAX, *, text: str = "Items in a page"
) -> Any:
    """Return an option that takes a number of items; read it with ``clamp``."""
    return option("N", f"{text}, 1 to {maximum}. Default: {default}.", default=default)


def session_option_that(text: str, *names: str) -> Any:
    """Return an option that names a session, which a shell completes."""
    return option("ID", text, *names, shell_complete=complete_session)


session_argument: Any = argument(shell_complete=complete_session)
session_option: Any = session_option_that("Only this session.", "--session")
session_id_option: Any = session_option_that("Only this session.", "--session-id", "--session")
"""The common spelling, after the one of the episodes commands."""
include_payload_option: Any = flag(
    "Include private payloads, as stored.", "--include-payload", "--payload"
)
"""The same."""
since_option: Any = option("WHEN", "Started since then: 3d, a date, or milliseconds.")
until_option: Any = option("WHEN", "Started until then, inclusive.")
cursor_option: Any = option("CURSOR", "Continue after a page: its next_cursor.")
anchor_option: Any = option("FILE", "Also compare with this anchor.", "--anchor")
derived_option: Any = flag("Also compare derived data with the events.")


def _remember_database(context: click.Context, _: click.Parameter, value: str | None) -> None:
    invocation = context.find_object(Invocation)  # None while a shell completes a line
    if value is not None and invocation is not None:
        invocation.database = value


def _remember_keys(context: click.Context, _: click.Parameter, value: str | None) -> None:
    invocation = context.find_object(Invocation)
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty; name a folder, or omit it", context)
    if value is not None and invocation is not None:
        invocation.keys = value


def _use_utc(_context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001
    if value:
        use_utc()


EVERYWHERE: Final = (
    click.Option(
        ["--db"],
        metavar="LEDGER",
        expose_value=False,
        callback=_remember_database,
        help="The ledger: a file, or postgresql://… Default: TREERING_DB, else your data folder.",
    ),
    click.Option(
        ["--utc"],
        is_flag=True,
        expose_value=False,
        callback=_use_utc,
        help="Show times in UTC. Default: TREERING_TZ, else local time.",
    ),
)
"""Options of every command and every group."""
KEYS: Final = click.Option(
    ["--keys"],
    metavar="FOLDER",
    expose_value=False,
    callback=_remember_keys,
    help="The key folder. Default: TREERING_KEYS, else one in your configuration folder.",
)


def resolve_scope(scope: str | None, *, is_global: bool) -> Scope:
    """Return the scope that was named. Raises InvalidScope: nothing falls back to all scopes."""
    if scope is None or not scope.strip():
        if is_global:
            return GLOBAL
        raise InvalidScope(
            "scope is required (or pass --global)", hint="name one, as in --scope acme/app"
        )
    name = parse_scope(scope)
    if is_global and name != GLOBAL:
        raise InvalidScope(
            "--global cannot be combined with non-global --scope", hint="drop one of the two"
        )
    return name


def require(text: str | None, field: str, *, hint: str | None = None) -> str:
    """Return the name given for ``field``. Raises InvalidInput if it is blank or unusable."""
    if text is None or not text.strip():
        raise InvalidInput(f"{field} is required", hint=hint or f"pass --{field.replace('_', '-')}")
    return check_name(text, field)


def parse_time(text: str | None) -> int | None:
    """Return the milliseconds since 1970 of ``3d``, a date, or a number; a fraction is cut off.

    Raise InvalidInput for anything else.
    """
    if text is None:
        return None
    try:
        number = _whole(text)
    except (ValueError, OverflowError) as error:
        time_ms = milliseconds(text.strip(), now_ms=now_ms())
        if time_ms is None:
            raise InvalidInput(
                f"invalid ts_ms: {text[:_ECHO_CHARACTERS_MAX]}", hint=TIMES_HINT
            ) from error
        number = time_ms
    return check_time(number)


def parse_episode_kind(text: str | None) -> str:
    """Return one of the seven kinds that ``episodes append`` records."""
    name = (text or "").strip().lower()
    if name not in EPISODE_KINDS:
        raise InvalidKind(
            f"invalid type: {name[:_ECHO_CHARACTERS_MAX] or '<empty>'};"
            f" allowed: {', '.join(EPISODE_KINDS)}",
            hint="pass one of them, as in --type conversation.user",
        )
    return name


def parse_kinds(texts: Iterable[str]) -> list[str]:
    """Return the kinds named in ``texts``, each a comma-separated list; each kind once."""
    names = (name for text in texts for name in text.split(",") if name.strip())
    return list(dict.fromkeys(kind for name in names for kind in _read(stored_kinds, name)))


def parse_any_kind(text: str) -> str:
    """Return the stored name of a kind. Raises InvalidKind in the words of the command line."""
    return _read(parse_kind, text).name


def _read(read: Callable[[str], Read], text: str) -> Read:
    try:
        return read(text)
    except InvalidKind as error:
        name = text.strip().lower()[:_ECHO_CHARACTERS_MAX]
        near = difflib.get_close_matches(name, KINDS, n=2)
        raise InvalidKind(
            f"invalid type: {name or '<empty>'}",
            hint=f"did you mean {' or '.join(near)}?"
            if near
            else f"use a type such as {', '.join(EPISODE_KINDS)}",
        ) from error


def clamp(limit: int) -> int:
    """Return ``limit`` within the bounds of a page."""
    return max(1, min(limit, PAGE_ITEMS_MAX))


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))


def find_scope(scope: str | None, *, is_global: bool) -> Scope:
    """Return the scope that was named, here or in the environment, else the project's."""
    named = os.environ.get(SCOPE_VARIABLE)
    if scope is not None or is_global:
        return resolve_scope(scope, is_global=is_global)
    if named is not None and named.strip():
        return parse_scope(named)
    return project_scope(Path.cwd())


def known_or_all(ledger: Ledger, scope: Scope | None) -> Scope | None:
    """Return the scope to read; None for all, if nothing is recorded of the folder's project."""
    given = click.get_current_context().params
    is_named = given["scope"] or given["is_global"] or os.environ.get(SCOPE_VARIABLE, "").strip()
    if scope is None or is_named or ledger.headers(scope, first=1).items:
        return scope
    return None


def scope_shown(scope: str | None) -> str:
    """Return which scopes were read, for people."""
    return "all scopes" if scope is None else f"scope {scope}"


def project_scope(folder: Path) -> Scope:
    """Return the scope of the project that ``folder`` is part of: its git remote, else its name.

    Raises InvalidScope if that cannot name a scope.
    """
    from treering.capture.projects import project_name  # noqa: PLC0415  (not for --help)

    name = project_name(folder)
    try:
        return parse_scope(name)
    except InvalidScope as error:
        raise InvalidScope(
            f"scope is required: {name!r}, the name of this folder, cannot be one",
            hint=f"name one, as in --scope acme/app, or set {SCOPE_VARIABLE}",
        ) from error


_PACKAGE: Final = __name__.rpartition(".")[0]
ScopeRule = Literal["project", "wide", "optional", "named", "required", "all", "each"]
"""Which scope is meant without ``--scope``.

project: that of the environment, else of the folder's project; optional: the same, or None;
wide: the same, and all scopes if nothing is recorded of that project (see ``known_or_all``);
named: only that of the environment, because nothing is erased or encrypted by a guess;
required: none; all: all scopes; each: for each log its own.
"""

_SCOPE_HELP: Final[Mapping[ScopeRule, str]] = {
    "project": f"The scope. Default: {SCOPE_VARIABLE}, else the project's git remote or folder.",
    "wide": f"The scope. Default: {SCOPE_VARIABLE}, else the project's, if known, else all.",
    "optional": f"The scope. Default: {SCOPE_VARIABLE}, else the project's git remote or folder.",
    "named": f"The scope. Required, unless {SCOPE_VARIABLE} is set.",
    "required": "The scope; required.",
    "all": f"Only this scope. Default: all scopes; {SCOPE_VARIABLE} is ignored.",
    "each": "Put all sessions here. Default: each by its project's git remote or folder.",
}


def command(
    name: str | None = None,
    *,
    scope: ScopeRule | None = None,
    all_scopes: str | None = None,
    options: Sequence[click.Option] = (),
    keys: bool = True,
    json: bool = True,
    db: bool = True,
    cls: type[Command] = Command,
    **settings: Any,
) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a function a command, which is called as it, or ``name``.

    ``all_scopes`` is the help of ``--all-scopes``, which passes None as the scope.
    ``options`` come before those that the function declares.
    """

    def declare(function: Callable[..., Any]) -> Command:
        scoped = [] if scope is None else scope_options(scope, all_scopes)
        shared = [KEYS] * keys + [JSON] * json + [*EVERYWHERE] * db
        return cls(
            name=name or _command_name(function.__name__),
            callback=_gathered(function) if scope is None else _scoped(_gathered(function), scope),
            params=[*scoped, *options, *_own_options(function), *shared],
            help=inspect.cleandoc(function.__doc__ or ""),
            **settings,
        )

    return declare


def group(
    name: str, commands: str, *, keys: bool = True, db: bool = True, **settings: Any
) -> Callable[[Callable[..., Any]], LazyGroup]:
    """Return a decorator that makes a function a group; called alone, it prints its help.

    ``commands`` are functions of its module, or of others: ``add``, ``facts.write:add``; with a
    name where it is not that of the function: ``show=show_run``.
    """

    def declare(function: Callable[..., Any]) -> LazyGroup:
        @click.pass_context
        @functools.wraps(function)
        def callback(context: click.Context) -> None:
            if context.invoked_subcommand is None:
                click.echo(context.get_help())
            else:
                function()

        return LazyGroup(
            name=name,
            lazy=dict(_named(function.__module__, entry) for entry in commands.split()),
            callback=callback,
            invoke_without_command=True,
            params=[KEYS] * keys + [*EVERYWHERE] * db,
            help=inspect.cleandoc(function.__doc__ or ""),
            **settings,
        )

    return declare


def _named(module: str, entry: str) -> tuple[str, str]:
    """Return the name of a command, and where its function is."""
    name, _, address = entry.rpartition("=")
    place, _, function = address.rpartition(":")
    module = f"{_PACKAGE}.{place}" if place else module
    return name or _command_name(function), f"{module}:{function}"


def _command_name(function: str) -> str:
    return function.removesuffix("_").replace("_", "-")


def _own_options(function: Callable[..., Any]) -> list[click.Parameter]:
    """Return the options and arguments that ``function`` declares, in order."""
    return [
        declared.named(name)
        for parameter, default in (function.__kwdefaults__ or {}).items()
        for name, declared in _fields(default) or [(parameter, default)]
        if isinstance(declared, _Declared)
    ]


def _fields(default: Any) -> list[tuple[str, Any]]:
    if not isinstance(default, _Together):
        return []
    options = default.options
    return list(zip(options.__struct_fields__, options.__struct_defaults__, strict=True))


def _gathered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` as it is called with all options by name."""
    defaults = function.__kwdefaults__ or {}
    if not any(isinstance(default, _Together) for default in defaults.values()):
        return function

    @functools.wraps(function)
    def callback(**arguments: Any) -> Any:
        for parameter, default in defaults.items():
            if isinstance(default, _Together):
                given = {name: arguments.pop(name) for name, _ in _fields(default)}
                arguments[parameter] = default.options(**given)
        return function(**arguments)

    return callback


def scope_options(rule: ScopeRule, all_scopes: str | None = None) -> list[click.Option]:
    """Return ``--scope`` and ``--global``; read them with ``scope_by``."""
    every = click.Option(["--all-scopes", "--all"], is_flag=True, help=all_scopes)
    return [
        click.Option(
            ["--scope"], metavar="SCOPE", shell_complete=complete_scope, help=_SCOPE_HELP[rule]
        ),
        click.Option(
            ["--global", "is_global"],
            is_flag=True,
            help="Use the scope named global (not all scopes).",
        ),
        *([every] if all_scopes else []),
    ]


def scope_by(rule: ScopeRule, scope: str | None, *, is_global: bool) -> Scope | None:
    """Return the scope that was named, else the one that the rule gives.

    Raise InvalidScope if there is none, unless None means something to the command.
    """
    if rule in {"all", "each"} and scope is None and not is_global:
        return None
    if rule in {"project", "wide", "optional"}:
        try:
            return find_scope(scope, is_global=is_global)
        except InvalidScope:
            if rule == "project" or scope is not None:
                raise
            return None
    if rule == "named" and not is_global:
        scope = scope or os.environ.get(SCOPE_VARIABLE)
    return resolve_scope(scope, is_global=is_global)


def _scoped(function: Callable[..., Any], rule: ScopeRule) -> Callable[..., Any]:
    @functools.wraps(function)
    def callback(
        *, scope: str | None, is_global: bool, all_scopes: bool = False, **arguments: Any
    ) -> Any:
        if not all_scopes:
            return function(scope=scope_by(rule, scope, is_global=is_global), **arguments)
        if scope is not None or is_global:
            raise InvalidInput(
                "--all-scopes cannot be combined with a scope", hint="drop one of the two"
            )
        return function(scope=None, **arguments)

    return callback
