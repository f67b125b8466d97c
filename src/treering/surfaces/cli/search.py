"""``treering search``: events of a scope by their words, session by session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.model.searches import HITS_DEFAULT, HITS_MAX, SEARCH_MODES
from treering.surfaces.cli.commands import Command, invocation, show
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.opening import asking, location_of, open_to_ask
from treering.surfaces.cli.options import db_option, json_option, keys_option
from treering.surfaces.cli.projects import find_scope, project_scope_options
from treering.surfaces.cli.streams import writing_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope
    from treering.model.searches import SearchHit, SearchResult, SessionHits
    from treering.surfaces.cli.search_commands import Origin

_WITHOUT: Final = re.compile(r"-(?!h$)[^-\s]")
SHARED: Final = ("event_id", "seq", "ts_ms", "kind", "agent_id", "tool", "run_id", "score", "why")


class FoundSession(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in one session, and how to go there."""

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
            kept = [word for at, word in enumerate(args[:end]) if at not in without]
            args = [*kept, "--", *words, *args[end + 1 :]]
        return super().parse_args(ctx, args)


@click.command(
    "search",
    cls=_Asking,
    short_help="Search what was said and done in a scope.",
    examples="""
    treering search no such table --scope acme/app
    treering search 'file:src/a.py "no such table" -draft' --scope acme/app
    treering search 'deploy* kind:tool.call after:7d' --scope acme/app --json
    treering search how do we ship a release --scope acme/app --mode hybrid
    """,
)
@click.argument("words", nargs=-1, metavar="WORDS...")
@project_scope_options
@click.option(
    "--mode",
    type=click.Choice(SEARCH_MODES),
    default="words",
    help="Match words, meaning (semantic), or both (hybrid). Default: words.",
)
@click.option(
    "--limit",
    type=int,
    default=HITS_DEFAULT,
    metavar="N",
    help=f"Events to show, 1 to {HITS_MAX}. Default: {HITS_DEFAULT}.",
)
@click.option(
    "--include-failed", is_flag=True, help="Include runs that failed or were interrupted."
)
@keys_option
@json_option
@db_option
def search(
    *,
    words: Sequence[str],
    scope: str | None,
    is_global: bool,
    mode: str,
    limit: int,
    include_failed: bool,
) -> None:
    """Search the events of a scope by their words; the best session comes first.

    Every word must match, in any order; case and accents do not matter. "two words": phrase.
    deploy*: prefix. -draft: exclude. kind: agent: session: tool: file: before: and after: are
    filters, as in after:7d or before:2026-03-05; session: takes a short id. Put a query with
    quotes between single quotes.

    With --mode hybrid or semantic, ask as you would ask a person: not every word has to match,
    and neighbouring events of the session count, too.
    """
    query = _query(words)
    name = find_scope(scope, is_global=is_global)
    from treering.surfaces.cli.search_commands import with_short_ids  # noqa: PLC0415  (not for --help)

    result: SearchResult | None = None
    sessions: list[FoundSession] = []
    with asking(open_to_ask) as ledger:
        if ledger is not None:
            result = _search(
                ledger, query, name, mode=mode, limit=limit, include_failed=include_failed
            )
            mask = Mask()
            sessions = [_session(ledger, name, session, mask) for session in result.sessions]
            sessions = with_short_ids(ledger, name, sessions)
        location = location_of(ledger)
    used = mode if result is None else result.mode
    if invocation().as_json:
        show({"scope": name, "ledger": location, "query": query,
              "mode": used, "include_failed": include_failed,
              "count": sum(len(session.hits) for session in sessions),
              "total": 0 if result is None else result.total,
              "at_least": result is not None and result.at_least,
              "lag": 0 if result is None else result.lag,
              "took_ms": 0 if result is None else result.took_ms,
              "widened": [] if result is None else result.widened,
              "vectors_missing": 0 if result is None else result.vectors_missing,
              "sessions": sessions})  # fmt: skip
        return
    from treering.surfaces.cli.search_page import print_found, print_nothing  # noqa: PLC0415

    with writing_output():
        if result is not None and sessions:
            print_found(name, result, sessions, mode=mode)
        else:
            print_nothing(name, query, result, mode=used, include_failed=include_failed)


def _query(words: Sequence[str]) -> str:
    query = " ".join(words).strip()
    if not query:
        raise InvalidInput(
            "no words to search for", hint="give some words, as in treering search deploy"
        )
    return query


def _search(
    ledger: Ledger, query: str, scope: Scope, *, mode: str, limit: int, include_failed: bool
) -> SearchResult:
    from treering.surfaces.cli.progress import counting  # noqa: PLC0415  (not for --help)
    from treering.surfaces.cli.times import typed_zone  # noqa: PLC0415

    with counting("indexing", "events") as progress:
        return ledger.search(
            query,
            scope=scope,
            mode=mode,
            limit=max(1, min(limit, HITS_MAX)),
            include_failed=include_failed,
            zone=typed_zone(),
            progress=progress,
        )


def _session(ledger: Ledger, scope: Scope, hits: SessionHits, mask: Mask) -> FoundSession:
    from treering.surfaces.cli.search_commands import (  # noqa: PLC0415  (not for --help)
        origin_of,
        resuming,
        show_command,
    )

    session = ledger.session(hits.session_id, scope=scope, agent=hits.agent_id)
    outline = session.outline()
    origin: Origin | None = None
    resume = remark = None
    if outline.imported_from is not None:
        origin = origin_of(ledger, scope, hits.session_id)
    if origin is not None:
        resume, remark = resuming(origin, scope, hits.session_id, parent=outline.spawned_by)
    return FoundSession(
        session_id=hits.session_id,
        title=mask.text(hits.title or outline.title),
        agent=outline.agent,
        latest_ms=outline.updated_ms,
        count=hits.count,
        hits=[_hit(hit, mask) for hit in hits.hits],
        show=show_command(scope, hits.session_id),
        imported_from=outline.imported_from,
        resume=mask.text(resume),
        remark=mask.text(remark),
    )


def _hit(hit: SearchHit, mask: Mask) -> dict[str, Any]:
    """Return a hit as it is shown. It is masked already; what was cut may look otherwise."""
    snippet = mask.text(hit.snippet) or ""
    spans = hit.spans if snippet == hit.snippet else []
    return {**{name: getattr(hit, name) for name in SHARED}, "snippet": snippet, "spans": spans}
