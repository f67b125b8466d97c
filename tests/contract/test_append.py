"""What every database promises about appending."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import treering
from builders import ELSEWHERE, HERE, NOON, called, run_of, said
from treering.model.events import FirstEvent

if TYPE_CHECKING:
    from treering import Ledger


class Shout(str):
    """Text that is not quite text: databases and encoders disagree about it."""

    __slots__ = ()


def test_events_are_numbered_without_gaps_in_their_session(ledger: Ledger) -> None:
    """Promise 2: per session seq is gap-free at append and never renumbered."""
    first = ledger.append([said("a"), said("b", session_id="s2"), said("c")])
    second = ledger.append([said("d", session_id="s2")])

    assert [(h.session_id, h.seq) for h in first + second] == [
        ("s1", 1), ("s2", 1), ("s1", 2), ("s2", 2),
    ]  # fmt: skip
    positions = [h.position for h in first + second]
    assert positions == sorted(set(positions))


def test_what_was_appended_is_read_back_as_it_was_given(ledger: Ledger) -> None:
    given = said(
        "hello",
        event_id="mine-1",
        ts_ms=NOON,
        run_id="r1",
        run_seq=7,
        turn_id="t1",
        user_id="u1",
        source="agent",
        origin="kernel",
        visibility="safe",
        refs={"file": "a.py"},
        payload={"text": "hello", "n": [1, 2.5, None, True, {"deep": "é"}]},
    )

    header = ledger.append([given])[0]
    event = ledger.event(HERE, "mine-1")

    for name in given.__struct_fields__:
        assert getattr(event, name) == getattr(given, name), name
    assert [getattr(event, name) for name in header.__struct_fields__] == [
        getattr(header, name) for name in header.__struct_fields__
    ]


def test_a_call_is_all_or_nothing(ledger: Ledger) -> None:
    """Promise 1: events are atomic per call, all or none."""
    with pytest.raises(treering.InvalidInput):
        ledger.append([said("good"), said("bad", payload={"n": float("nan")})])

    assert ledger.headers(HERE).items == []


def test_the_same_event_again_is_no_second_event(ledger: Ledger) -> None:
    once = ledger.append([said("hello", event_id="e1")])
    again = ledger.append([said("hello", event_id="e1")])

    assert again == once
    assert len(ledger.headers(HERE).items) == 1


def test_the_same_event_twice_in_one_call_is_one_event(ledger: Ledger) -> None:
    headers = ledger.append([said("a", event_id="e1"), said("b"), said("a", event_id="e1")])

    assert headers[0] == headers[2]
    assert [h.seq for h in headers] == [1, 2, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"summary": "other"},
        {"payload": {"text": "other"}},
        {"refs": {"a": 1}},
        {"kind": "tool.call"},
        {"session_id": "s2"},
        {"agent_id": "other"},
        {"user_id": "u9"},
        {"ts_ms": NOON + 1},
        {"run_id": "r9"},
        {"visibility": "safe"},
    ],
)
def test_another_event_under_a_known_id_is_refused(ledger: Ledger, other: dict[str, Any]) -> None:
    ledger.append([said("hello", event_id="e1", ts_ms=NOON)])

    with pytest.raises(treering.errors.DuplicateEvent) as refused:
        ledger.append([said("hello", event_id="e1", **({"ts_ms": NOON} | other))])

    assert refused.value.hint
    assert len(ledger.headers(HERE).items) == 1


def test_an_event_under_an_id_that_is_repeated_rightly_later_in_the_call_is_refused(
    ledger: Ledger,
) -> None:
    ledger.append([said("first", event_id="e1")])

    for batch in (["another", "first"], ["first", "another"]):
        with pytest.raises(treering.errors.DuplicateEvent):
            ledger.append([said(text, event_id="e1") for text in batch])


def test_a_time_that_was_filled_in_never_makes_a_retry_conflict(ledger: Ledger) -> None:
    once = ledger.append([said("hello", event_id="e1", ts_ms=NOON)])

    assert ledger.append([said("hello", event_id="e1")]) == once


def test_ids_of_one_scope_say_nothing_about_another(ledger: Ledger) -> None:
    """Promise 3: an id in B cannot be observed from A."""
    ledger.append([said("mine", event_id="e1")])
    ledger.append([said("theirs", event_id="e1", scope=ELSEWHERE)])

    assert ledger.event(HERE, "e1").summary == "mine"
    assert ledger.event(ELSEWHERE, "e1").summary == "theirs"


@pytest.mark.parametrize(
    "event_id",
    [
        "018f4e5a-8d3c-7b2a-9c1d-2e3f4a5b6c7d",
        "018F4E5A-8D3C-7B2A-9C1D-2E3F4A5B6C7D",
        "018f4e5a8d3c7b2a9c1d2e3f4a5b6c7d",
        "{18f4e5a-8d3c-7b2a-9c1d-2e3f4a5b6c7d}",
        "evt_1708732800000_0",
        "#00112233445566778899aabbccddeeff",
        "日本語",
        "x" * 200,
    ],
)
def test_an_id_comes_back_exactly_as_it_was_written(ledger: Ledger, event_id: str) -> None:
    assert ledger.append([said(event_id=event_id)])[0].event_id == event_id
    assert ledger.event(HERE, event_id).event_id == event_id


def test_a_stale_writer_is_refused_and_leaves_nothing_behind(ledger: Ledger) -> None:
    ledger.append([said("a"), said("b")], expected_seq=0)

    with pytest.raises(treering.Conflict) as refused:
        ledger.append([said("c")], expected_seq=1)

    assert refused.value.current_seq == 2
    assert [h.summary for h in ledger.headers(HERE).items] == ["a", "b"]


def test_a_retry_of_what_was_recorded_is_no_conflict(ledger: Ledger) -> None:
    once = ledger.append([said("a", event_id="e1")], expected_seq=0)

    assert ledger.append([said("a", event_id="e1")], expected_seq=0) == once


def test_expected_seq_speaks_of_one_session(ledger: Ledger) -> None:
    with pytest.raises(treering.InvalidInput):
        ledger.append([said("a"), said("b", session_id="s2")], expected_seq=0)


def first(text: str, **fields: Any) -> FirstEvent:
    """Return an event that has to be the first of its session."""
    return FirstEvent(**msgspec.structs.asdict(said(text, **fields)))


def test_an_event_that_has_to_be_the_first_of_its_session_is_refused_behind_others(
    ledger: Ledger,
) -> None:
    ledger.append([first("a"), said("b"), first("c", session_id="s2"), said("d", session_id="s2")])

    for events in ([first("e")], [said("e", session_id="s3"), first("f"), said("g")]):
        with pytest.raises(treering.Conflict) as refused:
            ledger.append(events)
        assert refused.value.current_seq == 2

    assert [h.summary for h in ledger.headers(HERE).items] == ["a", "b", "c", "d"]


def test_a_finished_run_takes_no_more_events(ledger: Ledger) -> None:
    ledger.append(run_of("r1", "a"))

    with pytest.raises(treering.errors.RunClosed):
        ledger.append([said("late", run_id="r1")])
    with pytest.raises(treering.errors.RunClosed):
        ledger.append([said("again", kind="run.started", run_id="r1")])


def test_a_run_that_ends_in_the_middle_of_a_call_refuses_the_whole_call(ledger: Ledger) -> None:
    with pytest.raises(treering.errors.RunClosed):
        ledger.append([*run_of("r1", "a"), said("late", run_id="r1")])

    assert ledger.headers(HERE).items == []
    assert ledger.admin.verify().sessions == 0


def test_the_header_that_is_returned_does_not_change_any_more(ledger: Ledger) -> None:
    refs = {"files": ["a.py"]}
    header = ledger.append([said(refs=refs)])[0]

    refs["files"].append("b.py")

    assert header.refs == {"files": ["a.py"]}


def test_a_large_payload_is_kept_whole_and_once(ledger: Ledger) -> None:
    text = "a long story, " * 20_000
    ledger.append([said("one", event_id="e1", payload={"text": text})])
    ledger.append([said("two", event_id="e2", payload={"text": text})])

    event = ledger.event(HERE, "e1")

    assert event.payload == {"text": text}
    assert event.payload_bytes == len(text) + len('{"text":""}')
    assert ledger.event(HERE, "e2").payload == event.payload
    assert ledger.admin.verify().intact


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"kind": "nonsense"}, "invalid kind: nonsense"),
        ({"kind": "ledger.redacted"}, "written by the ledger alone"),
        ({"kind": "assistant.delta"}, "never stored"),
        ({"scope": ""}, "a scope is required"),
        ({"session_id": " "}, "session_id is required"),
        ({"session_id": "a\nb"}, "control character"),
        ({"agent_id": ""}, "agent_id is required"),
        ({"run_id": ""}, "run_id is required"),
        ({"event_id": ""}, "event_id is required"),
        ({"event_id": "x" * 201}, "201 characters"),
        ({"summary": "  "}, "summary is required"),
        ({"summary": "x" * 1_001}, "summary exceeds cap (1001 > 1000 characters)"),
        ({"summary": "a\0b"}, "NUL"),
        ({"summary": "a\ud800"}, "lone surrogate"),
        ({"summary": 5}, "wrong type"),
        ({"ts_ms": 0}, "ts_ms must be > 0"),
        ({"ts_ms": 1.5}, "invalid ts_ms: 1.5"),
        ({"ts_ms": 10**18}, "beyond the year 9999"),
        ({"run_seq": 0}, "run_seq must be > 0"),
        ({"run_seq": True}, "run_seq must be > 0"),
        ({"run_seq": 1.0}, "run_seq must be > 0"),
        ({"source": Shout("user")}, "invalid source"),
        ({"source": "nobody"}, "invalid source: nobody"),
        ({"visibility": "public"}, "invalid visibility: public"),
        ({"refs": {"a": "x" * 4_090}}, "refs exceeds cap (4098 > 4096 bytes)"),
        ({"payload": {"n": float("inf")}}, "payload['n'] is inf"),
        ({"payload": {"t": (1, 2)}}, "payload['t'] is a tuple"),
        ({"payload": {"b": {1}}}, "payload['b'] is a set"),
        ({"payload": {1: "x"}}, "payload has the key 1"),
        ({"payload": ["\ud800"]}, "payload[0] holds a lone surrogate"),
    ],
)
def test_bad_input_gets_a_clear_error_and_a_hint(
    unchanged: Ledger, fields: dict[str, Any], part: str
) -> None:
    """Promise 11: bad input gets a clear error and nothing is lost."""
    with pytest.raises(treering.InvalidInput) as refused:
        unchanged.append([said(**fields)])

    assert part in str(refused.value)
    assert refused.value.hint
    assert unchanged.headers(HERE).items == []


def test_a_session_id_that_is_not_quite_text_is_refused(ledger: Ledger) -> None:
    with pytest.raises(treering.InvalidInput, match="session_id is a Shout, not text") as refused:
        ledger.append([said(session_id=Shout("s1"))])

    assert refused.value.hint
    assert ledger.headers(HERE).items == []


@pytest.mark.parametrize(
    "payload",
    [
        None,
        "text",
        0,
        -1.5e-300,
        2**63,
        -(2**80),
        "NUL \0 inside",
        {"": ""},
        [],
        {},
        {"a": {"b": [[["x"]]]}},
        "\U0001f333",
    ],
)
def test_every_json_value_comes_back_equal(ledger: Ledger, payload: Any) -> None:
    ledger.append([said(event_id="e1", payload=payload)])

    assert ledger.event(HERE, "e1").payload == payload


def test_nesting_stops_at_its_limit(ledger: Ledger) -> None:
    deep: Any = "x"
    for _ in range(64):
        deep = [deep]
    ledger.append([said(payload=deep)])

    with pytest.raises(treering.InvalidInput, match="nested deeper than 64"):
        ledger.append([said(payload=[deep])])


def test_an_event_without_its_list_is_refused(ledger: Ledger) -> None:
    with pytest.raises(treering.InvalidInput, match="takes a list"):
        ledger.append(said())  # type: ignore[arg-type]


def test_every_spelling_of_a_kind_is_stored_under_one_name(ledger: Ledger) -> None:
    headers = ledger.append([said(kind="user_message"), called(kind="TOOL.CALL ")])

    assert [h.kind for h in headers] == ["conversation.user", "tool.call"]


def test_secrets_in_the_safe_part_are_masked_and_the_payload_is_kept(ledger: Ledger) -> None:
    """The safe part is masked when recorded; a payload given through the API is stored as it is."""
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    ledger.append([said(f"use {token}", event_id="e1", refs={"t": token})])

    event = ledger.event(HERE, "e1")

    assert event.summary.startswith("use [redacted:github:")
    assert event.refs["t"].startswith("[redacted:github:")
    assert event.payload == {"text": f"use {token}"}


@pytest.mark.parametrize("guard", ["off", "mask", "reject"])
def test_a_guard_can_look_further_or_nowhere(guard: Any) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    with treering.open(":memory:", guard=guard) as ledger:
        if guard == "reject":
            with pytest.raises(treering.SensitiveContent) as refused:
                ledger.append([said("x", payload={"t": token})])
            assert token not in str(refused.value)
            assert "github" in str(refused.value)
            return
        ledger.append([said("x", event_id="e1", payload={"t": token})])
        stored = ledger.event(HERE, "e1").payload["t"]
        assert (stored == token) is (guard == "off")


@pytest.mark.parametrize("field", ["session_id", "agent_id", "run_id", "turn_id"])
def test_a_name_of_another_class_is_refused_although_the_same_in_plain_text_is_known(
    ledger: Ledger, field: str
) -> None:
    ledger.append([said("plain", **{field: "one"})])

    with pytest.raises(treering.InvalidInput, match=f"{field} is a Shout"):
        ledger.append([said("not plain", **{field: Shout("one")})])


def test_bytes_are_recorded_as_json_and_marked(ledger: Ledger) -> None:
    header = ledger.append([said("x", payload={"image": b"\x00\xff", "name": "a"})])[0]

    assert header.refs == {"opaque": True}
    payload = ledger.event(HERE, header.event_id).payload
    assert payload == {"image": {"$bytes": "AP8="}, "name": "a"}
