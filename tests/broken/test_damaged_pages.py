"""Pages that were swapped, lost or cut off: every call and every command says so, or goes on."""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from broken.stories import quick_folder
from surfaces.command_line import CommandLine
from treering import NewEvent, TreeringError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE_BYTES: Final = 4_096
SCOPE: Final = "acme/app"
IN: Final = ("--scope", SCOPE)
NAME: Final = "ledger.db"
COMMANDS: Final = [
    ("verify",),
    ("show", "s1", *IN),
    ("search", "thing", *IN),
    ("stats", *IN),
    ("sessions", "list", *IN),
    ("episodes", "query", *IN),
    ("doctor", *IN),
    ("tools", "list", *IN),
    ("trace", "list", *IN),
    ("context", "s1", *IN, "--max-tokens", "4000"),
    ("recall", "thing", *IN),
    ("facts", "list", *IN),
    ("episodes", "redact", *IN, "--session-id", "s2"),
    ("episodes", "gc", *IN),
    ("rebuild",),
]


@pytest.fixture(scope="module")
def sound() -> Iterator[Path]:
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


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "damaged"


@pytest.mark.parametrize(("suffix", "count"), [("", 24), (".search", 10), (".memory", 10)])
def test_no_call_fails_otherwise_than_with_an_error_of_ours(
    sound: Path, place: Path, suffix: str, count: int
) -> None:
    _use_damaged(sound, place, suffix, count)


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["", ".search", ".memory"])
def test_no_call_fails_otherwise_however_pages_are_damaged(
    sound: Path, place: Path, suffix: str
) -> None:
    _use_damaged(sound, place, suffix, 400)


def _use_damaged(sound: Path, place: Path, suffix: str, count: int) -> None:
    content = (sound / f"{NAME}{suffix}").read_bytes()
    unforeseen: dict[tuple[int, str], Exception] = {}
    for seed in range(count):
        _lay_out(sound, place, suffix, damaged(content, Random(seed)))
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


@pytest.mark.parametrize("seed", range(6))
def test_every_command_says_that_the_file_is_damaged_and_blames_nobody_else(
    sound: Path, place: Path, cli: CommandLine, seed: int
) -> None:
    content = (sound / NAME).read_bytes()
    for command in COMMANDS:
        _lay_out(sound, place, "", swapped(content, Random(seed)))
        outcome = cli("--db", str(place / NAME), *command)

        assert "fault of treering" not in outcome.err, command
        assert "Traceback" not in outcome.err, command


def test_what_makes_no_sense_in_a_damaged_file_is_called_damage(sound: Path, place: Path) -> None:
    # The key of all names is on the page of the table ``ledger``.
    content = (sound / NAME).read_bytes()
    key = content.index(b"name_key") // PAGE_BYTES
    other = next(at for at in range(1, len(content) // PAGE_BYTES) if at != key)
    _lay_out(sound, place, "", _with_swapped(content, key, other))

    with pytest.raises(TreeringError) as refused, treering.open(place / NAME) as ledger:
        ledger.query(SCOPE)

    assert "damaged" in str(refused.value)
    assert "restore" in (refused.value.hint or "")


def damaged(content: bytes, dice: Random) -> bytes:
    """Return a file of which one page is not what it was, or is missing with all behind it."""
    pages = len(content) // PAGE_BYTES
    at, other = dice.sample(range(pages), 2)
    match dice.choice(("swap", "swap", "blank", "double", "shift", "cut")):
        case "swap":
            return _with_swapped(content, at, other)
        case "blank":
            return _with(content, at, bytes(PAGE_BYTES))
        case "double":
            return _with(content, at, _page(content, other))
        case "shift":
            return _with(content, at, _page(content, at)[1:] + b"\0")
        case _:
            return content[: at * PAGE_BYTES + dice.choice((0, dice.randrange(PAGE_BYTES)))]


def swapped(content: bytes, dice: Random) -> bytes:
    """Return a file of which two pages have changed places."""
    return _with_swapped(content, *dice.sample(range(1, len(content) // PAGE_BYTES), 2))


def _with_swapped(content: bytes, one: int, other: int) -> bytes:
    return _with(_with(content, one, _page(content, other)), other, _page(content, one))


def _with(content: bytes, at: int, page: bytes) -> bytes:
    return content[: at * PAGE_BYTES] + page + content[(at + 1) * PAGE_BYTES :]


def _page(content: bytes, at: int) -> bytes:
    return content[at * PAGE_BYTES : (at + 1) * PAGE_BYTES]


def _lay_out(sound: Path, place: Path, suffix: str, content: bytes) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(sound, place)
    (place / f"{NAME}{suffix}").write_bytes(content)


def _calls(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    opened: list[treering.Ledger] = []
    yield "open", lambda: opened.append(treering.open(path, durability="normal"))
    if opened:
        ledger = opened[0]
        session = {"scope": SCOPE, "agent": "lyria"}
        event = NewEvent(scope=SCOPE, session_id="s1", kind="conversation.user", agent_id="a")
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
