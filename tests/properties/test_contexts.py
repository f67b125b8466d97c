"""Whatever was recorded, a context is legal, fits, and says what was done to it."""

from __future__ import annotations

import json
from itertools import chain, count
from typing import TYPE_CHECKING, Any, Final

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from builders import HERE
from context.histories import (
    LARGE,
    PNG,
    PROSE,
    Listed,
    Step,
    budgets,
    call,
    erasing_steps,
    event,
    histories,
    in_order,
    play,
    record_steps,
    reserves,
    result,
    systems,
    turn_steps,
    turning_steps,
    user,
)
from context.legality import check_legal
from context.provider_types import check_types
from effort import rounds
from expected_calls import tool_calls
from treering.context.assemble import Context, ContextTarget, assemble, contribution
from treering.context.budgets import Budget
from treering.context.dialects import DIALECTS, Dialect
from treering.context.pairing import MESSAGE_KINDS, VISIBLE_BOUNDARIES, pair
from treering.context.texts import message_role
from treering.context.tokens import estimate, exact_counter
from treering.derive.visible import ended_runs, visible
from treering.ledger.windows import compacted_through, read_window
from treering.model.codec import encode
from treering.model.messages import AssistantMessage, UserMessage
from treering.model.tools import SyntheticPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treering import Ledger, Session
    from treering.model.events import Event
    from treering.model.tools import ToolRecord

