"""Sinks that are closed: what one of them makes of that keeps no ledger from closing."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

import treering
from broken.injection import in_another_thread
from builders import said
from treering.sinks import Delivery
from treering.spine import dispatcher

if TYPE_CHECKING:
    from pathlib import Path

LET_GO_S = 0.05
"""How long sinks may take here."""


class Hanging:
    """A sink whose ``close()`` does not return before the test is over."""

    name = "hanging"

    def __init__(self, *, durable: bool) -> None:
        self.delivery = Delivery(durable=durable, on_error="retry" if durable else "skip")
        self.over = threading.Event()
        self.closings = 0

    def accepts(self, event: Any) -> bool:  # noqa: ARG002
        return True

    def handle(self, event: Any) -> None:
        pass

    def close(self) -> None:
        self.closings += 1
        assert self.over.wait(60)


@pytest.mark.parametrize("durable", [False, True], ids=["live", "durable"])
def test_a_sink_whose_close_hangs_is_left_behind_and_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    durable: bool,
) -> None:
    monkeypatch.setattr(dispatcher, "SINK_CLOSE_S", LET_GO_S)
    sink = Hanging(durable=durable)
    ledger = treering.open(tmp_path / "ledger.db")
    spine = ledger.spine([sink])
    spine.follow(said().scope)
    ledger.append([said()])

    with caplog.at_level(logging.WARNING, "treering.spine"):
        in_another_thread(ledger.close)
        in_another_thread(ledger.close)
    sink.over.set()

    assert sink.closings == 1
    expected = "close() took longer than 0.05 s, and was left behind"
    assert [status.last_error for status in spine.status()] == [expected]
    assert f"sink hanging: {expected}" in caplog.messages
    with treering.open(tmp_path / "ledger.db") as again:
        assert again.admin.verify().intact


def test_a_sink_that_closes_the_ledger_while_it_is_closed_is_not_closed_again(
    tmp_path: Path,
) -> None:
    sink = Hanging(durable=False)
    sink.over.set()
    ledger = treering.open(tmp_path / "ledger.db")
    ledger.spine([sink])
    before = sink.close

    def close() -> None:
        before()
        ledger.close()

    sink.close = close  # type: ignore[method-assign]
    in_another_thread(ledger.close)

    assert sink.closings == 1


def test_a_sink_whose_close_cannot_even_be_looked_up_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Unwilling(Hanging):
        @property
        def close(self) -> Any:
            raise RuntimeError("no")

    ledger = treering.open(tmp_path / "ledger.db")
    ledger.spine([Unwilling(durable=False)])

    with caplog.at_level(logging.WARNING, "treering.spine"):
        ledger.close()

    assert "cannot be closed: RuntimeError: no" in caplog.text


def test_a_close_that_is_async_is_awaited(tmp_path: Path) -> None:
    class Later(Hanging):
        async def close(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            self.closings += 1

    sink = Later(durable=False)
    ledger = treering.open(tmp_path / "ledger.db")
    ledger.spine([sink])

    ledger.close()

    assert sink.closings == 1
