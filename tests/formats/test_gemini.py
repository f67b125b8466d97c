"""Sessions of the Gemini CLI: message versions, rewinds, checkpoints, stable keys."""

from __future__ import annotations

import io
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treering
from formats.logs.gemini import (
    HEADER,
    T0,
    TOKENS,
    answer,
    call,
    message,
    plain_key,
    read,
    told,
    user,
    whole,
)
from treering.capture.intake.log_search import find_files
from treering.formats import gemini
from treering.formats.gemini import GeminiReader, score
from treering.formats.records import read_records
from treering.model.codec import canonical_content
from treering.model.fields import check_name

THOUGHT = {"subject": "Tides", "description": "Look them up.", "timestamp": "2026-09-21T14:13:21Z"}

# What a message tells.


def test_a_message_tells_its_thoughts_its_text_its_calls_and_what_it_used() -> None:
    said = answer("a1", "At once.", thoughts=[THOUGHT], toolCalls=[call("c1")], tokens=TOKENS)

    found = told(whole(user("u1", "high tide?"), said))

    assert [(plain_key(one.key), one.kind) for one in found] == [
        ("u1", "conversation.user"),
        ("a1.thought.1", "ops.observation"),
        ("a1", "conversation.assistant"),
        ("call:c1", "tool.call"),
        ("result:c1", "tool.result"),
        ("a1.usage", "usage.reported"),
    ]
    assert found[1].payload["thinking"] == "Tides\nLook them up."
    assert found[2].payload == {"text": "At once.", "model": "gemini-3-pro", "message_id": "a1"}
    assert found[3].payload == {"call_id": "c1", "name": "tide", "input": {"port": "Bergen"}}
    assert found[4].payload == {"call_id": "c1", "name": "tide", "status": "ok", "output": "14:10"}


def signed_parts(**call_id: str) -> list[dict[str, Any]]:
    """Return the parts of an answer: a text and a call, each with a thought signature."""
    asked = {"name": "tide", "args": {"port": "Bergen"}, **call_id}
    return [
        {"text": "At once.", "thoughtSignature": "dGV4dA=="},
        {"functionCall": asked, "thoughtSignature": "Y2FsbA=="},
    ]


@pytest.mark.parametrize("call_id", [{"id": "c1"}, {}])
def test_the_seals_of_thoughts_stand_on_what_was_thought_of(call_id: dict[str, str]) -> None:
    calls = [call("c1"), call("c2")]

    found = told(whole(user("u1", "tide?"), answer("a1", signed_parts(**call_id), toolCalls=calls)))

    seals = {plain_key(one.key): one.payload.get("thoughtSignature") for one in found}
    assert seals["a1"] == "dGV4dA=="
    assert (seals["call:c1"], seals["call:c2"]) == ("Y2FsbA==", None)


def test_a_seal_beside_nothing_that_was_said_is_a_thought() -> None:
    seal = [{"text": "", "thoughtSignature": "dGV4dA=="}]

    found = told(whole(user("u1", "tide?"), answer("a1", seal)), kind="ops.")

    assert [one.payload["thoughtSignature"] for one in found] == ["dGV4dA=="]
    assert found[0].refs == {"observed": "thinking", "message_id": "a1"}


def test_the_model_is_given_back_the_seals_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "session-1.json"
    said = answer("a1", signed_parts(id="c1"), toolCalls=[call("c1")])
    log.write_bytes(msgspec.json.encode(whole(user("u1", "tide?"), said)))
    with treering.open(tmp_path / "ledger.db") as ledger:
        treering.import_logs(ledger, [log], scope="acme/app")
        session = ledger.session("s1", scope="acme/app", agent="x")

        context = session.context(max_tokens=9_000, dialect="gemini", model="gemini-3-pro")

    parts = [part for one in context.messages for part in one["parts"]]
    seals = [part["thought_signature"] for part in parts if "thought_signature" in part]
    assert seals == [b"text", b"call"]


