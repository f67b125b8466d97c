"""Apeira's Episodic: every line on turn isolation, model input and plugins, on a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from builders import HERE, exchange, said
from context.legality import check_legal
from treering.context.dialects import DIALECTS

if TYPE_CHECKING:
    from treering import Ledger, Session
    from treering.ledger.contexts import Working
    from treering.model.kinds import Boundary


@pytest.fixture
def session(ledger: Ledger) -> Session:
    """Return a session with one turn behind it."""
    session = ledger.session("s1", scope=HERE, agent="lyria")
    take_turn(session, "one")
    return session


def take_turn(session: Session, name: str) -> None:
    exchange(session, f"{name}?", f"{name}!")


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [str(message["content"]) for message in messages]


def codes(context: Any) -> list[str]:
    return [repair.code for repair in context.report]


# Turn isolation.


def test_every_turn_begins_with_the_committed_log(session: Session) -> None:
    """Every turn runs against a working Episodic fork: … copies the committed session log."""
    with session.turn() as turn:
        assert texts(turn.context().messages) == ["one?", "one!"]


def test_input_and_output_go_to_the_working_log(session: Session) -> None:
    """The turn input and model output append to the working log."""
    with session.turn() as turn:
        turn.user("two?")
        turn.assistant("two!")
        assert texts(turn.context().messages) == ["one?", "one!", "two?", "two!"]
        assert texts(session.context().messages) == ["one?", "one!"]


def test_on_success_what_is_new_merges_into_the_session(session: Session) -> None:
    """On success, new working episodes merge into the session log."""
    take_turn(session, "two")

    assert texts(session.context().messages) == ["one?", "one!", "two?", "two!"]
    assert texts(session.history()) == ["one?", "one!", "two?", "two!"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_on_failure_or_abort_the_working_log_is_discarded(
    session: Session, error: type[BaseException]
) -> None:
    """On failure or abort, the working log is discarded."""

    def work() -> None:
        with session.turn() as turn:
            turn.user("two?")
            raise error

    with pytest.raises(error):
        work()

    assert texts(session.context().messages) == ["one?", "one!"]
    assert texts(session.history()) == ["one?", "one!"]


def test_interrupt_leaves_a_boundary_that_the_next_turn_sees(session: Session) -> None:
    """interrupt() … writes an interrupt boundary to the committed session log."""
    aborted = session.turn()
    aborted.start()
    aborted.user("two?")

    mark = session.interrupt()

    assert mark is not None
    assert (mark.kind, mark.run_id) == ("boundary.interrupt", None)
    assert aborted.interrupted
    with session.turn() as turn:
        turn.user("three?")
        shown = texts(turn.context().messages)
    assert [text.split("\n")[0] for text in shown] == ["one?", "one!", "<interrupt>", "three?"]


# Model input assembly.


def test_what_is_visible_is_selected_extended_and_normalised(session: Session) -> None:
    """Apeira selects visible episodes, adds temporary plugin input …, and normalizes."""
    session.record("ops.observation", "not a message")
    session.record("usage.reported", "nor this", payload={"input_tokens": 3})

    for dialect in DIALECTS:
        context = session.context(dialect=dialect, contributors=[Journal()])
        check_legal(dialect, context.request)
        assert "User prefers concise answers." in str(context.messages)
        assert "not a message" not in str(context.messages)


def test_the_budget_goes_by_what_the_last_turn_used(session: Session) -> None:
    """A coarse budget heuristic based on the previous turn's … usage metadata."""
    before = session.context(10_000)
    for number in range(3):
        with session.turn() as turn:
            turn.user(f"{number}?")
            estimated = turn.context(10_000).estimated_tokens
            turn.emit("usage.reported", {"model": "opus", "input_tokens": estimated * 2})

    after = session.context(10_000)

    assert before.tokens == pytest.approx(before.estimated_tokens, abs=20)
    assert after.tokens > after.estimated_tokens * 1.5


@pytest.mark.parametrize("reason", ["checkpoint", "interrupt"])
def test_over_budget_it_restarts_from_the_nearest_boundary(
    session: Session, reason: Boundary
) -> None:
    """It attempts to restart from the nearest checkpoint or interrupt boundary."""
    take_turn(session, "long " * 2_000)
    session.boundary(reason, "an earlier one")
    take_turn(session, "long " * 2_000)
    session.boundary(reason, "the nearest one")
    take_turn(session, "last")

    context = session.context(800)

    assert "restarted" in codes(context)
    shown = texts(context.messages)
    assert f"<{reason}>\nthe nearest one\n</{reason}>" in shown
    assert "an earlier one" not in "".join(text for text in shown if text.startswith(f"<{reason}"))


def test_without_such_a_boundary_it_keeps_the_current_turn(session: Session) -> None:
    """If there is no such boundary, it keeps the current turn's episodes."""
    take_turn(session, "long " * 2_000)
    with session.turn() as turn:
        turn.user("now?")
        context = turn.context(200)

    assert texts(context.messages)[-1] == "now?"
    assert "long long" not in "".join(
        text for text in texts(context.messages) if not text.startswith("<summary>")
    )


