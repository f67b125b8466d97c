"""What a stretch of messages was about: a few plain sentences, each with the events that say so.

They quote what people and the assistant said, and name the tools and files; what a tool gave is in
none of them, for nobody said it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.context import clues
from treering.context.narratives import narrative
from treering.context.notes import LINE_CHARS_MAX, SummaryLine, SummaryNotes, cut
from treering.context.prose import quotable
from treering.context.remarks import concluding, leaves_open, remark, settles, unanswered
from treering.derive.tone import Tone, tone
from treering.derive.topics import topics
from treering.model.episodes import Sentence
from treering.model.messages import AssistantMessage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.context.remarks import Remark
    from treering.model.messages import ModelMessage

ANSWERS_OPEN_MAX: Final = 2
"""What an assistant says is still to be done, it mostly does next: only its last answers count."""
OUTCOME_SENTENCES: Final = 2


class EpisodeSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What messages were about."""

    sentences: tuple[Sentence, ...]
    """The summary: at least one."""
    topics: tuple[str, ...]
    tone: Tone
    lines: tuple[SummaryLine, ...]
    """Requests, decisions, files and open items, each with its events."""
    outcome: Sentence | None
    """How it ended, as far as anybody said so."""


def tell(
    messages: Sequence[ModelMessage], speakers: Mapping[str, str], *, limit: int
) -> EpisodeSummary:
    """Return what ``messages`` were about, the summary in at most ``limit`` tokens.

    ``speakers`` names people by the events of what they said; whoever is not named is the user.
    """
    remarks = [remark(message, speakers) for message in messages]
    lines = _lines(remarks)
    texts = [" ".join(one.sentences) for one in remarks if one.sentences]
    files = [line.text.split()[0] for line in lines if line.section == "Files"]
    said = [
        (one.event_ids[0], " ".join(quotable(one.message.text)))
        for one in remarks
        if one.by_user and one.who and one.event_ids
    ]
    return EpisodeSummary(
        sentences=narrative(remarks, lines, limit=limit),
        topics=tuple(topics([*texts, *files])),
        tone=tone(said),
        lines=lines,
        outcome=_outcome(remarks),
    )


def _lines(remarks: Sequence[Remark]) -> tuple[SummaryLine, ...]:
    notes = SummaryNotes()
    answers = 0
    question = unanswered(remarks)
    if question is not None:
        notes.add("Open", question.text, question.event_ids)
    # The newest comes first: what a list of tasks said before is out of date.
    for one in reversed(remarks):
        for sentence in reversed(one.sentences):
            if settles(sentence, by_user=one.by_user):
                notes.add("Decisions", sentence, one.event_ids)
            counts = one.by_user or answers < ANSWERS_OPEN_MAX
            if counts and leaves_open(sentence, by_user=one.by_user):
                notes.add("Open", sentence, one.event_ids)
        if one.by_user and one.sentences:
            notes.add("Intent", one.request, one.event_ids)
        if isinstance(one.message, AssistantMessage):
            answers += bool(one.sentences)
            _note_calls(notes, one.message)
    first = next((one for one in remarks if one.by_user and one.sentences), None)
    if first is not None:
        notes.add_first(first.request, first.event_ids)
    return tuple(notes.lines())


def _note_calls(notes: SummaryNotes, message: AssistantMessage) -> None:
    for call, result in zip(message.calls[::-1], message.results[::-1], strict=True):
        for path, is_written in clues.files_of(call):
            if is_written and not result.is_error and _is_path(path):
                notes.add_written(path, (call.event_id,))
        tasks = clues.tasks_of(call)
        if tasks is not None:
            left, finished = map(_plain_tasks, tasks)
            notes.add_tasks(left, finished, call.event_id)


def _plain_tasks(tasks: Sequence[str]) -> list[str]:
    return [" ".join(told) for task in tasks if (told := quotable(task))]


def _is_path(text: str) -> bool:
    return len(text.split()) == 1 and ("/" in text or "." in text)


def _outcome(remarks: Sequence[Remark]) -> Sentence | None:
    """Return how it ended, in the words of an answer; or that there was none."""
    if remarks[-1].is_interrupt:
        return Sentence("It was interrupted.", remarks[-1].event_ids)
    question = unanswered(remarks)
    if question is not None:
        return Sentence(f"No answer was given to: {question.text}", question.event_ids)
    found = concluding(remarks)
    if found is None:
        return None
    answer, sentence = found
    at = answer.sentences.index(sentence)
    told = " ".join(answer.sentences[at : at + OUTCOME_SENTENCES])
    return Sentence(cut(told, LINE_CHARS_MAX), answer.event_ids)
