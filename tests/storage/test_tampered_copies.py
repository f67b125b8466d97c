"""What was changed in a file with plain SQL does not arrive elsewhere unnoticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import treering
from builders import DAY, HERE, NOON, called, said
from storage.test_tampering import ROW, tamper

if TYPE_CHECKING:
    from pathlib import Path

SEQ_3 = f"WHERE position = {ROW.format(seq=3)}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a closed ledger: s1 with six events, the last one large, and s2 with two."""
    path = tmp_path / "ledger.db"
    with treering.open(path) as ledger:
        ledger.append([said(f"event {n}", event_id=f"e{n}", ts_ms=NOON) for n in range(1, 6)])
        ledger.append([said("large", payload={"text": "large " * 5_000})])
        ledger.append([said("other", session_id="s2"), called(session_id="s2", ts_ms=NOON)])
    return path


def copied(path: Path) -> tuple[treering.receipts.CopyReceipt, list[int], list[int]]:
    """Copy a ledger, and return which events of s1 and s2 arrived."""
    with treering.open(path) as source, treering.open(f"{path}.copy") as target:
        receipt = source.admin.copy_to(target)
        found = list(target.follow(HERE, idle_s=0))
        assert target.admin.verify().intact is receipt.intact
    seqs = [[each.seq for each in found if each.session_id == name] for name in ("s1", "s2")]
    return receipt, seqs[0], seqs[1]


@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        (f"UPDATE events SET summary = 'a lie' {SEQ_3}", 3),
        (f"UPDATE events SET link = randomblob(32) {SEQ_3}", 3),
        (f"UPDATE events SET ts_ms = ts_ms + 1 {SEQ_3}", 3),
        (f"UPDATE events SET kind = 999 {SEQ_3}", 3),
        (f"UPDATE contents SET payload = CAST('1' AS BLOB) {SEQ_3}", 3),
        (f"UPDATE contents SET payload = NULL, salt = NULL {SEQ_3}", 3),
        (f"DELETE FROM contents {SEQ_3}", 3),
        (f"DELETE FROM events {SEQ_3}", 3),
        (f"UPDATE events SET flags = flags | 2 {SEQ_3}", 3),
        ("UPDATE blobs SET body = CAST('x' AS BLOB)", 6),
        ("UPDATE blobs SET body = NULL", 6),
        ("DELETE FROM events WHERE session = 1 AND seq = 6", 6),
        ("UPDATE heads SET seq = 5 WHERE session = 1", 5),
        ("UPDATE heads SET link = randomblob(32) WHERE session = 1", 6),
        ("DELETE FROM heads WHERE session = 1", 1),
        ("UPDATE sessions SET salt = randomblob(16) WHERE id = 1", 1),
    ],
)
def test_a_broken_session_is_refused_where_it_breaks_and_the_other_is_copied(
    path: Path, statement: str, seq: int
) -> None:
    tamper(path, statement)

    receipt, first, second = copied(path)

    assert (receipt.refused, receipt.complete, receipt.intact) == (1, False, True)
    (place,) = receipt.refused_sample
    assert (place.session_id, place.seq) == ("s1", seq)
    assert place.reason
    assert first == list(range(1, seq))
    assert second == [1, 2]


@pytest.mark.parametrize("erased", ["2", "4"])
def test_what_was_blanked_by_hand_is_not_taken(path: Path, erased: str) -> None:
    with treering.open(path) as ledger:
        ledger.redact(HERE, event_id=f"e{erased}")
        ledger.expire(HERE, now_ms=NOON + 45 * DAY)
    tamper(
        path,
        f"UPDATE events SET summary = NULL, payload_bytes = 0, flags = flags | 2 {SEQ_3}",
        f"UPDATE contents SET payload = NULL, salt = NULL {SEQ_3}",
    )

    receipt, first, second = copied(path)

    (place,) = receipt.refused_sample
    assert (place.session_id, place.seq) == ("s1", 3)
    assert "no event vouches" in place.reason
    assert 3 not in first
    assert second == [1, 3]


def test_a_damaged_target_is_not_added_to(path: Path) -> None:
    copied(path)
    with treering.open(path) as source:
        source.append([said("more"), said("more", session_id="s2")])
    tamper(path.with_name("ledger.db.copy"), "DELETE FROM heads WHERE session = 1")

    with treering.open(path) as source, treering.open(f"{path}.copy") as target:
        receipt = source.admin.copy_to(target)

    assert (receipt.copied, receipt.refused) == (1, 1)
    assert receipt.refused_sample[0].reason == "the record of where the session ends is gone"


def test_a_sealed_payload_that_was_changed_costs_its_session_only(path: Path) -> None:
    with treering.open(path) as ledger:
        ledger.keys.create(HERE)
        ledger.append([said("sealed"), said("sealed", session_id="s2")])
    tamper(
        path,
        "UPDATE contents SET payload = randomblob(length(payload))"
        f" WHERE position = {ROW.format(seq=7)}",
    )
    with treering.open(f"{path}.copy") as target:
        target.keys.create(HERE)

    receipt, first, second = copied(path)

    (place,) = receipt.refused_sample
    assert (place.session_id, place.seq) == ("s1", 7)
    assert "was changed after it was sealed" in place.reason
    assert first == [1, 2, 3, 4, 5, 6]
    assert second == [1, 2, 3]