def test_where_nothing_fits_no_history_is_shown(session: Session) -> None:
    """Otherwise it returns no historical episodes."""
    context = session.context(0)

    assert (context.messages, context.event_ids) == ([], [])
    assert "budget_too_small" in codes(context)


@pytest.mark.parametrize("reason", ["checkpoint", "interrupt", "overflow"])
def test_some_boundaries_become_messages(session: Session, reason: Boundary) -> None:
    """checkpoint, interrupt, and overflow become model-visible messages."""
    session.boundary(reason, "a title", "a story")

    assert session.context().messages[-1] == {
        "role": "user",
        "content": f"<{reason}>\na story\n</{reason}>",
    }


@pytest.mark.parametrize("reason", ["intent", "segment"])
def test_some_boundaries_are_not_injected(
    ledger: Ledger, session: Session, reason: Boundary
) -> None:
    """Intent and segment remain audit/query boundaries and are not injected."""
    session.boundary(reason, "a title", "a story")

    assert texts(session.context().messages) == ["one?", "one!"]
    assert len(ledger.headers(HERE, kinds=[f"boundary.{reason}"]).items) == 1


def test_outputs_stay_paired_with_their_calls(ledger: Ledger, session: Session) -> None:
    """Normalize keeps function-call outputs paired with function calls."""
    call = {"call_id": "c1", "name": "look", "input": {}}
    result = {"call_id": "c1", "output": "seen"}
    ledger.append(
        [
            said("two?"),
            said("look", kind="tool.call", payload=call),
            said("three?"),
            said("seen", kind="tool.result", payload=result),
        ]
    )

    messages = session.context().messages

    at = next(at for at, message in enumerate(messages) if message.get("tool_calls"))
    assert messages[at + 1] == {"role": "tool", "tool_call_id": "c1", "content": "seen"}


def test_orphan_outputs_are_dropped(ledger: Ledger, session: Session) -> None:
    """Orphan outputs are dropped."""
    result = {"call_id": "unknown", "output": "seen"}
    ledger.append([said("seen", kind="tool.result", payload=result)])

    context = session.context()

    assert texts(context.messages) == ["one?", "one!"]
    assert codes(context) == ["orphan_result"]


@pytest.mark.parametrize("length", [8_000, 8_100, 50_000])
def test_long_outputs_are_shortened_in_the_middle(session: Session, length: int) -> None:
    """Tool outputs longer than 8,000 characters … first and last 4,000 … omission marker."""
    output = "".join(chr(ord("a") + at % 26) for at in range(length))
    with session.turn() as turn:
        turn.user("two?")
        with turn.tool("read") as call:
            call.finish(output)

    shown = next(one for one in session.context().messages if one["role"] == "tool")["content"]

    assert (shown == output) == (length <= 8_000)
    assert shown.startswith(output[:4_000])
    assert shown.endswith(output[-4_000:])
    assert len(shown) <= 8_000 + 100


# Plugins.


class Journal:
    """A contributor that says what the user prefers."""

    name = "journal"

    def extend(self, _: Working) -> Any:
        return [{"role": "user", "content": "User prefers concise answers."}]


class RecentItems:
    """A contributor that looks at the working log."""

    name = "recent-items"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def extend(self, working: Working) -> Any:
        self.seen = [event.summary for event in working.events(last=6)]


class Diarist:
    """A contributor that appends what it wants to keep."""

    name = "diarist"

    def extend(self, working: Working) -> Any:
        working.append("ops.observation", {"note": "kept"}, summary="a note")
        return "shown once"


def test_a_plugin_receives_the_working_log(session: Session) -> None:
    """ExtendInput receives the working episodic log: episodic.read({ limit: 6, type: 'item' })."""
    plugin = RecentItems()
    with session.turn() as turn:
        turn.user("two?")
        turn.context(contributors=[plugin])

    assert plugin.seen == ["one?", "one!", "two?"]


def test_a_plugin_can_return_temporary_input(session: Session) -> None:
    """ExtendInput can also return temporary model input."""
    with session.turn() as turn:
        turn.user("two?")
        context = turn.context(contributors=[Journal()])

    assert texts(context.messages) == ["one?", "one!", "User prefers concise answers.", "two?"]
    assert [one.name for one in context.contributed] == ["journal"]


def test_returned_input_affects_only_that_call(session: Session) -> None:
    """Returned input affects only that model call. It does not mutate the session log."""
    with session.turn() as turn:
        turn.user("two?")
        turn.context(contributors=[Journal()])
        assert texts(turn.context().messages) == ["one?", "one!", "two?"]

    told = "".join(f"{event.summary}{event.payload}{event.refs}" for event in session.events())
    assert "concise" not in told
    assert "concise" not in str(session.history())


def test_a_plugin_may_append_explicitly(session: Session) -> None:
    """Unless the plugin explicitly appends episodes."""
    with session.turn() as turn:
        turn.user("two?")
        turn.context(contributors=[Diarist()])

    kept = [event for event in session.events() if event.kind == "ops.observation"]
    assert [(event.payload, event.run_id) for event in kept] == [({"note": "kept"}, turn.run_id)]
    assert "shown once" not in str([event.payload for event in session.events()])
