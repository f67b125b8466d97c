"""``treering recall``: what is known of something, the best first, and why."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from treering.clock import now_ms
from treering.errors import InvalidInput
from treering.memory.recall_result import RecallResult
from treering.model.memories import RECALL_DEFAULT, RECALL_MAX, TURNS_DEFAULT
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import argument, command, flag, option, session_option_that
from treering.surfaces.cli.facts.read import masked
from treering.surfaces.cli.finding import find_session, short_events, short_facts, short_sessions
from treering.surfaces.cli.ledgers import (
    asking,
    is_unknown,
    location_of,
    open_existing,
    open_to_ask,
    say_unknown,
)
from treering.surfaces.cli.output import note, painted, say, say_painted
from treering.surfaces.shared.session_commands import scope_flag, show_command
from treering.surfaces.shared.texts import Mask, counted, in_words, one_line, printable
from treering.surfaces.shared.times import clock, moment, parse_moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.memories import Fact, RecalledEpisode, RecalledFact, RecalledTurn
    from treering.model.scopes import Scope
    from treering.surfaces.cli.finding import ShortIds

TURNS_PRINTED: Final = 5
NAMED_MAX: Final = 3
"""Events that are named as evidence; the command below names all."""
_INDENT: Final = " " * 6
Cited = TypeVar("Cited", "Fact", "RecalledEpisode")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks what."""

    query: str | None
    """None asks for a brief: what matters most."""
    user: str | None
    session: str | None
    limit: int
    as_of_ms: int | None
    record: bool
    """Whether what is recalled counts as used."""
    block: bool
    max_tokens: int | None


@command(
    scope="project",
    examples="""
    treering recall where does jo live --scope acme/app --user jo
    treering recall --scope acme/app --user jo
    treering recall deploys --scope acme/app --block --max-tokens 500 --record
    """,
)
def recall(
    *,
    scope: Scope,
    words: Sequence[str] = argument(nargs=-1, metavar="[QUERY]"),
    user: str | None = option(
        "USER", "Recall for this person: their facts, and those of the scope."
    ),
    session: str | None = session_option_that(
        "Recall in this session: a group sees its own facts only."
    ),
    limit: int = option(
        "N",
        f"At most N facts, 1 to {RECALL_MAX}. Default: {RECALL_DEFAULT}.",
        type=click.IntRange(1, RECALL_MAX),
        default=RECALL_DEFAULT,
    ),
    as_of: str | None = option(
        "WHEN", "State of knowledge at this time: 3d, a date, or milliseconds."
    ),
    record: bool = flag("Count the recalled facts as used. By default nothing is recorded."),
    block: bool = flag("Print only the block for a prompt."),
    max_tokens: int | None = option(
        "N", "With --block: use at most N tokens.", type=click.IntRange(min=1)
    ),
) -> None:
    """Recall facts, turns and episodes that answer QUERY, each with score, reason and evidence.

    Without a QUERY it prints a brief for the start of a session: what matters most. By default
    nothing is recorded, so nothing counts as used. Agents pass --record: facts that are never
    used fade.
    """
    if max_tokens is not None and not block:
        raise InvalidInput("--max-tokens needs --block", hint="add --block")
    if record and as_of is not None:
        raise InvalidInput("--record and --as-of exclude each other", hint="drop --record")
    question = Question(
        query=" ".join(words).strip() or None,
        user=user,
        session=session,
        limit=limit,
        as_of_ms=parse_moment(as_of, now_ms=now_ms(), flag="--as-of"),
        record=record,
        block=block,
        max_tokens=max_tokens,
    )
    answer: RecallAnswer | None = None
    is_new = False
    with asking(partial(open_existing, "change") if record else open_to_ask) as ledger:
        if ledger is not None:
            answer = answer_to(ledger, scope, question)
            is_new = not answer.recalled.ids and is_unknown(ledger, scope)
        location = location_of(ledger)
    body = {"scope": scope, "ledger": location, **_fields(question, answer)}
    show(body, page=lambda: _print_answer(scope, question, answer, is_new=is_new))


