"""Promise 1: what was acknowledged survives kill -9, of any writer, at any moment."""

from __future__ import annotations

import multiprocessing
import time
from random import Random
from typing import TYPE_CHECKING, Final

import fork_server
from broken.ledgers import SCOPE, marked, open_ledger, raw_bytes, said, shown
from effort import PATIENCE_S, SEED, rounds
from treering.model.codec import decode, encode
from treering.storage.sqlite import indexes

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

    from treering.ledger.ledger import Ledger
    from treering.model.events import Header, NewEvent

WRITERS: Final = 4
KILLS: Final = rounds(8)
ERASER_KILLS: Final = rounds(4)


def test_writers_that_are_killed_again_and_again_lose_nothing_acknowledged(tmp_path: Path) -> None:
    path, dice = tmp_path / "ledger.db", Random(SEED + 1)
    writers = [_Killable(append_forever, path, name) for name in range(WRITERS)]
    for number in range(KILLS):
        at = dice.randrange(WRITERS)
        writers[at].let_work(dice.randint(1, 40), dice.random() * 0.01)
        writers[at].kill()
        acked = writers[at].acked
        writers[at] = _Killable(append_forever, path, WRITERS + number, acked)
    for writer in writers:
        writer.let_work(1, 0)
        writer.kill()

    with open_ledger(path) as ledger:
        ids = [event_id for writer in writers for event_id in writer.acked]
        stored = _ids(ledger)
        assert len(ids) > KILLS
        assert set(ids) <= set(stored)
        assert len(stored) == len(set(stored))
        _check_seqs(ledger)
        ledger.append([said("the next writer writes", event_id="next")])
        assert ledger.admin.verify().intact


def test_an_eraser_that_is_killed_again_and_again_finishes_what_it_began(tmp_path: Path) -> None:
    path, dice = tmp_path / "ledger.db", Random(SEED + 2)
    acked: list[str] = []
    for number in range(ERASER_KILLS):
        eraser = _Killable(erase_forever, path, number)
        eraser.let_work(dice.randint(1, 10), dice.random() * 0.01)
        eraser.kill()
        acked += eraser.acked

    with open_ledger(path) as ledger:
        content = raw_bytes(path)
        blank = {header.event_id for header in _headers(ledger) if header.redacted}
        live = {header.event_id for header in _headers(ledger) if not header.redacted}
        assert len(acked) > ERASER_KILLS
        assert not live & set(acked)
        assert shown(map(secret_of, blank | set(acked)), content) == set()
        assert ledger.admin.verify().intact
        ledger.append([said("the next writer writes", event_id="next")])


def append_forever(path: Path, name: int, told: Connection) -> None:
    """Append alone and in batches, and tell the ids of what was acknowledged."""
    ledger = open_ledger(path, autocheckpoint_pages=30)
    indexes.LAG_EVENTS_MAX = 20  # type: ignore[misc]
    dice = Random(name)
    number = 0
    while True:
        ids = [f"w{name}-{number + at}" for at in range(dice.choice((1, 1, 1, 7)))]
        number += len(ids)
        ledger.append([said(f"by {name}", session_id=f"s{name % 3}", event_id=id_) for id_ in ids])
        told.send_bytes(encode(ids))


def erase_forever(path: Path, name: int, told: Connection) -> None:
    """Append, redact and expire, and tell the ids of what was erased and proved gone."""
    ledger = open_ledger(path, autocheckpoint_pages=30)
    indexes.LAG_EVENTS_MAX = 20  # type: ignore[misc]
    for number in range(1_000_000):
        ids = [f"{name}-{number}-{at}" for at in range(3)]
        ledger.append([secret_of(event_id) for event_id in ids])
        redacted = ledger.redact(SCOPE, event_id=ids[0])
        expired = ledger.expire(SCOPE)
        assert (redacted.physical, expired.physical) == ("done", "done")
        told.send_bytes(encode(ids[:2]))


def secret_of(event_id: str) -> NewEvent:
    """Return the one event with this id; the second of three is old enough to expire."""
    dice = Random(event_id)
    old = event_id.endswith("-1")
    size = dice.choice((50, 5_000, 30_000))
    return marked(dice, event_id, size=size, session_id="s1", ts_ms=1_000 if old else None)


class _Killable:
    """A process that tells what was acknowledged to it, until it is killed."""

    def __init__(
        self,
        work: Callable[[Path, int, Connection], None],
        path: Path,
        name: int,
        acked: list[str] | None = None,
    ) -> None:
        self.acked: list[str] = acked or []
        self._heard, told = multiprocessing.Pipe(duplex=False)
        self._process = fork_server.process(work, path, name, told)
        self._process.start()
        told.close()

    def let_work(self, times: int, longer_s: float) -> None:
        """Wait until it was acknowledged something ``times`` times, and then a moment."""
        for _ in range(times):
            self.acked += decode(self._heard.recv_bytes())
        time.sleep(longer_s)

    def kill(self) -> None:
        """Kill it, and hear what it told until then."""
        self._process.kill()
        self._process.join(PATIENCE_S)
        try:
            while True:
                self.acked += decode(self._heard.recv_bytes())
        except EOFError:
            self._heard.close()


def _headers(ledger: Ledger) -> list[Header]:
    found: list[Header] = []
    cursor: str | None = None
    while True:
        page = ledger.headers(SCOPE, first=1_000, after=cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


def _ids(ledger: Ledger) -> list[str]:
    return [header.event_id for header in _headers(ledger)]


def _check_seqs(ledger: Ledger) -> None:
    seqs: dict[str, list[int]] = {}
    for header in sorted(_headers(ledger), key=lambda header: header.position):
        seqs.setdefault(header.session_id, []).append(header.seq)
    assert {name: list(range(1, len(found) + 1)) for name, found in seqs.items()} == seqs
