"""``treering sessions``: list, show, fork, undo, close and prune the sessions of a scope."""

from __future__ import annotations

from typing import Final

from treering.surfaces.cli.declare import group

_HERE: Final = "treering.surfaces.cli.sessions"


@group(
    "sessions",
    lazy={
        "list": f"{_HERE}.read:list_",
        "show": f"{_HERE}.show:show_session",
        "tree": f"{_HERE}.read:tree",
        "fork": f"{_HERE}.change:fork",
        "undo": f"{_HERE}.change:undo",
        "redo": f"{_HERE}.change:redo",
        "rename": f"{_HERE}.change:rename",
        "close": f"{_HERE}.change:close",
        "prune": f"{_HERE}.change:prune",
        "sweep": f"{_HERE}.change:sweep",
    },
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