def test_thoughts_count_as_output_and_what_tools_added_as_input() -> None:
    (found,) = told(whole(answer("a1", tokens=TOKENS)), kind="usage.reported")

    assert found.refs == {
        "model": "gemini-3-pro",
        "provider": "google",
        "input_tokens": 103,
        "output_tokens": 12,
        "cached_tokens": 60,
        "total_tokens": 115,
        "message_id": "a1",
    }


def test_one_value_and_lines_tell_the_same() -> None:
    messages = [user("u1", "a"), answer("a1", "b", toolCalls=[call("c1")]), user("u2", "c")]

    assert told(whole(*messages)) == told(HEADER, *messages)


@pytest.mark.parametrize(
    ("status", "outcome", "error"),
    [("success", "ok", None), ("error", "failed", "Failed"), ("cancelled", "failed", "Cancelled")],
)
def test_a_call_ends_as_its_status_says(status: str, outcome: str, error: str | None) -> None:
    asked = call("c1", status, "no wind", resultDisplay="shown", displayName="Tide")
    began, found = told(whole(answer("a1", toolCalls=[asked])))

    assert began.payload["detail"] == {"displayName": "Tide"}
    assert (found.payload["status"], found.payload["output"]) == (outcome, "no wind")
    assert (found.payload.get("error") or {}).get("class") == error
    assert found.payload["detail"] == "shown"
    assert found.ts_ms == T0 + 5_000


def test_a_call_that_is_not_over_has_no_result_and_one_without_an_id_gets_one() -> None:
    running = call("c1", "executing", None)
    nameless = {"name": "tide", "args": {}, "status": "success"}

    found = told(whole(answer("a1", toolCalls=[running, nameless])))

    assert [one.key for one in found] == ["call:c1", "call:a1.call.2", "result:a1.call.2"]


def test_what_a_tool_gave_beside_texts_is_kept_as_it_is() -> None:
    parts = [{"functionResponse": {"id": "c1", "response": {"output": "seen"}}},
             {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]  # fmt: skip
    asked = {"id": "c1", "name": "look", "args": {}, "status": "success", "result": parts}

    found = told(whole(answer("a1", toolCalls=[asked])), kind="tool.result")

    assert [one.payload["output"] for one in found] == [parts]


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (message("i1", "info", "fair winds"), "ops.observation"),
        (message("i1", "error", "no wind"), "ops.error"),
        (message("i1", "warning", "fog"), "ops.warning"),
        (message("i1", "of the future", "x"), "ops.observation"),
        (user("i1", "<session_context>\nToday is Monday."), "ops.observation"),
        ({"$patch": {"removeIds": ["u1"]}}, "ops.observation"),
        ({"$set": {"memoryScratchpad": {"n": 1}}}, "ops.observation"),
        ({"$set": {"summary": "Tides"}}, "session.titled"),
        ([1], "ops.observation"),
    ],
)
def test_every_other_record_is_told_as_what_it_is(record: Any, kind: str) -> None:
    assert [one.kind for one in told(HEADER, record)] == [kind]


def test_parts_that_are_no_text_are_kept() -> None:
    parts = [{"text": "what is this?"}, {"inlineData": {"mimeType": "image/png", "data": "AA"}}]
    shown = user("u2", "long words", displayContent="short")
    hidden = [{"text": "hm", "thought": True}, {"text": "A boat."}]

    found = told(HEADER, user("u1", parts), shown, answer("a1", hidden))

    assert [(one.payload["text"], one.payload["content"]) for one in found] == [
        ("what is this?", parts),
        ("short", "long words"),
        ("A boat.", hidden),
    ]


def test_results_in_a_message_of_the_user_are_told_only_if_they_are_new() -> None:
    parts = [{"functionResponse": {"id": "c1", "name": "tide", "response": {"output": "14:10"}}}]

    known = read(HEADER, answer("a1", toolCalls=[call("c1")]), user("u1", parts))
    asked = answer("a1", [{"functionCall": {"id": "c1", "name": "tide", "args": {}}}])
    new = told(HEADER, asked, user("u1", parts))

    assert known[-1].skipped == "tells nothing new"
    assert [one.key for one in new] == ["call:c1", "result:c1"]


