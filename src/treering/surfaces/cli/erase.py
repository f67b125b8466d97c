"""``treering redact``, ``gc``, ``retention`` and ``forget``: erase content for good."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Self

import click
import msgspec

from treering.clock import now_ms as clock_ms
from treering.errors import InvalidInput
from treering.model.queries import items_of
from treering.model.scopes import Scope, parse_retention_entry
from treering.model.searches import HITS_MAX, SearchHit
from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.declare import (
    Options,
    argument,
    choice,
    command,
    flag,
    group,
    option,
    parse_any_kind,
    parse_time,
    require,
    session_option_that,
    together,
)
from treering.surfaces.cli.finding import (
    find_event,
    find_session,
    narrow_to_session,
    short_events,
    short_sessions,
)
from treering.surfaces.cli.ledgers import (
    of_all_scopes,
    open_existing,
    open_if_there,
    open_to_write,
    physically,
)
from treering.surfaces.cli.output import say, writing_output
from treering.surfaces.cli.progress import counting
from treering.surfaces.cli.tables import TIME, Column, print_table
from treering.surfaces.shared.texts import (
    Mask,
    counted,
    days_kept,
    one_line,
    printable,
    scope_names,
)
from treering.surfaces.shared.times import clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from treering.ledger.erasure import Replacement
    from treering.ledger.ledger import Ledger
    from treering.model.receipts import ExpireReceipt, ForgetReceipt, Physical, RedactReceipt

_PREVIEW: Final = (
    Column(TIME),
    Column("event"),
    Column("type", leaves=1),
    Column("session", leaves=2),
    Column("says", is_prose=True),
)
_REDACT: Final[dict[str, Any]] = {
    "short_help": "Erase the content of an event or a session.",
    "examples": """
    {command} --event-id 01a1de94-e936 --scope acme/app
    {command} --session-id s1 --scope acme/app --replacement null
    """,
    "if_stopped": "what was erased stays erased; run it again for the rest",
}
_GC: Final[dict[str, Any]] = {
    "all_scopes": "Every scope, each with its own retention.",
    "short_help": "Remove events past their retention.",
    "examples": """
    {command} --scope acme/app --dry-run
    {command} --all-scopes
    {command} --scope acme/app --policy tool.result=7
    """,
    "if_stopped": "what was removed stays removed; run it again for the rest",
}


class _Target(Options, frozen=True, kw_only=True):
    """What is redacted, and what stands there instead."""

    event_id: str | None = option("ID", "Redact this event.", "--event-id", "--event")
    session_id: str | None = session_option_that(
        "Redact every event of this session.", "--session-id", "--session"
    )
    replacement: Replacement = choice(
        ["placeholder", "null"],
        'Replace payloads with "[REDACTED]" (the default) or with null.',
        default="placeholder",
    )


def _redact(*, scope: Scope, target: _Target = together(_Target)) -> None:
    """Erase summary, refs and payload for good; the rows and the chain stay.

    The bytes leave the file and its write-ahead log, or the server's tables. You cannot undo it.
    An id may be short, if no other id in the scope matches.
    """
    event_id, session_id = target.event_id, target.session_id
    if (event_id is None) == (session_id is None):
        raise InvalidInput(
            "provide exactly one of --event-id or --session-id", hint="name what to redact"
        )
    if session_id is not None:
        require(session_id, "session_id")
    with open_existing("change") as ledger:
        event = None if event_id is None else find_event(ledger, scope, event_id)
        session = narrow_to_session(ledger, scope, session_id)
        receipt = ledger.redact(
            scope, event_id=event, session_id=session, replacement=target.replacement
        )
    show(receipt, _redacted(receipt), done="the redaction was carried out")


redact_episodes = command("redact", scope="required", **_REDACT)(_redact)


@command(
    scope="named",
    examples="""
    treering redact --event 01a1de94-e936 --scope acme/app
    treering redact --session s1 --scope acme/app --dry-run
    treering redact --matching '"blue heron"' --scope acme/app --dry-run
    """,
    if_stopped=_REDACT["if_stopped"],
)
def redact(
    *,
    scope: Scope,
    target: _Target = together(_Target),
    matching: str | None = option("WORDS", "Redact every event that a search finds."),
    dry_run: bool = flag("With --session or --matching: show what would go, and erase nothing."),
    yes: bool = flag("With --session or --matching: erase without asking."),
) -> None:
    """Erase summary, refs and payload for good; the rows and the chain stay.

    The bytes leave the file and its write-ahead log, or the server's tables. You cannot undo it.
    An id may be short, if no other id in the scope matches.

    --matching takes words as treering search does, and redacts what has all of them; with
    --session only there. Look with --dry-run first. At a terminal, --session and --matching ask
    before they erase; elsewhere --matching needs --yes.
    """
    event_id, session_id = target.event_id, target.session_id
    if matching is None:
        if event_id is None and session_id is not None:
            if dry_run or (_can_ask() and not yes):
                plan = _SessionPlan.of(scope, session_id)
                if dry_run:
                    show(plan, *plan.lines())
                    return
                plan.confirm()
        elif dry_run or yes:
            raise InvalidInput(
                "--dry-run and --yes need --session or --matching", hint="name what to redact"
            )
        _redact(scope=scope, target=target)
        return
    if event_id is not None:
        raise InvalidInput("--event and --matching exclude each other", hint="drop one of the two")
    _redact_matching(scope, matching, session_id, target.replacement, dry_run=dry_run, yes=yes)


class _SessionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What redacting a session would erase."""

    scope: str
    session_id: str
    count: int
    by_kind: dict[str, int]
    dry_run: bool = True
    redacted_count: int = 0

    @classmethod
    def of(cls, scope: Scope, text: str) -> Self:
        """Count the events of a session that still have content. Raise NotFound."""
        from treering.ledger.erasure import NUMBERS_ONLY  # noqa: PLC0415  (not for --help)

        require(text, "session_id")
        with open_existing() as ledger:
            session_id = find_session(ledger, scope, text)
            headers = items_of(lambda after: ledger.replay(scope, session_id, after=after))
            kinds = Counter(
                header.kind
                for header in headers
                if not (header.redacted or header.expired or header.kind in NUMBERS_ONLY)
            )
        return cls(
            scope=scope,
            session_id=session_id,
            count=kinds.total(),
            by_kind=dict(sorted(kinds.items())),
        )

    def lines(self) -> Iterator[str]:
        """Return the plan for people."""
        events = counted(self.count, "event")
        yield f"would redact {events} of session {self.session_id} in scope {self.scope}"
        yield from (f"  {kind}: {number:,}" for kind, number in self.by_kind.items())

    def confirm(self) -> None:
        """Show the plan and ask. Raise InvalidInput if the answer is no."""
        with writing_output():
            for line in self.lines():
                say(line)
        _ask("Erase them for good?")


