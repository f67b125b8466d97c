"""Finding logs in folders: what may be one, what only repeats others, and what is neither."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from treering.capture.intake import log_search
from treering.capture.intake.log_search import find_files
from treering.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path


def made(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def names_in(folder: Path, *, left_out: bool = False) -> list[str]:
    found = find_files([folder])
    return [
        str(one.path.relative_to(folder)) for one in found if (one.left_out is not None) == left_out
    ]


def test_logs_are_found_by_their_endings_however_deep(tmp_path: Path) -> None:
    logs = ["a.jsonl", "b/c.json", "b/d.jsonl.zst", "b/e.ndjson", "f.db", "g.jsonl.gz",
            "h.jsonl.deleted.2026-09-21T00-00Z", "i.jsonl.reset.2026", "j.sqlite"]  # fmt: skip
    made(tmp_path, *logs, "notes.md", "k.jsonl.lock", "l.jsonl~", ".m.jsonl.swp", "n.db-wal")

    assert sorted(names_in(tmp_path)) == sorted(logs)


def test_what_repeats_a_log_is_named_and_left_out(tmp_path: Path) -> None:
    copies = ["a.trajectory.jsonl", "a.checkpoint.7.jsonl", "a.jsonl.bak", "a.jsonl.bak-2",
              "a.jsonl.full.bak", "sessions.json"]  # fmt: skip
    made(tmp_path, *copies, "a.jsonl")

    assert sorted(names_in(tmp_path, left_out=True)) == sorted(copies)
    assert names_in(tmp_path) == ["a.jsonl"]


def test_what_treering_keeps_beside_logs_is_no_log(tmp_path: Path) -> None:
    made(tmp_path, "spool.jsonl", "spool.jsonl.treering-state.json",
         "spool.jsonl.treering-extract.json", "hooks.treering-backup-1.json")  # fmt: skip

    assert names_in(tmp_path) == ["spool.jsonl"]


def test_a_file_that_is_named_is_taken_whatever_it_is_called(tmp_path: Path) -> None:
    made(tmp_path, "sessions.json", "notes.txt")

    found = find_files([tmp_path / "notes.txt", tmp_path / "sessions.json", tmp_path])

    assert [(one.path.name, one.left_out) for one in found] == [
        ("notes.txt", None),
        ("sessions.json", None),
    ]


def test_a_file_that_is_named_twice_is_found_once(tmp_path: Path) -> None:
    made(tmp_path, "a.jsonl")

    assert len(find_files([tmp_path, tmp_path / "a.jsonl", tmp_path])) == 1


def test_folders_that_lead_back_to_themselves_come_to_an_end(tmp_path: Path) -> None:
    made(tmp_path, "a/b.jsonl")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "self.jsonl").symlink_to(tmp_path / "self.jsonl")

    assert "a/b.jsonl" in names_in(tmp_path)


def test_a_path_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist") as raised:
        find_files([tmp_path / "gone"])

    assert raised.value.hint == "name a log, or a folder of logs"


def test_more_files_than_can_be_held_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "FILES_MAX", 3)
    made(tmp_path, *(f"{n}.jsonl" for n in range(4)))

    with pytest.raises(InvalidInput, match="more than 3 files"):
        find_files([tmp_path])


def test_a_name_that_is_no_text_is_found(tmp_path: Path) -> None:
    made(tmp_path, os.fsdecode(b"\xff\xfe.jsonl"))

    assert len(find_files([tmp_path])) == 1
