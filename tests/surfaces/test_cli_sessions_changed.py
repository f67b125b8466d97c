"""``treering sessions fork``, ``undo``, ``redo``, ``rename``, ``close``, ``prune``, ``sweep``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import DAY, HERE, exchange
from treering.clock import now_ms

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine
    from treering import Session

IN: Final = ("--scope", HERE)


@pytest.fixture
def talk(cli: CommandLine) -> CommandLine:
    """One session of two turns."""
    with treering.open(cli.database) as ledger:
        session = ledger.session("build-1", scope=HERE, agent="lyria", user="jo")
        for text in ("hello", "go on"):
            exchange(session, text, text.upper())
    return cli


def words(cli: CommandLine, session_id: str = "build-1") -> list[str]:
    """Return what the model sees of a session."""
    with treering.open(cli.database) as ledger:
        session = ledger.session(session_id, scope=HERE, agent="lyria")
        return [message["content"] for message in session.history()]


def later(days: float) -> tuple[str, str]:
    return "--now-ts-ms", str(now_ms() + round(days * DAY))


# fork


def test_a_fork_shares_the_past_and_says_how_to_go_on(talk: CommandLine) -> None:
    outcome = talk("sessions", "fork", "buil", *IN, "--id", "build-2", "--title", "Another way")

    assert outcome.out.splitlines() == [
        "forked session build-1 at seq 9 as build-2",
        f'continue in it: ledger.session("build-2", scope="{HERE}", agent="lyria")',
        f"what its model sees: treering context build-2 --scope {HERE} --max-tokens 8000",
    ]
    assert words(talk, "build-2") == words(talk, "build-1")


def test_the_receipt_of_a_fork_says_where_it_begins(talk: CommandLine) -> None:
    with treering.open(talk.database) as ledger:
        first = next(iter(ledger.session("build-1", scope=HERE, agent="x").turns()))

    outcome = talk("sessions", "fork", "build-1", *IN, "--at", first.input_event_id, "--json")

    assert outcome.receipt["kind"] == "treering.sessions.fork.v1"
    new_id = outcome.receipt["session_id"]
    assert outcome.body == {
        "scope": HERE,
        "session_id": new_id,
        "parent": "build-1",
        "forked_seq": 5,
        "title": None,
        "agent": "lyria",
    }
    assert new_id.startswith("build-1-fork-")
    assert words(talk, new_id) == ["hello", "HELLO"]


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("--id", "build-1"), 1, "conflict"),
        (("--id", " "), 2, "invalid"),
        (("--at", "nothing"), 1, "not_found"),
        (("--title", " "), 2, "invalid"),
    ],
)
def test_a_fork_that_cannot_be_leaves_nothing_behind(
    talk: CommandLine, arguments: tuple[str, ...], status: int, code: str
) -> None:
    outcome = talk("sessions", "fork", "build-1", *IN, *arguments, "--json")

    assert (outcome.status, outcome.receipt["code"]) == (status, code)
    assert talk("sessions", "list", *IN, "--json").receipt["count"] == 1


# undo and redo


def test_an_undo_moves_the_conversation_back_and_says_that_files_do_not(talk: CommandLine) -> None:
    outcome = talk("sessions", "undo", "build-1", *IN)

    assert outcome.out.splitlines() == [
        "undid the last turn of session build-1: the model no longer sees it",
        "  go on",
        "only the conversation moved back; files and other effects of tools did not",
        f"to restore it before anything is said: treering sessions redo build-1 --scope {HERE}",
    ]
    assert words(talk) == ["hello", "HELLO"]


def test_several_turns_are_undone_and_redone_at_once(talk: CommandLine) -> None:
    undone = talk("sessions", "undo", "build-1", *IN, "--turns", "2")
    after_undo = words(talk)
    redone = talk("sessions", "redo", "build-1", *IN)

    assert undone.out.splitlines()[:3] == [
        "undid 2 turns of session build-1: the model no longer sees them",
        "  hello",
        "  go on",
    ]
    assert after_undo == []
    assert redone.out.splitlines() == [
        "redid 2 turns of session build-1",
        "only the conversation moved forward again; files and other effects of tools did not",
    ]
    assert words(talk) == ["hello", "HELLO", "go on", "GO ON"]


def test_a_turn_that_was_undone_before_is_not_told_again(talk: CommandLine) -> None:
    talk("sessions", "undo", "build-1", *IN)

    outcome = talk("sessions", "undo", "build-1", *IN)

    assert outcome.out.splitlines()[1:2] == ["  hello"]
    assert "  go on" not in outcome.out.splitlines()


def test_a_run_with_two_questions_is_undone_whole_and_both_are_counted(talk: CommandLine) -> None:
    with treering.open(talk.database) as ledger:
        session = ledger.session("build-1", scope=HERE, agent="lyria")
        with session.turn() as turn:
            turn.user("one")
            turn.user("two")

    outcome = talk("sessions", "undo", "build-1", *IN)

    assert outcome.out.splitlines()[:3] == [
        "undid 2 turns of session build-1: the model no longer sees them",
        "  one",
        "  two",
    ]
    assert talk("sessions", "redo", "build-1", *IN, "--json").receipt["turns"] == 2
    assert words(talk) == ["hello", "HELLO", "go on", "GO ON", "one", "two"]


def test_receipts_of_undo_and_redo_name_the_events_that_say_so(talk: CommandLine) -> None:
    undone = talk("sessions", "undo", "build-1", *IN, "--json")
    redone = talk("sessions", "redo", "build-1", *IN, "--json")

    with treering.open(talk.database) as ledger:
        first, second = ledger.session("build-1", scope=HERE, agent="x").headers(last=2)
    assert (undone.receipt["kind"], undone.body) == (
        "treering.sessions.undo.v1",
        {
            "scope": HERE,
            "session_id": "build-1",
            "turns": 1,
            "from_seq": 6,
            "event_id": first.event_id,
            "seq": 10,
        },
    )
    assert (redone.receipt["kind"], redone.body) == (
        "treering.sessions.redo.v1",
        {
            "scope": HERE,
            "session_id": "build-1",
            "turns": 1,
            "undone_seq": 10,
            "event_id": second.event_id,
            "seq": 11,
        },
    )
    assert (first.agent_id, first.user_id) == ("lyria", "jo")


@pytest.mark.parametrize(
    ("arguments", "status", "error", "hint"),
    [
        (("undo", "--turns", "3"), 2, "cannot undo 3 turns: there are 2 turns", "undo 2"),
        (("undo", "--turns", "0"), 2, "cannot undo 0 turns", "undo 1 or more"),
        (("undo", "--turns", "-4"), 2, "cannot undo -4 turns", "undo 1 or more"),
        (("redo",), 1, "there is nothing to redo",
         "an undo can be redone only if no turn followed it"),
    ],
)  # fmt: skip
def test_what_cannot_be_undone_or_redone_is_said(
    talk: CommandLine, arguments: tuple[str, ...], status: int, error: str, hint: str
) -> None:
    command, *rest = arguments

    outcome = talk("sessions", command, "build-1", *IN, *rest)

    assert (outcome.status, outcome.err) == (status, f"error: {error}\nhint: {hint}\n")


def test_nothing_is_undone_while_a_turn_is_under_way(talk: CommandLine) -> None:
    with treering.open(talk.database) as ledger:
        session = ledger.session("build-1", scope=HERE, agent="lyria")
        with session.turn() as turn:
            turn.user("wait")
            outcomes = [
                talk("sessions", command, "build-1", *IN, "--json")
                for command in ("undo", "redo", "close")
            ]

    assert [(one.status, one.receipt["code"]) for one in outcomes] == [(1, "run_active")] * 3


# rename and close


def test_a_session_is_renamed(talk: CommandLine) -> None:
    outcome = talk("sessions", "rename", "build-1", "The  night\nbuild", *IN)

    assert outcome.out == "session build-1 is called: The night build\n"
    assert talk("sessions", "list", *IN, "--text", "night", "--json").receipt["count"] == 1


def test_the_receipt_of_a_title_has_it(talk: CommandLine) -> None:
    outcome = talk("sessions", "rename", "build-1", "Night", *IN, "--json")

    with treering.open(talk.database) as ledger:
        [header] = ledger.session("build-1", scope=HERE, agent="x").headers(last=1)
    assert (outcome.receipt["kind"], outcome.body) == (
        "treering.sessions.rename.v1",
        {
            "scope": HERE,
            "session_id": "build-1",
            "title": "Night",
            "event_id": header.event_id,
            "seq": 10,
        },
    )


def test_a_blank_title_is_refused(talk: CommandLine) -> None:
    assert talk("sessions", "rename", "build-1", " ", *IN).status == 2


def test_a_session_is_closed_once(talk: CommandLine) -> None:
    first = talk("sessions", "close", "build-1", *IN, "--reason", "moved")
    second = talk("sessions", "close", "build-1", *IN)

    assert first.out == ("closed session build-1; what is recorded in it later opens it again\n")
    assert second.out == "session build-1 is closed already\n"
    with treering.open(talk.database) as ledger:
        [header] = ledger.session("build-1", scope=HERE, agent="x").headers(last=1)
    assert (header.kind, header.seq, header.refs) == ("session.closed", 11, {"reason": "moved"})


def test_the_receipt_of_a_close_says_whether_it_was_one(talk: CommandLine) -> None:
    first = talk("sessions", "close", "build-1", *IN, "--json")
    second = talk("sessions", "close", "build-1", *IN, "--json")

    assert first.receipt["kind"] == "treering.sessions.close.v1"
    assert (first.receipt["closed"], first.receipt["seq"]) == (True, 11)
    assert second.body == {
        "scope": HERE,
        "session_id": "build-1",
        "closed": False,
        "event_id": None,
        "seq": None,
    }


@pytest.mark.parametrize("command", ["fork", "undo", "redo", "close"])
def test_nothing_is_done_to_a_session_that_is_not_there(talk: CommandLine, command: str) -> None:
    outcome = talk("sessions", command, "build-7", *IN)

    assert (outcome.status, outcome.err) == (
        1,
        f"error: no session build-7 in scope {HERE}\nhint: did you mean build-1?\n",
    )


def test_a_ledger_that_is_not_there_is_not_made(cli: CommandLine) -> None:
    assert cli("sessions", "undo", "build-1", *IN).status == 1
    assert not cli.database.exists()


# prune and sweep


@pytest.fixture
def old(talk: CommandLine) -> CommandLine:
    """Beside the session of two turns: a queue with an unread message."""
    with treering.open(talk.database) as ledger:
        ledger.session("queue-1", scope=HERE, agent="lyria", mode="queue").post("do it")
    return talk


def test_pruning_says_what_would_go_and_asks_for_yes(old: CommandLine) -> None:
    outcome = old("sessions", "prune", *IN, "--older-than", "90d", *later(91))

    assert outcome.status == 2
    assert outcome.out.splitlines() == [
        f"would prune 1 old session of scope {HERE}",
        "  build-1",
        "1 session kept",
        "  queue-1: messages in its inbox wait to be taken",
    ]
    assert outcome.err == (
        f"error: this removes the events of 1 session of scope {HERE}, for good\n"
        "hint: add --yes to do it\n"
    )
    assert words(old) == ["hello", "HELLO", "go on", "GO ON"]


def test_a_dry_run_prunes_nothing(old: CommandLine) -> None:
    outcome = old(
        "sessions", "prune", *IN, "--older-than", "90d", *later(91), "--dry-run", "--json"
    )

    assert (outcome.receipt["kind"], outcome.body) == (
        "treering.sessions.prune.v1",
        {
            "scope": HERE,
            "dry_run": True,
            "closed": [],
            "pruned": ["build-1"],
            "kept": {"queue-1": "unread"},
            "events_expired": 0,
            "physical": "done",
            "sessions_kept_imported": 0,
        },
    )
    assert words(old) == ["hello", "HELLO", "go on", "GO ON"]


def test_what_is_pruned_is_gone_but_for_what_is_remembered(old: CommandLine) -> None:
    outcome = old("sessions", "prune", *IN, "--older-than", "12w", *later(91), "--yes")

    assert outcome.out.splitlines() == [
        f"pruned 1 old session of scope {HERE}: 4 events removed; the bytes are gone from the file",
        "  build-1",
        "1 session kept",
        "  queue-1: messages in its inbox wait to be taken",
    ]
    assert words(old) == []
    [left] = old("sessions", "list", *IN, "--state", "pruned", "--json").receipt["sessions"]
    assert left["session_id"] == "build-1"


def test_where_nothing_is_old_nothing_is_asked(old: CommandLine) -> None:
    outcome = old("sessions", "prune", *IN, "--older-than", "90d")

    assert (outcome.status, outcome.out) == (
        0,
        f"nothing to do: no session of scope {HERE} is old enough\n",
    )


def test_a_parent_of_a_fork_that_stays_is_kept(talk: CommandLine) -> None:
    with treering.open(talk.database) as ledger:
        session = ledger.session("build-1", scope=HERE, agent="lyria")
        fork: Session = session.fork("build-2")
        with fork.turn() as turn:
            turn.user("still at it")
            outcome = talk("sessions", "prune", *IN, "--older-than", "1d", *later(2), "--dry-run")

    assert outcome.out.splitlines()[1:] == [
        "2 sessions kept",
        "  build-2: a turn is under way",
        "  build-1: a fork that stays shares its past",
    ]


@pytest.mark.parametrize("age", ["90", "soon", "", "-1d", "1y"])
def test_an_age_that_is_none_is_refused(talk: CommandLine, age: str) -> None:
    outcome = talk("sessions", "prune", *IN, f"--older-than={age}")

    assert outcome.status == 2
    assert outcome.err == (
        f"error: --older-than {age or '<empty>'} is not an age\n"
        "hint: give one such as 30m, 2h, 90d or 12w\n"
    )


def test_pruning_without_an_age_is_refused(talk: CommandLine) -> None:
    assert talk("sessions", "prune", *IN).status == 2


def test_a_sweep_closes_what_is_idle_and_prunes_what_is_old(old: CommandLine) -> None:
    idle = old("sessions", "sweep", *IN, "--idle", "10m", *later(0.01))
    [build] = old("sessions", "list", *IN, "--text", "build", "--json").receipt["sessions"]
    aged = old("sessions", "sweep", *IN, "--json", *later(91))

    assert idle.out.splitlines()[0] == f"closed 1 idle session of scope {HERE}"
    assert idle.out.splitlines()[-1] == "  queue-1: messages in its inbox wait to be taken"
    assert build["state"] == "closed"
    assert aged.receipt["kind"] == "treering.sessions.sweep.v1"
    assert (aged.receipt["pruned"], aged.receipt["kept"]) == (["build-1"], {"queue-1": "unread"})


def test_a_sweep_leaves_alone_what_is_never_to_be_swept(old: CommandLine) -> None:
    outcome = old(
        "sessions", "sweep", *IN, "--idle", "never", "--prune-after", "never", *later(900), "--json"
    )

    body: dict[str, Any] = outcome.body
    assert (body["closed"], body["pruned"], body["kept"]) == ([], [], {})


def test_a_dry_sweep_says_what_would_be_done_and_does_nothing(old: CommandLine) -> None:
    outcome = old("sessions", "sweep", *IN, "--dry-run", *later(1))

    assert outcome.out.splitlines()[0] == f"would close 1 idle session of scope {HERE}"
    states = {one["state"] for one in old("sessions", "list", *IN, "--json").receipt["sessions"]}
    assert states == {"open"}


def test_a_sweep_of_a_ledger_that_is_not_there_makes_none(cli: CommandLine) -> None:
    outcome = cli("sessions", "sweep", *IN, "--json")

    assert (outcome.status, outcome.receipt["closed"]) == (0, [])
    assert not cli.database.exists()


def test_an_imported_session_is_pruned_only_when_asked_for(talk: CommandLine) -> None:
    with treering.open(talk.database) as ledger:
        session = ledger.session("build-1", scope=HERE, agent="lyria")
        session.record("session.imported", "session imported")

    kept = talk("sessions", "sweep", *IN, "--idle", "never", *later(91))
    asked = talk(
        "sessions", "prune", *IN, "--older-than", "90d", *later(91), "--include-imported", "--yes",
        "--json",
    )  # fmt: skip

    assert kept.out.splitlines()[1:] == ["1 session kept", "  build-1: it was imported"]
    assert (asked.body["pruned"], asked.body["sessions_kept_imported"]) == (["build-1"], 0)
