"""Damaged files: noticed and named, or without effect on anything that is read."""

from __future__ import annotations

import contextlib
import io
import sqlite3
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import pytest

from broken.ledgers import AGENT, SCOPE, marked, open_ledger, said
from broken.stories import NAME
from effort import LONG, SEED, quick_folder, rounds
from treering.errors import Corrupt, NotALedger, SchemaTooNew, StorageError, TreeringError
from treering.model.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.ledger.ledger import Ledger

FLIPS: Final = rounds(20, times=30)
TRUNCATIONS: Final = rounds(8, times=25)
BLANKED_PAGES: Final = rounds(8, times=25)
PAGE_BYTES: Final = 4_096
SESSIONS: Final = ("s1", "s2", "s3")

Verdict = Literal["refused", "broken", "unharmed"]


class Sound(NamedTuple):
    """A closed ledger, as it was before it was damaged."""

    content: bytes
    ids: list[str]
    portrait: list[bytes]
    runs: int
    """The page that the table of runs begins at."""


@pytest.fixture(scope="module")
def sound() -> Sound:
    with tempfile.TemporaryDirectory(dir=quick_folder()) as folder:
        path = Path(folder) / NAME
        with open_ledger(path) as ledger:
            _fill(ledger, Random(1))
        with open_ledger(path) as ledger:
            assert ledger.admin.verify().intact
            ids = [header.event_id for header in ledger.headers(SCOPE, first=1_000).items]
            portrait = _portrait(ledger, ids)
        with contextlib.closing(sqlite3.connect(path)) as file:
            [(root,)] = file.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'runs'")
        return Sound(path.read_bytes(), ids, portrait, root - 1)


def test_a_flipped_byte_is_noticed_or_changes_nothing_that_is_read(sound: Sound) -> None:
    verdicts = [
        _examine(_flip(sound.content, Random(seed)), sound) for seed in range(SEED, SEED + FLIPS)
    ]

    assert {"broken", "unharmed"} <= set(verdicts)
    assert verdicts.count("broken") + verdicts.count("refused") > FLIPS // 4


def test_a_flipped_bit_in_the_file_header_is_noticed_or_changes_nothing(sound: Sound) -> None:
    for at in range(0, 100, 1 if LONG else 4):
        _examine(_changed(sound.content, at, bytes([sound.content[at] ^ (1 << at % 8)])), sound)


def test_a_truncated_file_is_noticed(sound: Sound) -> None:
    for seed in range(SEED, SEED + TRUNCATIONS):
        length = Random(seed).randint(1, len(sound.content) - 1)

        assert _examine(sound.content[:length], sound) in {"refused", "broken"}


