"""The transcript sink: one file per session, one line per event."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

import treering
from builders import HERE
from sinks.carried_events import called, lines, safe
from treering.sinks.bundle_files import NAME_CHARACTERS_MAX, file_name
from treering.sinks.lines import FILES_OPEN_MAX
from treering.sinks.log import TranscriptSink

if TYPE_CHECKING:
    from pathlib import Path

PLACE = f"{file_name(HERE)}/s1.jsonl"


def test_a_line_says_when_what_and_by_whom(tmp_path: Path) -> None:
    """001: "TranscriptSink: appends safe event summaries or metadata to session transcripts"."""
    TranscriptSink(tmp_path).handle(safe(**called(4)))

    assert lines(tmp_path / "acme%2fapp" / "s1.jsonl") == [
        {
            "at": "2026-09-21T14:13:20.040Z",
            "seq": 4,
            "kind": "tool.call",
            "run_id": "r1",
            "source": "agent",
            "summary": "tool.call happened",
            "part": {"call_id": "c1", "tool": "git_log", "input_shape": "ab", "input_bytes": 12},
        }
    ]


def test_a_private_event_leaves_its_sizes_and_no_summary(tmp_path: Path) -> None:
    event = safe("conversation.user", summary="pssst", refs={"characters": 5, "more": "pssst"})

    TranscriptSink(tmp_path).handle(event)

    line = lines(tmp_path / PLACE)[0]
    assert line["summary"] is None
    assert line["part"] == {"characters": 5}


def test_deltas_are_left_out(tmp_path: Path) -> None:
    assert not TranscriptSink(tmp_path).accepts(safe("assistant.delta"))


def test_files_and_folders_are_their_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "transcripts"

    TranscriptSink(folder).handle(safe("ops.decision"))

    assert stat.S_IMODE((folder / PLACE).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / PLACE).parent.stat().st_mode) == 0o700


def test_a_torn_last_line_is_closed_off(tmp_path: Path) -> None:
    TranscriptSink(tmp_path).handle(safe("ops.decision", 1))
    with (tmp_path / PLACE).open("ab") as stream:
        stream.write(b'{"at":"2026-0')

    TranscriptSink(tmp_path).handle(safe("ops.decision", 2))

    first, torn, last = (tmp_path / PLACE).read_text().splitlines()
    assert (json.loads(first)["seq"], json.loads(last)["seq"]) == (1, 2)
    assert torn == '{"at":"2026-0'


def test_what_a_durable_sink_hears_again_is_not_written_again(tmp_path: Path) -> None:
    before = TranscriptSink(tmp_path, durable=True)
    for seq in (1, 2, 3):
        before.handle(safe("ops.decision", seq))
    # Of the third line only a part reached the disk.
    path = tmp_path / PLACE
    path.write_bytes(path.read_bytes()[:-20])

    after = TranscriptSink(tmp_path, durable=True)
    for seq in (1, 2, 3, 3, 4):
        after.handle(safe("ops.decision", seq))

    whole = [line for line in path.read_text().splitlines() if line.endswith("}}")]
    assert [json.loads(line)["seq"] for line in whole] == [1, 2, 3, 4]


def test_the_last_seq_is_found_behind_much_that_is_torn(tmp_path: Path) -> None:
    TranscriptSink(tmp_path).handle(safe("ops.decision", 7))
    with (tmp_path / PLACE).open("ab") as stream:
        stream.write(b"x" * 200_000 + b"\n" + b"y" * 100_000)

    sink = TranscriptSink(tmp_path, durable=True)
    sink.handle(safe("ops.decision", 7))
    sink.handle(safe("ops.decision", 8))

    found = (tmp_path / PLACE).read_text().splitlines()
    assert [line[0] for line in found] == ["{", "x", "y", "{"]


def test_sessions_that_differ_by_case_alone_have_files_that_do_not(tmp_path: Path) -> None:
    sink = TranscriptSink(tmp_path)

    for session_id in ("Main", "main", "MAIN", "main.", "%6dain"):
        sink.handle(safe("ops.decision", session_id=session_id))

    names = [path.name for path in (tmp_path / file_name(HERE)).iterdir()]
    assert len({name.lower() for name in names}) == 5


@pytest.mark.parametrize(
    "text", ["main", "../../x", "/etc/passwd", ".", "..", "a b\n", "東京", "%2e"]
)
def test_a_name_gives_its_text_back_and_leads_nowhere(text: str) -> None:
    name = file_name(text)

    assert unquote(name) == text
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-.%")
    assert not name.startswith(".")


def test_a_long_name_is_cut_and_still_its_own() -> None:
    one, other = file_name("é" * 200), file_name("é" * 199 + "e")

    assert len(one) <= NAME_CHARACTERS_MAX
    assert one != other
    assert "%%" in one


def test_more_sessions_than_open_files_lose_nothing(tmp_path: Path) -> None:
    sink = TranscriptSink(tmp_path, durable=True)
    names = [f"s{number}" for number in range(FILES_OPEN_MAX * 2)]

    for seq in (1, 2):
        for name in names:
            sink.handle(safe("ops.decision", seq, session_id=name))
            sink.handle(safe("ops.decision", seq, session_id=name))

    folder = tmp_path / file_name(HERE)
    assert {len(lines(folder / f"{name}.jsonl")) for name in names} == {2}


def test_a_line_that_the_disk_cut_short_is_written_again_as_a_whole(tmp_path: Path) -> None:
    sink = TranscriptSink(tmp_path, durable=True)
    sink.handle(safe("ops.decision", 1))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / PLACE).stat().st_size + 10, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            sink.handle(safe("ops.decision", 2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    sink.handle(safe("ops.decision", 2))

    first, torn, last = (tmp_path / PLACE).read_text().splitlines()
    assert (json.loads(first)["seq"], json.loads(last)["seq"]) == (1, 2)
    assert last.startswith(torn)


def test_scopes_that_are_served_at_once_do_not_mix(tmp_path: Path) -> None:
    sink = TranscriptSink(tmp_path, durable=True)

    def serve(scope: str) -> None:
        for seq in range(1, 301):
            sink.handle(safe("ops.decision", seq, scope=scope, session_id=f"s{seq % 40}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(serve, "abcd"))

    for scope in "abcd":
        found = [line["seq"] for path in (tmp_path / scope).iterdir() for line in lines(path)]
        assert sorted(found) == list(range(1, 301))


def test_a_child_process_writes_whatever_the_parent_was_about(tmp_path: Path) -> None:
    sink = TranscriptSink(tmp_path)
    sink.handle(safe("ops.decision", 1))

    with sink._lock:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            sink.handle(safe("ops.decision", 2))
            os._exit(0)

    assert os.waitpid(child, 0)[1] == 0
    assert [line["seq"] for line in lines(tmp_path / PLACE)] == [1, 2]


def test_a_closed_sink_goes_on_where_it_was(tmp_path: Path) -> None:
    sink = TranscriptSink(tmp_path)
    sink.handle(safe("ops.decision", 1))

    sink.close()
    sink.handle(safe("ops.decision", 2))

    assert [line["seq"] for line in lines(tmp_path / PLACE)] == [1, 2]


def test_a_durable_transcript_misses_nothing_of_a_ledger(tmp_path: Path) -> None:
    def work(text: str) -> None:
        with treering.open(tmp_path / "agents.db") as ledger:
            spine = ledger.spine(sinks=[TranscriptSink(tmp_path, durable=True)])
            with ledger.session("s1", scope=HERE, agent="lyria").turn() as run:
                run.user(text)
            assert spine.flush(30.0)

    with treering.open(tmp_path / "agents.db") as ledger:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        session.record("ops.decision", "before anybody listened")
    work("one")
    work("two")

    with treering.open(tmp_path / "agents.db") as ledger:
        kept = [header.seq for header in ledger.headers(HERE, first=100).items]
    assert [line["seq"] for line in lines(tmp_path / PLACE)] == kept
