"""Readers of other processes: followers miss nothing, and nobody who reads stops a writer."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from broken.ledgers import SCOPE, marked, open_ledger, raw_bytes, said, traces
from broken.stories import NAME
from concurrency.processes import Colleague, check_order, follow, hold_read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from treering.ledger.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / NAME


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with open_ledger(path) as ledger:
        yield ledger


def test_a_follower_in_another_process_sees_every_event_live_and_across_restarts(
    path: Path, ledger: Ledger
) -> None:
    appended: list[str] = []
    seen: list[str] = []
    cursor: str | None = None

    def append(count: int) -> None:
        for _ in range(count):
            ids = [f"e{len(appended) + part}" for part in range(2)]
            ledger.append([said("x", event_id=event_id) for event_id in ids])
            ledger.append([said("of another scope", scope="other/app")])
            appended.extend(ids)

    append(10)
    for _ in range(3):
        follower = Colleague(follow, path, cursor, 0)
        follower.hear()
        append(15)
        # It is killed in the middle of what there is; what it has told is taken as dealt with.
        while len(seen) < len(appended) - 5:
            event_id, _, cursor = follower.hear()
            seen.append(event_id)
        follower.kill()
    last = Colleague(follow, path, cursor, 0)
    last.hear()
    while len(seen) < len(appended):
        event_id, _, cursor = last.hear()
        seen.append(event_id)
    last.kill()

    assert seen == appended


def test_a_follower_never_skips_what_several_processes_write(path: Path, ledger: Ledger) -> None:
    from concurrency.processes import colleagues, write_in_threads

    follower = Colleague(follow, path, None, 0)
    follower.hear()
    with colleagues(2, write_in_threads, path, 2, 40) as writers:
        for writer in writers:
            writer.hear()
            writer.tell("go")
        told = [follower.hear() for _ in range(160)]
        for writer in writers:
            writer.hear()
    follower.kill()

    positions = [position for _, position, _ in told]
    assert positions == sorted(positions)
    assert len({event_id for event_id, _, _ in told}) == check_order(ledger) == 160


def test_a_reader_that_never_ends_holds_no_writer_up_and_delays_only_physical_erasure(
    path: Path, ledger: Ledger
) -> None:
    secret = marked(Random(1), "secret", size=20_000, session_id="s1")
    ledger.append([secret])
    reader = Colleague(hold_read, path, 0)
    reader.hear()

    for number in range(50):
        ledger.append([said(f"meanwhile {number}")])
    first = ledger.redact(SCOPE, event_id="secret")
    shown_to_reader = raw_bytes(path)
    reader.tell("go")
    reader.hear()
    reader.join()
    second = ledger.redact(SCOPE, event_id="secret")
    content = raw_bytes(path)

    assert (first.redacted_count, first.physical) == (1, "pending")
    assert any(trace in shown_to_reader for trace in traces(secret))
    assert (second.redacted_count, second.physical) == (0, "done")
    assert [trace for trace in traces(secret) if trace in content] == []
    assert check_order(ledger) == 52


def test_an_erasure_that_was_pending_is_completed_when_the_ledger_is_next_opened(
    path: Path,
) -> None:
    secret = marked(Random(2), "secret", size=200, session_id="s1")
    with open_ledger(path) as ledger:
        ledger.append([secret])
        reader = Colleague(hold_read, path, 0)
        reader.hear()
        pending = ledger.redact(SCOPE, event_id="secret").physical
    reader.kill()

    with open_ledger(path) as again:
        content = raw_bytes(path)
        assert again.admin.verify().intact

    assert pending == "pending"
    assert [trace for trace in traces(secret) if trace in content] == []
