"""``treering context``: what a model is shown next, or was shown before, and what was cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.completing import complete_run, complete_session
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output

if TYPE_CHECKING:
    from treering.context.assemble import Context
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.scopes import Scope

DIALECT_DEFAULT: Final = "openai-chat"


class ShownContext(msgspec.Struct, frozen=True, kw_only=True):
    """A context as it is shown here: what goes to the provider, and how it was assembled."""

    dialect: str
    request: dict[str, Any]
    """The keyword arguments of the provider's client; secrets are masked unless asked for."""
    messages: int
    tokens: int
    tokens_between: tuple[int, int]
    """What it costs at least and at most, as far as estimates are known to err."""
    accuracy: str
    """How far the tokens can be relied on."""
    max_tokens: int | None
    reserve_output_tokens: int
    ratio: float
    """What the provider counted to one token of the estimate, lately."""
    report: list[Any]
    """Every repair and cut, in words if that was asked for."""
    event_ids: list[str]
    contributed: list[Any]
    """Who added something for this call alone, without what it was."""
    until_seq: int
    digest: str
    masked: int
    """How many of the messages held a secret, which is masked here."""


@click.command(
    "context",
    cls=Command,
    short_help="Show what a model sees of a session.",
    examples="""
    treering context main:telegram:jo --scope acme/app --max-tokens 8000
    treering context main:telegram:jo --scope acme/app --max-tokens 2000 --dialect anthropic --json
    treering context main:telegram:jo --scope acme/app --max-tokens 2000 --explain
    treering context main:telegram:jo --scope acme/app --shown --turn 3
    """,
)
@click.argument("session", shell_complete=complete_session)
@project_scope_options
@click.option("--max-tokens", type=int, metavar="N", help="The context window of the model.")
@click.option(
    "--dialect",
    metavar="NAME",
    help="openai-chat (the default), openai-responses, anthropic, gemini or plain.",
)
@click.option("--reserve", type=int, metavar="N", help="Reserve N tokens of it for the answer.")
@click.option("--explain", is_flag=True, help="Explain what was repaired and cut, and why.")
@click.option("--full", is_flag=True, help="Do not shorten long texts.")
@click.option("--private", is_flag=True, help="Do not mask secrets.")
@click.option(
    "--shown", is_flag=True, help="Show what the model saw before: last, or in a turn or run."
)
@click.option("--turn", type=int, metavar="N", help="With --shown: in turn N, counted from 1.")
@click.option(
    "--run", "run_id", metavar="ID", shell_complete=complete_run, help="With --shown: in this run."
)
@keys_option
@json_option
@db_option
def context(
    *,
    session: str,
    scope: str | None,
    is_global: bool,
    explain: bool,
    full: bool,
    private: bool,
    shown: bool,
    turn: int | None,
    run_id: str | None,
    **budget: Any,
) -> None:
    """Show what the model of SESSION sees next, within --max-tokens.

    Nothing is recorded. --shown reconstructs what a model saw before, and says whether that is
    exact. Secrets are masked, unless --private. SESSION is an id or a short id.
    """
    from treering.surfaces.cli.sessions.search import open_session  # noqa: PLC0415  (not for --help)

    name = find_scope(scope, is_global=is_global)
    _check(budget, shown=shown, turn=turn, run_id=run_id)
    mask = None if private else Mask()
    with open_existing() as ledger:
        found = open_session(ledger, name, session)
        body = {"scope": name, "session_id": found.session_id, "private": private}
        if shown:
            from treering.surfaces.cli.context_shown import find_shown  # noqa: PLC0415

            times = find_shown(ledger, found, turn=turn, run_id=run_id)
            contexts = [_told(ledger, name, one.context, mask, explain=explain) for one in times]
        else:
            times, contexts = [], [_told(ledger, name, _next(found, budget), mask, explain=explain)]
    if not invocation().as_json:
        from treering.surfaces.cli.context_page import print_next, print_shown  # noqa: PLC0415

        with writing_output():
            if shown:
                print_shown(found, times, contexts, explained=explain, full=full)
            else:
                print_next(found, contexts[0], explained=explain, full=full)
    elif shown:
        listed = [
            {**_when(time), **msgspec.structs.asdict(one)}
            for time, one in zip(times, contexts, strict=True)
        ]
        show({**body, "count": len(listed), "shown": listed})
    else:
        show({**body, **msgspec.structs.asdict(contexts[0])})


def _check(budget: dict[str, Any], *, shown: bool, turn: int | None, run_id: str | None) -> None:
    """Raise InvalidInput if the options do not belong together."""
    if not shown:
        if turn is not None or run_id is not None:
            flag = "--turn" if turn is not None else "--run"
            raise InvalidInput(f"{flag} is about what was shown", hint="add --shown")
        if budget["max_tokens"] is None:
            raise InvalidInput(
                "max_tokens is required",
                hint="pass the window of the model, as in --max-tokens 8000, or --shown",
            )
        return
    if turn is not None and run_id is not None:
        raise InvalidInput("--turn and --run exclude each other", hint="drop one of the two")
    for name, value in budget.items():
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            raise InvalidInput(
                f"{flag} cannot be chosen for what was shown already", hint=f"drop {flag}"
            )


def _next(session: Session, budget: dict[str, Any]) -> Context:
    return session.context(
        budget["max_tokens"],
        dialect=budget["dialect"] or DIALECT_DEFAULT,
        reserve_output_tokens=budget["reserve"] or 0,
    )


def _told(
    ledger: Ledger, scope: Scope, context: Context, mask: Mask | None, *, explain: bool
) -> ShownContext:
    from treering.surfaces.cli.context_repairs import explain as explained  # noqa: PLC0415

    before = 0 if mask is None else mask.masked
    request = context.request if mask is None else _masked(context.request, mask)
    return ShownContext(
        dialect=context.dialect,
        request=request,
        messages=len(context.messages),
        tokens=context.tokens,
        tokens_between=context.tokens_between,
        accuracy=context.accuracy,
        max_tokens=context.max_tokens,
        reserve_output_tokens=context.reserve_output_tokens,
        ratio=context.ratio,
        report=explained(ledger, scope, context.report) if explain else context.report,
        event_ids=context.event_ids,
        contributed=context.contributed,
        until_seq=context.until_seq,
        digest=context.digest,
        masked=0 if mask is None else mask.masked - before,
    )


def _masked(request: dict[str, Any], mask: Mask) -> dict[str, Any]:
    """Return a request with secrets masked, message by message."""
    return {
        name: [mask.value(one) for one in value] if isinstance(value, list) else mask.value(value)
        for name, value in request.items()
    }


def _when(shown: Any) -> dict[str, Any]:
    names = ("event_id", "seq", "run_id", "ts_ms", "exact")
    return {name: getattr(shown, name) for name in names}
