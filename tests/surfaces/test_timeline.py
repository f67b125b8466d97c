"""Events as people read them: nothing in them steers the terminal or shifts a column."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine


def test_people_get_aligned_columns_and_the_way_to_the_rest(told: CommandLine) -> None:
    outcome = told("episodes", "query", "--scope", "s", "--limit", "2")

    *rows, last = outcome.out.splitlines()
    assert rows == [
        "1970-01-01 00:00:00  conversation.assistant  b  x  n5",
        "1970-01-01 00:00:01  tool.call               a  x  n1",
    ]
    assert last.startswith("2 events, and more: run it again with --cursor ")


def test_people_get_payloads_below_their_events(told: CommandLine) -> None:
    outcome = told("episodes", "replay", "b", "--scope", "s", "--include-payload")

    assert outcome.out.splitlines() == [
        "2  1970-01-01 00:00:00  conversation.assistant  x  n5",
        '    {"i":5}',
        "1  1970-01-01 00:00:02  ops.alert               x  n3",
        '    {"i":3}',
        "recorded in another order; --by seq shows it",
        "2 events",
    ]


def test_a_terminal_gets_a_table_that_takes_brackets_literally(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.append(summary="[bold]not markup[/bold]", payload_json='["[red]"]', ts_ms="1000")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")

    outcome = cli("episodes", "query", "--scope", "s", "--include-payload")

    assert "time (UTC)" in outcome.out
    assert "[bold]not markup[/bold]" in outcome.out
    assert '["[red]"]' in outcome.out


def test_a_summary_cannot_steer_the_terminal(cli: CommandLine) -> None:
    cli.append(summary="\x1b[31mred\x1b[0m\nnext \u202egnp.exe", payload_json='"\\u009b31m"')

    outcome = cli("episodes", "query", "--scope", "s", "--include-payload")

    assert "\\x1b[31mred\\x1b[0m next \\u202egnp.exe" in outcome.out
    assert '"\\x9b31m"' in outcome.out


@pytest.mark.parametrize("colour", ["", "1"], ids=["columns", "table"])
def test_no_column_can_steer_the_terminal(
    told: CommandLine, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    # As in a file that was written by somebody else's hands.
    with closing(sqlite3.connect(told.database)) as connection, connection:
        for table in ("names", "sessions"):
            connection.execute(
                f"UPDATE {table} SET name = char(27) || ']0;' || name || char(10, 7, 8238)"
            )
    monkeypatch.setenv("FORCE_COLOR", colour)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    outcome = told("episodes", "query", "--scope", "s")

    assert outcome.status == 0
    for name in ("tool.call", "a", "x"):
        assert f"\\x1b]0;{name}\\n\\x07\\u202e" in outcome.out
    for steering in ("\x1b]", "\x07", "\u202e"):
        assert steering not in outcome.out


def test_wide_characters_keep_the_columns_aligned(cli: CommandLine) -> None:
    for at, agent in enumerate(("lyria", "东京", "👩", "é"), start=1):
        cli.append(ts_ms=str(at), agent_id=agent, summary="said")

    *rows, _ = cli("episodes", "query", "--scope", "s").out.splitlines()

    assert {cell_len(row[: row.index("said")]) for row in rows} == {42}
