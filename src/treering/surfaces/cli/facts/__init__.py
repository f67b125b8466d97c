"""``treering facts``: list, add, accept and reject the facts of a scope."""

from __future__ import annotations

from treering.surfaces.cli.declare import group


@group(
    "facts",
    commands="""
    facts.read:list_ show=facts.read:show_fact facts.write:add facts.write:accept
    facts.write:reject facts.write:review facts.read:history facts.write:audit
    facts.write:extract
    """,
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
