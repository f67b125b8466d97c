"""The keys of sealed scopes: a folder of small files, apart from the ledger.

One file holds the keys of one scope of one ledger, every generation of them. Generations are
numbered 1, 2, 3, … and never used again: of a destroyed one its number and its times are left.
A file is replaced as a whole, so that a reader sees the old one or the new one. The old one is
overwritten when a key is destroyed, and only then: somebody may keep a copy by a second link.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from treering.errors import Busy, Corrupt, KeyMissing, StorageError, check_from_system
from treering.files import lock, sync_folder
from treering.ledger.records import KeyRecord, mark_of_key
from treering.storage.sealing import KEY_BYTES, AesKey, cipher

FORMAT: Final = "treering.keys.v1"
SUFFIX: Final = ".key"
IDS: Final = "ids.secret"
"""The file of the key that ids made from words, and ids of what was erased, are hashed under."""
LOCK: Final = "lock"
PATIENCE_S: Final = 30.0
"""How long another process that changes the folder is waited for."""
ATTEMPTS_MAX: Final = 5
"""How often a file is read that is being replaced meanwhile."""

_Count = Annotated[int, msgspec.Meta(ge=1, lt=2**32)]
_Material = Annotated[str, msgspec.Meta(pattern=f"^[0-9a-f]{{{2 * KEY_BYTES}}}$")]


class _Generation(msgspec.Struct, frozen=True, kw_only=True):
    generation: _Count
    created_ms: int
    key: _Material | None
    destroyed_ms: int | None = None


class _Ring(msgspec.Struct, frozen=True, kw_only=True):
    """What one file holds."""

    format: Literal["treering.keys.v1"]
    ledger: str
    scope: str
    in_use: _Count | None = None
    """The generation that new payloads are sealed under."""
    pending: _Count | None = None
    """A generation that is used as soon as the ledger says that the scope is encrypted."""
    generations: list[_Generation] = []

    def find(self, generation: int) -> _Generation | None:
        return next((entry for entry in self.generations if entry.generation == generation), None)


class _Opened:
    """A file as it was read, and the keys that were made from it."""

    def __init__(self, stamp: tuple[int, int, int], ring: _Ring) -> None:
        self.stamp = stamp
        self.ring = ring
        self.keys: dict[int, AesKey] = {}


class KeyFolder:
    """The keys of one ledger's scopes. Notices what other processes change."""

    def __init__(self, folder: Callable[[], Path], ledger_id: Callable[[], str]) -> None:
        self._folder = folder
        self._ledger_id = cache(ledger_id)
        self._paths: dict[str, str] = {}
        self._opened: dict[str, _Opened] = {}
        self._id_key = b""
        self._fitting: set[tuple[str, str]] = set()
        """Scopes, and notes of theirs that speak of the key that is here."""

    def ledger_id(self) -> str:
        """Return the name that the ledger was given when it was made; its copies share it."""
        return self._ledger_id()

    def folder(self) -> Path:
        """Return where the keys are."""
        return self._folder()

    def id_key(self) -> bytes:
        """Return the key that hides ids; it is made when it is first needed. Raise StorageError.

        All ledgers of a folder share it, so that a copy knows the ids of what was erased.
        """
        return self._find_id_key() or self._make_id_key()

    def find_id_key(self, scope: str, noted: Callable[[str], str | None], *names: str) -> bytes:
        """Return the key that hides ids; nothing if none was needed yet.

        ``noted`` reads the mark of the key that was used in the scope, by each of ``names``: see
        ID_NOTES. Raise KeyMissing if that is not the key that is here.
        """
        key = self._find_id_key()
        for name in names:
            if (scope, name) in self._fitting:
                continue
            mark = noted(name)
            if mark is None:
                continue  # Another process may note one, or an export bring it along.
            # The process that noted it may have made the key after we looked for it above.
            key = key or self._find_id_key()
            if mark != (key and mark_of_key(key)):
                raise self._other_id_key(scope)
            self._fitting.add((scope, name))
        return key

    def _find_id_key(self) -> bytes:
        if not self._id_key:
            self._id_key = _read_id_key(self._folder() / IDS)
        return self._id_key

    def _other_id_key(self, scope: str) -> KeyMissing:
        path = self._folder() / IDS
        is_here = "is another one than" if self._id_key else "is missing: it is not"
        return KeyMissing(
            f"{path} {is_here} the key under which scope {scope} hides ids: logs would be recorded"
            " twice, and what was erased could come back",
            hint=f"put back the {IDS} that belongs to this ledger; if it is lost for good, accept"
            f" that with: treering keys ids --scope {scope} --accept",
        )

    def _make_id_key(self) -> bytes:
        path = self._folder() / IDS
        try:
            _make_folder(path.parent)
            with _alone(path.parent):
                key = _read_id_key(path)
                if not key:
                    draft = path.with_suffix(".draft")
                    _wipe(draft)
                    key = os.urandom(KEY_BYTES)
                    _replace(path, draft, key.hex().encode(), overwriting=False)
        except OSError as error:
            raise _unusable(str(path), error) from error
        return key

    # For those who seal and open.

    def seals(self, scope: str) -> bool:
        """Whether the scope has a key in use, or one that is about to be."""
        # Every append asks, and mostly no file exists: this is quicker than catching an error.
        if not os.access(self._paths.get(scope) or self._path(scope), os.F_OK):
            return False
        opened = self._open(scope)
        return opened is not None and _current(opened.ring) is not None

    def has_sealed(self, scope: str) -> bool:
        """Whether a key of the scope is or was in use."""
        opened = self._open(scope)
        if opened is None:
            return False
        return any(entry.generation != opened.ring.pending for entry in opened.ring.generations)

    def in_use(self, scope: str) -> AesKey:
        """Return the key that new payloads are sealed under. Raise KeyMissing."""
        opened = self._open(scope)
        if opened is None:
            raise self._missing(scope)
        number = _current(opened.ring) or 0
        key = opened.keys.get(number) or _key(opened, number)
        if key is None:
            raise _out_of_use(scope)
        return key

    def find(self, scope: str, generation: int) -> AesKey | None:
        """Return a key, or None if it was destroyed. Raise KeyMissing if it is not here."""
        opened = self._open(scope)
        if opened is None:
            raise self._missing(scope)
        key = opened.keys.get(generation) or _key(opened, generation)
        if key is None and opened.ring.find(generation) is None:
            raise self._missing(scope, generation)
        return key

    def records(self, scope: str) -> list[KeyRecord]:
        """Return a record of each generation, without the keys."""
        opened = self._open(scope)
        return [] if opened is None else _records(opened.ring)

    # For those who look after the keys.

    def create(self, scope: str, *, at_ms: int) -> int:
        """Make the next generation unless one is in use; return the one that is, or will be.

        It is in use for good once ``confirm`` is called: until then the ledger need not say that
        the scope is encrypted.
        """
        cipher()

        def change(ring: _Ring) -> _Ring:
            if _current(ring) is not None:
                return ring
            grown = _grown(ring, at_ms)
            return msgspec.structs.replace(grown, in_use=None, pending=grown.in_use)

        return _current(self._change(scope, change)) or 0

    def confirm(self, scope: str) -> None:
        """Note that the ledger marks the scope as encrypted; from now on it always must."""

        def change(ring: _Ring) -> _Ring:
            return msgspec.structs.replace(ring, in_use=_current(ring), pending=None)

        self._change(scope, change)

    def rotate(self, scope: str, *, at_ms: int) -> int:
        """Make the next generation and use it from now on. Raise KeyMissing if none is in use."""
        cipher()

        def change(ring: _Ring) -> _Ring:
            if _current(ring) is None:
                raise _out_of_use(scope)
            return _grown(ring, at_ms)

        return self._change(scope, change).in_use or 0

    def retire(self, scope: str) -> None:
        """Take the key out of use: what is sealed can be read, and nothing more is sealed."""
        if not self.records(scope):
            raise self._missing(scope)
        self._change(scope, lambda ring: msgspec.structs.replace(ring, in_use=None, pending=None))

    def destroy(self, scope: str, generations: Sequence[int], *, at_ms: int) -> list[int]:
        """Destroy keys; return those that were there to be destroyed."""
        destroyed: list[int] = []

        def change(ring: _Ring) -> _Ring:
            doomed = [
                entry for entry in ring.generations if entry.generation in generations and entry.key
            ]
            destroyed.extend(entry.generation for entry in doomed)
            entries = [
                msgspec.structs.replace(entry, key=None, destroyed_ms=at_ms)
                if entry in doomed
                else entry
                for entry in ring.generations
            ]
            in_use = None if ring.in_use in destroyed else ring.in_use
            pending = None if ring.pending in destroyed else ring.pending
            return msgspec.structs.replace(
                ring, in_use=in_use, pending=pending, generations=entries
            )

        self._change(scope, change)
        return destroyed

    # Files.

    def _open(self, scope: str) -> _Opened | None:
        """Return the scope's file, read again if it has changed; None if it is not there."""
        path = self._paths.get(scope) or self._path(scope)
        opened = self._opened.get(scope)
        try:
            stamp = _stamp(os.stat(path))  # noqa: PTH116  (often: every append asks)
            if opened is not None and stamp == opened.stamp:
                return opened
        except FileNotFoundError:
            self._opened.pop(scope, None)
            return None
        except OSError as error:
            raise _unusable(path, error) from error
        fresh = self._read(path, scope)
        if fresh is None:
            self._opened.pop(scope, None)
        else:
            self._opened[scope] = fresh
        return fresh

    def _read(self, path: str, scope: str) -> _Opened | None:
        for _ in range(ATTEMPTS_MAX):
            try:
                with Path(path).open("rb") as file:
                    stamp, text = _stamp(os.fstat(file.fileno())), file.read()
            except FileNotFoundError:
                return None
            except OSError as error:
                raise _unusable(path, error) from error
            with contextlib.suppress(msgspec.MsgspecError):
                ring = msgspec.json.decode(text, type=_Ring)
                if (ring.ledger, ring.scope) == (self._ledger_id(), scope):
                    return _Opened(stamp, ring)
        raise KeyMissing(
            f"{path} does not hold the keys of scope {scope}",
            hint="put back the copy that you keep of it",
        )

    def _change(self, scope: str, change: Callable[[_Ring], _Ring]) -> _Ring:
        path = Path(self._path(scope))
        try:
            _make_folder(path.parent)
            with _alone(path.parent):
                draft = path.with_suffix(".draft")
                # A file left by a stopped process may hold keys.
                _wipe(draft)
                opened = self._read(str(path), scope)
                fresh = _Ring(format=FORMAT, ledger=self._ledger_id(), scope=scope)
                ring = fresh if opened is None else opened.ring
                changed = change(ring)
                if changed != ring:
                    destroyed = _material(ring) - _material(changed)
                    text = msgspec.json.encode(changed)
                    _replace(path, draft, text, overwriting=bool(destroyed))
        except OSError as error:
            raise _unusable(str(path), error) from error
        self._opened.pop(scope, None)
        return changed

    def _path(self, scope: str) -> str:
        # Named by a hash: a scope holds characters that no file name may.
        name = sha256(f"{self._ledger_id()}\n{scope}".encode()).hexdigest()[:32]
        path = self._paths[scope] = str(self._folder() / f"{name}{SUFFIX}")
        return path

    def _missing(self, scope: str, generation: int | None = None) -> KeyMissing:
        which = "its key" if generation is None else f"generation {generation} of its key"
        return KeyMissing(
            f"scope {scope} is sealed, and {which} is not in {self._folder()}",
            hint="put the key file there, or say where it is with TREERING_KEYS or --keys",
        )


