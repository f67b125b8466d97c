"""Assembling: what one model call sees, what is kept of it, and what it can be asked later."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import pytest

from builders import HERE
from context.histories import PROSE, Listed, assistant, call, event, in_order, result, user
from context.legality import check_legal
from context.told import told_system
from treering import InvalidInput, Ledger, Session
from treering.context.assemble import Context, ContextTarget, Window, assemble, contribution
from treering.context.budgets import Budget
from treering.context.dialects import DIALECTS, Dialect
from treering.context.tokens import exact_counter
from treering.ledger.windows import read_window
from treering.model.codec import encode
from treering.model.messages import AssistantMessage, UserMessage
from treering.model.tools import SyntheticPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.ledger.contexts import Working
    from treering.model.events import Event

POLICY: Final = SyntheticPolicy()


def context_of(*events: Event, max_tokens: int | None = None, **asked: Any) -> Context:
    """Return the context of ``events``, numbered from 1."""
    window = Window(events=in_order(*events))
    target: dict[str, Any] = {"dialect": "openai-chat", "max_tokens": max_tokens}
    for name in ("dialect", "model", "reserve_output_tokens"):
        if name in asked:
            target[name] = asked.pop(name)
    given: dict[str, Any] = {"policy": POLICY, **asked}
    return assemble(window, ContextTarget(**target), **given)


def texts(context: Context) -> list[str]:
    return [str(message["content"]) for message in context.messages]


def codes(context: Context) -> list[str]:
    return [repair.code for repair in context.report]


# What is shown.


def test_a_context_names_what_it_shows() -> None:
    context = context_of(user("Go."), result("c9"), assistant("Gone."), user("Back?"))

    assert texts(context) == ["Go.", "Gone.", "Back?"]
    assert context.event_ids == ["e1", "e3", "e4"]
    assert context.shown == [(1, 1), (3, 4)]
    assert [(one.code, one.event_id) for one in context.report] == [("orphan_result", "e2")]


def test_two_contexts_that_show_the_same_have_the_same_digest() -> None:
    first = context_of(user("Go."), max_tokens=500)
    same = context_of(user("Go."), max_tokens=900, dialect="gemini", system="Be brief.")
    other = context_of(user("Come."), max_tokens=500)

    assert first.digest == same.digest != other.digest


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_session_without_a_past_is_an_empty_context(dialect: str) -> None:
    context = context_of(dialect=dialect, max_tokens=500)

    assert (context.messages, context.system, context.tokens) == ([], None, 0)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_system_text_stays_in_its_place_before_anything_is_said(dialect: Dialect) -> None:
    context = context_of(dialect=dialect, system="Be brief.", max_tokens=500)

    if dialect in {"openai-chat", "plain"}:
        assert context.messages == [{"role": "system", "content": "Be brief."}]
    else:
        assert (context.messages, context.system) == ([], "Be brief.")
    assert told_system(dialect, context.request) == "Be brief."
    assert 0 < context.tokens <= 500
    assert context.report == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_system_text_that_does_not_fit_is_not_shown_alone(dialect: Dialect) -> None:
    context = context_of(dialect=dialect, system="Be brief.", max_tokens=10)

    assert (context.messages, context.system, context.tokens) == ([], None, 0)


@pytest.mark.parametrize("max_tokens", [0, 5, 19])
def test_a_budget_that_is_too_small_shows_nothing_and_says_so(max_tokens: int) -> None:
    context = context_of(user("Go."), max_tokens=max_tokens, system="Be brief.")

    assert (context.messages, context.tokens, context.event_ids) == ([], 0, [])
    assert "budget_too_small" in codes(context)


def test_what_is_reserved_for_the_answer_is_not_spent() -> None:
    events = [one for at in range(40) for one in (user(f"{at} {PROSE}"), assistant(PROSE))]

    whole = context_of(*events, max_tokens=2_000)
    half = context_of(*events, max_tokens=2_000, reserve_output_tokens=1_000)

    assert half.tokens <= 1_000 < whole.tokens <= 2_000


def test_a_reserve_beyond_the_budget_leaves_nothing() -> None:
    assert context_of(user(), max_tokens=100, reserve_output_tokens=900).messages == []


def test_ids_of_calls_are_paid_for() -> None:
    def tokens(call_id: str) -> int:
        return context_of(user(), call(call_id), result(call_id)).tokens

    assert tokens("f0e1d2c3" * 5) > tokens("c1") + 20


# The system text, and contributions.


def test_a_system_text_that_is_too_long_leaves_room_for_what_was_said() -> None:
    context = context_of(user("Go."), system=PROSE * 100, max_tokens=400)

    assert texts(context)[-1] == "Go."
    assert texts(context)[0].startswith(PROSE[:40])
    assert context.report[-1].detail == "the system text"
    assert context.tokens <= 400


def test_a_contribution_stands_before_what_the_user_said_last() -> None:
    added = contribution("tides", ["High at six.", {"role": "assistant", "content": "I know."}])

    context = context_of(
        user("Go."), assistant("Gone."), user("Back?"), assistant("No."), contributions=[added]
    )

    assert texts(context) == ["Go.", "Gone.", "High at six.", "I know.", "Back?", "No."]
    assert context.event_ids == ["e1", "e2", "e3", "e4"]


def test_a_contribution_does_not_come_between_a_call_and_its_result() -> None:
    added = contribution("tides", "High at six.")

    for dialect in DIALECTS:
        context = context_of(
            call("c1"), user("And?"), result("c1"), dialect=dialect, contributions=[added]
        )
        check_legal(dialect, context.request)


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_contribution_to_the_system_text_joins_it(role: str) -> None:
    added = contribution("tides", {"role": role, "content": "High at six."})

    context = context_of(user(), system="Be brief.", dialect="anthropic", contributions=[added])

    assert context.system == "Be brief.\n\nHigh at six."


def test_a_contribution_without_room_is_dropped_and_reported() -> None:
    large, small = contribution("large", PROSE * 100), contribution("small", "High at six.")

    context = context_of(user("Go."), max_tokens=300, contributions=[large, small])

    assert texts(context) == ["High at six.", "Go."]
    assert [(one.code, one.detail) for one in context.report] == [("contributor_dropped", "large")]
    assert [one.name for one in context.contributed] == ["small"]


def test_contributions_leave_room_for_what_was_said() -> None:
    added = [contribution(f"c{at}", "High at six. " * 3) for at in range(50)]

    context = context_of(user("Go."), max_tokens=300, contributions=added)

    assert texts(context)[-1] == "Go."
    assert "contributor_dropped" in codes(context)


@pytest.mark.parametrize("given", [None, "", " ", [], [""], {"content": " "}])
def test_a_contributor_that_has_nothing_to_say_adds_nothing(given: Any) -> None:
    context = context_of(user("Go."), contributions=[contribution("tides", given)])

    assert texts(context) == ["Go."]
    assert context.contributed == []


@pytest.mark.parametrize(
    "given",
    [
        7,
        b"High",
        {"role": "tool", "content": "High"},
        {"role": "user", "content": ["High"]},
        {"role": "user"},
        ["High", None],
        "lone \ud800",
    ],
)
def test_what_is_no_message_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match="tides"):
        contribution("tides", given)


def test_a_contribution_keeps_its_roles() -> None:
    found = contribution("tides", [{"content": "one"}, {"role": "assistant", "content": "two"}])

    assert found.messages == (UserMessage(text="one", seq=0), AssistantMessage(text="two", seq=0))


# The window.


def test_the_question_of_a_turn_that_is_longer_than_the_window_is_shown() -> None:
    steps = [one for at in range(80) for one in (call(f"c{at}"), result(f"c{at}", PROSE * 20))]
    lineage: Any = Listed(in_order(user("Old."), user("What broke?"), *steps))

    window = read_window(lineage, tokens=500)
    context = assemble(window, ContextTarget(dialect="openai-chat", max_tokens=500), policy=POLICY)

    assert window.cut
    assert window.opening is not None
    assert "What broke?" in texts(context)
    assert "Old." not in texts(context)
    assert context.shown[0] == (2, 2)
    assert context.report[0].code == "dropped_turn"


def test_a_result_whose_call_was_not_read_is_no_orphan() -> None:
    steps = [one for at in range(80) for one in (call(f"c{at}"), result(f"c{at}", PROSE * 20))]
    lineage: Any = Listed(in_order(user("What broke?"), *steps), page=1)

    window = read_window(lineage, tokens=500)
    context = assemble(window, ContextTarget(dialect="openai-chat", max_tokens=500), policy=POLICY)

    assert [one.kind for one in window.lead] == ["tool.result"]
    assert "orphan_result" not in codes(context)


def test_the_end_of_a_turn_is_told_behind_what_a_compaction_told() -> None:
    summary = "Decisions:\n" + "\n".join(f"- use pier {at}" for at in range(12))
    window = Window(
        events=in_order(user("Well?")), lead=[assistant("Moved the crane.")], summary=summary
    )

    context = assemble(
        window, ContextTarget(dialect="openai-chat", max_tokens=2_000), policy=POLICY
    )

    assert all(f"use pier {at}" in texts(context)[0] for at in range(12))
    assert "Moved the crane." in texts(context)[0]


def test_the_question_is_not_sought_where_a_compaction_tells_it() -> None:
    steps = [one for at in range(60) for one in (call(f"c{at}"), result(f"c{at}", PROSE * 20))]
    told = event("context.compacted", {"summary": "The pump broke.", "through_seq": 2})
    lineage: Any = Listed(in_order(user("What broke?"), assistant("Hm."), told, *steps))

    window = read_window(lineage, tokens=500)

    assert (window.opening, window.summary) == (None, "The pump broke.")


def test_a_question_that_was_undone_does_not_come_back() -> None:
    steps = [one for at in range(60) for one in (call(f"c{at}"), result(f"c{at}", PROSE * 20))]
    undone = event("session.undone", refs={"from_seq": 2, "turns": 1})
    lineage: Any = Listed(in_order(user("First?"), user("Second?"), undone, *steps))

    window = read_window(lineage, tokens=500)

    assert window.opening is not None
    assert window.opening.event_id == "e1"


@pytest.mark.parametrize(
    "payload",
    [
        None,
        "They met.",
        {"summary": "They met."},
        {"summary": "They met.", "through_seq": 0},
        {"summary": "They met.", "through_seq": 3},
        {"summary": "They met.", "through_seq": True},
        {"summary": "They met.", "through_seq": "2"},
        {"summary": " ", "through_seq": 2},
        {"summary": None, "through_seq": 2},
    ],
)
def test_a_compaction_that_cannot_be_read_hides_nothing(payload: Any) -> None:
    lineage: Any = Listed(in_order(user(), assistant(), event("context.compacted", payload)))

    window = read_window(lineage, tokens=None)

    assert [one.event_id for one in window.events] == ["e1", "e2"]
    assert window.summary is None


def test_a_window_ends_where_the_timeline_ended_when_it_was_read() -> None:
    lineage: Any = Listed(in_order(user(), assistant(), event("goal.added", {"id": 1})))

    assert read_window(lineage, tokens=None).until_seq == 3
    assert read_window(lineage, tokens=None, before_seq=2).until_seq == 1
    assert read_window(Listed([]), tokens=None).until_seq == 0  # type: ignore[arg-type]


def test_a_run_that_ends_while_a_window_is_read_does_not_count_yet() -> None:
    class Growing(Listed):
        """A timeline whose run ends as soon as somebody has asked how long it is."""

        def head_seq(self) -> int:
            return super().head_seq() - 1

    lineage: Any = Growing(
        in_order(user("First?"), user("Second?", run_id="r1"), event("run.ended", run_id="r1"))
    )

    window = read_window(lineage, tokens=None)

    assert [one.event_id for one in window.events] == ["e1"]
    assert window.until_seq == 2


# Through a session.


def take_turn(session: Session, question: str, answer: str = "Yes.", **asked: Any) -> Context:
    with session.turn() as turn:
        turn.user(question)
        context = turn.context(asked.pop("max_tokens", 4_000), **asked)
        turn.assistant(answer)
    return context


def test_a_turn_sees_what_it_recorded_and_others_do_not_yet(session: Session) -> None:
    take_turn(session, "First?")

    with session.turn() as turn:
        turn.user("Second?")

        assert texts(turn.context(4_000)) == ["First?", "Yes.", "Second?"]
        assert texts(session.context(4_000)) == ["First?", "Yes."]
        assert texts(session.context(4_000, turn=turn)) == ["First?", "Yes.", "Second?"]


@pytest.mark.parametrize("how", ["fail", "interrupt"])
def test_a_turn_that_did_not_end_well_is_not_shown(session: Session, how: str) -> None:
    take_turn(session, "First?")
    turn = session.turn()
    turn.start()
    turn.user("Second?")
    getattr(turn, how)("stop")

    shown = texts(session.context(4_000))

    assert shown[:2] == ["First?", "Yes."]
    assert "Second?" not in shown
    assert len(shown) == (3 if how == "interrupt" else 2)


def test_a_context_is_recorded_without_a_word_of_it(session: Session) -> None:
    take_turn(
        session,
        "Is Xylocopa there?",
        system="You are Bombylius.",
        contributors=[Saying("Megachile says hello.")],
    )

    [recorded] = [one for one in session.events() if one.kind == "context.assembled"]
    kept = encode([recorded.summary, recorded.refs, recorded.payload]).decode()
    assert all(word not in kept for word in ("Xylocopa", "Bombylius", "Megachile"))
    assert recorded.refs["tokens"] > 0
    assert recorded.payload["contributed"][0]["name"] == "saying"


def test_a_session_that_is_only_looked_at_records_nothing(session: Session) -> None:
    take_turn(session, "First?")
    before = list(session.headers())

    session.context(4_000, contributors=[Saying("Hello.")])

    assert list(session.headers()) == before


def test_what_each_turn_was_shown_can_be_asked_later(session: Session) -> None:
    contexts = [take_turn(session, f"{at}? {PROSE * at}", max_tokens=600) for at in range(1, 8)]
    session.compact(keep=2)
    session.undo()
    session.checkpoint("here")

    for number, context in enumerate(contexts, start=1):
        [shown] = session.shown(turn=number)
        assert shown.exact
        assert shown.context.messages == context.messages
        assert shown.context.tokens == context.tokens


def test_what_a_failed_turn_was_shown_can_be_asked_too(session: Session) -> None:
    turn = session.turn()
    turn.start()
    turn.user("First?")
    context = turn.context(4_000)
    turn.fail("no luck")

    [shown] = session.shown(run_id=turn.run_id)

    assert (shown.exact, shown.context.messages) == (True, context.messages)


def test_a_fork_knows_what_was_shown_before_it_and_in_it(session: Session) -> None:
    take_turn(session, "First?")
    fork = session.fork("s2")
    take_turn(session, "Here?")
    take_turn(fork, "There?")

    assert [one.exact for one in fork.shown(last=9)] == [True, True]
    assert texts(fork.shown(last=1)[0].context) == ["First?", "Yes.", "There?"]


def test_what_was_shown_is_not_exact_once_it_is_erased(ledger: Ledger, session: Session) -> None:
    take_turn(session, "First?")
    take_turn(session, "Second?")
    [asked] = [one for one in session.events() if one.payload and "First?" in str(one.payload)]

    ledger.redact(HERE, event_id=asked.event_id)

    assert [session.shown(turn=number)[0].exact for number in (1, 2)] == [False, False]
    assert "First?" not in str(session.shown(turn=2)[0].context.messages)


def test_an_erasure_leaves_exact_what_was_shown_before_it_was_said(
    ledger: Ledger, session: Session
) -> None:
    take_turn(session, "First?")
    take_turn(session, "Second?")
    [asked] = [one for one in session.events() if one.payload and "Second?" in str(one.payload)]

    ledger.redact(HERE, event_id=asked.event_id)

    assert [session.shown(turn=number)[0].exact for number in (1, 2)] == [True, False]


def test_an_event_that_does_not_say_what_was_shown_costs_no_other(session: Session) -> None:
    with session.turn() as turn:
        turn.user("First?")
        turn.context(1_000)
        turn.emit("context.assembled", {"dialect": ["gemini"]})

    assert [shown.exact for shown in session.shown(turn=1)] == [True]


class Interfering:
    """Counts as an encoding does, and has something else recorded when it first does."""

    name = "o200k_base"

    def __init__(self, interfere: Callable[[], object]) -> None:
        self._left = [interfere]

    def __call__(self, text: str) -> int:
        while self._left:
            self._left.pop()()
        return exact_counter()(text)


def test_what_others_record_while_a_context_is_assembled_is_not_taken_for_shown(
    session: Session,
) -> None:
    count = Interfering(
        lambda: session.record("conversation.user", "asked", payload={"text": "Meanwhile?"})
    )

    context = take_turn(session, "First?", count=count)

    [shown] = session.shown()
    assert texts(context) == ["First?"]
    assert (shown.exact, shown.context.messages) == (True, context.messages)
    assert shown.context.until_seq == context.until_seq < shown.seq - 1


def test_an_event_that_names_no_end_tells_all_before_it(session: Session) -> None:
    with session.turn() as turn:
        turn.user("First?")
        turn.context(4_000)
        [told] = [one for one in session.events() if one.kind == "context.assembled"]
        older = {name: value for name, value in told.payload.items() if name != "until_seq"}
        turn.emit("context.assembled", older)

    first, second = session.shown(turn=1)
    assert (first.exact, second.exact) == (True, True)
    assert first.context.until_seq == told.payload["until_seq"] == told.seq - 1
    assert second.context.until_seq == second.seq - 1


# Contributors.


class Saying:
    """Says one thing."""

    name = "saying"

    def __init__(self, given: Any, *memory_ids: str) -> None:
        self._given = given
        self._memory_ids = memory_ids

    def extend(self, working: Working) -> Any:
        working.memory_ids += self._memory_ids
        return self._given


class Doing:
    """Does something with what it is given."""

    def __init__(self, extend: Callable[[Working], Any]) -> None:
        self.name = "doing"
        self.extend = extend


class Nameless:
    """Fails as soon as it is asked for its name."""

    @property
    def name(self) -> str:
        raise ValueError

    def extend(self, working: Working) -> Any:
        return working.events(last=0)


def test_what_a_contributor_says_is_shown_once_and_stored_nowhere(
    ledger: Ledger, session: Session
) -> None:
    context = take_turn(session, "First?", contributors=[Saying("Megachile says hello.")])
    with session.turn() as turn:
        turn.user("Second?")
        after = turn.context(4_000)

    stream = io.BytesIO()
    ledger.admin.export(HERE, stream, session_id="s1", payloads="included")
    assert texts(context) == ["Megachile says hello.", "First?"]
    assert "Megachile" not in str(after.messages)
    assert b"Megachile" not in stream.getvalue()


def test_a_contributor_that_fails_is_reported_and_left_out(session: Session) -> None:
    def fail(working: Working) -> Any:
        raise OSError(working)

    context = take_turn(
        session,
        "First?",
        contributors=[Doing(fail), Doing(lambda _: 7), Nameless(), Saying("Hello.")],
    )

    assert texts(context) == ["Hello.", "First?"]
    assert [(one.code, one.detail) for one in context.report] == [
        ("contributor_failed", "doing: OSError"),
        ("contributor_failed", "doing: InvalidInput"),
        ("contributor_failed", "Nameless: ValueError"),
    ]


def test_memories_that_were_used_are_recorded_by_their_ids(session: Session) -> None:
    context = take_turn(
        session, "First?", contributors=[Saying("You like tea.", "m1", "m2"), Saying("Hello.")]
    )

    [recorded] = [one for one in session.events() if one.kind == "context.assembled"]
    assert [one.memory_ids for one in context.contributed] == [("m1", "m2"), ()]
    assert [one["memory_ids"] for one in recorded.payload["contributed"]] == [["m1", "m2"], []]
    assert session.shown(turn=1)[0].exact


def test_ids_of_memories_may_be_numbers(session: Session) -> None:
    number: Any = 7

    context = take_turn(session, "First?", contributors=[Saying("You like tea.", number)])

    assert context.contributed[0].memory_ids == ("7",)
    assert session.shown(turn=1)[0].exact


def test_a_contributor_writes_by_appending_and_the_call_sees_it(session: Session) -> None:
    def note(working: Working) -> Any:
        working.append("memory.recalled", {"id": "m1"})
        working.append("conversation.user", {"text": "By the way."})
        return [event.payload["text"] for event in working.events(last=1)]

    context = take_turn(session, "First?", contributors=[Doing(note)])

    assert texts(context) == ["First?", "By the way.", "By the way."]
    [recalled] = [one for one in session.events() if one.kind == "memory.recalled"]
    assert recalled.run_id is not None


def test_a_contributor_is_given_the_last_events_in_order(session: Session) -> None:
    given: list[list[str]] = []

    def look(working: Working) -> Any:
        given.extend([one.payload["text"] for one in working.events(last=last)] for last in (0, 2))

    take_turn(session, "First?")
    take_turn(session, "Second?", contributors=[Doing(look)])

    assert given == [[], ["Yes.", "Second?"]]


def test_a_lone_surrogate_in_the_system_text_is_refused(session: Session) -> None:
    with pytest.raises(InvalidInput, match="system"):
        session.context(4_000, system="\ud800")


@pytest.mark.parametrize("tokens", [-1, True, 1.5, "9"])
def test_a_budget_is_a_number_of_tokens(session: Session, tokens: Any) -> None:
    with pytest.raises(InvalidInput, match="max_tokens"):
        session.context(tokens)
    with pytest.raises(InvalidInput, match="reserve_output_tokens"):
        session.context(100, reserve_output_tokens=tokens)


# What it costs.


@pytest.mark.parametrize(("factor", "direction"), [(2.0, -1), (0.6, 1)])
def test_reported_usage_changes_how_much_is_shown(
    session: Session, factor: float, direction: int
) -> None:
    for at in range(60):
        session.record("conversation.user", "asked", payload={"text": f"{at}? {PROSE}"})
        session.record("conversation.assistant", "answered", payload={"text": PROSE})
    before = session.context(2_000)
    for _ in range(8):
        with session.turn() as turn:
            turn.user("And?")
            shown = turn.context(20_000, model="m")
            used = round(shown.estimated_tokens * factor)
            turn.emit("usage.reported", {"model": "m", "input_tokens": used})
            turn.assistant("Yes.")

    after = session.context(2_000)

    assert after.ratio == pytest.approx(factor, rel=0.02)
    assert after.tokens <= 2_000
    assert (after.estimated_tokens - before.estimated_tokens) * direction > 0


def report(session: Session, named: str, factor: float, **asked: Any) -> Context:
    """Take a turn with the model so ``named``, which counts ``factor`` tokens for each of ours."""
    with session.turn(model=asked.pop("run_model", None)) as turn:
        turn.user("And?")
        context = turn.context(20_000, **asked)
        used = round(context.estimated_tokens * factor)
        turn.emit("usage.reported", {"model": named, "input_tokens": used})
        turn.assistant("Yes.")
    return context


def test_each_model_is_calibrated_by_its_own_reports(session: Session) -> None:
    session.record("conversation.user", "asked", payload={"text": PROSE * 20})
    for _ in range(3):
        report(session, "a", 2.0, model="a")
        report(session, "b", 1.5, model="b")

    with session.turn(model="a") as turn:
        turn.user("And?")
        ratios = [turn.context(20_000, model=name).ratio for name in ("a", "b", "c")]
        by_default = turn.context(20_000).ratio

    assert ratios == [pytest.approx(2.0, rel=0.01), pytest.approx(1.5, rel=0.01), 1.0]
    assert by_default == ratios[0]
    assert session.context(20_000).ratio == ratios[1]
    assert session.context(20_000, model="a").ratio == ratios[0]


def test_a_model_is_known_by_the_name_it_was_asked_by_too(session: Session) -> None:
    session.record("conversation.user", "asked", payload={"text": PROSE * 20})
    report(session, "a-2026-01-01", 2.0, run_model="a")

    assert session.context(20_000, model="a").ratio == pytest.approx(2.0, rel=0.01)
    assert session.context(20_000, model="a-2026-01-01").ratio == pytest.approx(2.0, rel=0.01)


def test_the_model_of_a_run_is_recorded_with_what_it_is_shown(session: Session) -> None:
    report(session, "a", 1.0, run_model="a")
    report(session, "b", 1.0, run_model="a", model="b")

    told = [one for one in session.headers() if one.kind == "context.assembled"]
    assert [one.refs["model"] for one in told] == ["a", "b"]


def test_what_is_kept_beside_a_text_does_not_cost_the_texts_before_it(session: Session) -> None:
    for at in range(30):
        with session.turn() as turn:
            turn.user(f"Look {at}?", image="x" * 50_000)
            with turn.tool("look", {"at": at}) as looking:
                looking.finish({"seen": at})
            turn.assistant("Seen.")

    shown = [text for text in texts(session.context(4_000)) if text.startswith("Look")]

    assert shown == [f"Look {at}?" for at in range(30)]


def test_a_counter_of_tokens_is_used_in_place_of_the_estimate(session: Session) -> None:
    for at in range(60):
        session.record("conversation.user", "asked", payload={"text": f"{at}? {PROSE}"})

    context = session.context(2_000, count=len)

    assert 0 < sum(map(len, texts(context))) <= context.tokens <= 2_000


def test_a_context_says_how_far_its_tokens_can_be_relied_on() -> None:
    estimated = context_of(user("hi" * 40))
    counted = context_of(user("hi" * 40), budget=Budget(count=exact_counter(), margin=1.0))

    least, most = estimated.tokens_between
    assert least < estimated.tokens < most
    assert "estimated" in estimated.accuracy
    assert counted.tokens_between == (counted.tokens, counted.tokens)
    assert counted.accuracy == "counted by o200k_base"
