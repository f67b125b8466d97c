"""Compaction: older messages are told in a summary from then on, and nothing of them is deleted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import HERE, exchange, run_of, said
from context.legality import check_legal
from treering import InvalidInput, Ledger, Session
from treering.context.dialects import DIALECTS
from treering.ledger.compaction import as_run
from treering.model.envelopes import CompactionPhase
from treering.sinks import Envelope, Hooks, HookSink, PrivateHookSink, SafeEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from treering.model.messages import ModelMessage


def take_turns(session: Session, first: int, last: int) -> None:
    """Record turns of two messages each."""
    for number in range(first, last + 1):
        exchange(session, f"question {number}?", f"answer {number}!")


def texts(session: Session, tokens: int | None = None) -> list[str]:
    return [str(message["content"]) for message in session.context(tokens).messages]


def compacted(session: Session) -> list[Any]:
    """Return what each compaction says."""
    return [event.payload for event in session.events() if event.kind == "context.compacted"]


class Scribe:
    """A summariser that tells how much it was given, and remembers it."""

    name = "scribe"

    def __init__(self, text: str = "all of it") -> None:
        self.text = text
        self.given: list[tuple[list[str], str | None, int]] = []

    def __call__(self, messages: Sequence[ModelMessage], earlier: str | None, tokens: int) -> str:
        self.given.append(([message.text for message in messages], earlier, tokens))
        return self.text


# When.


def test_a_session_is_compacted_above_four_fifths_of_its_budget(session: Session) -> None:
    take_turns(session, 1, 15)
    tokens = session.context().tokens

    assert session.compact(tokens * 10 // 8 + 2) is None
    assert compacted(session) == []
    assert session.compact(tokens * 10 // 8 - 2) is not None


def test_a_session_with_few_messages_is_not_compacted(session: Session) -> None:
    take_turns(session, 1, 10)

    assert session.compact(1) is None
    assert session.compact() is None
    take_turns(session, 11, 11)
    assert session.compact() is not None


def test_an_empty_session_is_not_compacted(session: Session) -> None:
    assert session.compact() is None
    assert list(session.headers()) == []


@pytest.mark.parametrize("keep", [0, -1])
def test_at_least_one_message_stays(session: Session, keep: int) -> None:
    take_turns(session, 1, 3)

    with pytest.raises(InvalidInput):
        session.compact(keep=keep)


def test_a_turn_that_was_shown_a_context_compacts_the_session_when_it_ends(
    session: Session,
) -> None:
    take_turns(session, 1, 30)
    with session.turn() as turn:
        turn.user("question 31?")
        context = turn.context(max_tokens=300)
        assert compacted(session) == []
        turn.assistant("answer 31!")

    assert context.tokens <= 300
    assert len(compacted(session)) == 1
    kinds = [header.kind for header in session.headers(last=6)]
    assert kinds == [
        "run.ended", "run.started", "compaction.started", "context.compacted", "compaction.ended",
        "run.ended",
    ]  # fmt: skip
    assert len(texts(session)) == 21
    assert texts(session)[-1] == "answer 31!"


@pytest.mark.parametrize("why", ["budget is large", "no budget", "no context", "it failed"])
def test_a_turn_does_not_compact_when(session: Session, why: str) -> None:
    take_turns(session, 1, 30)
    turn = session.turn()
    turn.start()
    turn.user("question 31?")
    if why != "no context":
        turn.context(max_tokens={"budget is large": 100_000, "no budget": None}.get(why, 300))
    if why == "it failed":
        turn.fail("no luck")
    turn.end()

    assert compacted(session) == []


@pytest.mark.parametrize(
    "asked",
    [
        {"reserve_output_tokens": 2_600},
        {"system": "Be brief. " * 850},
        {"tools": [{"name": "look", "description": "Looks around. " * 850}]},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_what_is_no_message_leaves_less_room_before_a_session_is_compacted(
    session: Session, asked: dict[str, Any]
) -> None:
    take_turns(session, 1, 60)
    for extra in ({}, asked):
        with session.turn() as turn:
            turn.user("question?")
            turn.context(3_000, **extra)
            turn.assistant("answer!")
        assert len(compacted(session)) == len(extra)


def test_a_budget_that_holds_no_summary_compacts_nothing(session: Session) -> None:
    take_turns(session, 1, 30)

    assert session.compact(3) is None
    assert compacted(session) == []


def test_turn_after_turn_the_context_stays_within_its_budget(session: Session) -> None:
    for number in range(1, 61):
        with session.turn() as turn:
            turn.user(f"question {number}? {'word ' * 30}")
            context = turn.context(max_tokens=2_000)
            assert context.tokens <= 2_000
            turn.assistant(f"answer {number}!")

    assert len(compacted(session)) > 1
    assert len(session.history()) == 120
    assert "question 60?" in context.messages[-1]["content"]


# What stays.


def test_the_last_twenty_messages_stay_as_they_are(session: Session) -> None:
    take_turns(session, 1, 25)
    before = texts(session)

    header = session.compact()

    after = texts(session)
    assert header is not None
    assert header.kind == "context.compacted"
    assert after[0].startswith("<summary>")
    assert after[1:] == before[-20:]
    told = compacted(session)[0]
    assert told["messages_removed"] == 30
    assert told["by"] == "structure"
    assert told["to_tokens"] < told["from_tokens"]


def test_nothing_is_deleted_and_history_is_still_whole(ledger: Ledger, session: Session) -> None:
    take_turns(session, 1, 25)
    events, history = list(session.events()), session.history()

    session.compact(keep=2)

    assert list(session.events())[: len(events)] == events
    assert session.history() == history
    assert session.summary().turns == 25
    assert ledger.admin.verify().intact


@pytest.mark.parametrize("keep", range(1, 9))
def test_a_call_is_never_parted_from_its_result(
    ledger: Ledger, session: Session, keep: int
) -> None:
    for number in range(4):
        ids = [f"c{number}-{at}" for at in range(2)]
        calls = [{"call_id": call_id, "name": "look", "input": {}} for call_id in ids]
        results = [{"call_id": call_id, "output": "seen"} for call_id in ids]
        ledger.append(
            [
                said(f"question {number}?"),
                *(said("look", kind="tool.call", payload=call) for call in calls),
                said("meanwhile", kind="conversation.assistant"),
                *(said("seen", kind="tool.result", payload=result) for result in results),
            ]
        )

    session.compact(keep=keep)

    for dialect in DIALECTS:
        context = session.context(dialect=dialect)
        check_legal(dialect, context.request)
        assert {repair.code for repair in context.report} <= {"moved_result"}


def test_a_run_that_is_under_way_is_not_swallowed(ledger: Ledger, session: Session) -> None:
    take_turns(session, 1, 15)
    run = run_of("slow", "slow question?")
    ledger.append(run[:-1])
    ledger.append([said(f"shout {number}") for number in range(40)])

    header = session.compact()

    assert header is not None
    ledger.append(run[-1:])
    assert "slow question?" in texts(session)
    assert len([text for text in texts(session) if text.startswith("shout")]) == 40


def test_a_turn_that_is_under_way_is_not_swallowed(session: Session) -> None:
    take_turns(session, 1, 15)
    with session.turn() as turn:
        turn.user("a long question?")
        session.compact(keep=1)
        for number in range(30):
            turn.assistant(f"step {number}")
        session.compact(keep=1)
        assert "a long question?" in str(turn.context().messages)

    assert texts(session)[-31:-29] == ["a long question?", "step 0"]


def test_failed_and_undone_turns_are_in_no_summary(session: Session) -> None:
    take_turns(session, 1, 3)
    with session.turn() as turn:
        turn.user("undone question?")
    session.undo()
    failed = session.turn()
    failed.start()
    failed.user("failed question?")
    failed.fail("no luck")
    take_turns(session, 4, 6)
    scribe = Scribe()

    session.compact(keep=1, summariser=scribe)

    [(given, _, _)] = scribe.given
    assert given == [text for n in range(1, 7) for text in (f"question {n}?", f"answer {n}!")][:-1]


# Summaries.


def test_summaries_chain(session: Session) -> None:
    take_turns(session, 1, 15)
    session.compact(keep=4)
    take_turns(session, 16, 30)
    session.compact(keep=4)

    first, second = compacted(session)
    after = texts(session)

    assert first["through_seq"] < second["through_seq"]
    assert second["messages_removed"] == 30
    assert len([text for text in after if text.startswith("<summary>")]) == 1
    assert "question 1?" in after[0]
    assert after[1:] == ["question 29?", "answer 29!", "question 30?", "answer 30!"]


def test_a_summariser_of_ones_own_is_given_what_is_told_and_what_was(session: Session) -> None:
    take_turns(session, 1, 3)
    scribe = Scribe("the first part")
    session.compact(keep=2, summariser=scribe)
    take_turns(session, 4, 5)
    scribe.text = "  all of it\n"
    session.compact(keep=2, summariser=scribe)

    (first, none, tokens), (second, earlier, _) = scribe.given
    assert (first, none) == (["question 1?", "answer 1!", "question 2?", "answer 2!"], None)
    assert second == ["question 3?", "answer 3!", "question 4?", "answer 4!"]
    assert (earlier, tokens) == ("the first part", 2_000)
    assert texts(session)[0] == "<summary>\nthe first part\n\nall of it\n</summary>"
    assert [told["by"] for told in compacted(session)] == ["scribe", "scribe"]


def test_a_summary_that_is_too_long_is_shortened(session: Session) -> None:
    take_turns(session, 1, 30)

    session.compact(700, keep=2, summariser=Scribe("word " * 20_000))

    assert session.context().tokens < 400


def broken(_: object, __: object, ___: object) -> str:
    raise OSError("the model is away")


def silent(_: object, __: object, ___: object) -> str:
    return "  "


def wordless(_: object, __: object, ___: object) -> Any:
    return {"text": "not a text"}


@pytest.mark.parametrize("summariser", [broken, silent, wordless])
def test_a_summariser_that_fails_is_replaced_and_that_is_said(
    session: Session, summariser: Any
) -> None:
    take_turns(session, 1, 15)

    header = session.compact(summariser=summariser)

    assert header is not None
    [told] = compacted(session)
    assert told["by"] == "structure"
    assert told["failure"]["class"] in {"OSError", "ValueError"}
    assert "question 1?" in texts(session)[0]


def test_a_turn_that_is_undone_while_a_summary_is_written_is_not_told_in_it(
    session: Session,
) -> None:
    take_turns(session, 1, 15)

    def slow(messages: Sequence[ModelMessage], _: str | None, __: int) -> str:
        session.undo(turns=14)
        return " ".join(message.text for message in messages)

    assert session.compact(keep=2, summariser=slow) is None
    assert texts(session) == ["question 1?", "answer 1!"]


def test_what_is_erased_while_a_summary_is_written_is_not_told_in_it(
    ledger: Ledger, session: Session
) -> None:
    take_turns(session, 1, 15)
    secret = next(header for header in session.headers() if header.summary == "question 2?")

    def slow(messages: Sequence[ModelMessage], _: str | None, __: int) -> str:
        ledger.redact(HERE, event_id=secret.event_id)
        return " ".join(message.text for message in messages)

    assert session.compact(keep=2, summariser=slow) is None
    assert compacted(session) == []
    assert session.compact(keep=2) is not None
    assert "question 2?" not in str(session.context().messages)


def test_turns_that_are_taken_while_a_summary_is_written_stay_as_they_are(session: Session) -> None:
    take_turns(session, 1, 15)

    def slow(_: Sequence[ModelMessage], __: str | None, ___: int) -> str:
        take_turns(session, 16, 17)
        return "fifteen turns"

    assert session.compact(keep=2, summariser=slow) is not None
    assert texts(session) == [
        "<summary>\nfifteen turns\n</summary>",
        *(text for n in range(15, 18) for text in (f"question {n}?", f"answer {n}!")),
    ]


def test_a_run_that_ends_while_a_summary_is_written_does_not_prevent_it(tmp_path: Path) -> None:
    location = tmp_path / "ledger.db"
    with treering.open(location) as ledger, treering.open(location) as other:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        take_turns(session, 1, 15)
        session.turn().start()

        def slow(_: Sequence[ModelMessage], __: str | None, ___: int) -> str:
            other.session("s1", scope=HERE, agent="lyria").interrupt("stop")
            return "fifteen turns"

        assert session.compact(keep=2, summariser=slow) is not None
        assert texts(session)[0] == "<summary>\nfifteen turns\n</summary>"


def test_the_safe_part_of_a_compaction_holds_no_text(session: Session) -> None:
    take_turns(session, 1, 15)

    header = session.compact(summariser=Scribe("secret"))

    assert header is not None
    assert "secret" not in header.summary + str(header.refs)
    assert header.refs["through_seq"] == compacted(session)[0]["through_seq"]


# What happens to a compaction later.


def test_a_summary_that_was_erased_makes_the_context_go_further_back(
    ledger: Ledger, session: Session
) -> None:
    take_turns(session, 1, 15)
    before = texts(session)
    first = session.compact(keep=4)
    take_turns(session, 16, 17)
    second = session.compact(keep=4)
    assert first is not None
    assert second is not None

    ledger.redact(HERE, event_id=second.event_id)
    assert len(texts(session)) == 1 + 8
    assert texts(session)[1] == "question 14?"

    ledger.redact(HERE, event_id=first.event_id)
    assert texts(session)[:30] == before
    assert len(texts(session)) == 34
    assert ledger.admin.verify().intact


def test_undo_of_a_turn_takes_back_the_compaction_behind_it(session: Session) -> None:
    take_turns(session, 1, 15)
    before = texts(session)
    session.compact(keep=2)

    session.undo()

    assert texts(session) == before[:-2]
    session.redo()
    assert texts(session)[1:] == before[-2:]
    assert texts(session)[0].startswith("<summary>")


def test_undo_reaches_across_a_compaction(session: Session) -> None:
    take_turns(session, 1, 10)
    session.compact(keep=2)
    take_turns(session, 11, 12)

    session.undo(turns=2)
    assert texts(session)[1:] == ["question 10?", "answer 10!"]
    session.undo(turns=5)
    assert texts(session) == [
        text for n in range(1, 6) for text in (f"question {n}?", f"answer {n}!")
    ]
    session.redo()
    session.redo()
    assert texts(session)[1:] == [
        text for n in range(10, 13) for text in (f"question {n}?", f"answer {n}!")
    ]


def test_what_is_redone_behind_a_compaction_is_shown(session: Session) -> None:
    take_turns(session, 1, 10)
    session.undo()
    session.compact(keep=1)

    session.redo()

    assert texts(session)[1:] == ["answer 9!", "question 10?", "answer 10!"]


@pytest.mark.parametrize("undone", [[1], [2], [1, 1]])
def test_what_is_redone_behind_a_compaction_is_shown_with_a_mark_in_between(
    session: Session, undone: list[int]
) -> None:
    take_turns(session, 1, 10)
    for turns in undone:
        session.undo(turns=turns)
    session.checkpoint("here")
    session.compact(keep=1)

    for _ in undone:
        session.redo()

    first, *rest = texts(session)
    redone = range(11 - sum(undone), 11)
    assert first.startswith("<summary>")
    assert rest[:-1] == [text for n in redone for text in (f"question {n}?", f"answer {n}!")]
    assert rest[-1] == "<checkpoint>\nhere\n</checkpoint>"


def test_what_can_be_redone_no_more_is_in_the_way_of_no_compaction(session: Session) -> None:
    take_turns(session, 1, 10)
    session.undo()
    take_turns(session, 11, 12)

    session.compact(keep=1)

    assert texts(session)[1:] == ["answer 12!"]


def test_a_fork_knows_the_compactions_before_its_cut_and_no_later_ones(session: Session) -> None:
    take_turns(session, 1, 10)
    session.compact(keep=4)
    child = session.fork("branch")
    take_turns(child, 11, 11)
    take_turns(session, 12, 13)
    session.compact(keep=1)

    assert texts(child)[1:] == [
        text for n in range(9, 12) for text in (f"question {n}?", f"answer {n}!")
    ]
    child.compact(keep=1)
    assert texts(child)[1:] == ["answer 11!"]
    assert len(child.history()) == 22


def test_a_fork_before_a_compaction_sees_all_of_it(session: Session) -> None:
    take_turns(session, 1, 10)
    early = next(header for header in session.headers() if header.summary == "question 9?")
    session.compact(keep=1)

    child = session.fork(at=early.event_id)

    assert len(texts(child)) == 18


@pytest.mark.parametrize(
    "payload",
    [None, {}, {"summary": "x"}, {"summary": 1, "through_seq": 3},
     {"summary": "x", "through_seq": 9_999}, {"summary": "x", "through_seq": "3"}],
)  # fmt: skip
def test_a_compaction_that_says_nothing_sensible_replaces_nothing(
    session: Session, payload: Any
) -> None:
    take_turns(session, 1, 3)
    session.record("context.compacted", "compacted elsewhere", payload=payload)

    assert len(texts(session)) == 6


# What others hear of it.


class Listener:
    """A sink that remembers envelopes."""

    name = "listener"
    accepts = ("*",)

    def __init__(self) -> None:
        self.heard: list[Envelope] = []

    def handle(self, event: SafeEvent, /) -> None:
        envelope = event.envelope()
        if envelope is not None:
            self.heard.append(envelope)


def phases(listener: Listener) -> list[tuple[str, str, int]]:
    """Return the phases that were heard, with the run and the number that each has in it."""
    return [
        (one.payload.phase, one.run_id, one.seq)
        for one in listener.heard
        if isinstance(one, CompactionPhase)
    ]


def test_a_compaction_has_envelopes_in_a_run_of_its_own(ledger: Ledger, session: Session) -> None:
    listener = Listener()
    ledger.spine([listener])
    take_turns(session, 1, 30)

    session.compact()
    assert ledger.spine().flush(60)

    *_, started, first, last, ended = listener.heard
    kinds = [one.kind for one in (started, first, last, ended)]
    assert kinds == ["lifecycle.started", "compaction.phase", "compaction.phase", "lifecycle.ended"]
    assert {one.run_id for one in (first, last, ended)} == {started.run_id}
    assert {one.source for one in (started, first, last, ended)} == {"kernel"}
    assert isinstance(first, CompactionPhase)
    assert isinstance(last, CompactionPhase)
    assert (first.payload.phase, last.payload.phase) == ("start", "end")
    assert first.payload.messages == last.payload.messages == 40
    assert last.payload.tokens_before > last.payload.tokens_after > 0


def test_a_compaction_after_a_turn_has_envelopes(ledger: Ledger, session: Session) -> None:
    listener = Listener()
    ledger.spine([listener])
    take_turns(session, 1, 30)
    with session.turn() as turn:
        turn.user("question 31?")
        turn.context(max_tokens=300)
        turn.assistant("answer 31!")
    assert ledger.spine().flush(60)

    (first, run_id, _), (last, same, _) = phases(listener)
    assert (first, last) == ("start", "end")
    assert run_id == same != turn.run_id


def test_a_compaction_within_a_turn_is_part_of_it_and_outlives_its_failure(
    ledger: Ledger, session: Session
) -> None:
    listener = Listener()
    ledger.spine([listener])
    take_turns(session, 1, 30)

    turn = session.turn()
    turn.start()
    turn.user("question 31?")
    session.compact()
    turn.fail("no")
    assert ledger.spine().flush(60)

    assert phases(listener) == [("start", turn.run_id, 3), ("end", turn.run_id, 4)]
    assert len(texts(session)) == 21
    assert [one.run_id for one in session.headers() if one.kind == "context.compacted"] == [None]


def test_a_compaction_is_no_run_of_the_turn_before_it(session: Session) -> None:
    take_turns(session, 1, 30)
    turn = session.turn()
    turn.start()
    turn.user("question 31?")
    turn.fail("no")
    session.compact()

    last = list(session.turns())[-1]

    assert (last.state, last.run_ids) == ("failed", (turn.run_id,))


def test_undo_after_a_compaction_hides_the_turn_before_it(session: Session) -> None:
    take_turns(session, 1, 30)
    session.compact()

    session.undo()

    assert texts(session)[-1] == "answer 29!"


def test_a_fork_in_a_run_that_was_compacted_in_between_waits_for_its_end(session: Session) -> None:
    take_turns(session, 1, 30)
    with session.turn() as turn:
        turn.user("question 31?")
        mark = session.record("ops.decision", "decided")
        session._append(as_run(session.template, [], 0), mark.seq)
        late = session.record("ops.decision", "decided again")

        with pytest.raises(InvalidInput, match="has not ended"):
            session.fork(at=late.event_id)


@pytest.mark.parametrize("make", [HookSink, PrivateHookSink])
def test_hooks_are_told_of_a_compaction_and_not_of_an_agent_s_end(
    ledger: Ledger, session: Session, make: Callable[[Hooks], HookSink | PrivateHookSink]
) -> None:
    hooks = Hooks()
    told: list[str] = []
    for name in ("before_compaction", "after_compaction", "agent_end"):
        hooks.on(name)(partial(_note, told, name))
    hooks.on_internal("session:compact:after")(partial(_note, told, "internal"))
    take_turns(session, 1, 30)
    ledger.spine([make(hooks)])

    session.compact()
    assert ledger.spine().flush(60)

    assert told == ["before_compaction", "after_compaction", "internal"]


def _note(told: list[str], name: str, _: dict[str, Any]) -> None:
    told.append(name)
