"""Logs that are databases, folders and documents: what they hold, counted by other means."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from formats.logs import stores
from formats.logs.stores import (
    AIDER,
    BUBBLES,
    CHAT,
    CHILD,
    CLINE_CONVERSATION,
    CLINE_MESSAGES,
    CLINE_SHOWN,
    CURSOR_TEXT,
    OPENCODE,
    T0,
    chat_database,
    cline_session,
    cline_task,
    conversation,
    cursor_database,
    cursor_rows,
    document,
    opencode_database,
    opencode_folder,
    put,
)
from treering.capture.intake.log_search import log_folders
from treering.formats.registry import formats
from treering.importing.testing import LAWS, LogSample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from treering import Ledger
    from treering.model.events import Event
    from treering.model.intakes import ImportReceipt

SCOPE: Final = "harbour"
OPENING: Final = {"session.opened", "session.imported", "session.forked"}


def database_bytes(write: Callable[[Path], sqlite3.Connection | None]) -> bytes:
    """Return a database as a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.db")
        if (database := write(path)) is not None:
            database.close()
        return path.read_bytes()


TRANSCRIPT: Final[list[dict[str, Any]]] = [
    {
        "role": "user",
        "message": {
            "content": [{"type": "text", "text": "<user_query>\nMend the lamp.\n</user_query>"}]
        },
    },
    {
        "role": "assistant",
        "message": {
            "content": [
                {"type": "thinking", "thinking": "Where is it?"},
                {"type": "text", "text": "I look for it."},
                {"type": "tool_use", "name": "Grep", "input": {"pattern": "lamp"}},
                {"type": "tool_use", "name": "Shell", "input": {"command": "make"}},
            ]
        },
    },
    {
        "role": "user",
        "message": {
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "lamp.py"}],
                },
                {
                    "type": "tool_result",
                    "name": "Shell",
                    "is_error": True,
                    "content": "make failed",
                },
            ]
        },
    },
    {"role": "assistant", "message": {"content": "Mended."}, "model": "lumen-1"},
    {"role": "user", "message": {"content": [{"type": "text", "text": "Mend the lamp."}]}},
    {"type": "turn_ended", "status": "success"},
]


def lines(records: Iterable[Any]) -> bytes:
    return b"".join(document(record) + b"\n" for record in records)


def rows_as_lines(rows: dict[str, Any]) -> bytes:
    return lines({"key": key, "value": value} for key, value in rows.items())


def _sample(name: str, log: str, files: dict[str, bytes], *, content: str = "json") -> LogSample:
    found = [one for one in formats() if (one.name, one.content) == (name, content)]
    own = next(one for one in found if content != "sqlite" or _claims(one, files[log]))
    return LogSample(own, log, files)


def _claims(one: Any, content: bytes) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.db")
        path.write_bytes(content)
        with closing(sqlite3.connect(path)) as database:
            names = [row[0] for row in database.execute("SELECT name FROM sqlite_schema")]
            tables = [
                {
                    "table": name,
                    "columns": [row[1] for row in database.execute(f"PRAGMA table_info({name})")],
                }
                for name in names
            ]
    return bool(one.score(tables) > 0)


SAMPLES: Final = {
    "cursor transcript": _sample("cursor", f"{CHAT}.jsonl", {f"{CHAT}.jsonl": lines(TRANSCRIPT)}),
    "cursor rows": _sample("cursor", "rows.jsonl", {"rows.jsonl": rows_as_lines(cursor_rows())}),
    "cursor": _sample(
        "cursor",
        "state.vscdb",
        {"state.vscdb": database_bytes(lambda path: cursor_database(path, cursor_rows()))},
        content="sqlite",
    ),
    "cursor chat": _sample(
        "cursor",
        f"{CHAT}/store.db",
        {f"{CHAT}/store.db": database_bytes(chat_database)},
        content="sqlite",
    ),
    "opencode": _sample(
        "opencode",
        "opencode.db",
        {"opencode.db": database_bytes(opencode_database)},
        content="sqlite",
    ),
    "opencode folder": _sample(
        "opencode", "storage/session/harbour/ses_1.json", opencode_folder("ses_1")
    ),
    "cursor text": _sample(
        "cursor", f"{CHAT}.txt", {f"{CHAT}.txt": CURSOR_TEXT.encode()}, content="text"
    ),
    "cline session": _sample("cline", "sessions/s1/s1.messages.json", cline_session()),
    "cline": _sample("cline", "tasks/1790000000000/api_conversation_history.json", cline_task()),
    "chatgpt": _sample(
        "chatgpt", "conversations.json", {"conversations.json": document([conversation()])}
    ),
    "aider": _sample(
        "aider",
        "lamps/.aider.chat.history.md",
        {"lamps/.aider.chat.history.md": AIDER.encode()},
        content="text",
    ),
}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("form", SAMPLES)
def test_a_reader_keeps_the_law(form: str, law: Callable[[LogSample], None]) -> None:
    law(SAMPLES[form])


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with treering.open(":memory:") as made:
        yield made


