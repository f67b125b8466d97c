"""Redaction and retention: what may be erased, what goes with it, and the event that vouches."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from treering.errors import InvalidInput, NotPermitted
from treering.ledger.lineage import NO_END
from treering.ledger.paging import pages_by_time
from treering.ledger.records import AGENT, Draft, Erasure, Selection, SessionErasure
from treering.model.events import Header, NewEvent
from treering.model.fields import instant
from treering.model.kinds import EPISODE_KINDS, ERASURE_KINDS, HIDING_KINDS, IMPORTED, RUN_ENDS
from treering.model.queries import PAGE_ITEMS_MAX, Query
from treering.model.receipts import ExpireReceipt, RedactReceipt, Target
from treering.model.scopes import DAY_MS, DEFAULT_RETENTION, Scope, check_retention, cutoffs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from treering.ledger.drafts import Drafter
    from treering.ledger.ports import EventStore
    from treering.model.scopes import Retention

CLOCK_AHEAD_DAYS_MAX: Final = 90
"""The longest default retention: a clock that is further ahead would leave nothing that expires."""
CLOCK_BEHIND_DAYS_MAX: Final = 1
ROUND_EVENTS_MAX: Final = 2_000
"""Events erased in one transaction, so that writers wait a moment, not a minute."""
COPIES_LOOKED_FOR: Final = 500
"""Events whose copies are looked for at once."""
TRANSCRIPTS: Final = "transcripts"
"""Keyed records that hold what other events say, in the form of the program that said it. Each has
the id of its event as a key, and is erased with it. Its refs may name a session of ``summaries``,
which goes, too."""

KEPT: Final = {
    **dict.fromkeys(ERASURE_KINDS, "vouches for what was erased and is kept forever"),
    **dict.fromkeys(("run.started", *RUN_ENDS), "says what became of its run and is kept forever"),
    IMPORTED: "says that its session is not to expire and is kept forever",
    "inbox.taken": "says what became of a message and is kept forever",
    **dict.fromkeys(
        ("session.opened", "session.forked"), "says what its session may do and is kept forever"
    ),
    **dict.fromkeys(HIDING_KINDS, "says what a model is shown and is kept forever"),
    **dict.fromkeys(
        ("memory.superseded", "memory.forgotten"), "says what no longer holds and is kept forever"
    ),
}
"""Kinds that do not expire, and why."""

NUMBERS_ONLY: Final = HIDING_KINDS
"""Kinds that are not redacted: there is nothing in them, and without them the undone comes back."""

Replacement = Literal["null", "placeholder"]

Provenance: TypeAlias = "Callable[[Scope, Sequence[str]], Iterable[str]]"
"""Given ids of events, returns the ids of the facts that were learned from them."""


def redact(
    store: EventStore,
    drafter: Drafter,
    target: Target,
    *,
    replacement: Replacement,
    provenance: Provenance | None = None,
    copies: bool = True,
) -> RedactReceipt:
    """Erase the content of some events or one session; rows, order and chain stay.

    Facts that were learned from it are erased, too; ``provenance`` finds them. So are the
    ``copies`` in transcripts.
    """
    scope, session_id = Scope(target.scope), target.session_id
    ids = target.event_ids if target.event_id is None else (target.event_id,)
    if replacement not in {"null", "placeholder"}:
        raise InvalidInput(f"invalid replacement: {replacement}", hint="use null or placeholder")
    rounds = [
        Selection(scope=scope, event_ids=tuple(some), spare=NUMBERS_ONLY) for some in batched(ids)
    ] or [Selection(scope=scope, session_id=session_id, spare=NUMBERS_ONLY)]
    count, erased, shared = _redact(store, drafter, rounds, replacement)
    # Searched for afterwards: summaries written from now on do not contain it.
    all_ids = ids or _ids(store, rounds[0])
    copied = _copied(store, scope, all_ids) if copies else ()
    retold = list(dict.fromkeys([*_retold(store, scope, session_id, ids), *copied]))
    retellings_redacted, blobs, _ = _redact(store, drafter, _chosen(scope, retold), replacement)
    learned = [] if provenance is None else provenance(scope, all_ids)
    memories_redacted, more, _ = _redact(store, drafter, _chosen(scope, learned), replacement)
    erased += blobs + more
    return RedactReceipt(
        target=target,
        replacement=replacement,
        redacted_count=count,
        retellings_redacted=retellings_redacted,
        memories_redacted=memories_redacted,
        blobs_erased=erased,
        blobs_shared=shared,
        physical=store.erasure.finish(),
    )


def batched(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield as many of ``ids`` at a time as one transaction erases."""
    for start in range(0, len(ids), ROUND_EVENTS_MAX):
        yield ids[start : start + ROUND_EVENTS_MAX]


