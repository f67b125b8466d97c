"""``treering tail``: the last events of a scope, and new ones."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import treering
from builders import ELSEWHERE, HERE, NOON, said
from effort import PATIENCE_S
from surfaces.processes import line_of, start
from surfaces.talks import IN, LAUNCH, NEIGHBOUR, TOKEN, record_talk
from treering.surfaces.cli.tables import width

if TYPE_CHECKING:
    from postgres_server import Places
    from surfaces.command_line import CommandLine


def test_the_last_events_are_one_a_line_in_the_order_of_time(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append([said(f"word {number}", ts_ms=NOON + number) for number in range(30)])
        ledger.append([said("early", ts_ms=NOON - 5, session_id="s2")])

    lines = cli("tail", *IN).out.splitlines()

    assert len(lines) == 20
    assert lines[-1].split() == [
        "2026-09-21", "14:13:20", "conversation.user", "s1", "word", "29"
    ]  # fmt: skip
    assert cli("tail", *IN, "-n", "1").out.endswith("word 29\n")
    assert cli("tail", *IN, "--session", "s2").out.endswith("early\n")
    assert cli("tail", *IN, "-n", "0").out.startswith("no such events")


def test_summaries_are_aligned_whatever_the_sessions_are_called(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        names = ("s1", "main:telegram:jo", "日本", "a-name-that-is-wider-than-its-column")
        for number, name in enumerate(names):
            ledger.append([said("hello", ts_ms=NOON + number, session_id=name)])

    lines = cli("tail", *IN).out.splitlines()

    ends = [width(line[: line.index("hello")]) for line in lines]
    assert ends == [ends[0], ends[0], ends[0], ends[0] + 12]


def test_kinds_narrow_it_down(cli: CommandLine) -> None:
    record_talk(cli.database)

    receipt = cli("tail", *IN, "--kind", "tool.call,ops.alert", "--kind", "tool_result", "--json")

    assert {one["type"] for one in receipt.receipt["items"]} == {
        "tool.call",
        "tool.result",
        "ops.alert",
    }
    assert cli("tail", *IN, "--kind", "nonsense").status == 2


def test_secrets_erased_words_and_other_scopes_stay_unseen(cli: CommandLine) -> None:
    record_talk(cli.database)

    for arguments in ((), ("--json",)):
        out = cli("tail", *IN, "-n", "500", *arguments).out
        assert "[redacted:github:" in out
        for hidden in (TOKEN, LAUNCH, NEIGHBOUR):
            assert hidden not in out


def test_what_others_record_is_followed_until_it_is_stopped(
    cli: CommandLine, environment: dict[str, str]
) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append([said("before", ts_ms=NOON)])
        process = start(environment, "tail", "-f", "-n", "1", "--kind", "conversation.user", *IN)
        first = line_of(process)
        ledger.append([said("elsewhere", scope=ELSEWHERE), said("x", kind="ops.alert")])
        # An event may be older than what was shown, and is new all the same.
        ledger.append([said("from a log", ts_ms=NOON - 1_000, session_id="s2")])
        second = line_of(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)

    assert first.endswith("s1  before\n")
    assert second.endswith("s2  from a log\n")
    assert (out, err, process.returncode) == ("", "", 130)


def test_a_follower_whose_reader_has_left_ends_although_nothing_happens(
    cli: CommandLine, environment: dict[str, str]
) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append([said("before", ts_ms=NOON)])
    with start(environment, "tail", "-f", "-n", "1", *IN) as process:
        line_of(process)
        assert process.stdout
        assert process.stderr

        process.stdout.close()

        assert process.wait(PATIENCE_S) == 141
        assert process.stderr.read() == ""


def test_a_server_is_followed_too_and_each_event_is_a_json_line(
    environment: dict[str, str], postgres: Places
) -> None:
    url = postgres.fresh()
    with treering.open(url) as ledger:
        ledger.append([said(f"old {number}") for number in range(3)])
        process = start(environment, "--db", url, "tail", "-f", "-n", "1", "--json", *IN)
        first = json.loads(line_of(process))
        ledger.append([said("new")])
        second = json.loads(line_of(process))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)

    assert (first["summary"], second["summary"]) == ("old 2", "new")
    assert first["scope"] == HERE
