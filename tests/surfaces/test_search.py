"""``treering search``: what was said and done, by its words, and how to go there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import ELSEWHERE, HERE, NOON, run_of, said
from formats.logs import claude_code, codex, pi
from surfaces.agent_homes import FOLDERS, move_in, work_in, write_log
from surfaces.talks import IN, TOKEN
from treering.embedders.static import StaticEmbedder

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine

ALL = ("--scope", "voyages")
SESSION = "harbour 1"


@pytest.fixture
def tides(cli: CommandLine) -> CommandLine:
    """Two sessions about the tide, and one elsewhere."""
    with treering.open(cli.database, guard="off") as ledger:
        session = ledger.session("harbour 1", scope=HERE, agent="lyria", title="High water")
        session.record(
            "conversation.user", "when is high tide", payload={"text": "when is high tide"}
        )
        session.record(
            "tool.call",
            "read: src/tide.py",
            payload={"name": "read", "input": {"file_path": "/srv/app/src/tide.py"}},
            refs={"call_id": "c1", "tool": "read"},
        )
        session.record("conversation.assistant", "no tide today", payload={"text": f"no {TOKEN}"})
        ledger.append(
            [
                said("a low tide is a tide", session_id="s2", ts_ms=NOON),
                said("tide of a neighbour", scope=ELSEWHERE),
                *run_of("r1", "the spring flood", session_id="s3", end="run.failed"),
            ]
        )
    return cli


def sessions(outcome: Any) -> dict[str, dict[str, Any]]:
    """Return what was found, by session."""
    return {one["session_id"]: one for one in outcome.receipt["sessions"]}


def test_hits_are_shown_by_session_with_the_command_that_shows_it(tides: CommandLine) -> None:
    outcome = tides("search", "high tide", *IN)

    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert lines[0] == "High water"
    assert lines[1].startswith("harbour 1 · lyria · ")
    assert lines[1].endswith(" UTC · 1 hit")
    assert lines[2].startswith("  20")
    assert lines[2].endswith("  conversation.user  when is high tide")
    assert lines[3:] == [
        "  → treering show 'harbour 1' --scope acme/app",
        "",
        "1 of 1 matching event in scope acme/app",
    ]
    assert tides("show", "harbour 1", *IN).status == 0


def test_a_session_without_a_title_is_told_by_its_id_once(tides: CommandLine) -> None:
    with treering.open(tides.database) as ledger:
        ledger.append([said("neap", kind="conversation.assistant", session_id="s4")])

    lines = tides("search", "neap", *IN).out.splitlines()

    assert lines[0] == "s4"
    assert lines[1].startswith("lyria · 2")
    assert sum("s4" in line for line in lines) == 2  # and the command that shows it


def test_a_word_that_is_taken_for_a_beginning_is_told(tides: CommandLine) -> None:
    told = tides("search", "neighb", "--scope", ELSEWHERE)
    receipt = tides("search", "neighb", "--scope", ELSEWHERE, "--json").body

    assert told.out.splitlines()[-1] == ("no exact match; showing results for neighb*")
    assert (receipt["count"], receipt["widened"]) == (1, ["neighb*"])
    assert tides("search", "neighbour", "--scope", ELSEWHERE, "--json").body["widened"] == []


def test_several_arguments_are_one_query_and_a_phrase_is_quoted_inside_of_one(
    tides: CommandLine,
) -> None:
    both = sessions(tides("search", "tide", *IN, "--json"))
    without = sessions(tides("search", "tide", "-low", *IN, "--json"))
    other = sessions(tides("search", "-high", '-"no such"', *IN, "--json", "--", "tide"))
    phrase = sessions(tides("search", '"low tide"', "kind:conversation.*", *IN, "--json"))
    file = tides("search", 'file:src/tide.py "no such"', *IN, "--json")
    touched = tides("search", "file:src/tide.py read", *IN, "--json")

    assert set(both) == {"harbour 1", "s2"}
    assert both["s2"]["hits"][0]["spans"] == [[6, 10], [16, 20]]
    assert set(without) == {"harbour 1"}
    assert set(other) == {"harbour 1", "s2"}
    assert other["harbour 1"]["count"] == 2
    assert set(phrase) == {"s2"}
    assert (file.status, file.body["total"]) == (0, 0)
    assert [hit["kind"] for one in touched.body["sessions"] for hit in one["hits"]] == ["tool.call"]


def test_matches_are_coloured_for_people_and_plain_elsewhere(
    tides: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tides("search", "low", *IN).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = tides("search", "low", *IN).out

    assert "\x1b" not in plain
    assert "a \x1b[1;33mlow\x1b[0m tide" in coloured


def test_other_scopes_and_secrets_are_not_shown(tides: CommandLine) -> None:
    for arguments in ((), ("--json",)):
        out = tides("search", "kind:conversation.*", *IN, *arguments).out
        assert "neighbour" not in out
        assert TOKEN not in out
        assert "[redacted:github:" in out


def test_failed_runs_are_found_only_if_they_are_asked_for(tides: CommandLine) -> None:
    assert tides("search", "flood", *IN, "--json").body["sessions"] == []
    assert set(sessions(tides("search", "flood", "--include-failed", *IN, "--json"))) == {"s3"}


def test_the_limit_counts_hits_and_says_that_there_are_more(tides: CommandLine) -> None:
    few = tides("search", "tide", "--limit", "1", *IN)

    assert few.out.splitlines()[-1] == (
        "1 of 4 matching events in scope acme/app: --limit shows more"
    )
    assert tides("search", "tide", "--limit", "0", *IN, "--json").body["count"] == 1


def test_nothing_found_says_what_may_help(tides: CommandLine) -> None:
    outcome = tides("search", "whale", *IN)

    assert outcome.status == 0
    assert outcome.out.startswith("nothing in scope acme/app matches: whale\n")
    unknown = tides("search", "whale", "--scope", "acme/nowhere")
    assert unknown.out.startswith("nothing is recorded in scope acme/nowhere: check its name\n")
    for word in ("--scope", "deploy*", "--include-failed", "treering doctor"):
        assert word in outcome.out


@pytest.mark.parametrize(
    ("query", "absent"),
    [
        ("whale", "no event has any of the words"),
        ('"tide whale"', "no event has the words side by side"),
        ("whale kind:tool.call", "no event that passes the filters has any of the words"),
    ],
)
def test_nothing_found_says_what_is_absent(tides: CommandLine, query: str, absent: str) -> None:
    assert absent in tides("search", query, *IN).out


def test_partial_matches_are_not_counted_among_the_exact_ones(cli: CommandLine) -> None:
    for number, text in enumerate(["the red lamp is lit", "a red lamp", "the red lamp"]):
        cli.append(scope="acme/app", event_id=f"e{number}", summary=text)

    lines = cli("search", "red lamp lit", *IN).out.splitlines()

    assert "1 of 1 matching event in scope acme/app" in lines
    assert "2 more events with most of the words, marked as partial" in lines


def test_without_a_ledger_nothing_is_found_and_nothing_is_made(cli: CommandLine) -> None:
    outcome = cli("search", "whale", *IN)

    assert (outcome.status, outcome.err) == (0, f"note: no ledger at {cli.database} yet\n")
    assert cli("search", "whale", *IN, "--json").body["sessions"] == []
    assert not cli.database.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["colour:red"], "colour: is not an operator"),
        (["before:never"], "before:never is not a time"),
        ([" "], "no words to search for"),
        (["..."], "the query has no words"),
        (["--limt", "5", "tide"], "no such option '--limt'"),
        (["--limit", "-x", "tide"], "invalid value for '--limit': '-x' is not a valid integer"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_with_a_hint(
    tides: CommandLine, words: list[str], message: str
) -> None:
    outcome = tides("search", *words, *IN, "--json")

    assert (outcome.status, outcome.receipt["error"]) == (2, message)
    assert outcome.receipt["hint"]


def test_imported_sessions_come_with_the_command_that_resumes_them(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = move_in(tmp_path / "home", monkeypatch)
    logs = {agent: write_log(home, agent) for agent in FOLDERS}
    for log in logs.values():
        work_in(tmp_path / "the works", log)
    assert cli("import", *ALL).status == 0

    found = sessions(cli("search", "kind:conversation.user", "--limit", "50", *ALL, "--json"))
    resumed = {one["imported_from"]: one["resume"] for one in found.values()}

    works = f"cd '{tmp_path / 'the works'}' &&"
    lighthouse = f"{works} claude --resume {claude_code.SESSION}"
    assert resumed["claude-code"] == lighthouse
    assert resumed["codex"] == f"{works} codex resume {codex.SESSION}"
    assert resumed["gemini"] == "gemini --resume s1"
    # pi and OpenClaw have a session of the same id here, which is then one session.
    assert pi.SESSION in found
    assert f"  → {lighthouse}\n" in cli("search", "lamp", *ALL).out

    logs["claude-code"].unlink()
    gone = sessions(cli("search", "lamp", *ALL, "--json"))[claude_code.SESSION]

    assert gone["resume"] is None
    assert gone["remark"].startswith("its log is gone, so claude-code cannot resume it")
    assert gone["remark"].endswith(
        f"treering export {claude_code.SESSION} --scope voyages --format claude-code"
    )


@pytest.mark.parametrize("agent", ["pi", "openclaw"])
def test_pi_resumes_by_its_log_and_openclaw_not_at_all(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    log = write_log(move_in(tmp_path / "my home", monkeypatch), agent)
    work_in(tmp_path / "works", log)
    assert cli("import", *ALL).status == 0

    (one,) = cli("search", "tide", *ALL, "--json").body["sessions"]

    assert one["imported_from"] == agent
    expected = f"cd {tmp_path / 'works'} && pi --session '{log}'"
    assert one["resume"] == (expected if agent == "pi" else None)


def test_what_cannot_be_resumed_here_says_why(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = move_in(tmp_path / "home", monkeypatch)
    log = write_log(home, "claude-code")
    write_log(home, "codex")
    work_in(tmp_path / "works", log)
    text = log.read_text().replace(claude_code.SESSION, "lamp-works")
    log.with_name("lamp-works.jsonl").write_text(text)
    log.unlink()
    assert cli("import", *ALL).status == 0

    found = sessions(cli("search", "kind:conversation.user", *ALL, "--json"))
    told = cli("search", "lamp", *ALL).out

    assert found["lamp-works"]["resume"] is None
    assert found[codex.SESSION]["resume"] is None
    assert found[codex.SESSION]["remark"] == (
        "/srv/harbour does not exist here, so codex cannot resume it"
    )
    assert "  claude-code can only resume UUIDs, and lamp-works is not one\n" in told
    assert "--resume" not in told


def test_all_scopes_are_searched_where_the_folder_is_of_no_known_project(
    tides: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "nowhere"
    folder.mkdir()
    monkeypatch.chdir(folder)

    guessed = tides("search", "tide", "--json").body
    stated = tides("search", "tide", "--all-scopes", "--json").body
    shown = tides("search", "tide").out
    listed = tides("sessions", "list", "--json").body
    counted = tides("stats", "--days", "3660", "--json").body

    assert guessed["scope"] is None
    assert {one["scope"] for one in guessed["sessions"]} == {HERE, ELSEWHERE}
    assert guessed["sessions"] == stated["sessions"]
    assert "in all scopes" in shown
    assert listed["scope"] is None
    assert {one["scope"] for one in listed["sessions"]} == {HERE, ELSEWHERE}
    assert counted["scope"] is None
    assert tides("sessions", "list").out.splitlines()[-1].endswith(" of all scopes")
    assert tides("stats").out.startswith("all scopes, ")


@pytest.mark.parametrize(
    "words",
    [
        ("show", SESSION),
        ("sessions", "show", SESSION),
        ("sessions", "tree", SESSION),
        ("context", SESSION, "--max-tokens", "2000"),
        ("export", SESSION, "--format", "markdown"),
        ("stats", "--session", SESSION, "--since", "2026-01-01", "--until", "2030-01-01"),
    ],
)
def test_a_session_is_found_in_any_scope_where_the_folder_is_of_no_known_project(
    tides: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    folder = tmp_path / "nowhere"
    folder.mkdir()
    named = tides(*words, *IN).out
    monkeypatch.chdir(folder)

    guessed = tides(*words)

    assert (guessed.status, guessed.out) == (0, named)


@pytest.mark.parametrize("begun", [["tidal 10"], ["tidal 10", "tidal 11"]])
def test_a_session_is_found_in_any_scope_although_its_id_begins_that_of_another(
    tides: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: list[str]
) -> None:
    with treering.open(tides.database) as ledger:
        ledger.append([said("neap", scope=ELSEWHERE, session_id="tidal 1")])
        ledger.append([said("spring", session_id=longer) for longer in begun])
    folder = tmp_path / "nowhere"
    folder.mkdir()
    monkeypatch.chdir(folder)

    shown = tides("show", "tidal 1")
    missing = tides("show", "tidal 1", "--scope", "acme/nowhere")

    assert shown.status == 0
    assert "neap" in shown.out
    assert f"scope {ELSEWHERE} has it" in missing.err


@pytest.mark.parametrize(
    "words",
    [
        ("tail",),
        ("trace", "list"),
        ("tools", "list"),
        ("tools", "stats"),
        ("sessions", "tree"),
        ("file-history", "a.py"),
        ("recall", "tide"),
    ],
)
def test_where_nothing_is_recorded_the_answer_says_how_to_list_all_scopes(
    tides: CommandLine, words: tuple[str, ...]
) -> None:
    lines = tides(*words, "--scope", "acme/nowhere").out.splitlines()

    assert lines[0].endswith(": check its name")
    assert lines[1:] == ["  treering stats --by scope lists all scopes"]


def test_a_named_scope_is_searched_alone_and_matches_elsewhere_are_counted(
    tides: CommandLine,
) -> None:
    tides("search", "tide", "--all-scopes")

    named = tides("search", "tide", *IN, "--json").body
    shown = tides("search", "tide", *IN).out
    both = tides("search", "tide", *IN, "--all-scopes")

    assert (named["scope"], named["elsewhere"]) == (HERE, 1)
    assert {one["scope"] for one in named["sessions"]} == {HERE}
    assert "1 matching event in other scopes: --all-scopes shows them" in shown.splitlines()
    assert both.status == 2


def test_a_partial_match_is_marked(tides: CommandLine) -> None:
    lines = tides("search", "what happened to the low tide", *IN).out.splitlines()

    assert [line for line in lines if "(partial)  a low tide" in line]


def test_by_meaning_not_every_word_has_to_be_there(tides: CommandLine) -> None:
    question = ("when", "is", "the", "high", "tide", "expected", "tomorrow")
    by_words = tides("search", *question, *IN, "--json").body
    hybrid = tides("search", *question, *IN, "--mode", "hybrid", "--json").body
    told = tides("search", *question, *IN, "--mode", "hybrid").out

    assert by_words["mode"] == "words"
    assert all(hit["partial"] for one in by_words["sessions"] for hit in one["hits"])
    assert hybrid["mode"] == "hybrid"
    best = hybrid["sessions"][0]
    assert best["session_id"] == "harbour 1"
    assert {"words", "vector", "neighbours", "session"} <= set(best["hits"][0]["why"])
    assert told.splitlines()[0] == "High water"
    assert "  → treering show 'harbour 1' --scope acme/app" in told.splitlines()


def test_a_search_by_meaning_that_finds_nothing_says_what_to_try(tides: CommandLine) -> None:
    semantic = tides("search", "zeppelin", "mortgages", *IN, "--mode", "semantic")
    by_words = tides("search", "zeppelin", *IN)
    unknown = tides("search", "tide", *IN, "--mode", "guess")

    assert semantic.status == 0
    assert "ask in other words, or search words with --mode words" in semantic.out
    assert "--mode hybrid" in by_words.out
    assert unknown.status == 2


def test_a_search_by_meaning_says_when_another_embedder_made_the_vectors(
    tides: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("search", "tide", "--scope", HERE, "--mode", "hybrid")
    before = tides(*asked, "--json").body["vectors_missing"]
    monkeypatch.setattr(StaticEmbedder, "name", "another table")

    after = tides(*asked, "--json").body["vectors_missing"]

    assert before == 0
    assert after > 0
    assert "run treering rebuild --vectors" in tides(*asked).out
