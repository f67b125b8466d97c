from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treering
from builders import HERE
from effort import rounds
from treering.errors import DuplicateEvent
from treering.formats.apeira import Episodic, from_session, to_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Event, Ledger, Session

DEEP: Any = json.loads("[" * 100 + "]" * 100)
"""Deeper than a payload of the ledger may be."""


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"content": text, "role": role, "type": "message"}


def called(call_id: str, arguments: str = '{"since":"friday"}') -> dict[str, Any]:
    return {"arguments": arguments, "call_id": call_id, "name": "git_log", "type": "function_call"}


def returned(call_id: str, output: Any) -> dict[str, Any]:
    return {"call_id": call_id, "output": output, "type": "function_call_output"}


def conversation() -> Episodic:
    """Return one turn with every type of episode."""
    episodic = Episodic()
    episodic.append_items([said("What changed?")], source="user", turn_id="t1")
    episodic.append_items([called("c1")], source="model", turn_id="t1")
    episodic.append_items([returned("c1", "three commits")], source="tool", turn_id="t1")
    episodic.append_items([said("Three commits.", "assistant")], source="model", turn_id="t1")
    counts = {"inputTokens": 120, "outputTokens": 24, "totalTokens": 144}
    for payload, sort in (
        ({"data": counts, "event": "turn.usage"}, "meta"),
        ({"content": "All is well.", "reason": "checkpoint", "title": "so far"}, "boundary"),
        ({"data": {"plugin": "journal"}, "event": "plugin.saved"}, "meta"),
    ):
        told = {"source": "runtime", "turnId": "t1"}
        episodic.append({"meta": told, "payload": payload, "type": sort})
    return episodic


def recorded(session: Session) -> list[Event]:
    return [event for event in session.events() if event.kind != "session.opened"]


# Into the ledger.


def test_each_episode_becomes_an_event_in_the_ledgers_own_terms(session: Session) -> None:
    to_session(conversation(), session)

    told = [(event.kind, event.source, event.origin, event.payload) for event in recorded(session)]
    result = {"call_id": "c1", "name": "git_log", "status": "ok", "output": "three commits"}
    answer = {"text": "Three commits."}
    counts = {"input_tokens": 120, "output_tokens": 24, "total_tokens": 144}
    assert told == [
        ("conversation.user", "user", "user", {"text": "What changed?", "apeira": {"id": 1}}),
        (
            "tool.call",
            "agent",
            "model",
            {
                "call_id": "c1",
                "name": "git_log",
                "input": {"since": "friday"},
                "apeira": {"id": 2},
            },
        ),
        ("tool.result", "tool", "tool", result | {"apeira": {"id": 3}}),
        ("conversation.assistant", "agent", "model", answer | {"apeira": {"id": 4}}),
        ("usage.reported", "system", "runtime", counts | {"apeira": {"id": 5}}),
        (
            "boundary.checkpoint",
            "system",
            "runtime",
            {"title": "so far", "content": "All is well.", "apeira": {"id": 6}},
        ),
        (
            "ops.observation",
            "system",
            "runtime",
            {"event": "plugin.saved", "data": {"plugin": "journal"}, "apeira": {"id": 7}},
        ),
    ]  # fmt: skip
    assert {event.turn_id for event in recorded(session)} == {"t1"}


def test_calls_and_usage_are_told_in_the_refs(session: Session) -> None:
    to_session(conversation(), session)

    refs = {event.kind: event.refs for event in recorded(session)}
    assert refs["tool.call"] == {"call_id": "c1", "tool": "git_log"}
    assert refs["tool.result"] == {"call_id": "c1", "tool": "git_log", "status": "ok"}
    assert refs["usage.reported"]["input_tokens"] == 120
    [call] = session.tool_calls()
    assert (call.tool, call.status) == ("git_log", "ok")