def take(ledger: Ledger, *paths: Path, **how: Any) -> ImportReceipt:
    """Import logs into one scope; every record is accounted for, and none is in error."""
    receipt = treering.import_logs(ledger, paths, scope=SCOPE, **how)
    parts = receipt.imported + receipt.duplicates + sum(receipt.skipped.values()) + receipt.errors
    assert parts == receipt.lines
    assert not [one for one in receipt.sources if one.state == "refused" and one.format]
    return receipt


def take_sample(ledger: Ledger, folder: Path, form: str) -> ImportReceipt:
    put(folder, SAMPLES[form].files)
    receipt = take(ledger, folder / SAMPLES[form].log)
    assert receipt.errors == 0
    return receipt


def events(ledger: Ledger, session: str) -> list[Event]:
    """Return the events of a session, without those that open it."""
    found = ledger.session(session, scope=SCOPE, agent="test").events()
    return [one for one in found if not one.kind.startswith("session.")]


def texts(found: Iterable[Event]) -> list[tuple[str, str]]:
    """Return what was said, by whom."""
    return [
        (one.kind.removeprefix("conversation."), one.payload["text"])
        for one in found
        if one.kind.startswith("conversation.")
    ]


def calls(found: Iterable[Event]) -> dict[str, tuple[str, str | None, Any]]:
    """Return of each call its tool, how it ended and its output."""
    listed = [*found]
    begun = {one.refs["call_id"]: one.refs["tool"] for one in listed if one.kind == "tool.call"}
    ended = {one.refs["call_id"]: one for one in listed if one.kind == "tool.result"}
    assert ended.keys() <= begun.keys()
    return {
        call_id: (
            (name, ended[call_id].refs.get("error_class", "ok"), ended[call_id].payload["output"])
            if call_id in ended
            else (name, None, None)
        )
        for call_id, name in begun.items()
    }


def thoughts(found: Iterable[Event]) -> list[str]:
    return [
        one.payload["thinking"] for one in found if (one.refs or {}).get("observed") == "thinking"
    ]


def is_exact(one: Event) -> bool:
    return (one.refs or {}).get("time") != "approximate"


# Cursor.


def test_a_conversation_of_cursor_is_whole(tmp_path: Path, ledger: Ledger) -> None:
    receipt = take_sample(ledger, tmp_path, "cursor")

    with closing(sqlite3.connect(tmp_path / "state.vscdb")) as database:
        rows = sum(
            database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("ItemTable", "cursorDiskKV")
        )
    assert receipt.lines == rows
    assert receipt.skipped == {
        "a setting of the editor": 1,
        "agentKv: no part of a conversation": 2,
        "an empty bubble": 1,
        "an empty conversation": 1,
    }
    found = events(ledger, CHAT)
    said = [(one["type"], one["text"]) for one in BUBBLES if one.get("text")]
    asked = [("user" if kind == 1 else "assistant", text) for kind, text in said]
    # What was taken back stands where it was said, and is undone.
    asked.insert(2, ("user", "And the bell?"))
    assert texts(found) == asked
    assert thoughts(found) == ["The fuse, maybe."]
    assert calls(found) == {
        "call_1": ("read_file", "ok", {"contents": "5 A"}),
        "call_2": ("run_terminal", "Failed", "make failed"),
        "call_3": ("run_terminal", "ExitCode", {"output": "", "exitCodeV2": 2}),
        "call_4": ("delete_file", "Denied", "rejected by the user"),
    }
    assert all(is_exact(one) for one in found)
    assert ledger.session(CHAT, scope=SCOPE, agent="test").usage().total.total_tokens == 150