def _chosen(scope: Scope, event_ids: Iterable[str]) -> list[Selection]:
    listed = tuple(event_ids)
    return [Selection(scope=scope, event_ids=tuple(some)) for some in batched(listed)]


def _retold(
    store: EventStore, scope: Scope, session_id: str | None, ids: Sequence[str]
) -> Iterator[str]:
    """Return the events that repeat content that is about to be redacted."""
    if session_id is not None:
        yield from derived_texts_of(store, scope, session_id, [(1, NO_END)])
        return
    seqs: dict[str, list[int]] = {}
    for some in batched(ids):
        for location in store.reader.find_ids(scope, some).values():
            seqs.setdefault(location.session_id, []).append(location.seq)
    for name, own_seqs in seqs.items():
        ranges = [(seq, seq) for seq in sorted(own_seqs)]
        yield from derived_texts_of(store, scope, name, ranges)


def _copied(store: EventStore, scope: Scope, ids: Sequence[str]) -> Iterator[str]:
    """Return the records of transcripts that hold the same as events that are redacted.

    Events of one entry have its id, and further ones a number after it.
    """
    keys = list(dict.fromkeys(event_id.partition(".")[0] for event_id in ids))
    for start in range(0, len(keys), COPIES_LOOKED_FOR):
        some = keys[start : start + COPIES_LOOKED_FOR]
        for key in store.record_keys.latest(scope, TRANSCRIPTS, some):
            after = 0
            while page := store.record_keys.history(
                scope, TRANSCRIPTS, key, after=after, limit=ROUND_EVENTS_MAX
            ):
                yield from (event.event_id for event in page)
                for name in {event.refs.get("summaries") for event in page} - {None}:
                    yield from _ids(store, Selection(scope=scope, session_id=name))
                after = page[-1].position


def _ids(store: EventStore, selection: Selection) -> list[str]:
    """Return the ids of the events of a session."""
    if selection.session_id is None:
        return []
    event_ids: list[str] = []
    after = 0
    while page := store.reader.by_seq(
        Header, selection.scope, selection.session_id, after_seq=after, limit=ROUND_EVENTS_MAX
    ):
        event_ids += [header.event_id for header in page]
        after = page[-1].seq
    return event_ids


def redact_all(store: EventStore, drafter: Drafter, scope: Scope) -> tuple[int, int]:
    """Erase the content of every session of a scope; return how many events and blobs that took.

    The caller sees to it that the bytes leave the files.
    """
    count = erased = 0
    for session in store.sessions.records(scope):
        selection = Selection(scope=scope, session_id=session.session_id)
        redacted, blobs, _ = _redact(store, drafter, [selection], "null")
        count += redacted
        erased += blobs
    return count, erased


def _redact(
    store: EventStore, drafter: Drafter, rounds: Iterable[Selection], replacement: Replacement
) -> tuple[int, int, int]:
    """Erase in rounds; return how many events and blobs that took, and how many others hold."""
    count = erased = shared = 0
    for selection in rounds:
        vouch = voucher(drafter, selection.scope, "ledger.redacted", "redacted", replacement)
        more = True
        while more:
            done = store.erasure.erase(
                selection, erasure=replacement, limit=ROUND_EVENTS_MAX, vouch=vouch
            )
            count += sum(done.by_kind.values())
            erased += done.blobs_erased
            shared += done.blobs_shared
            more = done.more and not selection.event_ids
    return count, erased, shared


