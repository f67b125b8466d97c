"""Logs that mean no good: odd ids, absurd times, lines without end, folders full of traps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from capture.intake_logs import (
    EVERYWHERE,
    VOYAGES,
    check_sums,
    claude_log,
    every_event,
    lines,
    said_in,
    session_in,
    write,
)
from children import run_python
from effort import PATIENCE_S
from formats.logs import codex, pi
from formats.logs.claude_code import SESSION, Log, call
from treering.app import import_logs
from treering.formats import sources

if TYPE_CHECKING:
    from treering import Ledger
    from treering.model.intakes import ImportReceipt

LARGE_BYTES: Final = 180_000_000
PEAK_BYTES_MAX: Final = 150_000_000
# Root may read everywhere, and without these capabilities only what it is allowed to.
OBEDIENT: Final = (
    ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
)


def take(ledger: Ledger, *paths: Path) -> ImportReceipt:
    receipt = import_logs(ledger, paths, scope=EVERYWHERE)
    check_sums(receipt)
    assert ledger.admin.verify().intact
    return receipt


@pytest.mark.parametrize(
    "session",
    ["x" * 500, "bell\u0007", "../../etc", " blank ", "line\nfeed", "\u202e", "\ud800", "é" * 200,
     "{}", "", "0", "NUL\0"],
)  # fmt: skip
def test_a_session_with_an_odd_id_is_taken_in(here: Ledger, tmp_path: Path, session: str) -> None:
    logs = {
        "claude-code": claude_log("one", session=session or "\t").lines,
        "codex": [codex.opened(session), *codex.turn("one", "about one")],
        "pi": [pi.header(id=session), pi.said(1, "one"), pi.answered(2, "about one")],
    }
    for form, records in logs.items():
        path = write(tmp_path / f"{form}.jsonl", records)

        receipt = import_logs(here, [path], scope=form)

        check_sums(receipt)
        [outline] = here.sessions(form).items
        assert outline.session_id.isprintable()
        said = [one.payload["text"] for one in every_event(here, form) if "conversa" in one.kind]
        assert said == ["one", "about one"]
        assert receipt.errors == 0
        assert import_logs(here, [path], scope=form, again=True).events == 0


@pytest.mark.parametrize(
    "timestamp",
    ["not a time", "", None, -5, 0, 1e300, 10**30, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
     "2026-09-21T14:13:20+99:99", {"at": 1}, [], True, "NaN", "+275760-09-13T00:00:00Z"],
)  # fmt: skip
def test_absurd_times_cost_nothing_but_the_time(
    here: Ledger, tmp_path: Path, timestamp: Any
) -> None:
    paths = []
    for form in ("claude-code", "codex", "openclaw", "pi", "gemini", "tape"):
        name, records = VOYAGES[form]
        field = "date" if form == "tape" else "timestamp"
        odd = [{**one, field: timestamp} for one in records]
        paths.append(write(tmp_path / form / name, odd))

    receipt = take(here, *paths)

    assert (receipt.errors, receipt.files_refused, len(receipt.by_format)) == (0, 0, 6)
    assert all(one.ts_ms >= 1 for one in every_event(here))


def test_times_that_go_backwards_change_no_order(here: Ledger, tmp_path: Path) -> None:
    log = claude_log("one", "two", "three")
    times = [line["timestamp"] for line in log.lines]
    turned = [{**line, "timestamp": at} for line, at in zip(log.lines, times[::-1], strict=True)]

    take(here, write(tmp_path / "a.jsonl", turned))

    assert said_in(session_in(here, SESSION))[::2] == ["one", "two", "three"]


def test_large_payloads_come_back_as_they_were(here: Ledger, tmp_path: Path) -> None:
    log = Log()
    log.user("Mend the lamp.")
    log.answer(call("toolu_1", "Write", content="lamp " * 5_000))
    log.result("toolu_1", "done " * 50_000)

    take(here, write(tmp_path / "a.jsonl", log.lines))

    events = {one.kind: one for one in every_event(here)}
    assert events["tool.call"].payload["input"] == {"content": "lamp " * 5_000}
    assert events["tool.result"].payload["output"] == "done " * 50_000


def test_a_line_of_twenty_megabytes_is_taken_or_named(here: Ledger, tmp_path: Path) -> None:
    log = claude_log("one")
    log.user("wave " * 4_000_000)
    log.user("two")

    receipt = take(here, write(tmp_path / "a.jsonl", log.lines))

    assert receipt.imported + receipt.errors == 4
    assert all(fault.line == 3 for fault in receipt.faults)
    assert "two" in [
        one.payload["text"] for one in every_event(here) if one.kind == "conversation.user"
    ]


def test_references_that_are_too_large_are_named_or_shortened(here: Ledger, tmp_path: Path) -> None:
    log = claude_log("one")
    log.answer(call("c" * 100_000, "T" * 100_000, command="ls"), id="m" * 100_000)
    log.line("s" * 100_000, level="l" * 100_000)
    log.user("two")

    receipt = take(here, write(tmp_path / "a.jsonl", log.lines))

    assert receipt.imported + receipt.errors == 5
    assert "two" in said_in(session_in(here, SESSION))


@pytest.mark.parametrize("depth", [60, 5_000])
def test_what_is_nested_deeply_is_taken_or_named(here: Ledger, tmp_path: Path, depth: int) -> None:
    log = claude_log("one", "two")
    deep = b'{"type":"odd","uuid":"u","sessionId":"s","in":' + b"[" * depth + b"]" * depth + b"}\n"
    content = lines(log.lines[:2]) + deep + lines(log.lines[2:])
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)

    receipt = take(here, path)

    assert receipt.imported >= 4
    assert receipt.imported + receipt.errors >= 5
    assert said_in(session_in(here, SESSION)) == ["one", "about one", "two", "about two"]


def test_what_only_looks_like_a_command_to_the_ledger_is_words(
    here: Ledger, tmp_path: Path
) -> None:
    name, records = VOYAGES["openclaw-mem"]
    odd = [
        {**records[0], "event_id": f"odd-{kind}", "type": kind}
        for kind in ("event.redacted", "session.opened", "session.closed", "run.ended", "🙂", "")
    ]

    receipt = take(here, write(tmp_path / name, [*records, *odd]))

    assert receipt.imported + receipt.errors + sum(receipt.skipped.values()) == 10
    assert receipt.imported >= 4
    assert here.sessions(EVERYWHERE).items[0].state != "closed"


def test_a_rewind_to_nowhere_hides_nothing(here: Ledger, tmp_path: Path) -> None:
    records = [
        codex.opened(), *codex.turn("one", "about one"),
        codex.event("thread_rolled_back", num_turns=0),
        codex.event("thread_rolled_back", num_turns=-3),
        codex.event("thread_rolled_back", num_turns="all"),
    ]  # fmt: skip

    take(here, write(tmp_path / "a.jsonl", records))

    assert said_in(session_in(here, codex.SESSION)) == ["one", "about one"]


def test_a_parent_of_itself_and_parents_in_a_circle_come_to_an_end(
    here: Ledger, tmp_path: Path
) -> None:
    for number, (name, parent) in enumerate([("a", "a"), ("b", "c"), ("c", "b")], start=1):
        first = pi.header(id=f"session-{name}", parentSession=f"/x/session-{parent}.jsonl")
        write(tmp_path / f"{name}.jsonl", [first, pi.said(number, f"word {name}", None)])

    receipt = take(here, *sorted(tmp_path.glob("*.jsonl")))

    assert (receipt.errors, receipt.sessions) == (0, 3)
    for name in "abc":
        assert f"word {name}" in said_in(session_in(here, f"session-{name}"))


# Files and folders.


def test_a_folder_full_of_traps_is_taken_in(here: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    write(folder / "a.jsonl", claude_log("one").lines)
    (folder / "folder.jsonl").mkdir()
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    (folder / "self.jsonl").symlink_to(folder / "self.jsonl")
    (folder / "loop").symlink_to(folder)
    (folder / "device.jsonl").symlink_to("/dev/zero")
    write(folder / os.fsdecode(b"\xff.jsonl"), claude_log("two", first=40).lines)

    receipt = take(here, folder)

    refused = {Path(one.file).name for one in receipt.sources if one.state == "refused"}
    assert refused == {"pipe.jsonl", "dangling.jsonl", "self.jsonl", "device.jsonl"}
    assert all(one.reason for one in receipt.sources if one.state == "refused")
    assert receipt.imported == 4


def test_files_without_permission_are_refused_and_the_others_taken(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    write(folder / "a.jsonl", claude_log("one").lines)
    write(folder / "b.jsonl", claude_log("two", first=40).lines).chmod(0)
    (folder / "closed").mkdir(mode=0)

    done = subprocess.run(
        [*OBEDIENT, sys.executable, "-c", _TAKE, str(tmp_path / "l.db"), str(folder)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip

    told = json.loads(done.stdout)
    assert told["imported"] == 2
    assert told["refused"] == [f"{folder / 'b.jsonl'} may not be read"]


def test_a_log_that_is_removed_while_others_are_read_costs_only_itself(
    here: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [write(tmp_path / f"{word}.jsonl", claude_log(word).lines) for word in ("a", "b", "c")]

    def removed(path: Path) -> Any:
        logs[1].unlink(missing_ok=True)
        return sources.open_source(path)

    with monkeypatch.context() as patched:
        patched.setattr("treering.capture.intake.file_import.open_source", removed)
        receipt = take(here, *logs)

    assert (receipt.files, receipt.files_refused) == (3, 1)
    said = [event.payload["text"] for event in every_event(here) if event.kind.endswith("user")]
    assert sorted(said) == ["a", "c"]


def test_a_log_is_read_and_nothing_else(here: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    for form, (name, records) in VOYAGES.items():
        path = write(folder / form / name, records)
        path.chmod(0o440)
        os.utime(path, ns=(1_600_000_000_123_456_789, 1_600_000_000_987_654_321))

    def look() -> dict[str, Any]:
        return {
            str(one): (one.stat().st_mtime_ns, one.stat().st_ino, one.stat().st_mode, one.is_dir())
            for one in sorted(folder.rglob("*"))
        }

    before, content = look(), {one: one.read_bytes() for one in folder.rglob("*.jsonl")}
    take(here, folder)

    assert look() == before
    assert {one: one.read_bytes() for one in folder.rglob("*.jsonl")} == content


_TAKE: Final = """
import json, re, sys
from pathlib import Path
import treering
from treering.app import import_logs
from treering.formats import sources

with treering.open(sys.argv[1]) as ledger:
    told = import_logs(ledger, [sys.argv[2]], scope="voyages")
print(json.dumps({
    "imported": told.imported, "lines": told.lines, "errors": told.errors,
    "refused": [one.reason for one in told.sources if one.state == "refused"],
    "peak": 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]),
}))
"""


def test_memory_does_not_grow_with_a_log(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    large = claude_log("tide " * 20_000).lines
    texts = [json.dumps(line) for line in large]
    count = LARGE_BYTES // sum(map(len, texts))
    with path.open("w") as file:
        for number in range(count):
            for text in texts:
                named = text.replace("11111111", f"{number:08x}")
                file.write(named.replace("msg_1", f"msg_{number}") + "\n")

    done = run_python(_TAKE, tmp_path / "l.db", path)

    told = json.loads(done.stdout)
    assert (told["imported"], told["errors"]) == (2 * count, 0)
    assert told["peak"] < PEAK_BYTES_MAX
