"""A mirror of the ledger in Parquet files, for questions over months and millions of events.

    DIR/mirror.json                              what the folder is
    DIR/scope=acme%2Fapp/manifest.json           the cursor, and the files that count
    DIR/scope=acme%2Fapp/day=2026-11-17/*.parquet
    DIR/receipts.jsonl                           what each catch-up did

A manifest is replaced after its new files are complete, so cursor and files always agree; files
that no manifest names are removed. An erasure in the ledger rewrites the files it touches.
"""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

import msgspec

from treering.derive.prices import PICO, price
from treering.errors import Busy, InvalidInput, Unsupported
from treering.ledger.verification import covered
from treering.model.events import Event, Header
from treering.model.fields import instant
from treering.model.kinds import ERASURE_KINDS
from treering.model.parts import safe_part

try:
    import fcntl
except ImportError:  # Windows has no flock: mirror from one process at a time there.
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from duckdb import DuckDBPyConnection

    from treering.ledger.ledger import Ledger

VERSION: Final = 1
BATCH_EVENTS: Final = 100_000
"""Events that one file holds at most when it is written."""
FILES_MAX: Final = 12
"""A day with more files than this is written as one."""
ROW_GROUP: Final = 100_000
MARKER: Final = "mirror.json"
MANIFEST: Final = "manifest.json"
RECEIPTS: Final = "receipts.jsonl"
COLUMNS: Final = {
    "position": "BIGINT", "seq": "BIGINT", "event_id": "VARCHAR", "session_id": "VARCHAR",
    "run_id": "VARCHAR", "turn_id": "VARCHAR", "agent_id": "VARCHAR", "user_id": "VARCHAR",
    "kind": "VARCHAR", "source": "VARCHAR", "origin": "VARCHAR", "visibility": "VARCHAR",
    "ts_ms": "BIGINT", "recorded_ms": "BIGINT", "ts": "TIMESTAMP", "summary": "VARCHAR",
    "payload_bytes": "BIGINT", "redacted": "BOOLEAN", "expired": "BOOLEAN",
    "tool": "VARCHAR", "call_id": "VARCHAR", "status": "VARCHAR", "duration_ms": "BIGINT",
    "error_class": "VARCHAR", "input_bytes": "BIGINT", "output_bytes": "BIGINT",
    "reason": "VARCHAR", "code": "VARCHAR", "stop_reason": "VARCHAR", "characters": "BIGINT",
    "message_id": "VARCHAR", "request_id": "VARCHAR", "model": "VARCHAR", "provider": "VARCHAR",
    "input_tokens": "BIGINT", "output_tokens": "BIGINT", "cached_tokens": "BIGINT",
    "cache_write_tokens": "BIGINT", "total_tokens": "BIGINT", "cost_usd": "DOUBLE",
    "refs": "JSON", "payload": "JSON",
}  # fmt: skip
"""The columns of a file; ``scope`` and ``day`` are in its path."""
_FACTS: Final = frozenset(COLUMNS) & {
    "tool", "call_id", "status", "duration_ms", "error_class", "input_bytes", "output_bytes",
    "reason", "code", "stop_reason", "characters", "model", "provider", "input_tokens",
    "output_tokens", "cached_tokens", "total_tokens",
}  # fmt: skip
_DAY_MS: Final = 86_400_000
_NO_END: Final = 2**63 - 1
_IS_TAKEN: Final = (
    "EXISTS (SELECT 1 FROM taken WHERE taken.session_id = held.session_id"
    " AND held.seq BETWEEN taken.first AND taken.last)"
)
_Taken: TypeAlias = tuple[str, int, int]
"""A session, and the first and the last seq that an erasure took of it."""
_ROWS: Final = ".rows.jsonl"
"""Rows on their way into a file."""


class MirrorFile(msgspec.Struct, frozen=True, kw_only=True):
    """A current file of the mirror."""

    path: str
    """Within the scope's folder."""
    day: str
    rows: int
    first: int
    """The lowest position in it."""
    last: int


class Manifest(msgspec.Struct, kw_only=True):
    """The cursor of the mirror of a scope, and its files."""

    version: int = VERSION
    scope: str
    cursor: str | None = None
    root: str | None = None
    """The link of the scope's first event: distinguishes ledgers."""
    files: list[MirrorFile] = []


class MirrorReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a catch-up did to the mirror of one scope."""

    scope: str
    events: int
    """Events that were added."""
    files: int
    """Files that were written, rewritten ones included."""
    erasures: int
    """Erasure events that were followed."""
    rewritten: int
    """Rows that an erasure changed; their old files are gone."""
    rows: int
    """Rows that the scope has now."""
    at: str


class _Marker(msgspec.Struct, frozen=True, kw_only=True):
    format: str = "treering.mirror"
    version: int = VERSION
    payloads: bool = False


class ParquetMirror:
    """The mirror of a ledger in a folder, created if necessary. One process at a time writes it.

    It holds headers, tool calls and usage; summaries and refs of private events, and payloads,
    only if ``payloads``. Raise InvalidInput if the folder holds something else.
    """

    def __init__(
        self, ledger: Ledger, folder: str | os.PathLike[str], *, payloads: bool = False
    ) -> None:
        self._ledger = ledger
        self.folder = Path(folder)
        self._payloads = payloads
        self._duckdb = connect()
        self._claim()
        self._lock = _locked(self.folder)

    def close(self) -> None:
        """Release the mirror for other processes."""
        self._duckdb.close()
        self._lock.close()

    def catch_up(
        self, scope: str, *, progress: Callable[[int], None] | None = None
    ) -> MirrorReceipt:
        """Add what the mirror of ``scope`` lacks, and erase from it what was erased."""
        home = self.folder / scope_folder(scope)
        manifest = read_manifest(home) or Manifest(scope=scope)
        self._check_root(manifest)
        _remove_strays(home, manifest)
        work = _ScopeWriter(self._ledger, self._duckdb, home, manifest, payloads=self._payloads)
        work.run(progress)
        receipt = work.receipt()
        if receipt.events or receipt.rewritten:
            with (self.folder / RECEIPTS).open("ab") as stream:
                stream.write(msgspec.json.encode(receipt) + b"\n")
        return receipt

    def _claim(self) -> None:
        """Claim the folder for a mirror. Raise InvalidInput if it holds something else."""
        marker = self.folder / MARKER
        wanted = _Marker(payloads=self._payloads)
        if not marker.exists():
            if set(str(self.folder)) & set("*?[]{}'"):
                raise InvalidInput(
                    f"{self.folder} contains wildcard characters",
                    hint="name a folder without * ? [ ] { } and '",
                )
            if self.folder.exists() and any(self.folder.iterdir()):
                raise InvalidInput(
                    f"{self.folder} is not empty, and not a mirror",
                    hint="name a new or an empty folder",
                )
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _replace(marker, msgspec.json.encode(wanted))
            return
        existing = read_marker(self.folder)
        if existing.payloads != self._payloads:
            kind = "with" if existing.payloads else "without"
            raise InvalidInput(
                f"{self.folder} is a mirror {kind} payloads",
                hint="name another folder, or mirror as before",
            )

    def _check_root(self, manifest: Manifest) -> None:
        first = next(iter(self._ledger.follow(manifest.scope, idle_s=0)), None)
        root = None if first is None else first.link.hex()
        if manifest.root is not None and root != manifest.root:
            raise InvalidInput(
                f"{self.folder} mirrors {manifest.scope} of another ledger",
                hint="name another folder",
            )
        manifest.root = root


class _ScopeWriter:
    """Writes the mirror of one scope."""

    def __init__(
        self,
        ledger: Ledger,
        duckdb: DuckDBPyConnection,
        home: Path,
        manifest: Manifest,
        *,
        payloads: bool,
    ) -> None:
        self._ledger = ledger
        self._duckdb = duckdb
        self._home = home
        self._manifest = manifest
        self._payloads = payloads
        self._written = self._added = self._erasures = self._rewritten = 0

    def run(self, progress: Callable[[int], None] | None) -> None:
        for batch, cursor in self._batches():
            added = self._write(batch)
            erased = [event for event in batch if event.kind in ERASURE_KINDS]
            self._manifest.cursor = cursor
            files = [*self._manifest.files, *added]
            # In one manifest with the erasure events: nothing erased remains after them.
            self._publish(self._without_erased(files, erased))
            self._added += len(batch)
            if progress is not None:
                progress(len(batch))
        self._merge_small()

    def receipt(self) -> MirrorReceipt:
        return MirrorReceipt(
            scope=self._manifest.scope,
            events=self._added,
            files=self._written,
            erasures=self._erasures,
            rewritten=self._rewritten,
            rows=sum(file.rows for file in self._manifest.files),
            at=instant(int(datetime.now(UTC).timestamp() * 1_000)),
        )

    def _batches(self) -> Iterator[tuple[list[Header], str]]:
        scope, after = self._manifest.scope, self._manifest.cursor
        following: Any = (
            self._ledger.follow_events(scope, after=after, idle_s=0)
            if self._payloads
            else self._ledger.follow(scope, after=after, idle_s=0)
        )
        batch: list[Header] = []
        for event in following:
            batch.append(event)
            if len(batch) >= BATCH_EVENTS:
                yield batch, following.cursor
                batch = []
        if batch:
            yield batch, following.cursor

    # Files.

    def _write(self, events: Sequence[Header]) -> list[MirrorFile]:
        """Write events to new files, one for each day."""
        rows = [mirror_row(event, with_content=self._payloads) for event in events]
        with self._table(rows):
            return [self._copy("SELECT * FROM fresh WHERE ", day) for day in self._days()]

    @contextlib.contextmanager
    def _table(self, rows: Sequence[dict[str, Any]]) -> Iterator[None]:
        """Load ``rows`` into the table ``fresh``."""
        self._home.mkdir(parents=True, exist_ok=True)
        lines = self._home / _ROWS
        columns = ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items())
        try:
            with lines.open("wb") as stream:
                _write_lines(stream, rows)
            self._duckdb.execute(
                "CREATE OR REPLACE TEMP TABLE fresh AS SELECT * FROM read_json("
                f"?, format='newline_delimited', columns={{{columns}}},"
                " maximum_object_size=268435456)",
                [str(lines)],
            )
            yield
        finally:
            lines.unlink(missing_ok=True)
            self._duckdb.execute("DROP TABLE IF EXISTS fresh")

    def _days(self) -> list[int]:
        result = self._duckdb.execute(
            f"SELECT DISTINCT ts_ms // {_DAY_MS} AS d FROM fresh ORDER BY d"
        )
        return [row[0] for row in result.fetchall()]

    def _copy(self, select: str, day: int) -> MirrorFile:
        """Write the rows of a day to a new file."""
        name = instant(day * _DAY_MS)[:10]
        folder = self._home / f"day={name}"
        folder.mkdir(exist_ok=True)
        path = folder / f"{os.urandom(8).hex()}.parquet"
        where = f"{select}ts_ms // {_DAY_MS} = {day} ORDER BY session_id, seq"
        self._duckdb.execute(
            f"COPY ({where}) TO '{_quoted(path)}'"
            f" (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
        )
        _sync(path)
        self._written += 1
        return self._described(path, name)

    def _described(self, path: Path, day: str) -> MirrorFile:
        rows, first, last = self._duckdb.execute(
            "SELECT count(*), coalesce(min(position), 0), coalesce(max(position), 0)"
            " FROM read_parquet(?)",
            [str(path)],
        ).fetchall()[0]
        relative = str(path.relative_to(self._home))
        return MirrorFile(path=relative, day=day, rows=rows, first=first, last=last)

    def _publish(self, files: list[MirrorFile]) -> None:
        """Make ``files`` the mirror, and remove all others."""
        self._manifest.files = [file for file in files if file.rows]
        _replace(self._home / MANIFEST, msgspec.json.encode(self._manifest))
        _remove_strays(self._home, self._manifest)

    def _merge_small(self) -> None:
        """Write days that have become many files as one file each."""
        by_day: dict[str, list[MirrorFile]] = {}
        for file in self._manifest.files:
            by_day.setdefault(file.day, []).append(file)
        crowded = {day: files for day, files in by_day.items() if len(files) > FILES_MAX}
        if not crowded:
            return
        others = [file for file in self._manifest.files if file.day not in crowded]
        self._publish(others + [self._rewritten_file(files, "TRUE") for files in crowded.values()])

    def _rewritten_file(self, files: Sequence[MirrorFile], condition: str) -> MirrorFile:
        paths = ", ".join(f"'{_quoted(self._home / file.path)}'" for file in files)
        day = int(datetime.fromisoformat(files[0].day).replace(tzinfo=UTC).timestamp() // 86_400)
        columns = ", ".join(f'"{name}"' for name in COLUMNS)
        source = f"read_parquet([{paths}], hive_partitioning=false) AS held"
        return self._copy(f"SELECT {columns} FROM {source} WHERE {condition} AND ", day)

    # Erasures.

    def _without_erased(
        self, files: list[MirrorFile], erasures: Sequence[Header]
    ) -> list[MirrorFile]:
        """Return ``files`` with the current rows where erasures changed them."""
        if not erasures:
            return files
        self._erasures += len(erasures)
        taken, current = self._taken(erasures)
        rows = [mirror_row(header, with_content=self._payloads) for header in current]
        mirrored: list[MirrorFile] = []
        with self._table(rows), self._table_of_taken(taken):
            for file in files:
                if not self._holds_taken(file):
                    mirrored.append(file)
                    continue
                untouched = self._rewritten_file([file], f"NOT {_IS_TAKEN}")
                mirrored.append(untouched)
                self._rewritten += file.rows - untouched.rows
            mirrored += [self._copy("SELECT * FROM fresh WHERE ", day) for day in self._days()]
        return mirrored

    def _taken(self, erasures: Sequence[Header]) -> tuple[list[_Taken], list[Header]]:
        """Return what was erased, and the rows that replace it."""
        scope = self._manifest.scope
        taken: list[_Taken] = []
        current: dict[int, Header] = {}
        for erasure in erasures:
            payload = self._ledger.event(scope, erasure.event_id).payload
            extent = payload if isinstance(payload, dict) else {}
            is_whole = extent.get("whole") is True
            stretches = [(0, _NO_END)] if is_whole else covered(extent)
            for first, last in stretches:
                taken.append((erasure.session_id, first, last))
                current |= {header.position: header for header in self._now(erasure, first, last)}
        if any(erasure.kind == "ledger.forgotten" for erasure in erasures):
            # A session that was forgotten as a whole has lost its name.
            left = set(self._ledger.session_ids(scope))
            taken += [(name, 0, _NO_END) for name in self._mirrored_sessions() if name not in left]
        return taken, list(current.values())

    def _now(self, erasure: Header, first: int, last: int) -> Iterator[Header]:
        """Yield the remaining events of a range, in their current form."""
        session = self._ledger.session(
            erasure.session_id, scope=erasure.scope, agent=erasure.agent_id
        )
        read: Any = session.events if self._payloads else session.headers
        for header in read(after_seq=max(first - 1, 0)):
            if header.seq > last:
                return
            if header.session_id == erasure.session_id and not header.expired:
                yield header

    def _mirrored_sessions(self) -> list[str]:
        paths = [str(self._home / file.path) for file in self._manifest.files]
        if not paths:
            return []
        result = self._duckdb.execute("SELECT DISTINCT session_id FROM read_parquet(?)", [paths])
        return [row[0] for row in result.fetchall()]

    @contextlib.contextmanager
    def _table_of_taken(self, taken: Sequence[_Taken]) -> Iterator[None]:
        self._duckdb.execute(
            "CREATE OR REPLACE TEMP TABLE taken (session_id VARCHAR, first BIGINT, last BIGINT)"
        )
        if taken:
            self._duckdb.executemany("INSERT INTO taken VALUES (?, ?, ?)", list(taken))
        try:
            yield
        finally:
            self._duckdb.execute("DROP TABLE taken")

    def _holds_taken(self, file: MirrorFile) -> bool:
        result = self._duckdb.execute(
            f"SELECT count(*) FROM read_parquet(?) AS held WHERE {_IS_TAKEN}",
            [str(self._home / file.path)],
        )
        return bool(result.fetchall()[0][0])


def mirror_row(event: Header, *, with_content: bool) -> dict[str, Any]:
    """Return an event as a row, with private content only ``with_content``."""
    is_shown = with_content or event.visibility == "safe"
    refs = event.refs if isinstance(event.refs, dict) else {}
    part = safe_part(event.kind, refs).as_refs()
    row: dict[str, Any] = {
        "position": event.position,
        "seq": event.seq,
        "event_id": event.event_id,
        "session_id": event.session_id,
        "run_id": event.run_id,
        "turn_id": event.turn_id,
        "agent_id": event.agent_id,
        "user_id": event.user_id,
        "kind": event.kind,
        "source": event.source,
        "origin": event.origin,
        "visibility": event.visibility,
        "ts_ms": event.ts_ms,
        "recorded_ms": event.recorded_ms,
        "ts": instant(event.ts_ms).removesuffix("Z"),
        "summary": event.summary if is_shown else None,
        "payload_bytes": event.payload_bytes,
        "redacted": event.redacted,
        "expired": event.expired,
        "refs": event.refs if is_shown else None,
    }
    row |= {name: value for name, value in part.items() if name in _FACTS}
    for name in ("message_id", "request_id"):
        if isinstance(refs.get(name), str):
            row[name] = refs[name]
    if event.kind == "usage.reported":
        _add_cost(row, refs)
    if with_content and isinstance(event, Event):
        row["payload"] = event.payload
    return row


def _add_cost(row: dict[str, Any], refs: dict[str, Any]) -> None:
    written = refs.get("cache_creation_tokens")
    row["cache_write_tokens"] = written if type(written) is int else None
    sent, received = row.get("input_tokens"), row.get("output_tokens")
    row.setdefault("total_tokens", (sent or 0) + (received or 0))
    if row.get("model") and sent is not None and received is not None:
        cost = price(
            row["model"],
            row.get("provider"),
            input_tokens=sent,
            output_tokens=received,
            cached_tokens=row.get("cached_tokens") or 0,
            cache_write_tokens=row["cache_write_tokens"] or 0,
            at_ms=row["ts_ms"],
        )
        row["cost_usd"] = None if cost is None else cost / 10**PICO


def connect() -> DuckDBPyConnection:
    """Return a connection to a DuckDB of our own, in memory. Raise Unsupported without it."""
    try:
        import duckdb  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise Unsupported(
            "a mirror needs duckdb, which is not installed", hint="pip install 'treering[parquet]'"
        ) from error
    # Nothing is loaded from the network, and no file of the user's settings is read.
    return duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": "",
        },
    )


def scope_folder(scope: str) -> str:
    """Return the name of a scope's folder."""
    return f"scope={quote(scope, safe='')}"


