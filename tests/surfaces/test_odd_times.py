"""Odd times: refused from a caller, put right from a clock or a log, and always shown."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

import treering
from builders import HERE, NOON, said
from clocks import Clock
from treering import InvalidInput, Ledger
from treering.model.fields import TIME_MS_MAX, instant

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine

SECONDS = NOON // 1_000


@pytest.mark.parametrize("ts_ms", [SECONDS, 1_400_000_000, 2_099_999_999])
def test_a_time_in_seconds_is_refused_and_the_error_says_what_is_expected(
    ledger: Ledger, ts_ms: int
) -> None:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    for act in (
        lambda: ledger.append([said(ts_ms=ts_ms)]),
        lambda: session.record("ops.observation", "seen", ts_ms=ts_ms),
        lambda: ledger.headers(scope=HERE, since_ms=ts_ms),
        lambda: ledger.sessions(HERE, until_ms=ts_ms),
    ):
        with pytest.raises(InvalidInput, match="milliseconds expected") as refused:
            act()
        assert str(ts_ms * 1_000) in str(refused.value.hint)


@pytest.mark.parametrize("ts_ms", [1, 2, 3, 1_399_999_999, 2_100_000_000, TIME_MS_MAX])
def test_small_counters_and_far_times_are_times(ledger: Ledger, ts_ms: int) -> None:
    assert ledger.append([said(ts_ms=ts_ms)])[0].ts_ms == ts_ms


@pytest.mark.parametrize("now_ms", [-NOON, -1, 0, TIME_MS_MAX + 1])
def test_a_clock_that_is_wrong_does_not_break_what_is_recorded(
    cli: CommandLine, now_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: now_ms * 1_000_000)
    with treering.open(cli.database) as ledger:
        with ledger.session("s1", scope=HERE, agent="lyria").turn() as turn:
            turn.user("hello")
        times = {event.ts_ms for event in ledger.session("s1", scope=HERE, agent="lyria").events()}
        assert times == {1 if now_ms <= 0 else TIME_MS_MAX}
    monkeypatch.undo()

    assert cli("show", "s1", "--scope", HERE).status == 0


@pytest.mark.parametrize("now_ms", [-NOON, -1, TIME_MS_MAX * 10])
def test_what_an_earlier_version_recorded_by_such_a_clock_is_shown_and_can_be_copied(
    cli: CommandLine, now_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    clock.now_ms = now_ms
    # As it was before clocks were held to what can be shown.
    monkeypatch.setattr("treering.ledger.drafts.bounded_clock", lambda _: clock)
    with treering.open(cli.database) as ledger:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        with session.turn() as turn:
            turn.user("hello")
        assert next(iter(session.events())).ts_ms == now_ms
        assert [told.state for told in session.turns()] == ["ended"]
        exported = io.BytesIO()
        ledger.admin.export(HERE, exported, payloads="included")
    monkeypatch.undo()

    for command in (["show", "s1"], ["sessions", "list"], ["episodes", "query"], ["stats"]):
        outcome = cli(*command, "--scope", HERE)
        assert outcome.status == 0, (command, outcome.err)
    assert cli("show", "s1", "--scope", HERE, "--json").status == 0
    with treering.open(":memory:") as other:
        exported.seek(0)
        other.admin.restore(exported)
        assert other.admin.verify().intact


def test_a_spool_that_tells_seconds_is_taken_in_by_the_time_that_it_means(
    cli: CommandLine, tmp_path: Path
) -> None:
    line = {
        "type": "conversation.user", "summary": "hello", "ts_ms": SECONDS,
        "session_id": "s1", "agent_id": "lyria", "scope": HERE, "event_id": "e1",
    }  # fmt: skip
    (tmp_path / "spool.jsonl").write_text(json.dumps(line) + "\n")
    assert cli("episodes", "ingest", "--file", str(tmp_path / "spool.jsonl")).status == 0

    with treering.open(cli.database) as ledger:
        event = ledger.event(HERE, "e1")
    assert event is not None
    assert event.ts_ms == SECONDS * 1_000
    assert event.refs == {"stated_seconds": SECONDS}


@pytest.mark.parametrize(
    ("ts_ms", "text"),
    [(-1, "1969-12-31T23:59:59.999Z"), (TIME_MS_MAX + 1, "10000-01-01T00:00:00.000Z")],
)
def test_every_time_has_a_text(ts_ms: int, text: str) -> None:
    assert instant(ts_ms) == text
