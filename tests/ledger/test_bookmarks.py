"""Notes of those who read other things for the ledger."""

from __future__ import annotations

from base64 import b64decode, b64encode, b85encode
from typing import TYPE_CHECKING

from builders import HERE
from ports import store_of
from treering.model.codec import encode

if TYPE_CHECKING:
    from treering import Ledger


def test_a_note_in_the_spelling_of_an_earlier_version_is_read(ledger: Ledger) -> None:
    bookmarks = ledger.importing.bookmarks(HERE)
    bookmarks.keep("log.jsonl", {"line": 7})
    store, key = store_of(ledger), bookmarks._key("log.jsonl")
    kept = store.cursors.find(bookmarks._scope, key)
    assert kept is not None

    store.cursors.set(bookmarks._scope, key, b85encode(b64decode(kept[1:])).decode())

    assert ledger.importing.bookmarks(HERE).find("log.jsonl") == {"line": 7}


def test_a_long_note_takes_little_room_and_an_earlier_version_s_is_read(ledger: Ledger) -> None:
    bookmarks, note = ledger.importing.bookmarks(HERE), {"lines": ["seven"] * 1_000}
    bookmarks.keep("log.jsonl", note)
    store, key = store_of(ledger), bookmarks._key("log.jsonl")

    kept = store.cursors.find(bookmarks._scope, key)

    assert kept is not None
    assert len(kept) < 500
    assert bookmarks.find("log.jsonl") == note
    as_before = b64encode(bookmarks._sealed(encode(note))).decode()
    store.cursors.set(bookmarks._scope, key, f":{as_before}")
    assert bookmarks.find("log.jsonl") == note


def test_a_note_that_cannot_be_read_is_none(ledger: Ledger) -> None:
    bookmarks = ledger.importing.bookmarks(HERE)
    bookmarks.keep("log.jsonl", {"line": 7})
    for kept in (":", ":%%%", "plain", ":AAAA", ""):
        store_of(ledger).cursors.set(bookmarks._scope, bookmarks._key("log.jsonl"), kept)

        assert bookmarks.find("log.jsonl") is None
