"""``treering sessions rename`` and ``close``: what is said of a session, as events of it."""

from __future__ import annotations

import click

from treering.surfaces.cli.commands import Command, show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.output import one_line
from treering.surfaces.cli.projects import find_scope, project_scope_options


@click.command(
    "rename",
    cls=Command,
    short_help="Give a session a title.",
    examples="""
    treering sessions rename s1 "Fix the nightly build" --scope acme/app
    """,
    if_stopped="see treering sessions list for its title",
)
@click.argument("session", shell_complete=complete_session)
@click.argument("title")
@project_scope_options
@keys_option
@json_option
@db_option
def rename(*, session: str, title: str, scope: str | None, is_global: bool) -> None:
    """Give SESSION the title TITLE; its id stays as it is."""
    from treering.surfaces.cli.sessions.search import open_session  # noqa: PLC0415  (not for --help)

    name = find_scope(scope, is_global=is_global)
    with open_existing("change") as ledger:
        opened = open_session(ledger, name, session)
        header = opened.rename(title)
        given = opened.outline().title
    show(
        {"scope": name, "session_id": opened.session_id, "title": given,
         "event_id": header.event_id, "seq": header.seq},
        f"session {opened.session_id} is called: {one_line(given or '')}",
        done=f"session {opened.session_id} was renamed",
    )  # fmt: skip


@click.command(
    "close",
    cls=Command,
    short_help="Close a session.",
    examples="""
    treering sessions close main:telegram:jo --scope acme/app
    treering sessions close s1 --scope acme/app --reason "moved elsewhere"
    """,
    if_stopped="see treering sessions list for its state",
)
@click.argument("session", shell_complete=complete_session)
@project_scope_options
@click.option("--reason", metavar="TEXT", default="closed", help="Why, in a few words.")
@keys_option
@json_option
@db_option
def close(*, session: str, scope: str | None, is_global: bool, reason: str) -> None:
    """Record that SESSION is closed. Whatever is recorded in it later opens it again."""
    from treering.surfaces.cli.sessions.search import open_session  # noqa: PLC0415  (not for --help)

    name = find_scope(scope, is_global=is_global)
    with open_existing("change") as ledger:
        opened = open_session(ledger, name, session)
        is_closed = opened.outline().state in {"closed", "pruned"}
        header = None if is_closed else opened.close(reason)
    show(
        {"scope": name, "session_id": opened.session_id, "closed": header is not None,
         "event_id": header and header.event_id, "seq": header and header.seq},
        f"session {opened.session_id} is closed already"
        if header is None
        else f"closed session {opened.session_id}; what is recorded in it later opens it again",
        done=f"session {opened.session_id} was closed",
    )  # fmt: skip
