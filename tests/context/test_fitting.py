"""Fitting: cut in a fixed order, whole turns before parts, never a pair in two."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context.histories import LARGE, PROSE, assistant, call, event, histories, in_order, result
from context.histories import user as asked
from treering.context.attachments import without_media
from treering.context.budgets import OUTPUT_CHARACTERS_MAX, Budget, shorten, shorten_to
from treering.context.fitting import SUMMARY_TOKENS_MAX, EarlierSummary, FittedMessages, fit
from treering.context.pairing import pair
from treering.context.tokens import Counter, estimate, exact_counter
from treering.model.messages import AssistantMessage, ModelMessage, UserMessage
from treering.model.tools import SyntheticPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.events import Event

BUDGET: Final = Budget()


class Teller:
    """Tells what was dropped by its ids, and keeps what it was asked to tell."""

    def __init__(self, text: str | None = None) -> None:
        self.text = text
        self.told: list[tuple[list[str], str | None, int]] = []

    def __call__(self, dropped: Sequence[ModelMessage], earlier: str | None, tokens: int, /) -> str:
        ids = [event_id for message in dropped for event_id in message.event_ids]
        self.told.append((ids, earlier, tokens))
        return " ".join(ids) if self.text is None else self.text


def messages_of(*events: Event) -> list[ModelMessage]:
    return pair(in_order(*events), SyntheticPolicy())[0]


def fitted(
    messages: list[ModelMessage],
    room: int | None,
    *,
    earlier: str | None = None,
    teller: Teller | None = None,
) -> FittedMessages:
    before = None if earlier is None else EarlierSummary(words=earlier, event_ids=("e0",))
    return fit(messages, earlier=before, room=room, budget=BUDGET, summarise=teller or Teller())


def cost(messages: Sequence[ModelMessage]) -> int:
    return sum(map(BUDGET.cost, messages))


def codes(found: FittedMessages) -> list[str]:
    return [repair.code for repair in found.repairs]


def ids(found: FittedMessages) -> list[str]:
    return [one for message in found.messages for one in message.event_ids]


def turn(number: int, *, words: int = 3) -> list[Event]:
    return [asked(f"question {number} " * words), assistant(f"answer {number} " * words)]


TURNS: Final = messages_of(*turn(1, words=60), *turn(2), *turn(3), *turn(4))


# Nothing is cut that fits.


@pytest.mark.parametrize("room", [None, cost(TURNS), 10**9])
def test_what_fits_stays_as_it_is(room: int | None) -> None:
    teller = Teller()

    found = fitted(TURNS, room, teller=teller)

    assert (found.messages, found.cost, found.repairs) == (TURNS, cost(TURNS), [])
    assert teller.told == []


def test_what_went_before_is_told_in_front() -> None:
    found = fitted(TURNS, None, earlier="We met.")

    assert found.messages[0].text == "<summary>\nWe met.\n</summary>"
    assert found.messages[1:] == TURNS
    assert found.repairs == []


# 1. Long outputs.


@pytest.mark.parametrize("room", [None, 10**9])
def test_long_outputs_are_shortened_even_where_there_is_room(room: int | None) -> None:
    text = "".join(f"{number:05}" for number in range(4_000))
    messages = messages_of(asked(), call("c1"), result("c1", text), call("c2"), result("c2", "ok"))

    found = fitted(messages, room)

    shortened = found.messages[1]
    assert isinstance(shortened, AssistantMessage)
    half = OUTPUT_CHARACTERS_MAX // 2
    assert shortened.results[0].output == (
        text[:half] + "\n\n(truncated: 12000 chars omitted)\n\n" + text[-half:]
    )
    assert [(one.code, one.event_id) for one in found.repairs] == [("shortened_output", "e3")]


def test_an_output_is_left_alone_that_a_cut_would_not_make_shorter() -> None:
    text = "x" * (OUTPUT_CHARACTERS_MAX + 10)

    found = fitted(messages_of(asked(), call("c1"), result("c1", text)), None)

    assert found.messages[1].results[0].output == text  # type: ignore[union-attr]
    assert found.repairs == []


def test_an_output_that_is_cut_twice_is_reported_once_with_the_length_that_it_had() -> None:
    steps = [one for at in range(6) for one in (call(f"c{at}"), result(f"c{at}", "word " * 4_000))]
    messages = messages_of(asked("Well?"), *steps)

    found = fitted(messages, 2_000)

    told = [(one.event_id, one.detail) for one in found.repairs if one.code == "shortened_output"]
    assert told == [(f"e{seq}", "20000 characters") for seq in range(3, 14, 2)]


def test_an_output_that_is_dropped_is_not_reported_as_shortened() -> None:
    messages = messages_of(asked(), call("c1"), result("c1", PROSE * 90), *turn(2))

    found = fitted(messages, cost(messages[-2:]) + 100)

    assert ids(found) == ["e4", "e5"]
    assert codes(found) == ["dropped_turn", "summarised"]


# 2. The last checkpoint or interrupt.


@pytest.mark.parametrize("reason", ["checkpoint", "interrupt"])
def test_it_starts_again_at_the_last_mark(reason: str) -> None:
    mark = event(f"boundary.{reason}", {"title": "here"})
    messages = messages_of(*turn(1, words=200), mark, *turn(2), mark, *turn(3), *turn(4))

    found = fitted(messages, cost(messages) - 1)

    assert ids(found) == ["e6", "e7", "e8", "e9", "e10"]
    assert codes(found) == ["restarted", "dropped_turn", "dropped_turn", "summarised"]


def test_a_mark_in_the_middle_of_the_last_turn_does_not_cost_its_question() -> None:
    mark = event("boundary.checkpoint", {"title": "here"})
    asking, answering = turn(2)
    messages = messages_of(*turn(1, words=200), asking, mark, answering)

    found = fitted(messages, cost(messages) - 1)

    assert ids(found) == ["e3", "e4", "e5"]


def test_an_overflow_is_no_place_to_start_again() -> None:
    mark = event("boundary.overflow", {"title": "here"})
    messages = messages_of(*turn(1, words=200), *turn(2), mark, *turn(3))

    found = fitted(messages, cost(messages) - 1)

    assert ids(found) == ["e3", "e4", "e5", "e6", "e7"]
    assert "restarted" not in codes(found)


def test_a_mark_from_which_the_rest_does_not_fit_is_passed_over() -> None:
    mark = event("boundary.checkpoint", {"title": "here"})
    messages = messages_of(*turn(1), mark, *turn(2, words=400), *turn(3))

    found = fitted(messages, cost(messages[-2:]) + 100)

    assert ids(found) == ["e6", "e7"]
    assert "restarted" not in codes(found)


# 3. The oldest turns.


def test_the_oldest_turns_are_dropped_whole() -> None:
    teller = Teller()

    found = fitted(TURNS, cost(TURNS) - 1, teller=teller)

    assert ids(found) == ["e3", "e4", "e5", "e6", "e7", "e8"]
    assert [(one.code, one.event_id) for one in found.repairs] == [
        ("dropped_turn", "e1"),
        ("summarised", "e1"),
    ]
    assert [told[:2] for told in teller.told] == [(["e1", "e2"], None)]


def test_a_turn_is_dropped_with_its_calls_and_results() -> None:
    steps = [call("c1"), result("c1", "rain"), call("c2"), result("c2", "snow")]
    messages = messages_of(asked(PROSE), *steps, *turn(2), *turn(3))

    found = fitted(messages, cost(messages) - 1)

    assert ids(found) == ["e6", "e7", "e8", "e9"]


def test_what_stands_before_the_first_turn_is_dropped_first() -> None:
    messages = messages_of(assistant(PROSE * 5), *turn(1), *turn(2))

    found = fitted(messages, cost(messages) - 1)

    assert ids(found) == ["e2", "e3", "e4", "e5"]
    assert codes(found) == ["dropped_message", "summarised"]


# 4. The last turn.


def test_outputs_of_the_last_turn_are_shortened_before_a_step_is_dropped() -> None:
    steps = [one for at in range(6) for one in (call(f"c{at}"), result(f"c{at}", PROSE * 20))]
    messages = messages_of(*turn(1), asked("Well?"), *steps)

    found = fitted(messages, 2_000)

    assert ids(found) == [f"e{seq}" for seq in range(3, 16)]
    assert codes(found) == ["dropped_turn", "summarised", *["shortened_output"] * 6]
    assert found.cost <= 2_000


def test_all_outputs_of_the_last_turn_are_shortened_alike_and_as_little_as_need_be() -> None:
    steps = [one for at in range(4) for one in (call(f"c{at}"), result(f"c{at}", PROSE * 40))]
    messages = messages_of(asked("Well?"), *steps)

    lengths = [
        {len(one.output) for message in found.messages if isinstance(message, AssistantMessage)
         for one in message.results}
        for found in (fitted(messages, room) for room in (1_200, 2_500, 4_500))
    ]  # fmt: skip

    assert [len(one) for one in lengths] == [1, 1, 1]
    assert max(lengths[0]) < max(lengths[1]) < max(lengths[2])


def test_the_oldest_steps_of_the_last_turn_are_dropped_and_its_question_stays() -> None:
    steps = [one for at in range(40) for one in (call(f"c{at}"), result(f"c{at}", PROSE * 20))]
    messages = messages_of(asked("Well?"), *steps)

    found = fitted(messages, 800)

    shown = ids(found)
    assert shown[0] == "e1"
    assert shown[1:] == [f"e{seq}" for seq in range(82 - len(shown) + 1, 82)]
    assert len(shown) % 2 == 1
    assert codes(found).count("dropped_message") == 40 - len(shown) // 2
    assert found.cost <= 800


def test_a_question_that_is_too_long_leaves_half_of_the_room_to_its_last_steps() -> None:
    messages = messages_of(asked(PROSE * 300), assistant("I look."), assistant("I see."))

    found = fitted(messages, 400)

    first, *steps = found.messages[-3:]
    assert "chars omitted" in first.text
    assert first.text.startswith(PROSE[:40])
    assert first.text.endswith(PROSE[-40:])
    assert BUDGET.cost(first) <= 200
    assert [step.text for step in steps] == ["I look.", "I see."]
    assert codes(found)[0] == "shortened_message"


def test_a_question_alone_is_shortened_to_all_of_the_room() -> None:
    messages = messages_of(*turn(1), asked(PROSE * 300))

    found = fitted(messages, 800)

    assert 600 < BUDGET.cost(found.messages[-1]) <= 700
    assert codes(found) == ["dropped_turn", "shortened_message", "summarised"]


def test_of_a_last_step_that_is_too_long_the_words_are_shown_without_the_calls() -> None:
    huge = {"text": PROSE * 300}
    messages = messages_of(
        asked("Write it."), assistant("I write."), call("c1", arguments=huge), result("c1", "done")
    )

    found = fitted(messages, 300)

    assert [message.text for message in found.messages] == ["Write it.", "I write."]
    assert ids(found) == ["e1", "e2"]
    assert [(one.code, one.event_id) for one in found.repairs] == [("shortened_message", "e2")]


def test_a_question_that_no_room_is_left_for_is_reported_and_told() -> None:
    teller = Teller("told")
    messages = messages_of(asked("a" * 4_000), *[assistant(f"step {at}") for at in range(9)])

    found = fitted(messages, 13, teller=teller)

    dropped = [one.event_id for one in found.repairs if one.code == "dropped_message"]
    assert "e1" in dropped
    assert set(dropped).isdisjoint(ids(found))


def test_a_pair_is_never_split() -> None:
    messages = messages_of(
        asked("Go."), assistant("I look."), call("c1"), call("c2"), result("c1"), result("c2")
    )

    for room in range(cost(messages) + 10):
        for message in fitted(messages, room).messages:
            if isinstance(message, AssistantMessage):
                assert len(message.calls) == len(message.results)
                assert len(message.calls) in {0, 2}


# 5. The summary.


def test_a_summary_of_what_was_dropped_stands_in_front_if_there_is_room() -> None:
    found = fitted(TURNS, cost(TURNS) - 1, teller=Teller("They met."))

    assert found.messages[0] == UserMessage(
        text="<summary>\nThey met.\n</summary>", seq=1, mark="summary"
    )


def test_a_summary_goes_on_from_the_one_before() -> None:
    teller = Teller()

    found = fitted(TURNS, cost(TURNS) - 1, earlier="We met.", teller=teller)

    assert [(told[0], told[1]) for told in teller.told] == [(["e1", "e2"], "We met.")]
    assert found.messages[0].event_ids == ("e0",)


def test_a_summary_is_never_longer_than_what_it_may_take() -> None:
    messages = messages_of(*turn(1, words=9_000), *turn(2, words=3_000), *turn(3))

    found = fitted(messages, 20_000, teller=Teller(PROSE * 500))

    assert BUDGET.cost(found.messages[0]) <= SUMMARY_TOKENS_MAX
    assert found.messages[0].text.startswith(f"<summary>\n{PROSE[:40]}")


def test_without_room_for_a_summary_there_is_none() -> None:
    found = fitted(TURNS, cost(TURNS[-2:]) + 20, teller=Teller("They met."))

    assert all(not isinstance(one, UserMessage) or one.mark is None for one in found.messages)


def test_a_summary_that_says_nothing_is_left_out() -> None:
    found = fitted(TURNS, cost(TURNS) - 1, teller=Teller(" "))

    assert codes(found) == ["dropped_turn"]


# Too small.


@pytest.mark.parametrize("room", [0, 1, 6])
def test_a_room_that_nothing_fits_into_stays_empty(room: int) -> None:
    found = fitted(TURNS, room)

    assert (found.messages, found.cost) == ([], 0)
    assert found.repairs[-1].code == "budget_too_small"
    assert found.repairs[-1].event_id == "e8"


def test_a_summary_that_does_not_fit_is_too_much_as_well() -> None:
    found = fitted([], 3, earlier=PROSE)

    assert (found.messages, codes(found)) == ([], ["budget_too_small"])


@pytest.mark.parametrize("room", range(0, 60, 3))
def test_what_names_a_picture_without_words_is_whole_or_left_out(room: int) -> None:
    data = "iVBORw0KGgoAAAANSUhEUgAAAgAAAAEA" + "A" * 88
    picture = {"type": "base64", "media_type": "image/png", "data": data}
    attachments = [{"type": "image", "source": picture}]
    asking = event("conversation.user", {"text": "", "attachments": attachments})
    messages = messages_of(asking, assistant("A lighthouse. " * 9))

    found = fitted(messages, room)

    named = without_media(messages[0]).text
    assert named.startswith("[")
    assert [text for text in (one.text for one in found.messages) if text[:1] == "["] in (
        [],
        [named],
    )


# Whatever the messages are.


@given(events=histories(), room=st.integers(0, 3_000), earlier=st.none() | st.just(PROSE))
def test_it_fits_and_nothing_is_longer_than_it_was(
    events: list[Event], room: int, earlier: str | None
) -> None:
    messages, _ = pair(events, SyntheticPolicy())

    found = fitted(messages, room, earlier=earlier)

    assert found.cost == cost(found.messages) <= room
    # A file that is left out is named in the text.
    named = map(without_media, messages)
    given_texts = {one: text for message in named for one, text in _texts(message).items()}
    for message in found.messages:
        if not (isinstance(message, UserMessage) and message.mark == "summary"):
            for one, text in _texts(message).items():
                assert len(text) <= len(given_texts[one])


def _texts(message: ModelMessage) -> dict[Any, str]:
    told: dict[Any, str] = {message.event_ids[:1]: message.text}
    if isinstance(message, AssistantMessage):
        told |= {one.call_id: one.output for one in message.results}
    return told


# Texts.


@given(text=st.text(max_size=300), characters=st.integers(-5, 300))
def test_a_shortened_text_is_never_longer(text: str, characters: int) -> None:
    shorter = shorten(text, characters)

    assert len(shorter) <= len(text)
    assert shorter == text or "chars omitted" in shorter


@given(
    text=st.text(max_size=100) | st.sampled_from(LARGE),
    tokens=st.integers(-1, 400),
    count=st.sampled_from((estimate, len, exact_counter())),
)
def test_a_text_that_is_shortened_to_tokens_counts_for_no_more(
    text: str, tokens: int, count: Counter
) -> None:
    shorter = shorten_to(text, tokens, count)

    assert count(shorter) <= max(tokens, 0)
    assert len(shorter) <= len(text)


MARKER: Final = re.compile(r"\n\n\(truncated: \d+ chars omitted\)\n\n")


@pytest.mark.parametrize(
    "text", ["A word or two. " * 40, "0123456789" * 60, "港口星期天关闭。" * 40]
)
def test_with_more_tokens_no_less_of_a_text_is_left(text: str) -> None:
    def left(tokens: int) -> int:
        return len(MARKER.sub("", shorten_to(text, tokens, estimate)))

    lengths = [left(tokens) for tokens in range(1, 120)]

    assert lengths == sorted(lengths)
    assert all("truncated" not in shorten_to(text, tokens, estimate) for tokens in range(40))
