"""``treering search``: events of a scope by their words, session by session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec

from treering.clock import now_ms
from treering.errors import InvalidInput
from treering.model.scopes import Scope
from treering.model.search_queries import parse_search
from treering.model.searches import HITS_DEFAULT, HITS_MAX, SEARCH_MODES
from treering.surfaces.cli.commands import Command, show
from treering.surfaces.cli.declare import (
    argument,
    choice,
    command,
    flag,
    known_or_all,
    limit_option,
    scope_shown,
)
from treering.surfaces.cli.finding import ShortIds, short_events, short_sessions
from treering.surfaces.cli.ledgers import asking, is_unknown, location_of, open_to_ask, say_unknown
from treering.surfaces.cli.output import is_terminal, painted, say, say_painted
from treering.surfaces.cli.progress import counting
from treering.surfaces.cli.tables import folded, say_folded
from treering.surfaces.shared.session_commands import Origin, origin_of, resuming, show_command
from treering.surfaces.shared.texts import Mask, counted, one_line, printable
from treering.surfaces.shared.times import clock, moment, typed_zone

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.searches import SearchHit, SearchResult, SessionHits

_WITHOUT: Final = re.compile(r"-(?!h$)[^-\s]")
SHARED: Final = ("event_id", "seq", "ts_ms", "kind", "agent_id", "tool", "run_id", "score", "why",
          "partial")  # fmt: skip
TITLE_CHARACTERS_MAX: Final = 100
MATCH_COLOUR: Final = "yellow"
_HIT_INDENT: Final = " " * 4


class FoundSession(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in one session, and how to go there."""

    scope: str
    session_id: str
    title: str | None
    agent: str
    latest_ms: int
    """When the session was last written to."""
    count: int
    """Matches in it, of which the best are shown."""
    hits: list[dict[str, Any]]
    show: str
    """The command that shows the session."""
    imported_from: str | None = None
    resume: str | None = None
    """The command that resumes it in its own agent."""
    remark: str | None = None
    """Why there is none, if there should be one."""


class _Asking(Command):
    """A command that takes -word for a word that must not be there, and not for an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words; those that begin with one dash come last, where none is an option."""
        end = args.index("--") if "--" in args else len(args)
        valued = {
            name
            for option in self.params
            if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }
        without = [
            at
            for at, word in enumerate(args[:end])
            if _WITHOUT.match(word) and not (at and args[at - 1] in valued)
        ]
        if without:
            words = [args[at] for at in without]
            words_before = [word for at, word in enumerate(args[:end]) if at not in without]
            args = [*words_before, "--", *words, *args[end + 1 :]]
        return super().parse_args(ctx, args)


@command(
    cls=_Asking,
    scope="wide",
    all_scopes="Search all scopes.",
    examples="""
    treering search no such table --scope acme/app
    treering search 'file:src/a.py "no such table" -draft' --scope acme/app
    treering search 'deploy* kind:tool.call after:7d' --scope acme/app --json
    treering search how do we ship a release --scope acme/app --mode hybrid
    """,
)
def search(
    *,
    scope: Scope | None,
    words: Sequence[str] = argument(nargs=-1, metavar="WORDS..."),
    mode: str = choice(
        SEARCH_MODES,
        "Match words, meaning (semantic), or both (hybrid). Default: words.",
        default="words",
    ),
    limit: int = limit_option(HITS_DEFAULT, HITS_MAX, text="Events to show"),
    include_failed: bool = flag("Include runs that failed or were interrupted."),
) -> None:
    """Search the events of a scope by their words; the best session comes first.

    Events with every word come first, in any order; if there are few, those with most of the words
    follow, marked as partial. Case and accents do not matter. "two words": phrase.
    deploy*: prefix. -draft: exclude. kind: agent: session: tool: file: before: and after: are
    filters, as in after:7d or before:2026-03-05; session: takes a short id. Put a query with
    quotes between single quotes.

    With --mode hybrid or semantic, ask as you would ask a person: not every word has to match,
    and neighbouring events of the session count, too.
    """
    query = _query(words)
    result: SearchResult | None = None
    sessions: list[FoundSession] = []
    elsewhere, is_empty = 0, False
    with asking(open_to_ask) as ledger:
        if ledger is not None:
            scope = known_or_all(ledger, scope)
            with counting("indexing", "events") as progress:
                result = ledger.search(
                    query,
                    scope=scope,
                    all_scopes=scope is None,
                    mode=mode,
                    limit=max(1, min(limit, HITS_MAX)),
                    include_failed=include_failed,
                    zone=typed_zone(),
                    progress=progress,
                )
            mask = Mask()
            names = _short_ids(ledger, [session.scope for session in result.sessions])
            sessions = [
                _session(ledger, session, names[session.scope], mask) for session in result.sessions
            ]
            if scope is not None and len(result.hits) < limit:
                elsewhere = ledger.matches_elsewhere(
                    query, scope=scope, include_failed=include_failed, zone=typed_zone()
                )
                is_empty = not result.hits and is_unknown(ledger, scope)
        location = location_of(ledger)
    used = mode if result is None else result.mode
    show(
        {
            "scope": scope,
            "ledger": location,
            "query": query,
            "mode": used,
            "include_failed": include_failed,
            "count": sum(len(session.hits) for session in sessions),
            "total": 0 if result is None else result.total,
            "at_least": result is not None and result.at_least,
            "lag": 0 if result is None else result.lag,
            "took_ms": 0 if result is None else result.took_ms,
            "elsewhere": elsewhere,
            "widened": [] if result is None else result.widened,
            "vectors_missing": 0 if result is None else result.vectors_missing,
            "sessions": sessions,
        },
        page=lambda: _print_page(
            scope,
            query,
            result,
            sessions,
            mode=mode,
            include_failed=include_failed,
            elsewhere=elsewhere,
            is_empty=is_empty,
        ),
    )


