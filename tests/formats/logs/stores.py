"""Logs that are not lines, made up: databases, folders and documents of other agents."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

T0: Final = 1_790_000_000_000
ISO: Final = "2026-09-21T13:{minute:02}:{second:02}.000Z"
PROJECT: Final = "/srv/harbour"
CHAT: Final = "0c0ffee0-0000-4000-8000-000000000001"
CHILD: Final = "0c0ffee0-0000-4000-8000-000000000002"


def put(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def document(value: Any) -> bytes:
    """Return a JSON document."""
    return json.dumps(value).encode()


# Cursor.


def bubble(number: int, kind: int, second: int, **fields: Any) -> dict[str, Any]:
    """Return a bubble: 1 is the user's, 2 the model's."""
    created = ISO.format(minute=20, second=second)
    return {"_v": 3, "bubbleId": f"b-{number}", "type": kind, "createdAt": created, **fields}


def tool(call_id: str, name: str, given: Any, status: str = "completed", **fields: Any) -> Any:
    """Return the call in a bubble."""
    return {
        "toolFormerData": {
            "tool": 15,
            "name": name,
            "toolCallId": call_id,
            "status": status,
            "params": json.dumps(given),
            "rawArgs": "{}",
            **fields,
        }
    }


BUBBLES: Final = [
    bubble(1, 1, 1, text="Mend the lamp.", modelInfo={"modelName": "default"}),
    bubble(
        2, 2, 2, thinking={"text": "The fuse, maybe.", "signature": "c2ln"}, thinkingDurationMs=9
    ),
    bubble(
        3,
        2,
        3,
        **tool("call_1\nfc_1", "read_file", {"path": "fuse.txt"}, result='{"contents":"5 A"}'),
    ),
    bubble(
        4,
        2,
        4,
        **tool(
            "call_2",
            "run_terminal",
            {"command": "make"},
            "error",
            error='{"clientVisibleErrorMessage":"make failed"}',
        ),
    ),
    bubble(
        5,
        2,
        5,
        **tool("call_3", "run_terminal", {"command": "ls"}, result='{"output":"","exitCodeV2":2}'),
    ),
    bubble(
        6,
        2,
        6,
        **tool("call_4", "delete_file", {"path": "x"}, "cancelled", userDecision="rejected"),
    ),
    bubble(
        7,
        2,
        7,
        text="It was the fuse.",
        tokenCount={"inputTokens": 120, "outputTokens": 30},
        modelInfo={"modelName": "lumen-2"},
    ),
    bubble(8, 2, 8),
    bubble(9, 1, 20, text="And the horn?"),
    bubble(
        10, 2, 21, text="The horn is fine.", errorDetails={"message": "rate limit", "code": 429}
    ),
]
TAKEN_BACK: Final = bubble(11, 1, 10, text="And the bell?")
"""A question that was taken back before the last one was asked."""


def composer(session: str, bubbles: Iterable[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """Return a conversation that lists these bubbles."""
    listed = [{"bubbleId": one["bubbleId"], "type": one["type"]} for one in bubbles]
    return {
        "_v": 16,
        "composerId": session,
        "name": "Lamps",
        "createdAt": T0,
        "status": "completed",
        "workspaceIdentifier": {"uri": {"fsPath": PROJECT}},
        "createdOnBranch": "mend",
        "modelConfig": {"modelName": "lumen-1"},
        "fullConversationHeadersOnly": listed,
        **fields,
    }


def cursor_rows() -> dict[str, Any]:
    """Return the rows of a database of Cursor's, by key."""
    summary = {"summary": "The lamp is mended.", "truncationLastBubbleIdInclusive": "b-7"}
    child = bubble(1, 1, 3, text="Find the fuse.")
    return {
        f"composerData:{CHAT}": composer(
            CHAT,
            BUBBLES,
            subComposerIds=[CHILD],
            latestConversationSummary={"summary": summary, "lastBubbleId": "b-9"},
        ),
        f"composerData:{CHILD}": composer(CHILD, [child], createdAt=T0 + 1, name=None),
        "composerData:empty": {"composerId": "empty", "fullConversationHeadersOnly": []},
        f"bubbleId:{CHILD}:b-1": child,
        **{f"bubbleId:{CHAT}:{one['bubbleId']}": one for one in (*BUBBLES, TAKEN_BACK)},
        "bubbleId:lost:b-1": bubble(1, 1, 1, text="Who am I?"),
        "agentKv:blob:1": {"role": "assistant"},
        "agentKv:blob:2": {"role": "assistant"},
    }


