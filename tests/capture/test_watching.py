"""Logs are followed while they are written, by notifications and by scans."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from children import run_python
from effort import PATIENCE_S
from treering.capture.hooks.watching import Round, Watch, only_watcher
from treering.errors import Busy, InvalidInput, ReadOnly, StorageFull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MODES = pytest.mark.parametrize("poll", [False, True], ids=["notices", "looking"])


class Folder(msgspec.Struct, frozen=True):
    """A folder to follow."""

    root: Path


class Logs:
    """A followed folder, and everything imported from it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.rounds: list[Round] = []
        self.found: queue.Queue[tuple[str, int]] = queue.Queue()
        self.refusals: list[Exception] = []

    def take(self, paths: Sequence[Path]) -> int:
        if self.refusals:
            raise self.refusals.pop(0)
        for path in paths:
            self.found.put((path.name, path.stat().st_size))
        return len(paths)

    def watch(self, *roots: Path, **more: Any) -> Watch:
        places = [Folder(root) for root in roots or (self.root,)]
        return Watch(lambda: places, take=self.take, report=self.rounds.append, tick_s=0.1, **more)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as stream:
            stream.write(text)

    def next(self) -> tuple[str, int]:
        """Return the next imported file, and its size then."""
        return self.found.get(timeout=PATIENCE_S)

    def wait_for(self, name: str, size: int) -> None:
        """Wait until a file of at least this size was imported."""
        while self.next() != (name, size):
            pass

    def all(self) -> list[tuple[str, int]]:
        """Return everything imported since the last call."""
        taken = []
        with contextlib.suppress(queue.Empty):
            while True:
                taken.append(self.found.get_nowait())
        return taken


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    (tmp_path / "logs").mkdir()
    return Logs(tmp_path / "logs")


@pytest.fixture
def running() -> Iterator[Callable[..., None]]:
    """Run a watch until the test is over."""
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def begin(watch: Watch, *, poll: bool) -> None:
        threads.append(threading.Thread(target=watch.run, args=(stop,), kwargs={"poll": poll}))
        threads[-1].start()

    yield begin
    stop.set()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@MODES
def test_a_log_that_grows_is_taken_in_as_it_grows(
    logs: Logs, running: Callable[..., None], *, poll: bool
) -> None:
    logs.write("a.jsonl", "1\n")

    running(logs.watch(), poll=poll)
    first = logs.next()
    logs.write("a.jsonl", "22\n")
    logs.wait_for("a.jsonl", 5)
    logs.write("deep/down/b.jsonl", "333\n")
    logs.wait_for("b.jsonl", 4)

    assert first == ("a.jsonl", 2)
    assert logs.all() == []


@MODES
def test_a_folder_that_comes_later_is_followed_from_then_on(
    logs: Logs, tmp_path: Path, running: Callable[..., None], *, poll: bool
) -> None:
    later = tmp_path / "later"

    running(logs.watch(logs.root, later), poll=poll)
    logs.write("a.jsonl", "1\n")
    logs.wait_for("a.jsonl", 2)
    logs.root = later
    logs.write("b.jsonl", "1\n")
    logs.wait_for("b.jsonl", 2)
    logs.write("b.jsonl", "2\n")
    logs.wait_for("b.jsonl", 4)


@MODES
def test_a_file_that_is_replaced_or_gone_is_no_end_of_it(
    logs: Logs, running: Callable[..., None], *, poll: bool
) -> None:
    logs.write("a.jsonl", "1\n")
    running(logs.watch(), poll=poll)
    logs.wait_for("a.jsonl", 2)

    (logs.root / "a.jsonl").rename(logs.root / "a.jsonl.reset.2026")
    logs.write("a.jsonl", "new\n")
    logs.wait_for("a.jsonl", 4)
    (logs.root / "a.jsonl").unlink()
    logs.write("b.jsonl", "1\n")
    logs.wait_for("b.jsonl", 2)

    assert [one.error for one in logs.rounds if one.error] == []


@MODES
def test_a_single_file_is_followed(logs: Logs, running: Callable[..., None], *, poll: bool) -> None:
    logs.write("a.jsonl", "1\n")

    running(logs.watch(logs.root / "a.jsonl"), poll=poll)
    logs.wait_for("a.jsonl", 2)
    logs.write("other.jsonl", "1\n")
    logs.write("a.jsonl", "2\n")
    logs.wait_for("a.jsonl", 4)

    assert logs.all() == []


def test_what_did_not_change_is_not_taken_in_again(logs: Logs) -> None:
    logs.write("a.jsonl", "1\n")
    logs.write("sessions.json", "{}")
    logs.write("notes.txt", "x")
    watch = logs.watch()

    watch.catch_up()
    watch.catch_up()
    once = logs.all()
    logs.write("a.jsonl", "2\n")
    watch.catch_up()

    assert once == [("a.jsonl", 2)]
    assert logs.all() == [("a.jsonl", 4)]


def test_what_comes_while_a_file_is_read_is_taken_in_next(logs: Logs) -> None:
    logs.write("a.jsonl", "1\n")
    sizes: list[int] = []

    def take(paths: Sequence[Path]) -> None:
        sizes.append(paths[0].stat().st_size)
        if len(sizes) == 1:
            logs.write("a.jsonl", "2\n")

    watch = Watch(lambda: [Folder(logs.root)], take=take, report=logs.rounds.append)
    watch.catch_up()
    watch.catch_up()
    watch.catch_up()

    assert sizes == [2, 4]


