"""Whatever the messages are, every provider takes them, and nothing is lost or made up."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from hypothesis import given
from hypothesis import strategies as st

from context.legality import GEMINI_NAME, NAME, check_legal
from context.model_messages import model_messages, texts, tools
from context.provider_types import check_types
from context.told import Told, told, told_system
from treering.context.dialects import CONTINUED, DIALECTS, NO_OUTPUT, Dialect, render
from treering.context.dialects.turns import COMMON, GEMINI, NameRule, spell_names
from treering.model.codec import encode
from treering.model.messages import AssistantMessage, ModelMessage, Result

if TYPE_CHECKING:
    from collections.abc import Sequence


STRICT_TURNS: Final = ("anthropic", "gemini", "plain")


@given(messages=model_messages(), system=texts, dialect=st.sampled_from(DIALECTS))
def test_whatever_the_messages_are_the_provider_takes_them(
    messages: list[ModelMessage], system: str, dialect: Dialect
) -> None:
    request = render(messages, system=system, dialect=dialect).request()

    check_legal(dialect, request)
    check_types(dialect, request)


@given(messages=model_messages(), system=texts, dialect=st.sampled_from(DIALECTS))
def test_all_that_was_said_is_told_in_order_and_nothing_else(
    messages: list[ModelMessage], system: str, dialect: Dialect
) -> None:
    request = render(messages, system=system, dialect=dialect).request()

    assert told(dialect, request) == expected(dialect, messages)
    assert told_system(dialect, request) == (system if system.strip() else None)


@given(messages=model_messages(), dialect=st.sampled_from(DIALECTS))
def test_the_same_messages_are_told_the_same_way(
    messages: list[ModelMessage], dialect: Dialect
) -> None:
    assert render(messages, dialect=dialect) == render(tuple(messages), dialect=dialect)


@given(
    names=st.lists(tools, unique=True).flatmap(
        lambda found: st.tuples(st.just(found), st.permutations(found))
    ),
    rule=st.sampled_from((COMMON, GEMINI)),
)
def test_names_are_legal_distinct_and_free_of_order(
    names: tuple[list[str], list[str]], rule: NameRule
) -> None:
    pattern = GEMINI_NAME if rule is GEMINI else NAME

    spelled = spell_names(names[0], rule)

    assert spelled == spell_names(names[1], rule)
    assert spelled.keys() == set(names[0])
    assert len(set(spelled.values())) == len(spelled)
    assert all(pattern.fullmatch(name) for name in spelled.values())
    assert all(spelled[tool] == tool for tool in spelled if pattern.fullmatch(tool))


def expected(dialect: Dialect, messages: Sequence[ModelMessage]) -> list[Told]:
    """Return what a request has to tell of ``messages``."""
    found: list[Told] = []
    for message in messages:
        speaks = isinstance(message, AssistantMessage)
        if message.text.strip():
            found.append(("assistant" if speaks else "user", message.text))
        if isinstance(message, AssistantMessage):
            found += [("call", call.call_id, _object(call.arguments)) for call in message.calls]
            found += [_expected_result(dialect, result) for result in message.results]
    if not found or (dialect in STRICT_TURNS and found[0][0] != "user"):
        found.insert(0, ("user", CONTINUED))
    if dialect == "anthropic" and found[-1][0] == "assistant":
        found[-1] = ("assistant", found[-1][1].rstrip())
    return _in_words(messages, found) if dialect == "plain" else found


def _object(arguments: Any) -> Any:
    if arguments is None:
        return {}
    return arguments if isinstance(arguments, dict) else {"input": arguments}


def _expected_result(dialect: Dialect, result: Result) -> Told:
    output = result.output if result.output.strip() else NO_OUTPUT
    if not dialect.startswith("openai"):
        return ("result", result.call_id, output, result.is_error)
    says_so = output.strip().lower().startswith("error")
    output = f"Error: {output}" if result.is_error and not says_so else output
    return ("result", result.call_id, output, False)


def _in_words(messages: Sequence[ModelMessage], found: list[Told]) -> list[Told]:
    names = {
        call.call_id: call.tool
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
    }

    def worded(one: Told) -> tuple[str, str]:
        match one:
            case ("call", call_id, arguments):
                given = encode(arguments).decode()
                return "assistant", f"[tool call {call_id}] {names[call_id]} {given}"
            case ("result", call_id, output, is_error):
                sort = "error" if is_error else "result"
                return "user", f"[tool {sort} {call_id}] {names[call_id]}\n{output}"
            case _:
                return one[0], one[1]

    turns = groupby(map(worded, found), key=lambda one: one[0])
    return [(role, "\n\n".join(text for _, text in turn)) for role, turn in turns]