def cursor_database(
    path: Path, rows: Mapping[str, Any], mode: str = "delete"
) -> sqlite3.Connection:
    """Write a database of Cursor's, and return it open."""
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA journal_mode = {mode}")
    for table in ("ItemTable", "cursorDiskKV"):
        database.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
    database.execute("INSERT INTO ItemTable VALUES ('workbench.colour', 'dark')")
    put_rows(database, rows)
    return database


def put_rows(database: sqlite3.Connection, rows: Mapping[str, Any]) -> None:
    """Write rows of Cursor's, or write them again."""
    pairs = [(key, json.dumps(value).encode()) for key, value in rows.items()]
    database.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", pairs)
    database.commit()


def chat_database(path: Path) -> None:
    """Write a chat of Cursor's in the terminal, whose root names three messages, one twice."""
    messages = [
        {"role": "user", "content": "<user_info>\nWorkspace Path: /srv/harbour\n</user_info>"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "<user_query>\nTide?\n</user_query>"}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "Look it up."},
                {
                    "type": "tool-call",
                    "toolCallId": "t1",
                    "toolName": "Shell",
                    "args": {"command": "tide"},
                },
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "t1",
                    "toolName": "Shell",
                    "result": "Exit code: 1\n\nno tide",
                }
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "No tide."}]},
    ]
    ids = [bytes([number]) * 32 for number in range(len(messages))]
    root = b"".join(b"\x0a\x20" + one for one in [*ids, ids[1]])
    meta = {
        "agentId": CHAT,
        "name": "Tides",
        "createdAt": T0,
        "lastUsedModel": "lumen-1",
        "latestRootBlobId": "ff" * 32,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
        database.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        database.execute("INSERT INTO meta VALUES ('0', ?)", [document(meta).hex()])
        for one, message in zip(ids, messages, strict=True):
            database.execute("INSERT INTO blobs VALUES (?, ?)", [one.hex(), document(message)])
        database.execute("INSERT INTO blobs VALUES (?, ?)", ["ff" * 32, root])
        database.commit()


# OpenCode.


def opencode_session(session: str, **fields: Any) -> dict[str, Any]:
    """Return a session as its file has it."""
    return {
        "id": session,
        "version": "1.3.17",
        "projectID": "harbour",
        "directory": PROJECT,
        "title": "Lamps",
        "time": {"created": T0, "updated": T0 + 9},
        **fields,
    }


OPENCODE: Final[dict[str, list[tuple[dict[str, Any], list[dict[str, Any]]]]]] = {
    "ses_1": [
        (
            {"id": "msg_1", "role": "user", "time": {"created": T0 + 1}},
            [
                {"id": "prt_1", "type": "text", "text": "Mend the lamp."},
                {"id": "prt_2", "type": "text", "text": "Called the Read tool", "synthetic": True},
                {
                    "id": "prt_3",
                    "type": "file",
                    "mime": "text/plain",
                    "url": "file:///srv/fuse.txt",
                },
            ],
        ),
        (
            {
                "id": "msg_2",
                "role": "assistant",
                "modelID": "lumen-1",
                "providerID": "lumen",
                "time": {"created": T0 + 2, "completed": T0 + 9},
                "parentID": "msg_1",
                "cost": 0.5,
                "tokens": {
                    "input": 1,
                    "output": 2,
                    "reasoning": 0,
                    "cache": {"read": 0, "write": 0},
                },
            },
            [
                {"id": "prt_4", "type": "step-start"},
                {
                    "id": "prt_5",
                    "type": "reasoning",
                    "text": "The fuse.",
                    "time": {"start": T0 + 3, "end": T0 + 4},
                },
                {
                    "id": "prt_6",
                    "type": "tool",
                    "callID": "c1",
                    "tool": "bash",
                    "state": {
                        "status": "completed",
                        "input": {"command": "ls"},
                        "output": "fuse.txt",
                        "metadata": {"exit": 0},
                        "time": {"start": T0 + 4, "end": T0 + 6},
                    },
                },
                {
                    "id": "prt_7",
                    "type": "tool",
                    "callID": "c2",
                    "tool": "read",
                    "state": {
                        "status": "error",
                        "input": {"path": "x"},
                        "error": "no such file",
                        "time": {"start": T0 + 6, "end": T0 + 7},
                    },
                },
                {
                    "id": "prt_8",
                    "type": "tool",
                    "callID": "c3",
                    "tool": "task",
                    "state": {
                        "status": "completed",
                        "input": {"prompt": "find it"},
                        "output": "found",
                        "metadata": {"sessionId": "ses_2"},
                        "time": {"start": T0 + 7, "end": T0 + 8},
                    },
                },
                {
                    "id": "prt_9",
                    "type": "text",
                    "text": "Mended.",
                    "time": {"start": T0 + 8, "end": T0 + 9},
                },
                {
                    "id": "prt_a",
                    "type": "step-finish",
                    "reason": "stop",
                    "cost": 0.25,
                    "tokens": {
                        "input": 100,
                        "output": 20,
                        "reasoning": 5,
                        "cache": {"read": 30, "write": 7},
                    },
                },
                {"id": "prt_b", "type": "a-part-of-the-future", "depth": 1},
            ],
        ),
        (
            {"id": "msg_3", "role": "user", "time": {"created": T0 + 20}},
            [{"id": "prt_c", "type": "compaction", "auto": True, "tail_start_id": "msg_2"}],
        ),
        (
            {
                "id": "msg_4",
                "role": "assistant",
                "summary": True,
                "modelID": "lumen-1",
                "time": {"created": T0 + 21, "completed": T0 + 22},
            },
            [
                {
                    "id": "prt_d",
                    "type": "text",
                    "text": "A lamp was mended.",
                    "time": {"start": T0 + 21, "end": T0 + 22},
                }
            ],
        ),
        (
            {
                "id": "msg_5",
                "role": "assistant",
                "modelID": "lumen-1",
                "time": {"created": T0 + 30},
                "error": {"name": "ProviderAuthError", "data": {"message": "log in again"}},
            },
            [],
        ),
    ],
    "ses_2": [
        (
            {"id": "msg_6", "role": "user", "time": {"created": T0 + 7}},
            [{"id": "prt_e", "type": "text", "text": "find it"}],
        )
    ],
}
OPENCODE_SESSIONS: Final = [
    opencode_session("ses_1"),
    opencode_session(
        "ses_2", parentID="ses_1", title="find it (subagent)", time={"created": T0 + 7}
    ),
]


def opencode_folder(session: str) -> dict[str, bytes]:
    """Return the files of a session, by path."""
    header = next(one for one in OPENCODE_SESSIONS if one["id"] == session)
    files = {f"storage/session/harbour/{session}.json": document(header)}
    for message, parts in OPENCODE[session]:
        name = f"storage/message/{session}/{message['id']}.json"
        files[name] = document({**message, "sessionID": session})
        for part in parts:
            files[f"storage/part/{message['id']}/{part['id']}.json"] = document(
                {**part, "sessionID": session, "messageID": message["id"]}
            )
    return files


OPENCODE_TABLES: Final = """
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT,
    title TEXT, version TEXT, revert TEXT, time_created INTEGER, time_updated INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER,
    time_updated INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER,
    time_updated INTEGER, data TEXT);
CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT, type TEXT,
    time_created INTEGER, data TEXT);
CREATE TABLE todo (session_id TEXT, content TEXT, status TEXT, position INTEGER);
CREATE TABLE account (id TEXT PRIMARY KEY, access_token TEXT);
INSERT INTO account VALUES ('me', 'a-token');
INSERT INTO todo VALUES ('ses_1', 'mend the horn', 'pending', 0);
"""


def opencode_database(path: Path, mode: str = "delete") -> sqlite3.Connection:
    """Write the same sessions to a database, and return it open."""
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA journal_mode = {mode}")
    database.executescript(OPENCODE_TABLES)
    for one in OPENCODE_SESSIONS:
        database.execute(
            "INSERT INTO session VALUES (?, 'harbour', ?, ?, ?, '1.3.17', NULL, ?, ?)",
            [one["id"], one.get("parentID"), PROJECT, one["title"], one["time"]["created"], T0],
        )
        for message, parts in OPENCODE[one["id"]]:
            put_message(database, one["id"], message, parts)
    for kind in ("user", "model-switched"):
        database.execute(
            "INSERT INTO session_message VALUES (?, 'ses_1', ?, ?, '{}')",
            [f"sm_{kind}", kind, T0 + 40],
        )
    database.commit()
    return database


def put_message(
    database: sqlite3.Connection, session: str, message: dict[str, Any], parts: list[dict[str, Any]]
) -> None:
    """Write a message and its parts, as OpenCode does: ids and times in columns of their own."""
    created = message["time"]["created"]
    data = {at: one for at, one in message.items() if at != "id"}
    database.execute(
        "INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?)",
        [message["id"], session, created, created, json.dumps(data)],
    )
    for part in parts:
        data = {at: one for at, one in part.items() if at != "id"}
        values = [part["id"], message["id"], session, created, created, json.dumps(data)]
        database.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", values)
    database.commit()


# Cline.

ENVIRONMENT: Final = (
    "<environment_details>\n# Current Working Directory (/srv/harbour) Files\nfuse.txt\n"
    "</environment_details>"
)
CLINE_CONVERSATION: Final[list[dict[str, Any]]] = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "<task>\nMend the lamp.\n</task>"},
            {"type": "text", "text": ENVIRONMENT},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "The fuse.", "signature": "c2ln"},
            {
                "type": "text",
                "text": "I'll look.\n<read_file>\n<path>fuse.txt</path>\n</read_file>",
            },
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "[read_file for 'fuse.txt'] Result:"},
            {"type": "text", "text": "5 A"},
            {"type": "text", "text": ENVIRONMENT},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Now I run it."},
            {
                "type": "tool_use",
                "id": "toolu_1",
                "name": "execute_command",
                "input": {"command": "make"},
            },
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "is_error": True,
                "content": "make failed",
            },
            {"type": "text", "text": "<feedback>\nTry again.\n</feedback>"},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "It was the fuse."}]},
]