def _out_of_use(scope: str) -> KeyMissing:
    return KeyMissing(
        f"no key of scope {scope} is in use: they were destroyed, or are about to be",
        hint=f"make the next one: treering keys create --scope {scope}",
    )


def _read_id_key(path: Path) -> bytes:
    """Return the key that hides ids; nothing if there is none. Raise Corrupt."""
    try:
        text = path.read_bytes().strip()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _unusable(str(path), error) from error
    with contextlib.suppress(ValueError):
        key = bytes.fromhex(text.decode())
        if len(key) == KEY_BYTES:
            return key
    raise Corrupt(f"{path} does not hold a key", hint="put back the copy that you keep of it")


def _key(opened: _Opened, generation: int) -> AesKey | None:
    entry = opened.ring.find(generation)
    if entry is None or entry.key is None:
        return None
    key = opened.keys[generation] = AesKey(generation, bytes.fromhex(entry.key))
    return key


def _records(ring: _Ring) -> list[KeyRecord]:
    return [
        KeyRecord(
            generation=entry.generation,
            created_ms=entry.created_ms,
            destroyed_ms=entry.destroyed_ms,
            in_use=entry.generation == _current(ring),
        )
        for entry in ring.generations
    ]


def _grown(ring: _Ring, at_ms: int) -> _Ring:
    """Return ``ring`` with one more generation, which is in use."""
    number = max((entry.generation for entry in ring.generations), default=0) + 1
    key = os.urandom(KEY_BYTES).hex()
    made = _Generation(generation=number, created_ms=at_ms, key=key)
    generations = [*ring.generations, made]
    return msgspec.structs.replace(ring, in_use=number, pending=None, generations=generations)