def test_what_cursor_took_back_or_summed_up_is_hidden(tmp_path: Path, ledger: Ledger) -> None:
    take_sample(ledger, tmp_path, "cursor")

    session = ledger.session(CHAT, scope=SCOPE, agent="test")
    shown = str(session.context())
    assert "And the bell?" not in shown
    assert "The lamp is mended." in shown
    assert "Mend the lamp." not in shown
    assert "And the horn?" in shown


def test_project_branch_title_and_subagents_of_cursor_are_known(tmp_path: Path) -> None:
    put(tmp_path, SAMPLES["cursor"].files)
    with treering.open(":memory:") as ledger:
        treering.import_logs(ledger, [tmp_path / "state.vscdb"])

        opened = {one.session_id: one for one in ledger.sessions("harbour", subagents=True).items}
        assert opened[CHAT].title == "Lamps"
        child = ledger.session(CHILD, scope="harbour", agent="test").outline()
        assert child.spawned_by == CHAT
        imported = [
            one
            for one in ledger.session(CHAT, scope="harbour", agent="test").events()
            if one.kind == "session.imported"
        ]
        assert imported[0].payload["branch"] == "mend"
        assert imported[0].payload["cwd"] == stores.PROJECT


def test_the_folders_of_older_conversations_are_found_in_workspaces(tmp_path: Path) -> None:
    rows = cursor_rows()
    for key in (f"composerData:{CHAT}", f"composerData:{CHILD}"):
        del rows[key]["workspaceIdentifier"]
    user = tmp_path / ".config/Cursor/User"
    cursor_database(user / "globalStorage/state.vscdb", rows).close()
    place = user / "workspaceStorage/abc"
    with closing(cursor_database(place / "state.vscdb", {})) as database:
        listed = document({"allComposers": [{"composerId": CHAT}, {"composerId": CHILD}]})
        database.execute("INSERT INTO ItemTable VALUES ('composer.composerData', ?)", [listed])
        tabs = [
            {
                "tabId": "old",
                "chatTitle": "Bells",
                "lastSendTime": T0,
                "bubbles": [{"type": "user", "text": "Ring?"}, {"type": "ai", "rawText": "Ring."}],
            }
        ]
        key = "workbench.panel.aichat.view.aichat.chatdata"
        database.execute("INSERT INTO ItemTable VALUES (?, ?)", [key, document({"tabs": tabs})])
        database.commit()
    (place / "workspace.json").write_bytes(document({"folder": "file:///srv/my%20harbour"}))

    with treering.open(":memory:") as ledger:
        receipt = treering.import_logs(ledger, [user])

        assert receipt.by_scope["my-harbour"] > 10
        old = ledger.session("old", scope="my-harbour", agent="test").events()
        assert texts(old) == [("user", "Ring?"), ("assistant", "Ring.")]


def test_a_transcript_adds_nothing_to_a_conversation_in_the_database(
    tmp_path: Path, ledger: Ledger
) -> None:
    take_sample(ledger, tmp_path / "first", "cursor")
    before = events(ledger, CHAT)

    receipt = take_sample(ledger, tmp_path / "then", "cursor transcript")

    assert (receipt.events, receipt.duplicates) == (0, len(TRANSCRIPT))
    assert events(ledger, CHAT) == before


def test_a_transcript_of_cursor_is_whole(tmp_path: Path, ledger: Ledger) -> None:
    take_sample(ledger, tmp_path, "cursor transcript")

    found = events(ledger, CHAT)
    assert texts(found) == [
        ("user", "Mend the lamp."),
        ("assistant", "I look for it."),
        ("assistant", "Mended."),
        ("user", "Mend the lamp."),
    ]
    assert sorted(calls(found).values()) == [
        ("Grep", "ok", "lamp.py"),
        ("Shell", "Failed", "make failed"),
    ]
    assert thoughts(found) == ["Where is it?"]
    assert not any(is_exact(one) for one in found)


