"""``treering facts``: list, add, accept and reject the facts of a scope."""

from __future__ import annotations

from typing import Final

from treering.surfaces.cli.declare import group

_HERE: Final = "treering.surfaces.cli.facts"


@group(
    "facts",
    lazy={
        "list": f"{_HERE}.read:list_",
        "show": f"{_HERE}.read:show_fact",
        "add": f"{_HERE}.write:add",
        "accept": f"{_HERE}.write:accept",
        "reject": f"{_HERE}.write:reject",
        "review": f"{_HERE}.review:review",
        "history": f"{_HERE}.read:history",
        "audit": f"{_HERE}.write:audit",
        "extract": f"{_HERE}.write:extract",
    },
    short_help="List, add, accept and reject facts.",
    examples="""
    treering facts list --scope acme/app --user jo
    treering facts add "Prefers tabs over spaces" --scope acme/app --user jo
    treering facts audit --scope acme/app
    """,
)
def facts() -> None:
    """List, add, accept and reject facts.

    FACT is an id or a short id. Every change of a fact is an event. treering recall answers
    questions from facts and episodes.
    """
