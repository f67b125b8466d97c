"""Pages that were swapped, lost or cut off: every call says so, or continues."""

from __future__ import annotations

import contextlib
import io
import sqlite3
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import treering
from broken.damaged_pages import (
    NAME,
    SCOPE,
    damaged,
    lay_out,
    sound_folder,
    with_doubled,
    with_swapped,
)
from broken.ledgers import said
from treering import TreeringError
from treering.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def sound() -> Iterator[Path]:
    with sound_folder() as folder:
        yield folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "damaged"


@pytest.mark.parametrize(("suffix", "count"), [("", 6), (".search", 4), (".memory", 4)])
def test_no_call_fails_otherwise_than_with_an_error_of_ours(
    sound: Path, place: Path, suffix: str, count: int
) -> None:
    _use_damaged(sound, place, suffix, count)


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["", ".search", ".memory"])
def test_no_call_fails_otherwise_however_pages_are_damaged(
    sound: Path, place: Path, suffix: str
) -> None:
    _use_damaged(sound, place, suffix, 200)


def _use_damaged(sound: Path, place: Path, suffix: str, count: int) -> None:
    content = (sound / f"{NAME}{suffix}").read_bytes()
    unforeseen: dict[tuple[int, str], Exception] = {}
    for seed in range(count):
        lay_out(sound, place, suffix, damaged(content, Random(seed)))
        for name, attempt in _calls(place / NAME):
            try:
                attempt()
            except TreeringError as error:
                # What is derived is made again; it is no reason to fail.
                if suffix:
                    unforeseen[seed, name] = error
            except Exception as error:  # noqa: BLE001  (what is hunted for)
                unforeseen[seed, name] = error

    assert unforeseen == {}


@pytest.mark.parametrize("table", ["sessions", "heads", "events", "blobs", "runs"])
def test_values_that_make_no_sense_in_a_damaged_file_are_called_damage(
    sound: Path, place: Path, table: str
) -> None:
    content = (sound / NAME).read_bytes()
    roots = _root_pages(sound)
    lay_out(sound, place, "", with_swapped(content, roots["ledger"], roots[table]))

    with pytest.raises(Corrupt) as refused, treering.open(place / NAME) as ledger:
        ledger.headers(SCOPE)

    assert "damaged" in str(refused.value)
    assert "restore" in (refused.value.hint or "")


@pytest.mark.parametrize("table", ["events", "contents"])
def test_a_file_whose_pages_cannot_be_rewritten_is_called_damaged(
    sound: Path, place: Path, table: str
) -> None:
    # Opening finds rows in a table that is empty, and rewrites the file to be rid of them.
    roots = _root_pages(sound)
    content = with_doubled((sound / NAME).read_bytes(), roots["legacy_events"], roots[table])
    lay_out(sound, place, "", content)

    with pytest.raises(Corrupt, match="damaged"):
        treering.open(place / NAME)


def test_bytes_in_the_place_of_what_is_left_to_erase_are_called_damage(
    sound: Path, place: Path
) -> None:
    lay_out(sound, place, "", (sound / NAME).read_bytes())
    with contextlib.closing(sqlite3.connect(place / NAME)) as connection, connection:
        connection.execute("UPDATE ledger SET value = x'00ff' WHERE name = 'erasure_pending'")

    with pytest.raises(Corrupt, match="damaged"):
        treering.open(place / NAME)


def _root_pages(folder: Path) -> dict[str, int]:
    with contextlib.closing(sqlite3.connect(folder / NAME)) as connection:
        query = "SELECT name, rootpage - 1 FROM sqlite_schema"
        return dict(connection.execute(query).fetchall())


def _calls(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    opened: list[treering.Ledger] = []
    yield "open", lambda: opened.append(treering.open(path, durability="normal"))
    if opened:
        ledger = opened[0]
        session = partial(ledger.session, "s1", scope=SCOPE, agent="lyria")
        event = said("hi", session_id="s1")
        yield "query", lambda: ledger.headers(SCOPE, first=1_000)
        yield "verify", ledger.admin.verify
        yield "search", lambda: ledger.search("thing", scope=SCOPE)
        yield "turns", lambda: session().turns()
        yield "context", lambda: session().context(max_tokens=3_000)
        yield "append", lambda: ledger.append([event])
        yield "redact", lambda: ledger.redact(SCOPE, session_id="s2")
        yield "expire", lambda: ledger.expire(SCOPE)
        yield "export", lambda: ledger.admin.export(SCOPE, io.BytesIO(), payloads="included")
        yield "recall", lambda: ledger.memory(SCOPE).recall("where")
        yield "learn", lambda: ledger.memory(SCOPE).learn("Works at Acme")
        with contextlib.closing(ledger):
            yield "rebuild", ledger.admin.rebuild