def test_projects_and_subagents_of_transcripts_are_told_by_their_paths(tmp_path: Path) -> None:
    place = tmp_path / ".cursor/projects/srv-harbour"
    said = lines(TRANSCRIPT[:1])
    put(
        place,
        {
            ".workspace-trusted": document({"workspacePath": "/srv/harbour"}),
            f"agent-transcripts/{CHAT}/{CHAT}.jsonl": said,
            f"agent-transcripts/{CHAT}/subagents/{CHILD}.jsonl": said,
        },
    )
    with treering.open(":memory:") as ledger:
        receipt = treering.import_logs(ledger, [place])

        assert receipt.by_scope == {"harbour": 2}
        assert receipt.subagents == 1
        outline = ledger.session(CHILD, scope="harbour", agent="test").outline()
        assert outline.spawned_by == CHAT


def test_a_chat_of_cursor_in_the_terminal_is_whole(tmp_path: Path, ledger: Ledger) -> None:
    receipt = take_sample(ledger, tmp_path, "cursor chat")

    found = events(ledger, CHAT)
    assert texts(found) == [("user", "Tide?"), ("assistant", "No tide."), ("user", "Tide?")]
    assert calls(found) == {"t1": ("Shell", "Failed", "Exit code: 1\n\nno tide")}
    assert thoughts(found) == ["Look it up."]
    assert receipt.skipped == {"a blob that is not a message": 1}


def test_an_older_transcript_of_cursor_is_whole(tmp_path: Path, ledger: Ledger) -> None:
    receipt = take_sample(ledger, tmp_path, "cursor text")

    marks = Counter(line for line in CURSOR_TEXT.splitlines() if line in {"user:", "assistant:"})
    assert receipt.lines == receipt.imported == sum(marks.values())
    found = events(ledger, CHAT)
    assert texts(found) == [
        ("user", "Mend the lamp."),
        ("assistant", "I run it."),
        ("assistant", "Mended:\n\n    user = 1"),
        ("user", "Thanks."),
    ]
    assert thoughts(found) == ["Where is it?"]
    assert sorted(calls(found).values(), key=str) == [
        ("ApplyPatch", None, None),
        ("Grep", "ok", "lamp.py"),
        ("Shell", "Failed", "Exit code: 2\nmake failed"),
    ]
    inputs = [one.payload["input"] for one in found if one.kind == "tool.call"]
    assert inputs == [
        {"pattern": "lamp", "path": "/srv"},
        {"command": "make"},
        {"patch": "*** Begin Patch\n-old\n+new"},
    ]
    assert not any(is_exact(one) for one in found)


def test_older_transcripts_are_found_unless_there_are_newer_ones(tmp_path: Path) -> None:
    place = tmp_path / ".cursor/projects/srv-harbour/agent-transcripts"
    put(
        place,
        {
            "old.txt": CURSOR_TEXT.encode(),
            "both/both.txt": CURSOR_TEXT.encode(),
            "both/both.jsonl": lines(TRANSCRIPT[:1]),
            f"old/subagents/{CHILD}.txt": CURSOR_TEXT.encode(),
            "notes.txt": b"user guide",
        },
    )
    with treering.open(":memory:") as ledger:
        receipt = treering.import_logs(ledger, [place], scope=SCOPE)

        assert receipt.by_format == {"cursor": 3}
        assert receipt.subagents == 1
        assert texts(events(ledger, "both")) == [("user", "Mend the lamp.")]
        assert len(texts(events(ledger, "old"))) == 4


# OpenCode.


@pytest.mark.parametrize("form", ["opencode folder", "cursor text", "cline", "chatgpt", "aider"])
def test_a_file_that_begins_with_a_mark_of_its_encoding_is_read(tmp_path: Path, form: str) -> None:
    """Windows editors write one."""
    sample = SAMPLES[form]
    marked = {
        name: b"\xef\xbb\xbf" + held if name == sample.log else held
        for name, held in sample.files.items()
    }
    contents = []
    for folder, files in (("plain", sample.files), ("marked", marked)):
        put(tmp_path / folder, files)
        with treering.open(":memory:") as ledger:
            take(ledger, tmp_path / folder / sample.log)
            contents.append([one for one in ledger.events(SCOPE).items if one.kind not in OPENING])

    plain, found = ([(one.kind, one.payload) for one in read] for read in contents)
    assert found == plain


