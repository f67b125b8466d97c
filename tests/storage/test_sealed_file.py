"""Sealed payloads in a file: what its bytes give away, its backups, and tampering with it."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

import treering
from broken.ledgers import SCOPE, marked, raw_bytes, traces
from builders import ELSEWHERE, HERE, said
from treering.errors import Corrupt, KeyMissing
from treering.model.codec import content_of, encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering import Ledger
    from treering.receipts import Verification

LARGE: Final = {"text": "a long story " * 2_000}
GOLDEN: Final = Path(__file__).parent.parent / "golden" / "ledger_v1.db"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def sealed(path: Path, keys: Path) -> Iterator[Ledger]:
    """Return a ledger whose scope HERE is encrypted."""
    with treering.open(path, keys=keys) as ledger:
        ledger.keys.create(HERE)
        yield ledger


def backup(path: Path, name: str = "backup.db") -> Path:
    target = path.with_name(name)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"VACUUM INTO '{target}'")
    return target


def tamper(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("flip", 2, _flip)
        connection.execute(statement)
        connection.commit()


def _flip(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def verified(path: Path, keys: Path) -> Verification:
    with treering.open(path, keys=keys) as ledger:
        return ledger.admin.verify()


# What the bytes give away.


def test_no_file_holds_a_payload_or_a_summary_that_repeats_it(path: Path, keys: Path) -> None:
    dice = Random(7)
    events = [
        marked(dice, f"e{size}", size=size, session_id="s1")
        for size in (1, 700, 8_000, 9_000, 200_000)
    ]
    with treering.open(path, keys=keys) as ledger:
        ledger.keys.create(SCOPE)
        ledger.append(events)

        content = raw_bytes(path)
        for event in events:
            summary, refs, *private = traces(event)
            assert summary not in content
            assert refs in content
            assert [trace for trace in private if trace in content] == []
        assert [event.payload for event in ledger.events(SCOPE).items] == [
            event.payload for event in events
        ]


def test_a_short_payload_cannot_be_guessed_back_from_its_digest(sealed: Ledger, path: Path) -> None:
    header = sealed.append([said("Approved?", payload="yes")])[0]
    stream = io.BytesIO()
    sealed.admin.export(HERE, stream, payloads="included")
    salt = bytes.fromhex(json.loads(stream.getvalue().splitlines()[2])["salt"])
    content = content_of("Approved?", None, encode("yes"))

    # With the salt the answer could be tried out; so the salt is sealed as well.
    assert sha256(salt + content).digest() == header.content_digest
    assert salt not in raw_bytes(path)


def test_other_tools_see_no_payload_and_trip_over_none(sealed: Ledger, path: Path) -> None:
    sealed.append([said("inline"), said("large", payload=LARGE), said("none", payload=None)])

    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(
            "SELECT summary, payload_json FROM episodic_events ORDER BY id"
        ).fetchall()

    assert found == [("user message, 6 characters", None), ("large", None), ("none", None)]


def test_redacting_takes_the_sealed_bytes_too(sealed: Ledger, path: Path) -> None:
    header = sealed.append([said("a", payload=LARGE), said("b")])[0]
    with closing(sqlite3.connect(path)) as connection:
        box, body = connection.execute(
            "SELECT c.salt, b.body FROM contents AS c JOIN blobs AS b ON b.id = c.blob"
        ).fetchone()

    sealed.redact(HERE, event_id=header.event_id)

    content = raw_bytes(path)
    assert box[20:60] not in content
    assert body[20:60] not in content


# Backups.


def test_a_backup_shows_nothing_once_the_keys_are_destroyed(
    sealed: Ledger, path: Path, keys: Path
) -> None:
    sealed.append([said("a", event_id="a"), said("large", payload=LARGE), said("c", payload=None)])
    copy = backup(path)

    sealed.keys.destroy(HERE)

    with treering.open(copy, keys=keys) as restored:
        events = restored.events(HERE).items
        assert [event.payload for event in events] == ["[REDACTED]", "[REDACTED]", None]
        shown = "user message, 1 character"
        assert [event.summary for event in events] == [shown, "large", "c"]
        proof = restored.admin.verify()
        assert (proof.intact, proof.events, proof.sealed) == (True, 3, 2)
        with pytest.raises(KeyMissing, match="was destroyed"):
            restored.admin.export(HERE, io.BytesIO(), payloads="included")
        assert restored.admin.export(HERE, io.BytesIO()).events == 3
        assert restored.append([said("whatever", event_id="a")])[0].summary == shown


def test_a_restored_backup_is_redacted_by_destroying_once_more(
    sealed: Ledger, path: Path, keys: Path
) -> None:
    sealed.append([said("a"), said("large", payload=LARGE)])
    copy = backup(path)
    sealed.keys.destroy(HERE)

    with treering.open(copy, keys=keys) as restored:
        receipt = restored.keys.destroy(HERE)

        assert (receipt.generations, receipt.redacted_count, receipt.blobs_erased) == ([], 2, 1)
        proof = restored.admin.verify()
        assert (proof.intact, proof.redacted, proof.sealed) == (True, 2, 0)
        assert restored.admin.export(HERE, io.BytesIO(), payloads="included").events == 3


def test_a_backup_is_read_with_the_keys_of_its_ledger(
    sealed: Ledger, path: Path, keys: Path, tmp_path: Path
) -> None:
    sealed.append([said("a")])
    copy = backup(path)
    sealed.keys.rotate(HERE)
    sealed.append([said("b")])
    moved = tmp_path / "other machine"
    shutil.copytree(keys, moved)

    for folder in (keys, moved):
        with treering.open(copy, keys=folder, mode="ro") as restored:
            assert [event.payload for event in restored.events(HERE).items] == [{"text": "a"}]
            assert [key.state for key in restored.keys.list()] == ["kept", "in use"]


# Other processes, older files.


def test_a_writer_notices_that_another_has_encrypted_the_scope(path: Path, keys: Path) -> None:
    with treering.open(path, keys=keys) as ours, treering.open(path, keys=keys) as theirs:
        ours.append([said("before")])
        theirs.keys.create(HERE)
        ours.append([said("after")])
        theirs.keys.rotate(HERE)
        ours.append([said("later")])

        assert [key.payloads for key in theirs.keys.list(HERE)] == [1, 1]
        assert [event.payload for event in theirs.events(HERE).items] == [
            {"text": text} for text in ("before", "after", "later")
        ]


def test_a_ledger_of_the_first_version_can_be_encrypted(path: Path, keys: Path) -> None:
    shutil.copyfile(GOLDEN, path)
    with treering.open(path, keys=keys) as ledger:
        ledger.keys.create(HERE)
        ledger.append([said("sealed", session_id="new")])

        proof = ledger.admin.verify()
        assert (proof.intact, proof.sealed) == (True, 0)
        assert [key.payloads for key in ledger.keys.list()] == [1]


# Tampering.


@pytest.mark.parametrize(
    "change",
    [
        "salt = flip(salt, 0)",
        "salt = flip(salt, 7)",
        "salt = flip(salt, 30)",
        "salt = substr(salt, 1, 60)",
        "salt = (SELECT salt FROM contents WHERE position = 2)",
        "payload = CAST('\"a lie\"' AS BLOB)",
        "payload = CAST('\"a lie\"' AS BLOB), salt = x'00112233445566778899aabbccddeeff'",
        "salt = NULL",
        "salt = x'00112233445566778899aabbccddeeff'",
    ],
)
def test_a_changed_box_is_broken_content(
    sealed: Ledger, path: Path, keys: Path, change: str
) -> None:
    sealed.append([said("a"), said("b"), said("c", event_id="e3")])
    sealed.close()
    tamper(path, f"UPDATE contents SET {change} WHERE position = 3")

    broken = verified(path, keys).first_broken

    assert broken is not None
    assert (broken.seq, broken.event_id, broken.fault) == (3, "e3", "content")


def test_a_changed_box_is_not_read(sealed: Ledger, path: Path, keys: Path) -> None:
    sealed.append([said("a", event_id="a"), said("b", event_id="b")])
    sealed.close()
    tamper(path, "UPDATE contents SET salt = (SELECT salt FROM contents WHERE position = 2)")

    with treering.open(path, keys=keys) as ledger:
        assert ledger.event(HERE, "b").payload == {"text": "b"}
        with pytest.raises(Corrupt):
            ledger.event(HERE, "a")


@pytest.mark.parametrize(
    "change",
    [
        "body = flip(body, 40)",
        "body = (SELECT body FROM blobs WHERE id = 2)",
        "key = randomblob(32)",
    ],
)
def test_a_changed_blob_is_broken_content(
    sealed: Ledger, path: Path, keys: Path, change: str
) -> None:
    sealed.append([said("a", payload=LARGE, event_id="e1"), said("b", payload=[LARGE])])
    sealed.close()
    tamper(path, f"UPDATE blobs SET {change} WHERE id = 1")

    broken = verified(path, keys).first_broken

    assert broken is not None
    assert (broken.seq, broken.event_id, broken.fault) == (1, "e1", "content")


def test_a_scope_cannot_be_unmarked_behind_the_ledgers_back(
    sealed: Ledger, path: Path, keys: Path
) -> None:
    sealed.append([said("a")])
    sealed.close()
    tamper(path, "DELETE FROM ledger WHERE name = 'sealed:acme/app'")

    broken = verified(path, keys).first_broken

    assert broken is not None
    assert broken.detail == "1 payloads are sealed in a scope that is not marked as sealed"


RENAMED: Final = "UPDATE scopes SET name = 'acme/old' WHERE name = 'acme/app'"
UNMARKED: Final = "DELETE FROM ledger WHERE name = 'sealed:acme/app'"
MARKED_ANEW: Final = "UPDATE ledger SET name = 'sealed:acme/old' WHERE name = 'sealed:acme/app'"
REMOVED: Final = "DELETE FROM scopes WHERE name = 'acme/app'"
TAKEN: Final = "INSERT INTO scopes (name, key) VALUES ('acme/app', randomblob(32))"


@pytest.mark.parametrize(
    "statements",
    [(RENAMED, UNMARKED), (RENAMED, MARKED_ANEW), (REMOVED, UNMARKED), (RENAMED, UNMARKED, TAKEN)],
    ids=["renamed", "mark-renamed", "removed", "replaced"],
)
def test_nothing_is_recorded_in_plain_text_although_the_scope_was_renamed(
    sealed: Ledger, path: Path, tmp_path: Path, statements: tuple[str, ...]
) -> None:
    sealed.append([said("a"), said("b", scope=ELSEWHERE)])
    sealed.close()
    for statement in statements:
        tamper(path, statement)

    with treering.open(path, keys=tmp_path / "no keys") as other:
        with pytest.raises(Corrupt, match="scope acme/app was encrypted"):
            other.append([said("c", payload={"text": "quillwort"})])
        other.append([said("d", scope=ELSEWHERE), said("e", scope="acme/new")])

    assert b"quillwort" not in raw_bytes(path)
