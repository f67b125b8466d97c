"""Taking in logs that were cut, welded, flipped, grown and read again: nothing lost or doubled."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

import treering
from capture.intake_logs import (
    EVERYWHERE,
    T0,
    VOYAGES,
    check_sums,
    every_event,
    lines,
    said_in,
    session_in,
    told_by,
)
from capture.test_intake_sessions import PAIRS, PAST
from treering.app import import_logs
from treering.formats.records import read_records
from treering.formats.registry import find_format

if TYPE_CHECKING:
    from collections.abc import Callable

    from capture.test_intake_sessions import Pair

FORMATS = st.sampled_from(sorted(VOYAGES))
ODD = st.sampled_from([b'"', b"{", b"}", b"[", b"\\", b",", b"\n", b"\0", b"\xff", b"\r\n", b"7"])
"""Bytes that are most likely to mislead whoever looks for the end of a record."""


def texts_of(form: str, content: bytes) -> list[set[str]]:
    """Return what is said in each record of a log."""
    name, records = VOYAGES[form]
    found = find_format(records)
    assert found is not None
    reader = found.reader(PurePath(name))
    told: dict[int, set[str]] = {number: set() for number in range(1, len(records) + 1)}
    read = [one for record in read_records(io.BytesIO(content)) for one in reader.read(record)]
    for outcome in [*read, *reader.finish()]:
        for event in outcome.events:
            if event.kind.startswith("conversation.") and isinstance(event.payload, dict):
                told[outcome.record.line].add(str(event.payload.get("text")))
    return [told[number] for number in sorted(told)]


class Damaged:
    """A log some of whose lines were damaged."""

    def __init__(self, content: bytes, spared: set[str]) -> None:
        self.content = content
        self.spared = spared
        """What is said in the lines that nobody touched."""

    def __repr__(self) -> str:
        """Return the log, to see what was done to it."""
        return repr(self.content)


@st.composite
def damaged_logs(draw: st.DrawFn, form: str) -> Damaged:
    parts = lines(VOYAGES[form][1]).splitlines(keepends=True)
    told = texts_of(form, b"".join(parts))
    # Without its first line, a log of Gemini's could be anybody's.
    touched = draw(st.sets(st.integers(form == "gemini", len(parts) - 1), max_size=4))
    spared = set(range(len(parts))) - touched
    for number in touched:
        part = parts[number]
        at = draw(st.integers(0, len(part) - 1))
        how = draw(st.sampled_from(["flip", "insert", "cut", "weld", "drop", "nuls", "double"]))
        if how == "flip":
            parts[number] = part[:at] + draw(ODD) + part[at + 1 :]
        elif how == "insert":
            parts[number] = part[:at] + draw(ODD | st.binary(max_size=6)) + part[at:]
        elif how == "cut":
            parts[number] = part[:at] + b"\n"
        elif how == "weld":
            parts[number] = part[:-1]
        elif how == "drop":
            parts[number] = part[:at]
            spared.discard(number + 1)
        elif how == "nuls":
            parts[number] = part[:at] + b"\0" * 40 + b"\n"
        else:
            parts[number] = part * 2
    words = {text for number in spared for text in told[number]}
    return Damaged(b"".join(parts), words)


@given(form=FORMATS, drawn=st.data())
def test_a_damaged_log_costs_its_damaged_lines_alone(form: str, drawn: st.DataObject) -> None:
    damaged = drawn.draw(damaged_logs(form))
    with tempfile.TemporaryDirectory() as folder, treering.open(":memory:") as ledger:
        path = Path(folder) / VOYAGES[form][0]
        path.write_bytes(damaged.content)

        receipt = import_logs(ledger, [path], scope=EVERYWHERE)

        check_sums(receipt)
        said = {str(one.payload.get("text")) for one in every_event(ledger) if told_text(one)}
        assert damaged.spared <= said
        for fault in receipt.faults:
            assert fault.file == str(path)
            assert 0 <= fault.offset <= len(damaged.content)
            assert 1 <= fault.line <= damaged.content.count(b"\n") + 1
        assert ledger.admin.verify().intact
        assert path.read_bytes() == damaged.content

        again = import_logs(ledger, [path], scope=EVERYWHERE, again=True)

        check_sums(again)
        assert (again.imported, again.events) == (0, 0)


def told_text(event: Any) -> bool:
    return event.kind.startswith("conversation.") and isinstance(event.payload, dict)


@given(form=FORMATS, cuts=st.lists(st.floats(0, 1), min_size=1, max_size=4), live=st.booleans())
def test_a_log_that_grows_by_pieces_tells_what_it_tells_in_one(
    *, form: str, cuts: list[float], live: bool
) -> None:
    name, records = VOYAGES[form]
    content = lines(records)
    ends = sorted({int(cut * len(content)) for cut in cuts} | {len(content)})
    with (
        tempfile.TemporaryDirectory() as folder,
        treering.open(":memory:") as whole,
        treering.open(":memory:") as grown,
    ):
        path = Path(folder) / name
        path.write_bytes(content)
        os.utime(path, (T0 // 1_000, T0 // 1_000))  # Where a log has no times, its file has one.
        import_logs(whole, [path], scope=EVERYWHERE)
        path.unlink()
        path.touch()
        for start, end in zip([0, *ends], ends, strict=False):
            with path.open("ab") as file:
                file.write(content[start:end])
            os.utime(path, (T0 // 1_000, T0 // 1_000))
            check_sums(import_logs(grown, [path], scope=EVERYWHERE, live=live))

        expected, found = told_by(whole), told_by(grown)
        assert expected.keys() <= found.keys()
        if form != "codex":  # A reasoning that is cut from its text is told apart from it.
            assert found == expected
        for outline in whole.sessions(EVERYWHERE).items:
            session = whole.session(outline.session_id, scope=EVERYWHERE, agent="x")
            after = grown.session(outline.session_id, scope=EVERYWHERE, agent="x")
            assert said_in(after) == said_in(session)
            assert after.usage().total == session.usage().total
        assert grown.admin.verify().intact


STEPS = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.floats(0, 1), st.sets(st.sampled_from([0, 1]))),
    max_size=6,
)
"""Which of two logs grows, up to where, and which of them are imported then."""


@given(make=st.sampled_from(PAIRS), steps=STEPS, live=st.booleans())
def test_sessions_that_share_a_past_are_whole_however_their_logs_grow(
    *, make: Callable[[Path], Pair], steps: list[tuple[int, float, set[int]]], live: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, treering.open(":memory:") as ledger:
        logs = make(Path(folder))
        files = [logs.parent, logs.child]
        whole = [path.read_bytes() for path in files]
        sizes = [0, 0]
        for which, share, taken in steps:
            sizes[which] = max(sizes[which], int(share * len(whole[which])))
            for path, content, size in zip(files, whole, sizes, strict=True):
                path.write_bytes(content[:size])
            read = [files[one] for one in taken]
            check_sums(import_logs(ledger, read, scope=EVERYWHERE, live=live))
        for path, content in zip(files, whole, strict=True):
            path.write_bytes(content)

        check_sums(import_logs(ledger, files, scope=EVERYWHERE, live=live))

        said = [said_in(session_in(ledger, one)) for one in logs.ids]
        assert said == [[*PAST, "four", "about four"], [*PAST, "three", "about three"]]
        assert ledger.admin.verify().intact
        assert import_logs(ledger, files, scope=EVERYWHERE, again=True).events == 0