def _can_ask() -> bool:
    """Whether a person is there to answer."""
    return not invocation().as_json and sys.stdin.isatty()


def _ask(question: str) -> None:
    """Raise InvalidInput unless a person agrees."""
    if not click.confirm(question, err=True):
        raise InvalidInput("nothing was erased", hint="answer y, or add --yes")


def _redact_matching(
    scope: Scope,
    words: str,
    session_id: str | None,
    replacement: Replacement,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    physical: Physical = "done"
    erased: list[str] = []
    with open_existing("read" if dry_run else "change") as ledger:
        session = narrow_to_session(ledger, scope, session_id)
        hits, elsewhere, is_cut = _matching(ledger, scope, words, session)
        events = counted(len(hits), "event") + (" or more" if is_cut else "")
        short, sessions, mask = short_events(ledger, scope), short_sessions(ledger, scope), Mask()
        rows = [
            _preview(sessions.within(short.within(hit, "event_id"), "session_id"), mask)
            for hit in hits
        ]
        if rows and not (dry_run or yes):
            if not _can_ask():
                raise InvalidInput(
                    f"this erases {events} of scope {scope}, for good",
                    hint="add --yes to do it, or --dry-run to see them",
                )
            with writing_output():
                print_table(_PREVIEW, rows)
            _ask(f"Erase {events} of scope {scope} for good?")
        while hits and not dry_run:
            for hit in hits:
                receipt = ledger.redact(scope, event_id=hit.event_id, replacement=replacement)
                erased.append(hit.event_id)
                physical = receipt.physical if receipt.redacted_count else physical
            # One search finds a few hundred at a time.
            more, elsewhere, _ = _matching(ledger, scope, words, session)
            hits = [hit for hit in more if hit.event_id not in erased]
    lines = [f"nothing in scope {scope} matches: {one_line(words)}"]
    if dry_run and rows:
        lines = [f"would redact {events} of scope {scope}"]
    elif erased:
        count = counted(len(erased), "event")
        lines = [f"redacted {count} of scope {scope}; {physically(physical)}"]
    if elsewhere:
        also = "session" if elsewhere == 1 else "sessions"
        lines.append(f"the same words are in {elsewhere:,} other {also}: drop --session")
    show(
        {
            "scope": scope,
            "matching": words,
            "session_id": session,
            "dry_run": dry_run,
            "count": len(rows),
            "redacted_count": len(erased),
            "other_sessions": elsewhere,
            "events": [row[1] for row in rows] if dry_run else erased,
            "physical": physical,
        },
        *lines,
        page=lambda: print_table(_PREVIEW, rows) if dry_run and rows else None,
        done="" if dry_run else "the redaction was carried out",
    )


def _matching(
    ledger: Ledger, scope: Scope, words: str, session_id: str | None
) -> tuple[list[SearchHit], int, bool]:
    """Return events that have all words, the number of other sessions with such, and if cut."""
    with counting("indexing", "events") as progress:
        result = ledger.search(
            words, scope=scope, limit=HITS_MAX, include_failed=True, progress=progress
        )
    hits = [] if result.widened else [hit for part in result.sessions for hit in part.hits]
    exact = [hit for hit in hits if not hit.partial]
    here = [hit for hit in exact if session_id in {None, hit.session_id}]
    others = {hit.session_id for hit in exact} - {hit.session_id for hit in here}
    return here, len(others), len(hits) >= HITS_MAX


def _preview(hit: SearchHit, mask: Mask) -> list[str]:
    snippet = one_line(mask.text(hit.snippet) or "")
    return [clock(hit.ts_ms), hit.event_id, hit.kind, printable(hit.session_id), snippet]


def _gc(
    *,
    scope: Scope | None,
    policy: Sequence[str] = option(
        "TYPE=DAYS", "Keep a type for this many days, or forever; repeatable.", multiple=True
    ),
    now_ts_ms: str | None = option("WHEN", "Count ages from this time instead of now."),
    trust_clock: bool = flag("Remove events even if nothing was recorded for 90 days."),
    dry_run: bool = flag("Count what would be removed, and remove nothing."),
) -> None:
    """Remove events past their retention; the receipt has counts, never content.

    By default tool.call and tool.result are kept for 30 days, conversation.user for 60,
    conversation.assistant and ops.alert for 90, everything else forever. Sessions with an open
    run are skipped; so are imported sessions, unless you set a retention yourself. treering
    retention shows and sets the retention of a scope.

    If the clock is more than 90 days ahead of the last recorded event, or a day earlier,
    nothing is removed without --trust-clock or --now-ts-ms.
    """
    chosen = dict(policy_entry(entry) for entry in policy)
    now_ms = parse_time(now_ts_ms)
    if now_ms is None and trust_clock:
        now_ms = clock_ms()
    with (
        of_all_scopes() if scope is None else contextlib.nullcontext(),
        open_if_there("read" if dry_run else "change") as ledger,
    ):
        receipts = [
            ledger.expire(name, policy=chosen or None, now_ms=now_ms, dry_run=dry_run)
            for name in ([scope] if scope is not None else scope_names(ledger))
        ]
    done = "" if dry_run else "the removal was carried out"
    lines = [line for receipt in receipts for line in _expired(receipt)]
    if scope is not None:
        show(receipts[0], *lines, done=done)
        return
    total = sum(receipt.deleted_total for receipt in receipts)
    body = {"dry_run": dry_run, "deleted_total": total, "scopes": receipts}
    show(body, *(lines or ["nothing to remove: the ledger has no scopes"]), done=done)


gc = command("gc", scope="named", **_GC)(_gc)
gc_episodes = command("gc", scope="required", **_GC)(_gc)


def policy_entry(entry: str) -> tuple[str, int | None]:
    """Return the kind and days of one ``TYPE=DAYS``. Raises InvalidInput."""
    name, equals, _ = entry.partition("=")
    if equals and name.strip():
        parse_any_kind(name)
    return parse_retention_entry(entry)


def _redacted(receipt: RedactReceipt) -> str:
    target = receipt.target
    what = f"event {target.event_id}" if target.event_id else f"session {target.session_id}"
    if not receipt.redacted_count:
        return f"nothing to redact: {what} in scope {target.scope} is already redacted or expired"
    if not target.event_id:
        what = f"{counted(receipt.redacted_count, 'event')} of {what}"
    return f"redacted {what} in scope {target.scope}; {physically(receipt.physical)}"


def _expired(receipt: ExpireReceipt) -> Iterator[str]:
    count = counted(receipt.deleted_total, "event")
    if receipt.dry_run:
        yield f"would remove {count} of scope {receipt.scope}"
    elif not receipt.deleted_total:
        yield f"nothing to remove: no event of scope {receipt.scope} is past its retention"
    else:
        yield f"removed {count} of scope {receipt.scope}; {physically(receipt.physical)}"
    for kind, number in receipt.deleted_by_type.items():
        if number:
            yield f"  {kind}: {number:,} older than {days_kept(receipt, kind)}"
    if receipt.sessions_kept_open:
        session_count = counted(receipt.sessions_kept_open, "session")
        yield f"skipped: {session_count} with an open run"
    if receipt.sessions_kept_imported:
        session_count = counted(receipt.sessions_kept_imported, "imported session")
        yield f"kept: old events of {session_count}; --policy TYPE=DAYS removes those, too"


@group(
    "retention",
    commands="list_ set_ unset",
    examples="""
    treering retention list --scope acme/app
    treering retention set tool.result=7 ops.alert=forever --scope acme/app
    treering retention unset tool.result --scope acme/app
    """,
)
def retention() -> None:
    """Show and set how long a scope keeps each kind of event.

    Setting it removes nothing: treering gc removes events past their retention.
    """


@command(
    scope="named",
    short_help="Show how long a scope keeps each kind.",
    examples="""
    treering retention list --scope acme/app
    treering retention list --scope acme/app --json
    """,
)
def list_(*, scope: Scope) -> None:
    """Show the retention of a scope: what was set for it, and the defaults for the rest."""
    with open_existing("read") as ledger:
        _show(ledger, scope)


@command(
    scope="named",
    short_help="Keep a kind for some days, or forever.",
    examples="""
    treering retention set tool.result=7 --scope acme/app
    treering retention set tool.result=forever ops.alert=365 --scope acme/app
    """,
    if_stopped="all of it was set, or nothing",
)
def set_(
    *,
    scope: Scope,
    entries: Sequence[str] = argument(nargs=-1, required=True, metavar="TYPE=DAYS..."),
) -> None:
    """Keep each TYPE for DAYS days, or forever; other types stay as they are."""
    chosen = dict(policy_entry(entry) for entry in entries)
    with open_to_write() as ledger:
        ledger.set_retention(scope, {**ledger.own_retention(scope), **chosen})
        _show(ledger, scope, done="the retention was set")


@command(
    scope="named",
    short_help="Go back to the default for a kind.",
    examples="""
    treering retention unset tool.result --scope acme/app
    treering retention unset --scope acme/app
    """,
    if_stopped="all of it was unset, or nothing",
)
def unset(*, scope: Scope, kinds: Sequence[str] = argument(nargs=-1, metavar="[TYPE]...")) -> None:
    """Go back to the default for each TYPE, or for all if none is named."""
    dropped = {parse_any_kind(kind) for kind in kinds}
    with open_existing("change") as ledger:
        own = ledger.own_retention(scope)
        if unknown := sorted(dropped - set(own)):
            raise InvalidInput(
                f"nothing is set for {unknown[0]} in scope {scope}",
                hint=f"see treering retention list --scope {scope}",
            )
        remaining = {kind: days for kind, days in own.items() if kinds and kind not in dropped}
        ledger.set_retention(scope, remaining)
        _show(ledger, scope, done="the retention was unset")


def _show(ledger: Ledger, scope: str, *, done: str = "") -> None:
    own, held = ledger.own_retention(scope), ledger.retention(scope)
    body = {
        "scope": scope,
        "policy_days": dict(sorted(held.items())),
        "set": dict(sorted(own.items())),
    }
    show(body, *_retention_lines(scope, held, own), done=done)


def _retention_lines(
    scope: str, held: Mapping[str, int | None], own: Mapping[str, int | None]
) -> Iterator[str]:
    yield f"retention of scope {scope}; what is not listed is kept forever"
    for kind, days in sorted(held.items()):
        period = "forever" if days is None else counted(days, "day")
        yield f"  {kind}: {period}{'' if kind in own else ' (default)'}"


@command(
    scope="project",
    examples="""
    treering forget --scope acme/app --user u1 --dry-run
    treering forget --scope acme/app --user u1 --yes
    """,
    if_stopped="what was erased stays erased; run it again for the rest",
)
def forget(
    *,
    scope: Scope,
    user: str = option("USER", "The person, by their user id.", required=True),
    dry_run: bool = flag("Show what would be erased, and erase nothing."),
    yes: bool = flag("Erase without asking. You cannot undo it."),
) -> None:
    """Erase everything a scope holds of one person: sessions, messages and names.

    Facts learned from it are erased, too. Numbers and digests stay, so that verify still proves
    the rest. It cannot reach exports, backups, logs that agents keep, lines that could not be
    recorded (treering doctor names their files), or data that was passed on to others.
    """
    person = require(user, "user")
    if dry_run or not yes:
        with open_existing() as ledger:
            plan = ledger.forget(scope, user=person, dry_run=True)
        if dry_run:
            show(plan, *_forgotten(plan))
            return
        _confirm(plan, person)
    with open_existing("change") as ledger, counting("erased", "events") as advance:
        receipt = ledger.forget(scope, user=person, progress=advance)
    show(receipt, *_forgotten(receipt), done="the user was forgotten")


def _confirm(plan: ForgetReceipt, person: str) -> None:
    """Ask for the user's name again. Raise InvalidInput if it is not confirmed."""
    if not _can_ask():
        events = counted(plan.events_erased, "event")
        raise InvalidInput(
            f"this erases {events} of scope {plan.scope}, for good",
            hint="add --yes to do it, or --dry-run to see what would go",
        )
    with writing_output():
        for line in _forgotten(plan):
            say(line)
    asked = "Type the user's name to confirm"
    typed = click.prompt(asked, default="", show_default=False, err=True)
    if typed.strip() != person:
        raise InvalidInput(
            "the name does not match: nothing was erased", hint=f"type {person}, or add --yes"
        )


def _forgotten(receipt: ForgetReceipt) -> Iterator[str]:
    verb = "would erase" if receipt.dry_run else "erased"
    done = "" if receipt.dry_run else f"; {physically(receipt.physical)}"
    events = counted(receipt.events_erased, "event")
    sessions = counted(receipt.sessions_erased, "whole session")
    yield f"{verb} {events} of scope {receipt.scope}, among them {sessions}{done}"
    width = max(map(len, receipt.events_by_kind), default=0)
    yield from (f"  {kind:<{width}}  {n:,}" for kind, n in receipt.events_by_kind.items())
    gone = [
        counted(count, noun)
        for count, noun in (
            (receipt.facts_erased, "fact"),
            (receipt.episodes_erased, "episode"),
            (receipt.handles_erased, "handle"),
        )
        if count
    ]
    if gone:
        yield f"also erased from memory: {', '.join(gone)}"
    touched = [f"{name.replace('_', ' ')} {n:,}" for name, n in receipt.projections.items() if n]
    if touched and not receipt.dry_run:
        yield f"removed from: {', '.join(touched)}"
    if receipt.retellings_erased:
        yield f"{receipt.retellings_erased:,} of these were in the sessions of others"
    if receipt.blobs_shared:
        yield f"{counted(receipt.blobs_shared, 'large payload')} kept: other events hold the same"