@pytest.mark.parametrize("error", [Busy(), StorageFull()])
def test_a_ledger_that_is_busy_is_tried_again(logs: Logs, error: Exception) -> None:
    logs.write("a.jsonl", "1\n")
    logs.refusals = [error, error]
    pauses: list[float] = []
    now = [0.0]

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    is_whole = logs.watch(clock=lambda: now[0]).once(pause)

    assert is_whole
    assert pauses == [1.0, 2.0]
    assert logs.all() == [("a.jsonl", 2)]
    assert [one.is_final for one in logs.rounds] == [False, False, True]


def test_a_ledger_that_stays_busy_is_given_up_if_it_is_to_be_done_once(logs: Logs) -> None:
    logs.write("a.jsonl", "1\n")
    logs.refusals = [Busy() for _ in range(50)]
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    assert logs.watch(clock=lambda: now[0]).once(pause) is False


def test_a_ledger_that_cannot_be_written_ends_it(logs: Logs) -> None:
    logs.write("a.jsonl", "1\n")
    logs.refusals = [ReadOnly()]

    with pytest.raises(ReadOnly):
        logs.watch().catch_up()


@pytest.mark.parametrize("error", [InvalidInput("bad"), OSError(5, "bad"), KeyError("secret")])
def test_a_log_that_is_refused_keeps_no_other_back(logs: Logs, error: Exception) -> None:
    logs.write("a.jsonl", "1\n")
    logs.write("b.jsonl", "1\n")
    logs.refusals = [error, error]
    watch = logs.watch()

    watch.catch_up()
    watch.catch_up()

    assert logs.all() == [("b.jsonl", 2)]
    (refused,) = [one for one in logs.rounds if one.error]
    assert [path.name for path in refused.paths] == ["a.jsonl"]
    assert "secret" not in str(refused.error)


def test_what_the_spool_names_is_taken_in_once(logs: Logs, tmp_path: Path) -> None:
    logs.write("a.jsonl", "1\n")
    outside = tmp_path / "outside.jsonl"
    outside.write_text("123\n")

    def drain(take: Callable[[Sequence[Path]], Any]) -> None:
        take([logs.root / "a.jsonl", outside, tmp_path / "gone.jsonl"])

    watch = logs.watch(drain=drain)
    watch.catch_up()
    watch.catch_up()

    assert logs.all() == [("a.jsonl", 2), ("outside.jsonl", 4)]


def test_a_spool_that_has_to_wait_is_no_end_of_it(logs: Logs) -> None:
    calls: list[int] = []
    now = [0.0]

    def drain(_: Callable[[Sequence[Path]], Any]) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise Busy

    watch = logs.watch(drain=drain, clock=lambda: now[0])
    watch.catch_up()
    watch.catch_up()
    now[0] += 60
    watch.catch_up()

    assert len(calls) == 2
    assert [one.is_final for one in logs.rounds] == [False]


def test_a_database_has_changed_if_its_log_has(logs: Logs) -> None:
    logs.write("agent.sqlite", "x")
    watch = logs.watch()
    watch.catch_up()
    watch.catch_up()

    logs.write("agent.sqlite-wal", "more")
    watch.catch_up()

    assert [name for name, _ in logs.all()] == ["agent.sqlite", "agent.sqlite"]


def test_a_system_that_gives_no_notice_is_looked_at_instead(
    logs: Logs, running: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    remarks: list[str] = []

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr("watchfiles.watch", refuse)

    logs.write("a.jsonl", "1\n")
    running(logs.watch(remark=remarks.append), poll=False)
    logs.wait_for("a.jsonl", 2)
    logs.write("a.jsonl", "2\n")
    logs.wait_for("a.jsonl", 4)

    assert len(remarks) == 1
    assert "limit reached" in remarks[0]


def test_one_watches_for_a_ledger_at_a_time(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    link = tmp_path / "link.db"
    link.symlink_to(ledger)

    with (
        only_watcher(str(ledger)),
        only_watcher(str(tmp_path / "other.db")),
        pytest.raises(Busy, match=f"process {os.getpid()}"),
        only_watcher(str(link)),
    ):
        pass
    with only_watcher(str(ledger)):
        pass


def test_a_watcher_that_was_killed_leaves_no_lock(tmp_path: Path) -> None:
    program = (
        "import os, sys; from treering.capture.hooks.watching import only_watcher\n"
        "with only_watcher(sys.argv[1]): os._exit(9)"
    )

    run_python(program, tmp_path / "ledger.db", status=9)

    with only_watcher(str(tmp_path / "ledger.db")):
        pass


def test_a_database_that_takes_long_is_not_read_at_every_change(logs: Logs) -> None:
    now = [0.0]
    taken: list[list[str]] = []

    def take(paths: Sequence[Path]) -> None:
        taken.append([path.name for path in paths])
        now[0] += 5.0

    watch = Watch(
        lambda: [Folder(logs.root)], take=take, report=logs.rounds.append, clock=lambda: now[0]
    )
    for name in ("state.vscdb", "lines.jsonl"):
        logs.write(name, "a")
    watch.catch_up()
    for _ in range(5):
        for name in ("state.vscdb", "lines.jsonl"):
            logs.write(name, "a")
        watch.catch_up()
    now[0] += 100.0
    watch.catch_up()

    assert [names.count("state.vscdb") for names in taken] == [1, 0, 0, 0, 0, 0, 1]
    assert sum("lines.jsonl" in names for names in taken) == 6
