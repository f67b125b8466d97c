"""Narratives: what was wanted, done and decided and how it ended, in at most four sentences.

They quote and never rephrase. Each sentence has its events.

They quote people and the assistant, and name tools and files. Tool output is never quoted, since
nobody said it. The tone of messages is read from words that express it literally: technical terms
such as error or bug are not feelings, and one word among many messages is not a tone.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from treering.context import text_cues
from treering.context.citations import sentences_within, text_of
from treering.context.remarks import (
    USER,
    find_conclusion,
    is_decision,
    is_open_item,
    is_request,
    quotable_sentences,
    remark,
    unanswered_question,
)
from treering.context.summaries import EVENT_IDS_MAX, LINE_CHARS_MAX, SummaryLine, SummaryNotes, cut
from treering.context.texts import UNNAMED
from treering.context.tokens import estimate
from treering.lazy import lazy_pattern
from treering.model.memories import Mood, Sentence
from treering.model.messages import AssistantMessage, ModelMessage
from treering.rules.terms import terms
from treering.rules.topics import topics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.context.remarks import Remark
    from treering.context.summaries import Section

QUOTE_CHARS: Final = (180, 100, 50, 24)
"""Maximum lengths of quotations; shorter ones are tried if they do not fit."""
QUOTES_MAX: Final = 2
"""Decisions, open items and later requests that are quoted, each."""
TOOLS_MAX: Final = 4
FILES_MAX: Final = 4
NAME_CHARS_MAX: Final = 60
PATH_CHARS_MAX: Final = 40

_BLANKS: Final = re.compile(r"\s+")
_INNER_QUOTES: Final = str.maketrans("“”", "‘’")  # noqa: RUF001  (quotes within quotes)
_ENDINGS: Final = " .。:;,"


def narrative(
    remarks: Sequence[Remark], lines: Sequence[SummaryLine], *, limit: int
) -> tuple[Sentence, ...]:
    """Return the summary of ``remarks`` in at most ``limit`` tokens; at least one sentence."""
    sentences: tuple[Sentence, ...] = ()
    for chars in QUOTE_CHARS:
        sentences = _sentences(remarks, lines, chars)
        if estimate(text_of(sentences)) <= limit:
            return sentences
    return sentences_within(sentences, limit) or (_counted(remarks),)


def _sentences(
    remarks: Sequence[Remark], lines: Sequence[SummaryLine], chars: int
) -> tuple[Sentence, ...]:
    used: set[str] = set()
    sentences = (
        _wanted(remarks, chars, used),
        _done(remarks, lines),
        _quoted("Decided:", "Decisions", lines, chars, used),
        _ended(remarks, lines, chars, used),
    )
    return tuple(sentence for sentence in sentences if sentence is not None) or (_counted(remarks),)


def _wanted(remarks: Sequence[Remark], chars: int, used: set[str]) -> Sentence | None:
    requests = [remark for remark in remarks if remark.by_user and remark.sentences]
    if not requests:
        return None
    first, *others = requests
    opening, request = first.opening, first.request
    used.update((opening, request))
    text = f"{first.who} {'asked' if is_request(opening) else 'said'} {_quote(opening, chars)}"
    if request != opening and is_request(request):
        text += f" and asked {_quote(request, chars)}"
    ids = [*first.event_ids]
    later = []
    for other, sentence in _weightiest(others, f"{opening} {request}"):
        used.add(sentence)
        name = "" if other.who == USER else f"{other.who}: "
        later.append(f"{name}{_quote(sentence, chars)}")
        ids += other.event_ids
    if later:
        text += f"; later {_listed(later)}"
    return Sentence(f"{text}.", tuple(dict.fromkeys(ids)))


def _weightiest(others: Sequence[Remark], covered: str) -> list[tuple[Remark, str]]:
    """Return the later sentences that add most, in order.

    Decisions and open items have sentences of their own.
    """
    candidates = [
        (remark, sentence, frozenset(terms(sentence[:LINE_CHARS_MAX])))
        for remark in others
        for sentence in remark.sentences
        if not is_decision(sentence, by_user=True) and not is_open_item(sentence, by_user=True)
    ]
    known_terms = frozenset(terms(covered[: 2 * LINE_CHARS_MAX]))
    chosen: list[int] = []
    while candidates and len(chosen) < QUOTES_MAX:
        gain, negative_index = max(
            (len(candidate_terms - known_terms), -at)
            for at, (_, _, candidate_terms) in enumerate(candidates)
        )
        if not gain:
            break
        chosen.append(-negative_index)
        known_terms |= candidates[-negative_index][2]
    return [candidates[at][:2] for at in sorted(chosen)]


def _done(remarks: Sequence[Remark], lines: Sequence[SummaryLine]) -> Sentence | None:
    """Return which tools were used, how often, and which files they wrote."""
    answers = [remark.message for remark in remarks if isinstance(remark.message, AssistantMessage)]
    calls = [call for answer in answers for call in answer.calls]
    if not calls:
        return None
    used = Counter(_name(call.tool) for call in calls)
    errors = [result for answer in answers for result in answer.results if result.is_error]
    failed = Counter(_name(result.tool) for result in errors)
    tools = [_times(tool, count, failed[tool]) for tool, count in used.most_common()]
    written = [line for line in lines if line.section == "Files"]
    text = f"The assistant used {_listed(_few(tools, TOOLS_MAX))}"
    if written:
        files = [_file(_BLANKS.split(line.text)[0]) for line in written]
        text += f", and changed {_listed(_few(files, FILES_MAX))}"
    ids = [result.event_id for result in errors[-1:] if result.event_id]
    ids += [event_id for line in written[:FILES_MAX] for event_id in line.event_ids[-1:]]
    ids += [call.event_id for call in calls]
    return Sentence(f"{text}.", tuple(dict.fromkeys(ids))[:EVENT_IDS_MAX])


def _times(tool: str, count: int, failed: int) -> str:
    times = [] if count == 1 else [f"{count} times"]
    if failed:
        times.append("failed" if count == 1 else f"{failed} failed")
    return f"{tool} ({', '.join(times)})" if times else tool


def _quoted(
    intro: str, section: Section, lines: Sequence[SummaryLine], chars: int, used: set[str]
) -> Sentence | None:
    """Return the latest lines of a section that were not quoted yet."""
    fresh = [line for line in lines if line.section == section and line.text not in used]
    if not fresh:
        return None
    latest = fresh[-QUOTES_MAX:]
    used.update(line.text for line in latest)
    ids = dict.fromkeys(event_id for line in latest for event_id in line.event_ids)
    quotes = _listed([_quote(line.text, chars) for line in latest])
    return Sentence(f"{intro} {quotes}.", tuple(ids)[:EVENT_IDS_MAX])


def _ended(
    remarks: Sequence[Remark], lines: Sequence[SummaryLine], chars: int, used: set[str]
) -> Sentence | None:
    """Return how it ended, and what was left open."""
    end, ids = _last_words(remarks, chars, used)
    left = _quoted("still open:", "Open", lines, chars, used)
    if left is None:
        return Sentence(f"{end}.", ids) if end else None
    if not end:
        return Sentence(f"S{left.text[1:]}", left.event_ids)
    both = tuple(dict.fromkeys((*ids, *left.event_ids)))[:EVENT_IDS_MAX]
    return Sentence(f"{end}; {left.text}", both)


def _last_words(
    remarks: Sequence[Remark], chars: int, used: set[str]
) -> tuple[str, tuple[str, ...]]:
    if remarks[-1].is_interrupt:
        return "It was interrupted", remarks[-1].event_ids
    question = unanswered_question(remarks)
    if question is not None:
        question_text = "" if question.text in used else f" to {_quote(question.text, chars)}"
        used.add(question.text)
        return f"No answer was given{question_text}", question.event_ids
    conclusion = find_conclusion(remarks)
    if conclusion is None or conclusion[1] in used:
        return "", ()
    answer, sentence = conclusion
    used.add(sentence)
    intro = "It came to" if answer.conclusion else "It ended with"
    return f"{intro} {_quote(sentence, chars)}", answer.event_ids


def _counted(remarks: Sequence[Remark]) -> Sentence:
    """Return a sentence for messages without quotable text."""
    noun = "message" if len(remarks) == 1 else "messages"
    ids = tuple(event_id for remark in remarks[:EVENT_IDS_MAX] for event_id in remark.event_ids)
    return Sentence(f"{len(remarks)} {noun} without words to quote.", ids)


def _quote(text: str, chars: int) -> str:
    return f"“{cut(text.translate(_INNER_QUOTES).rstrip(_ENDINGS), chars)}”"


def _name(text: str) -> str:
    """Return the name of a tool or file as one word that does not end a sentence."""
    return cut(_BLANKS.sub("_", text.strip()).rstrip(".!?"), NAME_CHARS_MAX) or UNNAMED


def _file(path: str) -> str:
    """Return the end of a long path."""
    short = path if len(path) <= PATH_CHARS_MAX else "…/" + "/".join(path.split("/")[-2:])
    return _name(short)


def _few(names: Sequence[str], most: int) -> list[str]:
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return [*names[:most], *more]


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


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


SHARE_MIN: Final = 0.1
"""The share of messages that must show a tone."""
FEW_MESSAGES: Final = 3
"""Among this few messages one is enough; among more, two are needed."""
TEXT_CHARS_MAX: Final = 4_096
"""Characters of a message that are read."""

_NEGATED: Final = lazy_pattern(
    r"(?:\b(?:not|never|no|hardly|would|could|should|if)|n't|'d)\b[^.,;!?]{0,16}$"
)
"""Negates or only wishes for the next word: ``not happy``, ``would be great``."""
_APOSTROPHES: Final = str.maketrans("\u2019\u2018", "''")
_WORDS: Final[dict[Mood, re.Pattern[str]]] = {
    "grateful": lazy_pattern(
        r"\b(?:thank(?:s| you)|thx|appreciate(?:d)?|grateful|much obliged|you'?re the best"
        r"|life ?saver|danke|merci|gracias|obrigad[oa]|grazie)\b"
    ),
    "positive": lazy_pattern(
        r"\b(?:love(?:d|ly)?|great|perfect(?:ly)?|awesome|amazing|fantastic|wonderful|excellent"
        r"|brilliant|delighted|happy|glad|excited|thrilled|yay|hooray|beautiful|so good|well done"
        r"|works now|good news|proud|relieved|fun|haha|super)\b|[\U0001f600-\U0001f60e❤🎉👍]"
    ),
    "negative": lazy_pattern(
        r"\b(?:sad|unhappy|worried|anxious|afraid|scared|lonely|depressed|upset|heartbroken"
        r"|disappoint(?:ed|ing)|terrible|awful|horrible|miserable|stressed|overwhelmed|exhausted"
        r"|hate|bad news|grief|miss (?:him|her|them)|passed away|crying)\b|[😞-😢😭💔]"
    ),
    "frustrated": lazy_pattern(
        r"\b(?:frustrat(?:ed|ing)|annoy(?:ed|ing)|ridiculous|useless|fed up|wtf|argh+|ugh+|ffs"
        r"|damn|for the (?:third|fourth|fifth|tenth|hundredth) time|how many times|sick of"
        r"|waste of time|wasted (?:hours|days|the whole)|drives me (?:mad|crazy|nuts)|angry"
        r"|(?:yet )?again and again|still (?:broken|does(?:n't| not) work|not working|wrong)"
        r"|stop (?:doing|ignoring|changing))\b|!{3,}|\?!"
    ),
}


class Tone(msgspec.Struct, frozen=True, kw_only=True):
    """The tone of messages, and the events that show it."""

    mood: Mood
    event_ids: tuple[str, ...] = ()


def tone(said: Sequence[tuple[str, str]]) -> Tone:
    """Return the tone of messages, given as pairs of event id and text, in order.

    It is neutral if too few words show one, and mixed if good and bad ones balance.
    """
    shown: dict[Mood, list[str]] = {mood: [] for mood in _WORDS}
    for event_id, text in said:
        for found_mood in moods_in(text):
            shown[found_mood].append(event_id)
    good = _together(shown["grateful"], shown["positive"])
    bad = _together(shown["negative"], shown["frustrated"])
    if len({*good, *bad}) < (1 if len(said) <= FEW_MESSAGES else max(2, SHARE_MIN * len(said))):
        return Tone(mood="neutral")
    if min(len(good), len(bad)) * 2 >= max(len(good), len(bad)):
        mixed = {*good, *bad}
        ids = list(dict.fromkeys(event_id for event_id, _ in said if event_id in mixed))
        return Tone(mood="mixed", event_ids=tuple(ids[-EVENT_IDS_MAX:]))
    if len(good) > len(bad):
        mood: Mood = "grateful" if len(shown["grateful"]) >= len(shown["positive"]) else "positive"
        return Tone(mood=mood, event_ids=tuple(good[-EVENT_IDS_MAX:]))
    mood = "frustrated" if len(shown["frustrated"]) >= len(shown["negative"]) else "negative"
    return Tone(mood=mood, event_ids=tuple(bad[-EVENT_IDS_MAX:]))


def moods_in(text: str) -> set[Mood]:
    """Return the moods that the words of one message show."""
    lowered = text[:TEXT_CHARS_MAX].lower().translate(_APOSTROPHES)
    return {mood for mood, words in _WORDS.items() if _shows(lowered, words)}


def _shows(text: str, words: re.Pattern[str]) -> bool:
    return any(
        not _NEGATED.search(text[max(match.start() - 24, 0) : match.start()])
        for match in words.finditer(text)
    )


def _together(one: Sequence[str], other: Sequence[str]) -> list[str]:
    return list(dict.fromkeys((*one, *other)))
