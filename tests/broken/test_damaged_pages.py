"""Pages that were swapped, lost or cut off: every call says so, or goes on."""

from __future__ import annotations

import contextlib
import io
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import treering
from broken.damaged_pages import (
    NAME,
    PAGE_BYTES,
    SCOPE,
    damaged,
    lay_out,
    sound_folder,
    with_swapped,
)
from broken.ledgers import said
from treering import TreeringError

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


@pytest.mark.parametrize(("suffix", "count"), [("", 12), (".search", 8), (".memory", 8)])
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


def test_what_makes_no_sense_in_a_damaged_file_is_called_damage(sound: Path, place: Path) -> None:
    # The key of all names is on the page of the table ``ledger``.
    content = (sound / NAME).read_bytes()
    key = content.index(b"name_key") // PAGE_BYTES
    other = next(at for at in range(1, len(content) // PAGE_BYTES) if at != key)
    lay_out(sound, place, "", with_swapped(content, key, other))

    with pytest.raises(TreeringError) as refused, treering.open(place / NAME) as ledger:
        ledger.query(SCOPE)

    assert "damaged" in str(refused.value)
    assert "restore" in (refused.value.hint or "")


def _calls(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    opened: list[treering.Ledger] = []
    yield "open", lambda: opened.append(treering.open(path, durability="normal"))
    if opened:
        ledger = opened[0]
        session = {"scope": SCOPE, "agent": "lyria"}
        event = said("hi", session_id="s1")
        yield "query", lambda: ledger.query(SCOPE, first=1_000)
        yield "verify", ledger.verify
        yield "search", lambda: ledger.search("thing", scope=SCOPE)
        yield "turns", lambda: ledger.session("s1", **session).turns()
        yield "context", lambda: ledger.session("s1", **session).context(max_tokens=3_000)
        yield "append", lambda: ledger.append([event])
        yield "redact", lambda: ledger.redact(SCOPE, session_id="s2")
        yield "expire", lambda: ledger.expire(SCOPE)
        yield "export", lambda: ledger.export(SCOPE, io.BytesIO(), payloads="included")
        yield "recall", lambda: ledger.memory(SCOPE).recall("where")
        yield "learn", lambda: ledger.memory(SCOPE).learn("Works at Acme")
        with contextlib.closing(ledger):
            yield "rebuild", ledger.rebuild
