"""A summariser that is named once writes every summary: of compactions, closes, sweeps, prunes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import DAY, HERE
from treering import InvalidInput, Ledger, Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from treering.model.messages import ModelMessage


class Scribe:
    """Tells that it told, and how often it was asked."""

    name = "scribe"

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, messages: Sequence[ModelMessage], earlier: str | None, tokens: int) -> str:
        assert messages
        assert tokens > 0
        assert (earlier is None) == (self.asked == 0)
        self.asked += 1
        return f"The user asked about the tide in Porto, part {self.asked}."


@pytest.fixture
def scribe() -> Scribe:
    return Scribe()


@pytest.fixture
def led(tmp_path: Path, scribe: Scribe) -> Iterator[Ledger]:
    with treering.open(tmp_path / "a.db", summariser=scribe) as ledger:
        yield ledger


def talked(ledger: Ledger, name: str = "s1", turns: int = 1) -> Session:
    session = ledger.session(name, scope=HERE, agent="lyria", user="ann")
    for _ in range(turns):
        with session.turn() as turn:
            turn.user("What about the tide in Porto, please, and when is it high today?")
            turn.assistant("The tide in Porto is high at 14:10, and again in the night.")
    return session


def episodes(session: Session) -> list[Any]:
    return [event.payload["by"] for event in session.events(kinds=["episode.written"])]


def test_closing_a_session_asks_it(led: Ledger) -> None:
    session = talked(led)

    session.close()

    assert episodes(session) == ["scribe"]


def test_a_sweep_that_closes_asks_it(led: Ledger, scribe: Scribe) -> None:
    session = talked(led)
    last = next(session.headers(last=1))

    led.sweep(HERE, idle_minutes=60, prune_days=None, now_ms=last.ts_ms + DAY)

    assert episodes(session) == ["scribe"]
    assert scribe.asked == 1


def test_a_sweep_that_prunes_asks_it(led: Ledger) -> None:
    session = talked(led)
    last = next(session.headers(last=1))

    led.prune(HERE, older_than_days=30, now_ms=last.ts_ms + 90 * DAY)

    assert episodes(session) == ["scribe"]


def test_a_compaction_at_the_end_of_a_turn_asks_it(led: Ledger) -> None:
    session = talked(led, turns=20)
    with session.turn() as turn:
        turn.user("And tomorrow?")
        turn.context(1_100)
        turn.assistant("At 15:00.")

    assert session.context().messages[0]["content"].startswith("<summary>\nThe user asked")


def test_a_second_summary_follows_the_first_behind_a_blank_line(led: Ledger) -> None:
    session = talked(led, turns=4)
    session.compact(keep=1)
    talked(led, turns=3)

    session.compact(keep=1)

    [first, second] = [
        event.payload["summary"] for event in session.events(kinds=["context.compacted"])
    ]
    assert second == f"{first}\n\nThe user asked about the tide in Porto, part 2."


def test_summaries_stay_within_their_bounds_however_many_follow(tmp_path: Path) -> None:
    def wordy(messages: Sequence[ModelMessage], earlier: str | None, tokens: int) -> str:
        return "The tide was high, and so was everything else. " * 100

    with treering.open(tmp_path / "a.db", summariser=wordy) as ledger:
        for _ in range(4):
            session = talked(ledger, turns=3)
            header = session.compact(keep=1)
            assert header is not None
            assert header.refs["to_tokens"] <= 2_200


def test_one_that_is_named_for_one_compaction_goes_before_it(led: Ledger, scribe: Scribe) -> None:
    session = talked(led, turns=4)

    session.compact(keep=1, summariser=lambda *_: "Mine.")

    assert session.context().messages[0]["content"] == "<summary>\nMine.\n</summary>"
    assert scribe.asked == 0


def test_one_that_fails_costs_nobody_the_close(tmp_path: Path) -> None:
    def fail(*_: Any) -> str:
        raise OSError("no model")

    with treering.open(tmp_path / "a.db", summariser=fail) as ledger:
        session = talked(ledger)
        session.close()

        assert episodes(session) == ["structure"]


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="summariser"):
        treering.open(tmp_path / "a.db", summariser="qwen3")  # type: ignore[arg-type]
