"""``treering sessions list``, ``show`` and ``tree``: sessions looked at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

import treering
from builders import ELSEWHERE, HERE, run_of, said
from treering.model.views import Spent
from treering.surfaces.cli.sessions import read as trees
from treering.surfaces.shared.times import ago, clock

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine
    from surfaces.processes import Run
    from treering import Ledger

TOKEN: Final = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
IN: Final = ("--scope", HERE)
MINUTE: Final = 60_000


def talk(ledger: Ledger, session_id: str, *texts: str, **fields: Any) -> treering.Session:
    """Record a turn for each text, answered with its words turned to capitals."""
    session = ledger.session(session_id, **{"scope": HERE, "agent": "lyria", **fields})
    for text in texts:
        with session.turn(model="gpt-5") as turn:
            turn.user(text)
            turn.assistant(text.upper())
    return session


@pytest.fixture
def talks(cli: CommandLine) -> CommandLine:
    """Three sessions, a fork of the first and a fork of that; and one of another scope."""
    with treering.open(cli.database) as ledger:
        first = talk(ledger, "build-1", "hello", "go on", user="jo", title="Nightly build")
        fork = first.fork("build-1-b", title="Without a lock")
        talk(ledger, "build-1-b", "try")
        fork.fork("build-1-c")
        talk(ledger, "night-2", "look at the logs", agent="owl").close("done")
        talk(ledger, "elsewhere-1", "hush", scope=ELSEWHERE)
    return cli


def asked(cli: CommandLine) -> Ledger:
    return treering.open(cli.database)


def as_json(value: Any) -> Any:
    """Return a value as a program reads it."""
    return json.loads(msgspec.json.encode(value))


def ids(cli: CommandLine, *arguments: str) -> list[str]:
    """Return the sessions that a list gives."""
    receipt = cli("sessions", "list", *IN, *arguments, "--json").receipt
    return [one["session_id"] for one in receipt["sessions"]]


# list


def test_sessions_are_listed_the_last_written_to_first(talks: CommandLine) -> None:
    outcome = talks("sessions", "list", *IN)

    assert outcome.out.splitlines() == [
        "night-2    closed  just now  owl    gpt-5  7 events  -                look at the logs",
        "build-1-c  open    just now  lyria  -      1 event   build-1-b at 14  -",
        "build-1-b  open    just now  lyria  gpt-5  5 events  build-1 at 9     Without a lock",
        "build-1    open    just now  lyria  gpt-5  9 events  -                Nightly build",
        f"4 sessions of scope {HERE}",
    ]


def test_where_nothing_was_forked_nothing_is_said_of_forks(talks: CommandLine) -> None:
    outcome = talks("sessions", "list", *IN, "--agent", "owl")

    assert outcome.out.splitlines()[0] == (
        "night-2  closed  just now  owl  gpt-5  7 events  look at the logs"
    )


def test_a_narrow_terminal_keeps_ids_states_and_titles(
    talks: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", "50")):
        monkeypatch.setenv(name, value)

    outcome = talks("sessions", "list", *IN)

    assert outcome.out.splitlines()[:2] == [
        "session    state   written to  title",
        "night-2    closed  just now    look at the logs",
    ]


def test_the_receipt_of_a_list_says_what_was_asked_and_all_of_each(talks: CommandLine) -> None:
    with asked(talks) as ledger:
        [expected] = ledger.sessions(HERE, text="nightly").items

    outcome = talks("sessions", "list", *IN, "--text", "NIGHTLY", "--state", "open", "--json")

    assert outcome.receipt["kind"] == "treering.sessions.list.v1"
    assert outcome.body == {
        "scope": HERE,
        "ledger": str(talks.database),
        "filters": {
            "agent": None,
            "states": ["open"],
            "since_ms": None,
            "until_ms": None,
            "text": "NIGHTLY",
            "subagents": False,
            "limit": 20,
        },
        "count": 1,
        "sessions": [
            {
                "session_id": "build-1",
                "scope": HERE,
                "title": "Nightly build",
                "state": "open",
                "mode": "main",
                "agent": "lyria",
                "user": "jo",
                "model": "gpt-5",
                "created_ms": expected.created_ms,
                "updated_ms": expected.updated_ms,
                "event_count": 9,
                "parent": None,
                "forked_seq": None,
                "spawned_by": None,
                "imported_from": None,
                "has_content": True,
            }
        ],
        "has_more": False,
        "next_cursor": None,
    }


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), ["night-2", "build-1-c", "build-1-b", "build-1"]),
        (("--agent", "owl"), ["night-2"]),
        (("--state", "closed"), ["night-2"]),
        (("--state", "closed", "--state", "running"), ["night-2"]),
        (("--text", "lock"), ["build-1-b"]),
        (("--text", "LD-1-"), ["build-1-c", "build-1-b"]),
        (("--since", "1h"), ["night-2", "build-1-c", "build-1-b", "build-1"]),
        (("--until", "1h"), []),
        (("--agent", "nobody"), []),
    ],
)
def test_a_list_is_narrowed_down(
    talks: CommandLine, arguments: tuple[str, ...], found: list[str]
) -> None:
    assert ids(talks, *arguments) == found


def test_a_long_list_says_how_to_go_on(talks: CommandLine) -> None:
    first = talks("sessions", "list", *IN, "--limit", "3").out.splitlines()

    *_, cursor = first[-1].split()

    assert first[-1] == (
        f"3 sessions of scope {HERE}, and more: run it again with --cursor {cursor}"
    )
    assert ids(talks, "--limit", "3", "--cursor", cursor) == ["build-1"]


def test_an_age_is_told_as_a_time_where_a_list_goes_on(talks: CommandLine) -> None:
    last = talks("sessions", "list", *IN, "--limit", "1", "--since", "2h").out.splitlines()[-1]

    words = last.split()

    assert words[words.index("--since") + 1].isdigit()


def test_a_scope_without_sessions_says_what_to_do(talks: CommandLine) -> None:
    outcome = talks("sessions", "list", "--scope", "acme/none")

    assert outcome.status == 0
    assert outcome.out.splitlines() == [
        "no sessions are recorded in scope acme/none (pruned ones are left out): check its name",
        "  treering stats --by scope lists all scopes",
        'an agent starts one by recording in it: ledger.session("s1", scope="acme/none", …)',
    ]


def test_a_list_that_filters_leave_empty_says_so(talks: CommandLine) -> None:
    assert talks("sessions", "list", *IN, "--agent", "nobody").out == (
        f"no sessions of scope {HERE} match (pruned ones are left out):"
        " drop a filter, or check the names\n"
    )


def test_a_list_of_a_ledger_that_is_not_there_makes_none(cli: CommandLine) -> None:
    outcome = cli("sessions", "list", *IN, "--json")

    assert (outcome.status, outcome.receipt["ledger"], outcome.receipt["sessions"]) == (0, None, [])
    assert not cli.database.exists()


def test_secrets_in_titles_are_masked(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        talk(ledger, "s1", "hi", title=f"use {TOKEN}")

    for arguments in (("list",), ("tree", "s1"), ("show", "s1")):
        for form in ((), ("--json",)):
            outcome = cli("sessions", *arguments, *IN, *form)
            assert TOKEN not in outcome.out
            assert "use [redacted:github:" in outcome.out


def test_a_title_cannot_steer_the_terminal(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        talk(ledger, "s1", "hi", title="red \x1b[31m\nalert")

    for arguments in (("list",), ("tree", "s1"), ("show", "s1")):
        assert "\x1b" not in cli("sessions", *arguments, *IN).out


def test_a_read_only_ledger_is_listed_shown_and_drawn(talks: CommandLine, run: Run) -> None:
    talks.database.chmod(0o400)
    before = talks.database.stat().st_mtime_ns

    outcomes = [run("sessions", *one, *IN) for one in (("list",), ("show", "build-1"), ("tree",))]
    refused = run("sessions", "undo", "build-1", *IN, "--json")

    assert [(one.returncode, one.stderr) for one in outcomes] == [(0, "")] * 3
    assert refused.returncode == 1
    assert talks.database.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("age_ms", "told"),
    [
        (0, "just now"),
        (59_999, "just now"),
        (MINUTE, "1 min ago"),
        (59 * MINUTE, "59 min ago"),
        (60 * MINUTE, "1 h ago"),
        (24 * 60 * MINUTE, "1 day ago"),
        (30 * 24 * 60 * MINUTE, "30 days ago"),
        (31 * 24 * 60 * MINUTE, "2026-08-21"),
        (-MINUTE, "2026-09-21"),
    ],
)
def test_times_are_told_as_people_say_them(age_ms: int, told: str) -> None:
    now = 1_790_000_000_000

    assert ago(now - age_ms, now_ms=now) == told


# show


def test_a_session_is_shown_with_its_turns_and_what_is_in_force(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        session = talk(ledger, "s1", "one", "two", title="Build", user="jo")
        with session.turn() as turn:
            turn.user("three")
            with turn.tool("grep", {"q": "x"}) as call:
                call.finish("y")
            turn.emit("goal.added", {"id": "g1", "description": "make it green"})
            turn.emit("schedule.added", {"id": "c1", "schedule_type": "cron", "prompt": "look"})
            turn.assistant("ok")
            turn.emit(
                "usage.reported",
                {"model": "gpt-5", "provider": "openai", "input_tokens": 900, "output_tokens": 100},
            )
        ledger.append(run_of("r4", "four", end="run.failed"))
        talk(ledger, "s1", "five")
        session.undo()
        session.fork("s1-b", title="Other way")
        [*turns] = session.turns()
        at = [clock(turn.started_ms) for turn in turns]
        opened, written = clock(session.outline().created_ms), clock(session.outline().updated_ms)
        cost = session.usage().total.cost_usd

    outcome = cli("sessions", "show", "s1", *IN, "--last", "4")

    assert outcome.out.splitlines() == [
        "session s1 open: Build",
        f"scope {HERE}, agent lyria, user jo, model gpt-5, mode main",
        f"opened {opened} UTC, last written to {written} (just now)",
        "26 events: 5 turns, 1 tool call",
        "",
        "last 4 turns, 1 before them: --last shows more",
        f"  2  ended   {at[1]}                        two",
        f"  3  ended   {at[2]}  1 tool  1,000 tokens  three",
        f"  4  failed  {at[3]}                        four",
        f"  5  undone  {at[4]}                        five",
        "",
        "goals",
        "  g1  active  make it green",
        "",
        "schedules",
        "  c1  cron  look",
        "",
        "usage",
        f"  gpt-5 (openai)  1 call  900 in  100 out  ${cost:.4f}",
        "",
        "forks",
        "  s1-b  open  at 26  Other way",
    ]


def test_the_receipt_of_a_session_has_all_that_the_ledger_tells(talks: CommandLine) -> None:
    with asked(talks) as ledger:
        session = ledger.session("build-1", scope=HERE, agent="lyria")
        [_, turn] = session.turns()
        expected = as_json(
            {
                "scope": HERE,
                "session": session.outline(),
                "counts": session.summary(),
                "turns": [{"number": 2, **msgspec.structs.asdict(turn)}],
                "turns_left_out": 1,
                "goals": [],
                "schedules": [],
                "memories": [],
                "usage": session.usage(),
                "subagents": 0,
                "subagent_usage": Spent(),
                "forks": [ledger.session("build-1-b", scope=HERE, agent="lyria").outline()],
                "masked": 0,
            }
        )

    outcome = talks("sessions", "show", "build-1", *IN, "--last", "1", "--json")

    assert outcome.receipt["kind"] == "treering.sessions.show.v1"
    assert outcome.body == expected


def test_turns_of_a_fork_are_numbered_with_those_that_it_shares(talks: CommandLine) -> None:
    turns = talks("sessions", "show", "build-1-c", *IN, "--json").receipt["turns"]

    assert [(one["number"], one["prompt"]) for one in turns] == [
        (1, "hello"),
        (2, "go on"),
        (3, "try"),
    ]


def test_a_fork_says_what_it_was_forked_from(talks: CommandLine) -> None:
    lines = talks("sessions", "show", "build-1-b", *IN).out.splitlines()

    assert lines[2] == "forked from build-1 at 9"
    assert lines[4] == "14 events (5 of its own): 3 turns, 0 tool calls"


def test_a_beginning_that_no_other_session_has_names_it(talks: CommandLine) -> None:
    outcome = talks("sessions", "show", "nigh", *IN, "--json")

    assert outcome.receipt["session"]["session_id"] == "night-2"


def test_an_id_goes_before_the_beginnings_of_others(talks: CommandLine) -> None:
    outcome = talks("sessions", "show", "build-1", *IN, "--json")

    assert outcome.receipt["session"]["session_id"] == "build-1"


@pytest.mark.parametrize(
    ("name", "status", "code", "error", "hint"),
    [
        ("build", 1, "not_found", "build is ambiguous: 3 sessions match",
         "type more of the id: build-1, build-1-b, build-1-c"),
        ("night-3", 1, "not_found", f"no session night-3 in scope {HERE}",
         "did you mean night-2?"),
        ("nig", 1, "not_found", f"no session nig in scope {HERE}", "did you mean night-2?"),
        ("zzz", 1, "not_found", f"no session zzz in scope {HERE}",
         f"treering sessions list --scope {HERE} shows them"),
        (" ", 2, "invalid", "session is required", "name the session before the options"),
    ],
)  # fmt: skip
def test_a_session_that_is_not_found_is_suggested(
    talks: CommandLine, name: str, status: int, code: str, error: str, hint: str
) -> None:
    outcome = talks("sessions", "show", name, *IN, "--json")

    assert (outcome.status, outcome.receipt) == (
        status,
        {
            "kind": "treering.sessions.show.v1",
            "ok": False,
            "error": error,
            "code": code,
            "hint": hint,
        },
    )


def test_a_session_of_another_scope_is_not_found_and_its_scope_is_named(talks: CommandLine) -> None:
    outcome = talks("sessions", "show", "elsewhere-1", *IN)

    assert outcome.status == 1
    assert outcome.err == (
        f"error: no session elsewhere-1 in scope {HERE}\n"
        f"hint: scope {ELSEWHERE} has it: add --scope {ELSEWHERE}\n"
    )


def test_no_session_of_an_empty_scope_is_known(talks: CommandLine) -> None:
    outcome = talks("sessions", "show", "nobody-1", "--scope", "acme/none")

    assert outcome.err == (
        "error: scope acme/none has no sessions\nhint: check its name, and --db\n"
    )


# tree


def test_a_family_is_drawn_from_its_oldest_session_down(talks: CommandLine) -> None:
    with asked(talks) as ledger:
        ledger.session("build-1", scope=HERE, agent="lyria").fork("build-1-d")

    outcome = talks("sessions", "tree", "build-1-c", *IN)

    assert outcome.out.splitlines() == [
        "build-1 open  Nightly build",
        "|-- build-1-b open forked at 9  Without a lock",
        "|   `-- build-1-c open forked at 14",
        "`-- build-1-d open forked at 9",
        f"4 sessions of 1 family of scope {HERE}",
    ]


def test_a_terminal_has_lines_drawn(talks: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")

    outcome = talks("sessions", "tree", *IN)

    assert outcome.out.splitlines()[1:3] == [
        "└── build-1-b open forked at 9  Without a lock",
        "    └── build-1-c open forked at 14",
    ]


def test_without_a_session_all_families_with_forks_are_drawn(talks: CommandLine) -> None:
    with asked(talks) as ledger:
        ledger.session("night-2", scope=HERE, agent="owl").fork("night-2-b")

    outcome = talks("sessions", "tree", *IN, "--json")

    assert outcome.receipt["kind"] == "treering.sessions.tree.v1"
    assert [(one["depth"], one["session_id"]) for one in outcome.receipt["sessions"]] == [
        (0, "night-2"),
        (1, "night-2-b"),
        (0, "build-1"),
        (1, "build-1-b"),
        (2, "build-1-c"),
    ]


def test_where_there_are_too_many_families_the_others_are_told_of(
    talks: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "FAMILIES_MAX", 1)
    with asked(talks) as ledger:
        ledger.session("night-2", scope=HERE, agent="owl").fork("night-2-b")

    drawn = talks("sessions", "tree", *IN)
    receipt = talks("sessions", "tree", *IN, "--json").receipt

    assert drawn.out.splitlines()[0].startswith("night-2 ")
    assert drawn.out.splitlines()[-1] == (
        "only the families written to last are shown: name a session to see its own"
    )
    assert (receipt["is_cut"], receipt["count"]) == (True, 2)


def test_the_receipt_of_a_tree_has_each_session_at_a_glance(talks: CommandLine) -> None:
    with asked(talks) as ledger:
        outlines = [
            ledger.session(name, scope=HERE, agent="lyria").outline()
            for name in ("build-1", "build-1-b", "build-1-c")
        ]

    outcome = talks("sessions", "tree", "build-1", *IN, "--json")

    assert outcome.body == as_json(
        {
            "scope": HERE,
            "ledger": str(talks.database),
            "count": 3,
            "is_cut": False,
            "sessions": [
                {"depth": depth, **msgspec.structs.asdict(one)}
                for depth, one in enumerate(outlines)
            ],
        }
    )


def test_a_scope_without_forks_says_how_to_make_one(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append([said()])

    assert cli("sessions", "tree", *IN).out == (
        f"scope {HERE} has no forks or subagents; treering sessions fork SESSION makes a fork\n"
    )


def test_forks_of_forks_are_drawn_to_a_depth_and_numbered_beyond(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "DEPTH_DRAWN_MAX", 2)
    with treering.open(cli.database) as ledger:
        session = talk(ledger, "s0", "hi")
        for number in range(1, 5):
            session = session.fork(f"s{number}")

    assert cli("sessions", "tree", "s0", *IN).out.splitlines()[2:5] == [
        "    `-- s2 open forked at 6",
        "    `-- s3 open depth 3 forked at 7",
        "    `-- s4 open depth 4 forked at 8",
    ]


def test_a_family_of_a_ledger_that_is_not_there_is_not_found(cli: CommandLine) -> None:
    assert cli("sessions", "tree", "s1", *IN).status == 1
    assert cli("sessions", "tree", *IN).status == 0
    assert not cli.database.exists()


def test_secrets_in_goals_schedules_and_prompts_are_masked(cli: CommandLine) -> None:
    with treering.open(cli.database, guard="off") as ledger:
        session = talk(ledger, "s1", f"use {TOKEN}")
        goal = {"id": "g1", "description": f"get rid of {TOKEN}", "progress": {"token": TOKEN}}
        session.record("goal.added", "goal", payload=goal)
        schedule = {"id": "c1", "prompt": f"try {TOKEN}"}
        session.record("schedule.added", "schedule", payload=schedule)

    text = cli("sessions", "show", "s1", *IN)
    receipt = cli("sessions", "show", "s1", *IN, "--json")

    assert TOKEN not in text.out + receipt.out
    assert text.out.splitlines()[-1] == "secrets in what is shown are masked"
    assert receipt.receipt["masked"] == 5


def test_a_list_leaves_out_what_subagents_did_unless_asked(talks: CommandLine) -> None:
    with treering.open(talks.database) as ledger:
        child = ledger.session(
            "build-1/vega", scope=HERE, agent="vega", spawned_by="build-1", spawned_call="c1"
        )
        child.record("ops.decision", "review it")
        assert (
            ledger.session("build-1/vega", scope=HERE, agent="vega").settings.spawned_call == "c1"
        )

    assert "vega" not in talks("sessions", "list", *IN).out
    assert "build-1/vega" in talks("sessions", "list", *IN, "--subagents").out
    # The beginning of an id means the session itself, not those that were begun in it.
    assert talks("sessions", "show", "build-1/v", *IN).status == 0


def test_a_tree_shows_the_subagents_of_each_session(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        parent = ledger.session("main", scope="acme/app", agent="lyria")
        parent.record("conversation.user", "hi", payload={"text": "hi"})
        fork = parent.fork("other")
        for name, above in (("main/one", "main"), ("main/one/two", "main/one"), ("o", "other")):
            agent = ledger.session(name, scope="acme/app", agent="scout", spawned_by=above)
            agent.record("conversation.user", "look", payload={"text": "look"})

    drawn = cli("sessions", "tree", *IN).out.splitlines()
    of_one = cli("sessions", "tree", "main/one/two", *IN).out.splitlines()

    assert fork.session_id == "other"
    assert [line.partition("-- ")[0] for line in drawn[1:-1]] == ["|", "|   `", "`", "    `"]
    assert drawn[0].startswith("main ")
    sessions = ("other", "o", "main/one", "main/one/two")
    for session, line in zip(sessions, drawn[1:-1], strict=True):
        assert f"-- {session} " in line
    assert drawn[3].endswith("subagent scout  look")
    assert of_one == drawn


def test_the_cost_of_subagents_is_added_and_told_apart(cli: CommandLine) -> None:
    used = {"model": "gpt-5", "provider": "openai", "input_tokens": 100, "output_tokens": 10}
    with treering.open(cli.database) as ledger:
        for name, above in (("main", None), ("one", "main"), ("two", "one"), ("other", None)):
            session = ledger.session(name, scope="acme/app", agent="lyria", spawned_by=above)
            session.record("usage.reported", "used", payload=used, refs=used)

    receipt = cli("sessions", "show", "main", *IN, "--json").receipt
    lines = cli("sessions", "show", "main", *IN).out.splitlines()

    assert (receipt["usage"]["total"]["calls"], receipt["subagents"]) == (1, 2)
    assert receipt["subagent_usage"]["input_tokens"] == 200
    assert any(line.startswith("  2 subagents ") and "2 calls  200 in" in line for line in lines)
    assert any(line.startswith("  with subagents") and "3 calls  300 in" in line for line in lines)