def _fields(question: Question, answer: RecallAnswer | None) -> dict[str, Any]:
    """Return what the receipt has, beside where it was asked."""
    recalled = None if answer is None else answer.recalled
    fields: dict[str, Any] = {
        "query": question.query,
        "user": question.user,
        "session": question.session if recalled is None else recalled.session_id,
        "as_of_ms": question.as_of_ms,
        "limit": question.limit,
        "recorded": answer is not None and answer.event_id is not None,
        "event_id": None if answer is None else answer.event_id,
        "count": 0 if answer is None else len(answer.ids),
        "ids": [] if answer is None else answer.ids,
        "facts": [] if recalled is None else recalled.fact_hits,
        "episodes": [] if recalled is None else recalled.episode_hits,
        "turns": [] if recalled is None else recalled.turn_hits,
        "notes": [] if recalled is None else recalled.notes,
        "masked": 0 if answer is None else answer.masked,
    }
    if question.block:
        fields |= {
            "max_tokens": question.max_tokens,
            "block": "" if answer is None else answer.block,
        }
    return fields


def _print_answer(
    scope: Scope, question: Question, answer: RecallAnswer | None, *, is_new: bool
) -> None:
    if question.block:
        _print_block(answer)
    elif is_new:
        say_unknown(scope)
    elif answer is None or not (answer.ids or answer.recalled.turn_hits):
        print_nothing(scope, question, [] if answer is None else answer.recalled.notes)
    else:
        print_recalled(scope, question, answer)


def _print_block(answer: RecallAnswer | None) -> None:
    """Print the block for a prompt; nothing if there is none."""
    if answer is not None and answer.block:
        click.echo(answer.block)
    elif answer is not None and answer.recalled.ids:
        note("nothing fits into so few tokens: raise --max-tokens")
    else:
        note("nothing to recall for a prompt")


def print_recalled(scope: Scope, question: Question, answer: RecallAnswer) -> None:
    """Print what was recalled, and how to continue from there."""
    recalled = answer.recalled
    for fact in recalled.fact_hits:
        _print_fact(scope, fact)
    leading = [episode for episode in recalled.episode_hits if episode.leads]
    for episode in leading:
        _print_episode(scope, episode)
    for turn in recalled.turn_hits:
        _print_turn(scope, turn)
    for episode in recalled.episode_hits[len(leading) :]:
        _print_episode(scope, episode)
    parts = [
        counted(len(hits), noun)
        for hits, noun in (
            (recalled.fact_hits, "fact"),
            (recalled.turn_hits, "turn"),
            (recalled.episode_hits, "episode"),
        )
        if hits
    ]
    say(f"{in_words(parts)} of scope {scope}{_for(question)}")
    _print_notes(recalled.notes)
    if question.as_of_ms is None:
        say(
            "  counted as used"
            if answer.event_id
            else "  not counted as used: add --record if it is"
        )


def print_nothing(scope: Scope, question: Question, notes: Sequence[str]) -> None:
    """Say that nothing is known, and what may help."""
    flag = scope_flag(scope)
    about = "" if question.query is None else f" about {one_line(question.query)}"
    say(f"nothing is known{about} in scope {scope}{_for(question)}")
    if question.user is None:
        say("  facts about a person are recalled only for them: name them with --user")
    if question.session is not None:
        say("  in a group only its own facts are recalled: drop --session")
    if question.query is not None:
        say("  ask in other words, or without words for what matters most")
    say(f"  all facts: treering facts list {flag}")
    if question.query is not None:
        words = printable(one_line(question.query))
        say(f"  search everything: treering search {flag} --mode hybrid {words}")
    _print_notes(notes)


def _print_fact(scope: Scope, hit: RecalledFact) -> None:
    fact = hit.fact
    say_painted(f"{hit.score:.2f}  {painted(one_line(fact.text), bold=True)}")
    common = "of this session" if fact.session_only else "of all of the scope"
    whose = f"of {printable(fact.user)}" if fact.user else common
    about = [fact.category, whose, f"since {clock(fact.valid_from_ms)[:10]}", _why(hit.why)]
    if fact.state != "current":
        about.insert(0, fact.state)
    say_painted(painted(_INDENT + " · ".join(about), dim=True))
    if hit.path:
        led_by = ", ".join(printable(fact_id) for fact_id in hit.path)
        say_painted(painted(f"{_INDENT}reached through {led_by}", dim=True))
    say_painted(painted(_INDENT + _evidence(hit.evidence), dim=True))
    say_painted(f"{_INDENT}→ treering facts show {printable(fact.id)} {scope_flag(scope)}")
    say("")


