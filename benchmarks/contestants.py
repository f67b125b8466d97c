"""Treering and its peers behind one face, each driven as its own documentation drives it.

What a peer is handed is prepared before the clock starts; encoding and decoding are its own work.
"""

# ruff: noqa: D102  (the protocol says once what each method promises)

import sqlite3
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

import treering
from treering import NewEvent
from workload import AGENT, SCOPE, Body, body


class Contestant(Protocol):
    """A store of sessions, used through its own interface."""

    name: str
    how: str
    """How it is driven, and what differs from the others."""
    singles: int
    """How many single appends it is given a round; fewer where they are slow."""

    def prepare(self, event: NewEvent) -> Any:
        """Return the event in the form that this store takes."""

    def append(self, session_id: str, items: Sequence[Any]) -> None:
        """Store items durably; more than one go in together if the store can do that."""

    def append_each(self, items: Sequence[tuple[str, Any]]) -> list[float]:
        """Store items one by one, each durably; return the seconds that each took."""

    def read(self, session_id: str) -> Sequence[Any]:
        """Return a whole session as objects."""

    def tail(self, session_id: str) -> Sequence[Any]:
        """Return the last 100 of a session."""

    def close(self) -> None:
        """Let go of the file."""


class Treering:
    """Ours, as shipped."""

    name = "treering"
    how = "`ledger.append`, `session.events()`; as shipped: durable, guard `safe`"
    singles = 20

    def __init__(self, folder: Path) -> None:
        self._ledger = treering.open(folder / "treering.db")

    def prepare(self, event: NewEvent) -> NewEvent:
        return event

    def append(self, session_id: str, items: Sequence[NewEvent]) -> None:  # noqa: ARG002
        self._ledger.append(items)

    def append_each(self, items: Sequence[tuple[str, Any]]) -> list[float]:
        return one_by_one(self.append, items)

    def read(self, session_id: str) -> Sequence[Any]:
        return list(self._ledger.session(session_id, scope=SCOPE, agent=AGENT).events())

    def tail(self, session_id: str) -> Sequence[Any]:
        return list(self._ledger.session(session_id, scope=SCOPE, agent=AGENT).events(last=100))

    def close(self) -> None:
        self._ledger.close()


class EventSourcing:
    """The Python library ``eventsourcing``, below its aggregates."""

    name = "eventsourcing"
    how = (
        "`SQLiteApplicationRecorder`, the layer under its aggregates and the fastest way in; state"
        " is JSON by msgspec, decoded into the same struct as the bare table's"
    )
    singles = 20

    def __init__(self, folder: Path) -> None:
        from eventsourcing.persistence import StoredEvent
        from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

        self._stored_event = StoredEvent
        self._datastore = SQLiteDatastore(str(folder / "eventsourcing.db"))
        self._recorder = SQLiteApplicationRecorder(self._datastore)
        self._recorder.create_table()
        self._versions: dict[str, int] = {}
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(Body).decode

    def prepare(self, event: NewEvent) -> Body:
        return body(event)

    def append(self, session_id: str, items: Sequence[Body]) -> None:
        version = self._versions.get(session_id, 0)
        stored = [
            self._stored_event(
                originator_id=_uuid_of(session_id),
                originator_version=version + at,
                topic=item.kind,
                state=self._encode(item),
            )
            for at, item in enumerate(items, start=1)
        ]
        self._recorder.insert_events(stored)
        self._versions[session_id] = version + len(items)

    def append_each(self, items: Sequence[tuple[str, Any]]) -> list[float]:
        return one_by_one(self.append, items)

    def read(self, session_id: str) -> Sequence[Any]:
        found = self._recorder.select_events(_uuid_of(session_id))
        return [self._decode(stored.state) for stored in found]

    def tail(self, session_id: str) -> Sequence[Any]:
        found = self._recorder.select_events(_uuid_of(session_id), desc=True, limit=100)
        return [self._decode(stored.state) for stored in reversed(found)]

    def close(self) -> None:
        self._datastore.close()


class LangGraph:
    """LangGraph's checkpoints."""

    name = "LangGraph SqliteSaver"
    how = (
        "`put` of a checkpoint whose `messages` channel holds the session so far, as a graph does"
        " at every step: cost grows with the session; messages are LangChain's, as in"
        " `MessagesState`; a read is `get_tuple` of the last checkpoint"
    )
    singles = 2

    def __init__(self, folder: Path) -> None:
        from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.sqlite import SqliteSaver

        self._connection = sqlite3.connect(
            folder / f"{type(self).__name__}.db", check_same_thread=False
        )
        self._saver = SqliteSaver(self._connection)
        self._empty = empty_checkpoint
        self._message = {"user": HumanMessage, "agent": AIMessage, "tool": ToolMessage}
        self._messages: dict[str, list[Any]] = {}
        self._configs: dict[str, Any] = {}

    def prepare(self, event: NewEvent) -> Any:
        fields: dict[str, Any] = msgspec.to_builtins(body(event))
        payload = fields.pop("payload")
        call = {"tool_call_id": payload["call_id"]} if fields["source"] == "tool" else {}
        return self._message[fields["source"]](
            content=payload["text"],
            id=fields["event_id"],
            additional_kwargs={**fields, **payload, "text": None},
            **call,
        )

    def append(self, session_id: str, items: Sequence[Any]) -> None:
        messages = self._messages.setdefault(session_id, [])
        messages.extend(items)
        checkpoint = self._empty()
        checkpoint["channel_values"] = {"messages": messages}
        version = f"{len(messages):032}.0"
        checkpoint["channel_versions"] = {"messages": version}
        config = self._configs.get(session_id) or {
            "configurable": {"thread_id": session_id, "checkpoint_ns": ""}
        }
        self._configs[session_id] = self._saver.put(
            config, checkpoint, {"source": "loop", "step": len(messages)}, {"messages": version}
        )

    def append_each(self, items: Sequence[tuple[str, Any]]) -> list[float]:
        return one_by_one(self.append, items)

    def read(self, session_id: str) -> Sequence[Any]:
        config: Any = {"configurable": {"thread_id": session_id, "checkpoint_ns": ""}}
        found = self._saver.get_tuple(config)
        messages: list[Any] = found.checkpoint["channel_values"]["messages"] if found else []
        return messages

    def tail(self, session_id: str) -> Sequence[Any]:
        return self.read(session_id)[-100:]

    def close(self) -> None:
        self._connection.close()


class LangGraphDicts(LangGraph):
    """The same with plain dicts for messages, the quickest thing it can hold."""

    name = "LangGraph SqliteSaver, dicts"
    how = "the same, with plain dicts instead of messages"

    def prepare(self, event: NewEvent) -> Any:
        return msgspec.to_builtins(body(event))


def one_by_one(
    append: Callable[[str, Sequence[Any]], None], items: Sequence[tuple[str, Any]]
) -> list[float]:
    """Append items one at a time; return the seconds that each took."""
    seconds = []
    for session_id, item in items:
        before = time.perf_counter()
        append(session_id, [item])
        seconds.append(time.perf_counter() - before)
    return seconds


def _uuid_of(session_id: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, session_id)
