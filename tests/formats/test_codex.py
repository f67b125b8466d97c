"""Rollouts of Codex: every text once, whichever lanes it comes in; keys that a fork shares."""

from __future__ import annotations

import io
from pathlib import PurePath
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.logs.codex import (
    PATH,
    SESSION,
    T0,
    answer_item,
    call,
    counted,
    event,
    item,
    line,
    opened,
    output,
    read,
    surroundings,
    texts,
    told,
    turn,
    user_item,
)
from treering.formats import codex
from treering.formats.codex import CodexReader, score
from treering.formats.codex.twins import WINDOW_RECORDS
from treering.formats.records import read_records
from treering.model.codec import canonical_content
from treering.model.fields import check_name

# What is said.


def test_each_text_is_told_once_though_it_stands_in_two_lanes() -> None:
    outcomes = read(opened(), *turn("high tide?", "At 14:10."))

    assert texts(opened(), *turn("high tide?", "At 14:10.")) == [
        ("user", "high tide?"),
        ("assistant", "At 14:10."),
    ]
    assert [outcome.skipped for outcome in outcomes if outcome.skipped] == [
        "repeats the user message",
        "repeats the reasoning",
        "repeats the assistant's message",
    ]


@pytest.mark.parametrize("lane", ["item", "event", "turn"])
def test_a_text_that_stands_in_one_lane_only_is_told(lane: str) -> None:
    words = [{"type": "text", "text": "high tide?"}]
    answer = [{"type": "Text", "text": "At 14:10."}]
    lanes: dict[str, list[Any]] = {
        "item": [user_item("high tide?"), answer_item("At 14:10.")],
        "event": [
            event("user_message", message="high tide?"),
            event("agent_message", message="At 14:10."),
        ],
        "turn": [
            event("item_completed", item={"type": "UserMessage", "id": "i1", "content": words}),
            event("item_completed", item={"type": "AgentMessage", "id": "i2", "content": answer}),
        ],
    }

    assert texts(opened(), *lanes[lane]) == [("user", "high tide?"), ("assistant", "At 14:10.")]


def test_what_is_said_twice_comes_twice() -> None:
    again = [*turn("go on", "Done."), *turn("go on", "Done.")]

    assert texts(opened(), *again) == [("user", "go on"), ("assistant", "Done.")] * 2
    assert (
        texts(opened(), answer_item("Done."), answer_item("Done.")) == [("assistant", "Done.")] * 2
    )


def test_texts_far_from_each_other_are_no_twins() -> None:
    between = [line("world_state", {"n": n}) for n in range(WINDOW_RECORDS + 1)]

    said = texts(opened(), event("agent_message", message="Done."), *between, answer_item("Done."))

    assert said == [("assistant", "Done.")] * 2


def test_a_record_does_not_wait_for_long() -> None:
    reader = CodexReader(PATH)
    written = b"".join(
        msgspec.json.encode(record) + b"\n"
        for record in (user_item("ahoy"), *(line("world_state", {"n": n}) for n in range(20)))
    )

    settled = [one for record in read_records(io.BytesIO(written)) for one in reader.read(record)]

    assert len(settled) == 21
    assert settled[0].events[0].payload == {"text": "ahoy"}


def test_the_user_is_quoted_without_what_was_put_around_the_words() -> None:
    wrapped = "<environment_context>\n<cwd>/srv</cwd>\n</environment_context>\n\nhigh tide?"
    found = told(opened(), user_item(wrapped), answer_item("Hm."), kind="conversation.user")

    assert [(one.payload["text"], one.payload["wrapped"]) for one in found] == [
        ("high tide?", wrapped)
    ]


def test_a_summary_has_the_request_and_not_what_an_editor_put_before_it() -> None:
    context = "# Context from my IDE setup:\n\n## Open tabs:\n- a.md: docs/a.md\n\n"
    text = f"{context}## My request for Codex:\nwhen is high tide?\n"

    (event,) = [
        event
        for outcome in read(opened(), user_item(text))
        for event in outcome.events
        if event.kind == "conversation.user"
    ]

    assert event.summary == "when is high tide?"
    assert event.payload["text"] == text


