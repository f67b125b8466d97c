"""Gates: sinks that have a say before things happen."""

from __future__ import annotations

import contextlib
from asyncio import CancelledError
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from listeners import SCOPE, SOON, Listener
from treering.spine.ports import Gate, Occasion, Preparation, Verdict

if TYPE_CHECKING:
    from treering import Ledger
    from treering.spine.runs import Run


class Warden(Listener):
    """A gate that answers what it was told to, and notes what it was asked."""

    def __init__(self, name: str = "warden", **answers: Any) -> None:
        super().__init__(name)
        self._answers = answers
        self.asked: list[tuple[Any, ...]] = []
        self.occasions: list[Occasion] = []

    def before_run(self, occasion: Occasion, prompt: str | None, /) -> Preparation:
        return self._answer(occasion, Preparation(), "before_run", prompt)  # type: ignore[no-any-return]

    def before_tool(self, occasion: Occasion, tool: str, call_id: str, input: Any, /) -> Verdict:  # noqa: A002
        return self._answer(occasion, Verdict(), "before_tool", tool, call_id, input)  # type: ignore[no-any-return]

    def before_sending(self, occasion: Occasion, text: str, to: str | None, /) -> Verdict:
        return self._answer(occasion, Verdict(), "before_sending", text, to)  # type: ignore[no-any-return]

    def persist(
        self,
        occasion: Occasion,
        tool: str,
        call_id: str,
        output: Any,
        /,
        *,
        is_error: bool,
        is_synthetic: bool,
    ) -> Any:
        question = ("persist", tool, call_id, output, is_error, is_synthetic)
        return self._answer(occasion, output, *question)

    def _answer(self, occasion: Occasion, usual: Any, name: str, *question: Any) -> Any:
        self.asked.append((name, *question))
        self.occasions.append(occasion)
        answer = self._answers.get(name, usual)
        if isinstance(answer, BaseException):
            raise answer
        return answer(*question) if callable(answer) else answer

    def asked_of(self, name: str) -> list[tuple[Any, ...]]:
        """Return the questions of one sort."""
        return [question[1:] for question in self.asked if question[0] == name]


def turn_with(book: Ledger, *gates: Warden) -> Run:
    """Return a run under the eyes of ``gates``."""
    book.spine(gates)
    return book.session("s", scope=SCOPE, agent="lyria", key="tg:1").turn()


def test_a_warden_is_a_gate_and_a_listener_is_none() -> None:
    assert isinstance(Warden(), Gate)
    assert not isinstance(Listener(), Gate)


def test_a_gate_is_told_which_run_it_is_asked_about_and_hears_of_it_as_a_sink(book: Ledger) -> None:
    warden = Warden()

    with turn_with(book, warden) as turn, turn.tool("look", {"at": "sky"}, call_id="c1") as call:
        call.finish("blue")
    book.spine().flush(SOON)

    assert set(warden.occasions) == {
        Occasion(
            scope=SCOPE, session_id="s", session_key="tg:1", agent_id="lyria", run_id=turn.run_id
        )
    }
    assert warden.asked == [
        ("before_run", None),
        ("before_tool", "look", "c1", {"at": "sky"}),
        ("persist", "look", "c1", "blue", False, False),
    ]
    assert [event.kind for event in warden.heard][-4:] == [
        "run.started",
        "tool.call",
        "tool.result",
        "run.ended",
    ]


def test_the_last_system_prompt_counts_and_every_context_is_put_before(book: Ledger) -> None:
    gates = [
        Warden("a", before_run=Preparation(system_prompt="be kind", prepend_context="it rains")),
        Warden("b", before_run=Preparation(prepend_context="it is late")),
        Warden("c", before_run=Preparation(system_prompt="be brief")),
        Warden("d"),
    ]

    with turn_with(book, *gates) as turn:
        assert turn.system_prompt == "be brief"
        assert turn.prepend_context == "it rains\n\nit is late"


def test_each_gate_sees_the_input_that_the_one_before_left(book: Ledger) -> None:
    first = Warden("first", before_tool=Verdict(content={"path": "/safe"}))
    second = Warden("second")

    with turn_with(book, first, second) as turn:
        call = turn.tools.started("read", {"path": "/etc"}, call_id="c1")
        call.finish("ok")

    assert call.input == {"path": "/safe"}
    assert second.asked_of("before_tool") == [("read", "c1", {"path": "/safe"})]
    [kept] = [e for e in turn.session.events() if e.kind == "tool.call"]
    assert kept.payload["input"] == {"path": "/safe"}


def test_a_blocked_tool_is_recorded_and_refused_and_nobody_else_is_asked(book: Ledger) -> None:
    first = Warden("first", before_tool=Verdict(blocked=True, reason="not on Sundays"))
    second = Warden("second")

    turn = turn_with(book, first, second)
    with turn, pytest.raises(treering.errors.ToolDenied, match="not on Sundays"):
        turn.tools.started("read", {}, call_id="c1")

    assert not second.asked_of("before_tool")
    kinds = [header.kind for header in book.headers(SCOPE).items]
    assert kinds[2:-1] == ["tool.call", "ops.blocked", "tool.result"]


def test_a_message_is_sent_as_the_gates_left_it_or_not_at_all(book: Ledger) -> None:
    shouting = Warden("loud", before_sending=lambda text, _: Verdict(content=text.upper()))
    strict = Warden("strict", before_sending=lambda text, _: Verdict(blocked="FORBIDDEN" in text))
    sent: list[str] = []

    with turn_with(book, shouting, strict) as turn:
        assert turn.deliver("hello", to="john", send=sent.append)
        assert turn.deliver("forbidden words", to="john", send=sent.append) is None

    assert sent == ["HELLO"]
    assert strict.asked_of("before_sending") == [("HELLO", "john"), ("FORBIDDEN WORDS", "john")]


