"""PostgreSQL, contexts: what a model is shown of a long session and of a short one."""

import statistics
from typing import Final

import treering
from contexts import BUDGET_TOKENS, CALLS
from conversations import LONG, SMALL, fill
from postgres_bare import fresh_ledger, settle
from report import Section, at_most
from workload import AGENT, SCOPE, Effort, in_turns

LARGE: Final = 100_000
LIMIT: Final = 1.3


def measure(effort: Effort, url: str) -> Section:
    """Measure contexts within the same budget, in turns."""
    large = min(LARGE, effort.large)
    with fresh_ledger(url, "short") as short, fresh_ledger(url, "long") as long:
        for place, events in ((short, SMALL), (long, large)):
            with treering.open(place, durability="normal", guard="off") as ledger:
                fill(ledger, events)
        settle(url)
        with (
            treering.open(short, guard="off") as few,
            treering.open(long, guard="off") as many,
        ):
            one, other = (at.session(LONG, scope=SCOPE, agent=AGENT) for at in (few, many))
            if one.context(BUDGET_TOKENS).messages != other.context(BUDGET_TOKENS).messages:
                raise AssertionError("the sessions end differently")
            walls = in_turns(
                {
                    "few": lambda: one.context(BUDGET_TOKENS),
                    "many": lambda: other.context(BUDGET_TOKENS),
                },
                rounds=effort.repeats,
                calls=CALLS,
            )
    few_ms, many_ms = (statistics.median(walls[name]) * 1e3 for name in ("few", "many"))
    return Section(
        title="PostgreSQL, contexts",
        rows=[
            at_most(
                f"context of {large:,} events, against {SMALL:,}",
                many_ms / few_ms,
                LIMIT,
                f"{many_ms / few_ms:.2f} x ({many_ms:.1f} : {few_ms:.1f} ms)",
            )
        ],
    )