@pytest.mark.parametrize("form", ["opencode", "opencode folder"])
def test_a_session_of_opencode_is_whole(tmp_path: Path, ledger: Ledger, form: str) -> None:
    receipt = take_sample(ledger, tmp_path, form)

    parts = [part for _, listed in OPENCODE["ses_1"] for part in listed]
    found = events(ledger, "ses_1")
    assert texts(found) == [("user", "Mend the lamp."), ("assistant", "Mended.")]
    assert thoughts(found) == [one["text"] for one in parts if one["type"] == "reasoning"]
    assert calls(found) == {
        "c1": ("bash", "ok", "fuse.txt"),
        "c2": ("read", "Failed", "no such file"),
        "c3": ("task", "ok", "found"),
    }
    kinds = Counter(one.kind for one in found)
    assert (kinds["ops.error"], kinds["context.compacted"], kinds["usage.reported"]) == (1, 1, 1)
    usage = ledger.session("ses_1", scope=SCOPE, agent="test").usage().total
    step = next(one for one in parts if one["type"] == "step-finish")
    tokens = step["tokens"]
    assert usage.input_tokens == tokens["input"] + sum(tokens["cache"].values())
    assert usage.output_tokens == tokens["output"] + tokens["reasoning"]
    assert float(usage.cost_usd or 0) == step["cost"]
    observed = [one.refs["observed"] for one in found if one.kind == "ops.observation"]
    assert {"file", "synthetic", "a-part-of-the-future", "compaction"} <= {*observed}
    if form == "opencode":
        rows = 2 + sum(len(one) for one in OPENCODE.values()) + len(parts) + 1
        assert receipt.lines == rows + 2 + 1 + 1  # Two newer messages, a to-do and an account.
        assert receipt.skipped["the table account"] == 1
        assert receipt.skipped["repeats a message"] == 1
    else:
        assert receipt.lines == len(SAMPLES[form].files)


def test_a_session_that_moved_to_the_database_is_not_doubled(
    tmp_path: Path, ledger: Ledger
) -> None:
    put(tmp_path, {**opencode_folder("ses_1"), **opencode_folder("ses_2")})
    take(ledger, tmp_path / "storage/session")
    before = texts(events(ledger, "ses_1"))
    opencode_database(tmp_path / "opencode.db").close()

    receipt = take(ledger, tmp_path / "opencode.db")

    assert texts(events(ledger, "ses_1")) == before
    assert receipt.events == 2  # What only the database has: a to-do and a switch of the model.


def test_a_subagent_of_opencode_knows_the_call_that_began_it(
    tmp_path: Path, ledger: Ledger
) -> None:
    take_sample(ledger, tmp_path, "opencode")

    opened = next(iter(ledger.session("ses_2", scope=SCOPE, agent="test").events()))
    assert (opened.refs["spawned_by"], opened.refs["spawned_call"]) == ("ses_1", "c3")


def test_rows_of_opencode_are_read_as_lines(tmp_path: Path, ledger: Ledger) -> None:
    rows: list[dict[str, Any]] = [{"type": "opencode_session", "id": "ses_2", "directory": "/srv"}]
    for message, parts in OPENCODE["ses_2"]:
        shared = {"session_id": "ses_2", "time_created": T0}
        rows.append({"type": "opencode_message", "id": message["id"], "data": message, **shared})
        for part in parts:
            own = {"type": "opencode_part", "id": part["id"], "message_id": message["id"]}
            rows.append({**own, "data": part, **shared})
    put(tmp_path, {"rows.jsonl": lines(rows)})

    assert take(ledger, tmp_path / "rows.jsonl").lines == len(rows)
    assert texts(events(ledger, "ses_2")) == [("user", "find it")]


def test_what_opencode_reverted_is_hidden(tmp_path: Path, ledger: Ledger) -> None:
    with closing(opencode_database(tmp_path / "opencode.db")) as database:
        database.execute(
            "UPDATE session SET revert = '{\"messageID\":\"msg_2\"}' WHERE id = 'ses_1'"
        )
        database.commit()

    take(ledger, tmp_path / "opencode.db")

    shown = str(ledger.session("ses_1", scope=SCOPE, agent="test").context())
    assert "Mend the lamp." in shown
    assert "Mended." not in shown


