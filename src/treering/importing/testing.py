"""The laws that every reader keeps, to be run against a sample of its logs.

    SAMPLE = LogSample(FORMAT, "sessions/one.jsonl", {"sessions/one.jsonl": content})

    @pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
    def test_the_reader_keeps_the_law(law):
        law(SAMPLE)

A law raises AssertionError, and says what is wrong. Laws about lines apply to logs of lines, not to
databases, and hardly to other formats with ``records`` of their own.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.app import import_logs
from treering.app import open as open_ledger
from treering.formats import registry
from treering.formats.format import Format
from treering.formats.parsed import LogReader, LogRecord, ParsedEvent
from treering.formats.records import read_records, read_text
from treering.model.codec import encode
from treering.model.queries import items_of
from treering.storage.sqlite.foreign import ForeignDatabases

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.model.intakes import ImportReceipt, SourceReceipt

__all__ = ["LAWS", "LogSample"]

SCOPE: Final = "kit"
WRITTEN_S: Final = 1_790_000_000
"""When the files of a sample were written, as a number of seconds."""
PLACES_MAX: Final = 10
"""Places at which a log is cut or damaged."""
TEXT_CHARACTERS_MIN: Final = 12
"""Shorter texts may be in a state by chance."""
_BOOKKEEPING: Final = frozenset({"session.opened", "session.imported", "session.forked"})
_ODD_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    7.5,
    "",
    "x",
    [],
    [None],
    ["x"],
    {},
    {"type": ["x"]},
)
_ODD_LINES: Final = (
    b"null", b"[]", b"42", b'"text"', b'{"type":null}', b'{"type":["x"],"id":{}}', b"not JSON",
    b"\x00\x00\x00", b'{"torn":', b'{"text":"\xff"}', b'{"n":1e999,"m":' + b"9" * 400 + b"}",
    b'{"a":' * 70 + b"1" + b"}" * 70,
)  # fmt: skip


class LogSample(msgspec.Struct, frozen=True):
    """A log to try a reader on."""

    format: Format
    log: str
    """The path of the file that is imported, below any folder."""
    files: Mapping[str, bytes]
    """The content of that file, and of those that are read with it, by path."""

    @property
    def content(self) -> bytes:
        """Return the content of the log."""
        return self.files[self.log]

    @property
    def has_lines(self) -> bool:
        """Return whether its records are lines of the file."""
        return self.format.records is None

    def values(self) -> list[Any]:
        """Return the values in the log."""
        return [record.value for record in self.records(self.content) if record.fault is None]

    def records(self, content: bytes) -> Iterator[LogRecord]:
        """Yield the records of ``content``."""
        read = read_text if self.format.content == "text" else read_records
        return read(io.BytesIO(content))

    def reader(self) -> LogReader:
        """Return a new reader."""
        return self.format.reader(PurePath(self.log))


def claims_its_own_log(sample: LogSample) -> None:
    """The format claims the sample, and no other format does."""
    if not sample.has_lines:
        return
    values = [value for value in sample.values() if value not in ({}, [], "", None)][:40]
    content = sample.format.content
    with registry.adding(sample.format):
        owner = registry.find_format(values, content=content)
        scores = {f.name: f.score(values) for f in registry.formats() if f.content == content}
    claims = {name: score for name, score in scores.items() if score > 0}
    assert owner is not None, f"the sample is not claimed, or not clearly: {claims}"
    assert owner.name == sample.format.name, f"the sample is claimed by {owner.name}: {claims}"


def accounts_for_every_line(sample: LogSample) -> None:
    """Every record is counted exactly once: imported, known, skipped with a reason or in error."""
    with _imported(sample) as (_, receipt):
        assert receipt.events > 0, "nothing was imported"
        assert receipt.errors == 0, f"the sample has errors: {receipt.faults}"
        if sample.has_lines:
            count = sum(record.lines for record in sample.records(sample.content))
            assert receipt.lines == count, f"{receipt.lines} of {count} records were counted"


def imports_nothing_twice(sample: LogSample) -> None:
    """Reading a log again, or a copy of it, adds nothing and changes nothing."""
    with _imported(sample) as (ledger, _), _written(sample) as copy:
        before = _events_by_id(ledger)
        again = _import(ledger, copy, again=True)
        assert again.events == 0, f"a copy added {again.events} events"
        assert _events_by_id(ledger) == before, "a copy changed events"


def grows_into_the_same(sample: LogSample) -> None:
    """A log that is read while it grows gives the same events as one read at once.

    A format with ``records`` may also keep a text that was incomplete when it was read.
    """
    if sample.format.content == "sqlite":
        return
    content = sample.content
    with _imported(sample) as (whole, _):
        expected = _events_by_id(whole)
    for live in (True, False):
        with _written(sample) as path, open_ledger(":memory:") as ledger:
            for end in (*_cuts(content), len(content)):
                _rewrite(path, content[:end])
                _import(ledger, path, live=live)
            grown = _events_by_id(ledger)
            lost, more = expected.keys() - grown.keys(), grown.keys() - expected.keys()
            assert not lost, f"events are lost when it grows: {[expected[key] for key in lost]}"
            if not sample.has_lines:
                continue
            assert not more, f"events are doubled when it grows: {[grown[key] for key in more]}"
            assert grown == expected, "events differ when it grows"


def a_cut_costs_only_the_end(sample: LogSample) -> None:
    """What comes before a cut is read, and the torn line is counted."""
    if not sample.has_lines:
        return
    undamaged = _texts_by_record(sample, sample.content)
    for cut in _cuts(sample.content):
        before = [(record, texts) for record, texts in undamaged if record.end <= cut]
        _check_rest(sample, sample.content[:cut], before)


def welded_lines_are_both_read(sample: LogSample) -> None:
    """A lost line feed costs nothing."""
    if not sample.has_lines or sample.format.content == "text":
        return
    undamaged = _texts_by_record(sample, sample.content)
    for end in _line_ends(sample.content)[:-1]:
        welded = sample.content[: end - 1] + sample.content[end:]
        _check_rest(sample, welded, undamaged)


def swapped_lines_are_both_read(sample: LogSample) -> None:
    """Two lines that were written in the other order cost nothing that is said."""
    if not sample.has_lines or sample.format.content == "text":
        return
    undamaged = _texts_by_record(sample, sample.content)
    ends = [at + 1 for at, byte in enumerate(sample.content) if byte == ord("\n")]
    starts = [0, *ends]
    for at in range(0, len(ends) - 1, max(1, len(ends) // PLACES_MAX)):
        first, second = starts[at], starts[at + 1]
        end = ends[at + 1]
        lines = sample.content[second:end] + sample.content[first:second]
        _check_rest(sample, sample.content[:first] + lines + sample.content[end:], undamaged)


def hostile_lines_cost_no_other(sample: LogSample) -> None:
    """Odd, damaged and foreign lines between the others cost none of them."""
    if not sample.has_lines:
        return
    undamaged = _texts_by_record(sample, sample.content)
    for end in _line_ends(sample.content):
        odd = b"".join(line + b"\n" for line in _ODD_LINES)
        damaged = sample.content[:end] + odd + sample.content[end:]
        _check_rest(sample, damaged, undamaged)
    with _written(sample) as path, open_ledger(":memory:") as ledger:
        middle = _line_ends(sample.content)[len(_line_ends(sample.content)) // 2 - 1]
        odd = b"".join(line + b"\n" for line in _ODD_LINES)
        _rewrite(path, sample.content[:middle] + odd + sample.content[middle:])
        _import(ledger, path)
        assert _import(ledger, path, again=True).events == 0, "hostile lines are imported twice"


def odd_values_surprise_nobody(sample: LogSample) -> None:
    """A field of an unusual type is not an error: the log is claimed, and its record is kept."""
    if sample.has_lines and sample.format.content == "text":
        return
    values = sample.values() if sample.has_lines else _own_values(sample)
    for number, value in enumerate(values):
        for at, odd in enumerate(_twisted(value)):
            reader = sample.reader()
            before = values[max(0, number - 3) : number]
            if sample.has_lines:
                _score(sample, [*before, odd])
            for line, given in enumerate((*before, odd)):
                try:
                    reader.read(LogRecord(given, line + 1, line, line + 1))
                except Exception as error:
                    raise AssertionError(
                        f"record {number + 1}, oddity {at}, made the reader raise {error!r}: {odd}"
                    ) from error
            reader.finish()


def resumes_anywhere(sample: LogSample) -> None:
    """A reader that resumes from a state continues as if it had never stopped."""
    if not sample.has_lines:
        return
    records = list(sample.records(sample.content))
    whole = _events_of(sample.reader(), records)
    for stop in range(1, len(records)):
        first = sample.reader()
        early = _settled(first, records[:stop])
        state = first.state()
        if state is None:
            continue
        second = sample.reader()
        second.resume(msgspec.json.decode(msgspec.json.encode(state)))
        for session, header in first.sessions.items():
            second.sessions.setdefault(session, header.bare())
        late = _events_of(second, records[stop:])
        identities = dict.fromkeys(_identity(event) for event in (*early, *late))
        assert list(identities) == list(dict.fromkeys(_identity(event) for event in whole)), (
            f"after record {stop}, a resumed reader continues differently"
        )


def remembers_no_text(sample: LogSample) -> None:
    """A state holds names, numbers and digests: erasure does not reach it."""
    if not sample.has_lines:
        return
    reader = sample.reader()
    records = list(sample.records(sample.content))
    events = _settled(reader, records)
    state = encode(reader.state()).decode()
    texts = {str((event.payload or {}).get("text")) for event in events if _is_said(event)}
    remembered = [text for text in texts if len(text) >= TEXT_CHARACTERS_MIN and text in state]
    assert not remembered, f"the state of the reader holds text of the log: {remembered}"


LAWS: Final[tuple[Callable[[LogSample], None], ...]] = (
    claims_its_own_log,
    accounts_for_every_line,
    imports_nothing_twice,
    grows_into_the_same,
    a_cut_costs_only_the_end,
    welded_lines_are_both_read,
    swapped_lines_are_both_read,
    hostile_lines_cost_no_other,
    odd_values_surprise_nobody,
    resumes_anywhere,
    remembers_no_text,
)
"""All laws, each a function of a sample."""


# Importing a sample.


@contextlib.contextmanager
def _imported(sample: LogSample) -> Iterator[tuple[Ledger, ImportReceipt]]:
    with _written(sample) as path, open_ledger(":memory:") as ledger:
        yield ledger, _import(ledger, path)


@contextlib.contextmanager
def _written(sample: LogSample) -> Iterator[Path]:
    """Write the files of a sample to a folder of their own; yield the path of the log."""
    with tempfile.TemporaryDirectory() as folder, registry.adding(sample.format):
        for name, content in sample.files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            _rewrite(path, content)
        yield Path(folder, sample.log)


def _rewrite(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    os.utime(path, (WRITTEN_S, WRITTEN_S))  # A log without times has that of its file.


def _import(
    ledger: Ledger, path: Path, *, again: bool = False, live: bool = False
) -> ImportReceipt:
    receipt = import_logs(ledger, [path], scope=SCOPE, again=again, live=live)
    counted: list[ImportReceipt | SourceReceipt] = [receipt, *receipt.sources]
    for tally in counted:
        parts = tally.imported + tally.duplicates + sum(tally.skipped.values()) + tally.errors
        assert parts == tally.lines, f"{parts} of {tally.lines} lines are accounted for: {tally}"
    surprises = [fault for fault in receipt.faults if "not understood" in fault.reason]
    assert not surprises, f"the reader raised an error: {surprises}"
    return receipt


def _events_by_id(ledger: Ledger) -> dict[str, tuple[Any, ...]]:
    """Return what every event says, by its id."""
    events = items_of(lambda after: ledger.events(SCOPE, after=after))
    return {
        e.event_id: (e.session_id, e.kind, e.ts_ms, e.summary, e.refs, e.payload)
        for e in events
        if e.kind not in _BOOKKEEPING
    }


def _own_values(sample: LogSample) -> list[Any]:
    """Return the values that a format with ``records`` of its own reads."""
    assert sample.format.records is not None
    with _written(sample) as path:
        records = [*sample.format.records(path, ForeignDatabases())]
    values = (record.value if isinstance(record, LogRecord) else record for record in records)
    return [value for value in values if value is not None]


# Reading a sample, without a ledger.


def _score(sample: LogSample, values: list[Any]) -> None:
    try:
        sample.format.score(values)
    except Exception as error:
        raise AssertionError(f"the score raises {error!r}: {values[-1]}") from error


def _settled(reader: LogReader, records: list[LogRecord]) -> list[ParsedEvent]:
    read = [
        outcome for record in records if record.fault is None for outcome in reader.read(record)
    ]
    return [event for outcome in read for event in outcome.events]


def _events_of(reader: LogReader, records: list[LogRecord]) -> list[ParsedEvent]:
    events = _settled(reader, records)
    return events + [event for outcome in reader.finish() for event in outcome.events]


def _identity(event: ParsedEvent) -> tuple[Any, ...]:
    return event.session, event.key, event.kind, event.ts_ms, event.summary


def _texts_by_record(sample: LogSample, content: bytes) -> list[tuple[LogRecord, set[str]]]:
    """Return each record with what is said in it."""
    reader = sample.reader()
    read = [
        outcome
        for record in sample.records(content)
        if record.fault is None
        for outcome in reader.read(record)
    ]
    return [
        (outcome.record, {_text(event) for event in outcome.events if _is_said(event)})
        for outcome in (*read, *reader.finish())
    ]


def _check_rest(
    sample: LogSample, content: bytes, undamaged: list[tuple[LogRecord, set[str]]]
) -> None:
    """Check that what undamaged records say is in a damaged log, too."""
    texts_read = {text for _, texts in _texts_by_record(sample, content) for text in texts}
    spared = {text for _, texts in undamaged for text in texts}
    assert spared <= texts_read, f"damage elsewhere costs: {sorted(spared - texts_read)}"


def _is_said(event: ParsedEvent) -> bool:
    return event.kind.startswith(("conversation.", "tool.")) and isinstance(event.payload, dict)


def _text(event: ParsedEvent) -> str:
    payload: dict[str, Any] = event.payload
    return f"{event.kind}: {payload.get('text', payload.get('output', payload.get('input')))}"


def _line_ends(content: bytes) -> list[int]:
    """Return where some lines end, after their line feeds."""
    ends = [at + 1 for at, byte in enumerate(content) if byte == ord("\n")]
    step = max(1, len(ends) // PLACES_MAX)
    return sorted({*ends[::step], *ends[-1:]})


def _cuts(content: bytes) -> list[int]:
    """Return places within lines, and at their ends."""
    ends = _line_ends(content)
    inside = [end - 1 - (end * 7) % 23 for end in ends[1::2]]
    return sorted({cut for cut in (*ends[::2], *inside) if 0 < cut < len(content)})


def _twisted(value: Any) -> Iterator[Any]:
    """Yield copies of a value, each with an odd value in one place."""
    if isinstance(value, dict):
        for at, inner in value.items():
            yield from ({**value, at: odd} for odd in _ODD_VALUES)
            yield {name: field for name, field in value.items() if name != at}
            yield from ({**value, at: odd} for odd in _twisted(inner))
    elif isinstance(value, list):
        for at, inner in enumerate(value[:3]):
            yield from ([*value[:at], odd, *value[at + 1 :]] for odd in _ODD_VALUES)
            yield from ([*value[:at], odd, *value[at + 1 :]] for odd in _twisted(inner))
