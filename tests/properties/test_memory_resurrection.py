"""What was superseded, rejected or erased never comes back, whatever happens afterwards."""

from __future__ import annotations

import contextlib
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from builders import HERE
from effort import rounds
from properties.remembering import SENTENCES, STEPS, USERS, Step, Story, believed, known, open_at

TELLING = {"say", "learn", "agree"}
"""Only these tell something new."""
KEEPING = {"rebuild", "reopen", "recall", "write_episode", "fade"}
"""These take nothing away."""


class Mourning:
    """Knows what must not be heard of any more."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.alive: set[tuple[str, str]] = set()
        self.dead: set[tuple[str, str]] = set()
        """What was superseded or rejected, and not said again since."""
        self.buried: set[tuple[str, str]] = set()
        """Of what the telling was erased, and not what was said."""

    def hear(self, step: Step) -> None:
        """Check what a step did to what is believed."""
        before, self.alive = self.alive, self._story.alive()
        told = {told_by(step)} if step.deed in TELLING else set()
        self.dead -= told
        self.buried -= told
        if step.deed in TELLING | {"reject"}:
            self.dead |= before - self.alive
        if step.deed == "redact_telling":
            self.buried |= before - self.alive
        # What was erased with one event may still be said by another: that may be read again.
        said_still = set(self._story.said.values()) - self.dead - self.buried
        may_come = said_still if step.deed == "extract_again" else told
        assert self.alive - before <= may_come
        if step.deed in KEEPING:
            assert self.alive == before
        if step.deed == "reject":
            assert (step.user, step.word) not in self.alive
        if step.deed == "forget":
            assert step.user not in {user for user, _ in self.alive}
        # Nothing outlives the events that say so.
        cited = {one for fact in known(self._story.ledger) for one in fact["evidence"]}
        assert cited <= self._story.said.keys()


def told_by(step: Step) -> tuple[str, str]:
    """Return of whom a step tells something, and what."""
    return ("None" if step.deed == "agree" else step.user, step.word)


def check_silence(story: Story, mourning: Mourning) -> None:
    """Check that nothing that is gone is recalled, told by an episode, or found."""
    for user in USERS:
        for word, (_, text) in SENTENCES.items():
            found = story.memory.recall(text, user=user, record=False)
            told = {hit.fact.text for hit in found.fact_hits}
            assert told <= {
                SENTENCES[one][1] for who, one in mourning.alive if who in {user, "None"}
            }
            if (user, word) in mourning.dead or (user, word) not in story.said.values():
                assert not any(word in hit.summary for hit in found.episode_hits)
    spoken = {word for _, word in {*story.said.values(), *mourning.alive, *mourning.dead}}
    for word in SENTENCES.keys() - spoken:
        assert story.ledger.search(word, scope=HERE, mode="hybrid").total == 0


@settings(max_examples=rounds(8, times=25))
@given(st.lists(STEPS, min_size=3, max_size=14))
@example(
    [Step("say", "jo", "Boston"), Step("say", "jo", "Porto"), Step("write_episode", "jo", "dark"),
     Step("redact_event", "jo", "Porto"), Step("extract_again", "jo", "dark")]
)  # fmt: skip
@example(
    [Step("say", "jo", "Boston"), Step("say", "jo", "Boston"), Step("redact_event", "jo", "Boston"),
     Step("reopen", "jo", "dark"), Step("extract_again", "jo", "dark")]
)  # fmt: skip
@example(
    [Step("say", "jo", "Boston"), Step("reject", "jo", "Boston"),
     Step("write_episode", "jo", "dark"), Step("extract_again", "jo", "dark"),
     Step("rebuild", "jo", "dark")]
)  # fmt: skip
@example(
    [Step("say", "jo", "dark"), Step("say", "kim", "dark"), Step("agree", "jo", "Boston"),
     Step("agree", "kim", "Porto"), Step("redact_session", "kim", "dark")]
)  # fmt: skip
@example(
    [Step("say", "jo", "dark"), Step("say", "jo", "dark"), Step("redact_telling", "jo", "dark"),
     Step("extract_again", "jo", "dark")]
)  # fmt: skip
def test_what_is_gone_stays_gone_until_it_is_told_anew(steps: list[Step]) -> None:
    live_through(steps)


def test_what_was_superseded_in_the_session_of_somebody_forgotten_stays_so() -> None:
    live_through(
        [Step("say", "jo", "dark"), Step("say", "kim", "dark"), Step("agree", "jo", "Boston"),
         Step("agree", "kim", "Porto"), Step("forget", "kim", "dark")]
    )  # fmt: skip


def live_through(steps: list[Step]) -> None:
    """Have all steps happen, and check after each what it and another reader make of them."""
    with TemporaryDirectory() as folder:
        story = Story(Path(folder) / "ledger.db")
        mourning = Mourning(story)
        with contextlib.closing(story), open_at(story.path, story.clock) as reader:
            for step in steps:
                story.take(step)
                mourning.hear(step)
                assert believed(reader) == mourning.alive
            check_silence(story, mourning)
            assert known(reader) == known(story.ledger)
            assert reader.admin.verify().intact
