"""Undone and failed turns are left out of exported logs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

import treering
from treering.formats import apeira, clawser

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def told_by_apeira(session: treering.Session) -> str:
    return apeira.from_session(session).to_jsonl()


def told_by_clawser(session: treering.Session) -> str:
    return clawser.from_session(session).to_jsonl()


@pytest.mark.parametrize("told", [told_by_apeira, told_by_clawser])
def test_undone_and_failed_turns_are_not_told(tmp_path: Path, told: Callable[[Any], str]) -> None:
    with treering.open(tmp_path / "ledger.db") as ledger:
        session = ledger.session("s1", scope="acme/app", agent="lyria")
        for text in ("kept", "taken back"):
            with session.turn() as turn:
                turn.user(text)
        session.undo()
        with contextlib.suppress(RuntimeError), session.turn() as turn:
            turn.user("gone wrong")
            raise RuntimeError

        log = told(session)

        assert "kept" in log
        assert "taken back" not in log
        assert "gone wrong" not in log

        with session.turn() as turn:
            turn.user("again")
        assert "again" in told(session)
