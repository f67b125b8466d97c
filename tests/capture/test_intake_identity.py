"""Who is who: ids that something else has, sessions of the same name, files that name a scope."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest

import treering
from formats.logs import pi
from formats.logs.claude_code import SESSION, Log
from formats.logs.openclaw import opening

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger

SCOPE = "acme/app"
OTHER = "5e551011-0000-4000-8000-0000000000aa"
TOKEN = "ghp_" + "k7Qz3mXw9RtB2vLn8JdY5sHc1FgP6aEu4WiO"


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with treering.open(tmp_path / "ledger.db") as opened:
        yield opened


def written(path: Path, log: Log) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(log.content())
    return path


def said(ledger: Ledger, session: str, scope: str = SCOPE) -> list[str]:
    return [one["content"] for one in ledger.session(session, scope=scope, agent="x").history()]


def test_other_words_under_a_known_id_are_not_lost(ledger: Ledger, tmp_path: Path) -> None:
    first, second = Log(SESSION), Log(OTHER)
    first.user("mend the lamp")
    second.user("paint the boat")
    second.lines[0] |= {"uuid": first.lines[0]["uuid"], "timestamp": "2026-10-01T00:00:00.000Z"}
    paths = [written(tmp_path / "a.jsonl", first), written(tmp_path / "b.jsonl", second)]

    receipt = treering.import_logs(ledger, paths, scope=SCOPE)
    again = treering.import_logs(ledger, paths, scope=SCOPE, again=True)

    assert said(ledger, SESSION) == ["mend the lamp"]
    assert "paint the boat" in said(ledger, OTHER)
    assert receipt.mended == {"an id that something else has": 1}
    assert (again.imported, again.duplicates) == (0, 2)


def test_two_lines_of_one_id_in_one_log_are_both_taken(ledger: Ledger, tmp_path: Path) -> None:
    log = Log(SESSION)
    log.user("mend the lamp")
    log.user("paint the boat")
    log.lines[1]["uuid"] = log.lines[0]["uuid"]

    treering.import_logs(ledger, [written(tmp_path / "a.jsonl", log)], scope=SCOPE)

    assert said(ledger, SESSION) == ["mend the lamp", "paint the boat"]


@pytest.mark.parametrize("first", ["error", {"role": "user", "content": "mend the lamp"}])
def test_other_words_under_one_id_and_time_in_one_log_are_all_taken(
    ledger: Ledger, tmp_path: Path, first: Any
) -> None:
    log = Log(SESSION)
    log.user("x")
    log.user("paint the boat")
    log.lines[0]["message"] = first
    log.lines[1] |= {"uuid": log.lines[0]["uuid"], "timestamp": log.lines[0]["timestamp"]}
    path = written(tmp_path / "a.jsonl", log)

    receipt = treering.import_logs(ledger, [path], scope=SCOPE)
    again = treering.import_logs(ledger, [path], scope=SCOPE, again=True)

    assert said(ledger, SESSION)[-1] == "paint the boat"
    assert (receipt.imported, receipt.duplicates) == (2, 0)
    assert (again.imported, again.duplicates) == (0, 2)


def two_logs_of_one_id(folder: Path) -> list[Path]:
    """Write two logs that say different things under one id, at one time."""
    first, second = Log(SESSION), Log(OTHER)
    first.user("mend the lamp")
    second.user("paint the boat")
    second.lines[0] |= {name: first.lines[0][name] for name in ("uuid", "timestamp")}
    second.answer("Painted.")
    return [written(folder / "a.jsonl", first), written(folder / "b.jsonl", second)]


def test_other_words_under_one_id_and_time_in_two_logs_are_all_taken(
    ledger: Ledger, tmp_path: Path
) -> None:
    paths = two_logs_of_one_id(tmp_path)

    foreseen = treering.import_logs(ledger, paths, scope=SCOPE, dry_run=True)
    receipt = treering.import_logs(ledger, paths, scope=SCOPE)
    again = treering.import_logs(ledger, paths, scope=SCOPE, again=True)

    assert said(ledger, SESSION) == ["mend the lamp"]
    assert said(ledger, OTHER) == ["paint the boat", "Painted."]
    assert receipt.mended == foreseen.mended == {"an id that something else has": 1}
    assert receipt.events == foreseen.events
    assert (again.imported, again.duplicates) == (0, 3)


def test_a_copy_of_a_log_whose_words_stand_under_an_id_of_others_adds_nothing(
    ledger: Ledger, tmp_path: Path
) -> None:
    paths = two_logs_of_one_id(tmp_path)
    treering.import_logs(ledger, paths, scope=SCOPE)
    copied = Log("5e551011-0000-4000-8000-0000000000bb")
    copied.lines = [
        json.loads(line) | {"sessionId": "5e551011-0000-4000-8000-0000000000bb"}
        for line in paths[1].read_text().splitlines()
    ]

    receipt = treering.import_logs(ledger, [written(tmp_path / "c.jsonl", copied)], scope=SCOPE)

    assert (receipt.events, receipt.duplicates) == (0, 2)


def test_other_words_under_one_id_do_not_come_back_when_they_are_erased(
    ledger: Ledger, tmp_path: Path
) -> None:
    paths = two_logs_of_one_id(tmp_path)
    treering.import_logs(ledger, paths, scope=SCOPE)
    for session in (SESSION, OTHER):
        ledger.redact(SCOPE, session_id=session)

    again = treering.import_logs(ledger, paths[::-1], scope=SCOPE, again=True)

    assert again.events == 0
    assert "paint the boat" not in said(ledger, OTHER)


def test_a_copy_of_words_that_were_masked_is_a_repeat(ledger: Ledger, tmp_path: Path) -> None:
    log = Log(SESSION)
    log.user(f"the key is {TOKEN}, mend\nthe lamp")
    path = written(tmp_path / "a.jsonl", log)
    treering.import_logs(ledger, [path], scope=SCOPE)

    receipt = treering.import_logs(ledger, [path], scope=SCOPE, again=True)

    assert TOKEN not in said(ledger, SESSION)[0]
    assert (receipt.events, receipt.duplicates) == (0, 1)


def test_a_line_that_is_written_twice_is_taken_once(ledger: Ledger, tmp_path: Path) -> None:
    log = Log(SESSION)
    log.user("mend the lamp")
    log.lines.append(log.lines[0])

    receipt = treering.import_logs(ledger, [written(tmp_path / "a.jsonl", log)], scope=SCOPE)

    assert (receipt.imported, receipt.duplicates) == (1, 1)


def simple(session: str, *texts: str) -> Log:
    """Return a log whose lines have ids that begin again in every session."""
    log = Log(session)
    for number, text in enumerate(texts, start=1):
        log.user(text)
        log.line("system", subtype="turn_duration", content=f"about {text}")
        for line in log.lines[-2:]:
            line["timestamp"] = f"2026-10-01T00:00:0{number}.000Z"
    for number, line in enumerate(log.lines, start=1):
        line |= {"uuid": f"msg-{number:03d}", "parentUuid": f"msg-{number - 1:03d}"}
    log.lines[0]["parentUuid"] = None
    return log


def test_ids_that_are_no_uuids_hold_within_their_session(ledger: Ledger, tmp_path: Path) -> None:
    paths = [
        written(tmp_path / "a.jsonl", simple(SESSION, "mend the lamp", "and the rope")),
        written(tmp_path / "b.jsonl", simple(OTHER, "paint the boat", "and the oars")),
    ]

    receipt = treering.import_logs(ledger, paths, scope=SCOPE)
    again = treering.import_logs(ledger, paths, scope=SCOPE, again=True)

    assert said(ledger, SESSION) == ["mend the lamp", "and the rope"]
    assert said(ledger, OTHER) == ["paint the boat", "and the oars"]
    assert (receipt.imported, again.imported, again.duplicates) == (8, 0, 8)
    outlines = [ledger.session(one, scope=SCOPE, agent="x").outline() for one in (SESSION, OTHER)]
    assert [one.parent for one in outlines] == [None, None]


def test_what_an_earlier_version_took_in_by_such_ids_is_known(
    ledger: Ledger, tmp_path: Path
) -> None:
    log = simple(SESSION, "mend the lamp")
    session = ledger.session(SESSION, scope=SCOPE, agent="claude-code")
    at_ms = 1_790_812_801_000
    earlier = session.new_event("conversation.user", "mend the lamp", event_id="msg-001",
                                payload={"text": "mend the lamp"}, ts_ms=at_ms)  # fmt: skip
    ledger.importing.append_missing([earlier])
    log.lines[0]["timestamp"] = at_ms

    receipt = treering.import_logs(ledger, [written(tmp_path / "a.jsonl", log)], scope=SCOPE)

    assert (receipt.imported, receipt.duplicates) == (1, 1)
    assert said(ledger, SESSION) == ["mend the lamp"]


def test_sessions_of_two_agents_are_two_even_if_they_share_an_id(
    ledger: Ledger, tmp_path: Path
) -> None:
    log = Log(SESSION)
    log.user("mend the lamp")
    rollout = [
        {"timestamp": "2026-10-01T00:00:00Z", "type": "session_meta",
         "payload": {"id": SESSION, "timestamp": "2026-10-01T00:00:00Z", "cwd": "/srv/x"}},
        {"timestamp": "2026-10-01T00:00:01Z", "type": "event_msg",
         "payload": {"type": "user_message", "message": "paint the boat"}},
    ]  # fmt: skip
    codex = tmp_path / "rollout.jsonl"
    codex.write_text("".join(json.dumps(one) + "\n" for one in rollout))

    treering.import_logs(ledger, [written(tmp_path / "a.jsonl", log)], scope=SCOPE)
    for _ in range(2):
        treering.import_logs(ledger, [codex], scope=SCOPE, again=True)

    assert said(ledger, SESSION) == ["mend the lamp"]
    assert said(ledger, f"codex:{SESSION}") == ["paint the boat"]


def test_what_lies_in_a_folder_of_logs_names_no_scope(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    folder.mkdir()
    spooled = {"schema": "openclaw-mem.episodes.spool.v0", "event_id": "ep-1", "ts_ms": 5,
               "scope": "boss/hr", "session_id": "s1", "agent_id": "x",
               "type": "conversation.user", "summary": "raise it"}  # fmt: skip
    (folder / "spool.jsonl").write_text(json.dumps(spooled) + "\n")
    with treering.open(":memory:") as elsewhere:
        elsewhere.session("s2", scope="boss/hr", agent="x").record("ops.decision", "fire them")
        export = io.BytesIO()
        elsewhere.admin.export("boss/hr", export, payloads="included")
    (folder / "export.jsonl").write_bytes(export.getvalue())

    receipt = treering.import_logs(ledger, [folder])
    live = treering.import_logs(ledger, [*folder.iterdir()], live=True)

    assert list(receipt.by_scope) == ["openclaw-mem"]
    assert live.by_scope == {}
    assert ledger.headers("boss/hr", first=10).items == []
    assert [one.reason for one in receipt.sources if one.state == "refused"] == [
        "an export of Treering: import it by its own path to restore it"
    ]

    treering.import_logs(ledger, [folder / "export.jsonl"])

    assert [one.summary for one in ledger.headers("boss/hr", first=10).items][-1] == "fire them"


@pytest.mark.parametrize("renamed_first", [False, True])
def test_a_renamed_copy_of_a_topic_is_the_same_session(
    ledger: Ledger, tmp_path: Path, *, renamed_first: bool
) -> None:
    folder = tmp_path / "agents" / "lyria" / "sessions"
    folder.mkdir(parents=True)
    log = [*opening(), pi.said(2, "mend the lamp")]
    other = [{**log[0], "timestamp": "2026-10-02T00:00:00.000Z"}, log[1], pi.said(2, "a boat")]
    topic = folder / f"{pi.SESSION}-topic-7.jsonl"
    copy = folder / "copy of the lamp.jsonl"
    elsewhere = folder / f"{pi.SESSION}-topic-8.jsonl"
    for path, records in ((topic, log), (copy, log), (elsewhere, other)):
        path.write_text("".join(json.dumps(one) + "\n" for one in records))

    first, second = (copy, topic) if renamed_first else (topic, copy)
    receipts = [
        treering.import_logs(ledger, [path], scope=SCOPE) for path in (first, second, elsewhere)
    ]

    assert [one.sessions_new for one in receipts] == [1, 0, 1]
    assert (receipts[1].imported, receipts[2].imported) == (0, 2)


def test_a_session_is_unknown_until_it_has_an_event_or_the_past_of_another(ledger: Ledger) -> None:
    session = ledger.session(SESSION, scope=SCOPE, agent="claude-code")
    assert ledger.importing.is_unknown(SCOPE, SESSION)

    first = session.new_event("conversation.user", "hi", event_id="first", payload={"text": "hi"})
    ledger.importing.append_missing([first])
    session.fork("branch", at="first", agent="claude-code", whole_turn=False)

    assert not ledger.importing.is_unknown(SCOPE, SESSION)
    assert not ledger.importing.is_unknown(SCOPE, "branch")
    assert ledger.importing.is_unknown(SCOPE, "other")
    with pytest.raises(treering.InvalidInput):
        ledger.importing.is_unknown(SCOPE, " ")
