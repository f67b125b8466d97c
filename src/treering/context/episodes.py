"""Episode summaries: a few plain sentences about messages, each with its events.

They quote people and the assistant, and name tools and files. Tool output is never quoted, since
nobody said it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.context import text_cues
from treering.context.narratives import narrative
from treering.context.prose import quotable_sentences
from treering.context.remarks import (
    find_conclusion,
    is_decision,
    is_open_item,
    remark,
    unanswered_question,
)
from treering.context.summary_notes import LINE_CHARS_MAX, SummaryLine, SummaryNotes, cut
from treering.derive.tone import Tone, tone
from treering.derive.topics import topics
from treering.model.episodes import Sentence
from treering.model.messages import AssistantMessage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.context.remarks import Remark
    from treering.model.messages import ModelMessage

ANSWERS_OPEN_MAX: Final = 2
"""Only the last answers count for open items: an assistant mostly does next what it announces."""
OUTCOME_SENTENCES: Final = 2


class EpisodeSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What messages were about."""

    sentences: tuple[Sentence, ...]
    """The summary; at least one sentence."""
    topics: tuple[str, ...]
    tone: Tone
    lines: tuple[SummaryLine, ...]
    """Requests, decisions, files and open items, each with its events."""
    outcome: Sentence | None
    """The outcome, if somebody stated one."""


def summarise_episode(
    messages: Sequence[ModelMessage], speakers: Mapping[str, str], *, limit: int
) -> EpisodeSummary:
    """Return a summary of ``messages`` in at most ``limit`` tokens.

    ``speakers`` maps events to names of people; others are called the user.
    """
    remarks = [remark(message, speakers) for message in messages]
    lines = _lines(remarks)
    texts = [" ".join(entry.sentences) for entry in remarks if entry.sentences]
    files = [line.text.split()[0] for line in lines if line.section == "Files"]
    user_texts = [
        (entry.event_ids[0], " ".join(quotable_sentences(entry.message.text)))
        for entry in remarks
        if entry.by_user and entry.who and entry.event_ids
    ]
    return EpisodeSummary(
        sentences=narrative(remarks, lines, limit=limit),
        topics=tuple(topics([*texts, *files])),
        tone=tone(user_texts),
        lines=lines,
        outcome=_outcome(remarks),
    )


def _lines(remarks: Sequence[Remark]) -> tuple[SummaryLine, ...]:
    notes = SummaryNotes()
    answers = 0
    question = unanswered_question(remarks)
    if question is not None:
        notes.add("Open", question.text, question.event_ids)
    # Newest first: earlier states of a task list are out of date.
    for entry in reversed(remarks):
        for sentence in reversed(entry.sentences):
            if is_decision(sentence, by_user=entry.by_user):
                notes.add("Decisions", sentence, entry.event_ids)
            counts = entry.by_user or answers < ANSWERS_OPEN_MAX
            if counts and is_open_item(sentence, by_user=entry.by_user):
                notes.add("Open", sentence, entry.event_ids)
        if entry.by_user and entry.sentences:
            notes.add("Intent", entry.request, entry.event_ids)
        if isinstance(entry.message, AssistantMessage):
            answers += bool(entry.sentences)
            _note_calls(notes, entry.message)
    first = next((entry for entry in remarks if entry.by_user and entry.sentences), None)
    if first is not None:
        notes.add_first(first.request, first.event_ids)
    return tuple(notes.lines())


def _note_calls(notes: SummaryNotes, message: AssistantMessage) -> None:
    for call, result in zip(message.calls[::-1], message.results[::-1], strict=True):
        for path, is_written in text_cues.files_of(call):
            if is_written and not result.is_error and _is_path(path):
                notes.add_written(path, (call.event_id,))
        tasks = text_cues.tasks_of(call)
        if tasks is not None:
            left, finished = map(_plain_tasks, tasks)
            notes.add_tasks(left, finished, call.event_id)


def _plain_tasks(tasks: Sequence[str]) -> list[str]:
    return [" ".join(sentences) for task in tasks if (sentences := quotable_sentences(task))]


def _is_path(text: str) -> bool:
    return len(text.split()) == 1 and ("/" in text or "." in text)


def _outcome(remarks: Sequence[Remark]) -> Sentence | None:
    """Return the outcome in the words of an answer, or that there was none."""
    if remarks[-1].is_interrupt:
        return Sentence("It was interrupted.", remarks[-1].event_ids)
    question = unanswered_question(remarks)
    if question is not None:
        return Sentence(f"No answer was given to: {question.text}", question.event_ids)
    conclusion = find_conclusion(remarks)
    if conclusion is None:
        return None
    answer, sentence = conclusion
    at = answer.sentences.index(sentence)
    text = " ".join(answer.sentences[at : at + OUTCOME_SENTENCES])
    return Sentence(cut(text, LINE_CHARS_MAX), answer.event_ids)