def _print_turn(scope: Scope, hit: RecalledTurn) -> None:
    say_painted(f"{hit.score:.2f}  {painted(one_line(hit.text), bold=True)}")
    about = ["said", printable(hit.speaker), clock(hit.ts_ms)[:10], _why(hit.why)]
    say_painted(painted(_INDENT + " · ".join(about), dim=True))
    say_painted(f"{_INDENT}→ {printable(show_command(scope, hit.session_id))}")
    say("")


def _print_episode(scope: Scope, hit: RecalledEpisode) -> None:
    say_painted(f"{hit.score:.2f}  {painted(one_line(hit.summary), bold=True)}")
    about = ["episode", clock(hit.started_ms)[:10], _why(hit.why)]
    if hit.topics:
        about.insert(2, one_line(", ".join(hit.topics)))
    say_painted(painted(_INDENT + " · ".join(about), dim=True))
    say_painted(painted(_INDENT + _evidence(hit.evidence), dim=True))
    for remark in hit.notes:
        say_painted(painted(_INDENT + one_line(remark), dim=True))
    say_painted(f"{_INDENT}→ {printable(show_command(scope, hit.session_id))}")
    say("")


def _why(parts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.2f}" for name, share in parts.items() if share)


def _evidence(events: Sequence[str]) -> str:
    if not events:
        return "no evidence"
    named = ", ".join(printable(event) for event in events[:NAMED_MAX])
    more = f" and {len(events) - NAMED_MAX:,} more" if len(events) > NAMED_MAX else ""
    return f"evidence: {named}{more}"


def _for(question: Question) -> str:
    whose = "" if question.user is None else f" for {printable(question.user)}"
    when = "" if question.as_of_ms is None else f", as of {moment(question.as_of_ms)}"
    return whose + when


def _print_notes(notes: Sequence[str]) -> None:
    for text in notes:
        say(f"  {one_line(text)}")


class RecallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was recalled, its secrets masked."""

    recalled: RecallResult
    block: str | None
    ids: list[str]
    """Of what is shown: all of it, or what fits the block."""
    event_id: str | None
    """The event that counts it as used; None if it does not."""
    masked: int


def answer_to(ledger: Ledger, scope: Scope, question: Question) -> RecallAnswer:
    """Recall what answers a question, and record it if the question says so."""
    memory = ledger.memory(scope)
    session = question.session and find_session(ledger, scope, question.session)
    recalled = memory.recall(
        question.query,
        user=question.user,
        session_id=session,
        limit=question.limit,
        turns=TURNS_DEFAULT if question.block else TURNS_PRINTED,
        as_of_ms=question.as_of_ms,
        record=question.record and not question.block,
    )
    mask = Mask()
    recalled = _masked(recalled, mask)
    block, ids = recalled.block(question.max_tokens) if question.block else (None, recalled.ids)
    event_id = recalled.event_id
    if question.block and question.record and ids:
        # Only what the prompt has room for is used.
        event_id = memory.note_recalled(ids, user=question.user, session_id=session)
    if not question.block:
        recalled = _shortened(
            recalled,
            short_facts(memory),
            short_sessions(ledger, scope),
            short_events(ledger, scope),
        )
    return RecallAnswer(
        recalled=recalled, block=block, ids=ids, event_id=event_id, masked=mask.masked
    )


def _shortened(
    recalled: RecallResult, facts: ShortIds, sessions: ShortIds, events: ShortIds
) -> RecallResult:
    replace = msgspec.structs.replace

    def cited(record: Cited) -> Cited:
        return replace(record, evidence=tuple(map(events.shown, record.evidence)))

    return replace(
        recalled,
        fact_hits=[
            replace(
                hit,
                fact=cited(facts.within(hit.fact, "id")),
                path=tuple(map(facts.shown, hit.path)),
            )
            for hit in recalled.fact_hits
        ],
        episode_hits=[cited(sessions.within(hit, "session_id")) for hit in recalled.episode_hits],
        turn_hits=[
            replace(sessions.within(hit, "session_id"), event_id=events.shown(hit.event_id))
            for hit in recalled.turn_hits
        ],
    )


def _masked(recalled: RecallResult, mask: Mask) -> RecallResult:
    replace = msgspec.structs.replace
    return replace(
        recalled,
        fact_hits=[replace(hit, fact=masked(hit.fact, mask)) for hit in recalled.fact_hits],
        episode_hits=[
            replace(hit, summary=mask.text(hit.summary) or "", topics=tuple(mask.value(hit.topics)))
            for hit in recalled.episode_hits
        ],
        turn_hits=[replace(hit, text=mask.text(hit.text) or "") for hit in recalled.turn_hits],
    )
