"""Clawser's checkpoints: three shapes are read, one is written; they convert to events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import InvalidInput
from treering.formats.clawser.log import EventLog
from treering.formats.clawser.text import parse, stringify, truthy

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHAPES: Final = (
    ("history", "goals", "schedulerJobs"),
    ("session_history", "active_goals", "scheduler_jobs"),
    ("session_history", "active_goals", "scheduler_snapshot"),
)
"""The names of the messages, goals and jobs in each shape."""
_MARKS: Final = frozenset(
    {"goals", "schedulerJobs", "goalIdCounter"}
    | {"active_goals", "scheduler_jobs", "scheduler_snapshot", "agent_state"}
)
"""Fields that distinguish a checkpoint from other objects with a history."""
_NUMBERED: Final = re.compile(r"([0-9]{1,18})\Z")


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an agent, for a quick restore; the events are authoritative."""

    history: list[Any]
    goals: list[Any]
    scheduler_jobs: list[Any]
    goal_id_counter: int
    """The number of the next goal."""
    timestamp: int | None = None
    """Its creation time, if stated."""

    def to_bytes(self) -> bytes:
        """Return the content of ``latest.bin``."""
        return stringify(
            {
                "history": self.history,
                "goals": self.goals,
                "schedulerJobs": self.scheduler_jobs,
                "goalIdCounter": self.goal_id_counter,
            }
        ).encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> Checkpoint:
        """Return the checkpoint in a file's bytes. Raises InvalidInput if they are not one."""
        try:
            text = body.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise _not_a_checkpoint("not UTF-8") from None
        return cls.from_json(parse(text))

    @classmethod
    def from_json(cls, value: Any) -> Checkpoint:
        """Return a checkpoint in any of its shapes. Raises InvalidInput if it is not one."""
        fields = _unwrapped(value)
        if not isinstance(fields, dict):
            raise _not_a_checkpoint("not an object")
        if not any(isinstance(fields.get(shape[0]), list) for shape in _SHAPES):
            raise _not_a_checkpoint("it has no history")
        history, goals, jobs = (_first(fields, names) for names in zip(*_SHAPES, strict=True))
        counter, timestamp = fields.get("goalIdCounter"), fields.get("timestamp")
        return cls(
            history=history,
            goals=goals,
            scheduler_jobs=jobs,
            goal_id_counter=counter if type(counter) is int else _next_goal(goals),
            timestamp=timestamp if type(timestamp) is int else None,
        )


def is_checkpoint(value: Any) -> bool:
    """Return whether ``value`` is a checkpoint in any of its shapes."""
    try:
        fields = _unwrapped(value)
    except InvalidInput:
        return False
    return (
        isinstance(fields, dict)
        and not _MARKS.isdisjoint(fields)
        and any(isinstance(fields.get(shape[0]), list) for shape in _SHAPES)
    )


def checkpoint_of(log: EventLog) -> Checkpoint:
    """Return the state that results from the events of ``log``."""
    goals = log.derive_goals()
    jobs: dict[str, Any] = {}
    for event in log.events:
        content = event.get("data") if isinstance(event, dict) else None
        if not isinstance(content, dict):
            continue
        key = stringify(content.get("id"))
        if event.get("type") == "scheduler_added":
            jobs[key] = content
        elif event.get("type") == "scheduler_removed":
            jobs.pop(key, None)
    return Checkpoint(
        history=log.derive_session_history(),
        goals=goals,
        scheduler_jobs=list(jobs.values()),
        goal_id_counter=_next_goal(goals),
    )


def events_of(checkpoint: Checkpoint, *, at_ms: int) -> EventLog:
    """Return a log with the events for a checkpoint's content, all at ``at_ms``.

    System messages are left out. A tool message becomes the result if it is JSON, otherwise the
    output.
    """
    log = EventLog(clock=lambda: at_ms)
    for message in checkpoint.history:
        for event in _events_of_message(message if isinstance(message, dict) else {}):
            log.append(*event)
    for goal in checkpoint.goals:
        if isinstance(goal, dict):
            extra = _some(goal, "sub_goals", "artifacts", "progress")
            more = {name: value for name, value in extra.items() if value not in (None, [])}
            log.append("goal_added", {**_some(goal, "id", "description"), **more})
            if goal.get("status", "active") != "active":
                log.append("goal_updated", _some(goal, "id", "status"))
    for job in checkpoint.scheduler_jobs:
        if isinstance(job, dict):
            log.append("scheduler_added", job)
    continued = EventLog()  # Events that are added later have their own times.
    continued.load(log.events)
    return continued


def _events_of_message(message: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
    match message.get("role"):
        case "user":
            yield "user_message", _some(message, "content"), "user"
        case "assistant":
            content = message.get("content")
            yield "agent_message", {"content": content if truthy(content) else ""}, "agent"
            calls = message.get("tool_calls")
            for call in calls if isinstance(calls, list) else []:
                if isinstance(call, dict):
                    yield "tool_call", _called(call), "agent"
        case "tool":
            content = message.get("content")
            name = message.get("name")
            returned = {"name": name if truthy(name) else "tool", "result": _result(content)}
            if "tool_call_id" in message:
                returned = {"call_id": message["tool_call_id"], **returned}
            yield "tool_result", returned, "system"


def _called(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    inner = function if isinstance(function, dict) else {}
    names = (inner.get("name"), call.get("name"), "unknown")
    arguments = (inner.get("arguments"), call.get("arguments"), "{}")
    return {
        **({"call_id": call["id"]} if "id" in call else {}),
        "name": next(filter(truthy, names)),
        "arguments": next(filter(truthy, arguments)),
    }


def _result(content: Any) -> Any:
    try:
        return parse(content) if isinstance(content, str) else {"success": True, "output": content}
    except InvalidInput:
        return {"success": True, "output": content}


def _some(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def _unwrapped(value: Any) -> Any:
    """Return ``value``, decoded if it is stored as bytes: a list, or an object of numbers."""
    if isinstance(value, dict) and value and all(key.isdecimal() for key in value):
        value = [value[key] for key in sorted(value, key=int)]
    if isinstance(value, list) and value:
        try:
            return parse(bytes(value).decode("utf-8-sig"))
        except (TypeError, ValueError, UnicodeDecodeError):
            raise _not_a_checkpoint("not UTF-8") from None
    return value


def _first(fields: dict[str, Any], names: tuple[str, ...]) -> list[Any]:
    for name in names:
        value = fields.get(name)
        if isinstance(value, dict):
            # A snapshot has its jobs in a field of its own.
            value = value.get("jobs")
        if isinstance(value, list):
            return value
    return []


def _next_goal(goals: list[Any]) -> int:
    ids = (str(goal.get("id")) for goal in goals if isinstance(goal, dict))
    return max([int(match[1]) + 1 for id_ in ids if (match := _NUMBERED.search(id_))], default=1)


def _not_a_checkpoint(reason: str) -> InvalidInput:
    return InvalidInput(f"not a checkpoint: {reason}", hint="read the events instead")
