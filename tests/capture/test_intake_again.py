"""Logs imported again: moved, copied, packed, grown, cut short, rewritten. Nothing twice."""

from __future__ import annotations

import gzip
import io
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from capture.intake_logs import (
    EVERYWHERE,
    VOYAGES,
    add,
    check_sums,
    claude_log,
    every_event,
    lines,
    said_in,
    session_in,
    told_by,
    write,
)
from children import run_python
from formats.logs import codex, gemini, pi
from formats.logs.claude_code import SESSION, Log, used
from formats.logs.strangers import walrus
from treering.app import import_logs
from treering.formats.records import read_records

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from treering import Ledger
    from treering.model.intakes import ImportReceipt


def take(ledger: Ledger, *paths: Path, **options: Any) -> ImportReceipt:
    """Import logs, with every line accounted for."""
    receipt = import_logs(ledger, paths, scope=EVERYWHERE, **options)
    check_sums(receipt)
    return receipt


@pytest.mark.parametrize("form", sorted(VOYAGES))
def test_a_log_that_is_read_again_adds_nothing(here: Ledger, tmp_path: Path, form: str) -> None:
    name, records = VOYAGES[form]
    path = write(tmp_path / name, records)
    first = take(here, path)
    before = every_event(here)

    again = take(here, path, again=True)

    assert (again.events, again.imported) == (0, 0)
    assert again.duplicates == first.imported
    assert (again.skipped, again.sessions_new, again.by_scope) == (first.skipped, 0, {})
    assert every_event(here) == before


def test_a_log_that_is_read_again_adds_nothing_on_any_database(
    ledger: Ledger, tmp_path: Path
) -> None:
    paths = [write(tmp_path / name, records) for name, records in VOYAGES.values()]
    take(ledger, *paths)

    unchanged, again = take(ledger, *paths), take(ledger, *paths, again=True)

    assert (unchanged.files_unchanged, unchanged.lines) == (len(paths), 0)
    assert (again.events, again.errors) == (0, 0)
    assert ledger.admin.verify().intact


def packed(pack: Callable[[bytes], bytes], ending: str) -> Callable[[Path], Path]:
    def move(path: Path) -> Path:
        there = path.with_name(path.name + ending)
        there.write_bytes(pack(path.read_bytes()))
        path.unlink()
        return there

    return move


def moved(name: str) -> Callable[[Path], Path]:
    def move(path: Path) -> Path:
        there = path.parent / name.format(path.name)
        there.parent.mkdir(exist_ok=True)
        return path.rename(there)

    return move


@pytest.mark.parametrize(
    "form", ["apeira", "claude-code", "codex", "gemini", "openclaw", "pi", "tape"]
)
@pytest.mark.parametrize(
    "move",
    [
        pytest.param(moved("elsewhere/{}"), id="moved"),
        pytest.param(moved("{}.reset.2026-09-21T14-13-20.000Z"), id="reset"),
        pytest.param(moved("{}.deleted.2026-09-21T14-13-20.000Z"), id="deleted"),
        pytest.param(packed(lambda content: gzip.compress(content, mtime=0), ".gz"), id="gzip"),
        pytest.param(packed(zstandard.ZstdCompressor().compress, ".zst"), id="zstd"),
        pytest.param(lambda path: shutil.copy(path, path.with_name("copy")), id="copied"),
    ],
)
def test_a_log_under_another_name_is_the_same_log(
    here: Ledger, tmp_path: Path, form: str, move: Callable[[Path], Path]
) -> None:
    name, records = VOYAGES[form]
    path = write(tmp_path / "logs" / name, records)
    first = take(here, tmp_path / "logs")

    again = take(here, move(path))

    assert (again.events, again.sessions_new) == (0, 0)
    assert again.duplicates == first.imported


def test_a_log_that_goes_on_under_another_name_is_carried_on(here: Ledger, tmp_path: Path) -> None:
    log = claude_log("one")
    path = write(tmp_path / f"{SESSION}.jsonl", log.lines)
    take(here, path)
    log.user("two")
    path.unlink()

    take(here, write(tmp_path / "renamed.jsonl", log.lines))

    assert said_in(session_in(here, SESSION)) == ["one", "about one", "two"]


