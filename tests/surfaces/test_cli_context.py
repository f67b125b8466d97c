"""``treering context``: what a model sees of a session, saw of it, and what was cut."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec
import pytest

import treering
from builders import HERE, exchange
from treering.context.dialects import DIALECTS
from treering.model.messages import RepairCode
from treering.surfaces.shared.contexts import MEANINGS
from treering.surfaces.shared.times import clock

if TYPE_CHECKING:
    from postgres_server import Places
    from surfaces.command_line import CommandLine
    from surfaces.processes import Run
    from treering import Session

TOKEN: Final = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
IN: Final = ("--scope", HERE)


class Steward:
    """A contributor."""

    name = "steward"

    def extend(self, _working: object) -> str:
        """Add a word that nobody keeps."""
        return "psst"


def session_of(ledger: treering.Ledger) -> Session:
    return ledger.session("build-1", scope=HERE, agent="lyria")


@pytest.fixture
def talk(cli: CommandLine) -> CommandLine:
    """Two turns, the first with a tool that failed, and what its model was shown, twice."""
    with treering.open(cli.database) as ledger:
        session = session_of(ledger)
        with session.turn() as turn:
            turn.user("What changed?")
            turn.context(8_000)
            with turn.tool("git_log", {"since": "friday"}, call_id="call-1") as call:
                call.fail("no such branch")
            turn.context(8_000, contributors=[Steward()])
            turn.assistant("Nothing.\nAt all.")
        exchange(session, "Thanks", "Any time.")
    return cli


def asked(cli: CommandLine, *arguments: str) -> Any:
    """Return the receipt of a context."""
    return cli("context", "build-1", *IN, *arguments, "--json").receipt


# What is shown next.


def test_messages_are_told_by_who_speaks(talk: CommandLine) -> None:
    outcome = talk("context", "buil", *IN, "--max-tokens", "8000", "--reserve", "500")

    first, *rest = outcome.out.splitlines()
    tokens = asked(talk, "--max-tokens", "8000")["tokens"]
    assert first == (
        f"context of session build-1 of scope {HERE}: 6 messages, about {tokens} of 8,000 tokens,"
        " 500 kept for the answer (openai-chat)"
    )
    assert rest == [
        "",
        "user       What changed?",
        'call       call-1: git_log {"since":"friday"}',
        "result     call-1: Error: no such branch",
        "assistant  Nothing.",
        "           At all.",
        "user       Thanks",
        "assistant  Any time.",
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_is_told_alike(talk: CommandLine, dialect: str) -> None:
    outcome = talk("context", "build-1", *IN, "--max-tokens", "8000", "--dialect", dialect)

    lines = outcome.out.splitlines()
    assert lines[2] == "user       What changed?"
    assert lines[-1] == "assistant  Any time."
    assert "git_log" in outcome.out
    assert "no such branch" in outcome.out
    assert f"({dialect})" in lines[0]


@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
def test_a_tool_that_failed_is_told_where_the_dialect_says_so(
    talk: CommandLine, dialect: str
) -> None:
    outcome = talk("context", "build-1", *IN, "--max-tokens", "8000", "--dialect", dialect)

    assert "error      call-1: Error: no such branch" in outcome.out.splitlines()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_receipt_has_the_request_as_the_provider_takes_it(
    talk: CommandLine, dialect: str
) -> None:
    with treering.open(talk.database) as ledger:
        context = session_of(ledger).context(8_000, dialect=dialect, reserve_output_tokens=9)

    receipt = talk(
        *("context", "build-1", *IN, "--max-tokens=8000", "--reserve=9"),
        *("--dialect", dialect, "--json"),
    )

    assert receipt.receipt["kind"] == "treering.context.v1"
    assert receipt.body == {
        "scope": HERE,
        "session_id": "build-1",
        "private": False,
        "dialect": dialect,
        "request": json.loads(msgspec.json.encode(context.request)),
        "messages": len(context.messages),
        "tokens": context.tokens,
        "tokens_between": list(context.tokens_between),
        "accuracy": context.accuracy,
        "max_tokens": 8_000,
        "reserve_output_tokens": 9,
        "ratio": context.ratio,
        "report": [],
        "event_ids": context.event_ids,
        "contributed": [],
        "until_seq": context.until_seq,
        "digest": context.digest,
        "masked": 0,
    }


def test_looking_at_a_context_records_nothing(talk: CommandLine) -> None:
    before = talk("episodes", "replay", "build-1", *IN, "--json").receipt["count"]

    talk("context", "build-1", *IN, "--max-tokens", "8000")
    talk("context", "build-1", *IN, "--shown")

    assert talk("episodes", "replay", "build-1", *IN, "--json").receipt["count"] == before


def test_a_long_text_is_cut_for_the_eye_unless_all_is_asked_for(cli: CommandLine) -> None:
    lines = [f"line {number}" for number in range(300)]
    with treering.open(cli.database) as ledger, session_of(ledger).turn() as turn:
        turn.user("\n".join(lines))
        turn.assistant("x" * 1_000)

    short = cli("context", "build-1", *IN, "--max-tokens", "8000").out.splitlines()
    whole = cli("context", "build-1", *IN, "--max-tokens", "8000", "--full").out.splitlines()

    marked = [line.strip() for line in short if "not printed" in line]
    assert marked[1] == "… 400 characters are not printed: --full prints them …"
    assert short[2] == "user       line 0"
    assert all(line.split("  ")[-1].strip() in lines for line in short[2:20])
    assert [line[11:] for line in whole[2:302]] == lines
    assert whole[302] == f"assistant  {'x' * 1_000}"


def test_what_is_cut_for_the_eye_is_whole_in_the_receipt(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger, session_of(ledger).turn() as turn:
        turn.user("x" * 3_000)

    [message] = asked(cli, "--max-tokens", "8000")["request"]["messages"]

    assert message["content"] == "x" * 3_000


def test_a_text_cannot_steer_the_terminal(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger, session_of(ledger).turn() as turn:
        turn.user("red \x1b[31m alert")

    assert "\x1b" not in cli("context", "build-1", *IN, "--max-tokens", "8000").out


def test_a_read_only_ledger_is_looked_at(talk: CommandLine, run: Run) -> None:
    talk.database.chmod(0o400)

    outcomes = [
        run("context", "build-1", *IN, *which) for which in (("--max-tokens", "8000"), ("--shown",))
    ]

    assert [(one.returncode, one.stderr) for one in outcomes] == [(0, "")] * 2


def test_a_budget_that_nothing_fits_is_told(talk: CommandLine) -> None:
    outcome = talk("context", "build-1", *IN, "--max-tokens", "3", "--explain")

    assert outcome.status == 0
    assert "no messages: the budget is too small" in outcome.out.splitlines()
    assert f"budget_too_small: {MEANINGS['budget_too_small']}" in outcome.out.splitlines()


# Secrets.


@pytest.fixture
def secret(cli: CommandLine) -> CommandLine:
    """One turn with a token in what the user said, and in what a tool took and gave."""
    with treering.open(cli.database) as ledger, session_of(ledger).turn() as turn:
        turn.user(f"use {TOKEN}")
        turn.context(8_000)
        with turn.tool("curl", {"authorization": TOKEN}, call_id="call-1") as call:
            call.finish(f"{TOKEN} is fine")
        turn.assistant("done")
    return cli


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("form", [(), ("--full",), ("--explain",), ("--json",)])
def test_secrets_are_masked_and_said_to_be(
    secret: CommandLine, dialect: str, form: tuple[str, ...]
) -> None:
    arguments = ("--max-tokens", "8000", "--dialect", dialect, *form)

    outcome = secret("context", "build-1", *IN, *arguments)

    assert TOKEN not in outcome.out
    assert "[redacted:github:" in outcome.out
    if form == ("--json",):
        assert outcome.receipt["masked"] > 0
    else:
        assert "masked here: --private shows them as they are" in outcome.out


def test_masked_arguments_are_still_json(secret: CommandLine) -> None:
    messages = asked(secret, "--max-tokens", "8000")["request"]["messages"]

    arguments = json.loads(messages[1]["tool_calls"][0]["function"]["arguments"])

    assert arguments["authorization"].startswith("[redacted:")


@pytest.mark.parametrize("which", [("--max-tokens", "8000"), ("--shown",)])
def test_private_content_is_given_as_it_is_if_asked_for(
    secret: CommandLine, which: tuple[str, ...]
) -> None:
    text = secret("context", "build-1", *IN, *which, "--private")
    receipt = secret("context", "build-1", *IN, *which, "--private", "--json")

    assert f"use {TOKEN}" in text.out
    assert "masked" not in text.out
    assert f"use {TOKEN}" in receipt.out
    assert receipt.receipt["private"] is True


def test_what_was_shown_is_masked_too(secret: CommandLine) -> None:
    outcome = secret("context", "build-1", *IN, "--shown", "--json")

    assert TOKEN not in outcome.out
    assert [one["masked"] for one in outcome.receipt["shown"]] == [1]


# What was mended and cut.


@pytest.fixture
def long(cli: CommandLine) -> CommandLine:
    """Three turns, the first with a call that has no result."""
    with treering.open(cli.database) as ledger:
        session = session_of(ledger)
        session.record(
            "conversation.user", "first", payload={"text": "first " * 200}, event_id="e1"
        )
        session.record(
            "tool.call", "grep called", payload={"name": "grep", "call_id": "c1"}, event_id="e2"
        )
        session.record("conversation.user", "second", payload={"text": "two"}, event_id="e3")
        session.record("conversation.assistant", "ok", payload={"text": "ok"}, event_id="e4")
        session.record("conversation.user", "third", payload={"text": "three"}, event_id="e5")
    return cli


def test_every_repair_and_cut_is_told_in_words(long: CommandLine) -> None:
    outcome = long("context", "build-1", *IN, "--max-tokens", "200", "--explain")

    told = outcome.out.splitlines()
    at = told.index(f"missing_result: {MEANINGS['missing_result']}")
    assert told[at:] == [
        f"missing_result: {MEANINGS['missing_result']}",
        "  3  e2  grep called",
        f"dropped_turn: {MEANINGS['dropped_turn']}",
        "  2  e1  first",
        f"summarised: {MEANINGS['summarised']}",
        "  2  e1  first",
    ]


def test_without_explain_repairs_and_cuts_are_counted(long: CommandLine) -> None:
    outcome = long("context", "build-1", *IN, "--max-tokens", "200")

    assert outcome.out.splitlines()[-1] == "3 repairs and cuts: --explain says what and why"


def test_nothing_is_told_of_what_lies_further_back_where_nothing_does(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger, session_of(ledger).turn() as turn:
        turn.user("first " * 1_000)
        turn.assistant("ok")

    report = asked(cli, "--max-tokens", "100")["report"]

    assert [one for one in report if one["event_id"] is None] == []


def test_where_nothing_was_mended_that_is_said(talk: CommandLine) -> None:
    outcome = talk("context", "build-1", *IN, "--max-tokens", "8000", "--explain")

    assert outcome.out.splitlines()[-1] == "nothing was repaired or cut"


def test_a_receipt_explains_if_asked(long: CommandLine) -> None:
    plain = asked(long, "--max-tokens", "8000")["report"]
    explained = asked(long, "--max-tokens", "8000", "--explain")["report"]

    assert plain == [{"code": "missing_result", "event_id": "e2", "detail": None}]
    assert explained == [
        {
            "code": "missing_result",
            "event_id": "e2",
            "detail": None,
            "meaning": MEANINGS["missing_result"],
            "seq": 3,
            "type": "tool.call",
            "summary": "grep called",
        }
    ]


def test_every_code_has_words() -> None:
    assert set(MEANINGS) == set(get_args(RepairCode))


# What was shown before.


def test_what_a_model_saw_in_a_turn_is_made_again(talk: CommandLine) -> None:
    with treering.open(talk.database) as ledger:
        first, second = session_of(ledger).shown(turn=1)
    at, then = clock(first.ts_ms), clock(second.ts_ms)
    tokens = first.context.tokens, second.context.tokens
    window = "of 8,000 tokens (openai-chat)"

    outcome = talk("context", "build-1", *IN, "--shown", "--turn", "1")

    assert outcome.out.splitlines() == [
        f"what the model of session build-1 of scope {HERE} was shown:",
        "",
        f"{at} UTC in run {first.run_id}: 1 message, about {tokens[0]} {window}",
        "this is exactly what was shown of the ledger",
        "",
        "user  What changed?",
        "",
        f"{then} UTC in run {first.run_id}: 3 messages, about {tokens[1]} {window}",
        "this is exactly what was shown of the ledger",
        "",
        "user    What changed?",
        'call    call-1: git_log {"since":"friday"}',
        "result  call-1: Error: no such branch",
        "beside it, for this call alone and not kept: steward",
    ]


def test_the_receipt_of_what_was_shown_says_when_and_whether_it_is_exact(talk: CommandLine) -> None:
    with treering.open(talk.database) as ledger:
        [last] = session_of(ledger).shown()

    outcome = talk("context", "build-1", *IN, "--shown", "--json")

    assert outcome.receipt["kind"] == "treering.context.v1"
    [shown] = outcome.receipt["shown"]
    [added] = shown.pop("contributed")
    assert added["name"] == "steward"
    assert {**outcome.body, "shown": [shown]} == {
        "scope": HERE,
        "session_id": "build-1",
        "private": False,
        "count": 1,
        "shown": [
            {
                "event_id": last.event_id,
                "seq": last.seq,
                "run_id": last.run_id,
                "ts_ms": last.ts_ms,
                "exact": True,
                "dialect": "openai-chat",
                "request": last.context.request,
                "messages": 3,
                "tokens": last.context.tokens,
                "tokens_between": list(last.context.tokens_between),
                "accuracy": last.context.accuracy,
                "max_tokens": 8_000,
                "reserve_output_tokens": 0,
                "ratio": last.context.ratio,
                "report": [],
                "event_ids": last.context.event_ids,
                "until_seq": last.context.until_seq,
                "digest": last.context.digest,
                "masked": 0,
            }
        ],
    }


def test_a_run_may_be_named_by_its_beginning(talk: CommandLine) -> None:
    with treering.open(talk.database) as ledger:
        [last] = session_of(ledger).shown()
    run_id = last.run_id or ""

    for name in (run_id, run_id[:-2]):
        assert asked(talk, "--shown", "--run", name)["count"] == 2


def test_a_fork_knows_what_was_shown_in_the_past_that_it_shares(talk: CommandLine) -> None:
    with treering.open(talk.database) as ledger:
        [last] = session_of(ledger).shown()
        session_of(ledger).fork("other")
    run_id = last.run_id or ""

    outcome = talk("context", "other", *IN, "--shown", "--run", run_id[:-2], "--json")

    assert outcome.receipt["count"] == 2


def test_what_was_erased_since_is_not_exact(talk: CommandLine) -> None:
    with treering.open(talk.database) as ledger:
        [turn, _] = session_of(ledger).turns()
        ledger.redact(HERE, event_id=turn.input_event_id)

    outcome = talk("context", "build-1", *IN, "--shown", "--turn", "1")

    assert (
        "this is not exact: some of it was erased since, or would be assembled otherwise today"
        in outcome.out.splitlines()
    )


@pytest.mark.parametrize(
    ("arguments", "status", "error", "hint"),
    [
        ((), 2, "max_tokens is required",
         "pass the window of the model, as in --max-tokens 8000, or --shown"),
        (("--max-tokens", "-1"), 2, "invalid max_tokens: -1", "give a number of tokens, 0 or more"),
        (("--max-tokens", "9", "--dialect", "open"), 2, "no such dialect: open",
         "did you mean openai-chat or openai-responses?"),
        (("--max-tokens", "9", "--turn", "1"), 2, "--turn needs --shown", "add --shown"),
        (("--max-tokens", "9", "--run", "r"), 2, "--run needs --shown", "add --shown"),
        (("--shown", "--max-tokens", "9"), 2,
         "--max-tokens cannot be combined with --shown", "drop --max-tokens"),
        (("--shown", "--turn", "1", "--run", "r"), 2, "--turn and --run exclude each other",
         "drop one of the two"),
        (("--shown", "--turn", "2"), 1, "what the model was shown in turn 2 is not recorded",
         "turn.context() records it; --max-tokens shows what it would be shown now"),
        (("--shown", "--turn", "9"), 1, "no turn 9", "turns count from 1"),
        (("--shown", "--run", "nothing"), 1, f"no run nothing in scope {HERE}",
         f"treering trace list --scope {HERE} shows the runs of the scope"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_said(
    talk: CommandLine, arguments: tuple[str, ...], status: int, error: str, hint: str
) -> None:
    outcome = talk("context", "build-1", *IN, *arguments)

    assert (outcome.status, outcome.out) == (status, "")
    assert outcome.err == f"error: {error}\nhint: {hint}\n"


def test_an_unknown_session_is_suggested(talk: CommandLine) -> None:
    outcome = talk("context", "build-2", *IN, "--max-tokens", "9", "--json")

    assert (outcome.status, outcome.receipt) == (
        1,
        {
            "kind": "treering.context.v1",
            "ok": False,
            "error": f"no session build-2 in scope {HERE}",
            "code": "not_found",
            "hint": "did you mean build-1?",
        },
    )


def test_a_ledger_on_a_server_is_looked_at_and_turned_back(
    cli: CommandLine, postgres: Places
) -> None:
    url = postgres.fresh()
    with treering.open(url) as ledger, session_of(ledger).turn() as turn:
        turn.user("hello")
        turn.context(8_000)
        turn.assistant("hi")

    commands = (
        ("context", "build-1", "--max-tokens", "8000"),
        ("context", "build-1", "--shown"),
        ("sessions", "list"),
        ("sessions", "fork", "build-1", "--id", "build-2"),
        ("sessions", "show", "build-1"),
        ("sessions", "tree"),
        ("sessions", "undo", "build-1"),
        ("sessions", "redo", "build-1"),
        ("sessions", "sweep", "--dry-run"),
        ("sessions", "prune", "--older-than", "1d", "--yes", "--now-ts-ms", "1900000000000"),
    )
    outcomes = [cli.bare("--db", url, *command, *IN) for command in commands]

    assert [(one.status, one.err) for one in outcomes] == [(0, "")] * len(commands)


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_pictures_and_thoughts_are_told_by_what_they_are(cli: CommandLine, dialect: str) -> None:
    data = "iVBORw0KGgo" + "A" * 89
    with treering.open(cli.database) as ledger, session_of(ledger).turn() as turn:
        turn.user("What is it?", attachments=[{"type": "image", "data": data}])
        turn.thinking("Hm.", signature="c2lnbmVk")
        turn.tools.started("shoot", {}, call_id="c1").finish([{"type": "image", "data": data}])

    outcome = cli("context", "build-1", *IN, "--max-tokens", "8000", "--dialect", dialect)

    assert outcome.out.count("[image/png, 75 bytes]") == 2
    assert data not in outcome.out
    assert ("thinking  Hm." in outcome.out) == (dialect == "anthropic")