def test_a_page_of_zeros_is_noticed_or_was_not_in_use(sound: Sound) -> None:
    for seed in range(SEED, SEED + BLANKED_PAGES):
        page = Random(seed).randrange(len(sound.content) // PAGE_BYTES)

        _examine(_changed(sound.content, page * PAGE_BYTES, bytes(PAGE_BYTES)), sound)


def test_a_page_in_the_place_of_another_is_noticed_or_was_not_in_use(sound: Sound) -> None:
    for seed in range(SEED, SEED + BLANKED_PAGES):
        dice = Random(seed)
        source, target = (dice.randrange(len(sound.content) // PAGE_BYTES) for _ in range(2))
        page = sound.content[source * PAGE_BYTES : (source + 1) * PAGE_BYTES]

        _examine(_changed(sound.content, target * PAGE_BYTES, page), sound)


def test_any_page_in_the_place_of_the_runs_is_noticed(sound: Sound) -> None:
    """What it holds then may be of any type."""
    pages = range(len(sound.content) // PAGE_BYTES)
    for source in pages[:: 1 if LONG else 12]:
        page = sound.content[source * PAGE_BYTES : (source + 1) * PAGE_BYTES]

        _examine(_changed(sound.content, sound.runs * PAGE_BYTES, page), sound)


def test_a_file_that_was_emptied_is_noticed_with_an_anchor(sound: Sound) -> None:
    anchor = io.BytesIO()
    with tempfile.TemporaryDirectory(dir=quick_folder()) as folder:
        path = Path(folder) / NAME
        path.write_bytes(sound.content)
        with open_ledger(path) as ledger:
            ledger.admin.anchor(anchor)
        path.write_bytes(b"")
        anchor.seek(0)

        with open_ledger(path) as ledger:
            assert not ledger.admin.verify(anchor=anchor).intact


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"# Notes\n" * 1_000, NotALedger),
        (b"\x89PNG\r\n", NotALedger),
        (b"SQLite format 3\0" + bytes(200), StorageError),
    ],
)
def test_another_file_is_refused_and_left_as_it_was(
    tmp_path: Path, content: bytes, error: type[StorageError]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)

    with pytest.raises(error) as caught:
        open_ledger(path)

    assert caught.value.hint
    assert path.read_bytes() == content


def _examine(content: bytes, sound: Sound) -> Verdict:
    """Open a damaged file, verify it, read all of it; only errors of ours may come up."""
    with tempfile.TemporaryDirectory(dir=quick_folder()) as folder:
        path = Path(folder) / NAME
        path.write_bytes(content)
        try:
            ledger = open_ledger(path, patience_s=0.1)
        except TreeringError as error:
            _check_words(error, path)
            return "refused"
        try:
            intact = _is_intact(ledger, path)
            portrait = _portrait(ledger, sound.ids)
            _write(ledger)
        finally:
            ledger.close()
    if intact:
        assert portrait == sound.portrait, "damage that verify does not see changes what is read"
    return "unharmed" if intact else "broken"


def _is_intact(ledger: Ledger, path: Path) -> bool:
    try:
        verification = ledger.admin.verify()
    except TreeringError as error:
        _check_words(error, path)
        return False
    assert verification.intact == (verification.first_broken is None)
    return verification.intact


def _write(ledger: Ledger) -> None:
    """Write what can be; a damaged ledger may refuse, in words."""
    for name in SESSIONS:
        with contextlib.suppress(TreeringError):
            ledger.append([said("go on", session_id=name, event_id=f"{name}-after")])
    with contextlib.suppress(TreeringError):
        ledger.redact(SCOPE, session_id="s2")
    with contextlib.suppress(TreeringError):
        ledger.expire(SCOPE)


def _check_words(error: TreeringError, path: Path) -> None:
    assert isinstance(error, (Corrupt, NotALedger, SchemaTooNew, StorageError)), repr(error)
    assert str(path) in str(error), str(error)
    assert error.hint, repr(error)


def _portrait(ledger: Ledger, ids: list[str]) -> list[bytes]:
    """Return all that can be read, by every way there is; an error stands for what it hides."""

    def session(name: str) -> Callable[[], bytes]:
        handle = ledger.session(name, scope=SCOPE, agent=AGENT)
        return lambda: encode([list(handle.events()), list(handle.headers(last=5))])

    ways: list[Callable[[], bytes]] = [
        *(session(name) for name in SESSIONS),
        lambda: encode(ledger.events(SCOPE, first=1_000)),
        lambda: encode(ledger.headers(SCOPE, last=1_000)),
        lambda: encode(ledger.headers(SCOPE, kinds=["tool.call", "ops.alert"], first=100)),
        lambda: encode(list(ledger.follow_events(SCOPE, idle_s=0))),
        lambda: encode(list(ledger.follow_events(SCOPE, committed=True, idle_s=0))),
        *((lambda event_id=event_id: encode(ledger.event(SCOPE, event_id))) for event_id in ids),
    ]
    return [_attempt(way) for way in ways]


def _attempt(way: Callable[[], bytes]) -> bytes:
    try:
        return way()
    except TreeringError as error:
        return error.code.encode()


def _fill(ledger: Ledger, dice: Random) -> None:
    """Record something of every sort: runs, spilled payloads, chosen ids, erasures, retention."""
    for name in SESSIONS:
        session = ledger.session(name, scope=SCOPE, agent=AGENT, user="u1")
        for number in range(4):
            with session.turn() as turn:
                turn.user(f"question {number} of {name}")
                with turn.tool("look", {"at": number}) as call:
                    call.finish(dice.randbytes(dice.choice((10, 2_000, 9_000))).hex())
                turn.assistant(f"answer {number}")
        for number in range(5):
            size = dice.choice((10, 1_000, 30_000))
            old = 1_000 if number == 3 else None
            ledger.append([marked(dice, f"{name}-{number}", size=size, session_id=name, ts_ms=old)])
    ledger.append([said("elsewhere", scope="other/app")])
    ledger.redact(SCOPE, event_id="s1-1")
    ledger.expire(SCOPE)
    ledger.set_retention(SCOPE, {"ops.alert": 7})


def _flip(content: bytes, dice: Random) -> bytes:
    at = dice.randrange(len(content))
    return _changed(content, at, bytes([content[at] ^ dice.randint(1, 255)]))


def _changed(content: bytes, at: int, replacement: bytes) -> bytes:
    return content[:at] + replacement + content[at + len(replacement) :]