def test_a_damaged_file_of_a_session_costs_no_other(tmp_path: Path, ledger: Ledger) -> None:
    put(tmp_path, opencode_folder("ses_1"))
    torn = tmp_path / "storage/part/msg_2/prt_6.json"
    torn.write_bytes(torn.read_bytes()[:40])

    receipt = take(ledger, tmp_path / "storage/session")

    assert receipt.errors == 1
    assert "prt_6.json" in receipt.faults[0].reason
    assert calls(events(ledger, "ses_1")).keys() == {"c2", "c3"}


# Cline, Roo, Kilo.


@pytest.mark.parametrize(
    ("agent", "extension"),
    [
        ("cline", "saoudrizwan.claude-dev"),
        ("roo", "rooveterinaryinc.roo-cline"),
        ("kilo", "kilocode.kilo-code"),
    ],
)
def test_a_task_is_whole_and_has_the_name_of_its_agent(
    tmp_path: Path, ledger: Ledger, agent: str, extension: str
) -> None:
    put(tmp_path / "Code/User/globalStorage" / extension, cline_task("42"))

    receipt = take(ledger, tmp_path)

    assert receipt.by_format == {agent: 1}
    assert receipt.lines == len(CLINE_CONVERSATION) + len(CLINE_SHOWN) + 1
    found = events(ledger, "42")
    assert {one.agent_id for one in found} == {agent}
    assert texts(found) == [
        ("user", "Mend the lamp."),
        ("assistant", "I'll look."),
        ("assistant", "Now I run it."),
        ("user", "Try again."),
        ("assistant", "It was the fuse."),
    ]
    assert sorted(calls(found).values()) == [
        ("execute_command", "Failed", "make failed"),
        ("read_file", "ok", "5 A"),
    ]
    assert thoughts(found) == ["The fuse."]
    usage = ledger.session("42", scope=SCOPE, agent="test").usage().total
    used = [json.loads(one["text"]) for one in CLINE_SHOWN if one.get("say") == "api_req_started"]
    names = ("tokensIn", "cacheReads", "cacheWrites")
    assert usage.input_tokens == sum(one.get(at, 0) for one in used for at in names)
    assert usage.output_tokens == sum(one["tokensOut"] for one in used)
    kinds = Counter(one.kind for one in found)
    assert (kinds["ops.error"], kinds["boundary.interrupt"]) == (1, 1)
    said = {one.payload["text"]: one for one in found if one.kind.startswith("conversation.")}
    assert said["Mend the lamp."].ts_ms == T0 + 1_000
    assert said["I'll look."].ts_ms == T0 + 3_000
    assert said["I'll look."].payload["model"] == "lumen-1"


def test_newer_sessions_of_kilo_are_a_database_like_opencodes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    path = home / ".local/share/kilo/kilo.db"
    opencode_database(path).close()

    with treering.open(":memory:") as ledger:
        found = [one.root for one in log_folders(home)]
        receipt = treering.import_logs(ledger, found, scope=SCOPE)
        again = treering.import_logs(ledger, found, scope=SCOPE, again=True)

        assert (receipt.by_format, again.events) == ({"kilo": 1}, 0)
        parts = [part for _, listed in OPENCODE["ses_1"] for part in listed]
        names = {part["callID"] for part in parts if part["type"] == "tool"}
        assert calls(events(ledger, "ses_1")).keys() == names
        outlines = ledger.sessions(SCOPE, subagents=True).items
        assert {one.agent.partition(":")[0] for one in outlines} == {"kilo"}


