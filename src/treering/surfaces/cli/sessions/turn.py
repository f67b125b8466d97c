"""``treering sessions fork``, ``undo`` and ``redo``: another past for a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from treering.surfaces.cli.commands import Command, show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.options import db_option, json_option, keys_option, require
from treering.surfaces.cli.output import counted, one_line
from treering.surfaces.cli.projects import find_scope, project_scope_options

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.scopes import Scope
    from treering.model.views import TurnView

_PROMPTS_MAX: Final = 3
_UNSEEN_BETWEEN_MAX: Final = 50
"""Turns that may lie between those to be undone: they failed, or were undone before."""


@click.command(
    "fork",
    cls=Command,
    short_help="Fork a session at a turn.",
    examples="""
    treering sessions fork s1 --scope acme/app --title "Try it without the lock"
    treering sessions fork s1 --scope acme/app --at 01a1de94-e936 --id s1-b
    """,
    if_stopped="see treering sessions tree for whether it was forked",
)
@click.argument("session", shell_complete=complete_session)
@project_scope_options
@click.option(
    "--at", metavar="EVENT", help="Share the past up to the end of this event's turn. Default: all."
)
@click.option("--id", "new_id", metavar="ID", help="The id of the fork. Default: a new one.")
@click.option("--title", metavar="TEXT", help="The title of the fork.")
@keys_option
@json_option
@db_option
def fork(
    *,
    session: str,
    scope: str | None,
    is_global: bool,
    at: str | None,
    new_id: str | None,
    title: str | None,
) -> None:
    """Create a session that shares the past of SESSION, up to the end of a turn.

    Nothing is copied, and SESSION does not change. Erasing a part of the shared past erases it
    for both.
    """
    name = find_scope(scope, is_global=is_global)
    named = None if new_id is None else require(new_id, "id")
    with open_existing("change") as ledger:
        from treering.surfaces.cli.event_search import find_event  # noqa: PLC0415  (not for --help)

        parent = _named(ledger, name, session)
        event = None if at is None else find_event(ledger, name, at)
        made = parent.fork(named, at=event, title=title)
        outline = made.outline()
    show(
        {"scope": name, "session_id": made.session_id, "parent": outline.parent,
         "forked_seq": outline.forked_seq, "title": outline.title, "agent": made.agent},
        f"forked session {parent.session_id} at seq {outline.forked_seq} as {made.session_id}",
        f'continue in it: ledger.session("{made.session_id}", scope="{name}",'
        f' agent="{made.agent}")',
        f"what its model sees: treering context {made.session_id} --scope {name} --max-tokens 8000",
        done=f"the session was forked as {made.session_id}",
    )  # fmt: skip


@click.command(
    "undo",
    cls=Command,
    short_help="Hide the last turns from the model.",
    examples="""
    treering sessions undo main:telegram:jo --scope acme/app
    treering sessions undo main:telegram:jo --scope acme/app --turns 2
    """,
    if_stopped="see treering sessions show for whether it was undone",
)
@click.argument("session", shell_complete=complete_session)
@project_scope_options
@click.option(
    "--turns",
    type=int,
    default=1,
    metavar="N",
    help="Undo N turns; a run with several prompts counts as one. Default: 1.",
)
@keys_option
@json_option
@db_option
def undo(*, session: str, scope: str | None, is_global: bool, turns: int) -> None:
    """Hide the last turns of SESSION from its model, until redo restores them.

    Only the conversation moves back; files and other effects of tools do not. Nothing is
    deleted.
    """
    name = find_scope(scope, is_global=is_global)
    with open_existing("change") as ledger:
        opened = _named(ledger, name, session)
        before = list(opened.turns(last=max(turns, 0) + _UNSEEN_BETWEEN_MAX))
        header = opened.undo(turns=turns)
        from_seq, hidden = (_number(header.refs, one) for one in ("from_seq", "turns"))
    prompts = [one.prompt for one in before if one.first_seq >= from_seq and _is_seen(one)]
    more = len(prompts) - _PROMPTS_MAX
    show(
        {"scope": name, "session_id": opened.session_id, "turns": hidden, "from_seq": from_seq,
         "event_id": header.event_id, "seq": header.seq},
        f"undid {counted(hidden, 'turn')} of session {opened.session_id}:"
        " the model no longer sees them"
        if hidden > 1
        else f"undid the last turn of session {opened.session_id}: the model no longer sees it",
        *(f"  {one_line(prompt)}" for prompt in prompts[:_PROMPTS_MAX]),
        *([f"  and {counted(more, 'more turn')}"] if more > 0 else []),
        "only the conversation moved back; files and other effects of tools did not",
        f"to restore it before anything is said: treering sessions redo {opened.session_id}"
        f" --scope {name}",
        done=f"session {opened.session_id} was undone, by {counted(hidden, 'turn')}",
    )  # fmt: skip


@click.command(
    "redo",
    cls=Command,
    short_help="Restore the turns that were undone last.",
    examples="""
    treering sessions redo main:telegram:jo --scope acme/app
    """,
    if_stopped="see treering sessions show for whether it was redone",
)
@click.argument("session", shell_complete=complete_session)
@project_scope_options
@keys_option
@json_option
@db_option
def redo(*, session: str, scope: str | None, is_global: bool) -> None:
    """Restore what was undone last in SESSION, if nothing was said since."""
    name = find_scope(scope, is_global=is_global)
    with open_existing("change") as ledger:
        opened = _named(ledger, name, session)
        header = opened.redo()
        turns, undone_seq = (_number(header.refs, field) for field in ("turns", "undone_seq"))
    show(
        {"scope": name, "session_id": opened.session_id, "turns": turns, "undone_seq": undone_seq,
         "event_id": header.event_id, "seq": header.seq},
        f"redid {counted(turns, 'turn')} of session {opened.session_id}",
        "only the conversation moved forward again; files and other effects of tools did not",
        done=f"session {opened.session_id} was redone",
    )  # fmt: skip


def _named(ledger: Ledger, scope: Scope, session: str) -> Session:
    from treering.surfaces.cli.sessions.search import open_session  # noqa: PLC0415  (not for --help)

    return open_session(ledger, scope, session)


def _is_seen(turn: TurnView) -> bool:
    """Whether the model sees a turn, before it is undone."""
    return not turn.is_undone and turn.state in {"ended", None}


def _number(refs: Any, name: str) -> int:
    return int(refs[name])
