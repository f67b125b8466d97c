"""What texts keep coming back to."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import rounds
from treering.rules.topics import TOPIC_CHARS_MAX, TOPICS_MAX, topics

TRIP = [
    "I'm moving to Lisbon with my cat. What does a cat need for the flight?",
    "Cats need a pet passport and a vaccination; the flight takes three hours.",
    "And where do I get the pet passport in Lisbon?",
    "Any vet gives you the passport.",
]


def test_words_that_come_again_are_topics_whatever_their_endings() -> None:
    found = topics(TRIP)

    assert {"cat", "Lisbon", "flight", "pet passport"} <= set(found)
    assert "cats" not in found


def test_a_phrase_is_told_once_and_not_again_by_its_words() -> None:
    assert "passport" not in topics(TRIP)


def test_everyday_words_are_no_topics_however_often_they_come() -> None:
    assert topics(["I think you should really know what I want to say."] * 9) == []


def test_names_of_files_and_of_things_in_code_count_from_the_first() -> None:
    found = topics(["Look at src/auth/login.py, where TokenStore calls read_clock."] + ["ok"] * 90)

    assert set(found) == {"login.py", "TokenStore", "read_clock"}


def test_a_short_question_has_topics_though_nothing_comes_twice() -> None:
    assert topics(["What's the weather in Paris tomorrow?"]) == ["Paris", "weather"]


def test_a_capital_at_the_beginning_of_a_sentence_makes_no_name() -> None:
    assert topics(["Tomatoes grow. Tomatoes need water. Tomatoes rot."])[0] == "tomatoes"


def test_addresses_and_numbers_are_no_topics() -> None:
    assert topics(["See https://example.org/weather/paris for 1200 or 3.14."]) == []


def test_other_languages_have_topics_without_their_small_words() -> None:
    german = ["Ich suche eine Wohnung in Leipzig.", "Die Wohnung ist nicht teuer, aber klein."]

    found = topics(german)

    assert {"Wohnung", "Leipzig"} <= set(found)
    assert not {"nicht", "aber", "eine", "ich"} & set(found)


@settings(max_examples=rounds(10, times=25))
@given(st.lists(st.text(max_size=60) | st.sampled_from(TRIP), max_size=6))
def test_topics_are_few_short_different_and_always_the_same(texts: list[str]) -> None:
    found = topics(texts)

    assert found == topics(list(texts))
    assert len(found) == len(set(found)) <= TOPICS_MAX
    assert all(0 < len(topic) <= TOPIC_CHARS_MAX for topic in found)