def effective_retention(store: EventStore, scope: Scope, policy: Retention | None) -> Retention:
    """Return the policy in force: the defaults, the scope's own, then what this call says."""
    stated = check_retention(policy or {})
    for kind, days in stated.items():
        if days is not None and kind in KEPT:
            raise InvalidInput(f"{kind} {KEPT[kind]}", hint="leave it out of the policy")
    return {**DEFAULT_RETENTION, **store.erasure.retention(scope), **stated}


def expire(
    store: EventStore,
    drafter: Drafter,
    scope: Scope,
    *,
    policy: Retention | None,
    now_ms: int,
    is_clock: bool,
    dry_run: bool,
) -> ExpireReceipt:
    """Remove events past their retention; sessions with an open run are left alone.

    So are sessions that were imported, by the defaults: only what somebody chose reaches them. If
    ``now_ms`` is what the clock says, it has to be plausible. Raises InvalidInput if it is not.
    """
    retention = effective_retention(store, scope, policy)
    chosen = {**store.erasure.retention(scope), **check_retention(policy or {})}
    selection = Selection(
        scope=scope,
        cutoffs=cutoffs(retention, now_ms),
        kept_if_imported=frozenset(retention) - frozenset(chosen),
    )
    by_kind, kept_open, kept_imported = store.erasure.count_expirable(selection)
    sessions: set[str] = set()
    erased = shared = 0
    if is_clock and by_kind and not dry_run:
        check_clock(store, scope, now_ms)
    if not dry_run:
        counted: Counter[str] = Counter()
        vouch = voucher(drafter, scope, "ledger.expired", "expired", "expired")
        more = True
        while more:
            done = store.erasure.erase(
                selection, erasure="expired", limit=ROUND_EVENTS_MAX, vouch=vouch
            )
            counted.update(done.by_kind)
            sessions.update(done.sessions)
            erased += done.blobs_erased
            shared += done.blobs_shared
            more = done.more
        by_kind = dict(counted)
    return ExpireReceipt(
        scope=scope,
        now_ts_ms=now_ms,
        dry_run=dry_run,
        deleted_total=sum(by_kind.values()),
        deleted_by_type=dict.fromkeys(EPISODE_KINDS, 0) | by_kind,
        policy_days=dict.fromkeys(EPISODE_KINDS) | dict(sorted(retention.items())),
        sessions_touched=len(sessions),
        sessions_kept_open=kept_open,
        sessions_kept_imported=kept_imported,
        blobs_erased=erased,
        blobs_shared=shared,
        physical="done" if dry_run else store.erasure.finish(),
    )


def check_clock(store: EventStore, scope: Scope, now_ms: int) -> None:
    """Refuse a clock that cannot be right by when events were recorded. Raises InvalidInput."""
    latest = store.reader.by_time(Header, Query(scope=scope, backwards=True, limit=1))
    recorded_ms = latest[0].recorded_ms if latest else now_ms
    if recorded_ms - now_ms <= CLOCK_BEHIND_DAYS_MAX * DAY_MS:
        found_ms = _recorded_before(store, scope, now_ms)
        # Elsewhere in the ledger something may have happened since.
        others = () if _is_recent(found_ms, now_ms) else _other_scopes(store, scope)
        every_ms = [found_ms, *(_recorded_before(store, other, now_ms) for other in others)]
        recorded_ms = max(every_ms)
        # A ledger of today has nothing to compare the clock with.
        if not recorded_ms or _is_recent(recorded_ms, now_ms):
            return
    raise InvalidInput(
        f"the clock says {instant(now_ms)}, but the last events were recorded at"
        f" {instant(recorded_ms)}: nothing was removed",
        hint="check the clock; if it is right, use --trust-clock, or give now_ms in Python",
    )