@pytest.mark.parametrize("form", ["apeira", "tape"])
def test_a_copy_of_a_log_without_an_id_goes_on_from_what_was_copied(
    here: Ledger, tmp_path: Path, form: str
) -> None:
    name, records = VOYAGES[form]
    take(here, write(tmp_path / name, records[:2]))

    take(here, write(tmp_path / "copy.jsonl", records))
    take(here, write(tmp_path / name, records))

    first = session_in(here, name.removesuffix(".jsonl"))
    copy = session_in(here, "copy")
    assert copy.outline().parent == first.session_id
    assert copy.history() == first.history()


@pytest.mark.parametrize("form", ["apeira", "tape"])
def test_logs_that_come_to_the_same_words_by_other_ways_keep_them(
    here: Ledger, tmp_path: Path, form: str
) -> None:
    records = VOYAGES[form][1]
    for name, log in (("a.jsonl", records), ("b.jsonl", [records[0], *records[2:]])):
        take(here, write(tmp_path / name, log))

    told = len([one for one in session_in(here, "b").headers() if one.origin == form])
    assert told == len(records) - 1 + 2  # Those that tell of the session are its own.


# Growing.


@pytest.mark.parametrize("live", [True, False])
def test_only_what_is_new_is_read_of_a_log_that_has_grown(
    here: Ledger, tmp_path: Path, *, live: bool
) -> None:
    log = claude_log(*(f"question {n}" for n in range(50)))
    path = write(tmp_path / "a.jsonl", log.lines)
    take(here, path, live=live)
    size = path.stat().st_size
    log.user("the last one")
    add(path, lines(log.lines[-1:]))

    receipt = take(here, path, live=live)

    [source] = receipt.sources
    assert (source.state, source.lines, source.imported) == ("grown", 1, 1)
    assert source.bytes == path.stat().st_size - size


@pytest.mark.parametrize("live", [True, False])
def test_a_line_that_was_torn_is_taken_when_it_is_whole(
    here: Ledger, tmp_path: Path, *, live: bool
) -> None:
    log = claude_log("one", "two")
    content = lines(log.lines)
    path = tmp_path / "a.jsonl"
    path.write_bytes(content[:-80])

    torn = take(here, path, live=live)
    add(path, content[-80:])
    mended = take(here, path, live=live)

    assert torn.errors == (0 if live else 1)
    [source] = mended.sources
    assert (source.state, source.lines, source.imported, source.errors) == ("grown", 1, 1, 0)
    assert said_in(session_in(here, SESSION)) == ["one", "about one", "two", "about two"]