def test_an_episode_that_the_events_fields_cannot_tell_keeps_its_line(session: Session) -> None:
    line = (
        '{"id":1,"type":"item","meta":{"source":"model"},"payload":{"item":{"id":"msg_1",'
        '"role":"assistant","type":"message","content":[{"type":"output_text","text":"Hi"},'
        '{"type":"output_text","text":"there"}]}}}'
    )

    to_session(Episodic(line), session)

    [event] = recorded(session)
    assert event.kind == "conversation.assistant"
    assert event.payload == {"text": "Hi\nthere", "apeira": {"line": line}}
    assert from_session(session).to_jsonl() == line


@pytest.mark.parametrize(
    ("episode", "kind"),
    [
        ({"payload": {"item": said("be brief", "system")}, "type": "item"}, "ops.observation"),
        ({"payload": {"item": {"type": "reasoning"}}, "type": "item"}, "ops.observation"),
        ({"payload": {"item": {"type": "function_call"}}, "type": "item"}, "ops.observation"),
        ({"payload": {"item": returned("", "x")}, "type": "item"}, "ops.observation"),
        ({"payload": {"item": returned("ghost", [1])}, "type": "item"}, "tool.result"),
        ({"payload": {"item": called("c", "not json")}, "type": "item"}, "tool.call"),
        ({"payload": {"reason": "other", "title": "t"}, "type": "boundary"}, "ops.observation"),
        ({"payload": {"reason": "segment"}, "type": "boundary"}, "boundary.segment"),
        ({"payload": {"event": "turn.usage"}, "type": "meta"}, "ops.observation"),
        ({"payload": [1], "type": "meta"}, "ops.observation"),
        ({"payload": {"item": said("\0 \ud800")}, "type": "item"}, "conversation.user"),
        ({"payload": {"item": said("x" * 20_000)}, "type": "item"}, "conversation.user"),
        ({"payload": {"item": returned("c", DEEP)}, "type": "item"}, "tool.result"),
        ({"payload": {"item": called("c", json.dumps(DEEP))}, "type": "item"}, "tool.call"),
        ({"payload": {"event": "e", "data": DEEP}, "type": "meta"}, "ops.observation"),
    ],
)
def test_whatever_an_episode_holds_it_is_recorded_and_comes_back(
    session: Session, episode: dict[str, Any], kind: str
) -> None:
    episodic = Episodic()
    episodic.append(episode)

    [header] = to_session(episodic, session)

    assert header.kind == kind
    assert from_session(session) == episodic


def test_bringing_a_log_in_again_adds_nothing_but_what_is_new(session: Session) -> None:
    episodic = conversation()
    first = to_session(episodic, session)

    again = to_session(episodic, session)
    episodic.append_items([said("more")], source="user")
    to_session(episodic, session)

    assert again == first
    assert len(recorded(session)) == 8
    assert from_session(session) == episodic


def test_two_sessions_of_a_scope_can_hold_the_same_log(ledger: Ledger) -> None:
    one, two = (ledger.session(name, scope=HERE, agent="lyria") for name in ("s1", "s2"))

    to_session(conversation(), one)
    to_session(conversation(), two)

    assert from_session(one) == from_session(two) == conversation()


def test_an_episode_that_reads_otherwise_than_before_is_refused_by_its_id(session: Session) -> None:
    to_session(conversation(), session)
    changed = Episodic(conversation().to_jsonl().replace("Three commits", "Two commits"))

    with pytest.raises(DuplicateEvent, match="episode 4 is in session s1 already") as caught:
        to_session(changed, session)

    assert caught.value.hint == "import the changed log into a new session"
    assert from_session(session) == conversation()


def test_episodes_of_one_id_are_told_apart(session: Session) -> None:
    episode = {"meta": {}, "payload": {"item": said("twice")}, "type": "item", "id": 3}
    episodic = Episodic([episode, episode, episode | {"id": 1}])

    to_session(episodic, session)
    to_session(episodic, session)

    assert from_session(session) == episodic


def test_an_empty_log_records_nothing(session: Session) -> None:
    assert to_session(Episodic(), session) == []
    assert list(session.headers()) == []


# Out of the ledger.


