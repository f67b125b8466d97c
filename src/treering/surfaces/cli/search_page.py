"""What a search found, as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.surfaces.cli.output import (
    counted,
    is_terminal,
    one_line,
    painted,
    printable,
    say,
    say_painted,
)
from treering.surfaces.cli.tables import folded, say_folded
from treering.surfaces.cli.times import clock, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.scopes import Scope
    from treering.model.searches import SearchResult
    from treering.surfaces.cli.search import FoundSession

TITLE_CHARACTERS_MAX: Final = 100
MATCH_COLOUR: Final = "yellow"
_HIT_INDENT: Final = " " * 4


def print_found(
    scope: Scope, result: SearchResult, sessions: Sequence[FoundSession], *, mode: str
) -> None:
    """Print what was found, session by session, and how to go there."""
    for session in sessions:
        _print_session(session)
        say("")
    shown = sum(len(session.hits) for session in sessions)
    more = "at least " if result.at_least else ""
    say(
        f"{shown:,} of {more}{counted(result.total, 'matching event')} in scope {scope}"
        + ("" if shown >= result.total else ": --limit shows more")
    )
    if result.widened:
        words = " ".join(result.widened)
        say(f"no exact match; showing results for {one_line(words)}")
    if result.mode != mode:
        say("this scope is encrypted, so only words were searched")
    if result.lag:
        say(f"not indexed yet: {counted(result.lag, 'event')}")
    if result.vectors_missing:
        say(_missing(result.vectors_missing))


def print_nothing(
    scope: Scope, query: str, result: SearchResult | None, *, mode: str, include_failed: bool
) -> None:
    """Say that nothing was found, and what may help."""
    say(f"nothing in scope {scope} matches: {one_line(query)}")
    say("  only this scope was searched: name another with --scope")
    if mode == "words":
        say("  every word must match: use fewer words, or a prefix such as deploy*")
        say("  or search by meaning, too: --mode hybrid")
    else:
        say("  nothing is close enough: ask in other words, or search words with --mode words")
    if result is not None and result.vectors_missing:
        say(f"  {_missing(result.vectors_missing)}")
    if not include_failed:
        say("  runs that failed or were interrupted are left out: --include-failed")
    say("  only imported logs are searched; treering doctor lists the others")


def highlighted(snippet: str, spans: Sequence[Sequence[int]]) -> str:
    """Return a snippet fit to print, its matches in colour on a terminal."""
    pieces: list[str] = []
    at = 0
    for first, last in spans:
        if first < at or last > len(snippet):
            continue
        pieces.append(printable(snippet[at:first]))
        pieces.append(painted(printable(snippet[first:last]), MATCH_COLOUR, bold=True))
        at = last
    pieces.append(printable(snippet[at:]))
    return "".join(pieces)


def _missing(count: int) -> str:
    return (
        f"{counted(count, 'event')} without a vector of this embedder, found by words only:"
        " run treering rebuild --vectors"
    )


def _print_session(session: FoundSession) -> None:
    about = [
        session.session_id,
        session.agent,
        moment(session.latest_ms),
        counted(session.count, "hit"),
    ]
    title = one_line(session.title or about.pop(0))
    if session.title and len(title) > TITLE_CHARACTERS_MAX:
        title = title[: TITLE_CHARACTERS_MAX - 1] + "…"
    say_painted(painted(title, bold=True))
    say_painted(painted(printable(" · ".join(about)), dim=True))
    for hit in session.hits:
        _print_hit(hit)
    say_painted(f"  → {printable(session.show)}")
    if session.resume is not None:
        say_painted(f"  → {printable(session.resume)}")
    if session.remark is not None:
        say_folded(painted(printable(session.remark), dim=True), lead="  ", indent="  ")


def _print_hit(hit: dict[str, Any]) -> None:
    what = f"  {painted(_what(hit), 'cyan')}"
    snippet = highlighted(hit["snippet"], hit["spans"])
    if not is_terminal():
        say_painted(f"{what}  {snippet}")
        return
    say_painted(what)
    for line in folded(snippet, _HIT_INDENT):
        say_painted(line)


def _what(hit: dict[str, Any]) -> str:
    name = hit["kind"] if not hit["tool"] else f"{hit['kind']} {hit['tool']}"
    return printable(f"{clock(hit['ts_ms'])}  {name}")
