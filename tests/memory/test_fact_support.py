"""Whether what was said bears a statement out."""

from __future__ import annotations

import pytest

from treering.memory.model_extraction import is_supported


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("Prefers dark mode", "I'd rather have dark mode everywhere."),
        ("The user's name is Nora", "Hello, I'm Nora."),
        ("Meeting every Tuesday at 14:00", "our meetings are on Tuesdays, at 14:00"),
        ("Does not eat fish", "I can't stand fish, I never eat it."),
        ("Does not smoke", "I stopped smoking years ago."),
        ("东京に住んでいます", "私は东京に住んでいます。"),
    ],
)
def test_what_was_said_in_about_these_words_is_supported(statement: str, said: str) -> None:
    assert is_supported(statement, [said])


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("Works as a nurse", "I prefer dark mode."),
        ("Has lived in Lisbon since 2018", "I have lived in Lisbon since 2019."),
        ("Lives in Lisbon with Bruno", "I live in Lisbon with my dog."),
        ("Does not eat fish", "I eat fish every day."),
        ("", "I eat fish every day."),
        ("The user", "I eat fish every day."),
        ("Eats fish", ""),
    ],
)
def test_what_adds_names_numbers_denials_or_another_matter_is_not(
    statement: str, said: str
) -> None:
    assert not is_supported(statement, [said])


def test_several_texts_may_bear_out_one_statement() -> None:
    assert is_supported(
        "Standup is on Tuesday at 3pm", ["My standup is on Tuesday.", "No, at 3pm."]
    )
