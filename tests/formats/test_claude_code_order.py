"""Lines of Claude Code that stand in another order than they follow each other."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import treering
from formats.logs import tellings
from formats.logs.claude_code import SESSION, Log, records_of, texts_in, told_by, uuid_of
from treering.formats.claude_code import ClaudeCodeReader
from treering.formats.claude_code.order import WAITING_MAX

if TYPE_CHECKING:
    from pathlib import Path

    from treering.formats.parsed import ParsedEvent


def counted(count: int) -> Log:
    """Return a log of prompts and answers that count."""
    log = Log()
    for number in range(1, count + 1):
        if number % 2:
            log.user(str(number))
        else:
            log.answer(str(number), id=f"msg_{number}")
    return log


def told_in(log: Log, *order: int) -> list[ParsedEvent]:
    """Return what the lines of a log tell in another order, by their numbers."""
    shuffled = Log()
    shuffled.lines = [log.lines[number - 1] for number in order]
    return told_by(shuffled)


def test_lines_are_told_behind_what_they_follow() -> None:
    log = counted(5)

    for order in ((3, 1, 2, 4, 5), (5, 4, 3, 2, 1), (1, 4, 2, 5, 3)):
        assert texts_in(told_in(log, *order)) == ["1", "2", "3", "4", "5"]
        assert told_in(log, *order) == told_by(log)


def test_what_follows_a_line_of_another_file_is_told_as_it_stands() -> None:
    log = Log(first=7)
    log.user("7", parentUuid=uuid_of(6))
    log.note("mode", mode="plan", sessionId=SESSION)
    for number in range(8, 8 + WAITING_MAX):
        log.user(str(number))
    reader = ClaudeCodeReader(PurePath(f"{SESSION}.jsonl"))
    records = records_of(log.content())

    waiting = [outcome for record in records[: WAITING_MAX - 1] for outcome in reader.read(record)]
    state = reader.state()
    released = [outcome.record for outcome in reader.read(records[WAITING_MAX - 1])]

    assert (waiting, state) == ([], None)
    assert released == records[:WAITING_MAX]
    assert [one.record for one in reader.read(records[WAITING_MAX])] == [records[WAITING_MAX]]
    assert reader.state() is not None


def test_a_line_whose_parent_comes_too_late_is_told_as_it_stands() -> None:
    log = counted(WAITING_MAX + 2)
    late = [*range(3, WAITING_MAX + 3), 1, 2]

    assert texts_in(told_in(log, *late)) == [str(number) for number in late]


def test_what_is_held_back_is_told_in_the_end() -> None:
    log = counted(4)

    assert texts_in(told_in(log, 3, 4, 2)) == ["2", "3", "4"]


def test_lines_that_follow_each_other_in_a_circle_are_all_told() -> None:
    log = Log()
    log.user("1", parentUuid=uuid_of(2))
    log.user("2", parentUuid=uuid_of(1))
    log.user("3", parentUuid=uuid_of(3))

    assert sorted(texts_in(told_by(log))) == ["1", "2", "3"]


def test_a_note_without_an_id_has_the_same_name_in_whichever_order_it_is_told() -> None:
    log = counted(3)
    log.lines = [log.lines[2], {"type": "mode", "mode": "plan"}, *log.lines[:2]]
    reader = ClaudeCodeReader(PurePath(f"{SESSION}.jsonl"))

    cut = tellings.told(reader, log.lines[:2])
    whole = told_by(log)

    assert {event.key for event in cut} <= {event.key for event in whole}


def test_a_copy_of_another_name_is_known_where_no_line_names_its_session(tmp_path: Path) -> None:
    ledger = treering.open(tmp_path / "ledger.db")
    lines: list[dict[str, Any]] = [
        {"type": "user", "message": {"role": "user", "content": "Why is the lamp dark?"}},
        {"type": "assistant", "message": {"role": "assistant", "content": "The fuse."}},
    ]
    receipts = []

    for name in ("monday", "copy of monday", SESSION):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        receipts.append(treering.import_logs(ledger, [path], scope="acme/app"))

    assert [(one.events, one.sessions_new) for one in receipts] == [(2, 1), (0, 0), (0, 0)]
