"""Reading over HTTP gives what the Python API gives, headers by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from builders import ELSEWHERE, HERE, NOON, called, exchange, run_of, said
from served import InProcess, at

if TYPE_CHECKING:
    from treering import Ledger, Session


@pytest.fixture
def session(ledger: Ledger) -> Session:
    """Return a session with two turns, a tool call, usage and a fact."""
    session = ledger.session("talk", scope=HERE, agent="lyria", user="mina")
    with session.turn(model="small-1") as turn:
        turn.user("How many tests are in src/a.py?")
        with turn.tool("read_file", {"path": "src/a.py"}) as call:
            call.finish("two")
        turn.assistant("Two tests.", tokens=3)
    exchange(session, "Thanks", "You are welcome")
    evidence = next(session.headers(kinds=["conversation.user"])).event_id
    ledger.memory(HERE).learn("Mina prefers short answers", user="mina", evidence=[evidence])
    return session


def plain(value: Any) -> Any:
    """Return a value as JSON carries it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def test_every_reading_route_gives_what_the_python_api_gives(
    server: InProcess, ledger: Ledger, session: Session
) -> None:
    memory = ledger.memory(HERE)
    run_id = ledger.runs(HERE).items[0].run_id
    fact_id = memory.facts().items[0].id
    talk = ("scopes", HERE, "sessions", "talk")
    pairs: list[tuple[str, Any]] = [
        (at("scopes"), ledger.scopes()),
        (at("scopes", HERE, "sessions"), ledger.sessions(HERE)),
        (at("scopes", HERE, "sessions", state="closed"), ledger.sessions(HERE, state="closed")),
        (at("scopes", HERE, "headers", kinds=["tool.call", "tool.result"]),
         ledger.headers(HERE, kinds=["tool.call", "tool.result"])),
        (at("scopes", HERE, "events", last=2), ledger.events(HERE, last=2)),
        (at(*talk, "family"), ledger.family(HERE, "talk")),
        (at(*talk, "replay", limit=3), ledger.replay(HERE, "talk", first=3)),
        (at(*talk, "replay", payloads=True), ledger.replay_events(HERE, "talk")),
        (at(*talk, "timeline", kinds="conversation.user"),
         list(session.headers(kinds=["conversation.user"]))),
        (at(*talk, "timeline", payloads=True, after_seq=3, limit=2),
         list(session.events())[3:5]),
        (at(*talk, "turns"), list(session.turns())),
        (at(*talk, "turns", last=1), list(session.turns(last=1))),
        (at(*talk, "tool-calls"), list(session.tool_calls())),
        (at(*talk, "messages"), session.history()),
        (at(*talk, "goals"), session.goals()),
        (at(*talk, "context", max_tokens=4000, dialect="anthropic", system="Be brief."),
         session.context(4000, dialect="anthropic", system="Be brief.")),
        (at("scopes", HERE, "runs"), ledger.runs(HERE)),
        (at("scopes", HERE, "runs", run_id), ledger.run_view(HERE, run_id)),
        (at("scopes", HERE, "tool-calls", status="ok"), ledger.tool_calls(HERE, status="ok")),
        (at("scopes", HERE, "tool-statistics"), ledger.tool_statistics(HERE)),
        (at("scopes", HERE, "facts", user="mina"), memory.facts(user="mina")),
        (at("scopes", HERE, "facts", fact_id), memory.fact(fact_id)),
        (at("scopes", HERE, "facts", fact_id, "history"), memory.history(fact_id)),
        (at("scopes", HERE, "episodes"), memory.episodes()),
        (at("scopes", HERE, "recall", query="How long?", user="mina"),
         memory.recall("How long?", user="mina", record=False)),
        (at("scopes", HERE, "verify"), ledger.admin.verify(HERE)),
        (at("scopes", HERE, "verify", session_id="talk"),
         ledger.admin.verify(HERE, session_id="talk")),
        (at("scopes", HERE, "end"), {"cursor": ledger.end_cursor(HERE)}),
    ]  # fmt: skip
    for path, expected in pairs:
        answer = server.get(path)
        assert answer.status == 200, (path, answer.body)
        assert answer.json == plain(expected), path


