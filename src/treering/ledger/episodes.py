"""Episodes: a part of a session summed up once, with the events that say so."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.context.citations import cite, text_of
from treering.context.narratives import EpisodeSummary, summarise_episode
from treering.context.pairing import pair
from treering.errors import Conflict
from treering.ledger.guarded_append import (
    LOOKS_MAX,
    PAGE,
    append_text,
    append_text_later,
    read_position,
)
from treering.ledger.lineage import NO_END, Lineage
from treering.ledger.outlines import FIRST_EVENTS
from treering.ledger.people import talking
from treering.ledger.windows import read_window
from treering.model.codec import canonical
from treering.model.events import REDACTED, Event, Header, NewEvent
from treering.model.kinds import IMPORTED
from treering.model.memories import EPISODE, Sentence
from treering.model.messages import AssistantMessage, ModelMessage
from treering.model.parts import UsageReported
from treering.spine.run_events import make_event
from treering.spine.words import describe, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.context.summaries import Summariser
    from treering.ledger.guarded_append import Append
    from treering.model.tools import SyntheticPolicy

EPISODE_TOKENS_MAX: Final = 600
KEPT_TOKENS_MAX: Final = 2 * EPISODE_TOKENS_MAX
"""So much of a summariser's text is kept: it counts tokens in its own way."""
EVENTS_MAX: Final = 20_000
"""Events that one episode looks at, the latest ones."""
ASKS_MAX: Final = 3
"""How often a summariser is asked for one episode, if what it used is undone or erased."""
NAMES: Final = ("sender", "author", "name", "from")
"""Where a message of a group may say who speaks."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a stretch, and who wrote it."""

    sentences: tuple[Sentence, ...]
    by: str
    notes: tuple[str, ...] = ()
    """What could not be traced to what was said, or was left out."""
    failure: dict[str, str] | None = None
    """Why a summariser was not heard, if it failed."""
    usage: UsageReported | None = None
    """What a summariser says that it used."""


def episode(
    lineage: Lineage,
    policy: SyntheticPolicy,
    template: NewEvent,
    *,
    user: str | None,
    in_group: bool = False,
    walled: bool = False,
    summariser: Summariser | None = None,
) -> list[NewEvent]:
    """Return the events of an episode of what was said since the last one; none if nothing was.

    ``summariser`` writes the summary; the built-in one needs no model. What it used is reported
    first, if it says so.
    """
    last = lineage.committed_before(NO_END, kinds={EPISODE}, limit=1)
    # What a fork shares belongs to the episodes of the session that it was said in.
    own_seq = lineage.own_after_seq()
    covered_seq = max(_through(last[0]) if last else 0, own_seq)
    window = read_window(
        lineage, tokens=None, events=EVENTS_MAX, after_seq=covered_seq, past="whole"
    )
    events = [*window.lead, *window.events]
    paired, _ = pair(events, policy)
    messages = [_without_outputs(message) for message in paired if message.text != REDACTED]
    if not messages:
        return []
    telling = summarise_episode(
        messages, _speakers(events) if in_group else {}, limit=EPISODE_TOKENS_MAX
    )
    account = _account(messages, telling, summariser)
    person = user or talking(events)
    opened = lineage.after(Header, own_seq, FIRST_EVENTS)
    payload = {
        "user": None if in_group else person,
        "walled": walled,
        "session_started_ms": opened[0].ts_ms if opened else events[0].ts_ms,
        "started_ms": events[0].ts_ms,
        "ended_ms": events[-1].ts_ms,
        **_content(telling, account),
        "duration_minutes": round(max(events[-1].ts_ms - events[0].ts_ms, 0) / 60_000, 2),
        "message_count": len(messages),
        "from_seq": events[0].seq,
        "through_seq": events[-1].seq,
    }
    noun = "message" if len(messages) == 1 else "messages"
    written = make_event(
        template,
        EPISODE,
        f"episode of {len(messages)} {noun}",
        payload=payload,
        refs={"from_seq": events[0].seq, "through_seq": events[-1].seq},
    )
    if any(header.kind == IMPORTED for header in opened):
        # Whenever it is written, it belongs to the days of its log.
        written = msgspec.structs.replace(written, ts_ms=events[-1].ts_ms)
    return [written] if account.usage is None else [_reported(template, account.usage), written]


def append_episode(
    lineage: Lineage,
    write: Callable[[int], list[NewEvent]],
    *,
    expected_seq: int | None,
    append: Append,
    redact: Callable[[str], object],
) -> Header | None:
    """Record the episode that ``write`` makes; None if it makes none.

    ``write`` is called again, with the number of the attempt, whenever some of what it used was
    undone, erased or covered by another episode meanwhile. Raises Conflict if that does not end,
    or if the session is not at ``expected_seq``.
    """
    for look in range(LOOKS_MAX):
        read = read_position(lineage)
        entries = write(look)
        if not entries:
            return None
        if expected_seq is not None:
            at = msgspec.structs.replace(read, seq=expected_seq)
            header = append_text(lineage, entries, at, append=append, redact=redact)
        else:
            header = None
            with contextlib.suppress(_CoveredMeanwhileError):
                guarded = _unless_covered(lineage, read.seq, append)
                header = append_text_later(lineage, entries, read, append=guarded, redact=redact)
        if header is not None:
            return header
    raise Conflict(
        "the session was undone, erased or summarised again and again",
        current_seq=lineage.head_seq(),
        hint="try again later",
    )


