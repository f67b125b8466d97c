"""``treering sessions fork``, ``undo``, ``redo``, ``rename``, ``close``: changes of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from treering.surfaces.cli.commands import show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.finding import find_event, open_session
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.options import require
from treering.surfaces.shared.texts import counted, one_line

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.scopes import Scope
    from treering.model.views import TurnView


_PROMPTS_MAX: Final = 3
_UNSEEN_BETWEEN_MAX: Final = 50
"""Turns that may lie between those to be undone: they failed, or were undone before."""


@command(
    "fork",
    scope="project",
    short_help="Fork a session at a turn.",
    examples="""
    treering sessions fork s1 --scope acme/app --title "Try it without the lock"
    treering sessions fork s1 --scope acme/app --at 01a1de94-e936 --id s1-b
    """,
    if_stopped="see treering sessions tree for whether it was forked",
)
@click.argument("session", shell_complete=complete_session)
@click.option(
    "--at", metavar="EVENT", help="Share the past up to the end of this event's turn. Default: all."
)
@click.option("--id", "new_id", metavar="ID", help="The id of the fork. Default: a new one.")
@click.option("--title", metavar="TEXT", help="The title of the fork.")
def fork(
    *,
    session: str,
    scope: Scope,
    at: str | None,
    new_id: str | None,
    title: str | None,
) -> None:
    """Create a session that shares the past of SESSION, up to the end of a turn.

    Nothing is copied, and SESSION does not change. Erasing a part of the shared past erases it
    for both.
    """
    named = None if new_id is None else require(new_id, "id")
    with open_existing("change") as ledger:
        parent = _named(ledger, scope, session)
        event = None if at is None else find_event(ledger, scope, at)
        made = parent.fork(named, at=event, title=title)
        outline = made.outline()
    show(
        {"scope": scope, "session_id": made.session_id, "parent": outline.parent,
         "forked_seq": outline.forked_seq, "title": outline.title, "agent": made.agent},
        f"forked session {parent.session_id} at seq {outline.forked_seq} as {made.session_id}",
        f'continue in it: ledger.session("{made.session_id}", scope="{scope}",'
        f' agent="{made.agent}")',
        f"what its model sees: treering context {made.session_id} --scope {scope}"
        " --max-tokens 8000",
        done=f"the session was forked as {made.session_id}",
    )  # fmt: skip


@command(
    "undo",
    scope="project",
    short_help="Hide the last turns from the model.",
    examples="""
    treering sessions undo main:telegram:jo --scope acme/app
    treering sessions undo main:telegram:jo --scope acme/app --turns 2
    """,
    if_stopped="see treering sessions show for whether it was undone",
)
@click.argument("session", shell_complete=complete_session)
@click.option(
    "--turns",
    type=int,
    default=1,
    metavar="N",
    help="Undo N turns; a run with several prompts counts as one. Default: 1.",
)
def undo(*, session: str, scope: Scope, turns: int) -> None:
    """Hide the last turns of SESSION from its model, until redo restores them.

    Only the conversation moves back; files and other effects of tools do not. Nothing is
    deleted.
    """
    with open_existing("change") as ledger:
        opened = _named(ledger, scope, session)
        before = list(opened.turns(last=max(turns, 0) + _UNSEEN_BETWEEN_MAX))
        header = opened.undo(turns=turns)
        from_seq, hidden = (_number(header.refs, field) for field in ("from_seq", "turns"))
    prompts = [turn.prompt for turn in before if turn.first_seq >= from_seq and _is_seen(turn)]
    more = len(prompts) - _PROMPTS_MAX
    show(
        {"scope": scope, "session_id": opened.session_id, "turns": hidden, "from_seq": from_seq,
         "event_id": header.event_id, "seq": header.seq},
        f"undid {counted(hidden, 'turn')} of session {opened.session_id}:"
        " the model no longer sees them"
        if hidden > 1
        else f"undid the last turn of session {opened.session_id}: the model no longer sees it",
        *(f"  {one_line(prompt)}" for prompt in prompts[:_PROMPTS_MAX]),
        *([f"  and {counted(more, 'more turn')}"] if more > 0 else []),
        "only the conversation moved back; files and other effects of tools did not",
        f"to restore it before anything is said: treering sessions redo {opened.session_id}"
        f" --scope {scope}",
        done=f"session {opened.session_id} was undone, by {counted(hidden, 'turn')}",
    )  # fmt: skip


@command(
    "redo",
    scope="project",
    short_help="Restore the turns that were undone last.",
    examples="""
    treering sessions redo main:telegram:jo --scope acme/app
    """,
    if_stopped="see treering sessions show for whether it was redone",
)
@click.argument("session", shell_complete=complete_session)
def redo(*, session: str, scope: Scope) -> None:
    """Restore the turns of SESSION that were undone last, if nothing was said since."""
    with open_existing("change") as ledger:
        opened = _named(ledger, scope, session)
        header = opened.redo()
        turns, undone_seq = (_number(header.refs, field) for field in ("turns", "undone_seq"))
    show(
        {"scope": scope, "session_id": opened.session_id, "turns": turns, "undone_seq": undone_seq,
         "event_id": header.event_id, "seq": header.seq},
        f"redid {counted(turns, 'turn')} of session {opened.session_id}",
        "only the conversation moved forward again; files and other effects of tools did not",
        done=f"session {opened.session_id} was redone",
    )  # fmt: skip


def _named(ledger: Ledger, scope: Scope, session: str) -> Session:

    return open_session(ledger, scope, session)


def _is_seen(turn: TurnView) -> bool:
    """Whether the model sees a turn, before it is undone."""
    return not turn.is_undone and turn.state in {"ended", None}


def _number(refs: Any, name: str) -> int:
    return int(refs[name])


@command(
    "rename",
    scope="project",
    short_help="Give a session a title.",
    examples="""
    treering sessions rename s1 "Fix the nightly build" --scope acme/app
    """,
    if_stopped="see treering sessions list for its title",
)
@click.argument("session", shell_complete=complete_session)
@click.argument("title")
def rename(*, session: str, title: str, scope: Scope) -> None:
    """Give SESSION the title TITLE; its id stays as it is."""
    with open_existing("change") as ledger:
        opened = open_session(ledger, scope, session)
        header = opened.rename(title)
        given = opened.outline().title
    show(
        {"scope": scope, "session_id": opened.session_id, "title": given,
         "event_id": header.event_id, "seq": header.seq},
        f"session {opened.session_id} is called: {one_line(given or '')}",
        done=f"session {opened.session_id} was renamed",
    )  # fmt: skip


@command(
    "close",
    scope="project",
    short_help="Close a session.",
    examples="""
    treering sessions close main:telegram:jo --scope acme/app
    treering sessions close s1 --scope acme/app --reason "moved elsewhere"
    """,
    if_stopped="see treering sessions list for its state",
)
@click.argument("session", shell_complete=complete_session)
@click.option("--reason", metavar="TEXT", default="closed", help="Why, in a few words.")
def close(*, session: str, scope: Scope, reason: str) -> None:
    """Record that SESSION is closed. Whatever is recorded in it later opens it again."""
    with open_existing("change") as ledger:
        opened = open_session(ledger, scope, session)
        is_closed = opened.outline().state in {"closed", "pruned"}
        header = None if is_closed else opened.close(reason)
    show(
        {"scope": scope, "session_id": opened.session_id, "closed": header is not None,
         "event_id": header and header.event_id, "seq": header and header.seq},
        f"session {opened.session_id} is closed already"
        if header is None
        else f"closed session {opened.session_id}; what is recorded in it later opens it again",
        done=f"session {opened.session_id} was closed",
    )  # fmt: skip
