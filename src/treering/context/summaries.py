"""The summary of messages that leave the context: told by structure, without a model.

It quotes; it never rephrases. A summary can be given back as the beginning of the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

import msgspec

from treering.context import clues
from treering.context.notes import (
    LINES_MAX,
    SECTIONS,
    WRITTEN,
    Section,
    SummaryLine,
    SummaryNotes,
    cut,
)
from treering.context.tokens import estimate
from treering.model.messages import ModelMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from treering.context.tokens import Counter
    from treering.model.messages import AssistantMessage, Call

EARLIER_CHARS_MAX: Final = 65_536

Summariser = Callable[[Sequence[ModelMessage], "str | None", int], str]
"""Tells messages, and the summary of what went before them, in about so many tokens."""

_DEAREST_FIRST: Final[tuple[Section, ...]] = (
    "Intent",
    "Outcome",
    "Earlier",
    "Open",
    "Decisions",
    "Errors",
    "Files",
    "Commands",
)


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What messages were about."""

    text: str
    evidence: tuple[SummaryLine, ...] = ()
    """The lines of the text but for the headings, in order."""


def summarise(
    messages: Sequence[ModelMessage],
    *,
    earlier: str | None = None,
    limit: int,
    count: Counter = estimate,
) -> Summary:
    """Return what ``messages`` were about, after ``earlier``, in at most ``limit`` tokens.

    ``count`` says what a token is; ``len`` counts characters. The text is empty if nothing fits.
    """
    notes = SummaryNotes()
    _note_questions(notes, messages)
    # The newest comes first: a section that is full needs no more looking.
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            _note_request(notes, message)
        else:
            _note_answer(notes, message)
    sections = _read(earlier or "")
    if not notes.wants("Outcome"):
        sections["Open"] = [text for text in sections["Open"] if not clues.questions_in(text)]
    for section, texts in sections.items():
        for text in reversed(texts):
            notes.add(section, text)
    _note_first(notes, sections["Intent"], messages)
    return _fit(notes.lines(), limit, count)


def _note_request(notes: SummaryNotes, message: UserMessage) -> None:
    if message.mark is None:
        _note_words(notes, message)
        if notes.wants("Decisions"):
            for sentence in reversed(clues.requirements_in(message.text)):
                notes.add("Decisions", sentence, message.event_ids)
        if notes.wants("Intent"):
            notes.add("Intent", message.text, message.event_ids)


def _note_answer(notes: SummaryNotes, message: AssistantMessage) -> None:
    for result in reversed(message.results):
        error = clues.error_in(result) if notes.wants("Errors") else None
        if error is not None:
            ids = (result.event_id,) if result.event_id else ()
            notes.add("Errors", f"{result.tool}: {error}", ids)
    for call in reversed(message.calls):
        _note_call(notes, call)
    _note_words(notes, message)
    if notes.wants("Outcome"):
        notes.add("Outcome", message.text, message.event_ids)


def _note_words(notes: SummaryNotes, message: ModelMessage) -> None:
    if notes.wants("Decisions"):
        for sentence in reversed(clues.decisions_in(message.text)):
            notes.add("Decisions", sentence, message.event_ids)
    if notes.wants("Open"):
        for sentence in reversed(clues.open_items_in(message.text)):
            notes.add("Open", sentence, message.event_ids)
    if notes.wants("Files"):
        for path in reversed(clues.paths_in(message.text)):
            notes.add("Files", path, message.event_ids)


def _note_call(notes: SummaryNotes, call: Call) -> None:
    ids = (call.event_id,)
    if notes.wants("Files") or notes.wants_written():
        for path, is_written in reversed(clues.files_of(call)):
            notes.add("Files", path + WRITTEN if is_written else path, ids)
    if notes.wants("Commands"):
        notes.add("Commands", clues.command_of(call) or "", ids)
    tasks = clues.tasks_of(call)
    if tasks is not None:
        notes.add_tasks(*tasks, call.event_id)


def _note_questions(notes: SummaryNotes, messages: Sequence[ModelMessage]) -> None:
    """Note what was asked at the end and has no answer."""
    for message in reversed(messages):
        if not isinstance(message, UserMessage):
            if message.text:
                return
        elif message.mark is None:
            for question in reversed(clues.questions_in(message.text)):
                notes.add("Open", question, message.event_ids)
            return


def _note_first(
    notes: SummaryNotes, earlier: Sequence[str], messages: Sequence[ModelMessage]
) -> None:
    if earlier:
        notes.add_first(earlier[0])
        return
    for message in messages:
        if isinstance(message, UserMessage) and message.mark is None and message.text.strip():
            notes.add_first(message.text, message.event_ids)
            return


def _read(earlier: str) -> dict[Section, list[str]]:
    """Return the lines of an earlier summary by section, whoever wrote it."""
    found: dict[Section, list[str]] = {section: [] for section in SECTIONS}
    section: Section = "Earlier"
    for line in earlier[:EARLIER_CHARS_MAX].splitlines():
        heading = line.rstrip().removesuffix(":")
        if line.rstrip().endswith(":") and heading in LINES_MAX:
            section = heading
        elif line.startswith("- "):
            found[section].append(line[2:])
        else:
            section = "Earlier"
            found[section].extend(clues.sentences_in(line))
    return found


def _fit(lines: Sequence[SummaryLine], limit: int, count: Counter) -> Summary:
    """Return as many of ``lines`` as there is room for, the dearest first."""
    kept: list[tuple[int, SummaryLine]] = []
    headed: set[Section] = set()
    room = limit
    for place, line in _by_worth(lines):
        heading = 0 if line.section in headed else count(f"{line.section}:\n")
        cost = heading + count(f"- {line.text}\n")
        if cost > room:
            shorter = _shortened(line, room - heading, count)
            if shorter is not None and line.section != "Files":  # Half a path misleads.
                kept.append((place, shorter))
            break
        kept.append((place, line))
        headed.add(line.section)
        room -= cost
    # Tokens of a whole are not the sum of its parts', so the whole is counted at last.
    while kept and count(_text(kept)) > limit:
        kept.pop()
    return Summary(text=_text(kept), evidence=tuple(line for _, line in sorted(kept, key=_place)))


def _by_worth(lines: Sequence[SummaryLine]) -> Iterator[tuple[int, SummaryLine]]:
    """Return all lines and their places: what was wanted, then the newest of each section."""
    queues: dict[Section, list[tuple[int, SummaryLine]]] = {
        section: [] for section in _DEAREST_FIRST
    }
    for place, line in enumerate(lines):
        queues[line.section].append((place, line))
    yield from queues["Intent"][:1]
    del queues["Intent"][:1]
    for row in zip_longest(*(reversed(queue) for queue in queues.values())):
        yield from (entry for entry in row if entry is not None)


def _shortened(line: SummaryLine, room: int, count: Counter) -> SummaryLine | None:
    """Return ``line`` cut to fit into ``room``, or None if not a letter of it does."""
    fits, too_long = 0, len(line.text)
    while too_long - fits > 1:
        length = (fits + too_long) // 2
        if count(f"- {line.text[:length]}…\n") <= room:
            fits = length
        else:
            too_long = length
    return msgspec.structs.replace(line, text=cut(line.text, fits + 1)) if fits else None


def _text(kept: Iterable[tuple[int, SummaryLine]]) -> str:
    told: list[str] = []
    section: Section | None = None
    for _, line in sorted(kept, key=_place):
        if line.section != section:
            section = line.section
            told.append(f"{section}:")
        told.append(f"- {line.text}")
    return "\n".join(told)


def _place(entry: tuple[int, SummaryLine]) -> int:
    return entry[0]
