"""How people sounded: only what their words say, and only if enough of them do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import rounds
from treering.context.narratives import moods_in, tone
from treering.context.summaries import EVENT_IDS_MAX


def sound(*texts: str) -> tuple[str, tuple[str, ...]]:
    found = tone([(f"e{number}", text) for number, text in enumerate(texts)])
    return found.mood, found.event_ids


@pytest.mark.parametrize(
    ("text", "mood"),
    [
        ("Thank you, that helped.", "grateful"),
        ("I love the new layout.", "positive"),
        ("I'm worried about the surgery.", "negative"),
        ("It is still broken, this is ridiculous.", "frustrated"),
        ("The build has an error in the parser.", "neutral"),
        ("Please kill the hanging process.", "neutral"),
    ],
)
def test_a_tone_is_what_the_words_say(text: str, mood: str) -> None:
    assert sound(text)[0] == mood


@pytest.mark.parametrize(
    "text",
    [
        "I am not happy with it.",
        "It isn\u2019t great.",
        "It would be great to have a button.",
        "I'd love a list of options.",
        "I was never worried.",
    ],
)
def test_what_is_denied_or_wished_for_is_no_tone(text: str) -> None:
    assert moods_in(text) == set()


def test_good_and_bad_words_that_balance_are_mixed_and_both_are_shown() -> None:
    assert sound("I'm so sad today.", "Look at this.", "But the cake was wonderful!") == (
        "mixed",
        ("e0", "e2"),
    )


def test_the_better_part_tells_the_tone_and_its_events_show_it() -> None:
    texts = ["This is awesome!", "Great, and the next?", "Hm.", "I hate mondays.", "Perfect."]

    assert sound(*texts) == ("positive", ("e0", "e1", "e4"))


def test_one_word_among_many_messages_is_no_tone() -> None:
    assert sound("Thanks!", *["And the next file?"] * 9) == ("neutral", ())
    assert sound("Thanks!", "Thanks!", *["And the next file?"] * 9)[0] == "grateful"
    assert sound("Thanks!", "Thanks!", *["And the next file?"] * 30)[0] == "neutral"


@settings(max_examples=rounds(15, times=30))
@given(st.lists(st.sampled_from(["Thanks!", "Great.", "I'm sad.", "Ugh, again?!", "A file."])))
def test_events_show_a_tone_if_and_only_if_there_is_one(texts: list[str]) -> None:
    mood, event_ids = sound(*texts)

    assert (mood == "neutral") == (not event_ids)
    assert len(event_ids) <= EVENT_IDS_MAX
    assert all(moods_in(texts[int(one[1:])]) for one in event_ids)
