"""The history of a session, against a loop that somebody would write by hand over a table."""

import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

import treering
from conversations import LONG, conversation, talk
from report import Row, Section, at_least
from treering import NewEvent, Session
from workload import AGENT, SCOPE, Effort, in_turns

SESSIONS_EVENTS: Final = (5_000, 50_000)
LIMIT: Final = 0.5
_SCHEMA: Final = """
CREATE TABLE events (
  position INTEGER PRIMARY KEY,
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  run TEXT,
  kind TEXT NOT NULL,
  payload BLOB,
  UNIQUE (session, seq)
)
"""
_ENDED: Final = "SELECT run FROM events WHERE session = ? AND kind = 'run.ended'"
_SAID: Final = """
SELECT run, kind, payload
FROM events
WHERE session = ? AND kind IN (
  'conversation.user', 'conversation.assistant', 'tool.call', 'tool.result'
)
ORDER BY seq
"""
_FAIRNESS: Final = (
    "The first loop goes over `session.events()`. The others select the rows of a lean table in"
    " order and decode their payloads. All leave out runs that did not end well, and take it for"
    " granted that each result follows its call."
    " `session.history()` also asks what was undone or erased, pairs calls with results wherever"
    " they stand and repairs what cannot be paired. All give the same list, which is checked."
)
_DECODERS: Final = (
    "With `json` it is what most would write. With msgspec, that we use as well, the whole loop is"
    " faster than our rows are read: an event has 24 columns, and the loop wants three."
)


def measure(effort: Effort, folder: Path) -> Section:
    """Measure histories of two lengths."""
    rows: list[Row] = []
    for events in SESSIONS_EVENTS:
        rows += _compared(effort, folder, events)
    return Section(
        title="History, against a hand-written loop", rows=rows, notes=[_FAIRNESS, _DECODERS]
    )


def _compared(effort: Effort, folder: Path, events: int) -> list[Row]:
    table = Handmade(folder / f"handmade-{events}.db", talk(LONG, events))
    with treering.open(conversation(folder.parent, events), guard="off") as ledger:
        session = ledger.session(LONG, scope=SCOPE, agent=AGENT)
        ways: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "ours": session.history,
            "events": lambda: _by_hand(session),
            "json": table.history_by_json,
            "msgspec": table.history_by_msgspec,
        }
        found = [way() for way in ways.values()]
        if any(history != found[0] for history in found):
            raise AssertionError("the loop finds another history")
        walls = in_turns(ways, rounds=effort.repeats)
    table.close()
    ms = {name: statistics.median(found) * 1e3 for name, found in walls.items()}
    speeds = {name: ms[name] / ms["ours"] for name in ("events", "json", "msgspec")}
    what = f"history of {events:,} events"
    return [
        at_least(
            f"speed of the {what}, against a loop over its decoded events",
            speeds["events"],
            LIMIT,
            f"{speeds['events']:.2f} x ({ms['ours']:.1f} : {ms['events']:.1f} ms)",
        ),
        at_least(
            f"speed of the {what}, against a loop over a lean table, with json",
            speeds["json"],
            LIMIT,
            f"{speeds['json']:.2f} x ({ms['ours']:.1f} : {ms['json']:.1f} ms)",
        ),
        Row(
            what="the same, with msgspec",
            measured=f"{speeds['msgspec']:.2f} x ({ms['msgspec']:.1f} ms)",
        ),
    ]


class Handmade:
    """What somebody without a ledger would keep of a conversation, and read back."""

    def __init__(self, path: Path, events: Iterable[NewEvent]) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.pragma("journal_mode", "wal")
        self._connection.execute(_SCHEMA)
        with self._connection:
            self._connection.executemany(
                "INSERT INTO events (session, seq, run, kind, payload) VALUES (?, ?, ?, ?, ?)",
                (
                    (LONG, seq, event.run_id, event.kind, msgspec.json.encode(event.payload))
                    for seq, event in enumerate(events, start=1)
                ),
            )

    def history_by_json(self) -> list[dict[str, Any]]:
        """Return the messages of the conversation, in the spelling of chat completions."""
        encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
        return self._history(json.loads, encoder.encode)

    def history_by_msgspec(self) -> list[dict[str, Any]]:
        """Return the same, by a faster decoder."""
        return self._history(msgspec.json.decode, lambda value: msgspec.json.encode(value).decode())

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _history(
        self, decode: Callable[[bytes], Any], encode: Callable[[Any], str]
    ) -> list[dict[str, Any]]:
        ended = {run for (run,) in self._connection.execute(_ENDED, (LONG,))}
        rows = self._connection.execute(_SAID, (LONG,))
        return _messages(
            ((kind, decode(payload)) for run, kind, payload in rows if run in ended), encode
        )


def _by_hand(session: Session) -> list[dict[str, Any]]:
    """Return the same messages, by a loop over the ledger's own events."""
    events = list(session.events())
    ended = {event.run_id for event in events if event.kind == "run.ended"}
    said = ((event.kind, event.payload) for event in events if event.run_id in ended)
    return _messages(said, lambda value: msgspec.json.encode(value).decode())


def _messages(
    said: Iterable[tuple[str, Any]], encode: Callable[[Any], str]
) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] | None = None
    for kind, content in said:
        if kind == "tool.call":
            call = {
                "id": content["call_id"],
                "type": "function",
                "function": {"name": content["name"], "arguments": encode(content["input"])},
            }
            if calls is None:
                calls = [call]
                messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            else:
                calls.append(call)
            continue
        calls = None
        if kind == "tool.result":
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": content["call_id"],
                    "content": content["output"],
                }
            )
        elif kind in {"conversation.user", "conversation.assistant"}:
            role = "user" if kind == "conversation.user" else "assistant"
            messages.append({"role": role, "content": content["text"]})
    return messages
