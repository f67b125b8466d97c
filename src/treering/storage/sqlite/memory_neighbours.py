"""An index of neighbours beside a ledger: which vectors are near another, without a look at all.

It is derived from the documents of one shelf and one embedder, and holds good for one generation:
whatever is taken out of the shelf, the index goes as a whole. It is built a little with each
question, for that takes long; until it is up nobody is answered from it.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec

from treering.embedders.minilm import load_runtime
from treering.memory.records import IndexName
from treering.memory.vectors import SCALE_BYTES, unpack
from treering.model.codec import encode
from treering.storage.memory_documents import BUILD_S, HNSW_DOCUMENTS
from treering.storage.sqlite import memory_documents
from treering.storage.sqlite.opening import create_private
from treering.storage.sqlite.rows import fetch_all

if TYPE_CHECKING:
    import apsw

    from treering.memory.records import Document
    from treering.storage.sqlite.memory_file import MemoryFile

BATCH_DOCUMENTS: Final = 200
BREADTH: Final = 40
"""Vectors that a new one is compared with, before its neighbours are chosen."""
SAVED_EVERY: Final = 500
"""Vectors that are entered before the file is written again."""
CHUNKS_MAX: Final = 8
"""Vectors of one document: each has its key."""
CANDIDATES: Final = 4
"""Vectors that are measured exactly, for each document that is asked for."""
_SUFFIX: Final = ".hnsw"
_STATE: Final = ".hnsw.json"


class _NeighbourState(msgspec.Struct, frozen=True):
    """What an index holds: documents of one embedder and one generation, up to a number."""

    embedder: str
    dimensions: int
    generation: int
    newest: int
    vectors: int


class _Built(msgspec.Struct):
    """An index in memory, and what it holds."""

    index: Any
    state: _NeighbourState
    saved: int
    """How many vectors the file has."""


class Neighbours:
    """Indexes of the shelves beside one file of the memory. Used under that file's lock."""

    def __init__(self, file: MemoryFile) -> None:
        self._file = file
        self._built: dict[tuple[int, IndexName], _Built] = {}

    def nearest(
        self, scope: int, shelf: IndexName, vector: bytes, *, embedder: str, limit: int
    ) -> list[tuple[int, float]] | None:
        """Return numbers of documents and cosines, the nearest first; None without an index."""
        with self._file.lock.guard, self._file.lock:
            held = self._file.read(lambda c: memory_documents.index_state(c, scope, shelf))
            if held is None or held.count < HNSW_DOCUMENTS:
                return None
            wanted = _NeighbourState(
                embedder, len(vector) - SCALE_BYTES, held.generation, held.newest, 0
            )
            built = self._opened(scope, shelf, wanted)
            if built is None or not self._build(built, scope, shelf, held.newest):
                return None
            return self._search(built, vector, limit)

    def sweep(self, connection: apsw.Connection | None) -> None:
        """Remove the indexes of what is on no shelf any more; all of them if there are none."""
        path = Path(self._file.path)
        for shelf in get_args(IndexName):
            for index_path in path.parent.glob(f"*-{shelf}{_SUFFIX}"):
                scope = index_path.name.removeprefix(f"{path.name}-").removesuffix(
                    f"-{shelf}{_SUFFIX}"
                )
                if not scope.isdigit():
                    continue  # It belongs to another ledger.
                state = _read_state(index_path.with_suffix(_STATE))
                if (
                    connection is None
                    or state is None
                    or state.generation != _generation(connection, int(scope), shelf)
                ):
                    index_path.unlink(missing_ok=True)
                    index_path.with_suffix(_STATE).unlink(missing_ok=True)

    def _opened(self, scope: int, shelf: IndexName, wanted: _NeighbourState) -> _Built | None:
        """Return the index that is there, or an empty one; None if the library is missing."""
        try:
            _load_runtime_of_models()
            from usearch.index import Index  # noqa: PLC0415  (an extra, and slow to import)
        except ImportError:
            return None
        built = self._built.get((scope, shelf))
        if built is None or not _fits(built.state, wanted):
            path = self._path(scope, shelf)
            state = _read_state(path.with_suffix(_STATE))
            index = Index(ndim=wanted.dimensions, metric="cos", dtype="i8", expansion_add=BREADTH)
            built = _Built(index, msgspec.structs.replace(wanted, newest=0), 0)
            if state is not None and _fits(state, wanted) and _load(index, path, state.vectors):
                built = _Built(index, state, state.vectors)
            self._built[scope, shelf] = built
        return built

    def _build(self, built: _Built, scope: int, shelf: IndexName, newest: int) -> bool:
        """Enter documents for a while; return whether all are in."""
        deadline = time.monotonic() + BUILD_S
        while built.state.newest < newest:
            after = built.state.newest
            page = partial(
                memory_documents.page, scope=scope, shelf=shelf, after=after, limit=BATCH_DOCUMENTS
            )
            documents = self._file.read(page)
            if not documents:
                return False
            _enter(built, [pair for pair in documents if pair[1].embedder == built.state.embedder])
            built.state = msgspec.structs.replace(
                built.state, newest=documents[-1][0], vectors=len(built.index)
            )
            if time.monotonic() > deadline:
                break
        is_up = built.state.newest >= newest
        waiting = built.state.vectors - built.saved
        if waiting >= SAVED_EVERY or (waiting and is_up and not built.saved):
            self._file.write(lambda c: self._save(c, built, scope, shelf))
        return is_up

    def _save(
        self, connection: apsw.Connection, built: _Built, scope: int, shelf: IndexName
    ) -> None:
        """Write the index beside the file, unless documents have left since it was built."""
        if _generation(connection, scope, shelf) != built.state.generation:
            return
        path = self._path(scope, shelf)
        state = path.with_suffix(_STATE)
        # An index without a state is never read: so none is taken for another's.
        state.unlink(missing_ok=True)
        for file in (path, state):
            create_private(str(file))
        built.index.save(str(path))
        state.write_bytes(encode(msgspec.to_builtins(built.state)))
        built.saved = built.state.vectors

    def _search(self, built: _Built, vector: bytes, limit: int) -> list[tuple[int, float]] | None:
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        dimensions = built.state.dimensions
        [asked], _ = unpack([vector], dimensions)
        count = min(limit * CANDIDATES, len(built.index))
        keys = built.index.search(asked, count).keys if count else []
        numbers = sorted({int(key) // CHUNKS_MAX for key in keys})
        rows = self._file.read(
            lambda c: fetch_all(
                c,
                "SELECT number, vectors FROM documents"
                " WHERE number IN (SELECT value FROM json_each(CAST(? AS TEXT)))",
                (encode(numbers),),
            )
        )
        if rows is None:
            return None
        vectors, counts = unpack([row[1] for row in rows], dimensions)
        cosines = vectors @ asked
        ends = np.cumsum(counts)
        best = [
            (row[0], float(cosines[end - count : end].max()))
            for row, end, count in zip(rows, ends, counts, strict=True)
        ]
        return sorted(best, key=lambda one: (-one[1], one[0]))[:limit]

    def _path(self, scope: int, shelf: IndexName) -> Path:
        return Path(f"{self._file.path}-{scope}-{shelf}{_SUFFIX}")


def _enter(built: _Built, documents: list[tuple[int, Document]]) -> None:
    import numpy as np  # noqa: PLC0415

    packed = [document.vectors for _, document in documents]
    vectors, counts = unpack(packed, built.state.dimensions)
    keys, rows, first = [], [], 0
    for (number, _), count in zip(documents, counts, strict=True):
        chunks = range(min(count, CHUNKS_MAX))
        keys += [number * CHUNKS_MAX + chunk for chunk in chunks]
        rows += [first + chunk for chunk in chunks]
        first += count
    if keys:
        built.index.add(np.array(keys, np.uint64), vectors[rows], threads=1)


def _load(index: Any, path: Path, vectors: int) -> bool:
    """Read an index from its file; return False, and leave it empty, if it is not whole."""
    try:
        index.load(str(path))
    except (OSError, RuntimeError, ValueError):
        index.reset()
        return False
    if len(index) == vectors:
        return True
    index.reset()
    return False


def _fits(state: _NeighbourState, wanted: _NeighbourState) -> bool:
    """Whether an index holds what is wanted, if perhaps not all of it."""
    return (state.embedder, state.dimensions, state.generation) == (
        wanted.embedder,
        wanted.dimensions,
        wanted.generation,
    ) and state.newest <= wanted.newest


def _generation(connection: apsw.Connection, scope: int, shelf: IndexName) -> int:
    return memory_documents.index_state(connection, scope, shelf).generation


def _read_state(path: Path) -> _NeighbourState | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_NeighbourState)
    except (OSError, msgspec.MsgspecError):
        return None


def _load_runtime_of_models() -> None:
    """Load onnxruntime, where it is installed: after usearch it would take the process down."""
    with contextlib.suppress(ImportError):
        load_runtime()
