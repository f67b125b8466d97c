"""Messages for tests: built by hand, or any that a timeline could make."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from treering.context.dialects import CONTINUED, NO_OUTPUT
from treering.model.messages import AssistantMessage, Call, ModelMessage, Result, UserMessage


def user(text: str) -> UserMessage:
    return UserMessage(text=text, seq=1)


def assistant(text: str = "", *calls: tuple[Call, Result]) -> AssistantMessage:
    return AssistantMessage(
        text=text,
        seq=1,
        calls=tuple(call for call, _ in calls),
        results=tuple(result for _, result in calls),
    )


def called(
    call_id: str,
    output: str = "seen",
    *,
    tool: str = "look",
    arguments: Any = None,
    is_error: bool = False,
) -> tuple[Call, Result]:
    return (
        Call(call_id=call_id, tool=tool, arguments=arguments, event_id="e"),
        Result(call_id=call_id, tool=tool, output=output, is_error=is_error),
    )


BLANKS: Final = ("", " ", "\n\t", "\u00a0", "\u2028", "\x1c")
TELLING: Final = ("Error: no", "error", "so \n", " so", CONTINUED, NO_OUTPUT)
LEGAL_NAMES: Final = ("look", "web_look", "1st", "-", "n" * 64)
ODD_NAMES: Final = ("web.look", "mcp:look", "web look", "look\n", "", "n" * 65, "n" * 66, "1" * 65)

texts = st.text(max_size=20) | st.sampled_from(BLANKS) | st.sampled_from(TELLING)
tools = st.text(max_size=4) | st.sampled_from(LEGAL_NAMES) | st.sampled_from(ODD_NAMES)
keys = st.text(max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | keys,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def model_messages(draw: st.DrawFn) -> list[ModelMessage]:
    """Return messages such as any timeline could make: each call with a result, no id twice."""
    messages: list[ModelMessage] = []
    prefix = draw(st.sampled_from(("c", "call_", "A-" * 18)))
    number = 0
    for speaks in draw(st.lists(st.booleans(), max_size=8)):
        calls = []
        for tool in draw(st.lists(tools, max_size=3)) if speaks else ():
            number += 1
            calls.append(
                called(
                    f"{prefix}{number}",
                    draw(texts),
                    tool=tool,
                    arguments=draw(json_values),
                    is_error=draw(st.booleans()),
                )
            )
        messages.append(assistant(draw(texts), *calls) if speaks else user(draw(texts)))
    return messages