def test_a_session_of_cline_in_the_terminal_is_whole(tmp_path: Path, ledger: Ledger) -> None:
    put(tmp_path / ".cline/data", cline_session())

    receipt = take(ledger, tmp_path)

    # Of each: its own messages, and what both files say of the session.
    assert receipt.lines == 2 * (len(CLINE_MESSAGES) + 2)
    assert (receipt.by_format, receipt.subagents) == ({"cline": 2}, 1)
    found = events(ledger, "s1")
    assert texts(found) == [
        ("user", "Mend the lamp."),
        ("assistant", "I look."),
        ("assistant", "Mended."),
    ]
    assert thoughts(found) == ["The fuse.", "All is well."]
    assert [(name, end) for name, end, _ in calls(found).values()] == [("read_files", "Failed")]
    assert all(is_exact(one) for one in found)
    session = ledger.session("s1", scope=SCOPE, agent="test")
    metrics: Any = CLINE_MESSAGES[1]["metrics"]
    total = session.usage().total
    assert (total.input_tokens + total.output_tokens, total.cached_tokens) == (
        sum(metrics.values()),
        metrics["cacheReadTokens"],
    )
    assert session.outline().title == "Lamps"
    child = ledger.session("s1/scout__1", scope=SCOPE, agent="test").outline()
    assert (child.spawned_by, child.agent) == ("s1", "cline:scout")


def test_what_was_shown_stands_in_for_a_conversation_that_is_missing(
    tmp_path: Path, ledger: Ledger
) -> None:
    files = cline_task("42")
    del files["tasks/42/api_conversation_history.json"]
    put(tmp_path, files)

    take(ledger, tmp_path)

    assert texts(events(ledger, "42")) == [("user", "Mend the lamp."), ("assistant", "I'll look.")]


def test_a_task_that_was_cut_off_is_read_up_to_the_cut(tmp_path: Path, ledger: Ledger) -> None:
    put(tmp_path, cline_task("42"))
    path = tmp_path / "tasks/42/api_conversation_history.json"
    path.write_bytes(path.read_bytes()[:-20])

    receipt = take(ledger, path)

    assert receipt.errors == 1
    assert texts(events(ledger, "42"))[-1] == ("user", "Try again.")


def test_messages_without_any_mark_of_the_program_are_read(tmp_path: Path, ledger: Ledger) -> None:
    said = [{"role": "user", "content": "Tide?"}, {"role": "assistant", "content": "At 14:10."}]
    put(tmp_path, {"tasks/42/api_conversation_history.json": document(said)})

    take(ledger, tmp_path)

    assert texts(events(ledger, "42")) == [("user", "Tide?"), ("assistant", "At 14:10.")]


def test_messages_that_do_not_say_whose_they_are_are_refused(
    tmp_path: Path, ledger: Ledger
) -> None:
    said = [{"role": "user", "content": "Tide?"}, {"role": "assistant", "content": "At 14:10."}]
    put(tmp_path, {"chat.json": document(said), "tuning.jsonl": lines([{"messages": said}] * 3)})

    for path in tmp_path.iterdir():
        (source,) = treering.import_logs(ledger, [path], scope=SCOPE).sources
        assert (source.state, source.reason) == (
            "refused", "a list of messages that does not say whose it is",
        )  # fmt: skip


def test_a_conversation_with_a_name_of_its_own_is_read(tmp_path: Path, ledger: Ledger) -> None:
    put(tmp_path, {"lamp.json": document(CLINE_CONVERSATION)})

    receipt = take(ledger, tmp_path / "lamp.json")

    assert (receipt.lines, receipt.by_format) == (len(CLINE_CONVERSATION), {"cline": 1})
    assert texts(events(ledger, "lamp"))[0] == ("user", "Mend the lamp.")


def test_a_subtask_of_roo_is_a_subagent(tmp_path: Path, ledger: Ledger) -> None:
    place = tmp_path / "rooveterinaryinc.roo-cline"
    item = {"id": "43", "parentTaskId": "42", "task": "Find the fuse.", "workspace": "/srv/harbour"}
    summary = {
        "role": "assistant",
        "content": "A lamp was mended.",
        "isSummary": True,
        "ts": T0 + 9,
    }
    said = document(
        [{**one, "ts": T0 + at} for at, one in enumerate(CLINE_CONVERSATION)] + [summary]
    )
    put(
        place,
        {
            "tasks/43/history_item.json": document(item),
            "tasks/43/api_conversation_history.json": said,
        },
    )

    take(ledger, place)

    outline = ledger.session("43", scope=SCOPE, agent="test").outline()
    assert (outline.spawned_by, outline.title) == ("42", "Find the fuse.")
    found = events(ledger, "43")
    assert [one.payload["summary"] for one in found if one.kind == "context.compacted"] == [
        "A lamp was mended."
    ]
    assert all(is_exact(one) for one in found if one.kind.startswith("conversation."))


