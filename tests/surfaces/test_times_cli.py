"""Times: read as an age, a date or milliseconds, shown in the zone of the reader."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import treering
from builders import HERE, NOON, said
from treering.surfaces.shared.times import LocalZone, clock, milliseconds, moment, zone_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surfaces.command_line import CommandLine

ZONE = "Asia/Kolkata"
"""Five and a half hours ahead, all year."""
LATER_MS = int(5.5 * 3_600_000)
LATE_ON_THE_FIFTH = int(datetime(2026, 3, 5, 20, tzinfo=UTC).timestamp() * 1_000)


@pytest.fixture
def recorded(cli: CommandLine) -> CommandLine:
    cli.append(event_id="e1", ts_ms=str(NOON))
    return cli


@pytest.fixture
def machine_in_india(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the clock of this process in another zone."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", ZONE)
        patch.delenv("TREERING_TZ", raising=False)
        time.tzset()
        yield
    time.tzset()


def test_people_read_the_time_of_their_machine(
    recorded: CommandLine, machine_in_india: None
) -> None:
    assert moment(NOON) == f"{clock(NOON)} IST"
    assert zone_name() == "local"
    assert recorded("tail", "--scope", "s").out.startswith(clock(NOON))
    assert recorded("tail", "--scope", "s", "--utc").out[11:13] != clock(NOON)[11:13]


def test_a_variable_names_another_zone(
    recorded: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_utc = recorded("tail", "--scope", "s").out
    monkeypatch.setenv("TREERING_TZ", ZONE)

    assert recorded("tail", "--scope", "s").out != in_utc
    assert recorded("tail", "--scope", "s", "--utc").out == in_utc
    assert recorded("--utc", "tail", "--scope", "s").out == in_utc


def test_a_table_names_the_zone(recorded: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TREERING_TZ", ZONE)

    query = ("episodes", "query", "--scope", "s")

    assert recorded(*query).out.startswith(f"time ({ZONE})")
    assert recorded(*query, "--utc").out.startswith("time (UTC)")


def test_receipts_are_in_milliseconds_whatever_the_zone(
    recorded: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = ("episodes", "query", "--scope", "s", "--json")
    before = recorded(*query).receipt["items"]
    monkeypatch.setenv("TREERING_TZ", ZONE)

    assert recorded(*query).receipt["items"] == before
    assert before[0]["ts_ms"] == NOON


def test_a_zone_that_is_not_one_is_refused(
    recorded: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREERING_TZ", "Nowhere/Land")

    outcome = recorded("tail", "--scope", "s")

    assert outcome.status == 2
    assert outcome.err.startswith("error: TREERING_TZ Nowhere/Land is not a time zone\nhint: ")


def test_a_date_is_in_the_zone_in_which_times_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREERING_TZ", "UTC")
    in_utc = milliseconds("2026-03-05", now_ms=NOON)
    monkeypatch.setenv("TREERING_TZ", ZONE)

    assert in_utc is not None
    assert milliseconds("2026-03-05", now_ms=NOON) == in_utc - LATER_MS
    assert milliseconds("2026-03-05T00:00Z", now_ms=NOON) == in_utc


@pytest.mark.parametrize("flag", ["--from-ts-ms", "--since"])
@pytest.mark.parametrize("when", [str(NOON), "1970-01-02", "999w"])
def test_the_low_level_door_takes_every_form_of_a_time(
    recorded: CommandLine, flag: str, when: str
) -> None:
    outcome = recorded("episodes", "query", "--scope", "s", flag, when, "--json")

    assert outcome.receipt.get("count") == 1, outcome.out


def test_a_retention_run_can_be_asked_for_at_a_date(recorded: CommandLine) -> None:
    outcome = recorded("gc", "--scope", "s", "--now-ts-ms", "2999-01-01", "--dry-run", "--json")

    assert (outcome.status, outcome.receipt["deleted_total"]) == (0, 1)


@pytest.mark.parametrize(
    ("zone", "count"), [("UTC", 0), ("Asia/Tokyo", 1), ("America/New_York", 0)]
)
def test_a_day_in_a_query_begins_when_it_begins_here(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, zone: str, count: int
) -> None:
    """In Tokyo it is the 6th of March while it is still the 5th in Greenwich."""
    with treering.open(cli.database) as ledger:
        ledger.append([said("harbour", ts_ms=LATE_ON_THE_FIFTH)])
    monkeypatch.setenv("TREERING_TZ", zone)

    for command in (["search"], ["episodes", "search"]):
        found = cli(*command, "harbour after:2026-03-06", "--scope", HERE, "--json").receipt
        assert (found.get("count", found.get("result", {}).get("count"))) == count
    in_utc = cli("search", "harbour after:2026-03-06", "--scope", HERE, "--utc", "--json")
    assert in_utc.receipt["count"] == 0
    zoned = cli("search", "harbour after:2026-03-06T00:00+09:00", "--scope", HERE, "--json")
    assert zoned.receipt["count"] == 1


def test_local_time_has_its_summer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        zone = LocalZone()
        assert datetime(2026, 1, 5, 12, tzinfo=zone).utcoffset() == timedelta(hours=1)
        assert datetime(2026, 7, 5, 12, tzinfo=zone).utcoffset() == timedelta(hours=2)
        assert datetime(1, 1, 1, tzinfo=zone).utcoffset() == timedelta()
    finally:
        monkeypatch.undo()
        time.tzset()
