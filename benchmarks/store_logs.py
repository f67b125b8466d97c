"""Logs that are not lines, made up: the same turns in databases, folders and documents."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Final

from agent_logs import Maker

SESSION_STEPS: Final = 400
"""Steps of a session."""
START_MS: Final = 1_790_000_000_000

Step = tuple[str, str, Any]
Sessions = Iterator[tuple[int, list[Step]]]


def sessions(size: int) -> Sessions:
    """Give the steps of sessions, of about ``size`` bytes in all."""
    steps, written, number = Maker(17).steps(), 0, 0
    while written < size:
        some = list(islice(steps, SESSION_STEPS))
        written += sum(len(json.dumps(told)) for _, _, told in some)
        yield number, some
        number += 1


def write_cursor(folder: Path, size: int) -> Path:
    """Write a database of Cursor's."""
    path = folder / "state.vscdb"
    with closing(sqlite3.connect(path)) as database:
        for table in ("ItemTable", "cursorDiskKV"):
            database.execute(
                f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"
            )
        for number, steps in sessions(size):
            session = f"{number:08}-0000-4000-8000-000000000000"
            bubbles = [_bubble(at, step) for at, step in enumerate(steps)]
            headers = [{"bubbleId": one["bubbleId"], "type": one["type"]} for one in bubbles]
            composer = {"createdAt": START_MS, "fullConversationHeadersOnly": headers}
            rows = {f"composerData:{session}": composer}
            rows |= {f"bubbleId:{session}:{one['bubbleId']}": one for one in bubbles}
            pairs = [(key, json.dumps(value)) for key, value in rows.items()]
            database.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", pairs)
        database.commit()
    return path


def _bubble(at: int, step: Step) -> dict[str, Any]:
    sort, call, told = step
    tool = {"toolCallId": call, "name": "shell", "status": "completed"}
    content: dict[str, Any] = {
        "user": {"text": told},
        "text": {"text": told},
        "thought": {"thinking": {"text": told}},
        "call": {"toolFormerData": {**tool, "status": "running", "params": json.dumps(told)}},
        "result": {"toolFormerData": {**tool, "result": json.dumps({"output": told})}},
    }[sort]
    kind = 1 if sort == "user" else 2
    return {"bubbleId": f"b-{at}", "type": kind, "createdAt": "2026-09-21T13:20:00.000Z", **content}


def write_opencode(folder: Path, size: int) -> Path:
    """Write a database of OpenCode's."""
    path = folder / "opencode.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE session (id TEXT PRIMARY KEY, directory TEXT, title TEXT,"
            " time_created INTEGER);"
            "CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER,"
            " data TEXT);"
            "CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT,"
            " time_created INTEGER, data TEXT);"
            "CREATE INDEX message_session ON message (session_id);"
            "CREATE INDEX part_session ON part (session_id);"
        )
        for number, steps in sessions(size):
            session = f"ses_{number:06}"
            database.execute(
                "INSERT INTO session VALUES (?, '/home/dev/app', 'Lamps', ?)",
                [session, START_MS + number],
            )
            for at, (sort, call, told) in enumerate(steps):
                message, role = (
                    f"msg_{number:06}_{at:04}",
                    "user" if sort == "user" else "assistant",
                )
                info = {"role": role, "modelID": "lumen", "time": {"created": START_MS + at}}
                values = [message, session, START_MS + at, json.dumps(info)]
                database.execute("INSERT INTO message VALUES (?, ?, ?, ?)", values)
                part = json.dumps(_part(sort, call, told))
                values = [f"prt_{number:06}_{at:04}", message, session, START_MS + at, part]
                database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", values)
        database.commit()
    return path


def _part(sort: str, call: str, told: Any) -> dict[str, Any]:
    if sort in {"call", "result"}:
        state = {"status": "running", "input": told}
        if sort == "result":
            state = {"status": "completed", "input": {}, "output": told}
        return {"type": "tool", "callID": call, "tool": "bash", "state": state}
    return {"type": "reasoning" if sort == "thought" else "text", "text": told}


def write_cline(folder: Path, size: int) -> Path:
    """Write tasks of Cline's."""
    for number, steps in sessions(size):
        task = folder / "tasks" / f"{number}"
        task.mkdir(parents=True)
        messages = [
            {"role": role, "content": [block], "ts": START_MS + at}
            for at, (role, block) in enumerate(map(_block, steps))
        ]
        (task / "api_conversation_history.json").write_text(json.dumps(messages))
    return folder / "tasks"


def _block(step: Step) -> tuple[str, dict[str, Any]]:
    sort, call, told = step
    blocks: dict[str, tuple[str, dict[str, Any]]] = {
        "user": ("user", {"type": "text", "text": told}),
        "text": ("assistant", {"type": "text", "text": told}),
        "thought": ("assistant", {"type": "thinking", "thinking": told}),
        "call": ("assistant", {"type": "tool_use", "id": call, "name": "shell", "input": told}),
        "result": ("user", {"type": "tool_result", "tool_use_id": call, "content": told}),
    }
    return blocks[sort]


def write_chatgpt(folder: Path, size: int) -> Path:
    """Write an export of ChatGPT's."""
    listed = []
    for number, steps in sessions(size):
        nodes: dict[str, Any] = {}
        before: str | None = None
        for at, step in enumerate(steps):
            name = f"{number}-{at}"
            message = {"id": name, "create_time": START_MS / 1_000 + at, **_message(step)}
            nodes[name] = {"id": name, "parent": before, "children": [], "message": message}
            before = name
        session = f"{number:08}-0000-4000-8000-00000000000c"
        listed.append({"id": session, "mapping": nodes, "current_node": before})
    path = folder / "conversations.json"
    path.write_text(json.dumps(listed))
    return path


def _message(step: Step) -> dict[str, Any]:
    sort, _, told = step
    text = told if isinstance(told, str) else json.dumps(told)
    content: dict[str, Any] = {"content_type": "text", "parts": [text]}
    if sort == "thought":
        content = {"content_type": "thoughts", "thoughts": [{"summary": "", "content": text}]}
    role = {"user": "user", "result": "tool"}.get(sort, "assistant")
    recipient = "python" if sort == "call" else "all"
    return {"author": {"role": role, "name": "python"}, "content": content, "recipient": recipient}


def write_aider(folder: Path, size: int) -> Path:
    """Write a history of Aider's."""
    path = folder / ".aider.chat.history.md"
    with path.open("w") as file:
        for number, steps in sessions(size):
            file.write(
                f"\n# aider chat started at 2026-06-09 14:{number // 60:02}:{number % 60:02}\n"
            )
            for sort, _, told in steps:
                text = told if isinstance(told, str) else json.dumps(told)
                marks = {"user": "#### ", "call": "> Applied edit to "}
                file.write(f"\n{marks.get(sort, '')}{text}\n" if sort != "result" else "")
    return path


STORES: Final[dict[str, Callable[[Path, int], Path]]] = {
    "Cursor, database": write_cursor,
    "OpenCode, database": write_opencode,
    "Cline": write_cline,
    "ChatGPT": write_chatgpt,
    "Aider": write_aider,
}
"""What writes such a log to a folder, by what it is."""
