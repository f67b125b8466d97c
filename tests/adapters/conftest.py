from __future__ import annotations

from typing import TYPE_CHECKING

import agents
import pytest

import treering

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.carried import SafeEvent
    from treering.spine.dispatcher import Spine


class Heard:
    """A sink that keeps the events it receives."""

    name = "heard"

    def __init__(self) -> None:
        self.events: list[SafeEvent] = []

    def accepts(self, _: SafeEvent, /) -> bool:
        return True

    def handle(self, event: SafeEvent, /) -> None:
        self.events.append(event)

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


@pytest.fixture(autouse=True)
def no_export() -> None:
    """Keep the SDK from sending its traces anywhere."""
    agents.set_trace_processors([])


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with treering.open(":memory:") as opened:
        yield opened


@pytest.fixture
def spine(ledger: Ledger, heard: Heard) -> Spine:
    return ledger.spine(sinks=[heard])


@pytest.fixture
def session(ledger: Ledger) -> Session:
    return ledger.session("monday", scope="acme/app", agent="lyria")