def test_every_result_is_shown_to_each_gate_once_before_it_is_kept(book: Ledger) -> None:
    """Apply tool-result hooks once, consistently: real, failed and synthetic results."""
    first = Warden("first", persist=lambda *asked: f"<{asked[2]}>")
    second = Warden("second")

    with turn_with(book, first, second) as turn:
        turn.tools.started("a", call_id="ok").finish("fine")
        turn.tools.started("b", call_id="failed").fail("broken")
        turn.tools.started("c", call_id="given up").give_up("timeout")
        turn.tools.started("d", call_id="open")

    asked = second.asked_of("persist")
    assert [(call_id, is_error, is_synthetic) for _, call_id, _, is_error, is_synthetic in asked] \
        == [("ok", False, False), ("failed", True, False), ("given up", True, True), ("open", True, True)]  # noqa: E501  # fmt: skip
    assert [output for _, _, output, *_ in asked][:2] == ["<fine>", "<broken>"]
    assert len(first.asked_of("persist")) == 4
    results = [e.payload for e in book.events(SCOPE, kinds=["tool.result"]).items]
    assert [result["status"] for result in results] == ["ok", "failed", "synthetic", "synthetic"]
    assert results[0]["output"] == "<fine>"


# Gates that fail.


class Odd(BaseException):
    """Not an Exception, and no way to end a program either."""


ODD: Final = [Odd("broken"), GeneratorExit(), CancelledError(), StopIteration(1)]


@pytest.mark.parametrize("asked", ["before_run", "before_tool", "before_sending", "persist"])
@pytest.mark.parametrize("answer", ODD, ids=repr)
def test_no_gate_takes_the_run_with_it_whatever_it_raises(
    book: Ledger, asked: str, answer: BaseException
) -> None:
    answers: dict[str, Any] = {asked: answer}
    with turn_with(book, Warden(**answers)) as turn:
        with contextlib.suppress(treering.errors.ToolDenied):
            turn.tools.started("look", call_id="c1").finish("blue")
        turn.deliver("hello")

    assert turn.state == "ended"


class Sealed(dict[str, str]):
    """It can be encoded, and not be looked into."""

    def items(self) -> Any:
        raise Odd


def test_a_tool_gets_the_input_of_a_gate_as_plain_json(book: Ledger) -> None:
    given = Verdict(content={"path": Sealed(a="/safe")})
    with turn_with(book, Warden(before_tool=given)) as turn:
        call = turn.tools.started("read", {"path": {"a": "/etc"}})
        call.finish("ok")

    assert call.input == {"path": {"a": "/safe"}}
    assert type(call.input["path"]) is dict
    assert turn.state == "ended"


def test_what_a_gate_says_in_other_types_is_taken_for_text(book: Ledger) -> None:
    asked = Preparation(system_prompt=5, prepend_context=["it rains"])  # type: ignore[arg-type]
    denied = Verdict(blocked=True, reason={"day": "\ud800"})  # type: ignore[arg-type]
    with turn_with(book, Warden(before_run=asked, before_tool=denied)) as turn:
        assert (turn.system_prompt, turn.prepend_context) == ("5", '["it rains"]')
        with pytest.raises(treering.errors.ToolDenied, match="day"):
            turn.tools.started("look")

    assert turn.state == "ended"


@pytest.mark.parametrize("answer", [RuntimeError("broken"), None, "yes"], ids=repr)
def test_a_gate_that_fails_before_a_run_adds_nothing(book: Ledger, answer: Any) -> None:
    gates = [Warden("a", before_run=answer), Warden("b", before_run=Preparation(system_prompt="x"))]

    with turn_with(book, *gates) as turn:
        assert turn.system_prompt == "x"

    assert turn.state == "ended"


@pytest.mark.parametrize(
    "answer", [RuntimeError("broken"), None, Verdict(content={1, 2})], ids=repr
)
def test_a_tool_that_a_failing_gate_should_have_allowed_is_held_back(
    book: Ledger, answer: Any
) -> None:
    turn = turn_with(book, Warden(before_tool=answer))
    with turn, pytest.raises(treering.errors.ToolDenied, match="a gate failed"):
        turn.tools.started("rm", {"path": "/"})

    assert turn.state == "ended"


def test_a_message_that_a_failing_gate_should_have_allowed_is_held_back(book: Ledger) -> None:
    sent: list[str] = []

    with turn_with(book, Warden(before_sending=RuntimeError("broken"))) as turn:
        assert turn.deliver("hello", send=sent.append) is None

    assert not sent


@pytest.mark.parametrize(
    "answer", [RuntimeError("broken"), lambda *_: object(), lambda *_: float("nan")]
)
def test_a_result_is_kept_even_if_a_gate_fails_over_it(book: Ledger, answer: Any) -> None:
    """Every start has exactly one outcome, and what the tool said is not lost."""
    with turn_with(book, Warden("a", persist=answer), Warden("b")) as turn:
        turn.tools.started("look", call_id="c1").finish("blue")

    [result] = book.events(SCOPE, kinds=["tool.result"]).items
    assert (result.payload["status"], result.payload["output"]) == ("ok", "blue")


def test_what_fails_in_a_gate_is_told_in_the_log(
    book: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    with turn_with(book, Warden(persist=RuntimeError("broken"))) as turn:
        turn.tools.started("look").finish("blue")

    assert "persist of gate warden: RuntimeError: broken" in caplog.text


def test_ctrl_c_in_a_gate_is_not_the_gates_to_swallow(book: Ledger) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        turn_with(book, Warden(before_tool=KeyboardInterrupt())) as turn,
    ):
        turn.tools.started("look")

    assert turn.state == "interrupted"