def request(at: int, index: int, **used: Any) -> dict[str, Any]:
    """Return that a request was shown, with what it used."""
    return {
        "ts": T0 + at,
        "type": "say",
        "say": "api_req_started",
        "text": json.dumps(used),
        "conversationHistoryIndex": index,
        "modelInfo": {"modelId": "lumen-1", "providerId": "lumen"},
    }


CLINE_SHOWN: Final[list[dict[str, Any]]] = [
    {
        "ts": T0,
        "type": "say",
        "say": "task",
        "text": "Mend the lamp.",
        "conversationHistoryIndex": -1,
    },
    request(
        1_000, -1, request="…", tokensIn=10, tokensOut=5, cacheReads=3, cacheWrites=2, cost=0.25
    ),
    {
        "ts": T0 + 2_000,
        "type": "say",
        "say": "text",
        "text": "I'll look.",
        "conversationHistoryIndex": 0,
    },
    {
        "ts": T0 + 3_000,
        "type": "ask",
        "ask": "tool",
        "text": '{"tool":"readFile"}',
        "conversationHistoryIndex": 0,
    },
    request(4_000, 1, tokensIn=7, tokensOut=1, cost=0.5),
    {
        "ts": T0 + 5_000,
        "type": "say",
        "say": "error",
        "text": "the horn blew",
        "conversationHistoryIndex": 2,
    },
    request(6_000, 3, tokensIn=1, tokensOut=1, cancelReason="user_cancelled"),
    {"ts": T0 + 7_000, "type": "say", "say": "a_say_of_the_future", "text": "?"},
]


