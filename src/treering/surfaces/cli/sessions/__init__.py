"""``treering sessions``: list, show, fork, undo, close and prune the sessions of a scope."""

from __future__ import annotations

from treering.surfaces.cli.declare import group


@group(
    "sessions",
    commands="""
    sessions.read:list_ show=sessions.read:show_session sessions.read:tree
    sessions.change:fork sessions.change:undo sessions.change:redo sessions.change:rename
    sessions.change:close sessions.change:prune sessions.change:sweep
    """,
    examples="""
    treering sessions list --scope acme/app --since 7d
    treering sessions show main:telegram:jo --scope acme/app
    treering sessions undo main:telegram:jo --scope acme/app
    """,
)
def sessions() -> None:
    """List, show, fork, undo, close and prune sessions.

    SESSION is an id or a short id. No command rewrites the past of a session: a fork, an undo
    and a title are events as well.
    """
