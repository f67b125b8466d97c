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
from treering import NewEvent
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
    "`session.history()` checks what was undone and erased, pairs calls with results wherever they"
    " stand and repairs what cannot be paired. The loop selects the same rows of a lean table in"
    " order, decodes their payloads, leaves out runs that did not end well, and takes it for granted"
    " that all else is as it should be. Both give the same list, which is checked; speed is messages"
    " a second."
)


def measure(effort: Effort, folder: Path) -> Section:
    """Measure histories of two lengths."""
    rows: list[Row] = []
    for events in SESSIONS_EVENTS:
        rows += _compared(effort, folder, events)
    return Section(title="History, against a hand-written loop", rows=rows, notes=[_FAIRNESS])


def _compared(effort: Effort, folder: Path, events: int) -> list[Row]:
    table = Handmade(folder / f"handmade-{events}.db", talk(LONG, events))
    with treering.open(conversation(folder.parent, events), guard="off") as ledger:
        session = ledger.session(LONG, scope=SCOPE, agent=AGENT)
        ways: dict[str, Callable[[], list[dict[str, Any]]]] = {
            "ours": session.history,
            "loop": table.history,
            "stdlib": table.history_by_stdlib,
        }
        if not session.history() == table.history() == table.history_by_stdlib():
            raise AssertionError("the loop finds another history")
        walls = in_turns(ways, rounds=effort.repeats)
    table.close()
    ms = {name: statistics.median(found) * 1e3 for name, found in walls.items()}
    what = f"history of {events:,} events"
    return [
        at_least(
            f"{what}, against a loop with msgspec",
            ms["loop"] / ms["ours"],
            LIMIT,
            f"{ms['loop'] / ms['ours']:.2f} x ({ms['ours']:.1f} : {ms['loop']:.1f} ms)",
        ),
        Row(
            what=f"{what}, against the same with json",
            measured=f"{ms['stdlib'] / ms['ours']:.2f} x ({ms['stdlib']:.1f} ms)",
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

    def history(self) -> list[dict[str, Any]]:
        """Return the messages of the conversation, in the spelling of chat completions."""
        return self._history(msgspec.json.decode, lambda value: msgspec.json.encode(value).decode())

    def history_by_stdlib(self) -> list[dict[str, Any]]:
        """Return the same, by the JSON of the standard library."""
        encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
        return self._history(json.loads, encoder.encode)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def _history(
        self, decode: Callable[[bytes], Any], encode: Callable[[Any], str]
    ) -> list[dict[str, Any]]:
        ended = {run for (run,) in self._connection.execute(_ENDED, (LONG,))}
        messages: list[dict[str, Any]] = []
        calls: list[dict[str, Any]] | None = None
        for run, kind, payload in self._connection.execute(_SAID, (LONG,)):
            if run not in ended:
                continue
            content = decode(payload)
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
            else:
                role = "user" if kind == "conversation.user" else "assistant"
                messages.append({"role": role, "content": content["text"]})
        return messages
