"""What was recalled, as people read it: facts, then episodes, each with why and its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.surfaces.cli.output import counted, one_line, painted, printable, say, say_painted
from treering.surfaces.cli.search_commands import scope_flag, show_command
from treering.surfaces.cli.times import clock, moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treering.model.memories import RecalledEpisode, RecalledFact
    from treering.model.scopes import Scope
    from treering.surfaces.cli.recall import Question
    from treering.surfaces.cli.recall_answers import RecallAnswer

NAMED_MAX: Final = 3
"""Events that are named as evidence; the command below names all."""
_INDENT: Final = " " * 6


def print_recalled(scope: Scope, question: Question, answer: RecallAnswer) -> None:
    """Print what was recalled, and how to go on from there."""
    found = answer.recalled
    for fact in found.fact_hits:
        _print_fact(scope, fact)
    for episode in found.episode_hits:
        _print_episode(scope, episode)
    parts = [
        counted(len(hits), noun)
        for hits, noun in ((found.fact_hits, "fact"), (found.episode_hits, "episode"))
        if hits
    ]
    say(f"{' and '.join(parts)} of scope {scope}{_for(question)}")
    _print_notes(found.notes)
    if question.as_of_ms is None:
        say(
            "  counted as used"
            if answer.event_id
            else "  nothing was recorded: --record counts it as used"
        )


def print_nothing(scope: Scope, question: Question, notes: Sequence[str]) -> None:
    """Say that nothing is known, and what may help."""
    flag = scope_flag(scope)
    about = "" if question.query is None else f" of {one_line(question.query)}"
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
    say_painted(painted(_INDENT + _evidence(hit.evidence), dim=True))
    say_painted(f"{_INDENT}→ treering facts show {printable(fact.id)} {scope_flag(scope)}")
    say("")


def _print_episode(scope: Scope, hit: RecalledEpisode) -> None:
    say_painted(f"{hit.score:.2f}  {painted(one_line(hit.summary), bold=True)}")
    about = ["episode", clock(hit.started_ms)[:10], _why(hit.why)]
    if hit.topics:
        about.insert(2, one_line(", ".join(hit.topics)))
    say_painted(painted(_INDENT + " · ".join(about), dim=True))
    say_painted(painted(_INDENT + _evidence(hit.evidence), dim=True))
    for note in hit.notes:
        say_painted(painted(_INDENT + one_line(note), dim=True))
    say_painted(f"{_INDENT}→ {printable(show_command(scope, hit.session_id))}")
    say("")


def _why(parts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.2f}" for name, share in parts.items() if share)


def _evidence(events: Sequence[str]) -> str:
    if not events:
        return "no event says so"
    named = ", ".join(printable(one) for one in events[:NAMED_MAX])
    more = f" and {len(events) - NAMED_MAX:,} more" if len(events) > NAMED_MAX else ""
    return f"said by {named}{more}"


def _for(question: Question) -> str:
    whose = "" if question.user is None else f" for {printable(question.user)}"
    when = "" if question.as_of_ms is None else f", as of {moment(question.as_of_ms)}"
    return whose + when


def _print_notes(notes: Sequence[str]) -> None:
    for one in notes:
        say(f"  {one_line(one)}")
