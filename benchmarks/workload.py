"""The one workload: agents at work in ten sessions, events of about 500 bytes of JSON.

Made up, always the same. A turn is twenty events: a question, tools and their results, an answer.
"""

import gc
import random
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import uuid_utils

from treering import NewEvent

SEED: Final = 20_260_305
SCOPE: Final = "acme/app"
AGENT: Final = "lyria"
SESSIONS: Final = 10
TURN_EVENTS: Final = 20
START_MS: Final = 1_790_000_000_000
SOURCES: Final = {
    "conversation.user": "user",
    "conversation.assistant": "agent",
    "tool.call": "agent",
    "tool.result": "tool",
}


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured."""

    rounds: int
    """Rounds of 100 single appends and 9 batches of 100; 50 make the workload of 50,000."""
    peer_rounds: int
    """Batches of 100 that make up the session of every peer."""
    repeats: int
    seconds: float
    """How long concurrent writers write, each time."""
    large: int
    """Events of the large ledger."""
    cuts: int
    """Simulated power cuts of each workload."""


FULL: Final = Effort(
    rounds=50, peer_rounds=50, repeats=11, seconds=1.5, large=1_000_000, cuts=2_000
)
QUICK: Final = Effort(rounds=5, peer_rounds=10, repeats=5, seconds=0.4, large=20_000, cuts=50)


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The same event as one document: what somebody without a ledger would store."""

    event_id: str
    scope: str
    session_id: str
    kind: str
    source: str
    agent_id: str
    ts_ms: int
    recorded_ms: int
    summary: str
    refs: Any
    payload: Any
    run_id: str
    turn_id: str
    run_seq: int


def session_name(number: int) -> str:
    """Return the id of a session of the workload."""
    return f"session-{number % SESSIONS}"


class Workload:
    """Gives the events of each session in order, as many as are asked for."""

    def __init__(self, seed: int = SEED) -> None:
        self._dice = random.Random(seed)
        self._words = [
            "".join(self._dice.choices("abcdefghiklmnoprstuvw", k=self._dice.randint(3, 9)))
            for _ in range(2_000)
        ]
        self._counts = [0] * SESSIONS
        self._turns = [("", "")] * SESSIONS
        self._made = 0

    def singles(self, count: int) -> list[NewEvent]:
        """Return the next events, going round the sessions."""
        return [self.event(at % SESSIONS) for at in range(count)]

    def batch(self, number: int, count: int = 100) -> list[NewEvent]:
        """Return the next events of one session."""
        return [self.event(number % SESSIONS) for _ in range(count)]

    def event(self, session: int) -> NewEvent:
        """Return the next event of a session."""
        at = self._counts[session] % TURN_EVENTS
        if at == 0:
            self._turns[session] = (_uuid(self._dice), _uuid(self._dice))
        self._counts[session] += 1
        self._made += 1
        run_id, turn_id = self._turns[session]
        choose, words = self._dice.choices, self._words
        return NewEvent(
            scope=SCOPE,
            session_id=session_name(session),
            kind=_kind(at),
            agent_id=AGENT,
            summary=" ".join(choose(words, k=6)),
            refs={"file": f"src/{choose(words)[0]}.py"},
            payload={
                "text": " ".join(choose(words, k=self._dice.randint(24, 92))),
                "call_id": f"call_{self._made:08d}",
                "tokens": self._dice.randint(1, 9_999),
                "ok": True,
                "path": f"/src/{choose(words)[0]}/{choose(words)[0]}",
            },
            ts_ms=START_MS + self._made,
            run_id=run_id,
            run_seq=at + 1,
            turn_id=turn_id,
        )


def unnumbered(events: Iterable[NewEvent]) -> list[NewEvent]:
    """Return ``events`` so that they can be appended over and over: the ledger numbers them."""
    return [msgspec.structs.replace(event, run_seq=None) for event in events]


def body(event: NewEvent) -> Body:
    """Return ``event`` as one document, with the id and times that a ledger would add."""
    return Body(
        event_id=str(uuid_utils.uuid7()),
        scope=event.scope,
        session_id=event.session_id,
        kind=event.kind,
        source=SOURCES[event.kind],
        agent_id=event.agent_id,
        ts_ms=event.ts_ms or 0,
        recorded_ms=event.ts_ms or 0,
        summary=event.summary,
        refs=event.refs,
        payload=event.payload,
        run_id=event.run_id or "",
        turn_id=event.turn_id or "",
        run_seq=event.run_seq or 0,
    )


class Spent:
    """What a block of code took."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


@contextmanager
def timed() -> Iterator[Spent]:
    """Measure the wall clock and the processor time of a block, all threads of it.

    Processes that it started and saw the end of count as well.
    """
    spent = Spent()
    cpu, wall = _cpu_s(), time.perf_counter()
    yield spent
    spent.wall_s = time.perf_counter() - wall
    spent.cpu_s = _cpu_s() - cpu


def _cpu_s() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


@contextmanager
def settled_heap() -> Iterator[None]:
    """Keep the garbage collector from walking over what was prepared, for all contestants alike."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def in_turns(
    ways: Mapping[str, Callable[[], object]], *, rounds: int, calls: int = 1
) -> dict[str, list[float]]:
    """Return how long each of ``ways`` took, call by call, in shuffled rounds."""
    dice = random.Random(SEED)
    walls: dict[str, list[float]] = {name: [] for name in ways}
    with settled_heap():
        for at in range(rounds + 1):
            for name in dice.sample(list(ways), k=len(ways)):
                taken = [_wall(ways[name]) for _ in range(calls)]
                if at:  # The first round warms the caches.
                    walls[name] += taken
    return walls


def _wall(way: Callable[[], object]) -> float:
    """Return the wall time of one call; what it found is let go after the clock stops."""
    before = time.perf_counter()
    found = way()
    spent = time.perf_counter() - before
    del found
    return spent


def _kind(at: int) -> str:
    if at == 0:
        return "conversation.user"
    if at == TURN_EVENTS - 1:
        return "conversation.assistant"
    return "tool.call" if at % 2 else "tool.result"


def _uuid(dice: random.Random) -> str:
    text = f"{dice.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-7{text[13:16]}-a{text[17:20]}-{text[20:]}"