def test_a_turn_of_the_ledger_is_told_as_episodes(session: Session) -> None:
    with session.turn() as turn:
        turn.user("What changed?")
        with turn.tool("git_log", {"since": "friday"}, call_id="c1") as call:
            call.finish({"commits": 3})
        turn.emit("usage.reported", {"inputTokens": 9, "outputTokens": 1, "totalTokens": 10})
        turn.assistant("Three commits.")
        turn_id = turn.turn_id

    episodes = from_session(session).read()

    assert [episode["payload"] for episode in episodes] == [
        {"item": said("What changed?")},
        {"item": called("c1")},
        {"item": returned("c1", '{"commits":3}')},
        {"data": {"inputTokens": 9, "outputTokens": 1, "totalTokens": 10}, "event": "turn.usage"},
        {"item": said("Three commits.", "assistant")},
    ]
    assert [episode["id"] for episode in episodes] == [1, 2, 3, 4, 5]
    sources = [episode["meta"]["source"] for episode in episodes]
    assert sources == ["user", "model", "tool", "runtime", "model"]
    assert {episode["meta"].get("turnId") for episode in episodes} == {turn_id}


def test_a_failed_turn_is_left_out_and_an_interrupted_one_leaves_its_boundary(
    session: Session,
) -> None:
    failed = session.turn()
    failed.start()
    failed.user("lost")
    failed.fail("no answer")
    run = session.turn()
    run.start()
    run.user("lost too")
    run.interrupt("stop")

    [episode] = from_session(session).read()

    assert episode["type"] == "boundary"
    assert episode["payload"]["reason"] == "interrupt"


def test_a_tool_that_failed_or_took_nothing_is_told_in_text(session: Session) -> None:
    with session.turn() as turn:
        with pytest.raises(LookupError), turn.tool("find", call_id="c1"):
            raise LookupError("no such port")
        with turn.tool("list", call_id="c2") as call:
            call.finish([1, 2])

    items = [episode["payload"]["item"] for episode in from_session(session).read(type="item")]

    assert [item.get("arguments") or item["output"] for item in items] == [
        "{}",
        "Error: no such port",
        "{}",
        "[1,2]",
    ]


def test_what_else_the_ledger_was_told_is_meta(session: Session) -> None:
    session.record("ops.decision", "use SQLite", payload={"because": "one file"})
    session.record("conversation.user", "by summary alone")

    meta, item = from_session(session).read()

    told = {"summary": "use SQLite", "because": "one file"}
    assert meta["payload"] == {"data": told, "event": "ops.decision"}
    assert item["payload"] == {"item": said("by summary alone")}


def test_what_was_redacted_is_left_out_and_does_not_come_back(
    ledger: Ledger, session: Session
) -> None:
    headers = to_session(conversation(), session)
    ledger.redact(HERE, event_id=headers[0].event_id)

    to_session(conversation(), session)
    episodic = from_session(session)

    assert [episode["id"] for episode in episodic.read()] == [2, 3, 4, 5, 6, 7]
    assert "What changed?" not in episodic.to_jsonl()


def test_what_is_recorded_behind_an_imported_log_goes_on_numbering(session: Session) -> None:
    episodic = conversation()
    to_session(episodic, session)
    with session.turn() as turn:
        turn.user("and now?")
    episodic.append_items([said("from elsewhere")])
    to_session(episodic, session)

    ids = [episode["id"] for episode in from_session(session).read()]

    assert ids == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_line_that_a_mask_broke_is_told_from_the_event(session: Session) -> None:
    session.record(
        "conversation.user", "hi", payload={"text": "hi", "apeira": {"line": '{"id":[redacted'}}
    )

    assert from_session(session).read()[0]["payload"] == {"item": said("hi")}


