"""``treering sessions fork``, ``undo``, ``redo``, ``rename``, ``close``, ``prune``, ``sweep``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.clock import now_ms as clock_ms
from treering.errors import InvalidInput
from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.declare import (
    argument,
    command,
    flag,
    option,
    parse_time,
    require,
    session_argument,
)
from treering.surfaces.cli.finding import find_event, open_session
from treering.surfaces.cli.ledgers import open_existing, open_if_there, physically
from treering.surfaces.cli.output import say, writing_output
from treering.surfaces.shared.texts import counted, one_line
from treering.surfaces.shared.times import parse_age

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.model.receipts import SweepReceipt
    from treering.model.scopes import Scope
    from treering.model.views import TurnView

_PROMPTS_MAX: Final = 3
_UNSEEN_BETWEEN_MAX: Final = 50
"""Turns that may lie between those to be undone: they failed, or were undone before."""


@command(
    scope="project",
    short_help="Fork a session at a turn.",
    examples="""
    treering sessions fork s1 --scope acme/app --title "Try it without the lock"
    treering sessions fork s1 --scope acme/app --at 01a1de94-e936 --id s1-b
    """,
    if_stopped="see treering sessions tree for whether it was forked",
)
def fork(
    *,
    scope: Scope,
    session: str = session_argument,
    at: str | None = option(
        "EVENT", "Share the past up to the end of this event's turn. Default: all."
    ),
    new_id: str | None = option("ID", "The id of the fork. Default: a new one.", "--id"),
    title: str | None = option("TEXT", "The title of the fork."),
) -> None:
    """Create a session that shares the past of SESSION, up to the end of a turn.

    Nothing is copied, and SESSION does not change. Erasing a part of the shared past erases it
    for both.
    """
    named = None if new_id is None else require(new_id, "id")
    with open_existing("change") as ledger:
        parent = open_session(ledger, scope, session)
        event = None if at is None else find_event(ledger, scope, at)
        made = parent.fork(named, at=event, title=title)
        outline = made.outline()
    show(
        {"scope": scope, "session_id": made.session_id, "parent": outline.parent,
         "forked_seq": outline.forked_seq, "title": outline.title, "agent": made.agent},
        f"forked session {parent.session_id} at seq {outline.forked_seq} as {made.session_id}",
        f'continue in it: ledger.session("{made.session_id}", scope="{scope}",'
        f' agent="{made.agent}")',
        f"what its model sees: treering context {made.session_id} --scope {scope}"
        " --max-tokens 8000",
        done=f"the session was forked as {made.session_id}",
    )  # fmt: skip


@command(
    scope="project",
    short_help="Hide the last turns from the model.",
    examples="""
    treering sessions undo main:telegram:jo --scope acme/app
    treering sessions undo main:telegram:jo --scope acme/app --turns 2
    """,
    if_stopped="see treering sessions show for whether it was undone",
)
def undo(
    *,
    scope: Scope,
    session: str = session_argument,
    turns: int = option(
        "N", "Undo N turns; a run with several prompts counts as one. Default: 1.", default=1
    ),
) -> None:
    """Hide the last turns of SESSION from its model, until redo restores them.

    Only the conversation moves back; files and other effects of tools do not. Nothing is
    deleted.
    """
    with open_existing("change") as ledger:
        opened = open_session(ledger, scope, session)
        before = list(opened.turns(last=max(turns, 0) + _UNSEEN_BETWEEN_MAX))
        header = opened.undo(turns=turns)
        from_seq, hidden = (_number(header.refs, field) for field in ("from_seq", "turns"))
    prompts = [turn.prompt for turn in before if turn.first_seq >= from_seq and _is_seen(turn)]
    more = len(prompts) - _PROMPTS_MAX
    show(
        {"scope": scope, "session_id": opened.session_id, "turns": hidden, "from_seq": from_seq,
         "event_id": header.event_id, "seq": header.seq},
        f"undid {counted(hidden, 'turn')} of session {opened.session_id}:"
        " the model no longer sees them"
        if hidden > 1
        else f"undid the last turn of session {opened.session_id}: the model no longer sees it",
        *(f"  {one_line(prompt)}" for prompt in prompts[:_PROMPTS_MAX]),
        *([f"  and {counted(more, 'more turn')}"] if more > 0 else []),
        "only the conversation moved back; files and other effects of tools did not",
        f"to restore it before anything is said: treering sessions redo {opened.session_id}"
        f" --scope {scope}",
        done=f"session {opened.session_id} was undone, by {counted(hidden, 'turn')}",
    )  # fmt: skip


@command(
    scope="project",
    short_help="Restore the turns that were undone last.",
    examples="""
    treering sessions redo main:telegram:jo --scope acme/app
    """,
    if_stopped="see treering sessions show for whether it was redone",
)
def redo(*, scope: Scope, session: str = session_argument) -> None:
    """Restore the turns of SESSION that were undone last, if nothing was said since."""
    with open_existing("change") as ledger:
        opened = open_session(ledger, scope, session)
        header = opened.redo()
        turns, undone_seq = (_number(header.refs, field) for field in ("turns", "undone_seq"))
    show(
        {"scope": scope, "session_id": opened.session_id, "turns": turns, "undone_seq": undone_seq,
         "event_id": header.event_id, "seq": header.seq},
        f"redid {counted(turns, 'turn')} of session {opened.session_id}",
        "only the conversation moved forward again; files and other effects of tools did not",
        done=f"session {opened.session_id} was redone",
    )  # fmt: skip


def _is_seen(turn: TurnView) -> bool:
    """Whether the model sees a turn, before it is undone."""
    return not turn.is_undone and turn.state in {"ended", None}


def _number(refs: Any, name: str) -> int:
    return int(refs[name])


@command(
    scope="project",
    short_help="Give a session a title.",
    examples="""
    treering sessions rename s1 "Fix the nightly build" --scope acme/app
    """,
    if_stopped="see treering sessions list for its title",
)
def rename(*, scope: Scope, session: str = session_argument, title: str = argument()) -> None:
    """Give SESSION the title TITLE; its id stays as it is."""
    with open_existing("change") as ledger:
        opened = open_session(ledger, scope, session)
        header = opened.rename(title)
        given = opened.outline().title
    show(
        {"scope": scope, "session_id": opened.session_id, "title": given,
         "event_id": header.event_id, "seq": header.seq},
        f"session {opened.session_id} is called: {one_line(given or '')}",
        done=f"session {opened.session_id} was renamed",
    )  # fmt: skip


@command(
    scope="project",
    short_help="Close a session.",
    examples="""
    treering sessions close main:telegram:jo --scope acme/app
    treering sessions close s1 --scope acme/app --reason "moved elsewhere"
    """,
    if_stopped="see treering sessions list for its state",
)
def close(
    *,
    scope: Scope,
    session: str = session_argument,
    reason: str = option("TEXT", "Why, in a few words.", default="closed"),
) -> None:
    """Record that SESSION is closed. Whatever is recorded in it later opens it again."""
    with open_existing("change") as ledger:
        opened = open_session(ledger, scope, session)
        is_closed = opened.outline().state in {"closed", "pruned"}
        header = None if is_closed else opened.close(reason)
    show(
        {"scope": scope, "session_id": opened.session_id, "closed": header is not None,
         "event_id": header and header.event_id, "seq": header and header.seq},
        f"session {opened.session_id} is closed already"
        if header is None
        else f"closed session {opened.session_id}; what is recorded in it later opens it again",
        done=f"session {opened.session_id} was closed",
    )  # fmt: skip


NEVER: Final = "never"
NAMED_MAX: Final = 50
"""Sessions of one sort that are named to people; a receipt names all."""
_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 86_400_000
_WHY: Final = {
    "running": "a turn is under way",
    "written": "somebody wrote to it meanwhile",
    "unread": "messages in its inbox wait to be taken",
    "forked": "a fork that stays shares its past",
    "sealed": "the key of its scope is not here",
    "imported": "it was imported",
}

imported_option = flag("Include imported sessions; by default they are kept.")

now_option = option("WHEN", "Count ages from this time instead of now.")
trust_option = flag("Prune even if nothing was recorded for 90 days.")


@command(
    scope="project",
    short_help="Remove old sessions; keep what was learned.",
    examples="""
    treering sessions prune --scope acme/app --older-than 90d --dry-run
    treering sessions prune --scope acme/app --older-than 90d --yes
    """,
    if_stopped="sessions are pruned one after the other; run it again for the rest",
)
def prune(
    *,
    scope: Scope,
    older_than: str = option(
        "AGE", "Prune sessions not written to for this long: 90d, 12w.", required=True
    ),
    dry_run: bool = flag("Show what would be pruned, and prune nothing."),
    yes: bool = flag("Prune without asking. You cannot undo it."),
    include_imported: bool = imported_option,
    now_ts_ms: str | None = now_option,
    trust_clock: bool = trust_option,
) -> None:
    """Write an episode of every old session, close it, then remove its events.

    It keeps sessions with an open turn or unread messages, imported sessions, and those that a
    remaining session was forked from.

    If the clock is more than 90 days ahead of the last recorded event, or a day earlier,
    nothing is pruned without --trust-clock or --now-ts-ms.
    """
    days = parse_age(older_than, flag="--older-than") / _DAY_MS
    now_ms = _now(now_ts_ms, trust_clock=trust_clock)
    with open_if_there() as ledger:
        plan = ledger.prune(
            scope,
            older_than_days=days,
            include_imported=include_imported,
            now_ms=now_ms,
            dry_run=True,
        )
    if dry_run:
        _show(plan)
        return
    if plan.pruned and not yes:
        if not invocation().as_json:
            with writing_output():
                for line in _lines(plan):
                    say(line)
        raise InvalidInput(
            f"this removes the events of {counted(plan.count, 'session')} of scope {scope},"
            " for good",
            hint="add --yes to do it",
        )
    if not plan.pruned:
        _show(msgspec.structs.replace(plan, dry_run=False))
        return
    with open_existing("change") as ledger:
        receipt = ledger.prune(
            scope, older_than_days=days, include_imported=include_imported, now_ms=now_ms
        )
    _show(receipt)


@command(
    scope="project",
    short_help="Close idle sessions, and prune old ones.",
    examples="""
    treering sessions sweep --scope acme/app --dry-run
    treering sessions sweep --scope acme/app --idle 30m --prune-after never
    """,
    if_stopped="sessions are swept one after the other; run it again for the rest",
)
def sweep(
    *,
    scope: Scope,
    idle: str = option(
        "AGE", "Close sessions not written to for this long, or never. Default: 30m.", default="30m"
    ),
    prune_after: str = option(
        "AGE", "Prune sessions not written to for this long, or never. Default: 90d.", default="90d"
    ),
    dry_run: bool = flag("Show what would be done, and do nothing."),
    include_imported: bool = imported_option,
    now_ts_ms: str | None = now_option,
    trust_clock: bool = trust_option,
) -> None:
    """Close idle sessions and prune old ones, without asking; for a cron job.

    --dry-run shows what would be removed.

    If the clock is more than 90 days ahead of the last recorded event, or a day earlier,
    nothing is pruned without --trust-clock or --now-ts-ms.
    """
    idle_ms, prune_ms = _age(idle, "--idle"), _age(prune_after, "--prune-after")
    now_ms = _now(now_ts_ms, trust_clock=trust_clock)
    with open_if_there("read" if dry_run else "change") as ledger:
        receipt = ledger.sweep(
            scope,
            idle_minutes=None if idle_ms is None else idle_ms / _MINUTE_MS,
            prune_days=None if prune_ms is None else prune_ms / _DAY_MS,
            include_imported=include_imported,
            now_ms=now_ms,
            dry_run=dry_run,
        )
    _show(receipt)


def _now(now_ts_ms: str | None, *, trust_clock: bool) -> int | None:
    """Return the time to count ages from; None is what the clock says, if it can be right."""
    stated = parse_time(now_ts_ms)
    return clock_ms() if stated is None and trust_clock else stated


def _age(text: str, flag: str) -> int | None:
    """Return an age in milliseconds; None is never."""
    return None if text.strip().lower() == NEVER else parse_age(text, flag=flag)


def _show(receipt: SweepReceipt) -> None:
    show(receipt, *_lines(receipt), done="" if receipt.dry_run else "the sessions were swept")


def _lines(receipt: SweepReceipt) -> Iterator[str]:
    scope = receipt.scope
    if receipt.closed:
        verb = "would close" if receipt.dry_run else "closed"
        yield f"{verb} {counted(len(receipt.closed), 'idle session')} of scope {scope}"
        yield from _sampled(receipt.closed)
    if receipt.pruned:
        verb = "would prune" if receipt.dry_run else "pruned"
        gone = "" if receipt.dry_run else f": {counted(receipt.events_expired, 'event')} removed"
        done = "" if receipt.dry_run else f"; {physically(receipt.physical)}"
        yield f"{verb} {counted(len(receipt.pruned), 'old session')} of scope {scope}{gone}{done}"
        yield from _sampled(receipt.pruned)
    if not receipt.closed and not receipt.pruned:
        yield f"nothing to do: no session of scope {scope} is old enough"
    if receipt.kept:
        yield f"{counted(len(receipt.kept), 'session')} kept"
        yield from _sampled(
            [f"{session_id}: {_WHY.get(why, why)}" for session_id, why in receipt.kept.items()]
        )


def _sampled(lines: list[str]) -> Iterator[str]:
    yield from (f"  {line}" for line in lines[:NAMED_MAX])
    if len(lines) > NAMED_MAX:
        yield f"  and {len(lines) - NAMED_MAX:,} more: --json names all"