def test_words_wrapped_in_an_unknown_way_are_told_as_the_event_has_them() -> None:
    around = user_item("[weather: fair]\nhigh tide?\n[end]")
    shown = event("user_message", message="high tide?")

    assert texts(opened(), around, shown) == [("user", "high tide?")]
    assert texts(opened(), shown, around) == [("user", "high tide?")]


@pytest.mark.parametrize(
    "text",
    [
        "<environment_context>\n<cwd>/srv</cwd>\n</environment_context>",
        "<user_instructions>be brief</user_instructions>",
        "# AGENTS.md instructions for /srv\n\n<INSTRUCTIONS>\nbe brief\n</INSTRUCTIONS>",
    ],
)
def test_what_no_user_said_is_an_observation(text: str) -> None:
    found = told(opened(), user_item(text), event("user_message", message="ahoy"))

    assert [one.kind for one in found[1:]] == ["ops.observation", "conversation.user"]
    assert found[1].payload["content"][0]["text"] == text


def test_a_picture_is_kept_when_its_words_were_told_before() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    words = {"type": "input_text", "text": "what is this?"}
    shown = event("user_message", message="what is this?")
    sent = item("message", role="user", content=[words, picture])

    for records in ([shown, sent], [sent, shown]):
        found = told(opened(), *records)[1:]

        assert texts(opened(), *records) == [("user", "what is this?")]
        assert [picture in one.payload.get("content", []) for one in found].count(True) == 1


def test_a_thought_is_told_once_with_what_only_its_item_holds() -> None:
    parts = [{"type": "summary_text", "text": text} for text in ("**One**", "**Two**")]
    thought = [
        event("agent_reasoning", text="**One**"),
        event("agent_reasoning", text="**Two**"),
        counted(5, 5),
        item("reasoning", summary=parts, content=None, encrypted_content="sealed"),
        call("c1", command="ls"),
    ]

    found = [one for one in told(opened(), *thought) if one.summary == "thinking"]

    assert [one.payload for one in found] == [
        {"thinking": "**One**", "encrypted_content": "sealed"},
        {"thinking": "**Two**"},
    ]


def test_the_order_of_the_file_stays() -> None:
    kinds = [one.kind for one in told(opened(), *turn("high tide?", "At 14:10."))]

    assert kinds == [
        "ops.observation",
        "conversation.user",
        "ops.observation",
        "ops.observation",
        "usage.reported",
        "conversation.assistant",
    ]


# Sessions and keys.


def test_a_session_is_opened_as_its_first_record_says() -> None:
    reader = CodexReader(None)
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "mother", "agent_role": "scout"}}}

    read(opened("own", source=spawned), opened("mother"), reader=reader)

    opening = reader.sessions["own"]
    assert list(reader.sessions) == ["own"]
    assert (opening.agent, opening.parent, opening.cwd) == ("codex:scout", "mother", "/srv/harbour")
    assert opening.about == {
        "originator": "codex_cli_rs",
        "version": "0.99.0",
        "provider": "openai",
        "branch": "main",
        "commit": "abc",
    }


@pytest.mark.parametrize(
    ("path", "session"), [(PATH, SESSION), (None, "codex-"), (PurePath("x.jsonl"), "codex-")]
)
def test_a_session_without_an_opening_is_named_by_its_file_or_its_first_record(
    path: PurePath | None, session: str
) -> None:
    first = told(user_item("ahoy"), path=path)
    again = told(user_item("ahoy"), answer_item("Ahoy."), path=path)

    assert first[0].session.startswith(session)
    assert {one.session for one in again} == {first[0].session}


def test_a_fork_repeats_its_past_under_the_same_keys() -> None:
    past = [opened("mother"), *turn("a", "b"), call("c1", command="ls"), output("c1", "x")]
    later = [{**record, "timestamp": "2031-01-01T00:00:00Z", "ordinal": 7} for record in past]

    mother = told(*past, path=None)
    child = told(opened("own", forked_from_id="mother"), *later, *turn("c", "d"), path=None)

    assert {one.key for one in mother} <= {one.key for one in child}
    assert {one.session for one in child} == {"own"}
    assert [one.key for one in child[: len(mother)]] == [one.key for one in mother]
    assert child[-1].payload["forked_from_id"] == "mother"


