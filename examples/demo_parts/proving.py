"""The last chapter, its first half: a ledger proved, tampered with, and cut."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

import treering

from .recording import LEDGER, SCOPE, SESSION
from .stage import FOLDER, chapter, check, choose, code, line, step, treering_command

if TYPE_CHECKING:
    from pathlib import Path

ANCHOR: Final = FOLDER / "friday.anchor"
_ANSWER: Final = "WHERE summary LIKE 'Done:%'"
CHANGES: Final = (
    ("content", "an answer is reworded", f"UPDATE events SET summary = 'All well' {_ANSWER}"),
    ("link", "it is moved back an hour", f"UPDATE events SET ts_ms = ts_ms - 36e5 {_ANSWER}"),
    ("missing", "the failure is removed", "DELETE FROM events WHERE summary LIKE 'run f%'"),
)
"""The fault that is found, what was done, and how."""


def show_proof() -> None:
    """Run this half of the chapter."""
    chapter("Proof", "What is changed behind its back is found, and what was recorded is not lost.")
    choose(LEDGER, SCOPE)
    verify()
    tamper()
    cut_the_tail()


def verify() -> None:
    """Prove the ledger."""
    step("Verify", "Every event is chained to the one before. Erasing content leaves the proof.")
    proof = treering_command("verify")
    check(proof.returncode == 0 and "1 redacted" in proof.stdout, "intact, redaction included")


def tamper() -> None:
    """Change copies of the ledger behind its back."""
    step("Tamper", "Copies of the ledger are changed with plain SQL. Each change is named.")
    for number, (fault, what, statement) in enumerate(CHANGES):
        copy = _copy(f"tampered-{number}.db")
        _change(copy, statement)
        code(statement)
        with treering.open(copy) as ledger:
            broken = ledger.admin.verify().first_broken
        if broken is not None:
            line(f"seq {broken.seq}, event {broken.event_id or 'gone'}: {broken.detail}")
        check(broken is not None and broken.fault == fault, f"{what}: found, as {fault}")


def cut_the_tail() -> None:
    """Show what only an anchor finds."""
    step("Anchor", "Cutting off the newest events leaves a sound chain. An anchor notices.")
    with treering.open(LEDGER) as ledger:
        session = ledger.session(SESSION, scope=SCOPE, agent="lyria", user="mina")
        session.record("ops.decision", "The index goes to production tonight")
    treering_command("anchor", "--out", str(ANCHOR))
    copy = _copy("cut.db")
    _change(
        copy,
        "DELETE FROM contents WHERE position = (SELECT max(position) FROM events)",
        "DELETE FROM events WHERE position = (SELECT max(position) FROM events)",
        "UPDATE heads SET (seq, link) = (SELECT seq, link FROM events AS e"
        " WHERE e.session = heads.session ORDER BY seq DESC LIMIT 1)",
    )
    alone = treering_command("--db", str(copy), "verify")
    check(alone.returncode == 0, "without the anchor, the cut copy looks whole")
    compared = treering_command("--db", str(copy), "verify", "--anchor", str(ANCHOR))
    check(compared.returncode == 1 and "missing" in compared.stderr, "with it, the cut is found")


def _copy(name: str) -> Path:
    """Copy the ledger as a backup would."""
    copy = FOLDER / name
    source = sqlite3.connect(LEDGER)
    source.execute("VACUUM INTO ?", (str(copy),))
    source.close()
    return copy


def _change(path: Path, *statements: str) -> None:
    """Change a ledger behind its back."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
