"""Summarises messages that leave the context, by structure and without a model.

It quotes and never rephrases. A summary can be the beginning of the next one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final, Literal, get_args

import msgspec

from treering.context import text_cues
from treering.context.tokens import Counter, estimate
from treering.model.messages import AssistantMessage, Call, ModelMessage, UserMessage

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


Section = Literal[
    "Earlier", "Intent", "Decisions", "Files", "Commands", "Errors", "Open", "Outcome"
]
"""What a line is about. Earlier: lines of somebody else's summary."""
SECTIONS: Final[tuple[Section, ...]] = get_args(Section)

LINE_CHARS_MAX: Final = 360
LINES_MAX: Final[dict[Section, int]] = {
    "Earlier": 24,
    "Intent": 4,
    "Decisions": 12,
    "Files": 24,
    "Commands": 10,
    "Errors": 8,
    "Open": 8,
    "Outcome": 1,
}
EVENT_IDS_MAX: Final = 8
"""The latest events cited for one line."""

WRITTEN: Final = " (written)"
"""Follows the name of a written file."""

_BULLETS: Final = re.compile(r"^(?:[-*•]\s+(?:\[ \]\s+)?)+")
_READ_CHARS: Final = 4 * LINE_CHARS_MAX


class SummaryLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a summary, and its events."""

    section: Section
    text: str
    event_ids: tuple[str, ...] = ()
    """Empty if the line comes from an earlier summary."""


class SummaryNotes:
    """Lines by section, collected newest first, without duplicates, up to a limit per section."""

    def __init__(self) -> None:
        self._lines: dict[Section, dict[str, list[str]]] = {section: {} for section in SECTIONS}
        self._written: dict[str, list[str]] = {}
        self._finished: set[str] | None = None

    def wants(self, section: Section) -> bool:
        """Return whether ``section`` has room."""
        return len(self._lines[section]) < LINES_MAX[section]

    def wants_written(self) -> bool:
        """Return whether there is room for written files."""
        return len(self._written) < LINES_MAX["Files"]

    def add(self, section: Section, text: str, event_ids: Sequence[str] = ()) -> None:
        """Add ``text`` unless it is empty."""
        if section == "Files" and text.endswith(WRITTEN):
            self.add_written(text.removesuffix(WRITTEN), event_ids)
        elif not (section == "Open" and self._finished and one_line(text) in self._finished):
            _add_line(self._lines[section], text, event_ids, lines_max=LINES_MAX[section])

    def add_written(self, path: str, event_ids: Sequence[str]) -> None:
        """Add a written file."""
        _add_line(self._written, path, event_ids, lines_max=LINES_MAX["Files"])

    def add_first(self, text: str, event_ids: Sequence[str] = ()) -> None:
        """Add the first request, which always has room: it states the purpose."""
        _add_line(self._lines["Intent"], text, event_ids, lines_max=LINES_MAX["Intent"] + 1)

    def add_tasks(self, tasks: Sequence[str], finished: Sequence[str], event_id: str) -> None:
        """Add the open tasks of a list; earlier lists are out of date."""
        if self._finished is None:
            for task in reversed(tasks):
                self.add("Open", task, (event_id,))
            self._finished = set(map(one_line, finished))

    def lines(self) -> list[SummaryLine]:
        """Return all lines by section, oldest first; written files come last."""
        files = self._lines["Files"]
        named = {path.rpartition("/")[2] for path in (*files, *self._written) if "/" in path}
        written = {f"{path}{WRITTEN}": ids for path, ids in self._written.items()}
        read = {
            path: ids
            for path, ids in files.items()
            if path not in self._written and path not in named
        }
        sections = self._lines | {
            "Files": dict([*written.items(), *read.items()][: LINES_MAX["Files"]])
        }
        return [
            SummaryLine(section=section, text=text, event_ids=tuple(reversed(ids)))
            for section in SECTIONS
            for text, ids in reversed(sections[section].items())
        ]


def _add_line(
    lines: dict[str, list[str]], text: str, event_ids: Sequence[str], *, lines_max: int
) -> None:
    line = one_line(text)
    if line and (line in lines or len(lines) < lines_max):
        ids = lines.setdefault(line, [])
        ids.extend(
            event_id
            for event_id in reversed(event_ids)
            if event_id not in ids and len(ids) < EVENT_IDS_MAX
        )


def one_line(text: str) -> str:
    """Return the beginning of ``text`` as one line, without a bullet."""
    # Read more than is kept, since blanks are removed, but not all: it may be a megabyte.
    start = text.lstrip()[:_READ_CHARS]
    line = single_line(start)
    return cut(f"{line}…" if len(start) == _READ_CHARS else line, LINE_CHARS_MAX)


def single_line(text: str) -> str:
    """Return all of ``text`` as one line, without a bullet."""
    return " ".join(_BULLETS.sub("", text.lstrip()).split())


def cut(text: str, chars_max: int) -> str:
    """Return ``text`` in ``chars_max`` characters, if possible up to the end of a word."""
    if len(text) <= chars_max:
        return text
    head = text[: chars_max - 1]
    blank = head.rfind(" ", chars_max // 2)
    return f"{head[:blank] if blank > 0 else head}…"
