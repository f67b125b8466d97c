"""Contexts: what a model is shown of a long session, against the same of a short one."""

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import histories
import treering
from conversations import BURIED, LONG, SMALL, conversation
from report import Row, Section, at_most
from treering.context.dialects import DIALECTS
from workload import AGENT, SCOPE, Effort, in_turns

BUDGET_TOKENS: Final = 8_000
CALLS: Final = 5
WHOLE_EVENTS: Final = 5_000
WHOLE_TOKENS: Final = 10_000_000
"""More than a session of 5,000 events costs."""
WHOLE_MS_MAX: Final = 100
_SAME: Final = (
    f"The budget is {BUDGET_TOKENS:,} tokens. The sessions end with the same words and ids, and the"
    " contexts are checked to be the same messages."
)
_BURIED: Final = (
    "A run that failed is passed over row by row, by its index; nothing of it is decoded."
)


def run(effort: Effort, folder: Path) -> list[Section]:
    """Measure contexts, and the history that they are made from."""
    return [
        Section(
            title="Contexts",
            rows=[*_lengths(effort, folder.parent), *_whole(effort, folder.parent)],
            notes=[_SAME, _BURIED],
        ),
        histories.measure(effort, folder),
    ]


def _lengths(effort: Effort, folder: Path) -> list[Row]:
    with (
        treering.open(conversation(folder, SMALL), guard="off") as few,
        treering.open(conversation(folder, effort.large), guard="off") as many,
    ):
        ways: dict[str, Callable[[], treering.Context]] = {
            "small": _context(few, LONG),
            "large": _context(many, LONG),
            "buried": _context(many, BURIED),
        }
        if not ways["small"]().messages == ways["large"]().messages == ways["buried"]().messages:
            raise AssertionError("the sessions end differently")
        walls = in_turns(ways, rounds=effort.repeats, calls=CALLS)
    ms = {name: statistics.median(found) * 1e3 for name, found in walls.items()}
    failed = effort.large // 10
    return [
        at_most(
            f"context of {effort.large:,} events, against {SMALL:,}",
            ms["large"] / ms["small"],
            1.3,
            f"{ms['large'] / ms['small']:.2f} x ({ms['large']:.1f} : {ms['small']:.1f} ms)",
        ),
        Row(
            what=f"the same of {SMALL:,}, a failed run of {failed:,} before the last turn",
            measured=f"{ms['buried'] / ms['small']:.2f} x ({ms['buried']:.1f} ms)",
        ),
    ]


def _context(ledger: treering.Ledger, session_id: str) -> Callable[[], treering.Context]:
    session = ledger.session(session_id, scope=SCOPE, agent=AGENT)
    return lambda: session.context(BUDGET_TOKENS)


def _whole(effort: Effort, folder: Path) -> list[Row]:
    """Measure contexts that show all of a session, in each dialect."""
    with treering.open(conversation(folder, WHOLE_EVENTS), guard="off") as ledger:
        session = ledger.session(LONG, scope=SCOPE, agent=AGENT)

        def assembled(dialect: str) -> Callable[[], Any]:
            return lambda: session.context(WHOLE_TOKENS, dialect=dialect)

        context = session.context(WHOLE_TOKENS)
        if context.report or len(context.messages) != len(session.history()):
            raise AssertionError("a part of the session is not shown")
        walls = in_turns({name: assembled(name) for name in DIALECTS}, rounds=effort.repeats)
    ms = {name: statistics.median(found) * 1e3 for name, found in walls.items()}
    first, *others = DIALECTS
    return [
        at_most(
            f"context of all {WHOLE_EVENTS:,} events of a session, {context.tokens:,} tokens",
            ms[first],
            WHOLE_MS_MAX,
            f"{ms[first]:.1f} ms ({first})",
            unit="ms",
        ),
        Row(
            what="the same in other dialects",
            measured=", ".join(f"{name} {ms[name]:.1f} ms" for name in others),
        ),
    ]
