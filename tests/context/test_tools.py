"""Tools go with the request, declared as its provider wants them, whatever shape they came in."""

from __future__ import annotations

from typing import Any, Final

import pytest

from builders import HERE
from context.legality import check_legal
from context.provider_types import check_types
from treering import InvalidInput, Ledger, Session
from treering.context.dialects import DIALECTS

SCHEMA: Final = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "type": {"type": "string"}},
    "required": ["path"],
}
GOOGLES: Final = {
    "type": "OBJECT",
    "properties": {"path": {"type": "STRING"}, "type": {"type": "STRING"}},
    "required": ["path"],
}
NAMED: Final = {"name": "read", "description": "Reads a file."}
SHAPES: Final[dict[str, Any]] = {
    "anthropic": [{**NAMED, "input_schema": SCHEMA}],
    "custom": [{"type": "custom", **NAMED, "input_schema": SCHEMA}],
    "chat": [{"type": "function", "function": {**NAMED, "parameters": SCHEMA}}],
    "responses": [{"type": "function", **NAMED, "parameters": SCHEMA}],
    "gemini": [{"functionDeclarations": [{**NAMED, "parameters": GOOGLES}]}],
    "gemini sdk": [{"function_declarations": [{**NAMED, "parameters_json_schema": SCHEMA}]}],
    "mcp": [{**NAMED, "inputSchema": SCHEMA}],
    "bare": [{**NAMED, "parameters": SCHEMA}],
}
DECLARED: Final[dict[str, Any]] = {
    "anthropic": [{**NAMED, "input_schema": SCHEMA}],
    "openai-chat": [{"type": "function", "function": {**NAMED, "parameters": SCHEMA}}],
    "openai-responses": [{"type": "function", **NAMED, "parameters": SCHEMA, "strict": False}],
    "gemini": [{"function_declarations": [{**NAMED, "parameters_json_schema": SCHEMA}]}],
}


@pytest.fixture
def session(ledger: Ledger) -> Session:
    session = ledger.session("s1", scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user("What is in a.txt?")
        with turn.tool("read", {"path": "a.txt"}, call_id="c1") as call:
            call.finish("seen")
    return session


def tools_of(request: dict[str, Any]) -> Any:
    return request.get("config", request).get("tools")


@pytest.mark.parametrize("dialect", DECLARED)
@pytest.mark.parametrize("shape", SHAPES)
def test_tools_of_any_shape_are_declared_in_that_of_the_dialect(
    session: Session, shape: str, dialect: str
) -> None:
    tools: Any = SHAPES[shape]

    context = session.context(8_000, dialect=dialect, tools=tools)

    assert tools_of(context.request) == DECLARED[dialect]
    check_legal(dialect, context.request)
    check_types(dialect, context.request)
    assert context.tokens > session.context(8_000, dialect=dialect).tokens


def test_a_turn_sends_them(session: Session) -> None:
    with session.turn() as turn:
        turn.user("And now?")

        context = turn.context(8_000, tools=SHAPES["mcp"])

    assert tools_of(context.request) == DECLARED["openai-chat"]


@pytest.mark.parametrize("dialect", DECLARED)
def test_a_tool_that_takes_nothing_has_a_schema_all_the_same(
    session: Session, dialect: str
) -> None:
    context = session.context(8_000, dialect=dialect, tools=["now", {"name": "then"}])

    check_legal(dialect, context.request)
    check_types(dialect, context.request)


@pytest.mark.parametrize("dialect", DECLARED)
def test_a_tool_is_declared_under_the_name_that_it_is_called_by(
    ledger: Ledger, dialect: str
) -> None:
    session = ledger.session("s2", scope=HERE, agent="lyria")
    with session.turn() as turn:
        turn.user("Look.")
        turn.tools.started("web look", {}, call_id="c1").finish("seen")

    context = session.context(
        8_000, dialect=dialect, tools=[{"name": "web look"}, {"name": "web_look"}]
    )

    check_legal(dialect, context.request)
    names = names_in(tools_of(context.request))
    assert len(set(names)) == 2
    assert called_in(context.request) == names[0]


def names_in(tools: Any) -> list[str]:
    if "function_declarations" in tools[0]:
        return [one["name"] for one in tools[0]["function_declarations"]]
    return [one.get("function", one)["name"] for one in tools]


def called_in(value: Any) -> str | None:
    """Return the name of the first tool that is called in a request."""
    if isinstance(value, list):
        return next((name for one in value if (name := called_in(one))), None)
    if not isinstance(value, dict):
        return None
    if value.get("type") in {"tool_use", "function_call"}:
        return str(value["name"])
    for key in ("function", "function_call"):
        if isinstance(value.get(key), dict) and "parameters" not in value[key]:
            return str(value[key]["name"])
    return called_in([one for key, one in value.items() if key not in {"tools", "config"}])


OWN: Final[Any] = (
    ("anthropic", {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}),
    ("openai-responses", {"type": "web_search"}),
    ("gemini", {"google_search": {}}),
)


@pytest.mark.parametrize(("home", "own"), OWN)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_providers_own_tool_is_declared_to_it_alone(
    session: Session, home: str, own: dict[str, Any], dialect: str
) -> None:
    context = session.context(8_000, dialect=dialect, tools=[own])

    told = [one for one in context.report if one.code == "left_out_tool"]
    if dialect == home:
        assert tools_of(context.request) == [own]
        check_types(dialect, context.request)
        assert not told
    else:
        assert tools_of(context.request) is None
        assert len(told) == 1


def test_tools_of_two_providers_may_have_the_same_name(session: Session) -> None:
    searches = [{"type": "web_search_20250305", "name": "web_search"}, {"type": "web_search"}]

    for dialect, own in zip(("anthropic", "openai-responses"), searches, strict=True):
        context = session.context(dialect=dialect, tools=searches)
        assert context.request["tools"] == [own]
        assert [one.code for one in context.report].count("left_out_tool") == 1


def test_a_model_without_tools_is_declared_none_and_the_report_says_so(session: Session) -> None:
    context = session.context(8_000, dialect="plain", tools=SHAPES["mcp"])

    assert list(context.request) == ["messages"]
    assert [(one.code, one.detail) for one in context.report] == [
        ("left_out_tool", "read: plain does not take it")
    ]
    assert context.tokens == session.context(8_000, dialect="plain").tokens


@pytest.mark.parametrize("given", [[7], [{}], [{"name": ""}], [{"name": "a", "parameters": 3}]])
def test_what_declares_no_tool_is_refused(session: Session, given: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="not a tool declaration"):
        session.context(8_000, tools=given)


def test_one_tool_declared_in_two_ways_is_refused(session: Session) -> None:
    with pytest.raises(InvalidInput, match="twice"):
        session.context(8_000, tools=[{"name": "a"}, {"name": "a", "description": "Other."}])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tools_that_leave_no_room_are_not_sent_either(session: Session, dialect: str) -> None:
    tool = {**NAMED, "description": "Reads a file. " * 200, "parameters": SCHEMA}

    context = session.context(60, dialect=dialect, tools=[tool], system="Be brief.")

    assert context.tokens <= 60
    if dialect != "plain":
        assert tools_of(context.request) is None
