"""Databases, folders and documents while agents write to them: found, followed, never doubled."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from capture.intake_logs import add
from formats.logs.stores import (
    AIDER,
    BUBBLES,
    CHAT,
    CLINE_CONVERSATION,
    OPENCODE,
    T0,
    chat_database,
    cline_task,
    composer,
    conversation,
    cursor_database,
    cursor_rows,
    document,
    opencode_database,
    opencode_folder,
    put,
    put_message,
    put_rows,
)
from treering.capture.hooks.watching import Watch
from treering.capture.intake.log_search import log_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from treering import Ledger

SCOPE: Final = "harbour"
LINUX: Final = ".config"
MACOS: Final = "Library/Application Support"
_BOOKKEEPING: Final = frozenset({"session.opened", "session.imported", "session.forked"})


def told(ledger: Ledger) -> dict[str, Any]:
    """Return what the events of the scope say, by id."""
    found = ledger.events(SCOPE, first=500).items
    own = (one for one in found if one.kind not in _BOOKKEEPING)
    return {one.event_id: (one.session_id, one.kind, one.payload) for one in own}


def cursor_grows(folder: Path) -> Iterator[Path]:
    path = folder / "state.vscdb"
    rows = cursor_rows()
    key = f"composerData:{CHAT}"
    early = {at: one for at, one in rows.items() if not at.endswith((":b-9", ":b-10", ":b-11"))}
    early[key] = composer(CHAT, BUBBLES[:-2], subComposerIds=rows[key]["subComposerIds"])
    with closing(cursor_database(path, early, mode="wal")) as database:
        yield path
        put_rows(database, {f"bubbleId:{CHAT}:b-11": rows[f"bubbleId:{CHAT}:b-11"]})
        yield path
        put_rows(database, rows)
        yield path


def opencode_grows(folder: Path) -> Iterator[Path]:
    path = folder / "opencode.db"
    with closing(opencode_database(path, mode="wal")) as database:
        database.execute("DELETE FROM part WHERE id > 'prt_7'")
        database.execute("DELETE FROM message WHERE id > 'msg_2'")
        database.commit()
        yield path
        for session, messages in OPENCODE.items():
            for message, parts in messages:
                put_message(database, session, message, parts)
            yield path


def folder_grows(folder: Path) -> Iterator[Path]:
    files = opencode_folder("ses_1")
    path = folder / "storage/session/harbour/ses_1.json"
    for end in (4, 9, len(files)):
        put(folder, dict([*files.items()][:end]))
        yield path


def cline_grows(folder: Path) -> Iterator[Path]:
    put(folder, cline_task("42"))
    path = folder / "tasks/42/api_conversation_history.json"
    for end in (1, 3, len(CLINE_CONVERSATION)):
        path.write_bytes(document(CLINE_CONVERSATION[:end]))
        yield path


def export_grows(folder: Path) -> Iterator[Path]:
    whole = conversation()
    early = {**whole, "current_node": "told"}
    early["mapping"] = {
        at: one for at, one in whole["mapping"].items() if at not in {"thanks", "odd"}
    }
    path = folder / "conversations.json"
    for one in (early, whole):
        path.write_bytes(document([one, conversation("another")]))
        yield path


def history_grows(folder: Path) -> Iterator[Path]:
    path = folder / ".aider.chat.history.md"
    entries = AIDER.split("\n\n> Applied")
    path.write_text(entries[0])
    yield path
    path.write_text(AIDER)
    yield path


@pytest.mark.parametrize(
    "grows",
    [cursor_grows, opencode_grows, folder_grows, cline_grows, export_grows, history_grows],
    ids=lambda grows: grows.__name__,
)
@pytest.mark.parametrize("live", [False, True])
def test_a_log_that_is_rewritten_comes_to_what_it_comes_to_at_once(
    tmp_path: Path, grows: Callable[[Path], Iterator[Path]], *, live: bool
) -> None:
    with treering.open(":memory:") as ledger, treering.open(":memory:") as other:
        for path in grows(tmp_path):
            treering.import_logs(ledger, [path], scope=SCOPE, live=live)
            again = treering.import_logs(ledger, [path], scope=SCOPE, live=live)
            assert again.files_unchanged == 1 or again.skipped.get("is still being written")
            assert again.events == 0
            last = path
        # What waited while it was followed is read in the end.
        treering.import_logs(ledger, [last], scope=SCOPE, again=True)

        treering.import_logs(other, [last], scope=SCOPE)
        assert told(ledger).keys() == told(other).keys()
        assert treering.import_logs(ledger, [last], scope=SCOPE, again=True).events == 0


def test_a_text_that_is_still_written_waits_while_it_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    begun = {"id": "msg_z", "role": "assistant", "time": {"created": T0 + 50}}
    part = {"id": "prt_z", "type": "text", "text": "The ho", "time": {"start": T0 + 50}}
    with (
        closing(opencode_database(path, mode="wal")) as database,
        treering.open(":memory:") as ledger,
    ):
        put_message(database, "ses_1", begun, [part])
        receipt = treering.import_logs(ledger, [path], scope=SCOPE, live=True)
        assert receipt.skipped["is still being written"] == 1

        ended = {**begun, "time": {"created": T0 + 50, "completed": T0 + 60}}
        put_message(database, "ses_1", ended, [{**part, "text": "The horn is fine."}])
        treering.import_logs(ledger, [path], scope=SCOPE, live=True)

        said = [one[2]["text"] for one in told(ledger).values() if "ho" in str(one[2].get("text"))]
        assert said == ["The horn is fine."]


UNCHANGED: Final = "as it was when it was last imported"


def test_sessions_of_a_database_that_have_not_changed_are_not_read_again(tmp_path: Path) -> None:
    path, rows_of_first = tmp_path / "opencode.db", "SELECT count(*) FROM {} WHERE session_id = ?"
    more = {"id": "msg_z", "role": "user", "time": {"created": T0 + 50}}
    part = {"id": "prt_z", "type": "text", "text": "And the horn?"}
    with (
        closing(opencode_database(path, mode="wal")) as database,
        treering.open(":memory:") as ledger,
        treering.open(":memory:") as fresh,
    ):
        tables = ("message", "part", "session_message", "todo")
        counts = [database.execute(rows_of_first.format(one), ["ses_1"]) for one in tables]
        first = 1 + sum(count.fetchone()[0] for count in counts)
        treering.import_logs(ledger, [path], scope=SCOPE)
        put_message(database, "ses_2", more, [part])

        grown = treering.import_logs(ledger, [path], scope=SCOPE)
        assert (grown.events, grown.skipped[UNCHANGED]) == (1, first)
        parts = grown.imported + grown.duplicates + sum(grown.skipped.values()) + grown.errors
        assert parts == grown.lines
        again = treering.import_logs(ledger, [path], scope=SCOPE, again=True)
        assert (again.events, UNCHANGED in again.skipped, again.lines) == (0, False, grown.lines)
        treering.import_logs(fresh, [path], scope=SCOPE)
        assert told(ledger) == told(fresh)


def test_a_session_that_is_still_written_costs_no_other_its_place(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    begun = {"id": "msg_z", "role": "assistant", "time": {"created": T0 + 50}}
    part = {"id": "prt_z", "type": "text", "text": "The ho", "time": {"start": T0 + 50}}
    with (
        closing(opencode_database(path, mode="wal")) as database,
        treering.open(":memory:") as ledger,
    ):
        put_message(database, "ses_2", begun, [part])
        first, second = (
            treering.import_logs(ledger, [path], scope=SCOPE, live=True) for _ in range(2)
        )

        assert UNCHANGED not in first.skipped
        assert second.skipped[UNCHANGED] > 0
        assert second.skipped["is still being written"] == 1


def test_conversations_of_cursor_that_have_not_changed_are_not_read_again(tmp_path: Path) -> None:
    path, rows = tmp_path / "state.vscdb", cursor_rows()
    with (
        closing(cursor_database(path, rows, mode="wal")) as database,
        treering.open(":memory:") as ledger,
    ):
        treering.import_logs(ledger, [path], scope=SCOPE)
        put_rows(database, {"bubbleId:lost:b-2": {"type": 1, "bubbleId": "b-2", "text": "Ada."}})

        grown = treering.import_logs(ledger, [path], scope=SCOPE)
        known = [key for key in rows if key.startswith(("composerData:", "bubbleId:"))]
        assert (grown.events, grown.duplicates) == (1, 1)
        assert grown.skipped[UNCHANGED] == len(known) - 1


def test_what_was_left_unfinished_is_read_when_nobody_writes_any_more(tmp_path: Path) -> None:
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(AIDER)
    with treering.open(":memory:") as ledger:
        first = treering.import_logs(ledger, [path], scope=SCOPE, live=True)
        assert first.skipped["is still being written"] == 1
        os.utime(path, (1_700_000_000, 1_700_000_000))

        assert treering.import_logs(ledger, [path], scope=SCOPE, live=True).events == 1
        assert treering.import_logs(ledger, [path], scope=SCOPE, live=True).files_unchanged == 1


def home_with_logs(home: Path, settings: str) -> None:
    """Write a log of each agent in its place."""
    editor = home / settings / "Cursor/User/globalStorage"
    cursor_database(editor / "state.vscdb", cursor_rows()).close()
    chat_database(home / f".cursor/chats/abc/{'0' * 8}/store.db")
    put(
        home / ".cursor/projects/srv-harbour/agent-transcripts",
        {"s1/s1.jsonl": document({"role": "user", "message": {"content": "Tide?"}}) + b"\n"},
    )
    opencode_database(home / ".local/share/opencode/opencode.db").close()
    put(home / ".local/share/opencode", opencode_folder("ses_1"))
    for extension in ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code"):
        put(home / settings / "Code/User/globalStorage" / extension, cline_task(extension[:3]))
    put(home / "src/lamps", {".aider.chat.history.md": AIDER.encode()})


@pytest.mark.parametrize("settings", [LINUX, MACOS])
def test_logs_are_found_in_their_places(tmp_path: Path, settings: str) -> None:
    home_with_logs(tmp_path, settings)

    found = [(folder.agent, folder.root.relative_to(tmp_path)) for folder in log_folders(tmp_path)]
    with treering.open(":memory:") as ledger:
        receipt = treering.import_logs(ledger, [tmp_path / root for _, root in found], scope=SCOPE)

    assert receipt.by_format == {
        "aider": 1, "cline": 1, "cursor": 3, "kilo": 1, "opencode": 2, "roo": 1,
    }  # fmt: skip
    assert receipt.errors == 0
    assert [one.reason for one in receipt.sources if one.state == "refused"] == [
        "a part of a task, which is read with its conversation"
    ] * 6


def test_logs_are_followed_while_agents_write_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home_with_logs(tmp_path, LINUX)
    database = sqlite3.connect(tmp_path / ".config/Cursor/User/globalStorage/state.vscdb")
    monkeypatch.setenv("HOME", str(tmp_path))
    with closing(database), treering.open(tmp_path / "ledger.db") as ledger:
        taken: list[list[str]] = []

        def take(paths: Any) -> Any:
            taken.append(sorted(path.name for path in paths))
            return treering.import_logs(ledger, paths, scope=SCOPE, live=True)

        watch = Watch(lambda: log_folders(tmp_path), take=take, report=lambda _: None)
        watch.catch_up()
        taken.clear()
        watch.catch_up()
        assert taken == []

        database.execute("PRAGMA journal_mode = wal")
        put_rows(
            database, {f"bubbleId:{CHAT}:b-10": {**BUBBLES[-1], "text": "The horn is broken."}}
        )
        part = tmp_path / ".local/share/opencode/storage/part/msg_2/prt_9.json"
        value = json.loads(part.read_bytes())
        part.write_bytes(document({**value, "text": "Mended, and polished."}))
        add(tmp_path / "src/lamps/.aider.chat.history.md", b"> Tokens: 1k sent, 1 received.\n")
        watch.catch_up()

        assert sorted(name for names in taken for name in names) == [
            ".aider.chat.history.md", "ses_1.json", "state.vscdb",
        ]  # fmt: skip
        said = {one[2].get("text") for one in told(ledger).values() if isinstance(one[2], dict)}
        assert {"The horn is broken.", "Mended, and polished."} <= said
