"""The settings of a session, and what they permit."""

from __future__ import annotations

from typing import Any

import pytest

from treering.model.sessions import GROUP_TOOLS, MODES, TURN_WAIT_S, SessionSettings, settings_of


def test_the_modes_are_three() -> None:
    assert MODES == ("main", "group", "queue")
    assert set(TURN_WAIT_S) == set(MODES)


def test_a_main_session_refuses_a_second_run_at_once_and_others_wait() -> None:
    assert TURN_WAIT_S["main"] == 0
    assert TURN_WAIT_S["group"] > 0
    assert TURN_WAIT_S["queue"] > 0


@pytest.mark.parametrize("mode", ["main", "queue"])
def test_outside_groups_all_tools_may_run(mode: Any) -> None:
    assert SessionSettings(mode=mode).permits("shell")


def test_in_a_group_the_harmless_ones_may_run() -> None:
    settings = SessionSettings(mode="group")

    assert all(settings.permits(tool) for tool in GROUP_TOOLS)
    assert not settings.permits("shell")


@pytest.mark.parametrize("tool", ["Weather", "weather ", "weather2", ""])
def test_a_tool_is_allowed_by_its_exact_name(tool: str) -> None:
    assert not SessionSettings(mode="group").permits(tool)


@pytest.mark.parametrize("mode", MODES)
def test_tools_that_are_named_are_the_only_ones(mode: Any) -> None:
    settings = SessionSettings(mode=mode, tools=("read",))

    assert settings.permits("read")
    assert not settings.permits("weather")
    assert not SessionSettings(mode=mode, tools=()).permits("read")


@pytest.mark.parametrize(
    ("payload", "settings"),
    [
        (
            {"mode": "group", "channel": "irc", "participants": ["u1"], "key": "k", "tools": ["a"]},
            SessionSettings(
                mode="group", channel="irc", participants=("u1",), key="k", tools=("a",)
            ),
        ),
        ({"mode": "queue"}, SessionSettings(mode="queue")),
        ({"mode": "main", "unknown": 1}, SessionSettings()),
        ({}, SessionSettings()),
    ],
)  # fmt: skip
def test_settings_are_read_from_what_was_recorded(payload: Any, settings: SessionSettings) -> None:
    assert settings_of(payload) == settings


@pytest.mark.parametrize("payload", [None, "[REDACTED]", 7, [], {"mode": "crowd"}])
def test_what_cannot_be_read_is_an_ordinary_session(payload: Any) -> None:
    assert settings_of(payload) == SessionSettings()