# ChatGPT.


def test_a_conversation_of_chatgpt_is_whole_and_its_branches_are_forks(
    tmp_path: Path, ledger: Ledger
) -> None:
    told = conversation()
    receipt = take_sample(ledger, tmp_path, "chatgpt")

    session = told["id"]
    found = events(ledger, session)
    assert texts(found) == [
        ("user", "Which tide?"),
        ("assistant", "At 14:10."),
        ("user", "Thanks."),
    ]
    assert calls(found) == {"call": ("python", "ok", "14:10")}
    assert thoughts(found) == ["Tides\nLook it up."]
    assert receipt.sessions == 3
    wrong = ledger.session(f"{session}~wrong", scope=SCOPE, agent="test")
    assert texts(wrong.events()) == [("user", "Which tide?"), ("assistant", "At noon.")]
    assert wrong.outline().parent == session
    other = ledger.session(f"{session}~other", scope=SCOPE, agent="test")
    assert texts(other.events())[-2:] == [("user", "Which wind?"), ("assistant", "Calm.")]
    # Each message of the tree is recorded once, wherever it is repeated.
    kept = [one for one in ledger.events(SCOPE).items if one.kind.startswith("conversation.")]
    says = [
        one["message"]["content"]["parts"][0]
        for one in told["mapping"].values()
        if one["message"] and one["message"]["content"].get("parts")
    ]
    assert sorted(one.payload["text"] for one in kept) == sorted(filter(None, says))


@pytest.mark.parametrize("cut", [0.4, 0.7, 0.99])
def test_an_export_that_was_cut_off_has_the_conversations_before_the_cut(
    tmp_path: Path, ledger: Ledger, cut: float
) -> None:
    content = document([conversation(f"c-{number}") for number in range(6)])
    path = tmp_path / "conversations.json"
    path.write_bytes(content[: int(len(content) * cut)])
    whole = path.read_bytes().count(b'"current_node"') - path.read_bytes().endswith(b'"')

    receipt = take(ledger, path)

    assert receipt.errors == 1
    assert 1 <= receipt.imported <= whole
    path.write_bytes(content)
    assert take(ledger, path).imported == 6 - receipt.imported


# Aider.


def test_a_history_of_aider_is_whole(tmp_path: Path, ledger: Ledger) -> None:
    take_sample(ledger, tmp_path, "aider")

    first, second = (
        events(ledger, "aider-lamps-20260609140100"),
        events(ledger, "aider-lamps-20260610090000"),
    )
    assert texts(first)[0] == ("user", "mend the lamp\nand the horn")
    assert texts(first)[1][1].startswith("I'll mend both:\n\n#### First the lamp")
    assert texts(second) == [("user", "thanks"), ("assistant", "You are welcome.")]
    ends = [(one.payload["input"]["path"]) for one in first if one.kind == "tool.call"]
    assert ends == ["lamp.py", "horn.py"]
    assert [end for _, end, _ in calls(first).values()] == ["ok", "NotApplied"]
    usage = ledger.session("aider-lamps-20260609140100", scope=SCOPE, agent="test").usage().total
    assert (usage.input_tokens, usage.output_tokens, float(usage.cost_usd or 0)) == (
        2_500,
        283,
        0.01,
    )
    assert Counter(one.kind for one in first)["ops.error"] == 1
    assert not any(is_exact(one) for one in first)


def test_lines_of_aider_that_end_in_two_blanks_are_told_from_what_the_model_wrote(
    tmp_path: Path, ledger: Ledger
) -> None:
    path = tmp_path / "lamps/.aider.chat.history.md"
    spaced = "\n".join(
        f"{line}  "
        if line.startswith(
            ("> A", "> M", "> D", "> T", "> l", "#### m", "#### a", "#### /", "#### t")
        )
        else line
        for line in AIDER.splitlines()
    )
    spaced = spaced.replace("> a quote", "> A quote")
    put(tmp_path, {"lamps/.aider.chat.history.md": spaced.encode()})

    take(ledger, path)

    said = texts(events(ledger, "aider-lamps-20260609140100"))
    assert "> A quote of mine" in said[1][1]
    assert said[1][1].endswith("Then the horn.")
