"""Ledgers of which pages were swapped, lost or cut off."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import treering
from effort import quick_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

PAGE_BYTES: Final = 4_096
SCOPE: Final = "acme/app"
NAME: Final = "ledger.db"


@contextlib.contextmanager
def sound_folder() -> Iterator[Path]:
    """Give a folder with a closed ledger, its search index and its memory."""
    with tempfile.TemporaryDirectory(dir=quick_folder()) as folder:
        with treering.open(Path(folder) / NAME, durability="normal") as ledger:
            for number in range(4):
                session = ledger.session(f"s{number}", scope=SCOPE, agent="lyria")
                for part in range(3):
                    with session.turn() as turn:
                        turn.user(f"look at thing {number} {part} " + "word " * 60)
                        with turn.tool("bash", {"command": "ls"}) as call:
                            call.finish("out " * (50 if part else 5_000))
                        turn.assistant("done " * 40)
            ledger.redact(SCOPE, session_id="s3")
            ledger.search("thing", scope=SCOPE)
            ledger.memory(SCOPE).learn("Lives in Porto")
            ledger.memory(SCOPE).recall("where")
        yield Path(folder)


def damaged(content: bytes, dice: Random) -> bytes:
    """Return a file of which one page is not what it was, or is missing with all behind it."""
    pages = len(content) // PAGE_BYTES
    at, other = dice.sample(range(pages), 2)
    match dice.choice(("swap", "swap", "blank", "double", "shift", "cut")):
        case "swap":
            return with_swapped(content, at, other)
        case "blank":
            return _with(content, at, bytes(PAGE_BYTES))
        case "double":
            return with_doubled(content, at, other)
        case "shift":
            return _with(content, at, _page(content, at)[1:] + b"\0")
        case _:
            return content[: at * PAGE_BYTES + dice.choice((0, dice.randrange(PAGE_BYTES)))]


def swapped(content: bytes, dice: Random) -> bytes:
    """Return a file of which two pages have changed places."""
    return with_swapped(content, *dice.sample(range(1, len(content) // PAGE_BYTES), 2))


def with_doubled(content: bytes, at: int, other: int) -> bytes:
    """Return a file in which page ``at`` is a copy of page ``other``."""
    return _with(content, at, _page(content, other))


def with_swapped(content: bytes, one: int, other: int) -> bytes:
    """Return a file in which page ``one`` and page ``other`` have changed places."""
    return _with(_with(content, one, _page(content, other)), other, _page(content, one))


def _with(content: bytes, at: int, page: bytes) -> bytes:
    return content[: at * PAGE_BYTES] + page + content[(at + 1) * PAGE_BYTES :]


def _page(content: bytes, at: int) -> bytes:
    return content[at * PAGE_BYTES : (at + 1) * PAGE_BYTES]


def lay_out(sound: Path, place: Path, suffix: str, content: bytes) -> None:
    """Have the files of a sound ledger at ``place``, one of them with other content."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(sound, place)
    (place / f"{NAME}{suffix}").write_bytes(content)
