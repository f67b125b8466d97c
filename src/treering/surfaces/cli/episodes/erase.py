"""``treering redact`` and ``gc``, in ``episodes`` too: erase content for good, with a receipt."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from treering.app import now_ms as clock_ms
from treering.errors import InvalidInput
from treering.model.retention import parse_retention_entry
from treering.surfaces.cli.commands import Command, show
from treering.surfaces.cli.completing import complete_session
from treering.surfaces.cli.event_search import find_event
from treering.surfaces.cli.ledgers import (
    of_all_scopes,
    open_existing,
    open_if_there,
    physically,
    scope_names,
)
from treering.surfaces.cli.options import (
    db_option,
    json_option,
    keys_option,
    parse_any_kind,
    parse_time,
    require,
    resolve_scope,
    scope_options,
)
from treering.surfaces.cli.output import counted
from treering.surfaces.cli.sessions.search import narrow_to_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.erasure import Replacement
    from treering.model.receipts import ExpireReceipt, RedactReceipt


@click.command(
    "redact",
    cls=Command,
    short_help="Erase the content of an event or a session.",
    examples="""
    {command} --event-id 01a1de94-e936 --scope acme/app
    {command} --session-id s1 --scope acme/app --replacement null
    """,
    if_stopped="what was erased stays erased; run it again for the rest",
)
@click.option("--event-id", "--event", "event_id", metavar="ID", help="Redact this event.")
@click.option(
    "--session-id",
    "--session",
    "session_id",
    metavar="ID",
    shell_complete=complete_session,
    help="Redact every event of this session.",
)
@scope_options
@click.option(
    "--replacement",
    type=click.Choice(["placeholder", "null"]),
    default="placeholder",
    help='Replace payloads with "[REDACTED]" (the default) or with null.',
)
@keys_option
@json_option
@db_option
def redact(
    *,
    event_id: str | None,
    session_id: str | None,
    scope: str | None,
    is_global: bool,
    replacement: Replacement,
) -> None:
    """Erase summary, refs and payload for good; the rows and the chain stay.

    The bytes leave the file and its write-ahead log, or the server's tables. You cannot undo it.
    An id may be short, if no other id in the scope matches.
    """
    if (event_id is None) == (session_id is None):
        raise InvalidInput(
            "provide exactly one of --event-id or --session-id", hint="name what to redact"
        )
    name = resolve_scope(scope, is_global=is_global)
    if session_id is not None:
        require(session_id, "session_id")
    with open_existing("change") as ledger:
        event = None if event_id is None else find_event(ledger, name, event_id)
        session = narrow_to_session(ledger, name, session_id)
        receipt = ledger.redact(name, event_id=event, session_id=session, replacement=replacement)
    show(receipt, _redacted(receipt), done="the redaction was carried out")


@click.command(
    "gc",
    cls=Command,
    short_help="Remove events past their retention.",
    examples="""
    {command} --scope acme/app --dry-run
    {command} --all
    {command} --scope acme/app --policy tool.result=7
    """,
    if_stopped="what was removed stays removed; run it again for the rest",
)
@scope_options
@click.option("--all", "is_all", is_flag=True, help="Every scope, each with its own retention.")
@click.option(
    "--policy",
    multiple=True,
    metavar="TYPE=DAYS",
    help="Keep a type for this many days, or forever; repeatable.",
)
@click.option("--now-ts-ms", metavar="WHEN", help="Count ages from this time instead of now.")
@click.option(
    "--trust-clock", is_flag=True, help="Remove events even if nothing was recorded for 90 days."
)
@click.option("--dry-run", is_flag=True, help="Count what would be removed, and remove nothing.")
@keys_option
@json_option
@db_option
def gc(
    *,
    scope: str | None,
    is_global: bool,
    is_all: bool,
    policy: Sequence[str],
    now_ts_ms: str | None,
    trust_clock: bool,
    dry_run: bool,
) -> None:
    """Remove events past their retention; the receipt has counts, never content.

    By default tool.call and tool.result are kept for 30 days, conversation.user for 60,
    conversation.assistant and ops.alert for 90, everything else forever. Sessions with an open
    run are skipped; so are imported sessions, unless you set a retention yourself. treering
    retention shows and sets the retention of a scope.

    If the clock is more than 90 days ahead of the last recorded event, or a day earlier,
    nothing is removed without --trust-clock or --now-ts-ms.
    """
    if is_all and (scope is not None or is_global):
        raise InvalidInput("--all cannot be combined with a scope", hint="drop one of the two")
    name = None if is_all else resolve_scope(scope, is_global=is_global)
    chosen = dict(policy_entry(entry) for entry in policy)
    now_ms = parse_time(now_ts_ms)
    if now_ms is None and trust_clock:
        now_ms = clock_ms()
    with (
        of_all_scopes() if is_all else contextlib.nullcontext(),
        open_if_there("read" if dry_run else "change") as ledger,
    ):
        receipts = [
            ledger.expire(one, policy=chosen or None, now_ms=now_ms, dry_run=dry_run)
            for one in ([name] if name is not None else scope_names(ledger))
        ]
    done = "" if dry_run else "the removal was carried out"
    lines = [line for receipt in receipts for line in _expired(receipt)]
    if name is not None:
        show(receipts[0], *lines, done=done)
        return
    total = sum(receipt.deleted_total for receipt in receipts)
    body = {"dry_run": dry_run, "deleted_total": total, "scopes": receipts}
    show(body, *(lines or ["nothing to remove: the ledger has no scopes"]), done=done)


def policy_entry(entry: str) -> tuple[str, int | None]:
    """Return the kind and days of one ``TYPE=DAYS``. Raises InvalidInput."""
    name, equals, _ = entry.partition("=")
    if equals and name.strip():
        parse_any_kind(name)
    return parse_retention_entry(entry)


def days_kept(receipt: ExpireReceipt, kind: str) -> str:
    """Return how long a kind is kept, as people say it."""
    days = receipt.policy_days.get(kind)
    return "its retention" if days is None else counted(days, "day")


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
        kept = counted(receipt.sessions_kept_open, "session")
        yield f"skipped: {kept} with an open run"
    if receipt.sessions_kept_imported:
        kept = counted(receipt.sessions_kept_imported, "imported session")
        yield f"kept: old events of {kept}; --policy TYPE=DAYS removes those, too"
