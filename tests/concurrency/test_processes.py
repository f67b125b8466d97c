"""Promise 2: one order for all processes that write to a file, and none of them is turned away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broken.ledgers import SCOPE, open_ledger, said
from concurrency.processes import (
    Colleague,
    begin_together,
    check_order,
    colleagues,
    hold_gate,
    hold_write_lock,
    race_for_id,
    race_for_seq,
    stop_while_writing,
    write_in_threads,
)
from treering.errors import Busy

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = 12


def test_threads_of_several_processes_share_one_order(path: Path) -> None:
    processes, threads, count = 3, 2, 60
    with colleagues(processes, write_in_threads, path, threads, count) as writers:
        begin_together(writers)
        heard = [told for writer in writers for told in writer.hear()]

    with open_ledger(path) as ledger:
        assert check_order(ledger) == processes * threads * count
        stored = {
            (header.session_id, header.event_id, header.seq)
            for header in ledger.headers(SCOPE, first=1_000).items
        }
    assert {acked for told in heard for acked in told} == stored
    for told in heard:
        shared = [seq for session_id, _, seq in told if session_id == "shared"]
        assert shared == sorted(shared)


def test_processes_that_make_a_ledger_at_the_same_time_make_one(path: Path) -> None:
    with colleagues(4, write_in_threads, path, 1, 3) as writers:
        for writer in writers:
            writer.hear()
            writer.tell("go")
        for writer in writers:
            writer.hear()

    with open_ledger(path) as ledger:
        assert check_order(ledger) == 12


def test_of_writers_that_expect_the_same_seq_exactly_one_wins(path: Path) -> None:
    with colleagues(3, race_for_seq, path) as writers:
        for writer in writers:
            writer.hear()
        for seq in range(ROUNDS):
            for writer in writers:
                writer.tell(seq)
            outcomes = [writer.hear() for writer in writers]

            assert sorted(word for word, _ in outcomes) == ["lost", "lost", "won"]
            assert {current for _, current in outcomes} == {seq + 1}

    with open_ledger(path) as ledger:
        assert check_order(ledger) == ROUNDS


@pytest.mark.parametrize("same", [True, False])
def test_of_writers_with_the_same_id_one_event_is_stored(path: Path, same: bool) -> None:  # noqa: FBT001
    with colleagues(3, race_for_id, path) as writers:
        for writer in writers:
            writer.hear()
        for number in range(ROUNDS):
            for writer in writers:
                writer.tell((f"e{number}", same))
            outcomes = [writer.hear() for writer in writers]
            winners = {position for word, position in outcomes if word == "won"}

            assert len(winners) == 1
            assert [word for word, _ in outcomes].count("won") == (3 if same else 1)

    with open_ledger(path) as ledger:
        assert check_order(ledger) == ROUNDS


@pytest.mark.parametrize("obstacle", [hold_gate, hold_write_lock])
def test_a_writer_that_is_kept_waiting_too_long_says_who_is_in_the_way(
    path: Path, obstacle: object
) -> None:
    ledger = open_ledger(path, patience_s=0.3)
    ledger.append([said("before", event_id="before")])
    blocker = Colleague(obstacle, path, 0)  # type: ignore[arg-type]
    blocker.hear()

    with pytest.raises(Busy) as caught:
        ledger.append([said("meanwhile", event_id="meanwhile")])
    with pytest.raises(Busy):
        ledger.redact(SCOPE, event_id="before")
    with open_ledger(path, patience_s=0.1) as other:
        opened_meanwhile = other.event(SCOPE, "before").summary
        proved_meanwhile = other.admin.verify().intact
    read_meanwhile = ledger.event(SCOPE, "before").summary
    blocker.tell("go")
    if obstacle is hold_write_lock:
        blocker.hear()
    blocker.join()
    ledger.append([said("meanwhile", event_id="meanwhile")])

    assert caught.value.hint
    assert (read_meanwhile, opened_meanwhile, proved_meanwhile) == ("before", "before", True)
    assert check_order(ledger) == 2
    ledger.close()


def test_a_writer_that_was_stopped_is_named_to_those_who_wait(path: Path) -> None:
    ledger = open_ledger(path, patience_s=0.3)
    ledger.append([said("before", event_id="before")])
    writer = Colleague(stop_while_writing, path, 0)
    process = writer.hear()

    with pytest.raises(Busy, match=rf"process {process} \(.*\) is stopped .*since 20") as caught:
        ledger.append([said("meanwhile", event_id="meanwhile")])
    assert f"kill -CONT {process}" in (caught.value.hint or "")
    with open_ledger(path, patience_s=0.3) as other:
        assert other.event(SCOPE, "before").summary == "before"

    writer.carry_on()
    assert writer.hear() == "gone on"
    writer.join()
    ledger.append([said("meanwhile", event_id="meanwhile")])
    assert check_order(ledger) == 2
    ledger.close()


def test_a_tool_that_holds_the_write_lock_is_named_to_those_who_wait(path: Path) -> None:
    ledger = open_ledger(path, patience_s=0.3)
    ledger.append([said("before", event_id="before")])
    blocker = Colleague(hold_write_lock, path, 0)
    blocker.hear()

    with pytest.raises(Busy, match=r"process \d+ \(.*\) holds the write lock"):
        ledger.append([said("meanwhile", event_id="meanwhile")])

    blocker.kill()
    ledger.close()
