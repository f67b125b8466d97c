"""Tools for models: an agent's own queries on earlier sessions.

    from treering import tools

    ask = tools.bind(ledger, "acme/app")
    model.run(tools=[tools.for_openai(ask.definition)])
    answer = ask({"types": ["tool.call"], "limit": 5})

A tool only reads, its answer is bounded, and errors are answers, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from treering.capture.secrets import SecretGuard
from treering.config import mask_key
from treering.errors import InvalidInput, InvalidScope, TreeringError
from treering.model.codec import encode, parse_json
from treering.model.events import Event, Header
from treering.model.kinds import EPISODE_KINDS, stored_kinds
from treering.model.queries import Page, Query, TimelinePoint, make_cursor
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from treering.ledger.readable_ledger import ReadableLedger

ANSWER_CHARACTERS_MAX: Final = 16_000
"""The longest answer, as JSON."""
SUMMARY_CHARACTERS_MAX: Final = 4_000
"""The longest summary as it is written; only what is mostly escapes is longer."""
REFS_CHARACTERS_MAX: Final = 1_000
PAYLOAD_CHARACTERS_MAX: Final = 4_000
ITEMS_DEFAULT: Final = 20
ITEMS_MAX: Final = 50
_FRAME_CHARACTERS: Final = 1_500
"""The space for an answer's fields other than its items."""

MEMORY_EPISODES_QUERY: Final[dict[str, Any]] = {
    "name": "memory_episodes_query",
    "description": (
        "Look up what happened in earlier sessions: what was said, which tools were called, what"
        " was decided. Oldest first, unless newestFirst. Gives summaries; ask for payloads only if"
        " a summary is not enough. If has_more is true, call again with the same arguments and"
        " next.cursor."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "scope": {"type": "string", "description": "The project or user it is about."},
            "sessionId": {"type": "string", "description": "Only this session."},
            "fromTs": {
                "type": "integer",
                "description": "Only from this time on, in ms since 1970.",
            },
            "toTs": {"type": "integer", "description": "Only up to this time, in ms since 1970."},
            "types": {
                "type": "array",
                "items": {"type": "string", "enum": list(EPISODE_KINDS)},
                "description": "Only events of these types.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": ITEMS_MAX,
                "description": f"How many events at most. Default: {ITEMS_DEFAULT}.",
            },
            "includePayload": {
                "type": "boolean",
                "description": "Give the whole content, too; secrets are masked.",
            },
            "newestFirst": {
                "type": "boolean",
                "description": "Begin with the latest event. Default: the oldest.",
            },
            "cursor": {"type": "string", "description": "next.cursor of the answer before."},
        },
        "required": ["scope"],
        "additionalProperties": False,
    },
}
"""The tool's definition, independent of any provider."""


def for_openai(tool: Mapping[str, Any] = MEMORY_EPISODES_QUERY) -> dict[str, Any]:
    """Return a tool in the format of chat completions."""
    return {"type": "function", "function": dict(tool)}


def for_anthropic(tool: Mapping[str, Any] = MEMORY_EPISODES_QUERY) -> dict[str, Any]:
    """Return a tool in the format of the Messages API."""
    return {
        "name": tool["name"],
        "description": tool["description"],
        "input_schema": tool["parameters"],
    }


def memory_episodes_query(
    ledger: ReadableLedger, arguments: Mapping[str, Any] | str | None = None, /, **stated: Any
) -> dict[str, Any]:
    """Return events of a scope for a model: bounded, with secrets masked.

    Arguments are one object, its JSON, or keywords. If they are invalid, ``ok`` is false and
    ``error`` says why and what to do. Nothing is written.
    """
    try:
        return answer_query(ledger, _object(arguments, stated))
    except TreeringError as error:
        return _refusal(error)


class BoundQuery:
    """The same tool for one scope; the model cannot name another."""

    def __init__(self, ledger: ReadableLedger, scope: str) -> None:
        self._ledger = ledger
        self._scope = parse_scope(scope)
        parameters = MEMORY_EPISODES_QUERY["parameters"]
        properties = {
            name: schema for name, schema in parameters["properties"].items() if name != "scope"
        }
        self.definition: dict[str, Any] = {
            **MEMORY_EPISODES_QUERY,
            "parameters": {**parameters, "properties": properties, "required": []},
        }
        """The tool's definition for a model."""

    def __call__(
        self, arguments: Mapping[str, Any] | str | None = None, /, **stated: Any
    ) -> dict[str, Any]:
        """Return events of the scope."""
        try:
            given = _object(arguments, stated)
            if "scope" in given:
                raise InvalidScope("the scope is fixed", hint="leave scope out")
            return answer_query(self._ledger, {**given, "scope": self._scope})
        except TreeringError as error:
            return _refusal(error)


def bind(ledger: ReadableLedger, scope: str) -> BoundQuery:
    """Return the tool for one scope. Raises InvalidScope."""
    return BoundQuery(ledger, scope)


@cache
def _guard() -> SecretGuard:
    return SecretGuard(key=mask_key)


