"""Where sessions of logs go: by their project, by name, and nowhere else ever after."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import treering
from capture.intake_logs import VOYAGES, add, claude_log, lines, said_in, session_in, write
from capture.test_projects import clone, git
from formats.logs import codex, pi
from formats.logs.claude_code import OTHER_SESSION, SESSION, Log
from treering.app import import_logs
from treering.capture.projects import scope_of

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository that was cloned from acme/lamp."""
    return clone(tmp_path / "lamp", "git@github.com:acme/lamp.git")


def log_in(cwd: Path | str, *said: str, **shared: Any) -> list[Any]:
    return claude_log(*said, cwd=str(cwd), **shared).lines


def test_a_session_goes_to_the_scope_of_its_repository(
    here: Ledger, tmp_path: Path, project: Path
) -> None:
    (project / "src").mkdir()
    path = write(tmp_path / "a.jsonl", log_in(project / "src", "one"))

    assert set(import_logs(here, [path]).by_scope) == {"acme/lamp"}


def test_a_session_in_a_work_tree_goes_to_its_repository(
    here: Ledger, tmp_path: Path, project: Path
) -> None:
    git(project, "commit", "--allow-empty", "--message", "begin")
    git(project, "worktree", "add", str(tmp_path / "tree"))
    path = write(tmp_path / "a.jsonl", log_in(tmp_path / "tree", "one"))

    assert set(import_logs(here, [path]).by_scope) == {"acme/lamp"}


@pytest.mark.parametrize(
    ("cwd", "scope"), [("/gone/since/Lamp", "lamp"), ("/", "claude-code"), ("", "claude-code")]
)
def test_a_session_whose_folder_is_gone_or_unknown_goes_somewhere_sensible(
    here: Ledger, tmp_path: Path, cwd: str, scope: str
) -> None:
    path = write(tmp_path / "a.jsonl", log_in(cwd, "one"))

    assert set(import_logs(here, [path]).by_scope) == {scope}


@pytest.mark.parametrize(
    ("remote", "scope"),
    [
        ("git@github.com:acme/lamp.git", "acme/lamp"),
        ("https://github.com/Acme/Lamp", "acme/lamp"),
        ("nowhere", "harbour"),
    ],
)
def test_a_rollout_whose_folder_is_gone_goes_to_the_repository_that_it_names(
    here: Ledger, tmp_path: Path, remote: str, scope: str
) -> None:
    stated = codex.opened(cwd="/gone/since/harbour", git={"repository_url": remote})
    path = write(tmp_path / codex.PATH, [stated, *codex.turn("one", "about one")])

    assert set(import_logs(here, [path]).by_scope) == {scope}


def test_a_repository_that_is_there_goes_before_the_one_that_a_rollout_names(
    here: Ledger, tmp_path: Path, project: Path
) -> None:
    stated = codex.opened(cwd=str(project), git={"repository_url": "git@x:other/one.git"})
    path = write(tmp_path / codex.PATH, [stated, *codex.turn("one", "about one")])

    assert set(import_logs(here, [path]).by_scope) == {"acme/lamp"}


@pytest.mark.parametrize("place", [".openclaw/kept", "claw/agents/lyria/sessions"])
def test_a_log_that_lies_with_openclaws_is_openclaws(
    here: Ledger, tmp_path: Path, place: str
) -> None:
    folder = tmp_path / place
    path = write(folder / f"{pi.SESSION}.jsonl", [pi.header(cwd="/srv"), pi.said(1, "hi")])
    other = write(folder / "rollout.jsonl", [codex.opened(), *codex.turn("one", "about one")])
    write(folder / "sessions.json", [{}])

    receipt = import_logs(here, [path, other])

    assert receipt.by_format == {"codex": 1, "openclaw": 1}
    assert set(receipt.by_scope) >= {"openclaw/lyria" if "agents" in place else "srv"}


