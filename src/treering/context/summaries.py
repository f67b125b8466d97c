"""Summarises messages that leave the context, by structure and without a model.

It quotes and never rephrases. A summary can be the beginning of the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

import msgspec

from treering.context import text_cues
from treering.context.summary_notes import (
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
"""Summarises messages, after the summary of everything before, in about the given tokens."""

_BY_VALUE: Final[tuple[Section, ...]] = (
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
    """The lines of the text except headings, in order."""


def summarise(
    messages: Sequence[ModelMessage],
    *,
    earlier: str | None = None,
    limit: int,
    count: Counter = estimate,
) -> Summary:
    """Return a summary of ``messages``, after ``earlier``, in at most ``limit`` tokens.

    ``count`` defines a token; ``len`` counts characters. The text is empty if nothing fits.
    """
    notes = SummaryNotes()
    _note_questions(notes, messages)
    # Newest first: a full section needs no further search.
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            _note_request(notes, message)
        else:
            _note_answer(notes, message)
    sections = _read(earlier or "")
    if not notes.wants("Outcome"):
        sections["Open"] = [text for text in sections["Open"] if not text_cues.questions_in(text)]
    for section, texts in sections.items():
        for text in reversed(texts):
            notes.add(section, text)
    _note_first(notes, sections["Intent"], messages)
    return _fit(notes.lines(), limit, count)


def _note_request(notes: SummaryNotes, message: UserMessage) -> None:
    if message.mark is None:
        _note_words(notes, message)
        if notes.wants("Decisions"):
            for sentence in reversed(text_cues.requirements_in(message.text)):
                notes.add("Decisions", sentence, message.event_ids)
        if notes.wants("Intent"):
            notes.add("Intent", message.text, message.event_ids)


def _note_answer(notes: SummaryNotes, message: AssistantMessage) -> None:
    for result in reversed(message.results):
        error = text_cues.error_in(result) if notes.wants("Errors") else None
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
        for sentence in reversed(text_cues.decisions_in(message.text)):
            notes.add("Decisions", sentence, message.event_ids)
    if notes.wants("Open"):
        for sentence in reversed(text_cues.open_items_in(message.text)):
            notes.add("Open", sentence, message.event_ids)
    if notes.wants("Files"):
        for path in reversed(text_cues.paths_in(message.text)):
            notes.add("Files", path, message.event_ids)


def _note_call(notes: SummaryNotes, call: Call) -> None:
    ids = (call.event_id,)
    if notes.wants("Files") or notes.wants_written():
        for path, is_written in reversed(text_cues.files_of(call)):
            notes.add("Files", path + WRITTEN if is_written else path, ids)
    if notes.wants("Commands"):
        notes.add("Commands", text_cues.command_of(call) or "", ids)
    tasks = text_cues.tasks_of(call)
    if tasks is not None:
        notes.add_tasks(*tasks, call.event_id)


def _note_questions(notes: SummaryNotes, messages: Sequence[ModelMessage]) -> None:
    """Add the last questions that have no answer."""
    for message in reversed(messages):
        if not isinstance(message, UserMessage):
            if message.text:
                return
        elif message.mark is None:
            for question in reversed(text_cues.questions_in(message.text)):
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
    """Return the lines of an earlier summary by section; it may be anybody's."""
    sections: dict[Section, list[str]] = {section: [] for section in SECTIONS}
    section: Section = "Earlier"
    for line in earlier[:EARLIER_CHARS_MAX].splitlines():
        heading = line.rstrip().removesuffix(":")
        if line.rstrip().endswith(":") and heading in LINES_MAX:
            section = heading
        elif line.startswith("- "):
            sections[section].append(line[2:])
        else:
            section = "Earlier"
            sections[section].extend(text_cues.sentences_in(line))
    return sections


def _fit(lines: Sequence[SummaryLine], limit: int, count: Counter) -> Summary:
    """Return as many of ``lines`` as fit, most valuable first."""
    chosen: list[tuple[int, SummaryLine]] = []
    headed: set[Section] = set()
    room = limit
    for index, line in _by_value(lines):
        heading = 0 if line.section in headed else count(f"{line.section}:\n")
        cost = heading + count(f"- {line.text}\n")
        if cost > room:
            shorter = _shortened(line, room - heading, count)
            if shorter is not None and line.section != "Files":  # Half a path misleads.
                chosen.append((index, shorter))
            break
        chosen.append((index, line))
        headed.add(line.section)
        room -= cost
    # The tokens of a text are not the sum of its parts', so count the whole at the end.
    while chosen and count(_text(chosen)) > limit:
        chosen.pop()
    return Summary(
        text=_text(chosen), evidence=tuple(line for _, line in sorted(chosen, key=_place))
    )


def _by_value(lines: Sequence[SummaryLine]) -> Iterator[tuple[int, SummaryLine]]:
    """Yield all lines with their indexes: the first request, then the newest of each section."""
    queues: dict[Section, list[tuple[int, SummaryLine]]] = {section: [] for section in _BY_VALUE}
    for index, line in enumerate(lines):
        queues[line.section].append((index, line))
    yield from queues["Intent"][:1]
    del queues["Intent"][:1]
    for row in zip_longest(*(reversed(queue) for queue in queues.values())):
        yield from (entry for entry in row if entry is not None)


def _shortened(line: SummaryLine, room: int, count: Counter) -> SummaryLine | None:
    """Return ``line`` cut to ``room``, or None if nothing fits."""
    fits, too_long = 0, len(line.text)
    while too_long - fits > 1:
        length = (fits + too_long) // 2
        if count(f"- {line.text[:length]}…\n") <= room:
            fits = length
        else:
            too_long = length
    return msgspec.structs.replace(line, text=cut(line.text, fits + 1)) if fits else None


def _text(kept: Iterable[tuple[int, SummaryLine]]) -> str:
    lines: list[str] = []
    section: Section | None = None
    for _, line in sorted(kept, key=_place):
        if line.section != section:
            section = line.section
            lines.append(f"{section}:")
        lines.append(f"- {line.text}")
    return "\n".join(lines)


def _place(entry: tuple[int, SummaryLine]) -> int:
    return entry[0]
