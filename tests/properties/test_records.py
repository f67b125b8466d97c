"""Laws of reading damaged logs: nothing is raised, nothing is lost, what is whole is read."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from treering.formats.records import read_records
from treering.model.codec import canonical

if TYPE_CHECKING:
    from treering.formats.parsed import LogRecord

SEPARATORS = re.compile(rb"(?:[\s\x00\x1e,\]}]|\xef\xbb\xbf)*")
values = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
logged = st.fixed_dictionaries({"type": st.sampled_from(["user", "tool"]), "body": values})
logs = st.lists(logged, min_size=1, max_size=6)
junk = st.sampled_from(
    [b"\x00", b"\n", b"{", b"}", b'"', b"[", b"\\", b"\xff", b'{"', b"\x00" * 5000]
)


def spelled(log: list[Any], indent: int | None = None) -> bytes:
    return b"".join(json.dumps(one, indent=indent).encode() + b"\n" for one in log)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Draw a log that was cut, welded, flipped and written into."""
    text = spelled(draw(logs), draw(st.sampled_from([None, None, 1])))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        until = draw(st.integers(at, min(len(text), at + 40)))
        what = draw(st.sampled_from(["cut", "weld", "flip", "insert"]))
        if what == "cut":
            text = text[:at] + text[until:]
        elif what == "weld":
            text = text[:at] + text[at:].replace(b"\n", b"", 1)
        elif what == "flip" and at < len(text):
            text = text[:at] + bytes([text[at] ^ draw(st.integers(1, 255))]) + text[at + 1 :]
        else:
            text = text[:at] + draw(junk) + text[at:]
    return text


class Dripping(io.BytesIO):
    """A stream that gives a few bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(7 if size is None else min(size, 7))


def read(text: bytes) -> list[LogRecord]:
    return list(read_records(io.BytesIO(text)))


@given(damaged() | st.binary(max_size=60))
def test_every_byte_lies_in_one_record_and_every_value_can_be_stored(text: bytes) -> None:
    at = 0
    for record in read(text):
        assert SEPARATORS.fullmatch(text, at, record.offset), (at, record)
        assert record.line == 1 + text.count(b"\n", 0, record.offset)
        assert record.end > record.offset
        assert record.fault is None or record.value is None
        canonical(record.value, "value")
        at = record.end
    assert SEPARATORS.fullmatch(text, at)


@given(logs, logs, damaged())
def test_lines_away_from_the_damage_are_read_as_before(
    before: list[Any], after: list[Any], text: bytes
) -> None:
    # An end of its own, so that the damage does not reach into what follows.
    found = read(spelled(before) + text + b'"\n' + spelled(after))

    sound = [record.value for record in found if record.fault is None]
    assert sound[: len(before)] == before
    assert sound[-len(after) :] == after


@given(logs, st.sampled_from([None, 1, 4]))
def test_a_whole_log_is_read_whole_however_it_is_printed(
    log: list[Any], indent: int | None
) -> None:
    assert [(record.value, record.mended) for record in read(spelled(log, indent))] == [
        (one, None) for one in log
    ]


@given(logs)
def test_values_in_one_line_are_records_of_their_own(log: list[Any]) -> None:
    assert [record.value for record in read(spelled(log).replace(b"\n", b""))] == log


@given(damaged())
def test_reading_does_not_depend_on_how_the_bytes_come(text: bytes) -> None:
    assert list(read_records(Dripping(text))) == read(text)


@given(logs, st.data())
def test_a_file_read_while_it_grows_gives_what_the_whole_one_does(
    log: list[Any], data: st.DataObject
) -> None:
    text = spelled(log)
    cut = data.draw(st.integers(0, len(text)))

    early = list(read_records(io.BytesIO(text[:cut]), final=False))
    at = early[-1].end if early else 0
    late = list(read_records(io.BytesIO(text[at:]), offset=at))

    assert [record.value for record in early + late] == log
