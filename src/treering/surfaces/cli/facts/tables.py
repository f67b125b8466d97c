"""Facts as people read them: one a row, and what happened to one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.surfaces.cli.output import one_line, printable
from treering.surfaces.cli.sessions.tables import NONE, print_filled
from treering.surfaces.cli.tables import TIME, Column
from treering.surfaces.cli.times import ago, clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.memories import Fact, FactChange, LearnResult

STATE_COLOURS: Final = {
    "current": "green",
    "superseded": "bright_black",
    "archived": "bright_black",
    "forgotten": "bright_black",
    "quarantined": "yellow",
    "refused": "red",
}
OUTCOME_COLOURS: Final = {
    "stored": "green",
    "revised": "green",
    "superseding": "cyan",
    "known": "bright_black",
    "refused": "red",
    "quarantined": "yellow",
}

_STANDING: Final = (Column("state", colours=STATE_COLOURS), Column("why", leaves=1))
_FACTS: Final = (
    Column("fact"),
    Column("user", leaves=5),
    Column("category", leaves=4),
    Column("importance", leaves=2),
    Column("learned", leaves=3),
    Column("says", is_prose=True),
)
_CHANGES: Final = (
    Column(TIME),
    Column("what", colours=STATE_COLOURS),
    Column("why", leaves=2),
    Column("event", leaves=1, is_dim=True),
    Column("says", is_prose=True),
)
_LEARNED: Final = (
    Column("outcome", colours=OUTCOME_COLOURS),
    Column("why", leaves=2),
    Column("fact", leaves=1),
    Column("says", is_prose=True),
)


def print_facts(facts: Sequence[Fact], *, with_state: bool) -> None:
    """Print ``facts``, one per row; all of them are current unless ``with_state``."""
    from treering.app import now_ms  # noqa: PLC0415  (not for --help)

    now = now_ms()
    rows = [
        [
            printable(fact.id),
            *([fact.state, one_line(fact.reason or NONE)] if with_state else []),
            printable(fact.user or NONE),
            fact.category,
            f"{fact.importance}/10",
            ago(fact.recorded_ms, now_ms=now),
            one_line(fact.text),
        ]
        for fact in facts
    ]
    print_filled((_FACTS[0], *(_STANDING if with_state else ()), *_FACTS[1:]), rows)


def print_changes(changes: Sequence[FactChange]) -> None:
    """Print what happened to a fact, one change a row."""
    rows = [
        [
            clock(change.recorded_ms),
            change.state
            if change.kind == "memory.refused"
            else change.kind.removeprefix("memory."),
            one_line(change.reason or NONE),
            printable(change.event_id),
            one_line(change.text or NONE),
        ]
        for change in changes
    ]
    print_filled(_CHANGES, rows)


def print_learned(learned: Sequence[LearnResult]) -> None:
    """Print what became of facts that were to be learned, one a row."""
    rows = [
        [
            result.outcome,
            one_line(result.reason or NONE),
            printable(result.fact_id),
            one_line(result.text),
        ]
        for result in learned
    ]
    print_filled(_LEARNED, rows)
