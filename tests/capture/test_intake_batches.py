"""Batches of an import: one commit for many files, and none of them pays for another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pytest

from capture.intake_logs import (
    EVERYWHERE,
    check_sums,
    claude_log,
    every_event,
    said_in,
    session_in,
    spool_voyage,
    write,
)
from formats.logs.claude_code import SESSION
from treering.app import import_logs
from treering.capture.intake import importer, ledger_buffer
from treering.capture.intake.file_import import FileImport
from treering.capture.intake.ledger_buffer import LedgerBuffer
from treering.ledger.import_access import ImportAccess

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from treering import NewEvent
    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope

FILES = 30


def session_id(number: int) -> str:
    return f"{SESSION[:-2]}{number:02}"


def fill(folder: Path, damage: Callable[[int, dict[str, Any]], None] | None = None) -> Path:
    """Write many small logs, a session each."""
    for number in range(FILES):
        log = claude_log(f"ask {number}", session=session_id(number), first=1 + number * 10)
        for line in log.lines:
            line["uuid"] = line["uuid"].replace("11111111", f"{number:08}")
            line["parentUuid"] = line["parentUuid"] and line["parentUuid"].replace(
                "11111111", f"{number:08}"
            )
            if damage is not None:
                damage(number, line)
        write(folder / f"{session_id(number)}.jsonl", log.lines)
    return folder


@pytest.fixture
def appends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many events each append of an import has, as they come."""
    sizes: list[int] = []
    append = ImportAccess.append_missing

    def counted(self: ImportAccess, events: Sequence[NewEvent]) -> Any:
        sizes.append(len(events))
        return append(self, events)

    monkeypatch.setattr(ImportAccess, "append_missing", counted)
    return sizes


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many ids each search of an import asks for, as they come."""
    sizes: list[int] = []
    find_ids = LedgerBuffer.find_ids

    def counted(self: LedgerBuffer, scope: Scope, event_ids: Collection[str]) -> Any:
        ledger, search = self.ledger, self.ledger.find_ids

        def searched(scope: str, ids: Sequence[str]) -> Any:
            sizes.append(len(ids))
            return search(scope, ids)

        with monkeypatch.context() as patched:
            patched.setattr(ledger, "find_ids", searched)
            return find_ids(self, scope, event_ids)

    monkeypatch.setattr(LedgerBuffer, "find_ids", counted)
    return sizes


def check_all_there(ledger: Ledger) -> None:
    for number in range(FILES):
        session = session_in(ledger, session_id(number))
        assert said_in(session) == [f"ask {number}", f"about ask {number}"]
        opened, imported, *rest = (header.kind for header in session.headers())
        assert (opened, imported) == ("session.opened", "session.imported")
        assert "session.opened" not in rest
    assert ledger.admin.verify().intact


def test_the_ids_of_many_small_logs_are_searched_for_at_once(
    ledger: Ledger, tmp_path: Path, searches: list[int]
) -> None:
    logs = fill(tmp_path / "logs")

    import_logs(ledger, [logs], scope=EVERYWHERE)
    again = import_logs(ledger, [logs], scope=EVERYWHERE, again=True)

    assert len(searches) == 2
    assert again.events == 0
    check_all_there(ledger)


def test_many_small_logs_are_recorded_in_one_commit(
    ledger: Ledger, tmp_path: Path, appends: list[int]
) -> None:
    receipt = import_logs(ledger, [fill(tmp_path / "logs")], scope=EVERYWHERE)

    check_sums(receipt)
    assert receipt.sessions_new == FILES
    assert appends == [receipt.events + 2 * FILES]
    check_all_there(ledger)
    again = import_logs(ledger, [tmp_path / "logs"], scope=EVERYWHERE)
    assert again.files_unchanged == FILES


def test_every_file_of_a_batch_has_its_own_receipt(ledger: Ledger, tmp_path: Path) -> None:
    receipt = import_logs(ledger, [fill(tmp_path / "logs")], scope=EVERYWHERE)

    assert len(receipt.sources) == FILES
    assert {(one.imported, one.events, one.errors) for one in receipt.sources} == {(2, 3, 0)}


def test_no_more_files_are_kept_than_have_events_in_a_batch(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_buffer, "BATCH_EVENTS", 17)
    monkeypatch.setattr(importer, "COLLECTED_BYTES", 8_000)
    kept: WeakSet[FileImport] = WeakSet()
    most = 0
    read = FileImport.read

    def counted(self: FileImport) -> bool:
        nonlocal most
        kept.add(self)
        most = max(most, len(kept))
        return read(self)

    monkeypatch.setattr(FileImport, "read", counted)

    receipt = import_logs(ledger, [fill(tmp_path / "logs")], scope=EVERYWHERE)

    assert most <= FILES / 2
    assert [source.state for source in receipt.sources] == ["read"] * FILES
    check_all_there(ledger)


def test_an_event_that_cannot_be_recorded_costs_no_other_file(
    ledger: Ledger, tmp_path: Path
) -> None:
    def damage(number: int, line: dict[str, Any]) -> None:
        if number == 7 and line["type"] == "user":
            line["message"]["content"] = [{"type": "text", "text": "x"}, nested(70)]

    logs = fill(tmp_path / "logs", damage)
    receipt = import_logs(ledger, [logs], scope=EVERYWHERE)

    check_sums(receipt)
    assert receipt.errors == 1
    assert receipt.imported == 2 * FILES - 1
    spoken = {one.payload["text"] for one in every_event(ledger) if "assistant" in one.kind}
    assert spoken == {f"about ask {number}" for number in range(FILES)}


def nested(levels: int) -> Any:
    value: Any = {"type": "image"}
    for _ in range(levels):
        value = {"type": "image", "source": value}
    return value


def test_a_session_that_another_import_opens_meanwhile_is_opened_once(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = fill(tmp_path / "logs")
    other = sorted(logs.iterdir())[3:6]
    append = ImportAccess.append_missing
    receipts = []

    def slower(self: ImportAccess, events: Sequence[NewEvent]) -> Any:
        monkeypatch.setattr(ImportAccess, "append_missing", append)
        receipts.append(import_logs(ledger, other, scope=EVERYWHERE))
        return append(self, events)

    monkeypatch.setattr(ImportAccess, "append_missing", slower)
    receipts.append(import_logs(ledger, [logs], scope=EVERYWHERE))

    for receipt in receipts:
        check_sums(receipt)
    assert [receipt.sessions_new for receipt in receipts] == [3, FILES - 3]
    assert sum(receipt.events for receipt in receipts) == 3 * FILES
    check_all_there(ledger)


def test_a_session_that_is_begun_meanwhile_by_its_agent_is_opened_once(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = fill(tmp_path / "logs")
    append = ImportAccess.append_missing

    def slower(self: ImportAccess, events: Sequence[NewEvent]) -> Any:
        monkeypatch.setattr(ImportAccess, "append_missing", append)
        ledger.session(session_id(4), scope=EVERYWHERE, agent="somebody").open()
        return append(self, events)

    monkeypatch.setattr(ImportAccess, "append_missing", slower)
    receipt = import_logs(ledger, [logs], scope=EVERYWHERE)

    check_sums(receipt)
    assert receipt.sessions_new == FILES - 1
    check_all_there(ledger)


def test_an_agent_that_begins_every_session_of_a_log_first_costs_no_event(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"s{number}" for number in range(8)]
    row = spool_voyage()[0]
    rows = [{**row, "event_id": f"of {name}", "session_id": name} for name in names]
    log = write(tmp_path / "spool.jsonl", rows)
    append = ImportAccess.append_missing
    begun: set[str] = set()

    def slower(self: ImportAccess, events: Sequence[NewEvent]) -> Any:
        opening = [event.session_id for event in events if event.kind == "session.opened"]
        if opening and opening[0] not in begun:
            begun.add(opening[0])
            ledger.session(opening[0], scope=EVERYWHERE, agent="somebody").open()
        return append(self, events)

    monkeypatch.setattr(ImportAccess, "append_missing", slower)
    receipt = import_logs(ledger, [log], scope=EVERYWHERE)

    check_sums(receipt)
    assert begun == set(names)
    assert (receipt.imported, receipt.errors, receipt.events) == (8, 0, 8)
    for name in names:
        assert said_in(session_in(ledger, name)) == [row["payload"]["text"]]
    assert ledger.admin.verify().intact