def _print_page(
    scope: Scope | None,
    query: str,
    result: SearchResult | None,
    sessions: Sequence[FoundSession],
    *,
    mode: str,
    include_failed: bool,
    elsewhere: int,
    is_empty: bool,
) -> None:
    if result is not None and sessions:
        print_found(scope, result, sessions, mode=mode)
    else:
        used = mode if result is None else result.mode
        print_nothing(
            scope, query, result, mode=used, include_failed=include_failed, is_empty=is_empty
        )
    if elsewhere:
        say(f"{counted(elsewhere, 'matching event')} in other scopes: --all-scopes shows them")


def _query(words: Sequence[str]) -> str:
    query = " ".join(words).strip()
    if not query:
        raise InvalidInput(
            "no words to search for", hint="give some words, as in treering search deploy"
        )
    return query


class _ShortIds(NamedTuple):
    """The ids of one scope as people read them."""

    sessions: ShortIds
    events: ShortIds


def _short_ids(ledger: Ledger, scopes: Iterable[str]) -> dict[str, _ShortIds]:
    return {
        name: _ShortIds(short_sessions(ledger, Scope(name)), short_events(ledger, Scope(name)))
        for name in dict.fromkeys(scopes)
    }


def _session(ledger: Ledger, hits: SessionHits, names: _ShortIds, mask: Mask) -> FoundSession:
    scope = Scope(hits.scope)
    session = ledger.session(hits.session_id, scope=scope, agent=hits.agent_id)
    outline = session.outline()
    origin: Origin | None = None
    resume = remark = None
    if outline.imported_from is not None:
        origin = origin_of(ledger, scope, hits.session_id)
    if origin is not None:
        resume, remark = resuming(origin, scope, hits.session_id, parent=outline.spawned_by)
    session_id = names.sessions.shown(hits.session_id)
    return FoundSession(
        scope=scope,
        session_id=session_id,
        title=mask.text(hits.title or outline.title),
        agent=outline.agent,
        latest_ms=outline.updated_ms,
        count=hits.count,
        hits=[_hit(hit, names.events.shown(hit.event_id), mask) for hit in hits.hits],
        show=show_command(scope, session_id),
        imported_from=outline.imported_from,
        resume=mask.text(resume),
        remark=mask.text(remark),
    )


def _hit(hit: SearchHit, event_id: str, mask: Mask) -> dict[str, Any]:
    """Return a hit as it is shown. It is masked already; what was cut may look otherwise."""
    snippet = mask.text(hit.snippet) or ""
    spans = hit.spans if snippet == hit.snippet else []
    shared = {name: getattr(hit, name) for name in SHARED}
    return {**shared, "event_id": event_id, "snippet": snippet, "spans": spans}


def print_found(
    scope: Scope | None, result: SearchResult, sessions: Sequence[FoundSession], *, mode: str
) -> None:
    """Print what was found, session by session, and how to go there."""
    for session in sessions:
        _print_session(session, is_scope_shown=scope is None)
        say("")
    hits = [hit for session in sessions for hit in session.hits]
    partial = sum(1 for hit in hits if hit["partial"])
    # The total counts events with every word, if there are any.
    beside = partial if partial < len(hits) else 0
    shown = len(hits) - beside
    more = "at least " if result.at_least else ""
    say(
        f"{shown:,} of {more}{counted(result.total, 'matching event')} in {scope_shown(scope)}"
        + ("" if shown >= result.total else ": --limit shows more")
    )
    if beside:
        say(f"{counted(beside, 'more event')} with most of the words, marked as partial")
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
    scope: Scope | None,
    query: str,
    result: SearchResult | None,
    *,
    mode: str,
    include_failed: bool,
    is_empty: bool,
) -> None:
    """Say that nothing was found, and what may help."""
    if is_empty:
        say_unknown(scope)
        say("  only imported logs are searched; treering doctor lists the others")
        return
    say(f"nothing in {scope_shown(scope)} matches: {one_line(query)}")
    if scope is not None:
        say("  only this scope was searched: name another with --scope, or use --all-scopes")
    if mode == "words":
        say(f"  {_absent(query)}: try others, or a prefix such as deploy*")
        say("  or search by meaning, too: --mode hybrid")
    else:
        say("  nothing is close enough: ask in other words, or search words with --mode words")
    if result is not None and result.vectors_missing:
        say(f"  {_missing(result.vectors_missing)}")
    if not include_failed:
        say("  runs that failed or were interrupted are left out: --include-failed")
    say("  only imported logs are searched; treering doctor lists the others")


def _absent(query: str) -> str:
    """Return what no event has, so far as a query of words says it."""
    parsed = parse_search(query, Scope("-"), now_ms=now_ms())
    is_filtered = parsed.without or parsed.narrowings or parsed.since_ms or parsed.before_ms
    where = "no event that passes the filters" if is_filtered else "no event"
    if any(len(term.words) > 1 for term in parsed.terms):
        return f"{where} has the words side by side; without the quotes, they may be apart"
    return f"{where} has any of the words"


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


def _print_session(session: FoundSession, *, is_scope_shown: bool) -> None:
    about = [
        session.session_id,
        *([session.scope] if is_scope_shown else []),
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
    mark = "  (partial)" if hit["partial"] else ""
    return printable(f"{clock(hit['ts_ms'])}  {hit['event_id']}  {name}{mark}")
