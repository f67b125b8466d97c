"""The memory's speed: recall against the least that finds facts by words and by vectors.

Run as ``memory_speed.py LEDGER SCOPE QUESTION``, it asks one question in a new process and prints
the seconds that took.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Final

import apsw
import numpy as np

import treering
from memory_facts import USER, Asked, new_facts, questions, record, texts
from report import Row, Section, at_least, at_most
from searches import Texts
from treering import NewEvent
from treering.memory.questions import content_words
from workload import AGENT, SCOPE, SEED, Effort, in_turns

MANY: Final = "bench/many"
FEW: Final = "bench/few"
LEARNT: Final = "bench/learnt"
RATIO_MAX: Final = 3
FEW_MS_MAX: Final = 5
WITH_TURNS: Final = "bench/turns"
WITH_TURNS_MS_MAX: Final = (15, 40)
LEARNT_MIN: Final = 1_000
DIMENSIONS: Final = 256
LIMIT: Final = 10
CALLS: Final = 5
COLD_STARTS: Final = 3
SINGLES: Final = 500
SESSION_EVENTS: Final = 200
_RECALL_NOTE: Final = (
    "Bare is numpy's product of as many vectors of 256 numbers with one, the best 10 of it, and"
    " FTS5's best 10 for any of the question's words but small ones, porter stemmed, over the same"
    " texts: it embeds no question, knows no users, times or states, and reads no fact. Both in"
    " turns, each time with another question. Facts have vectors of the table."
)
_TURNS_NOTE: Final = (
    "Each fact was told in a turn of the same ledger, among other words; recall brings both."
)
_LEARNING_NOTE: Final = (
    "Facts of one user, embedded and compared with what is known, in a ledger as shipped: durable,"
    " guard `safe`."
)
_SEARCH_NOTE: Final = (
    "Entering includes the words and vectors of every event; it is done once, by the first search."
)

Ask = Callable[[], object]


def run(effort: Effort, folder: Path) -> list[Section]:
    """Measure recall, learning, and searches of events by meaning."""
    many = effort.large // 10
    return [
        _recall(effort, folder, many),
        _with_turns(effort, folder, [many // 20, many]),
        _learning(folder, many // 10),
        _searching(effort, folder, [many // 20, many // 2]),
    ]


# Recall.


def _recall(effort: Effort, folder: Path, many: int) -> Section:
    few, path = many // 20, folder / "facts.db"
    said, asked = texts(many), questions(CALLS * (effort.repeats + 1), few)
    with treering.open(path, embedder="static") as ledger:
        record(ledger, MANY, said)
        record(ledger, FEW, said[:few])
        ways = {
            "many": _asking(ledger, MANY, asked, record=False),
            "few": _asking(ledger, FEW, asked, record=False),
            "bare": Bare(folder / "bare.db", said).asking(asked),
        }
        walls = in_turns(ways, rounds=effort.repeats, calls=CALLS)
        met = [_is_met(ledger, one) for one in asked]
        # After the others: the next recall must read what these record.
        recorded = {"recorded": _asking(ledger, MANY, asked, record=True)}
        walls |= in_turns(recorded, rounds=effort.repeats, calls=CALLS)
    ms = {name: statistics.median(found) * 1e3 for name, found in walls.items()}
    cold = [_cold_s(path, asked[at].question) for at in range(COLD_STARTS)]
    shown = f"{ms['many'] / ms['bare']:.2f} x ({ms['many']:.1f} : {ms['bare']:.1f} ms)"
    rows = [
        at_most(
            f"recall of {many:,} facts of one user, p50, against bare",
            ms["many"] / ms["bare"],
            RATIO_MAX,
            shown,
        ),
        Row(what="the same, recorded", measured=f"{ms['recorded']:.1f} ms"),
        at_most(
            f"recall of {few:,} facts, p50", ms["few"], FEW_MS_MAX, f"{ms['few']:.1f} ms", "ms"
        ),
        Row(
            what=f"first recall of {many:,} in a new process, opening included",
            measured=f"{statistics.median(cold):.2f} s",
        ),
        Row(what="questions whose fact comes first", measured=f"{statistics.fmean(met):.2f}"),
    ]
    return Section(title="Recall of facts", rows=rows, notes=[_RECALL_NOTE])


def _with_turns(effort: Effort, folder: Path, counts: Sequence[int]) -> Section:
    """Measure recall in a ledger that holds as many turns as facts."""
    rows: list[Row] = []
    for count, limit in zip(counts, WITH_TURNS_MS_MAX, strict=True):
        said, asked = texts(count), questions(CALLS * (effort.repeats + 1), count)
        path = folder / f"turns-{count}.db"
        with treering.open(path, durability="normal", embedder="static") as ledger:
            record(ledger, WITH_TURNS, said)
            for batch in _said(said):
                ledger.append(batch)
            ledger.search(asked[0].question, scope=WITH_TURNS, mode="hybrid")  # Index the turns.
            ask = _asking(ledger, WITH_TURNS, asked, record=False)
            if not ledger.memory(WITH_TURNS).recall(asked[0].question, user=USER).turn_hits:
                raise AssertionError("recall brings no turns")
            walls = in_turns({"turns": ask}, rounds=effort.repeats, calls=CALLS)
        ms = statistics.median(walls["turns"]) * 1e3
        what = f"recall of {count:,} facts and {count:,} turns of one user, p50"
        rows.append(at_most(what, ms, limit, f"{ms:.1f} ms", "ms"))
    return Section(title="Recall of facts and turns", rows=rows, notes=[_TURNS_NOTE])


def _said(said: Sequence[str]) -> Iterator[list[NewEvent]]:
    """Yield the turns in which facts were told, session by session."""
    words = Texts()
    for start in range(0, len(said), SESSION_EVENTS):
        yield [
            NewEvent(
                scope=WITH_TURNS,
                user_id=USER,
                session_id=f"s{start // SESSION_EVENTS}",
                kind="conversation.user",
                agent_id=AGENT,
                summary="a turn",
                payload={"text": f"{text}. {words.text(12)}"},
            )
            for text in said[start : start + SESSION_EVENTS]
        ]


def _asking(ledger: treering.Ledger, scope: str, asked: Sequence[Asked], *, record: bool) -> Ask:
    memory, queue = ledger.memory(scope), cycle([one.question for one in asked])
    return lambda: memory.recall(next(queue), user=USER, limit=LIMIT, record=record)


def _is_met(ledger: treering.Ledger, asked: Asked) -> bool:
    hits = ledger.memory(MANY).recall(asked.question, user=USER, record=False).fact_hits
    return bool(hits) and hits[0].fact.text == asked.text


class Bare:
    """The least that finds texts by words and by vectors."""

    def __init__(self, path: Path, said: Sequence[str]) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize='porter')")
        with self._connection:
            self._connection.executemany("INSERT INTO texts VALUES (?)", ((one,) for one in said))
        dice = np.random.default_rng(SEED)
        self._vectors = dice.standard_normal((len(said), DIMENSIONS), np.float32)
        self._vector = dice.standard_normal(DIMENSIONS, np.float32)

    def asking(self, asked: Sequence[Asked]) -> Ask:
        """Return what answers one question after another."""
        queue = cycle([_any_word(one.question) for one in asked])
        return lambda: (self._nearest(), self._matching(next(queue)))

    def _nearest(self) -> list[int]:
        near = self._vectors @ self._vector
        best: list[int] = np.argpartition(-near, LIMIT)[:LIMIT].tolist()
        return best

    def _matching(self, query: str) -> list[str]:
        sql = "SELECT text FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?"
        return [text for (text,) in self._connection.execute(sql, (query, LIMIT))]


def _any_word(question: str) -> str:
    return " OR ".join(f'"{word}"' for word in content_words(question))


def _cold_s(path: Path, question: str) -> float:
    program = [sys.executable, __file__, str(path), MANY, question]
    return float(subprocess.run(program, stdout=subprocess.PIPE, check=True, text=True).stdout)


def _ask_once(path: str, scope: str, question: str) -> float:
    began = time.perf_counter()
    with treering.open(path, embedder="static") as ledger:
        ledger.memory(scope).recall(question, user=USER, record=False)
        return time.perf_counter() - began


# Learning.


def _learning(folder: Path, count: int) -> Section:
    said = texts(count + SINGLES)
    with treering.open(folder / "learnt.db", embedder="static") as ledger:
        ledger.memory(FEW).learn(said[0])  # Has the embedder's table read.
        memory = ledger.memory(LEARNT)
        began = time.perf_counter()
        learned = memory.learn_all(new_facts(said[:count]))
        rate = count / (time.perf_counter() - began)
        walls = []
        for text in said[count:]:
            began = time.perf_counter()
            memory.learn(text, user=USER)
            walls.append(time.perf_counter() - began)
    kept = sum(one.outcome == "stored" for one in learned)
    single = statistics.median(walls)
    return Section(
        title="Learning facts",
        rows=[
            at_least(
                f"{count:,} facts at once, embedding included",
                rate,
                LEARNT_MIN,
                f"{rate:,.0f} facts/s ({kept:,} stored)",
                unit="facts/s",
            ),
            Row(
                what="one a call, beside them, p50",
                measured=f"{single * 1e3:.2f} ms ({1 / single:,.0f} facts/s)",
            ),
        ],
        notes=[_LEARNING_NOTE],
    )


# Searches of events.


def _searching(effort: Effort, folder: Path, counts: Sequence[int]) -> Section:
    rows: list[Row] = []
    words = Texts()
    asked = [words.text(6) for _ in range(CALLS * (effort.repeats + 1))]
    for count in counts:
        with treering.open(folder / f"events-{count}.db", durability="normal") as ledger:
            for batch in _batches(words, count):
                ledger.append(batch)
            began = time.perf_counter()
            _search(ledger, asked[0])
            entered = count / (time.perf_counter() - began)
            queue = cycle(asked)
            walls = in_turns(
                {"search": lambda: _search(ledger, next(queue))},  # noqa: B023  (used in its turn)
                rounds=effort.repeats,
                calls=CALLS,
            )
        shown = f"{statistics.median(walls['search']) * 1e3:.1f} ms"
        rows += [
            Row(what=f"a search of {count:,} events, p50", measured=shown),
            Row(what=f"entering {count:,} events", measured=f"{entered:,.0f} events/s"),
        ]
    return Section(title="Searches by meaning and words", rows=rows, notes=[_SEARCH_NOTE])


def _search(ledger: treering.Ledger, query: str) -> object:
    return ledger.search(query, scope=SCOPE, mode="hybrid")


def _batches(words: Texts, count: int) -> Iterator[list[NewEvent]]:
    for start in range(0, count, SESSION_EVENTS):
        yield [
            NewEvent(
                scope=SCOPE,
                session_id=f"s{start // SESSION_EVENTS}",
                kind="conversation.user" if at % 2 else "conversation.assistant",
                agent_id=AGENT,
                summary=f"turn {at}",
                payload={"text": words.text(24)},
            )
            for at in range(start, min(start + SESSION_EVENTS, count))
        ]


if __name__ == "__main__":
    print(_ask_once(*sys.argv[1:4]))
