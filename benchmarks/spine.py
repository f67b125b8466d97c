"""The spine: emitting with sinks, many runs at once, and what it costs to commit one."""

import logging
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import treering
from bare import BareTable
from report import Row, Section, at_least, at_most
from treering.sinks.log import LogSink, TranscriptSink
from treering.sinks.trace import TraceSink
from workload import AGENT, SCOPE, SEED, Effort, Workload, body, settled_heap

EMITS: Final = 100
OPEN_RUNS: Final = 1_000
SHORT_TURN: Final = 10
LONG_TURN: Final = 10_000
COMMITS: Final = 15
_EMITTING: Final = (
    "Emitting is one durable event a call in one open run, with the log, transcript and trace sinks"
    " at work on files; the sinks' threads share the interpreter with it. The bare table gets the"
    " same texts as documents, one durable insert a call."
)
_COMMITTING: Final = (
    "Committing is `run.end()` of a turn with so many events, after as many in all: the short one"
    " waits while another run records the rest."
)
_OPEN: Final = (
    f"{OPEN_RUNS:,} runs are begun, each in a session of its own, and all stay open while each is"
    " given one event."
)


def run(effort: Effort, folder: Path) -> Section:
    """Measure what the spine adds to an append."""
    return Section(
        title="The spine and its sinks",
        rows=[
            *_emits(effort, folder),
            _many_runs(folder),
            _commits(effort, folder),
        ],
        notes=[_EMITTING, _OPEN, _COMMITTING],
    )


def _emits(effort: Effort, folder: Path) -> list[Row]:
    """Compare emitting with three sinks with a bare insert and with a ledger without sinks."""
    plain = treering.open(folder / "plain.db", guard="off")
    carried = treering.open(folder / "carried.db", guard="off")
    bare = BareTable(str(folder / "bare.db"))
    logger = logging.getLogger("bench.spine")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    logger.addHandler(logging.FileHandler(folder / "spine.log"))
    spine = carried.spine(
        [
            LogSink(logger="bench.spine"),
            TranscriptSink(folder / "transcripts"),
            TraceSink(folder / "traces"),
        ]
    )
    texts = [str(event.payload["text"]) for event in Workload().singles(EMITS)]
    documents = [body(event) for event in Workload().singles(EMITS)]
    with _turn(plain, "s") as without, _turn(carried, "s") as with_sinks:
        ways: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
            "sinks": (with_sinks.assistant, texts),
            "plain": (without.assistant, texts),
            "bare": (lambda document: bare.append([document]), documents),
        }
        walls: dict[str, list[float]] = {name: [] for name in ways}
        dice = random.Random(SEED)
        with settled_heap():
            for _ in range(effort.rounds):
                for name in dice.sample(list(ways), k=len(ways)):
                    way, items = ways[name]
                    started = time.perf_counter()
                    for item in items:
                        way(item)
                    walls[name].append((time.perf_counter() - started) / EMITS)
                    spine.flush(60)  # What the sinks still do must not weigh on the next.
    lost = sum(status.lost + status.failed for status in spine.status())
    for each in (plain, carried, bare):
        each.close()
    rates = {name: 1 / statistics.median(found) for name, found in walls.items()}
    return [
        _rate("emit with three sinks, against the bare table", rates["sinks"], rates["bare"], 0.5),
        _rate("emit with three sinks, against one without", rates["sinks"], rates["plain"], None),
        at_most("events that a sink lost or failed at", lost, 0, str(lost), ""),
    ]


def _many_runs(folder: Path) -> Row:
    ledger = treering.open(folder / "many.db", guard="off")
    runs = []
    started = time.perf_counter()
    for number in range(OPEN_RUNS):
        runs.append(ledger.session(f"s{number}", scope=SCOPE, agent=AGENT).turn())
        runs[-1].start()
    begun_s = time.perf_counter() - started
    started = time.perf_counter()
    for each in runs:
        each.assistant("a word from each while all are open")
    each_s = (time.perf_counter() - started) / OPEN_RUNS
    alone_s = _alone(ledger)
    for each in runs:
        each.end()
    ledger.close()
    return at_most(
        f"one event in each of {OPEN_RUNS:,} open runs, against one run alone",
        each_s / alone_s,
        2.0,
        f"{each_s / alone_s:.2f} x ({each_s * 1e6:,.0f} : {alone_s * 1e6:,.0f} µs;"
        f" begun in {begun_s:.1f} s)",
    )


def _alone(ledger: treering.Ledger) -> float:
    with _turn(ledger, "alone") as turn:
        walls = []
        for _ in range(OPEN_RUNS):
            before = time.perf_counter()
            turn.assistant("a word from one that is alone")
            walls.append(time.perf_counter() - before)
    return sum(walls) / len(walls)


def _commits(effort: Effort, folder: Path) -> Row:
    ledger = treering.open(folder / "commits.db", guard="off", durability="normal")
    walls: dict[int, list[float]] = {SHORT_TURN: [], LONG_TURN: []}
    for at in range(min(COMMITS, effort.rounds)):
        for length, found in walls.items():
            turn, other = (_turn(ledger, f"{name}{at}-{length}") for name in ("s", "other"))
            turn.start()
            other.start()
            # Both ends come after as much recording: else one finds the machine's caches warm.
            for _ in range(LONG_TURN - length):
                other.assistant("one of many words")
            for _ in range(length):
                turn.assistant("one of many words")
            before = time.perf_counter()
            turn.end()
            found.append(time.perf_counter() - before)
            other.end()
    ledger.close()
    short, long = (statistics.median(walls[length]) for length in (SHORT_TURN, LONG_TURN))
    return at_most(
        f"commit of a turn of {LONG_TURN:,} events, against one of {SHORT_TURN}",
        long / short,
        2.0,
        f"{long / short:.2f} x ({long * 1e6:,.0f} : {short * 1e6:,.0f} µs)",
    )


def _turn(ledger: treering.Ledger, session: str) -> treering.Run:
    return ledger.session(session, scope=SCOPE, agent=AGENT).turn()


def _rate(what: str, ours: float, theirs: float, limit: float | None) -> Row:
    shown = f"{ours / theirs:.2f} x ({ours:,.0f} : {theirs:,.0f} a second)"
    if limit is None:
        return Row(what=what, measured=shown)
    return at_least(what, ours / theirs, limit, shown)
