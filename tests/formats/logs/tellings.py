"""Helpers that pass values to a reader and return its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.formats.parsed import LogReader, LogRecord, ParsedEvent, ParsedRecord
from treering.model.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


def outcomes(reader: LogReader, values: Iterable[Any]) -> list[ParsedRecord]:
    """Return the outcomes of ``values``, each as a line."""
    lines = [LogRecord(value, n, n, n + 1) for n, value in enumerate(values, start=1)]
    return [one for record in lines for one in reader.read(record)] + reader.finish()


def told(reader: LogReader, values: Iterable[Any]) -> list[ParsedEvent]:
    """Return the events of ``values``."""
    return [event for one in outcomes(reader, values) for event in one.events]


def told_in_parts(
    make: Callable[[], LogReader], values: Sequence[Any], cut: int
) -> list[ParsedEvent]:
    """Return the same events from one reader up to ``cut`` and another that resumes there.

    Where the first leaves nothing to continue from, the other reads from the start.
    """
    first, second = make(), make()
    before = told(first, values[:cut])
    state = first.state()
    if state is None:
        return told(second, values)
    second.resume(decode(encode(state)))
    return before + told(second, values[cut:])


def kinds(events: Iterable[ParsedEvent]) -> list[str]:
    """Return the kinds of ``events``."""
    return [event.kind for event in events]