# Versions.


def test_the_last_version_of_an_answer_is_told() -> None:
    versions = [
        answer("a1", "At"),
        {"$set": {"lastUpdated": "2026-09-21T14:13:22Z"}},
        answer("a1", "At once.", tokens=TOKENS),
        answer("a1", "At once.", tokens=TOKENS, toolCalls=[call("c1")]),
    ]

    outcomes = read(HEADER, user("u1", "a"), *versions, user("u2", "b"))
    found = [one for outcome in outcomes for one in outcome.events]

    # The patch has its outcome at once, an answer when it is replaced.
    assert [one.skipped for one in outcomes] == [
        *(None, None, "tells nothing new"),
        *("replaced by a later version", "replaced by a later version", None, None),
    ]
    assert [one.payload["text"] for one in found if one.kind == "conversation.assistant"] == [
        "At once."
    ]


def test_a_text_that_changes_after_it_was_told_is_told_again_and_says_what_it_replaces() -> None:
    records = [HEADER, answer("a1", "At"), user("u1", "go on"), answer("a1", "At once.")]

    first, _, second = told(*records, kind="conversation.")

    assert [plain_key(one.key) for one in (first, second)] == ["a1", "a1"]
    assert first.key != second.key
    assert [one.payload["text"] for one in (first, second)] == ["At", "At once."]
    assert (second.refs or {})["replaces"] == "a1"
    assert told(*records, kind="session.undone") == []


def test_a_text_that_was_told_last_is_taken_back_for_a_later_version() -> None:
    first, second = GeminiReader(None), GeminiReader(None)
    before = read(HEADER, user("u1", "When?"), answer("a1", "At", tokens=TOKENS), reader=first)
    second.resume(msgspec.json.decode(msgspec.json.encode(first.state())))

    (changed,) = read(answer("a1", "At once."), reader=second)

    undone, text = changed.events
    assert (undone.kind, undone.first) == ("session.undone", before[-1].events[0].key)
    assert text.payload["text"] == "At once."
    assert (text.refs or {})["replaces"] == "a1"


def test_a_file_that_is_written_anew_loses_no_text_and_no_count(tmp_path: Path) -> None:
    path, more = tmp_path / "session-1.json", {**TOKENS, "output": 70, "total": 178}
    ledger = treering.open(tmp_path / "ledger.db")
    session = ledger.session("s1", scope="acme/app", agent="gemini")
    versions = [
        answer("g2", "The answer", tokens=TOKENS),
        answer("g2", "The answer is 42", tokens=more),
    ]

    for version in (*versions, versions[1]):
        path.write_bytes(msgspec.json.encode(whole(user("u1", "And?"), version)))
        receipt = treering.import_logs(ledger, [path], scope="acme/app", again=True)

    texts = [one.payload["text"] for one in session.events() if one.kind.startswith("conversation")]
    spent = session.usage().total
    assert texts == ["And?", "The answer", "The answer is 42"]
    assert (spent.calls, spent.total_tokens) == (1, 178)
    assert (receipt.imported, receipt.duplicates) == (0, 1)


def test_a_later_version_of_the_last_answer_stands_alone_in_the_history(tmp_path: Path) -> None:
    path = tmp_path / "session-1.jsonl"
    ledger = treering.open(tmp_path / "ledger.db")
    lines = [
        HEADER,
        user("u1", "And?"),
        answer("g2", "The answer"),
        answer("g2", "The answer is 42"),
    ]

    for count in (3, 4):
        path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in lines[:count]))
        treering.import_logs(ledger, [path], scope="acme/app")

    history = ledger.session("s1", scope="acme/app", agent="gemini").history()
    assert [one["content"] for one in history] == ["And?", "The answer is 42"]


