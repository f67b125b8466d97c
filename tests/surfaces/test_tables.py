"""Tables: plain columns for programs, and what a terminal has room for."""

from __future__ import annotations

import os
import pty
import struct
import sys
import termios
from fcntl import ioctl
from typing import TYPE_CHECKING, NoReturn

import pytest

import fork_server
import treering
from builders import run_of, said
from effort import PATIENCE_S
from surfaces.processes import PROGRAM
from treering.__main__ import main
from treering.surfaces.cli.tables import Column, print_table, say_folded

if TYPE_CHECKING:
    from pathlib import Path

CALL_ID = "call_8ac65b63fd6b4ade9fd8a05d"
RUN_ID = "01a1e00d-32f0-707a-81aa-682194bd6d88"
COLUMNS = (Column("when", leaves=2), Column("id"), Column("why", leaves=1, is_prose=True))
ROW = ("2026-03-05 02:00:00", CALL_ID, "it took longer than anybody had waited for before")


def printed(capsys: pytest.CaptureFixture[str], *, is_titled: bool = False) -> list[str]:
    """Return the lines of a table with one row."""
    print_table(COLUMNS, [ROW], is_titled=is_titled)
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Have standard output laid out as for a terminal, without colours."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    return monkeypatch


def test_programs_get_every_column_unfolded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    assert printed(capsys) == ["  ".join(ROW)]
    assert len(printed(capsys, is_titled=True)) == 2


def test_prose_is_folded_below_itself(
    capsys: pytest.CaptureFixture[str], terminal: pytest.MonkeyPatch
) -> None:
    terminal.setenv("COLUMNS", "90")

    headings, first, second = printed(capsys)

    assert headings.split() == ["when", "id", "why"]
    assert first.index("it took") == len(second) - len(second.lstrip())
    assert max(map(len, (first, second))) <= 90


@pytest.mark.parametrize(
    ("room", "headings", "missing"),
    [(60, ["when", "id"], "why"), (40, ["id"], "when, why"), (10, ["id"], "when, why")],
)
def test_the_least_important_columns_leave_first_and_ids_stay_whole(
    capsys: pytest.CaptureFixture[str],
    terminal: pytest.MonkeyPatch,
    room: int,
    headings: list[str],
    missing: str,
) -> None:
    terminal.setenv("COLUMNS", str(room))

    top, row, last = printed(capsys)

    assert top.split() == headings
    assert CALL_ID in row
    assert last == f"no room for: {missing}"


def test_a_column_that_says_nothing_is_not_shown(
    capsys: pytest.CaptureFixture[str], terminal: pytest.MonkeyPatch
) -> None:
    terminal.setenv("COLUMNS", "200")

    print_table(COLUMNS, [(ROW[0], CALL_ID, "")])

    assert capsys.readouterr().out.splitlines()[0].split() == ["when", "id"]


def test_a_cell_says_what_it_counts_only_where_no_heading_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = (Column("calls", noun="call"), Column("input", suffix="in"), Column("tool"))
    rows = [("1", "20", "grep"), ("1,200", "-", "")]
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    print_table(columns, rows)
    plain = capsys.readouterr().out.splitlines()
    print_table(columns, rows, is_titled=True)
    titled = capsys.readouterr().out.splitlines()

    assert plain == ["1 call       20 in  grep", "1,200 calls  -"]
    assert titled == ["calls  input  tool", "1      20     grep", "1,200  -"]


def test_a_long_line_is_folded_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    text = "a line that is longer than thirty columns"

    say_folded(text, lead="ok   ", indent=" " * 5)
    monkeypatch.setenv("FORCE_COLOR", "1")
    say_folded(text, lead="ok   ", indent=" " * 5)

    assert capsys.readouterr().out.splitlines() == [
        f"ok   {text}",
        "ok   a line that is longer",
        "     than thirty columns",
    ]


def on_terminal(columns: int, *arguments: str, **variables: str) -> str:
    """Return what the program prints on a terminal of this width."""
    outer, inner = pty.openpty()
    ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = fork_server.process(print_to, os.ttyname(inner), arguments, variables)
    process.start()
    process.join(PATIENCE_S)
    os.close(inner)
    assert process.exitcode == 0
    # What was written stays to be read until there is no more.
    text = b""
    with os.fdopen(outer, "rb", buffering=0) as stream:
        while True:
            try:
                piece = stream.read(65_536)
            except OSError:
                break
            if not piece:
                break
            text += piece
    return text.decode()


def print_to(terminal: str, arguments: tuple[str, ...], variables: dict[str, str]) -> NoReturn:
    """Be the program on a terminal, and nothing else."""
    device = os.open(terminal, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(device, standard)
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    os.environ.clear()
    os.environ.update(kept, TERM="xterm", **variables)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.argv = [PROGRAM, *arguments]
    main()
    sys.exit(0)


@pytest.fixture
def database(tmp_path: Path) -> str:
    """Two calls of a run, with ids as providers and Treering make them."""
    path = str(tmp_path / "ledger.db")
    start, *_, end = run_of(RUN_ID, session_id="support-2026-03-05")
    told = [
        said(kind, kind=kind, run_id=RUN_ID, session_id="support-2026-03-05", refs=refs)
        for refs in (
            {"call_id": CALL_ID, "tool": "read_the_whole_file", "status": "ok", "duration_ms": 480},
            {"call_id": "call_2", "tool": "grep", "status": "failed", "duration_ms": 12},
        )
        for kind in ("tool.call", "tool.result")
    ]
    with treering.open(path) as ledger:
        ledger.append([start, *told, end])
    return path


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("tools", "list"), CALL_ID[:8]),
        (("tools", "stats"), "read_the_whole_file"),
        (("trace", "list"), RUN_ID[-8:]),
    ],
)
def test_no_line_is_wider_than_the_terminal_and_ids_are_short(
    database: str, columns: int, command: tuple[str, str], shown: str
) -> None:
    flags = ("--db", database, "--scope", "acme/app")

    lines = on_terminal(columns, *command, *flags, NO_COLOR="1").splitlines()

    assert max(len(line) for line in lines if not line.startswith("no room")) <= columns
    assert any(shown in line.split() for line in lines)
    assert lines[0].split()[0] in {"time", "tool", "run"}


def test_statistics_keep_the_tool_and_lose_percentiles_first(database: str) -> None:
    flags = ("--db", database, "--scope", "acme/app")

    narrow = on_terminal(70, "tools", "stats", *flags, NO_COLOR="1").splitlines()

    assert narrow[0].split() == [*("tool", "calls", "ok", "failed", "synth.", "open", "p50", "max")]
    assert "no room for: p90, p99" in narrow


def test_colours_are_for_terminals_unless_they_are_not_wanted(database: str) -> None:
    flags = ("--db", database, "--scope", "acme/app")
    commands = [
        ("tools", "list"),
        ("tools", "stats"),
        ("tools", "show", CALL_ID),
        ("trace", "list"),
        ("trace", "show", RUN_ID),
        ("episodes", "query"),
    ]

    for command in commands:
        assert "\x1b[" in on_terminal(100, *command, *flags), command
        assert "\x1b[" not in on_terminal(100, *command, *flags, NO_COLOR="1"), command
