from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import pytest

from treering.formats.records import (
    NUL_RUN_MIN,
    RECORD_BYTES_MAX,
    RawLines,
    json_pieces,
    read_records,
)
from treering.formats.records.values import STEPS_MAX
from treering.model.codec import NESTING_MAX, canonical

GOOD = b'{"type":"user","message":{"role":"user","text":"hi"}}\n'
HI = {"type": "user", "message": {"role": "user", "text": "hi"}}


class Repeating(io.RawIOBase):
    """A large file that is never held: a beginning, a byte many times over, and an end."""

    def __init__(self, before: bytes, byte: bytes, count: int, after: bytes) -> None:
        super().__init__()
        self._parts = [before, *([byte * 1_048_576] * (count // 1_048_576)), after]

    def read(self, size: int = -1, /) -> bytes:
        if not self._parts:
            return b""
        part = self._parts.pop(0)
        if len(part) > size:
            self._parts.insert(0, part[size:])
        return part[:size] or self.read(size)


def read(text: bytes, **options: Any) -> list[tuple[Any, ...]]:
    """Return values, or faults in their place, with offsets and what was mended."""
    return [
        (record.fault or record.value, record.offset, record.mended)
        for record in read_records(io.BytesIO(text), **options)
    ]


def test_a_line_is_a_record_with_its_line_and_extent() -> None:
    records = list(read_records(io.BytesIO(GOOD + b"5\n" + GOOD)))

    assert [(r.value, r.line, r.offset, r.end) for r in records] == [
        (HI, 1, 0, len(GOOD)),
        (5, 2, len(GOOD), len(GOOD) + 2),
        (HI, 3, len(GOOD) + 2, 2 * len(GOOD) + 2),
    ]


@pytest.mark.parametrize("seam", [b"", b" ", b"\x00", b"\x00\x00\x00", b"]", b",", b"\x1e"])
def test_welded_values_are_records_each(seam: bytes) -> None:
    assert read(b'{"a":1}' + seam + b'{"b":{"c":2}}\n' + GOOD) == [
        ({"a": 1}, 0, "welded"),
        ({"b": {"c": 2}}, 7 + len(seam), "welded"),
        (HI, 21 + len(seam), None),
    ]


@pytest.mark.parametrize(
    "torn", [b'{"a":"he', b'{"a', b'{"a":1', b'{"a":{"x":1},"b":"he', b'{"a":1,', b'{"a":tr']
)
def test_good_records_before_and_behind_a_torn_one_are_taken(torn: bytes) -> None:
    assert read(b'{"n":1}' + torn + b'{"n":2}\n{"n":3}\n') == [
        ({"n": 1}, 0, "welded"),
        ("torn", 7, None),
        ({"n": 2}, 7 + len(torn), "welded"),
        ({"n": 3}, 15 + len(torn), None),
    ]


def test_what_is_inside_a_torn_record_is_no_record() -> None:
    torn = GOOD[:-2] + b"\n"

    assert read(GOOD + torn + GOOD) == [
        (HI, 0, None),
        ("torn", len(GOOD), None),
        (HI, len(GOOD) + len(torn), None),
    ]


def test_a_record_in_the_place_of_a_value_is_known_by_its_keys() -> None:
    assert read(GOOD + b'{"type":"user","message":' + GOOD) == [
        (HI, 0, None),
        ("torn", len(GOOD), None),
        (HI, len(GOOD) + 25, "welded"),
    ]


@pytest.mark.parametrize(
    "torn", [b'{"a":[', b'{"a":', b"[", b'{"a":"x', b'{"a":1,', b'{"a":{"b":1}']
)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_torn_line_does_not_swallow_the_lines_behind_it(torn: bytes, count: int) -> None:
    found = read(torn + b"\n" + GOOD * count)

    assert [what for what, *_ in found] == ["torn", *[HI] * count]


def test_nul_bytes_alone_are_one_fault_and_around_a_record_are_taken_off() -> None:
    text = b"\x00\x00\n\x00" + GOOD + GOOD[:-1] + b"\x00\x00\n" + b'{"a":\x001}\n' + b"\x00" * 9

    assert [(what, mended) for what, _, mended in read(text)] == [
        ("NUL bytes", None),
        (HI, "NUL"),
        (HI, "NUL"),
        ({"a": 1}, "NUL"),
        ("NUL bytes", None),
    ]


def test_megabytes_of_nul_bytes_are_one_fault_and_are_not_held() -> None:
    stream = Repeating(GOOD, b"\x00", 100 << 20, GOOD)
    tracemalloc.start()
    try:
        found = list(read_records(stream))  # type: ignore[arg-type]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [record.fault or record.value for record in found] == [HI, "NUL bytes", HI]
    assert found[2].offset == len(GOOD) + (100 << 20)
    assert peak < 16 << 20


def test_a_line_that_is_too_long_is_passed_over() -> None:
    stream = Repeating(GOOD + b'{"a":"', b"x", RECORD_BYTES_MAX + (1 << 20), b'"}\n' + GOOD)

    found = list(read_records(stream))  # type: ignore[arg-type]

    assert [record.fault or record.value for record in found] == [HI, "too long", HI]
    assert [record.line for record in found] == [1, 2, 3]
    assert found[1].end == found[2].offset


def test_a_value_over_more_lines_than_can_be_held_is_passed_over() -> None:
    line = b" " * (1 << 20) + b"1,\n"

    found = read(b"[\n" + line * 70 + b"1\n]\n" + GOOD)

    assert [what for what, *_ in found] == ["too long", HI]


def test_marks_and_line_ends_of_windows_are_no_part_of_records() -> None:
    assert read(b'\xef\xbb\xbf{"a":1}\r\n\r\n  \n{"b":2}\r\n') == [
        ({"a": 1}, 3, "BOM"),
        ("blank", 12, None),
        ({"b": 2}, 17, None),
    ]
    assert read('{"a":1}\n'.encode("utf-16")) == [("UTF-16", 0, None)]


@pytest.mark.parametrize(
    ("text", "value", "mended"),
    [
        (b'{"a":"x\xffy"}', {"a": "x\ufffdy"}, "encoding"),
        (b'{"a":"x\\ud83dy","\\udc00":1}', {"a": "x\ufffdy", "\ufffd": 1}, "surrogate"),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "\U0001f600"}, None),
        (b'{"a":NaN,"b":-Infinity}', {"a": "NaN", "b": "-Infinity"}, "number"),
        (b'{"a":1e400}', {"a": "1e400"}, "number"),
        (b'{"a":1%s}' % (b"0" * 5000), {"a": "1" + "0" * 5000}, "number"),
        (b'{"a":1%s}' % (b"0" * 50), {"a": 10**50}, None),
        (b'{"a":1,"a":2}', {"a": 2}, None),
        (b'{"a":"x\ty"}', {"a": "x\ty"}, "control characters"),
        (b'"x\xff"', "x\ufffd", "encoding"),
        (b"[1]", [1], None),
        (b"null", None, None),
        (b'{"a":1},', {"a": 1}, "stray bytes"),
    ],
)
def test_what_json_has_no_room_for_becomes_a_value_that_can_be_stored(
    text: bytes, value: Any, mended: str | None
) -> None:
    assert read(text + b"\n" + GOOD) == [(value, 0, mended), (HI, len(text) + 1, None)]
    canonical(value, "value")


@pytest.mark.parametrize("levels", [NESTING_MAX + 1, 5_000])
def test_what_is_nested_too_deeply_is_a_fault(levels: int) -> None:
    text = b"[" * levels + b"]" * levels + b"\n"

    assert read(text + GOOD) == [("nested too deeply", 0, None), (HI, len(text), None)]
    assert len(read(b"[" * NESTING_MAX + b"]" * NESTING_MAX)[0][0]) == 1


def test_pretty_printed_values_are_one_record_each() -> None:
    values = [{"a": [{}, {"b": "}\n{"}]}, [{"c": 1}, {"d": 2}], HI]
    text = "\n".join(json.dumps(value, indent=2) for value in values)

    found = list(read_records(io.BytesIO(text.encode())))

    assert [record.value for record in found] == values
    assert [record.line for record in found] == [1, 9, 17]


def test_an_array_of_one_object_a_line_is_one_value() -> None:
    assert read(b'[\n{"a":1},\n{"b":2}\n]\n') == [([{"a": 1}, {"b": 2}], 0, None)]


def test_a_torn_value_over_several_lines_is_one_fault() -> None:
    torn = json.dumps({"a": 1, "b": [{"c": 2}, {"d": 3}]}, indent=2).encode()[:-12]

    assert read(torn + b"\n" + GOOD) == [("torn", 0, None), (HI, len(torn) + 1, None)]


def test_what_is_no_json_is_a_fault() -> None:
    assert read(b"[12:30] word\n}\n" + GOOD + b"2026-01-01 {x} 1\n") == [
        ("not JSON", 0, None),
        ("not JSON", 13, None),
        (HI, 15, None),
        ("not JSON", 15 + len(GOOD), None),
    ]


def test_the_last_line_needs_no_line_feed_and_is_torn_if_it_does_not_decode() -> None:
    assert read(GOOD + b'{"a":1}')[1] == ({"a": 1}, len(GOOD), None)
    for tail in (b'{"a":', b"words", b'{"a":"'):
        torn = list(read_records(io.BytesIO(GOOD + tail)))[1]
        assert (torn.fault, torn.end) == ("torn", len(GOOD + tail))


@pytest.mark.parametrize(
    "tail", [b'{"a":', b"5", b"words", b'{"a":1}{', b"\x00" * 5000, b"{\n", b'{\n"a":1\n', b" "]
)
def test_what_is_being_written_is_left_for_later(tail: bytes) -> None:
    assert read(GOOD + tail, final=False) == [(HI, 0, None)]


def test_an_object_that_lacks_only_its_line_feed_is_taken_and_reading_goes_on_behind_it() -> None:
    text = GOOD + b'{"a":1}'

    early = list(read_records(io.BytesIO(text), final=False))
    late = list(read_records(io.BytesIO(b"\n" + GOOD), offset=early[-1].end, line=2))

    assert [record.value for record in early] == [HI, {"a": 1}]
    assert [(record.value, record.line, record.offset) for record in late] == [
        (HI, 3, len(text) + 1)
    ]


def test_a_long_line_of_welded_values_takes_no_longer_for_each() -> None:
    assert len(read(b'{"a":1}' * 50_000)) == 50_000
    assert len(read(b'{\n"a":1\n}' * 5_000)) == 5_000


HOSTILE = {
    "brackets, a line each": b"[\n" * 40_000,
    "objects, a line each": b'{"a":[\n' * 20_000,
    "brackets in deep lines": b"[\n" * 60 + b"1,\n" * 40_000,
    "objects in one line": b'{"type":[' * 20_000,
    "objects in long lines": (b'{"type":' * 500 + b"\n") * 40,
    "records in strings": b'{"type":"x{' + b'","message":1}{":"x{' * 10_000,
    "torn, a line each": b'{"type":"us{"\n' * 20_000,
    "closed and opened": b"}{" * 60_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_log_is_looked_at_more_than_a_few_times_over(
    text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = taken = 0
    measure, take = json_pieces.measure, RawLines.take

    def counted_measure(*text: Any, **limits: Any) -> json_pieces.JsonExtent:
        nonlocal steps
        extent = measure(*text, **limits)
        steps += extent.steps
        return extent

    def counted_take(lines: RawLines) -> Any:
        nonlocal taken
        taken += 1
        return take(lines)

    monkeypatch.setattr(json_pieces, "measure", counted_measure)
    monkeypatch.setattr(RawLines, "take", counted_take)
    found = read(GOOD + text + b"\n" + GOOD * 2)

    assert [found[at][0] for at in (0, -2, -1)] == [HI] * 3
    assert steps <= STEPS_MAX + 2 * len(text)
    assert taken <= STEPS_MAX + 4 * text.count(b"\n")


def test_patience_comes_back_with_what_is_read() -> None:
    torn = b'{"type":"us' + GOOD
    found = read(b"[\n" * 40_000 + GOOD * 8_000 + torn + b'{\n"a":1\n}\n')

    assert [what for what, *_ in found[-3:]] == ["torn", HI, {"a": 1}]


def test_what_is_noted_of_a_torn_line_takes_no_more_room_than_the_line() -> None:
    text = b'{"a":[' * 20_000
    tracemalloc.start()
    try:
        found = read(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [what for what, *_ in found] == ["torn"]
    assert peak < 5 * len(text)


def test_nul_bytes_short_of_a_run_are_part_of_their_line() -> None:
    torn = (b"\x00" * (NUL_RUN_MIN - 1) + b"x") * 20 + b"\n"

    assert [what for what, *_ in read(GOOD + torn + GOOD)] == [HI, "not JSON", HI]


def test_a_record_behind_two_keys_that_were_torn_is_found() -> None:
    assert read(GOOD + b'{"ty{"mess' + GOOD)[2][0] == HI


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b"  \n", b"\t \r\n"])
def test_blank_lines_are_told_at_once_and_all_counted(blank: bytes) -> None:
    many = 300_000
    records = list(read_records(io.BytesIO(GOOD + blank * many + GOOD + blank)))

    assert [(r.fault, r.line, r.lines) for r in records] == [
        (None, 1, 1),
        ("blank", 2, many),
        (None, many + 2, 1),
        ("blank", many + 3, 1),
    ]
    assert [r.offset for r in records[1:]] == [r.end for r in records[:-1]]


def test_blank_lines_behind_a_torn_value_hide_no_record() -> None:
    records = list(read_records(io.BytesIO(b'{"a":\n' + b"\n" * 200_000 + GOOD)))

    assert len(records) < 10
    assert records[-1].value == HI
    assert records[-1].line == 200_002


def test_brackets_without_end_are_not_counted_to_their_end() -> None:
    deep = b"[" * 500_000 + b"]" * 500_000 + b"\n"

    assert json_pieces.measure(deep, 0, levels_max=json_pieces.LEVELS_MAX).steps < 10
    assert [r.value for r in read_records(io.BytesIO(deep + GOOD)) if not r.fault] == [HI]