def test_a_log_whose_first_line_is_damaged_is_read(tmp_path: Path) -> None:
    path = tmp_path / "session-1.jsonl"
    lines = [msgspec.json.encode(one) for one in (user("u1", "And?"), answer("g2", "42"))]
    path.write_bytes(b"\n".join([b'{"sessionId":"s1","proj', *lines, b""]))

    receipt = treering.import_logs(treering.open(tmp_path / "l.db"), [path], scope="acme/app")

    assert (receipt.imported, receipt.errors) == (2, 1)


def test_what_is_new_in_a_message_that_was_told_is_told_alone() -> None:
    full = answer("a1", "At once.", tokens=TOKENS, toolCalls=[call("c1")])
    records = [HEADER, answer("a1", "At once."), user("u1", "b"), full, full]

    outcomes = read(*records)

    assert [plain_key(one.key) for one in outcomes[-1].events] == [
        "call:c1",
        "result:c1",
        "a1.usage",
    ]
    assert "replaced by a later version" in {one.skipped for one in outcomes}
    assert read(*records, user("u1", "b"))[-1].skipped == "repeats the message"


def test_a_result_or_a_field_that_changes_is_observed_with_the_message_as_it_is() -> None:
    first = answer("a1", "x", toolCalls=[call("c1")])
    masked = answer("a1", "x", toolCalls=[call("c1", output="[masked]")])
    starred = answer("a1", "x", toolCalls=[call("c1", output="[masked]")], star=True)

    found = told(HEADER, first, user("u1", "b"), masked, user("u2", "c"), starred)

    versions = [one for one in found if (one.refs or {}).get("replaces") == "a1"]
    assert [one.kind for one in versions] == ["ops.observation"] * 2
    assert versions[0].payload["toolCalls"] == masked["toolCalls"]
    assert versions[1].payload["star"] is True


def test_a_file_that_is_written_anew_gives_the_same_keys_and_new_ones() -> None:
    before = whole(user("u1", "a"), answer("a1", "b"))
    after = whole(user("u1", "a"), answer("a1", "b", tokens=TOKENS), user("u2", "c"),
                  lastUpdated="2031-01-01T00:00:00Z")  # fmt: skip

    old = {one.key: one.payload for outcome in read(before) for one in outcome.events}
    new = {one.key: one.payload for outcome in read(after) for one in outcome.events}

    assert old.items() <= new.items()
    assert {*map(plain_key, new.keys() - old.keys())} == {"a1.usage", "u2"}


def test_two_calls_of_the_same_id_are_both_told() -> None:
    other = {**call("c1"), "args": {"port": "Oslo"}}
    records = [answer("a1", toolCalls=[call("c1")]), answer("a2", toolCalls=[other])]

    found = told(HEADER, *records, kind="tool.call")

    assert [one.payload["input"]["port"] for one in found] == ["Bergen", "Oslo"]
    assert len({one.key for one in found}) == 2


# Rewinds and checkpoints.


def test_a_rewind_hides_the_message_that_it_names_and_all_behind_it() -> None:
    records = [
        user("u1", "a"),
        answer("a1", "b"),
        user("u2", "c"),
        answer("a2", thoughts=[THOUGHT]),
    ]

    found = told(HEADER, *records, {"$rewindTo": "u2"}, user("u3", "d"), {"$rewindTo": "a1"},
                 {"$rewindTo": "unknown"}, kind="session.undone")  # fmt: skip

    assert [plain_key(one.first) for one in found] == ["u2", "a1", "u1"]


def test_a_rewind_begins_with_what_the_message_told_first() -> None:
    records = [user("u1", "a"), answer("a1", "b", thoughts=[THOUGHT]), {"$rewindTo": "a1"}]

    assert [one.first for one in told(HEADER, *records, kind="session.undone")] == ["a1.thought.1"]


def test_a_rewind_to_nothing_is_skipped() -> None:
    assert read(HEADER, {"$rewindTo": "u1"})[-1].skipped == "nothing to take back"


