"""Promise 5 for a person: their words and their names are in no byte of the ledger's files."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

import apsw
import pytest

import treering
from builders import ELSEWHERE, HERE, said
from ports import store_of

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger

ADA: Final = "ada-57"
WORDS: Final = (ADA, "heron", "note-of", "rowers", "jetty-run", "jetty-turn", "crane-agent")
_READ: Final = """
import pathlib, sys
for file in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    sys.stdout.buffer.write(file.read_bytes() if file.is_file() else b"")
"""


def all_bytes(folder: Path) -> bytes:
    """Return all that lies in a folder, read by another process: here, closing drops locks."""
    command = [sys.executable, "-S", "-E", "-c", _READ, str(folder)]
    return subprocess.run(command, capture_output=True, check=True).stdout


def found(folder: Path) -> list[str]:
    content = all_bytes(folder)
    return [word for word in WORDS if word.encode() in content]


def tell(ledger: Ledger) -> None:
    """Record somebody with all that can name them."""
    main = ledger.main_session("telegram", ADA, scope=HERE, agent="lyria")
    with main.turn() as turn:
        turn.user("I moor where the heron stands")
        with turn.tool("tides", {"bird": "heron"}) as call:
            call.finish("heron " * 4_000)
    main.rename("The heron jetty")
    main.fork("heron-fork").record("ops.decision", "wait for the heron")
    group = ledger.session(
        "group:tg:1", scope=HERE, agent="lyria", user="bob", participants=("bob", ADA)
    )
    group.record("ops.decision", "oars")
    ledger.append([
        said("heron", user_id=ADA, session_id="heron-talk", event_id=f"note-of-{ADA}",
             run_id="jetty-run", turn_id="jetty-turn", agent_id="crane-agent",
             origin=f"phone-of-{ADA}"),
        said("run over", kind="run.ended", session_id="heron-talk", run_id="jetty-run"),
    ])  # fmt: skip
    ledger.session("rowers-7", scope=HERE, agent="lyria", user=ADA, key="rowers").open()
    ledger.admin.index(HERE)
    ledger.tool_calls(HERE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder for nothing but a ledger."""
    place = tmp_path / "ledger"
    place.mkdir()
    return place


def test_neither_words_nor_names_are_left_in_any_file(folder: Path) -> None:
    with treering.open(folder / "a.db") as ledger:
        tell(ledger)
        ledger.append([said("kept pelican", user_id="bob", session_id="s9", event_id="kept-id")])
        assert found(folder) == list(WORDS)

        receipt = ledger.forget(HERE, user=ADA)

        assert receipt.physical == "done"
        assert found(folder) == []
        assert b"kept pelican" in all_bytes(folder)
        assert b"kept-id" in all_bytes(folder)
        assert ledger.admin.verify().intact
    assert found(folder) == []


def test_a_copy_made_before_keeps_no_byte_either_once_it_is_brought_up(
    folder: Path, tmp_path: Path
) -> None:
    with treering.open(tmp_path / "a.db") as ledger, treering.open(folder / "b.db") as target:
        tell(ledger)
        ledger.admin.copy_to(target)
        target.admin.index(HERE)
        ledger.forget(HERE, user=ADA)

        receipt = ledger.admin.copy_to(target)

        assert (receipt.complete, receipt.intact) == (True, True)
        assert found(folder) == []
        assert target.admin.verify().intact


def test_a_user_of_two_scopes_keeps_their_name_until_both_have_forgotten(folder: Path) -> None:
    with treering.open(folder / "a.db") as ledger:
        ledger.append([said("one", user_id=ADA), said("two", user_id=ADA, scope=ELSEWHERE)])

        ledger.forget(HERE, user=ADA)
        assert found(folder) == [ADA]
        assert [h.user_id for h in ledger.headers(ELSEWHERE).items] == [ADA]

        ledger.forget(ELSEWHERE, user=ADA)
        assert found(folder) == []


def stop() -> int:
    raise KeyboardInterrupt


def test_names_that_were_left_when_all_else_was_done_go_the_next_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with treering.open(folder / "a.db") as ledger:
        ledger.append([said("one", user_id=ADA)])
        with monkeypatch.context() as patched:
            patched.setattr(store_of(ledger).erasure, "forget_names", stop)
            with pytest.raises(KeyboardInterrupt):
                ledger.forget(HERE, user=ADA)
        assert found(folder) == [ADA]

        with pytest.raises(treering.NotFound):
            ledger.forget(HERE, user=ADA)

        assert found(folder) == []


def test_a_name_that_another_store_remembers_is_written_anew(folder: Path) -> None:
    with treering.open(folder / "a.db") as here, treering.open(folder / "a.db") as there:
        there.append([said("one", user_id=ADA, turn_id="t1")])
        here.forget(HERE, user=ADA)

        there.append([said("two", user_id=ADA, turn_id="t1")])

        assert [
            (h.user_id, h.turn_id) for h in here.headers(HERE, kinds=["conversation.user"]).items
        ] == [(ADA, "t1")]
        assert here.admin.verify().intact


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("UPDATE sessions SET name = NULL, salt = NULL WHERE name = 's2'", "vouches"),
        ("UPDATE sessions SET name = 's7' WHERE name IS NULL", "damaged"),
        ("UPDATE names SET key = x'00' WHERE name = 'lyria'", "keys"),
    ],
)
def test_a_name_that_nobody_ordered_to_be_forgotten_is_missed(
    folder: Path, statement: str, fault: str
) -> None:
    with treering.open(folder / "a.db") as ledger:
        ledger.append([said("one", user_id=ADA), said("two", session_id="s2")])
        ledger.forget(HERE, user=ADA)
        assert ledger.admin.verify().intact
    connection = apsw.Connection(str(folder / "a.db"))
    connection.execute(statement)
    connection.close()

    with treering.open(folder / "a.db") as ledger:
        try:
            broken = ledger.admin.verify().first_broken
            told = "" if broken is None else broken.detail
        except treering.errors.Corrupt as error:
            told = str(error)

    assert fault in told