def test_a_whole_line_without_its_line_feed_is_taken_once(here: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    content = lines(claude_log("one").lines)
    path.write_bytes(content[:-1])
    take(here, path, live=True)
    add(path, b"\n")

    assert take(here, path, live=True).events == 0
    assert said_in(session_in(here, SESSION)) == ["one", "about one"]


def test_notes_before_a_session_is_named_wait_while_a_log_is_written(
    here: Ledger, tmp_path: Path
) -> None:
    path = tmp_path / "logs" / f"{SESSION}.jsonl"
    write(path, [{"type": "summary", "summary": "Lamps", "leafUuid": "x"}])

    early = import_logs(here, [path], live=True)
    add(path, lines(claude_log("one").lines))
    later = import_logs(here, [path], live=True)

    check_sums(early)
    assert (early.lines, early.events, early.by_scope) == (0, 0, {})
    assert (later.imported, set(later.by_scope)) == (3, {"lighthouse"})
    assert here.sessions("claude-code").items == []


def test_who_finds_nothing_new_does_not_load_the_rules_of_the_guard(
    here: Ledger, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", claude_log("mend the lamp").lines)
    take(here, path)
    script = (
        "import sys, treering\n"
        f"with treering.open({str(tmp_path / 'ledger.db')!r}) as ledger:\n"
        f"    found = treering.import_logs(ledger, [{str(path)!r}], scope={EVERYWHERE!r})\n"
        "print(found.files_unchanged, 'treering.capture.secrets' in sys.modules)\n"
    )

    shown = run_python(script)

    assert shown.stdout.split() == ["1", "False"]


def test_a_log_that_was_cut_short_is_read_from_its_beginning(here: Ledger, tmp_path: Path) -> None:
    log = claude_log("one", "two")
    path = write(tmp_path / "a.jsonl", log.lines)
    take(here, path)

    receipt = take(here, write(path, log.lines[:3]))

    [source] = receipt.sources
    assert (source.state, source.duplicates, source.imported) == ("read", 3, 0)
    assert said_in(session_in(here, SESSION)) == ["one", "about one", "two", "about two"]


@pytest.mark.parametrize("longer", [True, False])
def test_a_log_that_was_written_anew_is_read_from_its_beginning(
    here: Ledger, tmp_path: Path, *, longer: bool
) -> None:
    path = write(tmp_path / "a.jsonl", claude_log("one", "two").lines)
    take(here, path)
    other = claude_log(*(["three", "four", "five"] if longer else ["three"]), first=70)

    receipt = take(here, write(path, other.lines))

    [source] = receipt.sources
    assert (source.state, source.imported) == ("read", len(other.lines))


def test_a_log_that_was_written_anew_in_place_with_its_first_lines_is_read_anew(
    here: Ledger, tmp_path: Path
) -> None:
    log = claude_log(*(f"question {n}" for n in range(60)))
    path = write(tmp_path / "a.jsonl", log.lines)
    take(here, path)
    changed = [*log.lines[:-4], *claude_log("other", "words", "here", first=900).lines]

    receipt = take(here, write(path, changed))

    assert receipt.imported == 6
    assert receipt.sources[0].state == "read"


def test_a_log_that_was_touched_is_looked_at_and_nothing_is_read(
    here: Ledger, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", claude_log("one").lines)
    take(here, path)
    os.utime(path)

    receipt = take(here, path)

    assert (receipt.events, receipt.lines) == (0, 0)


def test_an_answer_that_is_written_again_as_it_grows_is_told_once(
    here: Ledger, tmp_path: Path
) -> None:
    path = write(tmp_path / "s.jsonl", [dict(gemini.HEADER), gemini.user("m1", "Tide?")])
    for text in ("At", "At 14", "At 14:10."):
        add(path, lines([gemini.answer("m2", text)]))
    take(here, path)

    assert said_in(session_in(here, "s1")) == ["Tide?", "At 14:10."]


def test_a_log_whose_reader_remembers_too_much_is_read_from_its_beginning(
    here: Ledger, tmp_path: Path
) -> None:
    entries = [pi.header(), *(pi.said(n, f"word {n}") for n in range(1, 6_000))]
    path = write(tmp_path / "long.jsonl", entries)
    take(here, path)
    add(path, lines([pi.said(6_000, "the last one")]))

    receipt = take(here, path)

    assert (receipt.sources[0].state, receipt.imported, receipt.duplicates) == ("read", 1, 5_999)


class Growing(io.BytesIO):
    """A file that somebody continues writing just as its end is reached."""

    def __init__(self, content: bytes, later: bytes) -> None:
        super().__init__(content)
        self._later = later

    def read(self, size: int | None = -1, /) -> bytes:
        part = super().read(size)
        if not part and self._later:
            at = self.tell()
            self.write(self._later)
            self.seek(at)
            self._later = b""
        return part


def test_what_is_written_behind_the_end_meanwhile_is_left_for_the_next_time() -> None:
    content = lines(claude_log("one").lines)

    records = list(read_records(Growing(content[:-30], content[-30:]), final=False))

    assert [one.fault for one in records] == [None]


# Whoever lost their place.


def test_lost_bookmarks_cost_time_and_nothing_else(here: Ledger, tmp_path: Path) -> None:
    log = claude_log("one")
    path = write(tmp_path / "a.jsonl", log.lines)
    take(here, path)
    here.importing.bookmarks(EVERYWHERE).keep(str(path.resolve()), {"size": "nonsense"})
    log.user("two")
    add(path, lines(log.lines[-1:]))

    receipt = take(here, path)

    assert (receipt.sources[0].state, receipt.imported, receipt.duplicates) == ("read", 1, 2)


def test_a_bookmark_whose_state_is_not_understood_is_not_trusted(
    here: Ledger, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", VOYAGES["codex"][1])
    take(here, path)
    notes, name = here.importing.bookmarks(EVERYWHERE), str(path.resolve())
    notes.keep(name, {**notes.find(name), "state": {"now": 7}})
    add(path, lines([codex.user_item("One more.", n=60)]))

    receipt = take(here, path)

    assert (receipt.sources[0].state, receipt.imported) == ("read", 1)


def test_a_log_that_an_earlier_reader_took_in_is_read_again(here: Ledger, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", claude_log("one").lines)
    take(here, path)
    notes, name = here.importing.bookmarks(EVERYWHERE), str(path.resolve())
    earlier = {at: value for at, value in notes.find(name).items() if at != "version"}
    notes.keep(name, earlier)

    receipt = take(here, path)

    assert (receipt.sources[0].state, receipt.duplicates) == ("read", 2)
    assert take(here, path).files_unchanged == 1


def test_a_log_that_an_earlier_version_took_for_another_is_not_read_on(
    here: Ledger, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", walrus())
    claude = write(tmp_path / "b.jsonl", claude_log("one").lines)
    take(here, claude)
    notes = here.importing.bookmarks(EVERYWHERE)
    found, status = notes.find(str(claude.resolve())), path.stat()
    wrong = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "inode": status.st_ino}
    notes.keep(str(path.resolve()), {**found, **wrong, "version": 1})

    receipt = take(here, path)

    assert receipt.files_refused == 1
    assert "not a log Treering can read" in str(receipt.sources[0].reason)


def test_a_session_that_was_opened_and_no_more_is_still_marked_as_imported(
    here: Ledger, tmp_path: Path
) -> None:
    here.session(SESSION, scope=EVERYWHERE, agent="claude-code").open()

    take(here, write(tmp_path / "a.jsonl", claude_log("one").lines))

    session = session_in(here, SESSION)
    assert session.outline().imported_from == "claude-code"
    assert [one.kind for one in session.headers()][:3] == [
        "session.opened",
        "session.imported",
        "conversation.user",
    ]


def test_two_scopes_take_in_the_same_log_each_for_itself(here: Ledger, tmp_path: Path) -> None:
    paths = [write(tmp_path / name, records) for name, records in VOYAGES.values()]
    one = import_logs(here, paths, scope="one")
    other = import_logs(here, paths, scope="other")

    assert one.by_scope["one"] == other.by_scope["other"]
    assert told_by(here, "one").keys() == told_by(here, "other").keys()
    assert here.admin.verify().intact


def test_what_was_erased_does_not_come_back(here: Ledger, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", claude_log("one", "two").lines)
    take(here, path)
    event = next(one for one in every_event(here) if one.payload == {"text": "one"})
    here.redact(EVERYWHERE, event_id=event.event_id)

    again = take(here, path, again=True)

    assert again.events == 0
    assert "one" not in said_in(session_in(here, SESSION))


def test_usage_is_counted_once_however_often_it_is_told(here: Ledger, tmp_path: Path) -> None:
    log = Log()
    log.user("Lamp?")
    log.answer("It", usage=used(1), requestId="r1")
    log.answer("It", " is", usage=used(5), requestId="r1", parentUuid=None)
    log.answer("It is lit.", usage=used(9), requestId="r1", parentUuid=None)
    path = write(tmp_path / "a.jsonl", log.lines)
    take(here, path)
    take(here, path, again=True)
    shutil.copy(path, tmp_path / "b.jsonl")
    take(here, tmp_path / "b.jsonl")

    total = session_in(here, SESSION).usage().total
    assert (total.calls, total.output_tokens, total.input_tokens) == (1, 9, 10)