def test_a_session_comes_with_its_counts_and_cost(server: InProcess, session: Session) -> None:
    answer = server.get(at("scopes", HERE, "sessions", "talk")).json

    assert answer == plain(
        {"outline": session.outline(), "counts": session.summary(), "usage": session.usage()}
    )


def test_a_search_finds_by_words_and_by_meaning(server: InProcess, session: Session) -> None:
    for mode in ("words", "hybrid", "semantic"):
        path = at("scopes", HERE, "search", query="tests", mode=mode)
        assert server.get(path).json["sessions"], mode


def test_statistics_and_file_history_are_those_of_the_command_line(
    server: InProcess, session: Session
) -> None:
    counted = server.get(at("scopes", HERE, "statistics", days=1)).json
    touched = server.get(at("scopes", HERE, "file-history", path="src/a.py")).json

    assert counted["activity"]["events"] > 0
    assert [touch["tool"] for touch in touched["items"]] == ["read_file"]
    assert touched["items"][0]["prompt"] == "How many tests are in src/a.py?"


def test_headers_have_no_payload_and_no_route_gives_one_unasked(
    server: InProcess, ledger: Ledger
) -> None:
    ledger.append([said("safe words", session_id="s", payload={"text": "private words"})])

    for path in (
        at("scopes", HERE, "headers"),
        at("scopes", HERE, "sessions"),
        at("scopes", HERE, "sessions", "s"),
        at("scopes", HERE, "sessions", "s", "replay"),
        at("scopes", HERE, "sessions", "s", "timeline"),
    ):
        assert b"private words" not in server.get(path).body, path
    assert b"private words" in server.get(at("scopes", HERE, "events")).body


def test_pages_follow_one_another_by_their_cursor(server: InProcess, ledger: Ledger) -> None:
    ledger.append([said(str(number), ts_ms=NOON + number) for number in range(7)])
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = server.get(at("scopes", HERE, "headers", first=3, **cursor)).json
        seen += [item["summary"] for item in page["items"]]
        if not page["has_more"]:
            break
        cursor = {"after": page["next_cursor"]}

    assert seen == [str(number) for number in range(7)]


def test_a_fork_shows_the_past_that_it_shares(server: InProcess, session: Session) -> None:
    fork = session.fork("other way")

    answer = server.get(at("scopes", HERE, "sessions", "other way", "timeline", limit=1000)).json

    assert answer == plain(list(fork.headers()))
    assert len(answer) > 5


def test_receipts_are_the_erasures_of_a_scope(server: InProcess, ledger: Ledger) -> None:
    ledger.append([said(event_id="e1")])
    ledger.redact(HERE, event_id="e1")

    items = server.get(at("scopes", HERE, "receipts")).json["items"]

    assert [item["kind"] for item in items] == ["ledger.redacted"]


def test_ids_are_found_in_their_own_scope_only(server: InProcess, ledger: Ledger) -> None:
    ledger.append([said(event_id="e1"), said(event_id="e2", scope=ELSEWHERE)])

    found = server.post(at("scopes", HERE, "find-ids"), {"event_ids": ["e1", "e2"]}).json

    assert found.keys() == {"e1"}


def test_asking_what_is_remembered_records_nothing(
    server: InProcess, ledger: Ledger, session: Session
) -> None:
    before = ledger.end_cursor(HERE)

    server.get(at("scopes", HERE, "recall", query="answers", user="mina"))
    server.get(at("scopes", HERE, "sessions", "talk", "context"))

    assert ledger.end_cursor(HERE) == before


def test_runs_and_calls_that_failed_can_be_asked_for(server: InProcess, ledger: Ledger) -> None:
    ledger.append([*run_of("r1", "a"), *run_of("r2", "b", end="run.failed"), called()])

    failing = server.get(at("scopes", HERE, "runs", failing=True)).json["items"]

    assert [run["run_id"] for run in failing] == ["r2"]


def test_who_one_is_says_what_the_token_permits(server: InProcess) -> None:
    assert server.get("/v1/whoami").json["rights"] == ["read", "write", "erase"]
