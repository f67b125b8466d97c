"""PostgreSQL with several writers: what four processes reach that one does not."""

import random
import statistics
from typing import Final

from postgres_bare import bare_table, fresh_ledger
from postgres_crew import Contestant, Crew
from report import Row, Section, at_least
from workload import SEED, Effort

LEDGER: Final = "processes"
ALONE: Final = (0,)
APART: Final = (0, 1, 2, 3)
TOGETHER: Final = (0, 0, 0, 0)
"""The session of each writer."""
TRIALS: Final[tuple[tuple[Contestant, tuple[int, ...]], ...]] = (
    ("ours", ALONE), ("ours", APART), ("ours", TOGETHER), ("bare", ALONE), ("bare", APART),
)  # fmt: skip
WARMING_S: Final = 0.1
_READING: Final = (
    "Writers and server share the cores above: with two, one writer and its part of the server"
    " keep one busy, so that four can hardly do more than twice as much, whatever is written. Read"
    " it beside the bare table's gain."
)


def measure(effort: Effort, url: str) -> Section:
    """Let one and four processes append durably, one event a call, in shuffled rounds."""
    rates: dict[tuple[Contestant, tuple[int, ...]], list[float]] = {trial: [] for trial in TRIALS}
    dice = random.Random(SEED)
    with (
        fresh_ledger(url, LEDGER) as place,
        bare_table(url, like=LEDGER),
        Crew(place, url, len(APART)) as crew,
    ):
        for contestant, sessions in TRIALS:
            crew.send(contestant, sessions, seconds=WARMING_S)()
        for _ in range(max(3, effort.repeats // 2)):
            for contestant, sessions in dice.sample(TRIALS, k=len(TRIALS)):
                done = crew.send(contestant, sessions, seconds=effort.seconds)()
                rates[contestant, sessions].append(sum(done) / effort.seconds)
    medians = {trial: statistics.median(found) for trial, found in rates.items()}
    alone, apart, together = (medians["ours", way] for way in (ALONE, APART, TOGETHER))
    bare_alone, bare_apart = (medians["bare", way] for way in (ALONE, APART))
    gains = [
        many / one for many, one in zip(rates["ours", APART], rates["ours", ALONE], strict=True)
    ]
    return Section(
        title="PostgreSQL, processes that append one durable event a call",
        rows=[
            Row(
                what="1 process",
                measured=f"{alone:,.0f} events/s (bare table {bare_alone:,.0f})",
            ),
            at_least(
                "4 processes, a session each, against one",
                apart / alone,
                2,
                f"{apart / alone:.2f} x, rounds {min(gains):.2f} to {max(gains):.2f}"
                f" ({apart:,.0f} events/s);"
                f" bare table {bare_apart / bare_alone:.2f} x ({bare_apart:,.0f})",
            ),
            Row(
                what="4 processes, all in one session",
                measured=f"{together / alone:.2f} x ({together:,.0f} events/s)",
            ),
        ],
        notes=[_READING],
    )
