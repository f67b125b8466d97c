"""Short ids: unique in their scope, and understood by every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering
from builders import NOON, run_of, said
from treering import NotFound
from treering.model.scopes import parse_scope
from treering.surfaces.cli.commands import Invocation
from treering.surfaces.cli.finding import (
    NEIGHBOURS_MAX,
    SHOWN_CHARACTERS_MIN,
    ShortIds,
    find_event,
    for_people,
    short_events,
    short_runs,
)
from treering.surfaces.cli.main import root

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine

FIRST = "01997e76-d124-7592-9cac-2ec05abbca08"
SECOND = "01997e76-d124-7da3-8c20-c736db82a7c5"
OTHER = "5c0375b4-57a5-4f26-b12d-d022ee4e51b7"
FORK = f"{OTHER}-fork-c4d94809"
SUBAGENT = f"{OTHER}/agent-83e2917c-8940-4df6-a5a5-f2514f0d08c5"
IN = ("--scope", "acme/app")
SCOPE = parse_scope("acme/app")

ids = st.lists(st.text("01ab-/", min_size=25, max_size=36), min_size=1, max_size=12, unique=True)


def test_an_id_is_shown_by_its_first_eight_characters() -> None:
    assert ShortIds([FIRST, OTHER]).shown(OTHER) == "5c0375b4"


def test_ids_of_the_same_time_are_shown_by_their_ends() -> None:
    short = ShortIds([FIRST, SECOND])

    assert [short.shown(FIRST), short.shown(SECOND)] == ["5abbca08", "db82a7c5"]


def test_an_id_that_begins_with_its_time_stays_short_for_one_when_the_next_is_made() -> None:
    shown = ShortIds([FIRST]).shown(FIRST)

    assert shown == "5abbca08"
    assert ShortIds([FIRST, SECOND]).find(shown, "fact") == FIRST


def test_subagents_and_forks_do_not_lengthen_the_id_of_their_parent() -> None:
    short = ShortIds([OTHER, SUBAGENT, FORK])

    shown = [short.shown(one) for one in (OTHER, SUBAGENT, FORK)]

    assert shown == ["5c0375b4", "4f0d08c5", "c4d94809"]


def test_a_name_is_shown_whole() -> None:
    assert ShortIds(["main:telegram:jo"]).shown("main:telegram:jo") == "main:telegram:jo"


@pytest.mark.parametrize(
    ("whole", "shown"),
    [
        ("gemini-tool-result-cancelled", "gemini-tool-result-cancelled"),
        ("codex_0.4_events_of_shell_command", "codex_0.4"),
        ("notes-of-the-meeting-2026-11-16", "notes-of"),
    ],
)
def test_words_are_not_cut(whole: str, shown: str) -> None:
    assert ShortIds([whole, FIRST]).shown(whole) == shown


def test_an_id_of_elsewhere_is_shown_whole() -> None:
    assert ShortIds([FIRST]).shown(OTHER) == OTHER


@given(ids)
def test_what_is_shown_is_found_again(names: list[str]) -> None:
    short = ShortIds(names)

    shown = [short.shown(one) for one in names]

    assert [short.find(one, "session") for one in shown] == names
    assert min(map(len, shown)) >= 8
    assert len(set(shown)) == len(names)


def test_several_matches_are_an_error_that_names_them() -> None:
    with pytest.raises(NotFound, match="01997e76 is ambiguous: 2 sessions match") as raised:
        ShortIds([FIRST, SECOND]).find("01997e76", "session")

    assert raised.value.hint == f"type more of the id: {FIRST}, {SECOND}"


@pytest.mark.parametrize("text", ["019", "nothing"])
def test_too_little_and_nothing_find_nothing(text: str) -> None:
    assert ShortIds([FIRST]).find(text, "session") is None


def test_many_ids_that_begin_alike_are_shortened_at_once() -> None:
    names = [f"00000000-0000-0000-0000-{number:012x}" for number in range(1, 20_000)]
    short = ShortIds(names)

    assert [short.shown(one) for one in names[:3]] == ["00000001", "00000002", "00000003"]


def test_where_there_are_too_many_runs_to_compare_ids_stay_whole(cli: CommandLine) -> None:
    runs = [f"01997e76-d124-7592-9cac-{number:012x}" for number in range(501)]
    with treering.open(cli.database) as ledger, click.Context(root, obj=Invocation(as_json=False)):
        ledger.append([event for one in runs for event in run_of(one)])

        assert short_runs(ledger, SCOPE, runs_max=500).shown(runs[0]) == runs[0]
        assert short_runs(ledger, SCOPE, runs_max=1_000).shown(runs[0]) == "00000000"


def test_a_receipt_has_whole_ids() -> None:
    with click.Context(root, obj=Invocation(as_json=True)):
        assert for_people(lambda: [FIRST]).shown(FIRST) == FIRST


@pytest.fixture
def twins(cli: CommandLine) -> CommandLine:
    """Two sessions of the same time, each with a run and a tool call, and a third one."""
    with treering.open(cli.database) as ledger:
        for number, session in enumerate((FIRST, SECOND, OTHER)):
            run_id = f"{session[:-1]}f"
            *begun, ended = run_of(run_id, "hi", session_id=session, ts_ms=NOON + number)
            refs = {"call_id": f"toolu_01{session[-20:]}", "tool": "grep"}
            calls = [
                said(kind, kind=kind, session_id=session, run_id=run_id, refs=refs)
                for kind in ("tool.call", "tool.result")
            ]
            ledger.append([*begun, *calls, ended])
    return cli


@pytest.mark.parametrize(
    "command",
    [
        ("show",),
        ("sessions", "show"),
        ("sessions", "tree"),
        ("sessions", "rename", "--", "{}", "a title"),
        ("context", "--max-tokens", "8000"),
        ("doctor",),
        ("export", "--format", "markdown"),
        ("episodes", "replay"),
        ("tail", "--session"),
        ("stats", "--session"),
        ("trace", "list", "--session"),
        ("tools", "list", "--session"),
        ("tools", "stats", "--session"),
        ("episodes", "query", "--session"),
        ("episodes", "verify", "--session"),
        ("episodes", "export", "--session"),
        ("verify", "--session"),
        ("redact", "--session"),
        ("episodes", "redact", "--session-id"),
        ("facts", "add", "Jo lives in Porto", "--session"),
        ("facts", "extract"),
        ("recall", "--session"),
    ],
    ids=" ".join,
)
def test_every_command_takes_a_short_session_and_refuses_an_ambiguous_one(
    twins: CommandLine, command: tuple[str, ...]
) -> None:
    def call(session: str) -> int:
        if "--" in command:
            words = [word.format(session) for word in command if word != "--"]
            return twins(*words, *IN).status
        return twins(*command, session, *IN).status

    assert call("01997e76") == 1
    assert call("5abbca08") == 0


def test_lists_show_short_ids_that_can_be_typed(twins: CommandLine) -> None:
    sessions = twins("sessions", "list", *IN).out
    runs = twins("trace", "list", *IN).out
    calls = twins("tools", "list", *IN).out

    assert "5abbca08" in sessions
    assert FIRST not in sessions + runs + calls
    assert twins("trace", "show", "5abbca0f", *IN).status == 0
    assert "5abbca0f" in runs
    call = next(word for line in calls.splitlines() for word in line.split() if "5abbca08" in word)
    assert twins("tools", "show", call, *IN).status == 0


def test_a_receipt_names_the_whole_session_that_was_typed_short(twins: CommandLine) -> None:
    replayed = twins("episodes", "replay", "5abbca08", *IN, "--json").receipt
    queried = twins("episodes", "query", "--session", "5abbca08", *IN, "--json").receipt

    assert replayed["session_id"] == queried["filters"]["session_id"] == FIRST
    assert replayed["count"] == queried["count"] > 0


def test_an_event_is_found_by_the_end_of_its_id(twins: CommandLine) -> None:
    whole = twins.ids("episodes", "query", *IN)[0]

    receipt = twins("redact", "--event", whole[-12:], *IN, "--json").receipt

    assert receipt["target"]["event_id"] == whole
    assert receipt["redacted_count"] == 1


def test_an_ambiguous_event_is_not_redacted(cli: CommandLine) -> None:
    for number in range(2):
        cli.append(event_id=f"event-{number}")

    outcome = cli("redact", "--event", "event", "--scope", "s", "--json")

    assert (outcome.status, outcome.receipt["code"]) == (1, "not_found")
    assert outcome.receipt["error"] == "event is ambiguous: 2 events match"


def test_the_short_id_of_an_event_can_be_typed(twins: CommandLine) -> None:
    wholes = twins.ids("episodes", "query", *IN)
    hits = [line.split() for line in twins("search", "hi", *IN).out.splitlines()]
    shown = [words[2] for words in hits if len(words) > 3 and words[3].startswith("conv")]

    assert shown
    for short in shown:
        assert SHOWN_CHARACTERS_MIN <= len(short) < 18
        whole = twins("redact", "--event", short, *IN, "--json").receipt["target"]["event_id"]
        beginning, _, end = short.partition("..")
        assert whole in wholes
        assert whole.startswith(beginning)
        assert whole.endswith(end)


def test_an_unknown_event_is_an_error(twins: CommandLine) -> None:
    outcome = twins("redact", "--event", "ffffffff-ffff", *IN, "--json")

    assert (outcome.status, outcome.receipt["code"]) == (1, "not_found")


@pytest.mark.parametrize("count", [1, 2, NEIGHBOURS_MAX - 1, NEIGHBOURS_MAX])
def test_short_ids_of_events_are_unique_among_any_number_of_neighbours(count: int) -> None:
    wholes = [f"01997e76-d124-7592-9cac-{number:012x}" for number in range(count)]
    with treering.open(":memory:") as ledger, click.Context(root, obj=Invocation(as_json=False)):
        ledger.append([said("hi", event_id=one, scope=SCOPE) for one in [*wholes, "n" * 40]])
        short = short_events(ledger, SCOPE)

        for whole in wholes:
            name = short.shown(whole)
            assert count == NEIGHBOURS_MAX or len(name) <= 14
            assert find_event(ledger, SCOPE, name) == whole
        assert short.shown("n" * 40) == "n" * 40
        assert find_event(ledger, SCOPE, "nnnn") == "n" * 40
        if count > 1:
            with pytest.raises(NotFound, match=f"ambiguous: {count} events match"):
                find_event(ledger, SCOPE, "01997e76")


def test_events_of_one_busy_minute_have_different_short_ids() -> None:
    moments = [f"01997e76-{number:04x}-7592-9cac-2ec05abbca08" for number in range(NEIGHBOURS_MAX)]
    twin = "01997e76-0000-7592-9cac-2ec0db82a7c5"
    with treering.open(":memory:") as ledger, click.Context(root, obj=Invocation(as_json=False)):
        ledger.append([said("hi", event_id=one, scope=SCOPE) for one in [*moments, twin]])
        short = short_events(ledger, SCOPE)

        shown = [short.shown(one) for one in (moments[0], twin, moments[1])]

        assert shown == ["01997e76-0000..ca08", "01997e76-0000..a7c5", "01997e76-0001"]
        assert [find_event(ledger, SCOPE, one) for one in shown] == [moments[0], twin, moments[1]]


def test_an_id_is_found_by_its_beginning_and_end() -> None:
    short = ShortIds([FIRST, SECOND, "a..b"])

    assert short.find("0199..a7c5", "session") == SECOND
    assert short.find("a..b", "session") == "a..b"
    assert short.find("0199..beef", "session") is None
    with pytest.raises(NotFound, match="ambiguous: 2 sessions match"):
        short.find("0199..", "session")
