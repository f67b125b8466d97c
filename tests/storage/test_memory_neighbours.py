"""The index of neighbours beside a ledger: as good as an exact search, gone with what it held."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

import treering
from builders import HERE, said
from ports import store_of
from treering.memory.records import IndexEntry
from treering.memory.vectors import pack, unpack
from treering.model.scopes import Scope
from treering.storage.sqlite import memory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from treering import Event, Ledger

SCOPE: Final = Scope(HERE)


def vectors_of(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return so many vectors of length 1, the same each time."""
    drawn = np.random.default_rng(7).standard_normal((count, 32)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn


def shelve_vectors(ledger: Ledger, count: int, *, space: str = "space") -> None:
    """Enter events with one to three vectors each, in the order of ``vectors_of``."""
    drawn = vectors_of(count * 3).reshape(count, 3, 32)

    def read(events: Sequence[Event]) -> list[IndexEntry]:
        return [
            IndexEntry(event.position, b"", pack(drawn[number, : 1 + number % 3]))
            for event in events
            for number in [int(str(event.summary))]
        ]

    while store_of(ledger).memory.follow_documents(SCOPE, "events", read, embedder=space).more:
        pass


def exactly(ledger: Ledger, asked: bytes, limit: int) -> dict[int, float]:
    """Return the documents that are nearest of all, with their cosines."""
    [vector], _ = unpack([asked], 32)
    found = store_of(ledger).memory.documents(SCOPE, "events", after=0, limit=50_000)
    told = [
        (number, max(float(one @ vector) for one in unpack([document.vectors], 32)[0]))
        for number, document in found
    ]
    return dict(sorted(told, key=lambda one: -one[1])[:limit])


def nearest(
    ledger: Ledger, asked: bytes, limit: int, space: str = "space"
) -> dict[int, float] | None:
    """Return the same by the index; None without one."""
    found = store_of(ledger).memory.nearest(SCOPE, "events", asked, embedder=space, limit=limit)
    return None if found is None else dict(found)


@pytest.fixture
def small_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an index of neighbours for a few documents, built at once."""
    monkeypatch.setattr(memory, "HNSW_DOCUMENTS", 100)
    monkeypatch.setattr(memory, "BUILD_S", 60.0)


@pytest.mark.usefixtures("small_neighbours")
def test_the_nearest_are_those_of_an_exact_search(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    asked = [pack(vectors_of(900)[[at]]) for at in range(0, 900, 60)]
    with treering.open(path, durability="normal") as ledger:
        ledger.append([said(f"{number}") for number in range(99)])
        shelve_vectors(ledger, 300)
        assert nearest(ledger, asked[0], 5) is None
        ledger.append([said(f"{number}") for number in range(99, 299)])
        shelve_vectors(ledger, 300)

        for vector in asked:
            found = nearest(ledger, vector, 5)
            assert found == pytest.approx(exactly(ledger, vector, 5))
        ledger.append([said("299")])
        shelve_vectors(ledger, 300)
        last = pack(vectors_of(900)[[897]])
        assert nearest(ledger, last, 1) == pytest.approx(exactly(ledger, last, 1))
        assert nearest(ledger, last, 5, "another") == {}
    with treering.open(path) as ledger:
        found = nearest(ledger, asked[3], 5)
        assert found == pytest.approx(exactly(ledger, asked[3], 5))
    with treering.open(path, mode="ro") as ledger:
        assert nearest(ledger, last, 5) is None


@pytest.mark.usefixtures("small_neighbours")
def test_an_index_of_neighbours_goes_with_what_is_erased_and_is_built_anew(tmp_path: Path) -> None:
    path, asked = tmp_path / "a.db", pack(vectors_of(900)[[0]])
    files = [tmp_path / f"a.db.memory-1-events.hnsw{end}" for end in ("", ".json")]
    with treering.open(path, durability="normal") as ledger:
        ledger.append([said(f"{number}", event_id=f"e{number}") for number in range(300)])
        shelve_vectors(ledger, 300)
        [first] = nearest(ledger, asked, 1) or {}
        assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]

        assert ledger.redact(HERE, event_id="e0").physical == "done"

        assert not any(file.exists() for file in files)
        found = nearest(ledger, asked, 5)
        assert found == pytest.approx(exactly(ledger, asked, 5))
        assert first not in (found or {})
        assert all(file.exists() for file in files)
        store_of(ledger).rebuild()
        assert not any(file.exists() for file in files)


@pytest.mark.usefixtures("small_neighbours")
def test_without_the_library_there_is_no_index_of_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with treering.open(tmp_path / "a.db", durability="normal") as ledger:
        ledger.append([said(f"{number}") for number in range(120)])
        shelve_vectors(ledger, 120)

        assert nearest(ledger, pack(vectors_of(1)), 5) is None


@pytest.mark.usefixtures("small_neighbours")
@pytest.mark.parametrize("damage", ["torn", "stateless", "foreign"])
def test_an_index_of_neighbours_that_is_damaged_is_built_anew(tmp_path: Path, damage: str) -> None:
    path, asked = tmp_path / "a.db", pack(vectors_of(900)[[30]])
    index = tmp_path / "a.db.memory-1-events.hnsw"
    with treering.open(path, durability="normal") as ledger:
        ledger.append([said(f"{number}") for number in range(300)])
        shelve_vectors(ledger, 300)
        nearest(ledger, asked, 1)
    match damage:
        case "torn":
            index.write_bytes(index.read_bytes()[:5_000])
        case "stateless":
            index.with_suffix(".hnsw.json").unlink()
        case "foreign":
            index.write_bytes(b"no index")

    with treering.open(path) as ledger:
        found = nearest(ledger, asked, 5)
        assert found == pytest.approx(exactly(ledger, asked, 5))


def test_an_index_of_neighbours_is_built_a_little_with_each_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "HNSW_DOCUMENTS", 100)
    monkeypatch.setattr(memory, "BATCH_DOCUMENTS", 50)
    monkeypatch.setattr(memory, "SAVED_EVERY", 1)
    monkeypatch.setattr(memory, "BUILD_S", 0.0)
    path, asked = tmp_path / "a.db", pack(vectors_of(900)[[30]])
    with treering.open(path, durability="normal") as ledger:
        ledger.append([said(f"{number}") for number in range(120)])
        shelve_vectors(ledger, 300)

    told = []
    for _ in range(4):
        with treering.open(path) as ledger:
            told.append(nearest(ledger, asked, 5))

    assert told[:2] == [None, None]
    assert told[2] == told[3] != {}
