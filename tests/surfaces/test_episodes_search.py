"""``treering episodes search``: sessions by what was said in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine


@pytest.fixture
def searched(cli: CommandLine) -> CommandLine:
    """Two sessions about the tide, and one elsewhere."""
    for number, (scope, session, kind, text) in enumerate(
        [
            ("s", "a b", "conversation.user", "when is the high tide"),
            ("s", "a b", "conversation.assistant", "the tide is high at noon"),
            ("s", "a b", "tool.call", "tide table"),
            ("s", "c", "tool.result", "a low tide"),
            ("s", "c", "ops.decision", "nothing of that sort"),
            ("other", "a b", "conversation.user", "the tide elsewhere"),
        ]
    ):
        cli.append(
            event_id=f"q{number}", ts_ms=str(1_000 + number), scope=scope, session_id=session,
            type=kind, summary=text, payload_json=f'{{"text":"{text}"}}',
        )  # fmt: skip
    return cli


def test_sessions_are_found_with_what_matched_and_how_to_replay_them(searched: CommandLine) -> None:
    body = searched("episodes", "search", "tide", "--scope", "s", "--json").body

    first, second = body["result"]["sessions"]
    assert (body["query"], body["result"]["mode"]) == ({"text": "tide", "text_en": None}, "lexical")
    assert (body["result"]["count"], body["result"]["events_matched"]) == (2, 4)
    assert (first["rank"], first["session_id"], first["hit_count"]) == (1, "a b", 3)
    assert (first["best_match_rank"], first["latest_ts_ms"]) == (1, 1_002)
    assert first["type_counts"] == {
        "conversation.user": 1,
        "conversation.assistant": 1,
        "tool.call": 1,
    }
    assert first["replay_hint"] == {"command": "treering episodes replay 'a b' --scope s"}
    assert second["session_id"] == "c"
    (only,) = second["matched_items"]
    assert (only["event_id"], only["type"]) == ("q3", "tool.result")
    assert only["match"]["lanes"] == ["fts"]
    assert "tide" in only["match"]["snippet"]
    assert "payload" not in only


def test_limits_and_payloads_are_as_asked_for(searched: CommandLine) -> None:
    body = searched(
        "episodes", "search", "tide", "--scope", "s", "--limit", "1", "--per-session", "2",
        "--search-limit", "0", "--include-payload", "--trace", "--json",
    ).body  # fmt: skip

    (session,) = body["result"]["sessions"]
    (matched,) = session["matched_items"]
    assert matched["payload"]["text"] == matched["summary"]
    assert [one["event_id"] for one in body["trace"]["fts_top_k"]] == [matched["event_id"]]


def test_people_are_shown_sessions_and_what_matched(searched: CommandLine) -> None:
    outcome = searched("episodes", "search", "low tide", "--scope", "s")

    assert outcome.out.splitlines() == [
        "c  1970-01-01 00:00  1 hit: a low tide",
        "  tool.result  a low tide",
        "  treering episodes replay c --scope s",
        "1 event found, 1 session shown",
    ]


def test_nothing_found_and_nothing_asked_for(searched: CommandLine) -> None:
    missing = searched("episodes", "search", "whale", "--scope", "s")
    blank = searched("episodes", "search", " ", "--scope", "s", "--json")

    assert (missing.status, missing.out.startswith("nothing in scope s matches")) == (0, True)
    assert (blank.status, blank.receipt["error"]) == (2, "no words to search for")