def _recorded_before(store: EventStore, scope: Scope, now_ms: int) -> int:
    """Return when the last event of the days before today was recorded; 0 if there is none.

    What was recorded today proves nothing: the same clock said when.
    """
    query = Query(scope=scope, until_ms=now_ms - DAY_MS, backwards=True, limit=1)
    return max((header.recorded_ms for header in store.reader.by_time(Header, query)), default=0)


def _is_recent(recorded_ms: int, now_ms: int) -> bool:
    return now_ms - recorded_ms <= CLOCK_AHEAD_DAYS_MAX * DAY_MS


def _other_scopes(store: EventStore, scope: Scope) -> set[Scope]:
    """Return the other scopes of the ledger that this user may see."""
    with contextlib.suppress(NotPermitted):
        return {Scope(record.scope) for record in store.sessions.records()} - {scope}
    return set()


def expire_session(
    store: EventStore,
    drafter: Drafter,
    scope: Scope,
    session_id: str,
    *,
    until_seq: int,
    spare: frozenset[str],
) -> int:
    """Remove the events of a session up to ``until_seq``, except the kinds ``spare``.

    Return how many events that took.

    The caller sees to it that the bytes leave the files.
    """
    selection = Selection(scope=scope, session_id=session_id, until_seq=until_seq, spare=spare)
    vouch = voucher(drafter, scope, "ledger.expired", "expired", "expired")
    count, more = 0, True
    while more:
        done = store.erasure.erase(
            selection, erasure="expired", limit=ROUND_EVENTS_MAX, vouch=vouch
        )
        count += sum(done.by_kind.values())
        more = done.more
    return count


def voucher(
    drafter: Drafter, scope: Scope, kind: str, verb: str, erasure: Erasure, **more: Any
) -> Callable[[SessionErasure], Draft]:
    """Return a function that drafts the vouching event of an erasure; ``more`` is added to it."""

    def vouch(cover: SessionErasure) -> Draft:
        noun = "event" if cover.count == 1 else "events"
        return drafter.vouch(
            NewEvent(
                scope=scope,
                session_id=cover.session_id,
                kind=kind,
                agent_id=AGENT,
                summary=f"{cover.count} {noun} {verb}",
                payload={
                    "erasure": erasure,
                    "count": cover.count,
                    "digest": cover.digest.hex(),
                    "ranges": [list(stretch) for stretch in cover.ranges],
                    **more,
                },
            )
        )

    return vouch


KINDS: Final = ("context.compacted", "episode.written")
"""Their refs hold the first and last seq that they summarise."""


def derived_texts_of(
    store: EventStore, scope: Scope, session_id: str, ranges: Sequence[tuple[int, int]]
) -> Iterator[str]:
    """Return the ids of events that summarise ranges of a session, given in order.

    A range is a first and a last seq. Summaries in sessions forked from it after that are included.
    """
    queue = [(session_id, ranges)]
    while queue:
        name, summarised = queue.pop()
        for header in _all(store, scope, name):
            if not header.redacted and _summarises(header, summarised):
                yield header.event_id
        for fork in store.sessions.forks(scope, name):
            cut = store.sessions.cut(scope, fork)
            shared = [(a, min(b, cut.seq)) for a, b in summarised if a <= cut.seq] if cut else []
            if shared:
                queue.append((fork, shared))


def _summarises(header: Header, ranges: Sequence[tuple[int, int]]) -> bool:
    """Whether a summary covers anything in ``ranges``; without refs it covers all before it."""
    refs = header.refs if isinstance(header.refs, dict) else {}
    through, start = refs.get("through_seq"), refs.get("from_seq")
    through = through if type(through) is int else header.seq - 1
    start = start if type(start) is int else 0
    # The first range that does not end before the summary starts decides.
    at = bisect_left(ranges, start, key=lambda ends: ends[1])
    return at < len(ranges) and ranges[at][0] <= through


def _all(store: EventStore, scope: Scope, session_id: str) -> Iterator[Header]:
    query = Query(scope=scope, session_id=session_id, kinds=KINDS, limit=PAGE_ITEMS_MAX)
    return chain.from_iterable(pages_by_time(store, Header, query))
