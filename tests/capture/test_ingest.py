"""Spools of other programs, ingested into a ledger."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering
from builders import said
from treering.capture.episodes import files as episode_files
from treering.capture.episodes import ingest
from treering.capture.episodes.bounds import EventLimits
from treering.capture.episodes.files import locked
from treering.capture.episodes.ingest import Follow, FollowPlan, Ingest
from treering.capture.episodes.lines import ScopeRule
from treering.capture.secrets import SecretGuard
from treering.model.kinds import EPISODE_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from treering import Event, Ledger

KEY = bytes(32)
TOKEN = "ghp_" + "k7Qz3mXw9RtB2vLn8JdY5sHc1FgP6aEu4WiO"


def line(**fields: Any) -> bytes:
    """Return a line of a spool, with defaults for fields that the test does not set."""
    stated = {
        "event_id": "e1",
        "ts_ms": 1_000,
        "scope": "s",
        "session_id": "a",
        "agent_id": "x",
        "type": "tool.result",
        "summary": "ok",
        **fields,
    }
    return json.dumps({k: v for k, v in stated.items() if v is not ...}).encode() + b"\n"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Ledger]:
    with treering.open(tmp_path / "ledger.db", guard="off") as ledger:
        yield ledger


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool.jsonl"


def ingest_of(ledger: Ledger, spool: Path, **settings: Any) -> Ingest:
    given: dict[str, Any] = {"caps": EventLimits(), "location": "here", **settings}
    state = spool.with_name("state.json")
    return Ingest(ledger, spool, state, guard=SecretGuard(key=KEY, personal=True), **given)


@pytest.fixture
def work(here: Ledger, spool: Path) -> Ingest:
    return ingest_of(here, spool)


def recorded(ledger: Ledger, scope: str = "s") -> list[Event]:
    return ledger.events(scope, first=500).items


def test_what_a_spool_tells_is_recorded_once(ledger: Ledger, spool: Path) -> None:
    spool.write_bytes(
        line(payload={"a": 1}, refs={"b": 2}, type="Tool.Result ")
        + line()
        + line(event_id="e2", scope="other", session_id="b")
    )
    work = ingest_of(ledger, spool)

    first, again = work.once(), work.once()

    event = recorded(ledger)[0]
    assert (first.inserted, first.lines.duplicates, again.lines.total) == (2, 1, 0)
    assert (event.event_id, event.kind, event.ts_ms) == ("e1", "tool.result", 1_000)
    assert (event.payload, event.refs) == ({"a": 1}, {"b": 2})
    assert [event.session_id for event in recorded(ledger, "other")] == ["b"]
    assert ledger.admin.verify().intact


def test_every_line_is_accounted_for(work: Ingest, spool: Path) -> None:
    bad = [b"no json\n", b"[1]\n", line(type="zzz"), line(session_id=" "), line(ts_ms="soon")]
    spool.write_bytes(b"\n" + b"".join(bad) + line() + b"\r\n")

    receipt = work.once()

    counts = receipt.lines
    assert (counts.total, counts.blank, counts.invalid_json, counts.invalid_event) == (6, 2, 2, 3)
    assert receipt.inserted == 1
    assert receipt.errors_sample[0] == "line@1: invalid_json"
    assert [fault.partition(": ")[2][:20] for fault in receipt.errors_sample[2:]] == [
        "invalid type: zzz; a",
        "session_id is requir",
        "invalid ts_ms: soon",
    ]


def test_a_last_line_waits_for_its_newline(work: Ingest, here: Ledger, spool: Path) -> None:
    whole, torn = line(), line(event_id="e2")
    spool.write_bytes(whole + torn[:-1])

    before = work.once()
    spool.write_bytes(whole + torn)
    after = work.once()

    assert (before.inserted, before.source.trailing_partial_bytes) == (1, len(torn) - 1)
    assert before.source.next_offset == len(whole)
    assert (after.inserted, after.source.start_offset) == (1, len(whole))
    assert len(recorded(here)) == 2


def test_lines_are_read_in_chunks_and_a_giant_one_is_passed_over(
    work: Ingest, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episode_files, "CHUNK_BYTES", 7)
    monkeypatch.setattr(episode_files, "LINE_BYTES_MAX", 400)
    spool.write_bytes(line() + line(event_id="giant", payload="y" * 500) + line(event_id="e2"))

    receipt = work.once()

    assert (receipt.inserted, receipt.lines.invalid_json) == (2, 1)
    assert receipt.errors_sample == [f"line@{len(line())}: too_long"]
    assert receipt.source.next_offset == spool.stat().st_size
    assert receipt.source.processed_sha256 == sha256(spool.read_bytes()).hexdigest()


def test_a_pass_that_died_goes_on_behind_its_last_page(
    work: Ingest, here: Ledger, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "BATCH_EVENTS_MAX", 2)
    spool.write_bytes(b"".join(line(event_id=f"e{n}") for n in range(5)))
    append, calls = here.append, []

    def dying(events: Any) -> Any:
        calls.append(len(events))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return append(events)

    monkeypatch.setattr(here, "append", dying)
    with pytest.raises(KeyboardInterrupt):
        work.once()
    receipt = work.once()

    assert (receipt.source.start_offset, receipt.inserted) == (2 * len(line(event_id="e0")), 3)
    assert len(recorded(here)) == 5


def test_a_line_without_a_time_has_the_one_told_before_it(
    work: Ingest, here: Ledger, spool: Path
) -> None:
    spool.write_bytes(line(event_id="e0", ts_ms=None))
    os.utime(spool, ns=(7_000_000_000, 7_000_000_000))
    work.once()
    with spool.open("ab") as stream:
        stream.write(line(event_id="e1", ts_ms="1900") + line(event_id="e2", ts_ms=...))

    work.once()
    with spool.open("ab") as stream:
        stream.write(line(event_id="e3", ts_ms=5_000.7) + line(event_id="e4", ts_ms=None))
    work.once()

    times = {event.event_id: event.ts_ms for event in recorded(here)}
    assert times == {"e0": 7_000, "e1": 1_900, "e2": 1_900, "e3": 5_000, "e4": 5_000}
    assert work.once().lines.total == 0


@pytest.mark.parametrize(
    ("fields", "scope", "summary"),
    [
        ({"scope": None, "summary": "[SCOPE: Team A] hello"}, "team-a", "hello"),
        ({"scope": "explicit", "summary": "[scope:other] hi"}, "explicit", "hi"),
        ({"scope": ..., "summary": "[SCOPE: ///] a"}, "global", "a"),
        ({"scope": "", "summary": "[SCOPE:] a"}, "global", "[SCOPE:] a"),
    ],
)
def test_a_scope_that_is_named_goes_before_a_tag(
    here: Ledger, spool: Path, fields: dict[str, Any], scope: str, summary: str
) -> None:
    spool.write_bytes(line(**fields))

    ingest_of(here, spool, scope_rule=ScopeRule(allows_markers=True)).once()

    assert [event.summary for event in recorded(here, scope)] == [summary]


def test_a_name_that_cannot_be_a_scope_leads_to_no_other(here: Ledger, spool: Path) -> None:
    spool.write_bytes(line(scope="a@b") + line(scope=None, summary="[SCOPE: a@b] hello"))

    receipt = ingest_of(here, spool, scope_rule=ScopeRule(allows_markers=True)).once()

    assert (receipt.inserted, receipt.lines.invalid_event) == (0, 2)


def test_secrets_and_personal_details_are_masked_and_times_are_not(
    work: Ingest, here: Ledger, spool: Path
) -> None:
    spool.write_bytes(
        line(
            summary=f"use {TOKEN}",
            payload={"mail": "write to ann@example.org", "at": 1_708_732_800_000},
            refs={"day": "2026-03-05", "password": "hunter2"},
        )
    )

    receipt = work.once()

    event = recorded(here)[0]
    assert TOKEN not in event.summary
    assert event.summary.startswith("use [redacted:")
    assert event.payload["mail"].startswith("write to [redacted:email:")
    assert event.payload["at"] == 1_708_732_800_000
    assert event.refs["day"] == "2026-03-05"
    assert "hunter2" not in str(event.refs)
    assert receipt.bounded.redacted_late == 0


def test_a_secret_that_a_cut_would_have_halved_is_masked_first(here: Ledger, spool: Path) -> None:
    spool.write_bytes(line(payload={"t": "x" * 250 + TOKEN + "y" * 300}))
    work = ingest_of(here, spool, caps=EventLimits.within(payload=1, conversation=1, refs=1))

    work.once()

    assert TOKEN[:12] not in json.dumps(recorded(here)[0].payload)


def test_what_is_over_a_cap_is_cut_and_marked(here: Ledger, spool: Path) -> None:
    deep: Any = "x"
    for _ in range(9):
        deep = [deep]
    spool.write_bytes(
        line(payload={"t": "x" * 9_000}, refs={"l": list(range(60))})
        + line(event_id="e2", payload={str(n): n for n in range(50)}, refs=deep)
        + line(event_id="e3", payload={"stdout": "loud", "ok": 1}, summary="s" * 2_000)
        + line(event_id="e4", type="conversation.user", payload={"text": "y" * 5_000})
    )
    work = ingest_of(here, spool)

    bounds = work.once().bounded

    first, second, third, fourth = recorded(here)
    assert (first.payload["_truncated"], first.payload["reason"]) == (True, "payload_cap")
    assert first.refs["l"][-1] == "[TRUNCATED_ITEMS:12]"
    assert second.payload["_truncated_items"] is True
    assert "[TRUNCATED_DEPTH]" in json.dumps(second.refs)
    assert third.payload == {"_redacted_output_fields": 1, "ok": 1}
    assert len(third.summary) == 1_000
    assert fourth.payload["original_bytes"] > 4_096
    assert (bounds.payload_truncated, bounds.refs_truncated) == (3, 2)
    assert bounds.summary_truncated == 1


def test_what_a_tool_printed_is_withheld_from_a_conversation(
    work: Ingest, here: Ledger, spool: Path
) -> None:
    spool.write_bytes(
        line(type="conversation.user", payload={"text": "Traceback (most recent call last)"})
        + line(event_id="e2", redacted=True, payload={"a": 1}, refs=["r"])
    )

    receipt = work.once()

    dump, told = recorded(here)
    assert (dump.payload, dump.refs) == (None, {"_redacted": True})
    assert (told.payload, told.refs) == ({"a": 1}, {"_redacted": True, "refs": ["r"]})
    assert receipt.bounded.redacted_late == 2


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                **dict.fromkeys(("scope", "ts_ms", "payload", "refs", "redacted"), ANY_JSON),
                **dict.fromkeys(("session_id", "agent_id", "summary", "event_id"), ANY_JSON),
                "type": ANY_JSON | st.sampled_from(EPISODE_KINDS),
            },
        ),
        max_size=5,
    )
)
def test_whatever_lines_hold_all_of_them_are_accounted_for(
    rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    spool = tmp_path_factory.mktemp("any") / "spool.jsonl"
    spool.write_bytes(b"".join(line(**row) for row in rows))
    with treering.open(":memory:", guard="off") as ledger:
        receipt = ingest_of(ledger, spool).once()

        counts = receipt.lines
        taken = receipt.inserted + counts.duplicates
        assert taken + counts.invalid_json + counts.invalid_event == counts.total == len(rows)
        assert ledger.admin.verify().events == receipt.inserted


def swap(spool: Path, body: bytes) -> None:
    other = spool.with_name("other")
    other.write_bytes(body)
    other.replace(spool)


def rewrite(spool: Path, body: bytes) -> None:
    with spool.open("r+b") as stream:
        stream.truncate()
        stream.write(body)


@pytest.mark.parametrize(
    ("change", "lines", "why"),
    [
        (swap, 2, "reset_to_zero_source_replaced"),
        (rewrite, 1, "reset_to_zero_source_shrunk"),
        (rewrite, 9, "reset_to_zero_source_rewritten"),
    ],
)
def test_a_spool_that_is_another_is_read_from_its_beginning(
    work: Ingest,
    here: Ledger,
    spool: Path,
    change: Callable[[Path, bytes], None],
    lines: int,
    why: str,
) -> None:
    spool.write_bytes(b"".join(line(event_id=f"old{n}") for n in range(3)))
    work.once()

    change(spool, b"".join(line(event_id=f"new{n}") for n in range(lines)))
    receipt = work.once()

    assert (receipt.source.offset_recovery, receipt.inserted) == (why, lines)
    assert len(recorded(here)) == 3 + lines


def test_a_state_of_another_ledger_is_not_believed(
    work: Ingest, spool: Path, tmp_path: Path
) -> None:
    spool.write_bytes(line(event_id=None))
    work.once()
    with treering.open(tmp_path / "second.db") as second:
        receipt = ingest_of(second, spool, location="there").once()

    assert receipt.inserted == 1
    assert receipt.source.offset_recovery == "reset_to_zero_other_ledger"


def test_a_state_that_says_nothing_is_told_of(work: Ingest, spool: Path) -> None:
    spool.write_bytes(line())
    spool.with_name("state.json").write_text("{")

    with pytest.raises(treering.InvalidInput, match="not a valid state"):
        work.once()


def test_the_same_line_without_an_id_is_another_event_once_the_spool_was_emptied(
    work: Ingest, here: Ledger, spool: Path
) -> None:
    spool.write_bytes(line(event_id=None))
    emptied = work.once("truncate")
    assert (spool.stat().st_size, emptied.maintenance.applied) == (0, "truncated")
    spool.write_bytes(line(event_id=None))
    spool.with_name("copy").write_bytes(spool.read_bytes())

    assert work.once().inserted == 1
    spool.with_name("copy").replace(spool)
    copied = work.once()

    assert (copied.inserted, copied.lines.duplicates) == (0, 1)
    assert copied.source.offset_recovery == "reset_to_zero_source_replaced"
    assert len({event.event_id for event in recorded(here)}) == 2


def test_a_spool_is_put_aside_only_when_all_of_it_was_read(
    work: Ingest, spool: Path, tmp_path: Path
) -> None:
    spool.write_bytes(line() + b"torn")
    kept = work.once("rotate").maintenance
    spool.write_bytes(line())

    receipt = work.once("rotate")

    aside = [path for path in tmp_path.iterdir() if path.name.endswith(".ingested")]
    assert (kept.applied, kept.reason) == ("none", "pending_partial_line")
    assert [str(path) for path in aside] == [receipt.maintenance.rotated_to]
    assert (aside[0].read_bytes(), spool.read_bytes()) == (line(), b"")
    assert receipt.source.next_offset == 0
    assert work.once("rotate").maintenance.reason == "source_empty"


def test_what_is_written_while_a_spool_is_put_aside_is_not_lost(
    work: Ingest, here: Ledger, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.write_bytes(line())
    maintain = ingest.maintain

    def racing(*arguments: Any, **settings: Any) -> Any:
        with spool.open("ab") as writer:
            aside = maintain(*arguments, **settings)
            writer.write(line(event_id="late"))
        return aside

    monkeypatch.setattr(ingest, "maintain", racing)
    receipt = work.once("rotate")

    assert (receipt.inserted, receipt.maintenance.applied) == (2, "rotated")
    assert [event.event_id for event in recorded(here)] == ["e1", "late"]
    assert receipt.source.processed_sha256 == sha256(line() + line(event_id="late")).hexdigest()


def test_a_spool_with_lines_that_could_not_be_taken_is_not_emptied(
    work: Ingest, spool: Path
) -> None:
    spool.write_bytes(b"no json\n" + line())
    work.once()

    receipt = work.once("truncate")

    assert (receipt.maintenance.applied, receipt.maintenance.reason) == ("none", "invalid_lines")
    assert spool.stat().st_size > 0


def test_two_passes_over_one_spool_exclude_each_other(
    work: Ingest, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "LOCK_PATIENCE_S", 0.0)
    spool.write_bytes(line())

    with locked(spool, patience_s=0), pytest.raises(treering.errors.Busy, match="holds"):
        work.once()


def test_a_spool_is_followed_until_nobody_writes_to_it(
    work: Ingest, here: Ledger, spool: Path
) -> None:
    coming = [line(), b"", line(event_id="e2") + line(), b""]

    def pause(_: float) -> None:
        if coming and (body := coming.pop(0)):
            with spool.open("ab") as stream:
                stream.write(body)

    plan = FollowPlan(idle_exit_s=0.3, rotate_idle_s=0.1, rotate_bytes_min=1)
    follow = Follow(work, plan, pause=pause)
    follow.run()

    receipt = follow.receipt()
    assert receipt.follow.stop_reason == "idle_timeout"
    assert (receipt.aggregate.inserted, receipt.aggregate.lines.duplicates) == (2, 1)
    assert (receipt.rotate_on_idle.attempts, receipt.rotate_on_idle.rotated) == (1, 1)
    assert receipt.rotate_on_idle.rotated_to[0].endswith(".idle-rotated")
    assert len(recorded(here)) == 2


def test_a_follower_that_is_stopped_still_accounts_for_itself(work: Ingest, spool: Path) -> None:
    def pause(_: float) -> None:
        raise KeyboardInterrupt

    spool.write_bytes(line())
    follow = Follow(work, FollowPlan(), pause=pause)
    follow.run()

    assert follow.receipt().follow.stop_reason == "interrupted"
    assert follow.receipt().aggregate.inserted == 1


def test_what_came_in_another_way_meanwhile_is_a_duplicate(
    work: Ingest, here: Ledger, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, asked = here.find_ids, []

    def late(scope: str, ids: Any) -> Any:
        asked.append(scope)
        found = known(scope, ids)
        if len(asked) == 1:
            here.append([said("mine", scope="s", session_id="z", event_id="e1")])
        return found

    monkeypatch.setattr(here, "find_ids", late)
    spool.write_bytes(line() + line(event_id="e2"))

    receipt = work.once()

    assert (receipt.inserted, receipt.lines.duplicates) == (1, 1)
    assert len(recorded(here)) == 2


def test_what_is_remembered_of_a_spool_confirms_no_guess(work: Ingest, spool: Path) -> None:
    spool.write_bytes(line(event_id=..., summary="is allergic to penicillin"))
    work.once()
    state = spool.with_name("state.json")
    digest = sha256(spool.read_bytes()).hexdigest()
    assert digest not in state.read_text()

    # A state of an earlier version is read on, and its hashes are replaced.
    stated = json.loads(state.read_text())
    stated["print"] = {"offset": stated["offset"], "head": digest, "tail": digest}
    state.write_text(json.dumps(stated))
    again = work.once()

    assert (again.source.offset_recovery, again.inserted) == (None, 0)
    assert digest not in state.read_text()