def test_keys_do_not_depend_on_which_lanes_a_file_has() -> None:
    both = told(opened(), *turn("a", "b"), kind="conversation.")
    items = told(opened(), user_item("a"), answer_item("b"), kind="conversation.")

    assert [one.key for one in both] == [one.key for one in items]


def test_a_record_without_a_time_has_that_of_the_one_before() -> None:
    bare = {"type": "event_msg", "payload": {"type": "agent_message", "message": "ahoy"}}

    assert told(opened(), line("world_state", {}, 9), bare)[-1].ts_ms == T0 + 9_000
    assert told(bare)[-1].ts_ms == 1


def test_rollouts_from_before_the_wrapper_are_read() -> None:
    old: list[Any] = [
        {"id": "old", "timestamp": "2025-05-01T10:00:00.000Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        user_item("ahoy")["payload"],
        call("c1", command=["bash", "-lc", "make tide"])["payload"],
        output("c1", "done")["payload"],
        answer_item("Ahoy.")["payload"],
    ]

    found = told(*old, path=None)

    assert score(old[:1])
    assert score(old[2:3])
    assert {one.session for one in found} == {"old"}
    assert [one.kind for one in found] == [
        *("ops.observation", "ops.observation", "conversation.user"),
        *("tool.call", "tool.result", "conversation.assistant"),
    ]
    assert found[3].summary == "shell: make tide"


# Turns.


def test_a_rollback_hides_its_turns_from_their_first_message_on() -> None:
    records = [opened(), *turn("one", "1"), *turn("two", "2"), *turn("three", "3")]
    asked = [one.key for one in told(*records, kind="conversation.user")]

    back = event("thread_rolled_back", num_turns=2)
    found = told(*records, back, *turn("four", "4"), back, kind="session.undone")

    assert [one.first for one in found] == [asked[1], asked[0]]
    assert [one.refs for one in found] == [{"turns": 2}, {"turns": 2}]


def test_a_rollback_of_nothing_known_is_an_observation() -> None:
    assert [one.kind for one in told(event("thread_rolled_back", num_turns=1))] == [
        "ops.observation"
    ]


def test_a_compaction_tells_its_summary_and_what_it_replaced() -> None:
    history = [{"type": "message", "role": "user", "content": []}]
    packed = line("compacted", {"message": "We sailed.", "replacement_history": history})

    (found,) = told(opened(), counted(900, 900), packed, kind="context.compacted")

    assert found.payload == {
        "summary": "We sailed.",
        "by": "codex",
        "from_tokens": 910,
        "replacement_history": history,
    }


def test_each_count_is_told_once_with_the_model_of_its_turn() -> None:
    records = [surroundings("gpt-a"), counted(100, 100, 1), counted(100, 100, 2),
               surroundings("gpt-b"), counted(150, 50, 3)]  # fmt: skip

    found = told(opened(), *records, kind="usage.reported")

    assert [(one.refs or {}) for one in found] == [
        {"model": model, "provider": "openai", "input_tokens": sent, "output_tokens": 10,
         "cached_tokens": 0, "total_tokens": sent + 10, "reasoning_tokens": 4}
        for model, sent in (("gpt-a", 100), ("gpt-b", 50))
    ]  # fmt: skip


def test_a_turn_context_that_is_the_same_is_skipped() -> None:
    outcomes = read(opened(), surroundings(n=1), surroundings(n=2), surroundings("other", n=3))

    assert [one.skipped for one in outcomes] == [None, None, "repeats the turn context", None]


@pytest.mark.parametrize(
    ("record", "kind", "content"),
    [
        (event("turn_aborted", reason="interrupted"), "boundary.interrupt",
         {"title": "turn aborted: interrupted"}),
        (event("error", message="no wind"), "ops.error", {"message": "no wind"}),
        (event("warning", message="fog"), "ops.warning", {"message": "fog"}),
        (event("thread_name_updated", thread_name="Tides"), "session.titled", {"title": "Tides"}),
        (event("task_started", turn_id="t1"), "ops.observation",
         {"record": "task_started", "turn_id": "t1"}),
        (item("message", role="developer", content=[]), "ops.observation", {"role": "developer"}),
        (line("of_the_future", {"tide": 3}), "ops.observation",
         {"record": "of_the_future", "tide": 3}),
        (line("of_the_future", [1, 2]), "ops.observation", {"record": "of_the_future"}),
        ({"whatever": 1}, "ops.observation", {"record": "record", "whatever": 1}),
        ([1, 2], "ops.observation", {"record": "record", "content": [1, 2]}),
    ],
)  # fmt: skip
def test_every_other_record_is_told_as_what_it_is(
    record: Any, kind: str, content: dict[str, Any]
) -> None:
    (found,) = told(opened(), record)[1:]

    assert found.kind == kind
    assert content.items() <= found.payload.items()


# Going on.


def test_a_reader_goes_on_where_another_was_left() -> None:
    records = [opened(), *turn("a", "b"), call("c1", command="ls"), output("c1", "x"),
               *turn("a", "b"), event("thread_rolled_back", num_turns=2)]  # fmt: skip
    whole = {one.key: one.kind for one in told(*records)}

    for cut in range(len(records)):
        first, second = CodexReader(PATH), CodexReader(PATH)
        before = read(*records[:cut], reader=first)
        second.resume(first.state())
        after = read(*records[cut:], reader=second)

        keys = [one.key for outcome in (*before, *after) for one in outcome.events]
        assert len(before) + len(after) == len(records)
        assert len(keys) == len(set(keys))
        # A thought that was told before its item came leaves the item something to tell.
        assert whole.keys() <= set(keys)
        assert second.sessions == ({SESSION: second.sessions[SESSION]})


def test_a_state_of_something_else_is_refused() -> None:
    for state in (None, {}, {"now": {}, "repeats": 3}, {"now": {"at": "x"}, "repeats": ["", {}]}):
        with pytest.raises(ValueError, match="not a state"):
            CodexReader(None).resume(state)


def test_what_is_held_back_or_too_much_cannot_be_gone_on_from() -> None:
    held = CodexReader(PATH)
    held.read(
        next(
            read_records(
                io.BytesIO(b'{"role":"user","content":[{"type":"input_text","text":"a"}]}')
            )
        )
    )
    assert held.state() is None

    long = CodexReader(PATH)
    read(*(line("world_state", {"n": n}) for n in range(9_000)), reader=long)
    assert long.state() is None


@pytest.mark.parametrize(
    "values",
    [
        [],
        [3],
        [{"type": "message", "message": {"role": "user", "content": "x"}, "id": "a"}],
        [{"type": "user", "uuid": "u", "sessionId": "s", "message": {}}],
        [{"sessionId": "s", "projectHash": "p", "messages": []}],
        [{"type": ["session_meta"], "payload": {}}],
    ],
)
def test_other_logs_are_not_taken_for_rollouts(values: list[Any]) -> None:
    assert not score(values)


def test_a_rollout_is_recognised_wherever_it_begins() -> None:
    assert all(score([record]) for record in (opened(), *turn("a", "b")))
    assert codex.FORMAT.reader is CodexReader


_scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 9) | st.text(max_size=5)
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "id", "content", "output"]), inner)
    ),
    max_leaves=6,
)
_contents = st.fixed_dictionaries(
    {"type": _values | st.sampled_from(["message", "reasoning", "function_call", "user_message",
                                        "function_call_output", "web_search_call", "token_count",
                                        "item_completed", "mcp_tool_call_end",
                                        "thread_rolled_back"])},
    optional=dict.fromkeys(
        ["role", "content", "text", "message", "key", "info", "call_id", "arguments", "output",
         "summary", "status", "item", "num_turns", "kind", "result", "id", "name"], _values
    ),
)  # fmt: skip
_records = st.builds(
    line,
    st.sampled_from(["response_item", "event_msg", "session_meta", "compacted", "turn_context"]),
    _contents | _values,
)


@given(st.lists(_records | _contents, max_size=8))
def test_whatever_a_record_holds_it_has_one_outcome_and_can_be_stored(records: list[Any]) -> None:
    outcomes = read(*records)
    events = [one for outcome in outcomes for one in outcome.events]

    assert [one.record.line for one in outcomes] == list(range(1, len(records) + 1))
    assert all(bool(one.events) != bool(one.skipped) for one in outcomes)
    assert len({one.key for one in events}) == len(events)
    for one in events:
        canonical_content(one.summary, one.refs, one.payload)
        check_name(one.key, "key")