NUMBERS: Final = count(1)
NOW: Final = 1_780_000_000_000
ASKING: Final[Step] = (
    "turn",
    ([("user", "What is new?"), ("context", (4_000, "openai-chat", 0, ""))], "ended"),
)
POLICY: Final = SyntheticPolicy()
FRAME: Final = frozenset({"type", "role"})
"""What a request says of its own parts."""
SEALED: Final = frozenset(
    {"data", "signature", "encrypted_content", "thought_signature", "media_type", "mime_type"}
)
"""What is no text: files, and what providers sealed."""
TOOL: Final = {"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}
ITEMS: Final = [
    {"type": "function_call", "call_id": "c1", "name": "see", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "a ship"},
    {"role": "user", "content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]},
]
"""What a contributor may add."""
dialects = st.sampled_from(DIALECTS)


def context_of(
    events: list[Event],
    *,
    max_tokens: int | None,
    dialect: Dialect = "openai-chat",
    reserve: int = 0,
    system: str = "",
    run_id: str | None = None,
    model: str | None = None,
    tools: Any = (),
    given: Any = None,
) -> Context:
    limit = None if max_tokens is None else max(max_tokens - reserve, 0)
    lineage: Any = Listed(events)
    return assemble(
        read_window(lineage, tokens=limit, run_id=run_id),
        ContextTarget(
            dialect=dialect, model=model, max_tokens=max_tokens, reserve_output_tokens=reserve
        ),
        system=system,
        policy=POLICY,
        tools=tools,
        contributions=[contribution("any", given)],
    )


def texts_in(value: Any) -> list[str]:
    """Return every text of a request that a model reads; objects as JSON, as it is sent."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for one in value for text in texts_in(one)]
    found: list[str] = []
    if not isinstance(value, dict):
        return found
    for key, inner in value.items():
        if key in {"input", "args"} and isinstance(inner, dict):
            found.append(encode(inner).decode())
        elif key in SEALED or (isinstance(inner, str) and inner.startswith("data:")):
            continue
        elif key not in FRAME:
            found += texts_in(inner)
    return found


def check(context: Context) -> None:
    """Raise AssertionError unless a context is legal and within its budget."""
    if any(message.get("role") != "system" for message in context.messages):
        check_legal(context.dialect, context.request)
        check_types(context.dialect, context.request)
    else:
        # Nothing was said: there is a system text at most, in its place.
        assert context.event_ids == []
        assert (context.tokens > 0) == bool(context.messages or context.system)
    if context.max_tokens is None:
        return
    limit = max(context.max_tokens - context.reserve_output_tokens, 0)
    assert context.tokens <= limit
    counted = sum(map(estimate, texts_in(context.request))) + 3 * len(context.messages)
    # A provider may have reported that it counts fewer tokens than the estimate.
    assert counted * min(context.ratio, 1.0) <= limit


@given(
    events=histories(),
    dialect=dialects,
    max_tokens=budgets,
    reserve=reserves,
    system=systems,
    run_id=st.sampled_from((None, "r1")),
    model=st.sampled_from((None, "m1", "gemini-3-pro")),
    tools=st.sampled_from(((), ["look"], [TOOL, "web look", {"google_search": {}}])),
    given=st.sampled_from((None, "By the way.", ITEMS)),
)
def test_every_context_is_legal_and_fits(
    events: list[Event],
    dialect: Dialect,
    max_tokens: int | None,
    reserve: int,
    system: str,
    run_id: str | None,
    model: str | None,
    tools: Any,
    given: Any,
) -> None:
    context = context_of(
        events,
        max_tokens=max_tokens,
        dialect=dialect,
        reserve=reserve,
        system=system,
        run_id=run_id,
        model=model,
        tools=tools,
        given=given,
    )

    check(context)
    known = {event.event_id for event in events}
    assert known.issuperset(context.event_ids)
    assert known.issuperset(one.event_id for one in context.report if one.event_id is not None)


@given(events=histories(), dialect=dialects, max_tokens=budgets)
def test_the_same_history_makes_the_same_context(
    events: list[Event], dialect: Dialect, max_tokens: int | None
) -> None:
    first = context_of(events, max_tokens=max_tokens, dialect=dialect)

    again = context_of(list(events), max_tokens=max_tokens, dialect=dialect)

    assert again == first


@given(events=histories(), run_id=st.sampled_from((None, "r1")), page=st.integers(1, 4))
def test_a_window_that_is_read_in_pages_holds_all_that_counts(
    events: list[Event], run_id: str | None, page: int
) -> None:
    lineage: Any = Listed(events, page=page)

    window = read_window(lineage, tokens=None, run_id=run_id)

    ended = ended_runs(events)
    counts = visible([one for one in events if one.run_id in {None, run_id, *ended}], run_id=run_id)
    compactions = [event for event in counts if compacted_through(event) is not None]
    floor = 0 if not compactions else compacted_through(compactions[-1]) or 0
    assert window.events == [event for event in counts if event.seq > floor and is_shown(event)]
    assert window.summary_id == (compactions[-1].event_id if compactions else None)
    assert not window.cut


def is_shown(one: Event) -> bool:
    thought = one.kind == "ops.observation" and one.refs == {"observed": "thinking"}
    return one.kind in MESSAGE_KINDS or thought or message_role(one) is not None


@given(events=histories(), budget=st.integers(0, 4_000), more=st.integers(0, 4_000))
def test_with_more_room_no_less_of_the_last_turn_is_shown(
    events: list[Event], budget: int, more: int
) -> None:
    messages, _ = pair(visible(events), POLICY)
    start = max(
        (at for at, one in enumerate(messages) if isinstance(one, UserMessage) and not one.mark),
        default=0,
    )
    last_turn = {one for message in messages[start:] for one in message.event_ids}

    less = shown_of(events, budget) & last_turn
    found = shown_of(events, budget + more) & last_turn

    assert less <= found


def shown_of(events: list[Event], max_tokens: int) -> set[str]:
    """Return what is shown of ``events`` in which nothing is marked or compacted."""
    plain = [one for one in events if one.kind not in {*VISIBLE_BOUNDARIES, "context.compacted"}]
    return set(context_of(plain, max_tokens=max_tokens).event_ids)


@given(events=histories(), dialect=dialects, max_tokens=budgets)
def test_with_an_exact_counter_the_exact_count_fits(
    events: list[Event], dialect: Dialect, max_tokens: int | None
) -> None:
    tokens = exact_counter()
    lineage: Any = Listed(events)
    context = assemble(
        read_window(lineage, tokens=max_tokens),
        ContextTarget(dialect=dialect, max_tokens=max_tokens),
        policy=POLICY,
        budget=Budget(count=tokens, margin=1.0),
    )

    if max_tokens is not None and context.messages:
        counted = sum(map(tokens, texts_in(context.request))) + 3 * len(context.messages)
        assert counted <= max_tokens


@given(
    text=st.sampled_from(LARGE).flatmap(
        lambda text: st.integers(100, len(text)).map(lambda length: text[:length])
    ),
    outputs=st.integers(0, 12),
    dialect=dialects,
    max_tokens=st.integers(0, 6_000),
)
def test_the_margin_carries_what_is_estimated_short(
    text: str, outputs: int, dialect: Dialect, max_tokens: int
) -> None:
    calls = [(call(f"c{at}"), result(f"c{at}", text)) for at in range(outputs)]
    events = in_order(user(text), *chain.from_iterable(calls))

    context = context_of(events, max_tokens=max_tokens, dialect=dialect)

    texts = texts_in(context.request) if context.messages else []
    assert sum(map(exact_counter(), texts)) + 3 * len(context.messages) <= max_tokens


# Which result belongs to which call.

Act = tuple[str, str, str | None]
"""A call, a result or words; the id of the call; the run."""

acts = st.lists(
    st.tuples(
        st.sampled_from(("call", "call", "result", "result", "words")),
        st.sampled_from(("c1", "c2")),
        st.sampled_from((None, "r1", "r2")),
    ),
    max_size=16,
)


def written(acts: list[Act]) -> list[tuple[str, dict[str, Any]]]:
    """Return the kind of each act and what its event says; no message has an id twice.

    Each call and each result has a number, and all of them happen at the same time.
    """
    found: list[tuple[str, dict[str, Any]]] = []
    called: set[str] = set()
    for number, (act, call_id, run_id) in enumerate(acts):
        refs = {"call_id": call_id, "tool": "look"}
        if act == "call":
            if call_id in called:
                found.append(("conversation.assistant", {"payload": {"text": "Again."}}))
            called.add(call_id)
            said = {"payload": {**refs, "input": {"number": number}}, "refs": refs}
            found.append(("tool.call", {**said, "run_id": run_id}))
        elif act == "result":
            status = {"status": "failed" if number % 3 == 0 else "ok"}
            told = {**refs, **status}
            said = {"payload": {**told, "output": str(number)}, "refs": told}
            found.append(("tool.result", {**said, "run_id": run_id}))
        else:
            found.append(("conversation.user", {"payload": {"text": "And?"}, "run_id": run_id}))
    return [(kind, {"summary": kind, "ts_ms": NOW, **said}) for kind, said in found]


def recorded_pairs(records: Iterable[ToolRecord], events: Iterable[Event]) -> set[tuple[int, int]]:
    """Return the numbers of each call and of its result, as tool records have them."""
    payloads: dict[str | None, Any] = {one.event_id: one.payload for one in events}
    return {
        (
            payloads[one.call_event_id]["input"]["number"],
            int(payloads[one.result_event_id]["output"]),
        )
        for one in records
        if one.call_event_id and one.result_event_id and one.status in {"ok", "failed"}
    }


@settings(max_examples=rounds(20, times=30))
@given(acts=acts)
def test_messages_and_tool_records_give_each_result_to_the_same_call(acts: list[Act]) -> None:
    events = in_order(*(event(kind, **said) for kind, said in written(acts)))

    messages, _ = pair(events, POLICY)

    assert {
        (one.arguments["number"], int(result.output))
        for message in messages
        if isinstance(message, AssistantMessage)
        for one, result in zip(message.calls, message.results, strict=True)
        if result.event_id is not None
    } == recorded_pairs(tool_calls(events), events)


# Through a ledger.

on_every_database = settings(
    max_examples=rounds(5, times=25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


honest_steps = record_steps.map(
    lambda step: (step[0], [one for one in step[1] if one[0] != "context.assembled"])
)
"""Nobody but a turn says what its model was shown."""


@on_every_database
@given(acts=acts)
def test_history_and_tool_calls_give_each_result_to_the_same_call(
    ledger: Ledger, acts: list[Act]
) -> None:
    session = fresh(ledger)
    for kind, said in written(acts):
        session.record(kind, **said)
    for run_id in ("r1", "r2"):
        session.record("run.ended", "run ended", run_id=run_id)

    history = session.history()

    numbers = {
        one["id"]: json.loads(one["function"]["arguments"])["number"]
        for message in history
        for one in message.get("tool_calls", ())
    }
    outputs = {
        one["tool_call_id"]: one["content"].removeprefix("Error: ")
        for one in history
        if one["role"] == "tool"
    }
    assert {
        (number, int(outputs[call_id]))
        for call_id, number in numbers.items()
        if outputs[call_id].isdecimal()
    } == recorded_pairs(session.tool_calls(), session.events())


def fresh(ledger: Ledger) -> Session:
    return ledger.session(f"s{next(NUMBERS)}", scope=HERE, agent="lyria")


@on_every_database
@given(
    steps=st.lists(record_steps | turn_steps | turning_steps | erasing_steps, max_size=8),
    dialect=dialects,
    max_tokens=budgets,
    reserve=reserves,
    system=systems,
)
def test_every_context_of_a_session_is_legal_and_fits_and_writes_nothing(
    ledger: Ledger,
    steps: list[Step],
    dialect: Dialect,
    max_tokens: int | None,
    reserve: int,
    system: str,
) -> None:
    session = play(ledger, fresh(ledger), steps)
    before = list(session.headers())

    context = session.context(
        max_tokens, dialect=dialect, reserve_output_tokens=reserve, system=system
    )

    check(context)
    assert list(session.headers()) == before
    known = {header.event_id for header in before}
    assert known.issuperset(context.event_ids)
    assert known.issuperset(one.event_id for one in context.report if one.event_id is not None)


CHEAPER: Final[list[Step]] = [
    ("turn", ([("user", PROSE * 31)], "ended")),
    (
        "turn",
        (
            [
                ("context", (None, "openai-chat", 0, "")),
                ("usage", 1),
                ("context", (24, "openai-chat", 0, "")),
            ],
            "ended",
        ),
    ),
]
"""A provider that counts far fewer tokens than the estimate."""


@on_every_database
@given(steps=st.lists(honest_steps | turn_steps | turning_steps, max_size=8))
@example(steps=CHEAPER)
def test_what_models_were_shown_is_known_exactly_whatever_came_after(
    ledger: Ledger, steps: list[Step]
) -> None:
    session = play(ledger, fresh(ledger), [*steps, ASKING])
    play(ledger, session, steps)

    shown = session.shown(last=100)

    assert shown
    assert [one.seq for one in shown if not one.exact] == []
    for one in shown:
        check(one.context)


@on_every_database
@given(steps=st.lists(turn_steps | turning_steps | erasing_steps, max_size=10))
def test_what_models_were_shown_can_be_asked_after_any_redaction(
    ledger: Ledger, steps: list[Step]
) -> None:
    session = fresh(ledger)
    play(ledger, session, [ASKING, *steps])
    asking = next(one for one in session.headers() if one.kind == "context.assembled")

    if not asking.redacted:
        check(session.shown(run_id=asking.run_id)[0].context)