def _current(ring: _Ring) -> int | None:
    return ring.in_use if ring.in_use is not None else ring.pending


def _material(ring: _Ring) -> set[str]:
    return {entry.key for entry in ring.generations if entry.key is not None}


def _stamp(state: os.stat_result) -> tuple[int, int, int]:
    return state.st_ino, state.st_mtime_ns, state.st_size


def _make_folder(folder: Path) -> None:
    """Make a folder that is its owner's alone, and its name durable, unless it is there."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


def _replace(path: Path, draft: Path, text: bytes, *, overwriting: bool) -> None:
    """Put a new file in the place of the old one; overwrite that if it holds a destroyed key."""
    file = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        _write(file, text)
    finally:
        os.close(file)
    # Opened before and overwritten after: whenever we are stopped, one of the two is whole.
    old = os.open(path, os.O_RDWR) if overwriting else None
    try:
        draft.replace(path)
        sync_folder(path.parent)
        if old is not None:
            _overwrite(old)
    finally:
        if old is not None:
            os.close(old)


def _wipe(path: Path) -> None:
    """Overwrite and remove a file, if it is there."""
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        _overwrite(file)
    finally:
        os.close(file)
    path.unlink()


def _overwrite(file: int) -> None:
    _write(file, bytes(os.fstat(file).st_size))


def _write(file: int, content: bytes) -> None:
    written = 0
    while written < len(content):
        written += os.pwrite(file, content[written:], written)
    os.fsync(file)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes and threads from changing the folder."""
    file = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if not lock(file, PATIENCE_S):
            raise Busy(
                f"another process has been changing the keys in {folder} for {PATIENCE_S:g} s",
                hint="look for one that is stuck, then try again",
            )
        yield
    finally:
        os.close(file)


def _unusable(path: str, error: OSError) -> StorageError:
    check_from_system(error)
    return StorageError(
        f"cannot use the keys in {path}: {error.strerror}",
        hint="check the folder, its permissions and the disk",
    )
