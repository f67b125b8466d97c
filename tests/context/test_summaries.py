"""Summaries told by structure: what they quote, how they are cut, how they chain."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering.context.summaries import LINE_CHARS_MAX, LINES_MAX, SECTIONS, Summary, summarise
from treering.context.tokens import estimate
from treering.model.messages import AssistantMessage, Call, ModelMessage, Result, UserMessage

ROOMY = 10_000


def user(text: str, event_id: str = "u") -> UserMessage:
    return UserMessage(text=text, seq=1, event_ids=(event_id,))


def answer(text: str = "", *calls: tuple[Call, Result], event_id: str = "a") -> AssistantMessage:
    return AssistantMessage(
        text=text,
        seq=1,
        event_ids=(event_id,),
        calls=tuple(call for call, _ in calls),
        results=tuple(result for _, result in calls),
    )


def ran(
    tool: str, arguments: Any, output: str = "ok", event_id: str = "c", **outcome: Any
) -> tuple[Call, Result]:
    return (
        Call(call_id=event_id, tool=tool, arguments=arguments, event_id=event_id),
        Result(call_id=event_id, tool=tool, output=output, event_id=f"{event_id}-out", **outcome),
    )


def lines(section: str, *messages: ModelMessage, earlier: str | None = None) -> list[str]:
    summary = summarise(messages, earlier=earlier, limit=ROOMY)
    return [line.text for line in summary.evidence if line.section == section]


def test_a_session_is_told_in_sections() -> None:
    messages: list[ModelMessage] = [
        user("Make the import faster. You must keep the format.", "u1"),
        answer(
            "I decided to read in pages instead of lines.",
            ran("Edit", {"file_path": "src/importing.py", "new_string": "pages"}, event_id="c1"),
            ran("Bash", {"command": "pytest -q"}, "E\nValueError: no page", "c2", is_error=True),
            event_id="a1",
        ),
        answer("It is twice as fast. The docs are not yet written.", event_id="a2"),
    ]

    summary = summarise(messages, limit=ROOMY)

    assert summary.text == (
        "Intent:\n"
        "- Make the import faster. You must keep the format.\n"
        "Decisions:\n"
        "- You must keep the format.\n"
        "- I decided to read in pages instead of lines.\n"
        "Files:\n"
        "- src/importing.py (written)\n"
        "Commands:\n"
        "- pytest -q\n"
        "Errors:\n"
        "- Bash: ValueError: no page\n"
        "Open:\n"
        "- The docs are not yet written.\n"
        "Outcome:\n"
        "- It is twice as fast. The docs are not yet written."
    )
    assert [line.event_ids for line in summary.evidence] == [
        ("u1",), ("u1",), ("a1",), ("c1",), ("c2",), ("c2-out",), ("a2",), ("a2",),
    ]  # fmt: skip


def test_nothing_said_is_nothing_told() -> None:
    assert summarise([], limit=ROOMY) == Summary(text="")
    assert summarise([user(" \n "), answer("")], limit=ROOMY) == Summary(text="")


def test_text_in_any_language_tells_intent_and_outcome() -> None:
    summary = summarise([user("修复登录错误"), answer("登录错误已修复。")], limit=ROOMY)

    assert summary.text == "Intent:\n- 修复登录错误\nOutcome:\n- 登录错误已修复。"


def test_the_first_request_and_the_latest_are_kept() -> None:
    requests = [user(f"Request {number}", f"u{number}") for number in range(20)]

    kept = lines("Intent", *requests)

    assert kept == ["Request 0", "Request 16", "Request 17", "Request 18", "Request 19"]


def test_marks_are_no_requests() -> None:
    mark = UserMessage(text="[interrupted]", seq=1, event_ids=("m",), mark="interrupt")

    assert lines("Intent", mark, user("Go on")) == ["Go on"]


def test_files_are_named_once_and_marked_if_they_were_written() -> None:
    messages: list[ModelMessage] = [
        user("Look at src/a.py and README.md, as in https://example.org/c/d.html"),
        answer("Node.js is not needed.", ran("Read", {"path": "/w/README.md"})),
        answer("", ran("write_file", {"path": "src/a.py"}), ran("Read", {"path": "src/a.py"})),
        answer("", ran("apply", {"input": "*** Begin Patch\n*** Update File: src/new.rs\n+x"})),
    ]

    assert lines("Files", *messages) == [
        "/w/README.md",
        "src/a.py (written)",
        "src/new.rs (written)",
    ]


def test_written_files_outlive_those_that_were_only_read() -> None:
    read = [answer("", ran("Read", {"path": f"src/{number}.py"})) for number in range(40)]

    kept = lines("Files", answer("", ran("Write", {"path": "src/main.py"})), *read)

    assert len(kept) == LINES_MAX["Files"]
    assert kept[-1] == "src/main.py (written)"


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ({"command": "make  test\n"}, "make test"),
        ({"cmd": ["bash", "-lc", "cargo build"]}, "cargo build"),
        ({"command": ["git", "status"]}, "git status"),
    ],
)
def test_commands_are_told_however_they_were_given(arguments: Any, command: str) -> None:
    assert lines("Commands", answer("", ran("shell", arguments))) == [command]


@pytest.mark.parametrize("arguments", [{"command": 7}, {"command": []}, None, ["ls"], "ls", 3])
def test_arguments_that_hold_no_command_tell_none(arguments: Any) -> None:
    assert lines("Commands", answer("", ran("shell", arguments))) == []


def test_errors_are_told_by_the_line_that_says_most() -> None:
    trace = "Traceback (most recent call last):\n  File x\nmod.OddError: too odd\n"

    assert lines(
        "Errors",
        answer("", ran("a", {}, "\n  no such file\nmore", is_error=True)),
        answer("", ran("b", {}, trace)),
        answer("", ran("c", {}, "[treering] c was interrupted", reason="interrupted")),
        answer("", ran("d", {}, "fine")),
    ) == ["a: no such file", "b: mod.OddError: too odd", "c: [treering] c was interrupted"]


def test_a_question_stays_open_until_it_is_answered() -> None:
    asked = [user("The build is slow. Which cache is used?")]
    earlier = summarise(asked, limit=ROOMY).text

    assert lines("Open", *asked) == ["Which cache is used?"]
    assert lines("Open", *asked, answer("The local one.")) == []
    assert lines("Open", answer("The local one."), earlier=earlier) == []


def test_the_newest_list_of_tasks_says_what_is_open() -> None:
    def tasks(**states: str) -> AssistantMessage:
        listed = [{"content": name, "status": status} for name, status in states.items()]
        return answer("", ran("TodoWrite", {"todos": listed}))

    before = tasks(parse="pending", store="pending", check="pending")
    after = tasks(parse="completed", store="in_progress")

    assert lines("Open", before, after) == ["store"]
    earlier = summarise([before], limit=ROOMY).text
    assert lines("Open", after, earlier=earlier) == ["check", "store"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("All well. Next, the docs.", ["Next, the docs."]),
        ("- [ ] write docs\n- [x] write code", ["write docs"]),
        ("TODO: docs", ["TODO: docs"]),
        ("See todo-app/main.ts and my/todo.ts.", []),
        ("All is done.", []),
    ],
)
def test_open_items_are_told_by_their_cues(text: str, told: list[str]) -> None:
    assert lines("Open", answer(text)) == told


def test_a_long_request_is_cut_at_a_word() -> None:
    (told,) = lines("Intent", user("word " * 1_000))

    assert len(told) <= LINE_CHARS_MAX
    assert told.endswith("word…")


def test_what_is_dearest_is_kept_when_room_is_short() -> None:
    messages: list[ModelMessage] = [
        user("First wish"),
        user("Last wish"),
        answer("Done.", ran("sh", {"cmd": "ls"})),
    ]

    summary = summarise(messages, limit=50, count=len)

    assert summary.text == "Intent:\n- First wish\n- Last wish\nOutcome:\n- Done."


def test_the_last_line_that_has_room_is_shortened() -> None:
    summary = summarise([user("Sort the files by their dates")], limit=24, count=len)

    assert summary.text == "Intent:\n- Sort the…"


def test_a_summary_that_somebody_else_wrote_is_kept_by_sentences() -> None:
    told = lines("Earlier", user("Go on"), earlier="# So far\nWe met. We parted.\n\n* sadly\n")

    assert told == ["# So far", "We met.", "We parted.", "sadly"]


def test_an_earlier_summary_is_merged_section_by_section() -> None:
    first: list[ModelMessage] = [
        user("Start"),
        answer("We chose SQLite.", ran("Read", {"path": "a/b.py"})),
    ]
    second: list[ModelMessage] = [
        user("Next wish"),
        answer("Saved.", ran("Write", {"path": "a/b.py"})),
    ]
    earlier = summarise(first, limit=ROOMY).text

    summary = summarise(second, earlier=earlier, limit=ROOMY)

    assert summary.text == (
        "Intent:\n- Start\n- Next wish\nDecisions:\n- We chose SQLite.\n"
        "Files:\n- a/b.py (written)\nOutcome:\n- Saved."
    )


def test_an_unchanged_summary_stays_as_it_is() -> None:
    text = summarise([user("Go. Don't stop."), answer("Next step: c/d.py")], limit=ROOMY).text

    assert summarise([], earlier=text, limit=ROOMY).text == text


WORDS = (
    "we decided to use x.py instead of lib/y.rs ? TODO: next step must Error let's a. b! 漢字 …"
    " (written) Intent: Files: - * *** [ ]"
)
words = st.sampled_from([*WORDS.split(), "- [ ]", "\n", "\n\n", "\u2028", "\ud800"])
texts = st.lists(words, max_size=12).map(" ".join) | st.text(max_size=40)
arguments = (
    st.dictionaries(
        st.sampled_from(["path", "file_path", "command", "cmd", "todos", "plan", "x"]),
        texts
        | st.lists(texts, max_size=3)
        | st.none()
        | st.just([{"step": "s", "status": "open"}]),
        max_size=3,
    )
    | texts
    | st.none()
)
calls = st.builds(
    ran,
    st.sampled_from(["Bash", "Edit", "read"]),
    arguments,
    texts,
    st.sampled_from("klm"),
    is_error=st.booleans(),
)
messages_of_any_kind = st.lists(
    st.builds(user, texts, st.sampled_from("uvw"))
    | st.builds(lambda text, ran: answer(text, *ran), texts, st.lists(calls, max_size=3)),
    max_size=12,
)
counters = st.sampled_from([len, estimate])


@given(messages_of_any_kind, st.none() | texts, st.integers(-1, 400), counters)
def test_a_summary_fits_any_limit(
    messages: list[ModelMessage], earlier: str | None, limit: int, count: Any
) -> None:
    summary = summarise(messages, earlier=earlier, limit=limit, count=count)

    assert count(summary.text) <= max(limit, 0)
    assert summary == summarise(messages, earlier=earlier, limit=limit, count=count)


@given(messages_of_any_kind, st.none() | texts, st.integers(0, 400))
def test_every_line_is_accounted_for(
    messages: list[ModelMessage], earlier: str | None, limit: int
) -> None:
    summary = summarise(messages, earlier=earlier, limit=limit)

    told = [line for line in summary.text.split("\n") if line.startswith("- ")]
    assert told == [f"- {line.text}" for line in summary.evidence]
    known = {event_id for message in messages for event_id in _event_ids(message)}
    assert all(set(line.event_ids) <= known for line in summary.evidence)
    assert earlier or all(line.event_ids for line in summary.evidence)


@given(messages_of_any_kind, st.none() | texts, st.integers(0, 400))
def test_no_word_is_invented(messages: list[ModelMessage], earlier: str | None, limit: int) -> None:
    summary = summarise(messages, earlier=earlier, limit=limit)

    said = " ".join([earlier or "", *map(_said, messages)])
    for line in summary.evidence:
        for word in re.split(r"\s+", line.text.removesuffix(" (written)").rstrip("…")):
            assert word in said or word.removesuffix(":") in said


@given(st.lists(messages_of_any_kind, max_size=6), st.integers(0, 300))
def test_a_chain_of_summaries_stays_bounded(
    stretches: list[list[ModelMessage]], limit: int
) -> None:
    text: str | None = None
    for stretch in stretches:
        summary = summarise(stretch, earlier=text, limit=limit)
        text = summary.text
        assert estimate(text) <= limit
        for section in SECTIONS:
            told = [line for line in summary.evidence if line.section == section]
            assert len(told) <= LINES_MAX[section] + (section == "Intent")


def test_a_megabyte_on_one_line_is_summarised_by_its_ends() -> None:
    noise = "a/." * 350_000
    text = f"We decided on A. {noise} We agreed on B."

    assert lines("Decisions", user(text))[0] == "We decided on A."
    assert len(summarise([user(text), answer(noise)], limit=ROOMY).text) < 4 * LINE_CHARS_MAX


def test_a_hundred_thousand_messages_are_summarised_like_a_few() -> None:
    messages: list[ModelMessage] = [user("Do it"), answer("It is done.")] * 50_000

    assert summarise(messages, limit=ROOMY).text == "Intent:\n- Do it\nOutcome:\n- It is done."


def _event_ids(message: ModelMessage) -> list[str]:
    if isinstance(message, UserMessage):
        return list(message.event_ids)
    ids = [call.event_id for call in message.calls]
    ids += [result.event_id for result in message.results if result.event_id]
    return [*message.event_ids, *ids]


def _said(message: ModelMessage) -> str:
    if isinstance(message, UserMessage):
        return message.text
    spoken = [message.text, *(result.output for result in message.results)]
    for call in message.calls:
        spoken += [call.tool, *_strings(call.arguments)]
    return " ".join(spoken)


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for part in value.values() for text in _strings(part)]
    if isinstance(value, list):
        return [text for part in value for text in _strings(part)]
    return [value] if isinstance(value, str) else []
