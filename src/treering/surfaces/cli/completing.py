"""Shell completion of scopes, sessions and runs from the ledger."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from treering.errors import TreeringError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import click
    from click.shell_completion import CompletionItem

    from treering.ledger.ledger import Ledger

    Names = Callable[[Ledger, click.Context], Iterator[tuple[str, str, str]]]
    """Gives what may be typed: the short id, the whole one, and what it is."""

COMPLETION_VARIABLE: Final = "_TREERING_COMPLETE"
"""Set by a shell that asks for completions."""
ITEMS_MAX: Final = 50
"""Sessions or runs that are offered: the latest."""
_HELP_CHARACTERS_MAX: Final = 60


def _offer(
    names: Names, context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem  # noqa: PLC0415  (only for a shell's Tab)

    from treering.surfaces.cli.ledgers import open_existing  # noqa: PLC0415
    from treering.surfaces.shared.texts import one_line  # noqa: PLC0415

    try:
        with context.scope(cleanup=False), open_existing() as ledger:
            candidates = list(names(ledger, context))
    except (TreeringError, OSError):
        return []  # A shell has nowhere to show an error.
    # The short id is offered, or the whole one to somebody who types that.
    offered = (
        (short if short.startswith(incomplete) else whole, text)
        for short, whole, text in candidates
    )
    return [
        CompletionItem(name, help=one_line(text)[:_HELP_CHARACTERS_MAX] or None)
        for name, text in offered
        if name.startswith(incomplete)
    ]


def _scopes(ledger: Ledger, _: click.Context) -> Iterator[tuple[str, str, str]]:
    from treering.surfaces.shared.texts import scope_names  # noqa: PLC0415  (only for a shell's Tab)

    for name in scope_names(ledger):
        yield name, name, ""


def _sessions(ledger: Ledger, context: click.Context) -> Iterator[tuple[str, str, str]]:
    from treering.surfaces.cli.declare import find_scope  # noqa: PLC0415  (it offers scopes)
    from treering.surfaces.cli.finding import short_sessions  # noqa: PLC0415

    scope = find_scope(context.params.get("scope"), is_global=_is_global(context))
    short = short_sessions(ledger, scope)
    for session in ledger.sessions(scope, subagents=True, limit=ITEMS_MAX).items:
        yield short.shown(session.session_id), session.session_id, session.title or ""


def _runs(ledger: Ledger, context: click.Context) -> Iterator[tuple[str, str, str]]:
    from treering.surfaces.cli.declare import find_scope  # noqa: PLC0415
    from treering.surfaces.cli.finding import short_runs  # noqa: PLC0415

    scope = find_scope(context.params.get("scope"), is_global=_is_global(context))
    short = short_runs(ledger, scope)
    for run in ledger.runs(scope, limit=ITEMS_MAX).items:
        yield short.shown(run.run_id), run.run_id, f"{run.state}, {run.agent_id}"


def _is_global(context: click.Context) -> bool:
    return bool(context.params.get("is_global"))


complete_scope: Final = partial(_offer, _scopes)
"""Returns the scopes that begin like this."""
complete_session: Final = partial(_offer, _sessions)
"""Returns the latest sessions whose ids begin like this, with their titles."""
complete_run: Final = partial(_offer, _runs)
"""Returns the latest runs whose ids begin like this, with how they ended."""