def test_where_a_ledger_masks_payloads_a_log_comes_back_masked() -> None:
    password = "password=correct-horse-battery-staple-9"
    episodic = Episodic()
    episodic.append_items([said(f"it is {password}"), {"role": "user", "content": password}])
    with treering.open(":memory:", guard="mask") as ledger:
        session = ledger.session("s1", scope=HERE, agent="lyria")

        to_session(episodic, session)
        to_session(episodic, session)
        found = from_session(session)

    assert len(found) == 2
    assert password not in found.to_jsonl()


# Laws.

ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(["user", "model", "c1", "c2", "", " ", "x" * 300, "a\nb", "\0"])
TEXTS = st.text(st.characters(codec=None), max_size=30)
ITEMS = st.one_of(
    ANYTHING,
    st.fixed_dictionaries(
        {"content": TEXTS | ANYTHING, "role": st.sampled_from(["user", "assistant", "system"])},
        optional={"type": st.just("message"), "id": NAMES},
    ),
    st.fixed_dictionaries(
        {"type": st.just("function_call"), "call_id": NAMES | ANYTHING, "name": NAMES},
        optional={"arguments": ANYTHING | ANYTHING.map(json.dumps)},
    ),
    st.fixed_dictionaries(
        {"type": st.just("function_call_output"), "call_id": NAMES | ANYTHING},
        optional={"output": ANYTHING},
    ),
)
REASONS = st.sampled_from(["checkpoint", "interrupt", "overflow", "intent", "segment", "other"])
PAYLOADS = st.one_of(
    st.tuples(st.just("item"), st.fixed_dictionaries({}, optional={"item": ITEMS})),
    st.tuples(
        st.just("boundary"),
        st.fixed_dictionaries(
            {}, optional={"reason": REASONS | ANYTHING, "title": ANYTHING, "content": ANYTHING}
        ),
    ),
    st.tuples(
        st.just("meta"),
        st.fixed_dictionaries(
            {},
            optional={
                "event": st.just("turn.usage") | ANYTHING,
                "data": ANYTHING
                | st.fixed_dictionaries(
                    {"inputTokens": st.integers() | st.floats(), "outputTokens": st.integers()},
                    optional={"totalTokens": ANYTHING, "more": ANYTHING},
                ),
            },
        ),
    ),
    st.tuples(st.sampled_from(["item", "boundary", "meta"]), st.lists(ANYTHING, max_size=2)),
)


@st.composite
def logs(draw: Callable[..., Any]) -> Episodic:
    """Yield logs with arbitrary ids, fields and key order, as they may be on a disk."""
    episodes = []
    for sort, payload in draw(st.lists(PAYLOADS, max_size=6)):
        told = st.dictionaries(st.sampled_from(["source", "turnId", "x"]), NAMES | ANYTHING)
        fields = {
            "meta": draw(told | st.lists(ANYTHING, max_size=1)),
            "payload": payload,
            "type": sort,
            "id": draw(st.integers(-3, 9) | st.integers(-(2**53) + 1, 2**53 - 100)),
        } | draw(st.dictionaries(st.sampled_from(["extra", "7"]), ANYTHING, max_size=1))
        order = draw(st.permutations(list(fields)))
        episodes.append({key: fields[key] for key in order})
    return Episodic(episodes)


@given(logs(), logs())
@settings(max_examples=rounds(20, times=30))
def test_every_log_comes_back_to_the_byte_and_again_adds_nothing(
    one: Episodic, two: Episodic
) -> None:
    with treering.open(":memory:") as ledger:
        first, second = (ledger.session(name, scope=HERE, agent="lyria") for name in ("a", "b"))

        headers = to_session(one, first)
        to_session(two, second)
        again = to_session(one, first)

        assert again == headers
        assert len(recorded(first)) == len(one)
        assert from_session(first).to_jsonl() == one.to_jsonl()
        assert from_session(second).to_jsonl() == two.to_jsonl()


@given(logs())
@settings(max_examples=rounds(20, times=30))
def test_every_log_is_read_as_it_was_written(log: Episodic) -> None:
    loaded = Episodic(log.to_jsonl())

    assert len(loaded) == len(log)
    assert Episodic(loaded.to_jsonl()) == loaded
    assert log.fork() == log
