"""Processes that append to PostgreSQL when they are told, so that none has to start meanwhile."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final, Literal, Self

import msgspec

import treering
from postgres_bare import BareEvents
from treering import NewEvent
from workload import SEED, Workload, session_name, unnumbered

EVENTS: Final = 2_000
"""What a writer has ready; then it begins again."""
HEAD_START_S: Final = 0.05
"""All begin at one moment, this long after they are told."""

Contestant = Literal["ours", "bare"]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer is told to do."""

    contestant: Contestant
    session: int
    sizes: tuple[int, ...]
    """How many events go into one call, in turn."""
    start: float
    seconds: float


class Crew:
    """Writers that wait for orders, each a process with a ledger and a bare table open."""

    def __init__(self, ledger: str, bare: str, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._lines: list[Connection] = []
        self._writers = []
        for number in range(size):
            here, there = context.Pipe()
            writer = context.Process(target=_serve, args=(there, ledger, bare, number), daemon=True)
            writer.start()
            there.close()
            self._lines.append(here)
            self._writers.append(writer)
        for line in self._lines:
            line.recv()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines:
            line.send(None)
        for writer in self._writers:
            writer.join()

    def send(
        self,
        contestant: Contestant,
        sessions: Sequence[int],
        *,
        seconds: float,
        sizes: tuple[int, ...] = (1,),
    ) -> Callable[[], list[int]]:
        """Let one writer for each of ``sessions`` write; return how to get what each wrote."""
        start = time.monotonic() + HEAD_START_S
        lines = self._lines[: len(sessions)]
        for line, session in zip(lines, sessions, strict=True):
            line.send(
                Order(
                    contestant=contestant,
                    session=session,
                    sizes=sizes,
                    start=start,
                    seconds=seconds,
                )
            )
        return lambda: [line.recv() for line in lines]

    def busy(self) -> bool:
        """Whether somebody who was sent is still writing."""
        return not all(line.poll() for line in self._lines)


def _serve(line: Connection, ledger: str, bare: str, number: int) -> None:
    """Carry out orders until there are no more."""
    with treering.open(ledger, guard="off") as ours, BareEvents(bare) as theirs:
        ways: dict[str, Callable[[list[NewEvent]], Any]] = {
            "ours": ours.append,
            "bare": theirs.append,
        }
        events = unnumbered(Workload(SEED + number).batch(0, EVENTS))
        line.send("ready")
        while (order := line.recv()) is not None:
            name = session_name(order.session)
            mine = [msgspec.structs.replace(event, session_id=name) for event in events]
            line.send(_write(ways[order.contestant], mine, order))


def _write(append: Callable[[list[NewEvent]], Any], events: list[NewEvent], order: Order) -> int:
    """Append until the time is over; return how many events."""
    append(events[:1])  # Whoever comes first makes the session.
    at = done = calls = 0
    time.sleep(max(0.0, order.start - time.monotonic()))
    until = order.start + order.seconds
    while time.monotonic() < until:
        size = order.sizes[calls % len(order.sizes)]
        append(events[at : at + size])
        at = (at + size) % (len(events) - max(order.sizes))
        done += size
        calls += 1
    return done