def close_with_episode(
    lineage: Lineage,
    write: Callable[[], list[NewEvent]],
    closing: NewEvent,
    *,
    expected_seq: int | None,
    append: Append,
    redact: Callable[[str], object],
    check: Callable[[], None],
) -> tuple[Header, bool]:
    """Record the episode that ``write`` makes and that the session is closed: both, or neither.

    Return the closing, and whether the episode was kept: it is erased if some of what it used was
    erased meanwhile. Raises Conflict if the session is not at ``expected_seq``, or if others write
    to it again and again.
    """
    for look in range(LOOKS_MAX):
        read = read_position(lineage)
        check()
        entries = write()
        if lineage.erased_since(read.ancestors):
            continue
        try:
            headers = append(
                [*entries, closing], read.seq if expected_seq is None else expected_seq
            )
        except Conflict:
            if expected_seq is not None or look == LOOKS_MAX - 1:
                raise
            continue
        written = next((header for header in headers if header.kind == EPISODE), None)
        is_kept = written is None or not lineage.erased_since(read.ancestors)
        if written is not None and not is_kept:
            # The erasure may have looked for summaries before this one was there.
            redact(written.event_id)
        return headers[-1], is_kept
    raise Conflict(
        "the past that the session shares was erased again and again",
        current_seq=lineage.head_seq(),
        hint="try again later",
    )


class _CoveredMeanwhileError(ValueError):
    """Somebody else has written an episode of the same stretch."""


def _unless_covered(lineage: Lineage, read_seq: int, append: Append) -> Append:
    """Return an append after what others said since ``read_seq``, unless that is an episode."""

    def guarded(entries: Sequence[NewEvent], seq: int) -> list[Header]:
        after = read_seq
        while after < seq and (page := lineage.after(Header, after, PAGE)):
            if any(header.kind == EPISODE for header in page):
                raise _CoveredMeanwhileError
            after = page[-1].seq
        return append(entries, seq)

    return guarded


def _account(
    messages: Sequence[ModelMessage], telling: EpisodeSummary, summariser: Summariser | None
) -> Account:
    """Return the summary that the summariser writes; by structure, if there is none or it fails."""
    if summariser is None:
        return Account(sentences=telling.sentences, by="structure")
    failure: dict[str, str]
    try:
        name = shorten(str(getattr(summariser, "name", None) or "model"))
        text = summariser(messages, None, EPISODE_TOKENS_MAX)
        if isinstance(text, str) and text.strip():
            canonical([name, text], "the summary")
            cited = cite(text, messages, limit=KEPT_TOKENS_MAX)
            if cited.says_something:
                return Account(
                    sentences=cited.sentences, by=name, notes=cited.notes, usage=_usage(summariser)
                )
            failure = {
                "class": "ValueError",
                "message": "; ".join(cited.notes) or "it says nothing",
            }
        else:
            failure = {"class": "ValueError", "message": "the summariser gave no text"}
    except Exception as error:  # noqa: BLE001 - an episode needs no model, and none may stop it.
        failure = describe(error)
    return Account(
        sentences=telling.sentences, by="structure", failure=failure, usage=_usage(summariser)
    )


def _usage(summariser: Summariser) -> UsageReported | None:
    usage = getattr(summariser, "usage", None)
    return usage if isinstance(usage, UsageReported) else None


def _reported(template: NewEvent, usage: UsageReported) -> NewEvent:
    refs = usage.as_refs()
    return make_event(template, "usage.reported", "usage reported", payload=refs, refs=refs)


def _content(telling: EpisodeSummary, account: Account) -> dict[str, Any]:
    """Return what an episode says, and each line of it with its events."""
    lines = [("Summary", sentence.text, sentence.event_ids) for sentence in account.sentences]
    lines += [(line.section, line.text, line.event_ids) for line in telling.lines]
    outcome = telling.outcome
    if outcome is not None:
        lines.append(("Outcome", outcome.text, outcome.event_ids))
    if telling.tone.event_ids:
        lines.append(("Tone", telling.tone.mood, telling.tone.event_ids))
    content: dict[str, Any] = {
        "summary": text_of(account.sentences),
        "by": account.by,
        "topics": list(telling.topics),
        "tone": telling.tone.mood,
        "key_decisions": [line.text for line in telling.lines if line.section == "Decisions"],
        "action_items": [line.text for line in telling.lines if line.section == "Open"],
        "outcome": outcome.text if outcome is not None else "",
        "evidence": [
            {"section": section, "text": text, "event_ids": list(ids)}
            for section, text, ids in lines
        ],
    }
    if account.notes:
        content["notes"] = list(account.notes)
    return content if account.failure is None else content | {"failure": account.failure}


def _without_outputs(message: ModelMessage) -> ModelMessage:
    """Return a message without what tools gave: no person said it, and it may give orders."""
    if not isinstance(message, AssistantMessage) or not message.results:
        return message
    results = tuple(
        msgspec.structs.replace(result, output="failed" if result.is_error else "ok")
        for result in message.results
    )
    return msgspec.structs.replace(message, results=results)


def _speakers(events: Sequence[Event]) -> dict[str, str]:
    """Return who said what in a group, by event, where that is known."""
    names = {}
    for event in events:
        if event.kind == "conversation.user":
            payload = event.payload if isinstance(event.payload, dict) else {}
            named = [payload.get(name) for name in NAMES] + [event.user_id, "Someone"]
            names[event.event_id] = shorten(next(n for n in named if isinstance(n, str) and n), 60)
    return names


def _through(event: Event) -> int:
    through = event.refs.get("through_seq") if isinstance(event.refs, dict) else None
    return through if type(through) is int else 0