def cline_task(task: str = "1790000000000") -> dict[str, bytes]:
    """Return the files of a task, by path."""
    models = {
        "model_usage": [{"ts": T0 + 500, "model_id": "lumen-1", "model_provider_id": "lumen"}]
    }
    return {
        f"tasks/{task}/api_conversation_history.json": document(CLINE_CONVERSATION),
        f"tasks/{task}/ui_messages.json": document(CLINE_SHOWN),
        f"tasks/{task}/task_metadata.json": document(models),
    }


CLINE_SESSION: Final[dict[str, Any]] = {
    "version": 1,
    "session_id": "s1",
    "started_at": "2026-10-01T10:00:00Z",
    "provider": "lumen",
    "model": "lumen-1",
    "cwd": PROJECT,
    "prompt": '<user_input mode="act">Mend the lamp.</user_input>',
    "metadata": {"title": "Lamps", "git": {"branch": "mend"}},
}
CLINE_MESSAGES: Final[list[dict[str, Any]]] = [
    {
        "id": "m1",
        "role": "user",
        "ts": T0,
        "content": [{"type": "text", "text": '<user_input mode="act">Mend the lamp.</user_input>'}],
    },
    {
        "id": "m2",
        "role": "assistant",
        "ts": T0 + 1_000,
        "modelInfo": {"id": "lumen-1", "provider": "lumen"},
        "metrics": {
            "inputTokens": 10,
            "outputTokens": 5,
            "cacheReadTokens": 3,
            "cacheWriteTokens": 2,
        },
        "content": [
            {"type": "thinking", "thinking": "The fuse."},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "read_files", "input": {"paths": ["a"]}},
        ],
    },
    {
        "id": "m3",
        "role": "user",
        "ts": T0 + 2_000,
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [{"query": "a", "error": "no such file", "success": False}],
            }
        ],
    },
    {
        "id": "m4",
        "role": "assistant",
        "ts": T0 + 3_000,
        "content": [{"type": "text", "text": "Mended."}],
    },
    {"type": "reasoning", "ts": T0 + 4_000, "text": "All is well."},
]


