"""The search index beside a ledger: erased for good, shared by processes, and never missed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import apsw
import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, said
from concurrency.processes import begin_together, colleagues
from ports import store_of
from treering.storage.sqlite import search_index

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from treering import Ledger

SUFFIXES: Final = ("", "-wal", "-shm")


def found(ledger: Ledger, query: str, scope: str = HERE) -> set[str]:
    return {hit.event_id for hit in ledger.search(query, scope=scope, limit=200).hits}


def index_bytes(path: Path) -> bytes:
    """Return the bytes of the index's files, read by another process."""
    script = (
        "import sys, pathlib\n"
        "for suffix in ('', '-wal', '-shm'):\n"
        "    file = pathlib.Path(sys.argv[1] + suffix)\n"
        "    sys.stdout.buffer.write(file.read_bytes() if file.exists() else b'')\n"
    )
    command = [sys.executable, "-S", "-E", "-c", script, f"{path}.search"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def rare(number: int) -> str:
    """Return a word that shares its beginning with no other, so that it lies whole in an index."""
    return f"{number * 7919 % 1_000_003:06}quokka{number:04}"


def test_nothing_is_indexed_before_somebody_searches(tmp_path: Path) -> None:
    with treering.open(tmp_path / "a.db") as ledger:
        ledger.append([said("x", event_id="e1")])
        ledger.redact(HERE, event_id="e1")

        assert not (tmp_path / "a.db.search").exists()


@pytest.mark.parametrize("how", ["event", "session", "expired"])
def test_the_words_of_what_was_erased_are_in_no_byte_of_the_index(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 5, with words spread over full shards and the one that is being filled."""
    monkeypatch.setattr(search_index, "SHARD_DOCUMENTS_MAX", 45)
    path = tmp_path / "a.db"
    gone, kept = [rare(n) for n in range(60)], [rare(n) for n in range(60, 120)]
    with treering.open(path) as ledger:
        for number, pair in enumerate(zip(gone, kept, strict=True)):
            ledger.append(
                [
                    said(f"some {pair[0]} text", event_id=f"g{number}", ts_ms=NOON,
                         payload={"text": f"{pair[0]} my_{pair[0]}_name"}),
                    said(f"other {pair[1]} text", session_id="s2", ts_ms=NOON + 99 * DAY),
                ]
            )  # fmt: skip
            if number % 20 == 0:
                ledger.admin.index(HERE)
        ledger.admin.index(HERE)
        before = index_bytes(path)

        if how == "event":
            for number in range(60):
                assert ledger.redact(HERE, event_id=f"g{number}").physical == "done"
        elif how == "session":
            assert ledger.redact(HERE, session_id="s1").physical == "done"
        else:
            assert ledger.expire(HERE, now_ms=NOON + 100 * DAY).physical == "done"

        after = index_bytes(path)
        # The first digits of a word may stand with its neighbour's.
        assert sum(word[4:].encode() in before for word in gone) > 45
        assert [word for word in gone if word[4:].encode() in after] == []
        assert sum(word[4:].encode() in after for word in kept) > 45
        assert all(found(ledger, word) for word in kept)
        assert not any(found(ledger, word) for word in gone)


def test_an_erasure_while_the_index_is_in_use_stays_pending_and_is_made_good(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.db"
    with treering.open(path) as ledger:
        ledger.append([said("quokka", event_id="e1"), said("numbat", event_id="e2")])
        ledger.admin.index(HERE)
        reader = apsw.Connection(f"{path}.search")
        reader.execute("BEGIN").execute("SELECT * FROM facts").fetchall()

        assert ledger.redact(HERE, event_id="e1").physical == "pending"

        assert found(ledger, "quokka") == set()
        reader.execute("COMMIT")
        reader.close()
    with treering.open(path) as ledger:
        assert b"quokka" not in index_bytes(path)
        assert found(ledger, "numbat") == {"e2"}


def test_an_erasure_that_was_cut_off_is_made_good_when_the_ledger_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    with treering.open(path) as ledger:
        ledger.append([said("quokka", event_id="e1"), said("numbat", event_id="e2")])
        ledger.admin.index(HERE)
        with monkeypatch.context() as cut:
            cut.setattr(store_of(ledger).erasure, "finish", lambda: "pending")
            ledger.redact(HERE, event_id="e1")
        assert b"quokka" in index_bytes(path)

    with treering.open(path):
        assert b"quokka" not in index_bytes(path)


@pytest.mark.parametrize("damage", ["gone", "garbage", "torn", "empty", "foreign"])
@pytest.mark.parametrize("opened", ["already", "anew"])
def test_an_index_that_is_lost_or_damaged_is_made_anew(
    tmp_path: Path, damage: str, opened: str
) -> None:
    path, index = tmp_path / "a.db", tmp_path / "a.db.search"
    ledger = treering.open(path)
    ledger.append([said(f"quokka {n}", event_id=f"e{n}") for n in range(300)])
    ledger.admin.index(HERE)
    if opened == "anew":
        ledger.close()
    for suffix in SUFFIXES[1:]:
        index.with_name(index.name + suffix).unlink(missing_ok=True)
    match damage:
        case "gone":
            index.unlink()
        case "garbage":
            index.write_bytes(os.urandom(40_000))
        case "torn":
            whole = index.read_bytes()
            index.write_bytes(whole[: len(whole) // 2] + os.urandom(len(whole) // 2))
        case "empty":
            index.write_bytes(b"")
        case "foreign":
            index.unlink()
            foreign = apsw.Connection(str(index))
            foreign.execute("CREATE TABLE facts (name, value); CREATE TABLE shards (x)")
            foreign.close()
    if opened == "anew":
        ledger = treering.open(path)

    assert found(ledger, "quokka 7") == {"e7"}
    assert ledger.admin.search_lag(HERE) == 0
    ledger.append([said("numbat", event_id="next")])
    assert found(ledger, "numbat") == {"next"}
    ledger.close()


def test_the_index_of_another_ledger_is_not_taken_for_ours(tmp_path: Path) -> None:
    one, other = tmp_path / "one.db", tmp_path / "other.db"
    for path, word in ((one, "quokka"), (other, "numbat")):
        with treering.open(path) as ledger:
            ledger.append([said(word, event_id=word)])
            ledger.admin.index(HERE)
    shutil.copy(f"{one}.search", f"{other}.search")

    with treering.open(other) as ledger:
        assert found(ledger, "quokka") == set()
        assert found(ledger, "numbat") == {"numbat"}


def test_a_ledger_that_was_put_back_from_a_copy_is_indexed_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with treering.open(path) as ledger:
        ledger.append([said("quokka", event_id="e1")])
    shutil.copy(path, tmp_path / "backup.db")
    with treering.open(path) as ledger:
        ledger.append([said("numbat", event_id="e2"), said("bilby", event_id="e3")])
        ledger.admin.index(HERE)
    shutil.copy(tmp_path / "backup.db", path)

    with treering.open(path) as ledger:
        assert found(ledger, "numbat") == set()
        ledger.append([said(f"wombat {n}", event_id=f"w{n}") for n in range(9)])
        assert len(found(ledger, "wombat")) == 9
        assert found(ledger, "bilby") == set()
        assert found(ledger, "quokka") == {"e1"}


def index_and_search(pipe: Connection, path: Path, number: int) -> None:
    """Write, index and search along with others; tell what was found."""
    with treering.open(path, durability="normal") as ledger:
        pipe.send("ready")
        pipe.recv()
        for at in range(20):
            ledger.append([said(f"quokka by{number}", event_id=f"p{number}-{at}", session_id="x")])
            ledger.search("quokka", scope=HERE)
        pipe.send(len(found(ledger, f"by{number}")))


def test_processes_that_index_at_once_enter_every_event_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    treering.open(path).close()
    with colleagues(2, index_and_search, path) as workers:
        begin_together(workers)

        assert [worker.hear() for worker in workers] == [20, 20]
    with treering.open(path) as ledger:
        assert ledger.search("quokka", scope=HERE).total == 40
        index = apsw.Connection(f"{path}.search")
        assert index.execute("SELECT count(*) FROM w_1_docsize").get == 40


def index_slowly(pipe: Connection, path: Path, _: int) -> None:
    """Index until killed, and tell of each step."""
    with treering.open(path) as ledger:
        ledger.admin.index(HERE, progress=pipe.send)
    pipe.send("done")


def test_an_indexer_that_is_killed_on_its_way_loses_and_doubles_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with treering.open(path, durability="normal") as ledger:
        ledger.append([said(f"quokka n{n}", session_id=f"s{n % 9}") for n in range(4_000)])
    for _ in range(3):
        with colleagues(1, index_slowly, path) as [worker]:
            worker.hear()
            os.kill(worker._process.pid or 0, signal.SIGKILL)

    with treering.open(path) as ledger:
        assert 0 < ledger.admin.search_lag(HERE) < 4_000
        assert len(found(ledger, "n3999")) == 1
        index = apsw.Connection(f"{path}.search")
        [rows] = index.execute("SELECT sum(documents), max(last) FROM shards").fetchall()
        assert rows == (4_000, 4_000)
        assert index.execute("SELECT count(*) FROM w_1 WHERE w_1 MATCH 'quokka'").get == 4_000


def redact_what_is_found(pipe: Connection, path: Path, number: int) -> None:
    """Index and redact along with others: each its own events, as soon as they are found."""
    left = set()
    with treering.open(path, durability="normal") as ledger:
        pipe.send("ready")
        pipe.recv()
        for at in range(25):
            word = rare(1_000 * (number + 1) + at)
            ledger.append([said("x", event_id=word, payload={"text": f"{word} of{number}"})])
            if at % 3 == 0:
                ledger.search(word, scope=HERE)
            if at % 2 == 0:
                left.add(ledger.redact(HERE, event_id=word).physical)
        pipe.send(left)


def test_processes_that_index_and_erase_at_once_leave_no_erased_word_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    treering.open(path).close()
    with colleagues(2, redact_what_is_found, path) as workers:
        begin_together(workers)
        told = set().union(*(worker.hear() for worker in workers))
    words = [rare(1_000 * (number + 1) + at) for number in range(2) for at in range(25)]

    with treering.open(path) as ledger:
        ledger.admin.index(HERE)
        content = index_bytes(path)
        assert told <= {"done", "pending"}
        assert [
            word for word in words if int(word[-3:]) % 2 == 0 and word[4:].encode() in content
        ] == []
        assert all(found(ledger, word) == {word} for word in words if int(word[-3:]) % 2)


def test_a_ledger_that_may_only_be_read_is_searched_and_not_a_byte_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with treering.open(path) as ledger:
        ledger.append([said("quokka", event_id="e1")])
        ledger.admin.index(HERE)
        ledger.append([said("numbat", event_id="e2")])
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    with treering.open(path, mode="ro") as ledger:
        result = ledger.search("quokka", scope=HERE)
        assert (result.total, result.lag) == (1, 1)
        assert found(ledger, "numbat") == set()

    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_ledger_that_may_only_be_read_and_has_no_index_is_searched_too(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with treering.open(path) as ledger:
        ledger.append([said("quokka", event_id="e1"), said("quokka", scope=ELSEWHERE)])
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    with treering.open(path, mode="ro") as ledger:
        assert found(ledger, "quokka") == {"e1"}
        assert ledger.admin.search_lag(HERE) == 0

    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_forked_child_searches_on_its_own(tmp_path: Path) -> None:
    with treering.open(tmp_path / "a.db") as ledger:
        ledger.append([said("quokka", event_id="e1")])
        assert found(ledger, "quokka") == {"e1"}
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                ledger.append([said("numbat", event_id="e2")])
                os.write(writing, b"".join(sorted(one.encode() for one in found(ledger, "numbat"))))
                status = 0
            finally:
                os._exit(status)

        assert os.read(reading, 10) == b"e2"
        assert os.waitpid(child, 0)[1] == 0
        assert found(ledger, "quokka") == {"e1"}
        assert found(ledger, "numbat") == {"e2"}
        for end in (reading, writing):
            os.close(end)


def test_a_shard_that_can_be_filled_is_filled_in_few_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None holds the lock for long; events that are fewer are entered a page at a time."""
    monkeypatch.setattr(search_index, "SHARD_DOCUMENTS_MAX", 50)
    monkeypatch.setattr(search_index, "STEP_EVENTS", 30)
    monkeypatch.setattr(search_index, "PAGE_EVENTS", 20)
    steps: list[int] = []
    with treering.open(tmp_path / "a.db") as ledger:
        ledger.append([said(f"quokka n{n}") for n in range(130)])
        ledger.search("quokka", scope=HERE, progress=steps.append)
        ledger.append([said(f"quokka m{n}") for n in range(21)])
        ledger.search("quokka", scope=HERE, progress=steps.append)

        assert steps == [30, 20, 30, 20, 30, 20, 1]
        assert all(len(found(ledger, word)) == 1 for word in ("n0", "n49", "n50", "n129", "m20"))
        assert ledger.admin.verify(derived=True).intact


def test_a_file_is_opened_again_when_a_shard_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searches for a prefix would walk through what filled the shard, in memory, for good."""
    monkeypatch.setattr(search_index, "SHARD_DOCUMENTS_MAX", 50)
    monkeypatch.setattr(search_index, "PAGE_EVENTS", 20)
    opened: list[str] = []
    connect = apsw.Connection

    def counted(path: str, **options: Any) -> apsw.Connection:
        opened.append(path)
        return connect(path, **options)

    with treering.open(tmp_path / "a.db") as ledger:
        ledger.append([said(f"quokka n{n}") for n in range(120)])
        monkeypatch.setattr(apsw, "Connection", counted)

        assert len(found(ledger, "quokka")) == 120
        assert opened.count(str(tmp_path / "a.db.search")) == 3
        assert len(found(ledger, "quok*")) == 120
        assert opened.count(str(tmp_path / "a.db.search")) == 3


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ('"red quokka"', ["whole", "inside"]),
        ('"red fox" "quokka nest"', ["whole", "inside"]),
        ("wombat", ["whole", "inside", "whole"]),
        ("quokkas", ["whole", "inside", "whole", "any"]),
        ("red wombat", ["whole", "inside", "whole", "whole", "any"]),
    ],
)
def test_the_index_is_not_asked_again_for_what_it_has_answered(
    query: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of the words may find more than all of them, unless these are one or must all occur."""
    asking: list[str] = []
    search, search_any = search_index.SearchIndex.search, search_index.SearchIndex.search_any

    def searched(self: Any, *query: Any, inside: bool, **options: Any) -> Any:
        asking.append("inside" if inside else "whole")
        return search(self, *query, inside=inside, **options)

    def searched_any(self: Any, *query: Any, **options: Any) -> Any:
        asking.append("any")
        return search_any(self, *query, **options)

    monkeypatch.setattr(search_index.SearchIndex, "search", searched)
    monkeypatch.setattr(search_index.SearchIndex, "search_any", searched_any)
    with treering.open(":memory:") as ledger:
        ledger.append([said("a red quokka in its nest")])
        ledger.search(query, scope=HERE)

    assert asking == asked


def test_shards_in_memory_are_filled_a_page_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has filled one stays in memory as long as the connection."""
    monkeypatch.setattr(search_index, "SHARD_DOCUMENTS_MAX", 50)
    monkeypatch.setattr(search_index, "PAGE_EVENTS", 20)
    steps: list[int] = []
    with treering.open(":memory:") as ledger:
        ledger.append([said(f"quokka n{n}") for n in range(70)])
        ledger.search("quokka", scope=HERE, progress=steps.append)

        assert steps == [20, 20, 20, 10]
        assert len(found(ledger, "quok*")) == 70


def test_shards_are_searched_the_newest_first_and_hold_one_scope_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_index, "SHARD_DOCUMENTS_MAX", 50)
    path = tmp_path / "a.db"
    with treering.open(path) as ledger:
        events: list[Any] = []
        for n in range(120):
            events += [said(f"quokka n{n}"), said(f"quokka m{n}", scope=ELSEWHERE)]
        ledger.append(events)

        assert ledger.search("quokka", scope=HERE).total == 120
        assert ledger.search("quokka", scope=ELSEWHERE).total == 120
        index = apsw.Connection(f"{path}.search")
        shards = index.execute("SELECT scope, documents FROM shards ORDER BY scope, id").fetchall()
        assert shards == [(1, 50), (1, 50), (1, 20), (2, 50), (2, 50), (2, 20)]
