"""``treering tools``: the calls of a scope, how tools did, one call in full."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import NOON, said
from treering import NewEvent

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine

RECORD = {
    "scope": "s", "session_id": "a", "run_id": None, "turn_id": None, "agent_id": "x",
    "call_id": "c1", "tool": "git_log", "status": "ok", "is_synthetic": False, "reason": None,
    "error_class": None, "started_ms": NOON, "ended_ms": NOON + 40, "duration_ms": 40,
    "input_bytes": 2, "output_bytes": 9, "input_shape": None, "late_status": None,
    "late_event_id": None, "run_state": None, "call_event_id": "e0", "result_event_id": "e1",
    "position": 1,
}  # fmt: skip


@pytest.fixture
def used(cli: CommandLine) -> CommandLine:
    """Three calls: one well, one failed, one synthetic in another session."""
    told: list[tuple[str, str, int, dict[str, Any]]] = [
        ("a", "tool.call", 0, {"call_id": "c1", "tool": "git_log", "input_bytes": 2}),
        ("a", "tool.result", 40, {"call_id": "c1", "status": "ok", "output_bytes": 9}),
        ("a", "tool.call", 50, {"call_id": "c2", "tool": "grep"}),
        (
            "a",
            "tool.result",
            2_550,
            {"call_id": "c2", "status": "failed", "error_class": "OSError"},
        ),
        ("b", "tool.call", 60, {"call_id": "c1", "tool": "grep"}),
        ("b", "tool.result", 70, {"call_id": "c1", "status": "synthetic", "reason": "crashed"}),
    ]
    with treering.open(cli.database) as ledger:
        for number, (session, kind, after, refs) in enumerate(told):
            ledger.append(
                [
                    NewEvent(
                        scope="s", session_id=session, kind=kind, agent_id="x", summary=kind,
                        payload={"part": f"private {number}"}, refs=refs, ts_ms=NOON + after,
                        event_id=f"e{number}",
                    )
                ]
            )  # fmt: skip
    return cli


def ids(outcome: Any) -> list[tuple[str, str]]:
    return [(item["session_id"], item["call_id"]) for item in outcome.receipt["calls"]]


def test_a_list_has_one_record_for_each_call(used: CommandLine) -> None:
    outcome = used("tools", "list", "--scope", "s", "--json")

    assert outcome.status == 0
    assert outcome.receipt["kind"] == "treering.tools.list.v1"
    assert ids(outcome) == [("a", "c1"), ("a", "c2"), ("b", "c1")]
    assert outcome.body["calls"][0] == RECORD
    assert (outcome.body["count"], outcome.body["has_more"]) == (3, False)
    assert "private" not in outcome.out


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (["--failing"], [("a", "c2"), ("b", "c1")]),
        (["--status", "ok", "--status", "synthetic"], [("a", "c1"), ("b", "c1")]),
        (["--session", "a"], [("a", "c1"), ("a", "c2")]),
        (["--tool", "grep"], [("a", "c2"), ("b", "c1")]),
        (["--reason", "crashed"], [("b", "c1")]),
        (["--slowest", "--limit", "2"], [("a", "c2"), ("a", "c1")]),
        (["--limit", "1"], [("b", "c1")]),
        (["--since", str(NOON + 50), "--until", str(NOON + 55)], [("a", "c2")]),
    ],
)
def test_every_filter_narrows_the_list(
    used: CommandLine, flags: list[str], found: list[tuple[str, str]]
) -> None:
    assert ids(used("tools", "list", "--scope", "s", "--json", *flags)) == found


def test_a_cursor_goes_on_to_earlier_calls(used: CommandLine) -> None:
    late = used("tools", "list", "--scope", "s", "--limit", "2", "--json")
    cursor = late.receipt["next_cursor"]

    early = used("tools", "list", "--scope", "s", "--limit", "2", "--cursor", cursor, "--json")

    assert ids(early) == [("a", "c1")]


def test_people_get_a_line_for_each_call(used: CommandLine) -> None:
    outcome = used("tools", "list", "--scope", "s", "--session", "a")

    assert [line.split()[2:] for line in outcome.out.splitlines()[:2]] == [
        ["git_log", "ok", "40", "ms", "c1"],
        ["grep", "failed", "2.5", "s", "c2", "OSError"],
    ]
    assert outcome.out.splitlines()[-1] == "2 calls of scope s"


def test_a_terminal_gets_a_table(used: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)

    listed = used("tools", "list", "--scope", "s").out
    measured = used("tools", "stats", "--scope", "s").out

    assert "call id" in listed
    assert "\x1b" in listed
    assert "p99" in measured


def test_statistics_have_a_line_for_each_tool(used: CommandLine) -> None:
    outcome = used("tools", "stats", "--scope", "s")
    receipt = used("tools", "stats", "--scope", "s", "--json").receipt

    assert [line.split()[:6] for line in outcome.out.splitlines()[:3]] == [
        ["tool", "calls", "ok", "failed", "synth.", "open"],
        ["grep", "2", "0", "1", "1", "0"],
        ["git_log", "1", "1", "0", "0", "0"],
    ]
    assert receipt["kind"] == "treering.tools.stats.v1"
    assert [(one["tool"], one["p50_ms"]) for one in receipt["tools"]] == [
        ("grep", 2_500),
        ("git_log", 40),
    ]


def test_one_call_is_shown_without_what_is_private(used: CommandLine) -> None:
    outcome = used("tools", "show", "c1", "--scope", "s", "--session", "a")
    receipt = used("tools", "show", "c1", "--scope", "s", "--session", "a", "--json").receipt

    assert outcome.out.splitlines()[0] == "git_log ok after 40 ms"
    assert "private" not in outcome.out
    assert receipt["calls"] == [RECORD]


def test_payloads_are_shown_if_asked_for(used: CommandLine) -> None:
    words = ("tools", "show", "c1", "--scope", "s", "--session", "a", "--payload")

    [item] = used(*words, "--json").receipt["calls"]

    assert (item["input"], item["output"]) == ({"part": "private 0"}, {"part": "private 1"})
    assert 'input {"part":"private 0"}' in used(*words).out


def test_an_unknown_call_is_not_found(used: CommandLine) -> None:
    outcome = used("tools", "show", "c9", "--scope", "s", "--session", "a", "--json")

    assert (outcome.status, outcome.receipt["code"]) == (1, "not_found")


def test_a_call_needs_its_session_only_if_others_have_its_id(used: CommandLine) -> None:
    alone = used("tools", "show", "c2", "--scope", "s", "--json")
    shared = used("tools", "show", "c1", "--scope", "s", "--json")

    assert (alone.receipt["session_id"], alone.receipt["count"]) == ("a", 1)
    assert shared.status == 1
    assert shared.receipt["error"] == "2 sessions have a call c1"
    assert shared.receipt["hint"] == "name one of them with --session: a, b"


def test_the_beginning_of_a_call_id_is_enough_if_it_is_the_only_one(cli: CommandLine) -> None:
    with (
        treering.open(cli.database) as ledger,
        ledger.session("a", scope="s", agent="x").turn() as run,
    ):
        for call_id in ("call-one", "call-other", "draft-1"):
            run.tools.started("grep", {}, call_id=call_id).finish("1")

    found = cli("tools", "show", "call-on", "--scope", "s", "--json")
    several = cli("tools", "show", "call-o", "--scope", "s", "--json")
    within = cli("tools", "show", "draf", "--scope", "s", "--session", "a")

    assert found.receipt["call_id"] == "call-one"
    assert several.receipt["error"] == "call-o is ambiguous: 2 calls match"
    assert "call-one, call-other" in several.receipt["hint"]
    assert "  call draft-1, session a, agent x" in within.out.splitlines()


def test_the_beginning_of_a_run_is_enough_if_it_is_the_only_one(cli: CommandLine) -> None:
    with (
        treering.open(cli.database) as ledger,
        ledger.session("a", scope="s", agent="x").turn() as run,
    ):
        run.tools.started("grep", {}, call_id="c1").finish("1")

    outcome = cli("tools", "list", "--scope", "s", "--run", run.run_id[:-1], "--json")
    unknown = cli("tools", "list", "--scope", "s", "--run", "night-1", "--json")

    assert outcome.receipt["filters"]["run_id"] == run.run_id
    assert ids(outcome) == [("a", "c1")]
    assert (unknown.status, unknown.receipt["error"]) == (1, "no run night-1 in scope s")


def test_a_run_of_another_program_is_known_by_its_calls(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append(
            [said("called", scope="s", kind="tool.call", run_id="r1", refs={"call_id": "c1"})]
        )

    assert ids(cli("tools", "list", "--scope", "s", "--run", "r1", "--json")) == [("s1", "c1")]


def test_why_says_each_thing_once(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        run = ledger.session("a", scope="s", agent="x").turn()
        run.start()
        run.tools.started("grep", {}, call_id="c1").finish("1")
        run.tools.started("grep", {}, call_id="c2")
        run.interrupt("stop")

    rows = cli("tools", "list", "--scope", "s", "--session", "a").out.splitlines()

    assert [row.rpartition("  ")[2] for row in rows[:2]] == ["run interrupted", "interrupted"]


def test_filters_have_the_same_names_in_both_groups(used: CommandLine) -> None:
    span = ("--since", "2026-01-01", "--until", "2026-01-02")
    expected = {"session_id": "a", "since_ms": 1_767_225_600_000, "until_ms": 1_767_312_000_000}

    for command in (["tools", "list"], ["tools", "stats"], ["trace", "list"]):
        receipt = used(*command, "--scope", "s", "--session", "a", *span, "--json").receipt
        assert expected.items() <= receipt["filters"].items()
        assert receipt["ledger"] == str(used.database)


def test_an_age_is_told_as_a_time_to_go_on_from(used: CommandLine) -> None:
    """An age would be another time by then, and the cursor of another query."""
    with (
        treering.open(used.database) as ledger,
        ledger.session("a", scope="s", agent="x").turn() as run,
    ):
        for call_id in ("d1", "d2"):
            run.tools.started("grep", {}, call_id=call_id).finish("1")

    told = used("tools", "list", "--scope", "s", "--since", "1h", "--limit", "1").out
    again = told.rpartition("run it again with ")[2].split()

    assert ids(used("tools", "list", "--scope", "s", *again, "--json")) == [("a", "d1")]


def test_redacted_calls_take_no_part_and_the_list_says_so(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append([said("called", scope="s", kind="tool.call", refs={"call_id": "c1"})])
        ledger.redact("s", session_id="s1")

    assert cli("tools", "list", "--scope", "s").out == (
        "no tool calls are recorded in scope s (redacted calls are not counted): check its name\n"
        "  treering stats --by scope lists all scopes\n"
    )


@pytest.mark.parametrize("group", ["tools", "trace", "episodes"])
def test_a_flag_without_its_value_is_an_error_of_its_command(cli: CommandLine, group: str) -> None:
    command = "query" if group == "episodes" else "list"

    outcome = cli(group, command, "--json", "--scope")

    assert outcome.status == 2
    assert outcome.receipt["kind"] == f"treering.{group}.{command}.v1"
    assert outcome.receipt["hint"] == f"see treering {group} {command} --help"


def test_the_scope_may_come_from_the_environment(
    used: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREERING_SCOPE", "s")

    assert used("tools", "list", "--json").receipt["count"] == 3
    assert used("tools", "list", "--global", "--json").receipt["scope"] == "global"


@pytest.mark.parametrize("command", ["list", "stats"])
def test_where_there_is_nothing_it_says_so(cli: CommandLine, command: str) -> None:
    outcome = cli("tools", command, "--scope", "s")

    assert outcome.status == 0
    assert outcome.out == "no tool calls are recorded in scope s\n"
    assert outcome.err == f"note: no ledger at {cli.database} yet\n"
    assert cli("tools", command, "--scope", "s", "--json").receipt["ledger"] is None
    assert not cli.database.exists()


def test_what_was_caught_up_with_is_kept_in_the_file(used: CommandLine) -> None:
    used("tools", "list", "--scope", "s")

    with closing(sqlite3.connect(used.database)) as connection:
        assert connection.execute("SELECT count(*) FROM tool_calls").fetchone() == (3,)


def test_a_rebuild_counts_the_calls(used: CommandLine) -> None:
    assert used("rebuild", "--json").receipt["tool_calls"] == 3


def test_a_group_alone_explains_itself(cli: CommandLine) -> None:
    assert "tools show call-1" in cli("tools").out


def test_a_failed_call_is_listed_with_its_command_and_its_message(cli: CommandLine) -> None:
    refs = {"call_id": "c1", "tool": "bash"}
    failed = refs | {"status": "failed", "error_class": "ExitCode"}
    with treering.open(cli.database) as ledger:
        ledger.append(
            [
                said("bash: npm test", kind="tool.call", refs=refs, scope="s"),
                said("bash failed: 2 of 9 failed", kind="tool.result", refs=failed, scope="s"),
            ]
        )

    listed = cli("tools", "list", "--failing", "--scope", "s").out

    assert "ExitCode: npm test → 2 of 9 failed\n" in listed
