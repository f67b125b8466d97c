"""What may happen to a memory, step by step, and what is known of it afterwards."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import msgspec
from hypothesis import strategies as st

import treering
from builders import DAY, HERE, NOON
from treering import NotFound
from treering.embedders.static import StaticEmbedder

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger
    from treering.memory.memory import Memory
    from treering.model.memories import Fact

EMBEDDER: Final = StaticEmbedder()
"""One for all: to read its table takes longer than a test."""
USERS: Final = ("jo", "kim")
SENTENCES: Final = {
    "Boston": ("I live in Boston.", "Lives in Boston"),
    "Porto": ("I live in Porto.", "Lives in Porto"),
    "peanuts": ("I am allergic to peanuts.", "Is allergic to peanuts"),
    "dark": ("I prefer dark mode.", "Prefers dark mode"),
    "light": ("I prefer light mode.", "Prefers light mode"),
}
"""What is said and what is learnt from it, each by a word that is in no other."""
ALIVE: Final = ("current", "archived")
EVERYTHING: Final = ("current", "archived", "superseded", "forgotten", "quarantined", "refused")


class Clock:
    """A clock that advances by a second whenever it is looked at."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> int:
        self.now += 1_000
        return self.now


def open_at(place: str | Path, clock: Clock) -> Ledger:
    """Open a ledger with a clock of ours."""
    with mock.patch("treering.app.now_ms", clock):
        return treering.open(place, durability="normal", embedder=EMBEDDER)


class Step(msgspec.Struct, frozen=True):
    """One thing that happens."""

    deed: str
    user: str
    word: str

    def __repr__(self) -> str:
        return f"{self.deed}({self.user}, {self.word})"


DEEDS: Final = (
    "say", "say", "learn", "agree", "reject", "redact_event", "redact_telling", "redact_session",
    "forget", "fade", "recall", "extract_again", "write_episode", "rebuild", "reopen",
)  # fmt: skip
STEPS: Final = st.builds(
    Step, st.sampled_from(DEEDS), st.sampled_from(USERS), st.sampled_from(sorted(SENTENCES))
)


class Story:
    """A ledger to which one thing happens after the other. Each user has a session of their own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = Clock()
        self.ledger = open_at(path, self.clock)
        self.said: dict[str, tuple[str, str]] = {}
        """Who said what, by event, as far as it was not erased."""

    @property
    def memory(self) -> Memory:
        return self.ledger.memory(HERE)

    def take(self, step: Step) -> None:
        """Have a step happen; some have nothing to happen to."""
        with contextlib.suppress(NotFound):
            getattr(self, step.deed)(step.user, step.word)

    def close(self) -> None:
        self.ledger.close()

    # What somebody tells.

    def say(self, user: str, word: str) -> None:
        session = self.ledger.session(f"s-{user}", scope=HERE, agent="lyria", user=user)
        with session.turn() as turn:
            spoken = turn.user(SENTENCES[word][0])
            turn.assistant("Noted.")
        self.said[spoken.event_id] = (user, word)
        self.memory.extract(session.session_id)

    def learn(self, user: str, word: str) -> None:
        self.memory.learn(SENTENCES[word][1], user=user)

    def agree(self, user: str, word: str) -> None:
        """Learn in the session of a user what holds for all of the scope."""
        self.memory.learn(SENTENCES[word][1], session_id=f"s-{user}")

    # What tells nothing new.

    def reject(self, user: str, word: str) -> None:
        for fact in self.found(user, word):
            self.memory.reject(fact.id)

    def redact_event(self, user: str, word: str) -> None:
        for event_id in [one for one, told in self.said.items() if told == (user, word)][-1:]:
            self.ledger.redact(HERE, event_id=event_id)
            del self.said[event_id]

    def redact_telling(self, user: str, word: str) -> None:
        for fact in self.found(user, word):
            self.ledger.redact(HERE, event_id=fact.event_id)

    def redact_session(self, user: str, _: str) -> None:
        self.ledger.redact(HERE, session_id=f"s-{user}")
        self.said = {one: told for one, told in self.said.items() if told[0] != user}

    def forget(self, user: str, _: str) -> None:
        self.ledger.forget(HERE, user=user)
        self.said = {one: told for one, told in self.said.items() if told[0] != user}

    def fade(self, _: str, __: str) -> None:
        self.memory.fade(now_ms=self.clock.now + 600 * DAY)

    def recall(self, user: str, word: str) -> None:
        self.memory.recall(SENTENCES[word][1], user=user)

    def extract_again(self, _: str, __: str) -> None:
        self.memory.extract(again=True)

    def write_episode(self, user: str, _: str) -> None:
        self.ledger.session(f"s-{user}", scope=HERE, agent="lyria", user=user).write_episode()

    def rebuild(self, _: str, __: str) -> None:
        self.ledger.admin.rebuild()

    def reopen(self, _: str, __: str) -> None:
        self.ledger.close()
        self.ledger = open_at(self.path, self.clock)

    # What is known.

    def found(self, user: str, word: str) -> list[Fact]:
        facts = self.memory.facts(user=user, state=ALIVE).items
        return [fact for fact in facts if fact.text == SENTENCES[word][1]]

    def alive(self) -> set[tuple[str, str]]:
        """Return who holds what to be true, faded or not, each by its word."""
        return believed(self.ledger)


def believed(ledger: Ledger) -> set[tuple[str, str]]:
    """Return what a ledger believes of whom, faded or not, each by its word."""
    facts = ledger.memory(HERE).facts(state=ALIVE).items
    words = {text: word for word, (_, text) in SENTENCES.items()}
    return {(str(fact.user), words[fact.text]) for fact in facts}


def known(ledger: Ledger) -> list[dict[str, Any]]:
    """Return all facts in every state, as far as that does not follow from the time of asking."""
    facts = ledger.memory(HERE).facts(state=EVERYTHING).items
    told = sorted((msgspec.to_builtins(fact) for fact in facts), key=lambda one: str(one["id"]))
    return [{name: value for name, value in one.items() if name != "faded"} for one in told]
