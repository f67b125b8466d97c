"""What people tell an agent about a project, and what holds only for the moment."""

import pytest

from treering.rules.fact_extraction import Utterance, extract_facts


def _noted(said: str) -> list[str]:
    spoken = Utterance(event_id="e1", role="user", text=said, ts_ms=0)
    return [candidate.text for candidate in extract_facts([spoken])]


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ("No, use pnpm, not npm.", "Use pnpm instead of npm"),
        ("Let's use SQLite instead of Postgres", "Use SQLite instead of Postgres"),
        (
            "Let's go with Redis Streams for the queue.",
            "Decided to use Redis Streams for the queue",
        ),
        ("Prefer composition over inheritance.", "Prefer composition over inheritance"),
        ("You should use uv to run everything.", "Use uv to run everything"),
        ("Use `uv run pytest` to run the tests.", "Use uv run pytest to run the tests"),
        ("To run the tests, use `make check`.", "Use make check to run the tests"),
        ("Don't touch the vendor folder.", "Do not touch the vendor folder"),
        ("do not mock the database", "Do not mock the database"),
        (
            "Don't commit without running the tests first.",
            "Do not commit without running the tests first",
        ),
        (
            "stop using emojis in commit messages",
            "Stop using emojis in commit messages",
        ),
        (
            "Make sure you run the tests before you commit.",
            "Always run the tests before you commit",
        ),
        ("I want you to always ask before deleting files", "Always ask before deleting files"),
        ("you need to run npm run build before the tests", "Run npm run build before the tests"),
        ("Tests go in tests/unit.", "The tests go in tests/unit"),
        ("Not like that, we put hooks in src/hooks.", "The hooks go in src/hooks"),
        ("The main branch is called trunk.", "The main branch is trunk"),
        ("The package manager is pnpm.", "The package manager is pnpm"),
        ("The config file is config/app.toml", "The config file is config/app.toml"),
        ("We deploy with fly deploy.", "Deploys with fly deploy"),
        ("we target Python 3.11", "Targets Python 3.11"),
        ("We follow the Google style guide.", "Follows the Google style guide"),
        ("Actually, we use yarn here.", "Uses yarn"),
        ("Every new endpoint needs a test.", "Every new endpoint needs a test"),
        ("Commit messages must be in English", "Commit messages must be in English"),
        ("Keep functions under 50 lines.", "Keep functions under 50 lines"),
        (
            "i would only want e2e tests for AgentSession, anything else is no use.",
            "Wants only e2e tests for AgentSession",
        ),
        (
            "This repo is a monorepo managed with turborepo.",
            "The repo is a monorepo managed with turborepo",
        ),
    ],
)
def test_conventions_of_a_project_are_noted(said: str, noted: str) -> None:
    assert _noted(said) == [noted]


@pytest.mark.parametrize(
    "said",
    [
        "use the second option",
        "use a for loop here",
        "use 10 instead of 5 here",
        "use it to run the tests",
        "let's use it",
        "let's use the other branch for now",
        "let's try again",
        "don't do that",
        "don't add it yet",
        "do not change anything yet",
        "don't change this file",
        "don't read the full file!",
        "stop",
        "stop the server",
        "stop using that",
        "make sure it works",
        "run the tests again",
        "you need to run it again",
        "the error is in src/app.ts",
        "the bug is in src/core/app.ts",
        "the main problem is in src/main.py",
        "the config file is wrong",
        "the database is down",
        "the port is already in use",
        "the endpoint is slow",
        "all tests should pass",
        "every test fails",
        "Any time you need help, do not hesitate to reach out.",
        "All you need is to be a friendly and polite person.",
        "keep going",
        "keep it",
        "we test it tomorrow",
        "we ship it like this",
        "this project is broken",
        "Should we use Redis instead of Postgres?",
        "maybe we should use Redis instead of Postgres",
    ],
)
def test_orders_for_the_moment_are_not_conventions(said: str) -> None:
    assert _noted(said) == []