def read_marker(folder: Path) -> _Marker:
    """Return the marker of a mirror's folder. Raise InvalidInput if it is not a mirror."""
    try:
        marker = msgspec.json.decode((folder / MARKER).read_bytes(), type=_Marker)
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidInput(
            f"{folder} is not a mirror", hint=f"make one: treering mirror parquet {folder}"
        ) from error
    if marker.version > VERSION:
        raise InvalidInput(f"{folder} was written by a newer version", hint="update treering")
    return marker


def read_manifest(home: Path) -> Manifest | None:
    """Return the manifest of a scope's folder; None if it does not exist."""
    try:
        return msgspec.json.decode((home / MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise InvalidInput(
            f"{home / MANIFEST} is damaged", hint="remove its folder and mirror again"
        ) from error


def _write_lines(stream: IO[bytes], rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as lines of JSON."""
    encoder = msgspec.json.Encoder()
    for start in range(0, len(rows), 10_000):
        stream.write(encoder.encode_lines(rows[start : start + 10_000]))


def _remove_strays(home: Path, manifest: Manifest) -> None:
    """Remove the files that the manifest does not name: replaced, or left by a crash."""
    (home / _ROWS).unlink(missing_ok=True)
    named = {str(home / file.path) for file in manifest.files}
    for path in home.glob("day=*/*.parquet"):
        if str(path) not in named:
            path.unlink(missing_ok=True)
    for folder in home.glob("day=*"):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _replace(path: Path, content: bytes) -> None:
    """Replace a file atomically."""
    draft = path.with_name(f".{path.name}.partial")
    with draft.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(path)


def _sync(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _locked(folder: Path) -> IO[bytes]:
    """Lock a file for this process and return it. Raise Busy if another process has it."""
    file = (folder / ".lock").open("wb")
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise Busy(
            f"{folder} is in use by another mirror", hint="wait for the other process"
        ) from error
    return file


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
