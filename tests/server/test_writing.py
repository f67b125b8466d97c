"""Writing over HTTP: batches that can be repeated, sessions, facts, erasures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from builders import ELSEWHERE, HERE, exchange, said
from served import InProcess, at

if TYPE_CHECKING:
    from treering import Ledger


def talk(ledger: Ledger, *texts: str) -> None:
    """Record a turn for each text."""
    session = ledger.session("talk", scope=HERE, agent="lyria", user="mina")
    for text in texts:
        exchange(session, text, f"You said {text}")


def test_a_batch_is_recorded_once_however_often_it_is_sent(
    server: InProcess, ledger: Ledger
) -> None:
    first = [said("a", event_id="e1"), said("b", event_id="e2")]
    more = [*first, said("c", event_id="e3", scope=ELSEWHERE)]

    once = server.post("/v1/events", {"events": first}).json
    again = server.post("/v1/events", {"events": more}).json

    assert once["new"] == ["e1", "e2"]
    assert again["new"] == ["e3"]
    assert [header["seq"] for header in again["headers"]] == [1, 2, 1]
    assert [header.event_id for header in ledger.headers(HERE).items] == ["e1", "e2"]


def test_a_batch_is_all_or_nothing(server: InProcess, ledger: Ledger) -> None:
    answer = server.post("/v1/events", {"events": [said("good"), said("bad", kind="nonsense")]})

    assert (answer.status, answer.json["code"]) == (400, "invalid_kind")
    assert ledger.headers(HERE).items == []


def test_a_stale_writer_learns_where_the_session_is(server: InProcess) -> None:
    assert server.post("/v1/events", {"events": [said("a")], "expected_seq": 0}).status == 200

    answer = server.post("/v1/events", {"events": [said("b")], "expected_seq": 0})

    assert (answer.status, answer.json["code"]) == (409, "conflict")
    assert answer.json["current_seq"] == 1


def test_another_event_under_a_known_id_is_refused(server: InProcess) -> None:
    server.post("/v1/events", {"events": [said("a", event_id="e1")]})

    answer = server.post("/v1/events", {"events": [said("b", event_id="e1")]})

    assert (answer.status, answer.json["code"]) == (409, "duplicate")


def test_a_batch_has_a_limit(server: InProcess) -> None:
    answer = server.post("/v1/events", {"events": [said()] * 10_001})

    assert answer.status == 400


def test_secrets_are_masked_as_the_python_api_masks_them(server: InProcess, ledger: Ledger) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    server.post("/v1/events", {"events": [said(f"use {token}", event_id="e1")]})

    assert token not in ledger.event(HERE, "e1").summary


def test_a_session_is_opened_titled_and_closed(server: InProcess, ledger: Ledger) -> None:
    path = ("scopes", HERE, "sessions", "new")
    opened = server.post(at(*path, "open"), {"agent": "lyria", "user": "mina", "title": "First"})
    again = server.post(at(*path, "open"), {"agent": "lyria"})
    server.post(at(*path, "title"), {"title": "Second"})
    closed = server.post(at(*path, "close"), {"reason": "done"})

    assert (opened.json["title"], opened.json["user"]) == ("First", "mina")
    assert again.status == 200
    assert closed.json["kind"] == "session.closed"
    outline = ledger.session("new", scope=HERE, agent="x").outline()
    assert (outline.title, outline.state, outline.agent) == ("Second", "closed", "lyria")


def test_a_session_is_forked_undone_and_redone(server: InProcess, ledger: Ledger) -> None:
    talk(ledger, "one", "two")
    path = ("scopes", HERE, "sessions", "talk")

    fork = server.post(at(*path, "fork"), {"session_id": "other", "title": "Other"}).json
    undone = server.post(at(*path, "undo"), {"turns": 1}).json
    left = server.get(at(*path, "messages")).json
    server.post(at(*path, "redo"), {})

    assert (fork["session_id"], fork["parent"]) == ("other", "talk")
    assert undone["kind"] == "turn.undone" or undone["kind"].endswith("undone")
    assert [message["content"] for message in left] == ["one", "You said one"]
    assert len(server.get(at(*path, "messages")).json) == 4


@pytest.mark.parametrize("verb", ["close", "undo", "redo", "title"])
def test_a_session_that_does_not_exist_is_not_made_by_acting_on_it(
    server: InProcess, ledger: Ledger, verb: str
) -> None:
    body = {"title": "x"} if verb == "title" else {}

    answer = server.post(at("scopes", HERE, "sessions", "nobody", verb), body)

    assert (answer.status, answer.json["code"]) == (404, "not_found")
    assert ledger.session_ids(HERE) == []


def test_facts_are_learnt_accepted_and_rejected(server: InProcess, ledger: Ledger) -> None:
    talk(ledger, "I prefer short answers")
    evidence = ledger.headers(HERE, kinds=["conversation.user"]).items[0].event_id
    fact = {"text": "Mina prefers short answers", "user": "mina", "evidence": [evidence]}

    learnt = server.post(at("scopes", HERE, "facts"), {"facts": [fact]}).json
    fact_id = learnt[0]["fact_id"]
    accepted = server.post(at("scopes", HERE, "facts", fact_id, "accept"), {}).json
    rejected = server.post(at("scopes", HERE, "facts", fact_id, "reject"), {"reason": "no"}).json

    assert learnt[0]["outcome"] == "stored"
    assert accepted["confirmed"]
    assert (rejected["state"], rejected["reason"]) == ("forgotten", "no")
    assert ledger.memory(HERE).facts().items == []


@pytest.mark.parametrize(("ended", "state"), [(True, "superseded"), (False, "current")])
def test_a_doubtful_change_is_listed_and_settled(
    server: InProcess,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    ended: bool,  # noqa: FBT001
    state: str,
) -> None:
    monkeypatch.setattr("treering.memory.change_decision.ONE_FROM", 50.0)
    monkeypatch.setattr("treering.memory.change_decision.DOUBT", 100.0)
    first = ledger.memory(HERE).learn("Uncle Bob is recovering in hospital.", user="mina")
    second = ledger.memory(HERE).learn("Uncle Bob was discharged and is back home.", user="mina")

    (doubt,) = server.get(at("scopes", HERE, "doubts") + "?user=mina").json
    others = server.get(at("scopes", HERE, "doubts") + "?user=jo").json
    path = at("scopes", HERE, "facts", second.fact_id, "settle")
    settled = server.post(path, {"ended": ended})
    again = server.post(path, {"ended": ended})

    assert (doubt["fact"]["id"], doubt["earlier"]["id"]) == (second.fact_id, first.fact_id)
    assert doubt["signs"]
    assert others == []
    assert (settled.json["id"], settled.json["state"]) == (first.fact_id, state)
    assert (again.status, again.json["code"]) == (404, "not_found")


def test_an_event_and_a_session_are_erased(server: InProcess, ledger: Ledger) -> None:
    ledger.append([said("a", event_id="e1"), said("b", session_id="s2", event_id="e2")])

    for body in ({"event_id": "e1"}, {"session_id": "s2"}):
        assert server.post(at("scopes", HERE, "redact"), body).json["redacted_count"] == 1

    assert {ledger.event(HERE, name).summary for name in ("e1", "e2")} == {"[REDACTED]"}
    assert ledger.admin.verify().intact


@pytest.mark.parametrize("body", [{}, {"event_id": "e1", "session_id": "s1"}])
def test_what_to_erase_has_to_be_said_exactly(
    server: InProcess, ledger: Ledger, body: dict[str, Any]
) -> None:
    ledger.append([said("a", event_id="e1")])

    assert server.post(at("scopes", HERE, "redact"), body).status == 400
    assert ledger.event(HERE, "e1").summary == "a"


def test_a_person_is_forgotten_only_after_a_preview_is_confirmed(
    server: InProcess, ledger: Ledger
) -> None:
    talk(ledger, "one")

    preview = server.post(at("scopes", HERE, "forget"), {"user": "mina"}).json
    assert preview["dry_run"]
    assert ledger.session_ids(HERE) == ["talk"]

    server.post(at("scopes", HERE, "forget"), {"user": "mina", "preview": False})
    assert "talk" not in ledger.session_ids(HERE)
