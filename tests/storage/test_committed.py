"""What counts of a session, read from its end: what has failed is passed over, and nothing else."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import HERE, said
from effort import seeds
from forks import fork
from ports import store_of
from treering.model.scopes import Scope
from treering.storage.sqlite import reader
from treering.storage.sqlite.indexes import session_rows

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger, NewEvent

OURS = Scope(HERE)
KINDS = {"conversation.user", "ops.observation"}
ENDS = {"a": "run.ended", "b": "run.failed", "c": "run.interrupted"}
LONG = 30_000


def committed(ledger: Ledger, **which: Any) -> list[int]:
    asked: dict[str, Any] = {"kinds": KINDS, "until_seq": 2**40, "run_id": None} | which
    return [e.seq for e in store_of(ledger).reader.committed_events(OURS, "s1", **asked)]


def mixed(dice: Random) -> list[NewEvent]:
    """Return events of runs that end differently, among others."""
    events: list[NewEvent] = []
    for number in range(12):
        name = f"{dice.choice('abcd')}{number}"
        for _ in range(dice.randrange(1, 12)):
            run = None if dice.random() < 0.1 else name
            kind = dice.choice(["conversation.user", "ops.observation", "tool.call"])
            events.append(said("x", kind=kind, run_id=run))
        if name[0] in ENDS:
            events.append(said("end", kind=ENDS[name[0]], run_id=name))
    return events


@pytest.mark.parametrize("seed", seeds(2, times=30))
def test_what_counts_is_found_whatever_failed_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(reader, "STRETCH_FIRST", 2)
    with treering.open(tmp_path / "ledger.db") as ledger:
        events = mixed(Random(seed))
        ledger.append(events)
        own = next(e.run_id for e in events if e.run_id and e.run_id[0] in "bd")
        wanted = [
            seq
            for seq, event in enumerate(events, start=1)
            if event.kind in KINDS
            and (event.run_id is None or event.run_id[0] == "a" or event.run_id == own)
        ]
        for before in range(1, len(events) + 2):
            for limit in (1, 3, 100):
                found = committed(ledger, before_seq=before, limit=limit, run_id=own)
                assert found == [seq for seq in wanted if seq < before][-limit:]


def test_a_long_run_that_failed_is_looked_through_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[int] = []

    def counting(connection: Any, statements: Any, session: int, after: int, before: int,
                 limit: int, **bindings: Any) -> Any:  # fmt: skip
        walked.append(before - after)
        return session_rows(connection, statements, session, after, before, limit, **bindings)

    with treering.open(tmp_path / "ledger.db", durability="normal") as ledger:
        ledger.append([said("first")])
        for _ in range(LONG // 1_000):
            ledger.append([said("x", run_id="r1") for _ in range(1_000)])
        ledger.append([said("failed", kind="run.failed", run_id="r1"), said("last")])
        first = committed(ledger, before_seq=LONG + 4, limit=9)
        monkeypatch.setattr(reader, "session_rows", counting)
        again = committed(ledger, before_seq=LONG + 4, limit=9)

    assert first == again == [1, LONG + 3]
    assert sum(walked) < LONG / 4


def test_a_fork_is_not_looked_through_before_its_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[tuple[int, int]] = []

    def counting(connection: Any, statements: Any, session: int, after: int, before: int,
                 limit: int, **bindings: Any) -> Any:  # fmt: skip
        walked.append((after, before))
        return session_rows(connection, statements, session, after, before, limit, **bindings)

    monkeypatch.setattr(reader, "STRETCH_FIRST", 2)
    with treering.open(tmp_path / "ledger.db") as ledger:
        ledger.append([said("x", session_id="parent") for _ in range(50)])
        fork(ledger, "s1", parent="parent", seq=40)
        ledger.append([said("a"), said("b"), said("c")])
        monkeypatch.setattr(reader, "session_rows", counting)
        found = committed(ledger, before_seq=100, limit=9)

    assert found == [42, 43, 44]
    assert walked == [(42, 45), (40, 43)]
