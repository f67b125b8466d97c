"""The documents of a task, element by element, with the times that the editor noted."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.loose import fields_of, time_ms
from treering.formats.loose import name as name_of
from treering.formats.sources import read_list
from treering.formats.whole import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path, PurePath

    from treering.formats.format import DatabaseReader
    from treering.formats.parsed import LogRecord

CONVERSATION: Final = "api_conversation_history.json"
SHOWN: Final = "ui_messages.json"
OLDER_SHOWN: Final = "claude_messages.json"
MESSAGES: Final = ".messages.json"
"""How the name of a file ends that has the messages of a session in the terminal."""
METADATA: Final = "metadata"
_METADATA: Final = ("task_metadata.json", "history_item.json")
_OTHERS: Final = frozenset({SHOWN, OLDER_SHOWN, *_METADATA, "context_history.json"})
_REQUEST: Final = "api_req_started"


class TaskTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The times of the messages of a task, as far as the editor noted them."""

    times_ms: dict[int, int] = {}
    """The times of messages, by their numbers."""
    models: list[tuple[int, str]] = []
    """The models in use, with the times from which they were."""
    has_costs: bool = False
    """Whether the editor noted what requests cost."""

    def at(self, number: int) -> int | None:
        """Return the time of a message; None if nothing tells."""
        return self.times_ms.get(number)

    def model_at(self, number: int) -> str | None:
        """Return the model that was in use when a message was said."""
        ts_ms = self.at(number)
        before = 0 if ts_ms is None else bisect_left(self.models, (ts_ms + 1, ""))
        return self.models[before - 1][1] if before else None


def records(path: Path, _: DatabaseReader) -> Iterator[Any]:
    """Yield what a task is, its conversation, and what the editor showed: an element a record."""
    if path.name.endswith(MESSAGES):
        yield from _terminal(path)
        return
    folder = path.parent
    metadata: dict[str, Any] = {}
    for name in _METADATA:
        for record in _documents(folder / name):
            metadata |= fields_of(record.value)
            yield row(record, METADATA, record.value)
    displayed = [
        document for name in (SHOWN, OLDER_SHOWN) for document in _documents(folder / name)
    ]
    times = task_times([fields_of(document.value) for document in displayed], metadata)
    has_conversation = False
    for at, record in enumerate(_documents(folder / CONVERSATION)):
        has_conversation = has_conversation or record.fault is None
        about = {"ts_ms": times.at(at), "model": times.model_at(at), "has_costs": times.has_costs}
        yield row(record, CONVERSATION, record.value, **about)
    for record in displayed:
        yield row(record, SHOWN, record.value, is_repeated=has_conversation)


def is_named(path: PurePath) -> bool:
    """Return whether a file has the name of a document of a task."""
    return path.name.endswith(MESSAGES) or path.name in {CONVERSATION, *_OTHERS}


def messages_in(path: Path) -> Iterator[LogRecord]:
    """Yield the messages in one file, wherever it is."""
    for record in _documents(path):
        listed = fields_of(record.value).get("messages")
        if not isinstance(listed, list):
            yield record
            continue
        for message in listed:
            yield msgspec.structs.replace(record, value=message)


def _terminal(path: Path) -> Iterator[LogRecord]:
    """Yield what a session in the terminal is, and its messages."""
    for record in _documents(about_session(path)):
        yield row(record, METADATA, record.value)
    for record in _documents(path):
        whole = fields_of(record.value)
        listed = whole.get("messages", record.value if "role" in whole else None)
        about = {at: value for at, value in whole.items() if at != "messages"}
        if not isinstance(listed, list):
            yield row(record, CONVERSATION, record.value)
            continue
        yield row(record, METADATA, about)
        for message in listed:
            yield row(msgspec.structs.replace(record, value=message), CONVERSATION, message)


def about_session(path: Path) -> Path:
    """Return the file that says what a session in the terminal is, by that of its messages."""
    return path.with_name(f"{path.parent.name}.json")


def files(path: Path) -> list[Path]:
    """Return the other files of a task."""
    if path.name.endswith(MESSAGES):
        return [about_session(path)]
    if path.name not in {CONVERSATION, SHOWN, OLDER_SHOWN}:
        return []
    return [path.parent / name for name in (SHOWN, OLDER_SHOWN, *_METADATA, CONVERSATION)]


def left_out(path: Path) -> str | None:
    """Return why a document is left out: it is read with the conversation of its task."""
    if path.stem == path.parent.name and path.with_name(path.stem + MESSAGES).is_file():
        return "facts about a session, read with its messages"
    if path.name not in _OTHERS or path.parent.parent.name != "tasks":
        return None
    if path.name in {SHOWN, OLDER_SHOWN} and not (path.parent / CONVERSATION).is_file():
        return None
    return "a part of a task, which is read with its conversation"


def task_times(displayed: Sequence[dict[str, Any]], known: dict[str, Any]) -> TaskTimes:
    """Return the times of messages.

    Newer versions note how many messages there were when something was shown. Otherwise a request
    tells when the message before it was sent, and the last that was shown after it when it ended.
    """
    times: dict[int, int] = {}
    request = -2
    for message in displayed:
        ts_ms, index = time_ms(message.get("ts")), message.get("conversationHistoryIndex")
        if message.get("say") == _REQUEST:
            request += 2
        if ts_ms is None:
            continue
        if type(index) is int:
            times[index + 1] = max(ts_ms, times.get(index + 1, 0))
        elif request >= 0:
            at = request if message.get("say") == _REQUEST else request + 1
            times[at] = max(ts_ms, times.get(at, 0))
    listed = known.get("model_usage")
    models = [
        (ts_ms, model)
        for usage in map(fields_of, listed if isinstance(listed, list) else [])
        if (ts_ms := time_ms(usage.get("ts"))) and (model := name_of(usage.get("model_id")))
    ]
    has_costs = any(
        message.get("say") == _REQUEST and "tokensIn" in fields_of(json_of(message.get("text")))
        for message in displayed
    )
    return TaskTimes(times_ms=times, models=sorted(models), has_costs=has_costs)


def _documents(path: Path) -> Iterator[LogRecord]:
    if path.is_file():
        yield from read_list(path)


def row(record: LogRecord, document: str, value: Any, **more: Any) -> LogRecord:
    """Return an element of a document, with what is known beside it."""
    if record.fault is not None:
        return msgspec.structs.replace(record, fault=f"{document}: {record.fault}")
    return msgspec.structs.replace(record, value={"document": document, "value": value, **more})