def cline_session() -> dict[str, bytes]:
    """Return the files of a session in the terminal and of its teammate, by path."""
    whole = {"version": 1, "sessionId": "s1", "messages": CLINE_MESSAGES}
    theirs = {**whole, "origin": {"subagent": "scout", "parentThreadId": "s1"}}
    return {
        "sessions/s1/s1.json": document(CLINE_SESSION),
        "sessions/s1/s1.messages.json": document(whole),
        "sessions/s1/scout__1.messages.json": document(theirs),
    }


# Cursor's older transcripts.

CURSOR_TEXT: Final = """user:
<user_query>
Mend the lamp.
</user_query>

assistant:
[Thinking]
  Where is it?
[Tool call] Grep
  pattern=lamp
  path=/srv
[Tool result]
  lamp.py
I run it.
[Tool call] Shell
  {"command": "make"}
[Tool result] Shell
  Exit code: 2
  make failed
[Tool call] ApplyPatch
  *** Begin Patch
  -old
  +new
Mended:

    user = 1
user:
Thanks.
"""


# ChatGPT.


def node(
    at: str, parent: str | None, role: str | None, seconds: float, **fields: Any
) -> dict[str, Any]:
    """Return a node of a conversation; ``text`` is what it says."""
    text = fields.pop("text", None)
    content = fields.pop("content", {"content_type": "text", "parts": [text]})
    author = {"role": role, "name": fields.pop("name", None)}
    message = {
        "id": at,
        "author": author,
        "create_time": T0 / 1_000 + seconds,
        "content": content,
        "recipient": "all",
        "metadata": {},
        **fields,
    }
    return {"id": at, "parent": parent, "children": [], "message": message if role else None}


def conversation(session: str = "67aa0000-0000-8000-8000-000000000001") -> dict[str, Any]:
    """Return a conversation with a tool, a thought and two other branches."""
    model = {"metadata": {"model_slug": "lumen-1"}}
    nodes = [
        node("root", None, None, 0),
        node("sys", "root", "system", 1, text=""),
        node("ask", "sys", "user", 2, text="Which tide?"),
        node(
            "mind",
            "ask",
            "assistant",
            3,
            content={
                "content_type": "thoughts",
                "thoughts": [{"summary": "Tides", "content": "Look it up."}],
            },
        ),
        node(
            "call",
            "mind",
            "assistant",
            4,
            recipient="python",
            content={"content_type": "code", "language": "python", "text": "tide()"},
        ),
        node(
            "gave",
            "call",
            "tool",
            5,
            name="python",
            content={"content_type": "execution_output", "text": "14:10"},
        ),
        node("told", "gave", "assistant", 6, text="At 14:10.", **model),
        node("wrong", "gave", "assistant", 5.5, text="At noon.", **model),
        node("thanks", "told", "user", 7, text="Thanks."),
        node("other", "sys", "user", 1.5, text="Which wind?"),
        node("calm", "other", "assistant", 1.7, text="Calm.", **model),
        node(
            "odd", "thanks", "assistant", 8, content={"content_type": "of_the_future", "it": "is"}
        ),
    ]
    return {
        "id": session,
        "conversation_id": session,
        "title": "Tides",
        "create_time": T0 / 1_000,
        "update_time": T0 / 1_000 + 9,
        "current_node": "odd",
        "mapping": {one["id"]: one for one in nodes},
    }


# Aider.

AIDER: Final = """
# aider chat started at 2026-06-09 14:01:00

> Aider v0.86.1
> Model: lumen-1 with diff edit format

#### mend the lamp
#### and the horn
I'll mend both:

#### First the lamp

> a quote of mine

Then the horn.

> Applied edit to lamp.py
> Did not apply edit to horn.py (--dry-run)
> Tokens: 2.5k sent, 1.2k cache hit, 283 received. Cost: $0.01 message, $0.02 session.

#### /run make
> litellm.RateLimitError: slow down

# aider chat started at 2026-06-10 09:00:00

#### thanks
You are welcome.
"""
