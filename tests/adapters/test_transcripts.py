"""Messages as lines for a model that summarises them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from treering.adapters.endpoints import SUMMARY_PROMPT, transcript
from treering.model.messages import AssistantMessage, Call, Result, UserMessage

TALK = (
    UserMessage(text="List the files", seq=1),
    AssistantMessage(
        text="I look.",
        seq=2,
        calls=(Call(call_id="c", tool="ls", arguments={"path": "."}, event_id="e"),),
        results=(Result(call_id="c", tool="ls", output="no such\nfolder", is_error=True),),
    ),
    UserMessage(text="go on", seq=3, mark="checkpoint"),
)


def test_every_message_call_and_result_is_a_line_with_its_role() -> None:
    assert transcript(TALK, 1_000) == (
        '[user]: List the files\n[assistant]: I look.\n[call ls]: {"path":"."}\n'
        "[error ls]: no such\nfolder\n[checkpoint]: go on"
    )


def test_the_longest_entries_are_cut_first() -> None:
    told = transcript([UserMessage(text="x" * 5_000, seq=1), *TALK], 1_000)

    assert len(told) == 1_000
    assert told.endswith(transcript(TALK, 1_000))


def test_entries_between_the_first_and_the_last_are_left_out() -> None:
    many = [UserMessage(text=f"wish {number}", seq=number) for number in range(100)]

    told = transcript(many, 100)

    assert told.startswith("[user]: wish 0\n[…]\n[user]: wish 9")
    assert told.endswith("\n[user]: wish 99")


@given(st.lists(st.text(max_size=400), max_size=30), st.integers(-1, 3_000))
def test_a_transcript_fits_any_limit(texts: list[str], limit: int) -> None:
    told = transcript([UserMessage(text=text, seq=1) for text in texts], limit)

    assert len(told) <= max(limit, 0)


def test_the_prompt_asks_for_what_a_summary_is_for() -> None:
    assert all(word in SUMMARY_PROMPT for word in ("decided", "files", "errors", "remains"))
