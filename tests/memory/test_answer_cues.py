import pytest

from treering.memory.answer_order import answer_form, form_gain, is_question, speaker_in

JUNE_2025_MS = 1_749_600_000_000  # 2025-06-11
PLAIN = "We moved to the flat above the bakery."


def gain(question: str, text: str, **given: object) -> float:
    values = {"speaker": None, "ts_ms": JUNE_2025_MS, "follows_question": False} | given
    return form_gain(answer_form(question), text, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "better", "worse"),
    [
        ("When did they move?", "We moved last weekend.", PLAIN),
        ("How many cats has he got?", "There are three of them at home.", PLAIN),
        ("Where does Ana live?", "Ana: Above the bakery.", "Luis: Above the bakery."),
        ("Where do they live?", PLAIN, "Do you live above the bakery?"),
    ],
)
def test_a_message_in_the_form_of_an_answer_gains_over_another(
    question: str, better: str, worse: str
) -> None:
    assert gain(question, better) > gain(question, worse)


def test_what_follows_a_question_gains() -> None:
    assert gain("Where?", PLAIN, follows_question=True) > gain("Where?", PLAIN)


def test_a_speaker_who_is_known_counts_before_a_name_in_the_text() -> None:
    asked = "What did ana say?"

    assert gain(asked, "Luis: hello", speaker="ana") > gain(asked, "Ana: hello", speaker="luis")


@pytest.mark.parametrize(
    "question",
    ["What happened in June?", "What was said on 11 June 2025?", "What about 2025-06-11?",
     "What did we do on June 11th?", "Anything in Jun 2025?"],
)  # fmt: skip
def test_a_message_of_the_date_that_is_named_gains(question: str) -> None:
    assert gain(question, PLAIN) > gain("What happened?", PLAIN)


@pytest.mark.parametrize(
    "question",
    ["What happened in June 2024?", "What was said on 12 June?", "What may have happened?",
     "Who did mar the door?", "What about 2025-13-40?", "What about 2024-06-11?"],
)  # fmt: skip
def test_another_date_or_a_word_that_looks_like_a_month_gives_nothing(question: str) -> None:
    assert gain(question, PLAIN) == gain("What happened?", PLAIN)


def test_questions_are_known_by_their_end() -> None:
    assert is_question("Really?")
    assert is_question('She asked: "where?" [shares a photo of a cat]')
    assert is_question("本当ですか\uff1f")
    assert not is_question("I asked why? Then I left.")


def test_a_speaker_is_read_from_a_transcript_alone() -> None:
    assert speaker_in("Ana Lima: Good morning") == "Ana"
    assert speaker_in("https://example.org: a page") is None
    assert speaker_in("12:30: the bus leaves") is None
