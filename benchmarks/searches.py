"""Searches: a mix of queries over many events, and what keeping their index costs.

Texts are made up of words as people use them: few words make up most of a text, most words are
rare. Names of code, paths and some Chinese are among them.
"""

import random
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final

import treering
from mcp_speed import agent_section
from report import Row, Section, at_most
from treering import NewEvent
from workload import AGENT, SCOPE, SEED, START_MS, Effort

WORDS: Final = 60_000
SESSION_EVENTS: Final = 500
BATCH: Final = 5_000
P50_MS: Final = 50.0
P99_MS: Final = 200.0
ROUNDS: Final = 12
"""How often each sort of query is asked, each time with other words."""
_HAN: Final = "记录搜索系统运行错误文件部署测试结果模型会话数据内存时间接口调用"
_NOTE: Final = (
    "A query's time includes reading and masking what is shown. Of words that are nearly everywhere"
    " the newest 1,000 matches are ranked."
)


def run(effort: Effort, folder: Path) -> list[Section]:
    """Measure searches of a large ledger: by the library, and by an agent."""
    path = folder / "searches.db"
    texts = Texts()
    with treering.open(path, durability="normal", guard="off") as ledger:
        for batch in _batches(texts, effort.large):
            ledger.append(batch)
    rows = []
    with treering.open(path, durability="normal") as ledger:
        started = time.perf_counter()
        ledger.admin.index(SCOPE)
        seconds = time.perf_counter() - started
        rows.append(
            Row(what="events entered a second", measured=f"{effort.large / seconds:,.0f} / s")
        )
        ledger_bytes, index_bytes = (
            sum(one.stat().st_size for one in folder.glob(pattern))
            for pattern in ("searches.db", "searches.db.search")
        )
        rows.append(
            Row(
                what="size of the index",
                measured=f"{index_bytes / ledger_bytes:.2f} x ({index_bytes / 1e6:,.0f} MB)",
            )
        )
        rows += _queries(ledger, texts)
        rows.append(_erasing(ledger))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows.append(Row(what="memory at most", measured=f"{peak:,.0f} MB"))
    searches = Section(title=f"Searches of {effort.large:,} events", rows=rows, notes=[_NOTE])
    queries = [query for asked in texts.queries().values() for query in asked]
    return [searches, agent_section(path, queries, starts=effort.repeats)]


def _queries(ledger: treering.Ledger, texts: "Texts") -> list[Row]:
    every: list[float] = []
    rows = []
    for sort, queries in texts.queries().items():
        times = []
        for query in queries:
            started = time.perf_counter()
            ledger.search(query, scope=SCOPE)
            times.append((time.perf_counter() - started) * 1_000)
        every += times
        rows.append(
            Row(
                what=sort,
                measured=f"{statistics.median(times):.1f} ms, {max(times):.1f} at most",
            )
        )
    every.sort()
    p50, p99 = every[len(every) // 2], every[int(len(every) * 0.99)]
    return [
        at_most("a search, p50", p50, P50_MS, f"{p50:.1f} ms", "ms"),
        at_most("a search, p99", p99, P99_MS, f"{p99:.1f} ms", "ms"),
        *rows,
    ]


def _erasing(ledger: treering.Ledger) -> Row:
    hit = ledger.search("kind:conversation.user", scope=SCOPE).hits[0]
    started = time.perf_counter()
    receipt = ledger.redact(SCOPE, event_id=hit.event_id)
    shown = f"{time.perf_counter() - started:.2f} s, {receipt.physical}"
    return Row(what="one event redacted, out of the index too", measured=shown)


class Texts:
    """Makes texts, and queries that find them."""

    def __init__(self) -> None:
        self._dice = random.Random(SEED)
        syllables = [a + b for a in "bcdfghklmnprstvz" for b in ("a", "e", "i", "o", "u", "ai")]
        words: dict[str, None] = {}
        while len(words) < WORDS:
            words["".join(self._dice.choices(syllables, k=self._dice.randint(1, 4)))] = None
        self.words = list(words)
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(WORDS)))

    def text(self, count: int) -> str:
        """Return so many words, some of them names of code."""
        words = self._dice.choices(self.words, cum_weights=self._weights, k=count)
        if count > 4:
            one, two = words[0], words[1]
            words[2] = f"{one}_{two}" if self._dice.random() < 0.5 else one + two.capitalize()
            words[3] = f"src/{one}/{two}.py"
            if self._dice.random() < 0.05:
                words[4] = "".join(self._dice.choices(_HAN, k=12))
        return " ".join(words)

    def queries(self) -> dict[str, list[str]]:
        """Return queries by sort."""
        words, dice = self.words, random.Random(SEED + 1)

        def common() -> str:
            return words[dice.randrange(30)]

        def middling() -> str:
            return words[dice.randrange(200, 5_000)]

        def rare() -> str:
            return words[dice.randrange(20_000, WORDS)]

        sorts = {
            "a common word": common,
            "a word": middling,
            "a rare word": rare,
            "two common words": lambda: f"{common()} {common()}",
            "two words": lambda: f"{middling()} {middling()}",
            "a common and a rare one": lambda: f"{common()} {rare()}",
            "five words": lambda: " ".join(middling() for _ in range(5)),
            "a beginning": lambda: f"{middling()[:4]}*",
            "a short beginning": lambda: f"{common()[:2]}*",
            "a phrase": lambda: f'"{common()} {common()}"',
            "a phrase of three": lambda: f'"{common()} {middling()} {common()}"',
            "without a word": lambda: f"{middling()} -{common()}",
            "of a kind": lambda: f"{common()} kind:conversation.user",
            "of a session": lambda: f"{common()} session:s{dice.randrange(20)}",
            "of some days": lambda: f"{common()} after:2026-09-10 before:2026-09-12",
            "of a file": lambda: f"file:{common()}/{middling()}.py",
            "a name in code": lambda: f"{common()}_{common()}",
            "part of a name": lambda: f"{middling()[1:]}_{middling()[:3]}",
            "two Chinese characters": lambda: "".join(dice.choices(_HAN, k=2)),
            "one Chinese character": lambda: dice.choice(_HAN),
            "a word that is nowhere": lambda: f"qx{rare()}",
        }
        return {sort: [make() for _ in range(ROUNDS)] for sort, make in sorts.items()}


def _batches(texts: Texts, count: int) -> Iterator[list[NewEvent]]:
    dice = random.Random(SEED + 2)
    for start in range(0, count, BATCH):
        if start % 200_000 == 0:
            print(f"  building: {start:,} events", file=sys.stderr, flush=True)
        yield [_event(texts, dice, number) for number in range(start, min(start + BATCH, count))]


def _event(texts: Texts, dice: random.Random, number: int) -> NewEvent:
    kind = ("conversation.user", "tool.call", "tool.result", "conversation.assistant")[number % 4]
    text = texts.text(dice.choice((6, 20, 40, 120)))
    payload: dict[str, object] = {"text": text}
    if kind == "tool.call":
        path = f"src/{dice.choice(texts.words[:100])}/{dice.choice(texts.words)}.py"
        payload = {"name": "read_file", "input": {"file_path": path, "query": text[:60]}}
    elif kind == "tool.result":
        payload = {"name": "read_file", "status": "ok", "output": text}
    return NewEvent(
        scope=SCOPE,
        session_id=f"s{number // SESSION_EVENTS}",
        kind=kind,
        agent_id=AGENT,
        summary=text[:80],
        payload=payload,
        ts_ms=START_MS - 1_000 * (10**6 - number),
    )
