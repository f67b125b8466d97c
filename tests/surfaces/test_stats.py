"""``treering stats``: the activity of a scope, compared with the period before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import treering
from builders import DAY, HERE, NOON, said
from surfaces.talks import IN, LAUNCH, NEIGHBOUR, TOKEN, record_talk

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine
    from treering import NewEvent

UNTIL = str(NOON)


def call(number: int, ts_ms: int, took_ms: int, status: str = "ok") -> list[NewEvent]:
    refs = {"call_id": f"c{number}", "tool": "grep"}
    told = refs | {"status": status, "duration_ms": took_ms}
    return [
        said(kind="tool.call", refs=refs, ts_ms=ts_ms),
        said(kind="tool.result", refs=told, ts_ms=ts_ms),
    ]


@pytest.fixture
def weeks(cli: CommandLine) -> CommandLine:
    """Two weeks: in the second there are more turns, and the tool is slow and fails."""
    before, now = NOON - 10 * DAY, NOON - DAY
    counts = {"model": "gpt-5", "provider": "openai", "input_tokens": 100, "output_tokens": 10}
    with treering.open(cli.database) as ledger:
        ledger.append(
            [
                said("one", ts_ms=before),
                said("two", ts_ms=before, session_id="s2"),
                *call(1, before, 100),
                *call(2, before, 100),
                said(kind="ops.receipt", refs={"code": "autoRecall"}, ts_ms=before),
                said("ancient", ts_ms=NOON - 30 * DAY),
                *(said(f"{number}", ts_ms=now) for number in range(3)),
                *call(3, now, 400, "failed"),
                *call(4, now, 400),
                said(kind="usage.reported", refs=counts, ts_ms=now),
                said(kind="ops.alert", refs={"code": "disk"}, ts_ms=now),
                *(
                    said(kind="ops.receipt", refs={"code": code}, ts_ms=now)
                    for code in ("autoRecall", "autoRecall", "autoCapture")
                ),
            ]
        )
    return cli


def test_a_week_is_compared_with_the_one_before(weeks: CommandLine) -> None:
    receipt = weeks("stats", *IN, "--until", UNTIL, "--json").receipt

    drift = {one["name"]: (one["now"], one["before"], one["change"]) for one in receipt["drift"]}
    assert drift["turns"] == (3, 2, 0.5)
    assert drift["sessions"] == (1, 2, -0.5)
    assert drift["p95_ms"] == (400, 100, 3.0)
    assert drift["failure_rate"] == (0.5, 0.0, None)
    assert drift["receipts"] == (3, 1, 2.0)
    assert drift["tokens"] == (110, 0, None)
    assert receipt["activity"]["receipts"] == {"autoRecall": 2, "autoCapture": 1}
    assert receipt["activity"]["alerts"] == {"disk": 1}
    assert receipt["period"]["since_ms"] - receipt["before"]["since_ms"] == 7 * DAY


def test_people_see_arrows_and_percentages(weeks: CommandLine) -> None:
    rows = [line.split() for line in weeks("stats", *IN, "--until", UNTIL).out.splitlines()]

    assert ["turns", "3", "2", "↑", "+50", "%"] in rows
    assert ["sessions", "1", "2", "↓", "-50", "%"] in rows
    assert ["tool", "calls", "2", "2", "→"] in rows
    assert ["failing", "50.0", "%", "0.0", "%", "↑", "new"] in rows
    assert ["tools", "p50", "400", "ms", "100", "ms", "↑", "+300", "%"] in rows
    assert ["tool", "calls", "failing", "p50", "p95"] in rows
    assert ["grep", "2", "50.0", "%", "400", "ms", "400", "ms"] in rows
    assert ["gpt-5", "1", "100", "10", "$0.0002"] in rows
    assert ["autoRecall", "2"] in rows


def test_the_time_and_the_session_can_be_chosen(weeks: CommandLine) -> None:
    def events(*arguments: str) -> int:
        found: int = weeks("stats", *IN, *arguments, "--json").receipt["activity"]["events"]
        return found

    assert events("--days", "60", "--until", UNTIL) == 20
    assert events("--since", str(NOON - 12 * DAY), "--until", str(NOON - 8 * DAY)) == 7
    assert events("--days", "60", "--until", UNTIL, "--session", "s2") == 1
    assert weeks("stats", *IN, "--days", "2", "--since", "2d").status == 2
    assert weeks("stats", *IN, "--since", "2h", "--until", "1d").status == 2
    assert weeks("stats", *IN, "--session", "nobody").status == 1


def test_nothing_of_another_scope_is_counted_or_named(cli: CommandLine) -> None:
    record_talk(cli.database)

    for arguments in ((), ("--json",)):
        out = cli("stats", *IN, *arguments).out
        for hidden in (NEIGHBOUR, TOKEN, LAUNCH):
            assert hidden not in out
    assert cli("stats", *IN, "--json").receipt["activity"]["alerts"] == {"disk": 1}


def test_a_quiet_scope_says_so(weeks: CommandLine) -> None:
    outcome = weeks("stats", *IN, "--since", "2001-01-01", "--until", "2001-02-01")

    assert outcome.status == 0
    assert outcome.out.splitlines()[1:] == [
        "nothing was recorded in this period, or in the one before"
    ]


def test_an_empty_scope_says_so(weeks: CommandLine) -> None:
    outcome = weeks("stats", "--scope", "nobody/here")

    assert outcome.status == 0
    assert outcome.out.splitlines()[1:] == ["nothing is recorded in this scope: check its name"]


def test_the_name_of_a_scope_is_the_one_asked_for(weeks: CommandLine) -> None:
    assert weeks("stats", *IN, "--json").receipt["scope"] == HERE


def test_the_notes_of_memory_are_not_counted_as_a_session(weeks: CommandLine) -> None:
    with treering.open(weeks.database) as ledger:
        ledger.memory(HERE).learn("Jo prefers tabs over spaces.")

    sessions = weeks("stats", *IN, "--days", "1", "--json").receipt["activity"]["sessions"]

    assert sessions == 0


def test_numbers_are_shown_by_day(weeks: CommandLine) -> None:
    words = ("stats", *IN, "--until", UNTIL, "--days", "14", "--by", "day")

    receipt = weeks(*words, "--json").receipt

    turns = {row["day"]: row["turns"] for row in receipt["rows"]}
    assert len(turns) == 2
    assert list(turns) == sorted(turns)
    assert [*turns.values()] == [2, 3]
    lines = weeks(*words).out.splitlines()
    assert lines[0].split()[:3] == ["day", "sessions", "turns"]
    assert [line.split()[0] for line in lines[1:3]] == list(turns)


def test_numbers_are_shown_by_scope_the_busiest_first(weeks: CommandLine) -> None:
    with treering.open(weeks.database) as ledger:
        ledger.append([said("x", scope="acme/quiet", ts_ms=NOON - DAY)])

    receipt = weeks("stats", *IN, "--until", UNTIL, "--by", "scope", "--json").receipt

    assert [row["scope"] for row in receipt["rows"]] == [HERE, "acme/quiet"]


def test_too_many_days_are_refused(weeks: CommandLine) -> None:
    assert weeks("stats", *IN, "--days", "400", "--by", "day").status == 2
    assert weeks("stats", *IN, "--session", "s1", "--by", "scope").status == 2


def test_events_that_are_older_than_the_period_are_mentioned(weeks: CommandLine) -> None:
    week = weeks("stats", *IN, "--until", UNTIL, "--utc").out
    quiet = weeks("stats", *IN, "--since", str(NOON - 20 * DAY), "--until", str(NOON - 15 * DAY))
    everything = weeks("stats", *IN, "--since", str(NOON - 30 * DAY), "--until", UNTIL)

    assert week.splitlines()[-1].startswith("older events, from 20")
    assert "older events, from" in quiet.out
    assert "older events" not in everything.out
