from __future__ import annotations

import gzip
import io
import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from treering.errors import InvalidInput, NotFound
from treering.formats import sources
from treering.formats.records import read_records
from treering.formats.sources import (
    SNIFFED_MAX,
    fingerprint,
    first_line,
    is_sqlite,
    open_source,
    sniff,
    source_at,
    tail_print,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NOBODY = 65_534
LINES = b"".join(b'{"n":%d,"text":"%s"}\n' % (n, os.urandom(40).hex().encode()) for n in range(500))


def content(path: Path) -> bytes:
    with open_source(path) as stream:
        return b"".join(iter(lambda: stream.read(1000), b""))


def test_a_source_says_what_the_file_is_now(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(LINES)

    source = source_at(path)

    assert (source.size, source.inode) == (len(LINES), path.stat().st_ino)


@pytest.mark.parametrize("pack", [zstandard.compress, gzip.compress])
def test_packed_files_are_told_by_their_bytes_and_may_be_several_in_one(
    tmp_path: Path, pack: object
) -> None:
    assert callable(pack)
    path = tmp_path / "log.jsonl"
    path.write_bytes(pack(LINES) + pack(LINES) + b"\x00" * 3000)

    with open_source(path) as stream:
        stream.seek(len(LINES) + 10)
        assert stream.read(5) == LINES[10:15]
        stream.seek(3)
        assert stream.read(5) == LINES[3:8]
    assert content(path) == LINES + LINES


@pytest.mark.parametrize("pack", [zstandard.compress, gzip.compress])
def test_a_packed_file_cut_off_gives_what_could_be_unpacked_and_a_fault(
    tmp_path: Path, pack: object
) -> None:
    assert callable(pack)
    path = tmp_path / "log.jsonl.zst"
    path.write_bytes(pack(LINES) + pack(LINES)[:-20])

    with open_source(path) as stream:
        records = list(read_records(stream))

    assert [record.value["n"] for record in records[:500]] == list(range(500))
    assert records[-1].fault == "damaged"
    assert records[-1].offset > records[-2].offset


def test_damage_inside_a_packed_file_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    packed = gzip.compress(LINES)
    path.write_bytes(packed[:5000] + b"\xff" * 500 + packed[5500:])

    with open_source(path) as stream:
        records = list(read_records(stream))

    assert records[0].value["n"] == 0
    assert records[-1].fault == "damaged"


def test_utf_16_is_read_as_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes('{"a":"é😀"}\r\n{"b":2}\r\n'.encode("utf-16"))

    with open_source(path) as stream:
        records = list(read_records(stream))

    assert [(record.value, record.fault) for record in records] == [
        ({"a": "é😀"}, None),
        ({"b": 2}, None),
    ]


def test_a_file_that_grew_is_told_from_one_that_was_replaced(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_bytes(LINES)
    other.write_bytes(LINES[:300] + b"x" + LINES[301:])

    with open_source(path) as stream, open_source(other) as replaced:
        head, tail = fingerprint(stream, 400), tail_print(stream, 400)
        with path.open("ab") as writer:
            writer.write(LINES)
        assert (fingerprint(stream, 400), tail_print(stream, 400)) == (head, tail)
        assert fingerprint(replaced, 400) != head
        assert tail_print(replaced, 400) != tail
        assert tail_print(replaced, 9000) == tail_print(stream, 9000)
        assert stream.tell() == 9000


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        for name, what in (("", "folder"), ("pipe", "pipe"), ("socket", "socket")):
            with pytest.raises(InvalidInput, match=f"is a {what}"):
                open_source(tmp_path / name)
    with pytest.raises(InvalidInput, match="is a device"):
        open_source("/dev/null")
    with pytest.raises(NotFound, match="no file"):
        open_source(tmp_path / "missing")


def answer_to_anybody(path: Path) -> str:
    """Return the result of opening ``path`` as a user without rights, since root has all."""
    told, says = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            with open_source(path) as stream:
                os.write(says, b"read: " + stream.read())
        except (InvalidInput, OSError) as error:
            os.write(says, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(says)
    with os.fdopen(told) as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    return answer


@pytest.mark.parametrize(
    ("mode", "answer"), [(0o000, "InvalidInput: log may not be read"), (0o444, "read: hi")]
)
def test_a_file_that_may_not_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, answer: str
) -> None:
    monkeypatch.chdir(tmp_path)  # Folders above it are closed to others.
    tmp_path.chmod(0o755)
    path = Path("log")
    path.write_bytes(b"hi")
    path.chmod(mode)

    assert answer_to_anybody(path) == answer


def test_sniffing_gives_the_first_values_only(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"noise\n\n" + LINES)

    with open_source(path) as stream:
        assert [value["n"] for value in sniff(stream)] == list(range(SNIFFED_MAX))


def test_sniffing_reads_one_big_value_whole(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    value = {"sessionId": "s", "messages": [{"id": n, "text": "x" * 900} for n in range(3000)]}
    path.write_text(json.dumps(value, indent=2))

    assert path.stat().st_size > 2_000_000
    with open_source(path) as stream:
        assert sniff(stream) == [value]


def test_a_database_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "state.vscdb"
    path.write_bytes(b"SQLite format 3\x00" + bytes(100))
    (tmp_path / "log").write_bytes(LINES)

    with open_source(path) as stream:
        assert is_sqlite(stream)
    with open_source(tmp_path / "log") as stream:
        assert not is_sqlite(stream)


@pytest.mark.parametrize("pack", [zstandard.compress, gzip.compress])
def test_a_file_that_unpacks_to_far_more_than_it_is_breaks_off(
    tmp_path: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "UNPACKED_BYTES_FREE", 1_000_000)
    monkeypatch.setattr(sources, "UNPACKED_TIMES_MAX", 50)
    path = tmp_path / "bomb.jsonl"
    path.write_bytes(pack(LINES + b"{}\n" * 2_000_000))

    with pytest.raises(OSError, match="times its size"):
        content(path)


def test_a_document_over_several_lines_is_shown_by_more_than_its_bracket(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps({"title": "Tides", "agents": {}}, indent=2))

    assert first_line(path) == '{ "title": "Tides", "agents": {} }'


ODD_LINES = st.sampled_from([
    b'{"type": "user"}', b"{}", b"[]", b'""', b"null", b"7", b'"x"', b"", b"  ", b"{", b"}",
    b"words", b'{"a": 1}\r', b'{"a": 1}{"b": 2}', b"\xef\xbb\xbf{}", b"\xff\xfe", b"\x00" * 9,
    b'{"a":', b"1}", b"[" * 200 + b"]" * 200, b'{"a": "' + b"x" * 30_000 + b'"}', b'{"\xff": 1}',
])  # fmt: skip


@given(st.lists(ODD_LINES, max_size=50), st.sampled_from([b"", b"\n"]))
def test_the_first_values_are_the_same_however_they_are_read(
    lines: list[bytes], end: bytes
) -> None:
    log = b"\n".join(lines) + end
    buffered = io.BufferedReader(cast("io.RawIOBase", io.BytesIO(log)))

    assert sniff(buffered) == sniff(io.BytesIO(log))