class _Request:
    """A checked request."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.scope = parse_scope(_text(given, "scope") or "")
        self.session_id = _text(given, "sessionId")
        self.since = _time(given, "fromTs")
        self.until = _time(given, "toTs")
        self.kinds = _kinds(given.get("types"))
        self.limit = _limit(given.get("limit"))
        self.cursor = _text(given, "cursor")
        self.payloads = _switch(given, "includePayload")
        self.newest_first = _switch(given, "newestFirst")

    def page(self, ledger: ReadableLedger) -> Page[Header] | Page[Event]:
        ask = ledger.events if self.payloads else ledger.headers
        return ask(
            self.scope,
            session_id=self.session_id,
            kinds=self.kinds,
            since_ms=self.since,
            until_ms=self.until,
            first=None if self.newest_first else self.limit,
            last=self.limit if self.newest_first else None,
            after=self.cursor,
        )

    def cursor_after(self, event: Header) -> str:
        query = Query(
            scope=self.scope,
            session_id=self.session_id,
            kinds=self.kinds,
            since_ms=self.since,
            until_ms=self.until,
            backwards=self.newest_first,
        )
        return make_cursor(query, TimelinePoint(event.ts_ms, event.position))


def _refusal(error: TreeringError) -> dict[str, Any]:
    problem = {"code": error.code, "message": str(error), "hint": error.hint or ""}
    return {"ok": False, "error": problem}


def _object(arguments: Any, stated: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of one call. Raises InvalidInput if one is unknown."""
    if arguments is not None and stated:
        raise InvalidInput("arguments were given twice", hint="pass one object, or keywords")
    given = stated if arguments is None else arguments
    if isinstance(given, str):
        given = parse_json(given or "{}", "arguments")
    if not isinstance(given, Mapping):
        raise InvalidInput("the arguments are not an object", hint='pass {"limit": 5, …}')
    properties = MEMORY_EPISODES_QUERY["parameters"]["properties"]
    unknown = sorted(str(name)[:60] for name in given if name not in properties)
    if unknown:
        raise InvalidInput(
            f"unknown argument {', '.join(unknown[:5])}", hint=f"use {', '.join(properties)}"
        )
    return given


def as_json(value: Any) -> str:
    """Return a value as the JSON that a model reads."""
    return encode(value).decode()


def answer_query(
    ledger: ReadableLedger, given: Mapping[str, Any], *, written: Callable[[Any], str] = as_json
) -> dict[str, Any]:
    """Return events of a scope that fit an answer, as ``written`` writes it.

    Raise InvalidInput if an argument is unusable.
    """
    request = _Request(given)
    page = request.page(ledger)
    events = page.items[::-1] if request.newest_first else page.items
    room = ANSWER_CHARACTERS_MAX - _FRAME_CHARACTERS
    items: list[dict[str, Any]] = []
    for event in events:
        item = _item(event, written)
        # At least one item is returned: each is far smaller than an answer.
        room -= len(written(item)) + 1
        if room < 0 and items:
            break
        items.append(item)
    has_more = len(items) < len(events) or page.has_more
    cursor = request.cursor_after(events[len(items) - 1]) if has_more and items else None
    answer: dict[str, Any] = {
        "ok": True,
        "scope": request.scope,
        "count": len(items),
        "items": items,
        "has_more": has_more,
        "next": {"cursor": cursor} if cursor else None,
    }
    if not items:
        answer["note"] = "nothing matches: drop a filter, or check the scope and the session"
    return answer


def _item(event: Header, written: Callable[[Any], str]) -> dict[str, Any]:
    guard = _guard()
    item = {
        "event_id": event.event_id,
        "ts_ms": event.ts_ms,
        "session_id": event.session_id,
        "type": event.kind,
        "summary": _cut(guard.mask_text(event.summary), SUMMARY_CHARACTERS_MAX, written),
        "refs": _short(guard.mask_value(event.refs), REFS_CHARACTERS_MAX, written),
    }
    if isinstance(event, Event):
        payload = guard.mask_value(event.payload)
        item["payload"] = _short(payload, PAYLOAD_CHARACTERS_MAX, written)
    return item


def _cut(text: str, characters: int, written: Callable[[Any], str]) -> str:
    """Return ``text``, or its beginning."""
    while len(written(text)) > characters:
        text = f"{text[: len(text) // 2]}…"
    return text


def _short(value: Any, characters: int, written: Callable[[Any], str]) -> Any:
    """Return ``value``, or its beginning and its length."""
    text = "" if value is None else written(value)
    if len(text) <= characters:
        return value
    # Quoting makes the text longer again inside JSON.
    return {"_truncated": True, "characters": len(text), "preview": text[: characters // 2]}


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is not text", hint=f"pass {name} as text")
    return value


def _time(given: Mapping[str, Any], name: str) -> int | None:
    """Return a time; models send a number, digits or ISO 8601."""
    value = given.get(name)
    if value is None or type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    with contextlib.suppress(ValueError, AttributeError):
        if value.strip().isdecimal():
            return int(value)
        moment = datetime.fromisoformat(value.strip())
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(zoned.timestamp() * 1_000)
    raise InvalidInput(
        f"{name} is not a time", hint="use milliseconds since 1970, as 1767225600000"
    )


def _kinds(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else [] if value is None else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidInput("types is not a list of texts", hint='pass ["tool.call", …]')

    return stored_kinds([name for name in names if name.strip()])


def _switch(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name)
    if value is not None and type(value) is not bool:
        raise InvalidInput(f"{name} must be true or false", hint="use a boolean")
    return value is True


def _limit(value: Any) -> int:
    if value is None:
        return ITEMS_DEFAULT
    is_whole = type(value) is int or (isinstance(value, float) and value.is_integer())
    if not is_whole:
        raise InvalidInput("limit is not a number", hint=f"use 1 to {ITEMS_MAX}")
    return max(1, min(int(value), ITEMS_MAX))
