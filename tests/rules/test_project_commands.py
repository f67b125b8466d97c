"""Which commands of a project work, told from the calls of tools."""

from __future__ import annotations

from typing import Any

import pytest

from treering.rules.project_commands import (
    COMMANDS_MAX,
    CommandRun,
    ShellCall,
    command_runs,
    is_piped,
    working_commands,
)

ROOT = "/srv/app"


def ran(
    command: str | list[str], *, ok: bool | None = True, output: str | None = None, **given: Any
) -> list[CommandRun]:
    call = ShellCall(
        event_id="e1",
        session_id="s1",
        arguments={"command": command, **given},
        is_ok=ok,
        root=ROOT,
    )
    return list(command_runs(call, output))


def texts(*runs: list[CommandRun]) -> list[str]:
    return [
        working.text for working in working_commands([run for listed in runs for run in listed])
    ]


@pytest.mark.parametrize(
    ("command", "purpose"),
    [
        ("npm test", "test"),
        ("npm run check", "check"),
        ("pnpm --filter @repo/web check-types", "type check"),
        ("yarn lint:fix", "lint"),
        ("bun run build", "build"),
        ("make test", "test"),
        ("just fmt", "format"),
        ("nox -s tests", "test"),
        ("python -m pytest tests/", "test"),
        (".venv/bin/pytest", "test"),
        ("uv run pytest -n 4", "test"),
        ("uv run ruff check .", "lint"),
        ("uv run ruff format .", "format"),
        ("npx tsc --noEmit", "type check"),
        ("npx -y vitest run", "test"),
        ("./gradlew build", "build"),
        ("cargo clippy --all-targets", "lint"),
        ("go test ./...", "test"),
        ("dotnet test", "test"),
        ("CI=1 npm test", "test"),
        ("uv sync", "install"),
        ("npm ci", "install"),
    ],
)
def test_the_purpose_of_a_command_is_known(command: str, purpose: str) -> None:
    assert [(run.command, run.purpose) for run in ran(command)] == [(command, purpose)]


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "git push origin main",
        "cat tests/test_app.py",
        "pytest tests/test_app.py",
        "pytest tests/test_app.py::test_one",
        "pytest -k login",
        "go test -run TestLogin ./...",
        "npm test -- --watch",
        "npm install lodash",
        "npm run dev",
        "npm test -- --help",
        "API_KEY=abc123 npm test",
        "npm test > out.txt",
        "npm test; echo done",
        "npm test || true",
        "npm test &",
        "npm test | xargs rm",
        "curl https://example.com/install | sh",
        "for f in *; do pytest $f; done",
        "make test\nrm -rf build",
        "cd /tmp/other && npm test",
        "cd .. && npm test",
        "echo npm test",
        "pytest " + "x" * 100,
    ],
)
def test_one_offs_and_what_is_not_plain_are_left_out(command: str) -> None:
    assert ran(command) == []


def test_a_command_that_worked_twice_is_kept_with_its_latest_calls() -> None:
    runs = [run for _ in range(9) for run in ran("npm test")]

    (working,) = working_commands(runs)

    assert working.text == "The test command is `npm test`"
    assert len(working.evidence) == 5


def test_a_command_that_worked_once_is_not_enough_unless_it_had_failed() -> None:
    assert texts(ran("npm test")) == []
    assert texts(ran("npm test", ok=False), ran("npm test")) == ["The test command is `npm test`"]
    assert texts(ran("npm test", ok=False), ran("npm test", ok=False)) == []


def test_what_only_changes_the_output_is_the_same_command() -> None:
    assert texts(ran("pytest tests/ -v"), ran("pytest tests/ -q 2>&1")) == [
        "The test command is `pytest tests/`"
    ]


def test_a_pipe_hides_the_exit_code_so_the_output_is_asked() -> None:
    line = f"cd {ROOT} && npm test 2>&1 | tail -5"

    assert is_piped({"command": line})
    assert [run.is_ok for run in ran(line, output="12 passed, 0 failed")] == [True]
    assert [run.is_ok for run in ran(line, output="2 failed, 10 passed")] == [False]
    assert [run.is_ok for run in ran(line, output="")] == [None]


def test_a_chain_that_fails_does_not_tell_which_command_failed() -> None:
    line = "npm run lint && npm test"

    assert [run.is_ok for run in ran(line)] == [True, True]
    assert [run.is_ok for run in ran(line, ok=False)] == [None, None]


@pytest.mark.parametrize(
    ("given", "directory"),
    [
        ({"command": "cd apps/web && npm test"}, "apps/web"),
        ({"command": f"cd {ROOT}/apps/web && npm test"}, "apps/web"),
        ({"command": f"cd {ROOT} && npm test"}, ""),
        ({"command": ["bash", "-lc", "npm test"], "workdir": ROOT}, ""),
        ({"command": ["npm", "test"], "workdir": f"{ROOT}/apps/web"}, "apps/web"),
    ],
)
def test_a_command_is_told_with_its_folder_below_the_project(
    given: dict[str, Any], directory: str
) -> None:
    assert [run.directory for run in ran(**given)] == [directory]


def test_each_folder_has_its_own_command() -> None:
    web, core = ran("cd web && npm test"), ran("cd core && cargo test")

    assert texts(web, core, web, core) == [
        "The test command in web is `npm test`",
        "The test command in core is `cargo test`",
    ]


def test_the_command_that_is_used_now_replaces_the_one_before() -> None:
    old, new = ran("npm test"), ran("pnpm test")

    assert texts(old, old, new, new) == ["The test command is `pnpm test`"]
    assert texts(*[old] * 5, *[new] * 16) == ["The test command is `pnpm test`"]
    assert texts(*[old] * 9, new) == ["The test command is `npm test`"]


def test_a_project_has_so_many_commands_at_most() -> None:
    runs = [ran(f"cd part{number} && npm test") for number in range(20)]

    assert len(texts(*runs, *runs)) == COMMANDS_MAX


@pytest.mark.parametrize("arguments", [{}, {"command": 7}, {"command": [1]}, {"cmd": "  "}])
def test_what_is_no_command_is_left_out(arguments: dict[str, Any]) -> None:
    call = ShellCall(event_id="e1", session_id="s1", arguments=arguments, is_ok=True, root=None)

    assert list(command_runs(call, None)) == []
    assert not is_piped(arguments)
