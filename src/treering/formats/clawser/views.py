"""Views of Clawser's events: messages, tool calls, goals, turns.

Pure functions over the events of a log. They reproduce Clawser's behaviour, including its oddities;
where Clawser would fail, a missing value counts as empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput
from treering.formats.clawser.text import stringify, truthy
from treering.formats.loose import items_of
from treering.lazy import LazyModule

if TYPE_CHECKING:
    import zoneinfo
else:
    zoneinfo = LazyModule("zoneinfo")

INVALID_TIME: Final = "Invalid Date"
_BROWSER_TIME_MS_MAX: Final = 8_640_000_000_000_000
_DAY_S: Final = 86_400
_YEAR_9999_S: Final = 253_402_300_799 - _DAY_S
_YEAR_1_S: Final = -62_135_596_800 + _DAY_S
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ABSENT: Final[Any] = object()


def session_history(
    events: Sequence[Any], system_prompt: str | None = None
) -> list[dict[str, Any]]:
    """Return the messages for a model call.

    A tool call belongs to the last answer since the user's message, wherever its results are, and
    is dropped if there is none; results are always kept.
    """
    history: list[dict[str, Any]] = []
    if system_prompt:
        history.append({"role": "system", "content": system_prompt})
    answer: dict[str, Any] | None = None
    for event in events:
        content = content_of(event)
        match type_of(event):
            case "user_message":
                answer = None
                history.append(_present(role="user", content=content.get("content", _ABSENT)))
            case "agent_message":
                text = content.get("content")
                answer = {"role": "assistant", "content": text if truthy(text) else ""}
                history.append(answer)
            case "tool_call" if answer is not None:
                answer.setdefault("tool_calls", []).append(_asked(content))
            case "tool_result":
                history.append(_answered(content))
    return history


def tool_call_log(events: Sequence[Any], *, time_zone: str = "UTC") -> list[dict[str, Any]]:
    """Return the calls that have a result, latest first.

    A result without a call has no parameters and its own time.
    """
    zone = _zone(time_zone)
    calls: list[dict[str, Any]] = []
    pending: dict[str, dict[str, Any]] = {}
    for event in events:
        content = content_of(event)
        type_ = type_of(event)
        if type_ not in {"tool_call", "tool_result"}:
            continue
        key = _pairing(content)
        time = local_time(event.get("timestamp", _ABSENT), zone)
        if type_ == "tool_call":
            if key is not None:
                pending[key] = {"params": content.get("arguments"), "time": time}
            continue
        call = pending.pop(key, {}) if key is not None else {}
        params = call.get("params")
        calls.append(
            _present(
                name=content.get("name", _ABSENT),
                params=params if truthy(params) else {},
                result=content.get("result", _ABSENT),
                time=call.get("time", time),
            )
        )
    return calls[::-1]


def goals(events: Sequence[Any]) -> list[dict[str, Any]]:
    """Return every goal that was not removed, in its latest state.

    Adding a goal again replaces the first. Updates of unknown goals are ignored.
    """
    goals_by_id: dict[str, dict[str, Any]] = {}
    for event in events:
        content = content_of(event)
        key = stringify(content.get("id"))
        match type_of(event):
            case "goal_added":
                time = event.get("timestamp", _ABSENT)
                goals_by_id[key] = _present(
                    id=content.get("id", _ABSENT),
                    description=content.get("description", _ABSENT),
                    status="active",
                    created_at=time,
                    updated_at=time,
                    sub_goals=items_of(content.get("sub_goals")),
                    artifacts=items_of(content.get("artifacts")),
                    progress=content.get("progress", _ABSENT),
                )
            case "goal_updated" | "goal_edited" if key in goals_by_id:
                for name in ("status", "description"):
                    goals_by_id[key][name] = content.get(name, goals_by_id[key].get(name))
                goals_by_id[key]["updated_at"] = event.get("timestamp")
            case "goal_removed":
                goals_by_id.pop(key, None)
    return list(goals_by_id.values())


def turn_end(events: Sequence[Any], event_id: str) -> int | None:
    """Return the number of events up to the end of the turn of ``event_id``.

    A turn lasts from one user message to the next. Return None if there is no such event.
    """
    for at, event in enumerate(events):
        if isinstance(event, dict) and event.get("id") == event_id:
            rest = range(at + 1, len(events))
            return next((n for n in rest if type_of(events[n]) == "user_message"), len(events))
    return None


def type_of(event: Any) -> str | None:
    """Return the type of an event, or None."""
    type_ = event.get("type") if isinstance(event, dict) else None
    return type_ if isinstance(type_, str) else None


def content_of(event: Any) -> dict[str, Any]:
    """Return the content of an event, or an empty dict."""
    content = event.get("data") if isinstance(event, dict) else None
    return content if isinstance(content, dict) else {}


def local_time(timestamp: Any, zone: tzinfo) -> str:
    """Return a time as en-US browsers show it: 3:07:09 PM."""
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float):
        return INVALID_TIME
    if not abs(timestamp) <= _BROWSER_TIME_MS_MAX:
        return INVALID_TIME
    seconds = int(timestamp) // 1_000
    # Python's calendar ends before a browser's: use the offset of its last day.
    near = _EPOCH + timedelta(seconds=min(max(seconds, _YEAR_1_S), _YEAR_9999_S))
    offset = near.astimezone(zone).utcoffset() or timedelta()
    minutes, second = divmod((seconds + int(offset.total_seconds())) % _DAY_S, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour % 12 or 12}:{minute:02}:{second:02} {'AM' if hour < 12 else 'PM'}"


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"no time zone {name}", hint="write it as in Europe/Oslo, or UTC"
        ) from None


def _asked(content: dict[str, Any]) -> dict[str, Any]:
    name = content.get("name", _ABSENT)
    arguments = content.get("arguments", _ABSENT)
    if arguments is not _ABSENT and not isinstance(arguments, str):
        arguments = stringify(arguments)
    return _present(
        id=content.get("call_id", _ABSENT),
        name=name,
        function=_present(name=name, arguments=arguments),
    )


def _answered(content: dict[str, Any]) -> dict[str, Any]:
    result = content.get("result")
    result = result if isinstance(result, dict) else {}
    if truthy(result.get("success")):
        text = result.get("output", _ABSENT)
    else:
        error = result.get("error")
        error = error if truthy(error) else "unknown error"
        text = f"Error: {error if isinstance(error, str) else stringify(error)}"
    return _present(
        role="tool",
        tool_call_id=content.get("call_id", _ABSENT),
        name=content.get("name", _ABSENT),
        content=text,
    )


def _pairing(content: dict[str, Any]) -> str | None:
    """Return the key that pairs a call with its result; lists and objects have none."""
    call_id = content.get("call_id")
    return None if isinstance(call_id, dict | list) else stringify(call_id)


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not _ABSENT}
