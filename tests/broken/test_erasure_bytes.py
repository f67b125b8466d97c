"""Promise 5: after redact or expire, the bytes are in no file; what was not erased still is."""

from __future__ import annotations

import multiprocessing
from random import Random
from typing import TYPE_CHECKING, Final

import msgspec
import pytest

import fork_server
from broken.ledgers import SCOPE, marked, open_ledger, raw_bytes, shown, traces
from broken.stories import NAME, OLD_MS
from effort import PATIENCE_S, seeds

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from treering.ledger.ledger import Ledger
    from treering.model.events import NewEvent

SEEDS: Final = seeds(1, times=30)
ROUNDS: Final = 10
APPENDS: Final = 24
SIZES: Final = (1, 60, 700, 3_900, 8_100, 9_000, 40_000, 200_000)
SESSIONS: Final = ("s1", "s2", "s3", "s4")


class Household:
    """What a ledger was given, and what of it is to be gone."""

    def __init__(self, ledger: Ledger, dice: Random) -> None:
        self.ledger = ledger
        self.dice = dice
        self.live: dict[str, NewEvent] = {}
        self.erased: dict[str, NewEvent] = {}
        self.unnamed: list[bytes] = []
        """Ids of expired events: chosen texts, that go as well."""

    def append(self) -> None:
        """Append a few events, some of them old, each with its own markers."""
        batch = [self._event() for _ in range(self.dice.randint(1, 4))]
        self.ledger.append(batch)
        self.live.update({str(event.event_id): event for event in batch})

    def redact_event(self) -> None:
        """Redact one event that is there."""
        event_id = self.dice.choice(sorted(self.live))
        receipt = self.ledger.redact(SCOPE, event_id=event_id)
        assert (receipt.redacted_count, receipt.physical) == (1, "done")
        self._gone([event_id])

    def redact_session(self) -> None:
        """Redact one session."""
        session_id = self.dice.choice(SESSIONS)
        assert self.ledger.redact(SCOPE, session_id=session_id).physical == "done"
        self._gone([name for name, event in self.live.items() if event.session_id == session_id])

    def expire(self) -> None:
        """Expire what is old."""
        old = [name for name, event in self.live.items() if event.ts_ms == OLD_MS]
        receipt = self.ledger.expire(SCOPE)
        assert receipt.physical == "done"
        self._gone(old)
        self.unnamed += [name.encode() for name in old]

    def check(self, content: bytes) -> None:
        """Check that what was erased is gone, and that what was not can still be found."""
        assert shown(self.erased.values(), content) == set()
        assert shown(self.live.values(), content) == self.live.keys()
        assert [name for name in self.unnamed if name in content] == []

    def _event(self) -> NewEvent:
        number = len(self.live) + len(self.erased)
        event_id = f"chosen-{number}-{self.dice.getrandbits(64):016x}"
        event = marked(
            self.dice,
            event_id,
            size=self.dice.choice(SIZES),
            session_id=self.dice.choice(SESSIONS),
            ts_ms=OLD_MS if self.dice.random() < 0.3 else None,
        )
        parts = self.dice.choice(("all", "all", "no refs", "no payload"))
        if parts == "no refs":
            return msgspec.structs.replace(event, refs=None)
        return msgspec.structs.replace(event, payload=None) if parts == "no payload" else event

    def _gone(self, event_ids: list[str]) -> None:
        for event_id in event_ids:
            self.erased[event_id] = self.live.pop(event_id)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_erased_in_whatever_order_leaves_no_byte_behind(
    tmp_path: Path, seed: int
) -> None:
    path, dice = tmp_path / NAME, Random(seed)
    with open_ledger(path, autocheckpoint_pages=dice.choice((10, 200, 1_000))) as ledger:
        household = Household(ledger, dice)
        for number in range(ROUNDS):
            for _ in range(APPENDS // 2):
                household.append()
            for _ in range(dice.randint(1, 4)):
                household.redact_event()
                household.append()
            if number % 3 == 1:
                household.expire()
            if number % 5 == 4:
                household.redact_session()
            household.check(raw_bytes(path))
        assert ledger.admin.verify().intact
    household.check(raw_bytes(path))

    assert len(household.erased) > 80
    assert len(household.live) > 40


def test_content_that_two_events_share_goes_with_the_second(tmp_path: Path) -> None:
    path, dice = tmp_path / NAME, Random(1)
    first = marked(dice, "first", size=50_000, session_id="s1")
    second = msgspec.structs.replace(first, event_id="second", summary="the same", refs=None)
    body = traces(first)[3:]
    with open_ledger(path) as ledger:
        ledger.append([first, second])
        kept = ledger.redact(SCOPE, event_id="first")
        between = raw_bytes(path)
        gone = ledger.redact(SCOPE, event_id="second")
        after = raw_bytes(path)

    assert (kept.blobs_erased, kept.blobs_shared) == (0, 1)
    assert (gone.blobs_erased, gone.blobs_shared) == (1, 0)
    assert any(trace in between for trace in body)
    assert [trace for trace in body if trace in after] == []


def test_a_ledger_that_was_killed_amid_its_erasures_holds_no_byte_of_them_once_opened(
    tmp_path: Path,
) -> None:
    path = tmp_path / NAME
    for seed in range(4):
        heard, told = multiprocessing.Pipe(duplex=False)
        process = fork_server.process(erase_without_end, path, seed, told)
        process.start()
        told.close()
        for _ in range(5 + seed):
            heard.recv_bytes()
        process.kill()
        process.join(PATIENCE_S)
        heard.close()

        with open_ledger(path) as ledger:
            content = raw_bytes(path)
            blank = [
                header.event_id
                for session_id in SESSIONS
                for header in ledger.session(session_id, scope=SCOPE, agent="a").headers()
                if header.redacted
            ]
            assert len(blank) >= 5 + seed
            assert shown(map(_event_of, blank), content) == set()
            assert ledger.admin.verify().intact


def erase_without_end(path: Path, seed: int, told: Connection) -> None:
    """Append and redact, and say so each time."""
    with open_ledger(path) as ledger:
        for number in range(1_000_000):
            event = _event_of(f"{seed}-{number}")
            ledger.append([event])
            ledger.redact(SCOPE, event_id=str(event.event_id))
            told.send_bytes(b"redacted")


def _event_of(event_id: str) -> NewEvent:
    dice = Random(event_id)
    return marked(dice, event_id, size=dice.choice(SIZES), session_id=dice.choice(SESSIONS))