def test_a_checkpoint_tells_what_is_not_known_yet() -> None:
    first, second = user("u1", "a"), answer("a1", "b")

    found = told(HEADER, first, {"$set": {"messages": [first, second]}})
    again = read(HEADER, first, second, {"$set": {"messages": [first, second]}})

    assert [plain_key(one.key) for one in found] == ["u1", "a1"]
    assert again[-1].skipped == "tells nothing new"


def test_a_checkpoint_without_the_last_messages_takes_them_back() -> None:
    first, second = user("u1", "a"), user("u2", "b")

    found = told(HEADER, first, second, {"$set": {"messages": [first]}}, kind="session.undone")

    assert [plain_key(one.first) for one in found] == ["u2"]


def test_a_summary_stands_for_what_was_before_the_messages_that_are_kept() -> None:
    old, kept = [user("u1", "a"), answer("a1", "b")], user("u2", "c")
    summary = user("s", "<state_snapshot>We sailed.</state_snapshot>")
    packed = {"$set": {"messages": [summary, answer("s2", "Got it."), kept]}}

    (found,) = told(HEADER, *old, kept, packed, kind="context.compacted")

    assert plain_key(found.first) == "u2"
    assert found.payload == {"summary": summary["content"], "by": "gemini"}


# Sessions.


def test_ids_that_are_long_can_still_be_keys() -> None:
    long = "m" * 200
    records = [user("u1", "a"), answer(long, "b", toolCalls=[call("c" * 200)], tokens=TOKENS)]

    found = told(HEADER, *records, {"$rewindTo": long})

    assert all(check_name(one.key, "key") for one in found)
    assert found[-1].first == found[1].key


def test_a_session_is_opened_as_its_header_says() -> None:
    reader = GeminiReader(PurePath("tmp/cafe/chats/session-1.jsonl"))

    read(HEADER, {"$set": {"directories": ["/srv/harbour"]}}, {"$set": {"summary": "Tides"}},
         reader=reader)  # fmt: skip

    opening = reader.sessions["s1"]
    assert (opening.agent, opening.parent, opening.about) == ("gemini", None, {"project": "cafe"})
    assert (opening.cwd, opening.title) == ("/srv/harbour", "Tides")


def test_the_folder_of_a_subagent_names_its_parent() -> None:
    reader = GeminiReader(PurePath("tmp/cafe/chats/mother/s1.jsonl"))

    read({**HEADER, "kind": "subagent"}, reader=reader)

    opening = reader.sessions["s1"]
    assert (opening.agent, opening.parent) == ("gemini:subagent", "mother")


def test_a_file_without_its_header_is_named_after_itself() -> None:
    reader = GeminiReader(PurePath("session-2026-abc.jsonl"))

    read(user("u1", "a"), reader=reader)

    assert list(reader.sessions) == ["gemini-session-2026-abc"]


# Going on.


def test_a_reader_goes_on_where_another_was_left() -> None:
    records = [HEADER, user("u1", "a"), answer("a1", "b"), answer("a1", "b", tokens=TOKENS),
               user("u2", "c"), {"$rewindTo": "u2"}, user("u3", "d")]  # fmt: skip
    whole_keys = {one.key for one in told(*records)} | {"session"}

    for cut in range(1, len(records)):
        first, second = GeminiReader(None), GeminiReader(None)
        before = read(*records[:cut], reader=first)
        second.resume(msgspec.json.decode(msgspec.json.encode(first.state())))
        after = read(*records[cut:], reader=second)

        keys = [one.key for outcome in (*before, *after) for one in outcome.events]
        assert sorted(keys) == sorted(whole_keys)
        assert second.sessions == {name: one.bare() for name, one in first.sessions.items()}


def test_what_is_held_back_cannot_be_gone_on_from_and_another_state_is_refused() -> None:
    held = GeminiReader(None)
    line = msgspec.json.encode(answer("a1", "b"))
    held.read(next(read_records(io.BytesIO(line))))

    assert held.state() is None
    with pytest.raises(ValueError, match="not a state"):
        held.resume([1])