def test_a_log_of_pi_that_lies_anywhere_else_is_pis(here: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "lyria" / "sessions"
    write(folder / f"{pi.SESSION}.jsonl", [pi.header(), pi.said(1, "hi")])

    assert import_logs(here, [tmp_path / "agents"]).by_format == {"pi": 1}


def test_a_session_without_a_folder_goes_to_the_scope_of_its_agent(
    here: Ledger, tmp_path: Path
) -> None:
    paths = [write(tmp_path / VOYAGES[form][0], VOYAGES[form][1]) for form in ("gemini", "tape")]

    assert set(import_logs(here, paths).by_scope) == {"gemini", "tape"}


def test_a_scope_that_is_named_takes_all(here: Ledger, tmp_path: Path, project: Path) -> None:
    first = write(tmp_path / "a.jsonl", log_in(project, "one"))
    second = write(tmp_path / "b.jsonl", VOYAGES["codex"][1])

    receipt = import_logs(here, [first, second], scope="Acme/All Of It")

    assert set(receipt.by_scope) == {"acme/all-of-it"}
    assert here.sessions("acme/lamp").items == []


@pytest.mark.parametrize("lost", ["again", "moved", "grown", "anew"])
def test_a_session_stays_where_it_is_when_its_project_is_gone(
    here: Ledger, tmp_path: Path, project: Path, lost: str
) -> None:
    log = claude_log("one", cwd=str(project))
    path = write(tmp_path / "a.jsonl", log.lines)
    import_logs(here, [path])
    shutil.rmtree(project)
    scope_of.cache_clear()
    log.user("two")
    if lost == "moved":
        path = write(tmp_path / "b.jsonl", log.lines)
    elif lost == "grown":
        add(path, lines(log.lines[-1:]))
    else:
        write(path, log.lines)

    receipt = import_logs(here, [path], again=lost == "again")

    assert receipt.by_scope == {"acme/lamp": 1}
    assert here.sessions("lamp").items == []
    assert said_in(session_in(here, SESSION, "acme/lamp")) == ["one", "about one", "two"]


def test_a_session_that_says_late_where_it_worked_goes_there(here: Ledger, tmp_path: Path) -> None:
    path = write(
        tmp_path / f"{SESSION}.jsonl", [{"type": "summary", "summary": "x", "leafUuid": "y"}]
    )
    stub = import_logs(here, [path])
    add(path, lines(claude_log("one").lines))

    receipt = import_logs(here, [path])

    assert set(stub.by_scope) == {"claude-code"}
    assert set(receipt.by_scope) == {"lighthouse"}


def test_a_subagent_goes_where_its_parent_is(here: Ledger, tmp_path: Path, project: Path) -> None:
    write(tmp_path / "logs" / f"{SESSION}.jsonl", log_in(project, "one"))
    sub = Log(SESSION, first=60, isSidechain=True, agentId="a1", cwd="/gone/elsewhere")
    sub.user("find the fuse")
    write(tmp_path / "logs" / SESSION / "subagents" / "agent-a1.jsonl", sub.lines)

    assert set(import_logs(here, [tmp_path / "logs"]).by_scope) == {"acme/lamp"}


def test_sessions_of_one_name_in_two_projects_are_two(here: Ledger, tmp_path: Path) -> None:
    for name, word in (("first", "alpha"), ("second", "omega")):
        log = claude_log(word, session="session", cwd=f"/gone/{name}")
        write(tmp_path / name / "session.jsonl", log.lines)
    second = [
        {**line, "uuid": f"9{line['uuid'][1:]}", "parentUuid": None}
        for line in claude_log("omega", session="session", cwd="/gone/second").lines
    ]
    write(tmp_path / "second" / "session.jsonl", second)

    import_logs(here, [tmp_path / "first", tmp_path / "second"])

    assert said_in(session_in(here, "session", "first")) == ["alpha", "about alpha"]
    assert said_in(session_in(here, "session", "second")) == ["omega", "about omega"]


def test_a_copy_that_was_resumed_in_another_project_takes_its_past_along_there(
    here: Ledger, tmp_path: Path
) -> None:
    parent = claude_log("one", cwd="/gone/first")
    child = Log(OTHER_SESSION, first=30, cwd="/gone/second")
    child.lines = [
        {**line, "sessionId": OTHER_SESSION, "cwd": "/gone/second"} for line in parent.lines
    ]
    child.user("two", parentUuid=parent.lines[-1]["uuid"])
    write(tmp_path / "a.jsonl", parent.lines)
    write(tmp_path / "b.jsonl", child.lines)

    import_logs(here, [tmp_path / "a.jsonl", tmp_path / "b.jsonl"])

    assert said_in(session_in(here, OTHER_SESSION, "second")) == ["one", "about one", "two"]
    assert said_in(session_in(here, SESSION, "first")) == ["one", "about one"]


def test_a_spool_names_its_scopes_itself(here: Ledger, tmp_path: Path) -> None:
    spool = [
        {**one, "scope": scope, "session_id": f"s-{scope}", "event_id": f"{scope}-{n}"}
        for scope in ("acme/app", "acme/other")
        for n, one in enumerate(VOYAGES["openclaw-mem"][1])
    ]

    receipt = import_logs(here, [write(tmp_path / "spool.jsonl", spool)])

    assert receipt.by_scope == {"acme/app": 4, "acme/other": 4}


def test_one_session_of_a_spool_in_two_scopes_stays_apart(here: Ledger, tmp_path: Path) -> None:
    for scope in ("acme/app", "acme/other"):
        spool = [
            {**one, "scope": scope, "event_id": f"{scope}-{n}"}
            for n, one in enumerate(VOYAGES["openclaw-mem"][1])
        ]
        path = write(tmp_path / f"{scope.replace('/', '-')}.jsonl", spool)

        assert import_logs(here, [path]).by_scope == {scope: 4}


def test_a_session_that_wanders_stays_where_it_began(here: Ledger, tmp_path: Path) -> None:
    log = claude_log("one", cwd="/gone/first")
    log.user("two", cwd="/gone/second")
    path = write(tmp_path / "a.jsonl", log.lines)

    assert set(import_logs(here, [path]).by_scope) == {"first"}


def test_bookmarks_and_notes_name_no_folder(tmp_path: Path) -> None:
    cwd, name = "/gone/quite-a-secret-place", "quite-a-private-name"
    path = write(tmp_path / name / "a.jsonl", [
        pi.header(cwd=f"{cwd}/lamp"), pi.said(1, "x"),
    ])  # fmt: skip
    with treering.open(tmp_path / "l.db") as ledger:
        import_logs(ledger, [path], scope="acme/app")
        kept = str(ledger.importing.bookmarks("acme/app").find(str(path.resolve())))

    assert name not in kept
    assert cwd not in kept


def test_a_session_in_openclaws_own_folder_is_openclaws_before_its_index_comes(
    here: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path / "claw-state"))
    folder = tmp_path / "claw-state" / "agents" / "lyria" / "sessions"
    log = write(folder / f"{pi.SESSION}.jsonl", [pi.header(cwd="/srv"), pi.said(1, "hi")])

    first = import_logs(here, [tmp_path / "claw-state"])
    write(folder / "sessions.json", [{}])
    write(log, [pi.header(cwd="/srv"), pi.said(1, "hi"), pi.said(2, "ho")])
    second = import_logs(here, [tmp_path / "claw-state"])

    assert (first.by_format, set(first.by_scope)) == ({"openclaw": 1}, {"openclaw/lyria"})
    assert (second.by_format, second.events, set(second.by_scope)) == (
        {"openclaw": 1},
        1,
        {"openclaw/lyria"},
    )


def test_a_log_that_was_read_as_pis_is_not_taken_in_again_as_openclaws(
    here: Ledger, tmp_path: Path
) -> None:
    folder = tmp_path / "agents" / "lyria" / "sessions"
    log = write(folder / f"{pi.SESSION}.jsonl", [pi.header(), pi.said(1, "hi")])

    first = import_logs(here, [log])
    write(folder / "sessions.json", [{}])
    write(log, [pi.header(), pi.said(1, "hi"), pi.said(2, "ho")])
    second = import_logs(here, [log])

    assert (first.by_format, second.by_format) == ({"pi": 1}, {"pi": 1})
    assert second.events == 1
