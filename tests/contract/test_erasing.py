"""What every database promises about redaction and retention."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, called, run_of, said

if TYPE_CHECKING:
    from treering import Ledger, NewEvent


def test_a_redacted_event_keeps_its_row_and_loses_its_content(ledger: Ledger) -> None:
    ledger.append([said("secret", event_id="e1", refs={"f": "x"}), said("open", event_id="e2")])

    receipt = ledger.redact(HERE, event_id="e1")

    event = ledger.event(HERE, "e1")
    assert (receipt.redacted_count, receipt.physical) == (1, "done")
    assert (event.summary, event.refs, event.payload) == ("[REDACTED]", None, "[REDACTED]")
    assert (event.redacted, event.payload_bytes, event.kind) == (True, 0, "conversation.user")
    assert ledger.event(HERE, "e2").summary == "open"
    assert ledger.admin.verify().intact


def test_the_payload_can_read_null_instead(ledger: Ledger) -> None:
    ledger.append([said("secret", event_id="e1")])

    ledger.redact(HERE, event_id="e1", replacement="null")

    assert ledger.event(HERE, "e1").payload is None


def test_a_session_is_redacted_whole_and_an_event_vouches_for_it(ledger: Ledger) -> None:
    ledger.append([said("a"), called(), said("b", session_id="s2")])

    receipt = ledger.redact(HERE, session_id="s1")

    session = list(ledger.session("s1", scope=HERE, agent="x").events())
    assert receipt.redacted_count == 2
    assert [e.redacted for e in session] == [True, True, False]
    assert session[2].kind == "ledger.redacted"
    assert session[2].payload["ranges"] == [[1, 2]]
    assert ledger.headers(HERE, session_id="s2").items[0].summary == "b"


def test_redacting_again_erases_nothing_more(ledger: Ledger) -> None:
    ledger.append([said("a")])
    ledger.redact(HERE, session_id="s1")

    receipt = ledger.redact(HERE, session_id="s1")

    assert receipt.redacted_count == 0
    assert len(ledger.headers(HERE).items) == 2


def test_an_erasure_that_found_nothing_leaves_nothing_behind(ledger: Ledger) -> None:
    ledger.append([said("a")])
    ledger.redact(HERE, event_id="nobody")
    ledger.append([said("b", kind="ops.decision")])
    ledger.redact(HERE, session_id="s1")

    assert [h.kind for h in ledger.headers(HERE).items] == [
        "conversation.user", "ops.decision", "ledger.redacted",
    ]  # fmt: skip


def test_redaction_keeps_to_its_scope(ledger: Ledger) -> None:
    """Promise 3, and the seed: event-id redaction needs a scope."""
    ledger.append([said("theirs", event_id="e1", scope=ELSEWHERE)])

    assert ledger.redact(HERE, event_id="e1").redacted_count == 0
    assert ledger.redact(HERE, session_id="s1").redacted_count == 0
    assert ledger.event(ELSEWHERE, "e1").summary == "theirs"


@pytest.mark.parametrize(
    "target",
    [{}, {"event_id": "e1", "session_id": "s1"}, {"event_id": "e1", "replacement": "blank"}],
)
def test_a_redaction_must_say_what_it_is_aimed_at(ledger: Ledger, target: dict[str, str]) -> None:
    with pytest.raises(treering.InvalidInput):
        ledger.redact(HERE, **target)  # type: ignore[arg-type]


def test_the_id_of_an_erased_event_never_comes_back(ledger: Ledger) -> None:
    """A known id whose content is gone returns its header, marked, with no write."""
    ledger.append([said("a", event_id="e1", ts_ms=NOON), said("b", event_id="e2", ts_ms=NOON)])
    ledger.redact(HERE, event_id="e1")
    ledger.expire(HERE, now_ms=NOON + 100 * DAY)
    count = len(ledger.headers(HERE).items)

    headers = ledger.append([said("new", event_id="e1"), said("new", event_id="e2")])

    assert [h.redacted for h in headers] == [True, True]
    assert [h.expired for h in headers] == [True, True]
    assert len(ledger.headers(HERE).items) == count


def test_a_long_session_is_redacted_in_rounds(ledger: Ledger) -> None:
    ledger.append([said(str(n)) for n in range(4_500)])

    receipt = ledger.redact(HERE, session_id="s1")

    assert receipt.redacted_count == 4_500
    assert ledger.admin.verify().intact
    assert ledger.admin.verify().redacted == 4_500


def test_a_blob_goes_with_its_last_event(ledger: Ledger) -> None:
    large = {"text": "long " * 5_000}
    ledger.append(
        [said("a", event_id="e1", payload=large), said("b", event_id="e2", payload=large)]
    )

    first = ledger.redact(HERE, event_id="e1")
    second = ledger.redact(HERE, event_id="e2")

    assert (first.blobs_erased, first.blobs_shared) == (0, 1)
    assert (second.blobs_erased, second.blobs_shared) == (1, 0)
    ledger.append([said("c", event_id="e3", payload=large)])
    assert ledger.event(HERE, "e3").payload == large


def test_events_expire_by_the_retention_of_their_kind(ledger: Ledger) -> None:
    ledger.append(
        [
            said("user", ts_ms=NOON),
            said("assistant", ts_ms=NOON, kind="conversation.assistant"),
            called(ts_ms=NOON),
            said("result", ts_ms=NOON, kind="tool.result"),
            said("alert", ts_ms=NOON, kind="ops.alert"),
            said("decision", ts_ms=NOON, kind="ops.decision"),
        ]
    )

    def left(days: int) -> list[str]:
        ledger.expire(HERE, now_ms=NOON + days * DAY + 1)
        items = ledger.headers(HERE).items
        return [h.summary for h in items if h.kind != "ledger.expired"]

    assert left(29) == ["user", "assistant", "git_log called", "result", "alert", "decision"]
    assert left(30) == ["user", "assistant", "alert", "decision"]
    assert left(60) == ["assistant", "alert", "decision"]
    assert left(90) == ["decision"]
    assert left(9_999) == ["decision"]
    assert ledger.admin.verify().intact
    assert ledger.admin.verify().expired == 5


def test_an_event_exactly_as_old_as_its_retention_stays(ledger: Ledger) -> None:
    ledger.append([called(ts_ms=NOON)])

    assert ledger.expire(HERE, now_ms=NOON + 30 * DAY).deleted_total == 0
    assert ledger.expire(HERE, now_ms=NOON + 30 * DAY + 1).deleted_total == 1


def test_a_dry_run_counts_and_changes_nothing(ledger: Ledger) -> None:
    ledger.append([called(ts_ms=NOON), said("a", ts_ms=NOON)])

    receipt = ledger.expire(HERE, now_ms=NOON + 100 * DAY, dry_run=True)

    assert receipt.deleted_by_type["tool.call"] == 1
    assert receipt.deleted_by_type["conversation.user"] == 1
    assert receipt.deleted_total == 2
    assert len(ledger.headers(HERE).items) == 2


def test_a_scope_can_have_a_retention_of_its_own(ledger: Ledger) -> None:
    ledger.set_retention(HERE, {"tool.call": None, "ops.decision": 1})
    ledger.append([called(ts_ms=NOON), said("d", ts_ms=NOON, kind="ops.decision")])
    ledger.append([called(ts_ms=NOON, scope=ELSEWHERE)])

    here = ledger.expire(HERE, now_ms=NOON + 100 * DAY)
    elsewhere = ledger.expire(ELSEWHERE, now_ms=NOON + 100 * DAY)

    assert (here.deleted_by_type["tool.call"], here.deleted_by_type["ops.decision"]) == (0, 1)
    assert elsewhere.deleted_by_type["tool.call"] == 1
    assert ledger.retention(HERE)["tool.call"] is None


@pytest.mark.parametrize(
    "policy",
    [
        {"tool.call": -1},
        {"nope": 3},
        {"ledger.expired": 1},
        {"run.ended": 1},
        {"tool.call": 10**15},
    ],
)
def test_a_retention_that_makes_no_sense_is_refused(
    ledger: Ledger, policy: dict[str, int | None]
) -> None:
    with pytest.raises(treering.InvalidInput) as refused:
        ledger.set_retention(HERE, policy)

    assert refused.value.hint


def test_a_session_with_an_open_run_is_left_alone(ledger: Ledger) -> None:
    run = run_of("r1", "a", ts_ms=NOON)
    ledger.append([*run[:2], said("other", session_id="s2", ts_ms=NOON)])

    receipt = ledger.expire(HERE, now_ms=NOON + 100 * DAY)

    assert (receipt.deleted_total, receipt.sessions_kept_open) == (1, 1)
    ledger.append(run[2:])
    assert ledger.expire(HERE, now_ms=NOON + 100 * DAY).deleted_total == 1


def test_expired_events_are_in_no_reading(ledger: Ledger) -> None:
    ledger.append([said("old", event_id="e1", ts_ms=NOON)])
    ledger.expire(HERE, now_ms=NOON + 100 * DAY)

    assert [h.kind for h in ledger.headers(HERE).items] == ["ledger.expired"]
    assert [e.kind for e in ledger.follow(HERE, idle_s=0)] == ["ledger.expired"]
    assert [h.seq for h in ledger.session("s1", scope=HERE, agent="x").headers()] == [2]
    with pytest.raises(treering.NotFound):
        ledger.event(HERE, "e1")


def test_a_session_goes_on_behind_what_expired(ledger: Ledger) -> None:
    ledger.append([said("old", ts_ms=NOON)])
    ledger.expire(HERE, now_ms=NOON + 100 * DAY)

    header = ledger.append([said("new")])[0]

    assert header.seq == 3
    assert ledger.admin.verify().intact


def imported(session_id: str, **fields: Any) -> NewEvent:
    """Return the mark of a session that was taken from elsewhere."""
    return said("session imported", kind="session.imported", session_id=session_id, **fields)


def test_an_imported_session_is_kept_by_the_default_retention(ledger: Ledger) -> None:
    old = NOON - 400 * DAY
    ledger.append([said("mine", ts_ms=old), said("rescued", session_id="s2", ts_ms=old)])
    ledger.append([imported("s2"), called(session_id="s2", ts_ms=old)])

    trial = ledger.expire(HERE, now_ms=NOON, dry_run=True)
    receipt = ledger.expire(HERE, now_ms=NOON)

    left = [header.summary for header in ledger.headers(HERE, session_id="s2").items]
    assert (trial.deleted_total, trial.sessions_kept_imported) == (1, 1)
    assert (receipt.deleted_total, receipt.sessions_kept_imported) == (1, 1)
    assert sorted(left) == ["git_log called", "rescued", "session imported"]
    assert ledger.admin.verify().intact


def test_a_policy_that_somebody_chose_reaches_imported_sessions(ledger: Ledger) -> None:
    old = NOON - 400 * DAY
    ledger.append([imported("s2"), said("rescued", session_id="s2", ts_ms=old)])
    ledger.append([called(session_id="s2", ts_ms=old)])

    by_call = ledger.expire(HERE, policy={"tool.call": 30}, now_ms=NOON)
    ledger.set_retention(HERE, {"conversation.user": 60})
    by_scope = ledger.expire(HERE, now_ms=NOON)

    assert (by_call.deleted_by_type["tool.call"], by_call.deleted_total) == (1, 1)
    assert by_call.sessions_kept_imported == 1
    assert (by_scope.deleted_by_type["conversation.user"], by_scope.deleted_total) == (1, 1)
    assert by_scope.sessions_kept_imported == 0


def test_the_mark_of_an_import_counts_in_its_own_scope_and_after_a_redaction(
    ledger: Ledger,
) -> None:
    old = NOON - 400 * DAY
    ledger.append([imported("s1", scope=ELSEWHERE), said("mine", ts_ms=old)])
    ledger.append([imported("s2", event_id="mark"), said("kept", session_id="s2", ts_ms=old)])
    ledger.redact(HERE, event_id="mark")

    receipt = ledger.expire(HERE, now_ms=NOON)

    assert (receipt.deleted_total, receipt.sessions_kept_imported) == (1, 1)
    with pytest.raises(treering.InvalidInput, match="kept forever"):
        ledger.expire(HERE, policy={"session.imported": 1})


def test_an_imported_session_is_pruned_only_when_asked_for(ledger: Ledger) -> None:
    ledger.append([imported("s2"), said("rescued", session_id="s2")])
    ledger.append([said("mine")])
    later = time.time_ns() // 1_000_000 + 400 * DAY

    kept = ledger.sweep(HERE, idle_minutes=None, now_ms=later)
    asked = ledger.prune(HERE, older_than_days=90, include_imported=True, now_ms=later)

    assert (kept.pruned, kept.kept, kept.sessions_kept_imported) == (["s1"], {"s2": "imported"}, 1)
    assert (asked.pruned, asked.sessions_kept_imported) == (["s2"], 0)
    assert ledger.admin.verify().intact


def test_a_ledger_says_whether_erased_bytes_are_still_somewhere(ledger: Ledger) -> None:
    session = ledger.session("s1", scope="acme/app", agent="lyria")
    header = session.record("ops.alert", "smoke")
    assert ledger.admin.erasure_state() == "done"

    receipt = ledger.redact("acme/app", event_id=header.event_id)

    assert ledger.admin.erasure_state() == receipt.physical