@pytest.mark.parametrize(
    ("values", "is_session"),
    [
        ([HEADER], True),
        ([whole(user("u1", "a"))], True),
        ([{"sessionId": "s", "messages": [user("u1", "a")]}], True),
        ([user("u1", "a"), {"$set": {"lastUpdated": "x"}}], True),
        ([user("u1", "a"), answer("a1", "b")], True),
        ([answer("a1", "b")], True),
        ([{**user("u1", "a"), "to": "somebody"}], False),
        ([answer("a1", "b"), {"of": "another log"}], False),
        ([{"type": "user", "uuid": "u", "sessionId": "s", "message": {}}], False),
        ([{"sessionId": "s", "messages": [{"type": ["user"]}]}], False),
        ([], False),
        ([3], False),
    ],
)
def test_sessions_are_told_from_other_logs(values: list[Any], is_session: bool) -> None:  # noqa: FBT001
    assert bool(score(values)) is is_session
    assert gemini.FORMAT.reader is GeminiReader


_scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 9) | st.text(max_size=5)
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "id", "name", "functionResponse", "functionCall", "response"]),
            inner,
        )
    ),
    max_leaves=6,
)
_messages = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["m1", "m2", "m3"]),
        "type": st.sampled_from(["user", "gemini", "info"]),
    },
    optional=dict.fromkeys(
        ["content", "toolCalls", "thoughts", "tokens", "model", "timestamp", "displayContent"],
        _values,
    ),
)
_records = (
    _messages
    | st.fixed_dictionaries({"$rewindTo": st.sampled_from(["m1", "m2", "m9"])})
    | st.fixed_dictionaries({"$set": st.fixed_dictionaries({"messages": st.lists(_messages)})})
    | st.dictionaries(st.sampled_from(["$set", "$rewindTo", "sessionId", "messages"]), _values)
)


@given(st.lists(_records, max_size=8))
def test_whatever_a_record_holds_it_has_one_outcome_and_can_be_stored(records: list[Any]) -> None:
    outcomes = read(*records)
    events = [one for outcome in outcomes for one in outcome.events]

    assert sorted(one.record.line for one in outcomes) == list(range(1, len(records) + 1))
    assert all(bool(one.events) != bool(one.skipped) for one in outcomes)
    assert len({one.key for one in events}) == len(events)
    for one in events:
        canonical_content(one.summary, one.refs, one.payload)
        check_name(one.key, "key")


def test_an_answer_of_the_type_model_is_an_answer() -> None:
    found = told(HEADER, user("u1", "hello"), {**answer("a1", "Ahoy."), "type": "model"})

    assert [one.kind for one in found if one.kind.startswith("conversation.")] == [
        "conversation.user",
        "conversation.assistant",
    ]


def test_a_message_of_an_unknown_shape_is_kept_whole() -> None:
    found = told(HEADER, {**answer("a1", "x"), "content": 7, "tokens": None})

    assert (found[-1].kind, found[-1].payload["content"]) == ("ops.observation", 7)


def test_the_list_of_what_was_typed_is_left_out_beside_chats(tmp_path: Path) -> None:
    typed = [{"sessionId": "s1", "messageId": 0, "type": "user", "message": "hi"}]
    for project in ("with", "without"):
        path = tmp_path / project / "logs.json"
        path.parent.mkdir()
        path.write_bytes(msgspec.json.encode(typed))
    (tmp_path / "with/chats").mkdir()

    left_out = {one.path.parent.name: one.left_out for one in find_files([tmp_path])}

    assert left_out["without"] is None
    assert "chats" in str(left_out["with"])


@pytest.mark.parametrize("kind", [7, {"type": [{}]}, None, "info"])
def test_an_answer_is_replaced_by_a_later_answer_alone(kind: Any) -> None:
    told_twice = [user("m1", "Tide?"), answer("m2", "At 14:10."), {**answer("m2"), "type": kind}]

    texts = [event.payload["text"] for event in told(*told_twice, kind="conversation.assistant")]

    assert texts == ["At 14:10."]
