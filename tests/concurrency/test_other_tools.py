"""Other SQLite tools beside live writers: a look at the file loses nothing, in any process."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

import treering
from broken.ledgers import SCOPE, marked, open_ledger, raw_bytes, said, traces
from concurrency.processes import Colleague, check_order
from treering.errors import Busy, LedgerMoved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from treering.ledger.ledger import Ledger
    from treering.storage import Mode

COUNT: Final = "SELECT count(*) FROM episodic_events"
LIMIT_S: Final = 60


def look_with_sqlite3(path: Path, statement: str = COUNT) -> None:
    """Count the events with Python's own SQLite library."""
    with contextlib.closing(sqlite3.connect(path, timeout=LIMIT_S)) as connection:
        connection.execute(statement).fetchone()


def look_with_duckdb(path: Path) -> None:
    """Count the events with DuckDB, which has a SQLite library of its own."""
    import duckdb

    package = importlib.import_module("duckdb_extension_sqlite_scanner")
    [extension] = Path(package.__path__[0]).rglob("*.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute(f"ATTACH '{path}' AS ledger (TYPE sqlite, READ_ONLY)")
        connection.execute("SELECT count(*) FROM ledger.events").fetchone()


def look_at_bytes(path: Path) -> None:
    """Read the files as they are, as a backup does."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").read_bytes()


def look_with_program(path: Path) -> None:
    """Count the events with the ``sqlite3`` program, or with apsw's own where it is missing."""
    program = shutil.which("sqlite3")
    command = [program] if program else [sys.executable, "-m", "apsw"]
    # By itself it does not wait for the writer that mends the file after a kill.
    patience = ["-cmd", f".timeout {LIMIT_S * 1_000}"]
    subprocess.run(
        [*command, *patience, str(path), COUNT], check=True, capture_output=True, timeout=LIMIT_S
    )


LOOKS: Final = [look_with_sqlite3, look_with_duckdb, look_at_bytes, look_with_program]


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with open_ledger(path) as ledger:
        yield ledger


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_beside_an_open_ledger_loses_nothing_that_anybody_appends_afterwards(
    look: Callable[[Path], None], path: Path, ledger: Ledger
) -> None:
    ledger.append([said("first", event_id="first")])
    look(path)
    other = Colleague(append_and_close, path, 0)
    acknowledged = ["first"]
    for number in range(4):
        other.tell(f"other-{number}")
        acknowledged.append(other.hear())
        look(path)
        ledger.append([said("mine", event_id=f"mine-{number}")])
        acknowledged.append(f"mine-{number}")
    other.tell(None)
    other.join()

    with open_ledger(path) as again:
        assert event_ids(again) == event_ids(ledger) == acknowledged
        assert check_order(again) == len(acknowledged)


def test_looks_in_every_process_and_kills_in_between_lose_nothing_acknowledged(
    path: Path, ledger: Ledger
) -> None:
    dice = Random(3)
    acknowledged: list[str] = []
    looks = [look_with_sqlite3, look_at_bytes, look_with_program]
    for number in range(4):
        writer = Colleague(append_and_look_forever, path, number)
        acknowledged += [writer.hear() for _ in range(dice.randint(2, 25))]
        dice.choice(looks)(path)
        ledger.append([said("mine", event_id=f"mine-{number}")])
        with open_ledger(path) as second:
            second.append([said("by a second ledger of this process", event_id=f"2nd-{number}")])
        writer.kill()
        ledger.append([said("mine again", event_id=f"again-{number}")])
        acknowledged += [f"mine-{number}", f"2nd-{number}", f"again-{number}"]

    with open_ledger(path) as again:
        found = event_ids(again)
        assert set(acknowledged) <= set(found)
        assert check_order(again) == len(found)


def test_looks_in_a_thread_lose_nothing_and_stop_no_writer(path: Path, ledger: Ledger) -> None:
    ledger.append([said("first", event_id="first")])
    over = threading.Event()
    failures: list[BaseException] = []

    def look_again_and_again() -> None:
        try:
            while not over.is_set():
                look_with_sqlite3(path)
        except BaseException as error:  # noqa: BLE001  (raised again below)
            failures.append(error)

    looking = threading.Thread(target=look_again_and_again)
    other = Colleague(append_and_close, path, 0)
    looking.start()
    try:
        for number in range(6):
            other.tell(f"other-{number}")
            for part in range(5):
                ledger.append([said("mine", event_id=f"mine-{number}-{part}")])
            other.hear()
    finally:
        over.set()
        looking.join(LIMIT_S)
    other.tell(None)
    other.join()

    assert not failures
    with open_ledger(path) as again:
        assert check_order(again) == 37


def test_after_a_look_erased_words_still_leave_every_file(path: Path, ledger: Ledger) -> None:
    secret = marked(Random(1), "secret", size=20_000, session_id="s1")
    ledger.append([secret])
    look_with_sqlite3(path)
    other = Colleague(append_and_close, path, 0)
    other.tell("other")
    other.hear()

    receipt = ledger.redact(SCOPE, event_id="secret")
    content = raw_bytes(path)
    other.tell(None)
    other.join()

    assert (receipt.redacted_count, receipt.physical) == (1, "done")
    assert [trace for trace in traces(secret) if trace in content] == []


def test_after_a_look_the_search_index_still_finds_what_others_append(path: Path) -> None:
    import treering

    with treering.open(path) as ledger:
        ledger.append([said("the first ring", event_id="first")])
        assert count_rings(ledger) == 1
        look_with_sqlite3(Path(f"{path}.search"), "SELECT count(*) FROM shards")
        other = Colleague(search_and_close, path, 0)
        other.tell("another ring")
        assert other.hear() == 2
        ledger.append([said("a third ring", event_id="third")])

        assert count_rings(ledger) == 3
        assert Path(f"{path}.search-wal").exists()
        other.tell(None)
        other.join()


WITHOUT_LASTING_LOCKS: Final = """
import fcntl, sqlite3, subprocess, sys

for name in ("F_OFD_SETLK", "F_OFD_SETLKW", "F_OFD_GETLK"):
    if hasattr(fcntl, name):
        delattr(fcntl, name)

import treering
from treering import NewEvent

def say(event_id):
    return NewEvent(scope="acme/app", session_id="s1", kind="conversation.user", agent_id="a",
                    summary=event_id, event_id=event_id)

path, *more = sys.argv[1:]
if more:
    with treering.open(path) as ledger:
        ledger.append([say(more[0])])
    sys.exit()
ledger = treering.open(path)
ledger.append([say("first")])
for number in range(3):
    connection = sqlite3.connect(path)
    connection.execute("SELECT count(*) FROM episodic_events").fetchone()
    connection.close()
    subprocess.run([sys.executable, "-c", sys.orig_argv[2], path, f"other-{number}"], check=True)
    ledger.append([say(f"mine-{number}")])
ledger.close()
"""


def test_where_no_lock_outlasts_a_look_a_deleted_log_is_noticed_before_the_next_write(
    path: Path,
) -> None:
    subprocess.run(
        [sys.executable, "-c", WITHOUT_LASTING_LOCKS, str(path)], check=True, timeout=LIMIT_S
    )

    with open_ledger(path) as ledger:
        rounds = [f"{who}-{number}" for number in range(3) for who in ("other", "mine")]
        assert event_ids(ledger) == ["first", *rounds]
        assert ledger.admin.verify().intact


# Files that are removed or replaced.


def test_a_file_that_was_removed_takes_no_append_and_is_not_made_again(
    path: Path, ledger: Ledger
) -> None:
    ledger.append([said("first", event_id="first")])
    path.unlink()

    for attempt in (
        lambda: ledger.append([said("lost")]),
        lambda: ledger.headers(SCOPE),
        lambda: ledger.redact(SCOPE, session_id="s1"),
    ):
        with pytest.raises(LedgerMoved, match=r"ledger\.db was removed") as refused:
            attempt()
        assert "put the file back" in (refused.value.hint or "")
    assert not path.exists()


def test_a_file_that_was_replaced_takes_no_append_until_the_ledger_is_opened_again(
    path: Path, ledger: Ledger, tmp_path: Path
) -> None:
    with open_ledger(tmp_path / "backup.db") as backup:
        backup.append([said("of the backup", event_id="backup")])
    ledger.append([said("first", event_id="first")])
    (tmp_path / "backup.db").rename(path)

    with pytest.raises(LedgerMoved):
        ledger.append([said("lost", event_id="lost")])
    with pytest.raises(LedgerMoved):
        ledger.headers(SCOPE)
    ledger.close()

    with open_ledger(path) as again:
        again.append([said("goes on", event_id="next")])
        assert event_ids(again) == ["backup", "next"]


def test_a_file_that_comes_back_goes_on_where_it_was(
    path: Path, ledger: Ledger, tmp_path: Path
) -> None:
    ledger.append([said("first", event_id="first")])
    path.rename(tmp_path / "elsewhere.db")
    with pytest.raises(LedgerMoved):
        ledger.append([said("refused", event_id="refused")])
    (tmp_path / "elsewhere.db").rename(path)

    ledger.append([said("second", event_id="second")])

    assert event_ids(ledger) == ["first", "second"]


def test_a_log_that_was_removed_takes_nothing_acknowledged_with_it(
    path: Path, ledger: Ledger
) -> None:
    ledger.append([said("first", event_id="first")])
    Path(f"{path}-wal").unlink()

    ledger.append([said("second", event_id="second")])

    with_other = Colleague(append_and_close, path, 0)
    with_other.tell("third")
    with_other.hear()
    with_other.tell(None)
    with_other.join()
    assert event_ids(ledger) == ["first", "second", "third"]
    assert check_order(ledger) == 3


def test_a_ledger_whose_file_was_replaced_leaves_the_log_of_the_new_one_alone(
    path: Path, ledger: Ledger
) -> None:
    ledger.append([said("of the old file")])
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()
    newer = Colleague(append_and_hold, path, 0)
    newer.hear()

    ledger.close()

    assert Path(f"{path}-wal").exists()
    newer.kill()
    with open_ledger(path) as again:
        assert event_ids(again) == ["held"]


@pytest.mark.parametrize("suffixes", [("-shm",), ("-wal",), ("-wal", "-shm")])
def test_whoever_comes_when_the_log_was_removed_undoes_nothing_and_is_not_undone(
    path: Path, ledger: Ledger, suffixes: tuple[str, ...]
) -> None:
    acknowledged = ["first"]
    ledger.append([said("first", event_id="first")])
    for suffix in suffixes:
        Path(f"{path}{suffix}").unlink()

    acknowledged += append_beside(path, "by another")
    ledger.append([said("second", event_id="second")])
    acknowledged += ["second", *append_beside(path, "by a third")]
    ledger.close()

    with open_ledger(path) as again:
        assert event_ids(again) == acknowledged
        assert again.admin.verify().intact


@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_whoever_comes_while_somebody_else_has_the_removed_log_is_told(
    path: Path, mode: Mode
) -> None:
    with open_ledger(path) as ledger:
        ledger.append([said("first", event_id="first")])
    with open_ledger(path) as ledger:
        ledger.append([said("second", event_id="second")])
        Path(f"{path}-wal").unlink()

        with pytest.raises(Busy, match=r"the log of .* was removed"):
            opened_and_read(path, mode)

        ledger.append([said("third", event_id="third")])
        assert opened_and_read(path, mode) == ["first", "second", "third"]


def opened_and_read(path: Path, mode: Mode) -> list[str]:
    with treering.open(path, mode=mode) as ledger:
        return event_ids(ledger)


@pytest.mark.parametrize("look", [look_with_sqlite3, look_with_program])
def test_a_tool_that_opens_the_file_without_its_log_takes_nothing_acknowledged_with_it(
    path: Path, ledger: Ledger, look: Callable[[Path], None]
) -> None:
    ledger.append([said("first", event_id="first")])
    Path(f"{path}-wal").unlink()
    with contextlib.suppress(sqlite3.Error, subprocess.CalledProcessError):
        look(path)
    ledger.close()

    with open_ledger(path) as again:
        assert event_ids(again) == ["first"]


def test_two_who_have_the_file_open_go_on_when_its_log_is_removed(
    path: Path, ledger: Ledger
) -> None:
    other = Colleague(append_while_open, path, 0)
    ids = []
    for number, suffixes in enumerate([("-wal",), ("-shm",), ("-wal", "-shm")]):
        for suffix in suffixes:
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        for event_id in (f"ours-{number}", f"theirs-{number}"):
            ids.append(event_id)
            if event_id.startswith("ours"):
                ledger.append([said("x", event_id=event_id)])
            else:
                other.tell(event_id)
                other.hear()
    other.tell(None)
    other.join()

    assert event_ids(ledger) == ids
    assert check_order(ledger) == len(ids)


def test_a_second_name_of_a_file_in_use_is_refused(path: Path, ledger: Ledger) -> None:
    ledger.append([said("first", event_id="first")])
    link = path.with_name("link.db")
    link.hardlink_to(path)

    assert append_beside(link, "by another") == []
    with pytest.raises(Busy, match="several names"):
        open_ledger(link, patience_s=0)
    ledger.append([said("second", event_id="second")])
    assert append_beside(path, "by its own name") == ["by its own name"]
    ledger.close()

    assert append_beside(link, "third") == ["third"]
    with open_ledger(path) as again:
        assert event_ids(again) == ["first", "second", "by its own name", "third"]


@pytest.mark.parametrize("is_noticed", [False, True])
def test_a_file_that_became_a_copy_of_itself_keeps_what_was_acknowledged(
    path: Path, ledger: Ledger, tmp_path: Path, *, is_noticed: bool
) -> None:
    ledger.append([said("first", event_id="first")])
    shutil.copyfile(path, tmp_path / "copy.db")
    path.unlink()
    if is_noticed:  # As when it is moved to another disk, and back.
        with pytest.raises(LedgerMoved):
            ledger.headers(SCOPE)
    (tmp_path / "copy.db").rename(path)

    # The log is in use for what was there before.
    assert append_beside(path, "by another") == []
    with pytest.raises(LedgerMoved):
        ledger.append([said("refused", event_id="refused")])
    ledger.close()

    with open_ledger(path) as again:
        assert event_ids(again) == ["first"]
        again.append([said("second", event_id="second")])
        assert again.admin.verify().intact


def test_a_backup_that_is_put_in_place_is_not_mixed_with_the_log_of_the_file_before(
    path: Path, tmp_path: Path
) -> None:
    assert append_beside(path, "first") == ["first"]
    shutil.copyfile(path, tmp_path / "backup.db")
    with open_ledger(path) as ledger:
        ledger.append([said("gone with the file", event_id="gone")])
        look_with_sqlite3(path, "PRAGMA wal_checkpoint")  # Now they differ.
        ledger.append([said("gone with its log")])
        (tmp_path / "backup.db").rename(path)
        assert append_beside(path, "too early") == []
        with pytest.raises(LedgerMoved):
            ledger.headers(SCOPE)
        assert append_beside(path, "second") == ["second"]

    with open_ledger(path) as again:
        assert event_ids(again) == ["first", "second"]
        assert again.admin.verify().intact


def test_a_new_ledger_where_one_was_removed_loses_nothing_when_the_old_one_is_closed(
    path: Path, ledger: Ledger
) -> None:
    ledger.append([said("first")])
    path.unlink()
    assert append_beside(path, "too early") == []
    with pytest.raises(LedgerMoved):
        ledger.headers(SCOPE)

    assert append_beside(path, "of the new one") == ["of the new one"]
    ledger.close()

    with open_ledger(path) as again:
        assert event_ids(again) == ["of the new one"]
        assert again.admin.verify().intact


# What other processes do.


def append_and_close(pipe: Connection, path: Path, _: int) -> None:
    """For each id that is told, open the ledger, append an event of it and close, as a shell."""
    while (event_id := pipe.recv()) is not None:
        with open_ledger(path) as ledger:
            ledger.append([said("by a shell", event_id=event_id)])
        pipe.send(event_id)


def append_while_open(pipe: Connection, path: Path, _: int) -> None:
    """Append an event of each id that is told, with the ledger open all the time."""
    with open_ledger(path) as ledger:
        while (event_id := pipe.recv()) is not None:
            ledger.append([said("beside", event_id=event_id)])
            pipe.send(event_id)


def append_beside(path: Path, event_id: str) -> list[str]:
    """Append as another process that opens and closes the file; return what is acknowledged."""
    script = (
        "import sys; from broken.ledgers import *\n"
        "with open_ledger(sys.argv[1], patience_s=0.3) as ledger:\n"
        "    ledger.append([said('beside', event_id=sys.argv[2])])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(path), event_id],
        check=False,
        capture_output=True,
        timeout=LIMIT_S,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert ended.returncode == 0 or b"treering.errors." in ended.stderr, ended.stderr.decode()
    return [event_id] if ended.returncode == 0 else []


def append_and_hold(pipe: Connection, path: Path, _: int) -> None:
    """Append, and keep the ledger open until killed."""
    ledger = open_ledger(path)
    ledger.append([said("held", event_id="held")])
    pipe.send("held")
    pipe.recv()


def append_and_look_forever(pipe: Connection, path: Path, number: int) -> None:
    """Append and tell the id, look at the file, and open it again now and then."""
    dice = Random(number)
    ledger = open_ledger(path, autocheckpoint_pages=20)
    for at in range(1_000_000):
        event_id = f"w{number}-{at}"
        ledger.append([said("by a writer", event_id=event_id)])
        pipe.send(event_id)
        if dice.random() < 0.3:
            look_with_sqlite3(path)
        if dice.random() < 0.2:
            ledger.close()
            ledger = open_ledger(path, autocheckpoint_pages=20)


def search_and_close(pipe: Connection, path: Path, _: int) -> None:
    """Append each text that is told, and tell how many events a search for rings finds."""
    import treering

    while (text := pipe.recv()) is not None:
        with treering.open(path) as ledger:
            ledger.append([said(text)])
            pipe.send(count_rings(ledger))


def count_rings(ledger: Ledger) -> int:
    """Return how many events a search for rings finds."""
    return ledger.search("ring", scope=SCOPE).total


def event_ids(ledger: Ledger) -> list[str]:
    """Return the ids of all events, in the order in which they were recorded."""
    headers = ledger.headers(SCOPE, first=1_000).items
    return [header.event_id for header in sorted(headers, key=lambda header: header.position)]
