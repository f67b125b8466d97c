"""Clawser's checkpoints: three shapes read, one written, and events made from what they hold."""

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
"""What each shape calls the messages, the goals and the jobs."""
_MARKS: Final = frozenset(
    {"goals", "schedulerJobs", "goalIdCounter"}
    | {"active_goals", "scheduler_jobs", "scheduler_snapshot", "agent_state"}
)
"""Fields of a checkpoint that tell it from other things with a history."""
_NUMBERED: Final = re.compile(r"([0-9]{1,18})\Z")


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an agent, for a quick restore; the events are what counts."""

    history: list[Any]
    goals: list[Any]
    scheduler_jobs: list[Any]
    goal_id_counter: int
    """The number of the next goal."""
    timestamp: int | None = None
    """When it was made, if it says so."""

    def to_bytes(self) -> bytes:
        """Return it as ``latest.bin`` holds it."""
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
        """Return what a checkpoint file holds. Raises InvalidInput if it is none."""
        try:
            text = body.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise _no_checkpoint("not UTF-8") from None
        return cls.from_json(parse(text))

    @classmethod
    def from_json(cls, value: Any) -> Checkpoint:
        """Return a checkpoint in any of its shapes. Raises InvalidInput if it is none."""
        found = _unwrapped(value)
        if not isinstance(found, dict):
            raise _no_checkpoint("not an object")
        if not any(isinstance(found.get(shape[0]), list) for shape in _SHAPES):
            raise _no_checkpoint("it has no history")
        history, goals, jobs = (_first(found, names) for names in zip(*_SHAPES, strict=True))
        counter, timestamp = found.get("goalIdCounter"), found.get("timestamp")
        return cls(
            history=history,
            goals=goals,
            scheduler_jobs=jobs,
            goal_id_counter=counter if type(counter) is int else _next_goal(goals),
            timestamp=timestamp if type(timestamp) is int else None,
        )


def is_checkpoint(value: Any) -> bool:
    """Whether ``value`` is a checkpoint, in any of its shapes, and nothing else with a history."""
    try:
        found = _unwrapped(value)
    except InvalidInput:
        return False
    return (
        isinstance(found, dict)
        and any(isinstance(found.get(shape[0]), list) for shape in _SHAPES)
        and not _MARKS.isdisjoint(found)
    )


def checkpoint_of(log: EventLog) -> Checkpoint:
    """Return the state that the events of ``log`` lead to."""
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
    """Return a log with an event for all that a checkpoint holds; its times are ``at_ms``.

    System messages are left out. What a tool said is its result if it is JSON, its output if not.
    """
    log = EventLog(clock=lambda: at_ms)
    for message in checkpoint.history:
        for stated in _events_of_message(message if isinstance(message, dict) else {}):
            log.append(*stated)
    for goal in checkpoint.goals:
        if isinstance(goal, dict):
            kept = _some(goal, "sub_goals", "artifacts", "progress")
            more = {name: value for name, value in kept.items() if value not in (None, [])}
            log.append("goal_added", {**_some(goal, "id", "description"), **more})
            if goal.get("status", "active") != "active":
                log.append("goal_updated", _some(goal, "id", "status"))
    for job in checkpoint.scheduler_jobs:
        if isinstance(job, dict):
            log.append("scheduler_added", job)
    return log


def _events_of_message(message: dict[str, Any]) -> Iterator[tuple[str, Any, str]]:
    match message.get("role"):
        case "user":
            yield "user_message", _some(message, "content"), "user"
        case "assistant":
            said = message.get("content")
            yield "agent_message", {"content": said if truthy(said) else ""}, "agent"
            calls = message.get("tool_calls")
            for call in calls if isinstance(calls, list) else []:
                if isinstance(call, dict):
                    yield "tool_call", _called(call), "agent"
        case "tool":
            said = message.get("content")
            name = message.get("name")
            returned = {"name": name if truthy(name) else "tool", "result": _result(said)}
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


def _result(said: Any) -> Any:
    try:
        return parse(said) if isinstance(said, str) else {"success": True, "output": said}
    except InvalidInput:
        return {"success": True, "output": said}


def _some(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def _unwrapped(value: Any) -> Any:
    """Return ``value``, out of the bytes in which it may lie: a list, or an object of numbers."""
    if isinstance(value, dict) and value and all(key.isdecimal() for key in value):
        value = [value[key] for key in sorted(value, key=int)]
    if isinstance(value, list) and value:
        try:
            return parse(bytes(value).decode("utf-8-sig"))
        except (TypeError, ValueError, UnicodeDecodeError):
            raise _no_checkpoint("not UTF-8") from None
    return value


def _first(found: dict[str, Any], names: tuple[str, ...]) -> list[Any]:
    for name in names:
        stated = found.get(name)
        if isinstance(stated, dict):
            # A snapshot keeps its jobs among other things.
            stated = stated.get("jobs")
        if isinstance(stated, list):
            return stated
    return []


def _next_goal(goals: list[Any]) -> int:
    ids = (str(goal.get("id")) for goal in goals if isinstance(goal, dict))
    return max([int(match[1]) + 1 for id_ in ids if (match := _NUMBERED.search(id_))], default=1)


def _no_checkpoint(why: str) -> InvalidInput:
    return InvalidInput(f"no checkpoint: {why}", hint="the events are what counts; read those")
