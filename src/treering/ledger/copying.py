"""Copying from one ledger to another: the missing events, unchanged, verified on arrival.

The session heads of both ledgers show where to continue. So an interrupted copy, or one that is
repeated later, transfers only what is missing, and stores no progress.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from treering.errors import Corrupt, InvalidInput
from treering.ledger.records import Record, SessionRecord, check_readable, shared_seq
from treering.ledger.restoring import RecordRestorer, check_id_marks, id_marks, note_id_marks
from treering.ledger.verification import verify
from treering.model.receipts import CopyReceipt, SessionRefusal
from treering.model.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.ports import EventStore

    Progress: TypeAlias = Callable[[int, int], None]
    """Called with the number of events done and their total."""

REFUSED_SAMPLE_MAX: Final = 5
_HINT: Final = "run treering verify on the source"


def copy(
    source: EventStore,
    target: EventStore,
    scope: Scope | None = None,
    progress: Progress | None = None,
) -> CopyReceipt:
    """Copy to ``target`` what it lacks of one scope, or of all; a fault affects one session."""
    if source is target:
        raise InvalidInput("a ledger cannot be copied into itself", hint="name another target")
    tally = _Tally(progress)
    plans = _plans(source, target, scope, tally)
    for name, plan in plans.items():
        if plan.coming:
            _check_seal(source, target, Scope(name))
            check_id_marks(target, Scope(name), id_marks(source, Scope(name)))
    for name in list(plans):
        # Removed from the list, so that a plan that is done takes no memory.
        _Passage(source, target, Scope(name), plans.pop(name), tally).carry_out()
        note_id_marks(target, Scope(name), id_marks(source, Scope(name)))
    return tally.receipt()


class _Plan(msgspec.Struct):
    """The sessions of one scope that have to be copied."""

    coming: dict[str, SessionRecord] = {}
    """Sessions with more events in the source, as they are there."""
    behind: dict[str, int] = {}
    """The seq up to which each session is skipped: the target has it, or it was refused."""
    refused: set[str] = set()


class _Tally:
    """Counts the events copied, and keeps the first reasons for refusals."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._sample: list[SessionRefusal] = []
        self._refused = self._done = 0
        self.missing = self.scopes = self.sessions = self.copied = self.present = 0
        self.intact = True

    def advance(self, events: int) -> None:
        """Report that more events are done."""
        self._done += events
        if self._progress is not None:
            # The source may have grown since it was counted.
            self._progress(self._done, max(self._done, self.missing))

    def refuse(self, scope: str, session_id: str, seq: int, reason: str) -> None:
        """Count a session that is not copied, and keep the reason."""
        self._refused += 1
        self.note(scope, session_id, seq, reason)

    def note(self, scope: str, session_id: str, seq: int, reason: str) -> None:
        """Keep a reason, if there is room for it."""
        if len(self._sample) < REFUSED_SAMPLE_MAX:
            self._sample.append(
                SessionRefusal(scope=scope, session_id=session_id, seq=seq, reason=reason)
            )

    def receipt(self) -> CopyReceipt:
        """Return the receipt."""
        return CopyReceipt(
            scopes=self.scopes,
            sessions=self.sessions,
            copied=self.copied,
            present=self.present,
            refused=self._refused,
            complete=not self._refused,
            intact=self.intact,
            refused_sample=self._sample,
        )


def _plans(
    source: EventStore, target: EventStore, scope: Scope | None, tally: _Tally
) -> dict[str, _Plan]:
    """Return a plan for each scope, from the ends of its sessions on both sides."""
    plans: dict[str, _Plan] = {}
    starts: dict[bytes, str] = {}
    for session in source.sessions.records(scope):
        plans.setdefault(session.scope, _Plan()).coming[session.session_id] = session
        starts[session.genesis] = session.session_id
        tally.sessions += 1
        tally.missing += max(session.head_seq - shared_seq(session), 0)
    tally.scopes = len(plans)
    for there in target.sessions.records(scope):
        plan = plans.get(there.scope, _Plan())
        # A session whose name was forgotten, here or there, is recognised by its genesis.
        here = plan.coming.get(starts.get(there.genesis, there.session_id))
        if here is None:
            continue
        shared = shared_seq(here)
        after_seq = max(min(here.head_seq, there.head_seq), shared)
        difference = _difference(source, target, here, there)
        if difference is None:
            tally.present += after_seq - shared
        else:
            plan.refused.add(here.session_id)
            tally.refuse(here.scope, here.session_id, *difference)
            after_seq = max(here.head_seq, shared)
        plan.behind[here.session_id] = after_seq
        tally.missing -= after_seq - shared
        if after_seq == here.head_seq:
            del plan.coming[here.session_id]
    return plans


def _difference(
    source: EventStore, target: EventStore, here: SessionRecord, there: SessionRecord
) -> tuple[int, str] | None:
    """Return where and how the target's session differs from the source's; None if it does not."""
    if here.genesis != there.genesis:
        return 0, "the target has another session of this name"
    if here.salt and not there.salt:
        return 0, "the target has forgotten the session"
    if here.head_link == there.head_link:
        return None
    shorter, longer = (here, target) if here.head_seq < there.head_seq else (there, source)
    seq = shorter.head_seq
    if seq < 0:
        return 0, "the record of where the session ends is gone"
    if seq == shared_seq(here):
        return None
    if longer.sessions.link_at(Scope(here.scope), here.genesis, seq) != shorter.head_link:
        return seq, f"the target has other events, at seq {seq} or before"
    return None


def _check_seal(source: EventStore, target: EventStore, scope: Scope) -> None:
    """Raise InvalidInput if sealed payloads would be copied as plain text."""
    if source.seals.is_sealed(scope) and not target.seals.is_sealed(scope):
        raise InvalidInput(
            f"scope {scope} is encrypted, and its copy would not be",
            hint="encrypt it in the target first:"
            f" treering keys create --scope {scope} --db TARGET",
        )


class _Passage:
    """The copy of one scope."""

    def __init__(
        self, source: EventStore, target: EventStore, scope: Scope, plan: _Plan, tally: _Tally
    ) -> None:
        self._source = source
        self._target = target
        self._scope = scope
        self._plan = plan
        self._tally = tally
        self._arrivals = RecordRestorer(target)
        self._introduced: set[str] = set()
        self._proved: set[str] = set()
        """Sessions whose erasures are proved in the source."""
        self._later: dict[str, SessionRecord] = {}
        """Sessions that have grown since the plan was made, as they are now."""

    def carry_out(self) -> None:
        """Copy the missing events, prove them, and count them."""
        behind, refused = self._plan.behind, self._plan.refused
        for page in self._pages():
            wanted = [r for r in page if r.seq > behind.get(r.session_id, 0)]
            for record in wanted:
                if record.session_id not in refused:
                    self._take(record)
            self._tally.advance(len(wanted))
        for broken in self._arrivals.finish(whole=True):
            self._tally.intact = False
            self._tally.note(
                broken.scope, broken.session_id, broken.seq, f"{broken.fault}: {broken.detail}"
            )
        self._check_ends()
        self._keep_retention()
        self._tally.copied += self._arrivals.added
        self._tally.present += self._arrivals.known

    def _pages(self) -> Iterator[list[Record]]:
        """Yield the records of the scope in order; session by session if that cannot be read."""
        plan = self._plan
        if len(plan.coming) > 1:
            try:
                yield from self._source.reader.record_pages(self._scope, behind=dict(plan.behind))
            except Corrupt:
                pass  # Read alone, every session but the damaged one can be copied.
            else:
                return
        # By where they were forked, parents come first: a fork begins after its parent does.
        for session in sorted(plan.coming.values(), key=shared_seq):
            if session.session_id not in plan.refused:
                yield from self._session_pages(session.session_id)

    def _session_pages(self, name: str) -> Iterator[list[Record]]:
        behind = {name: self._last(name)}
        try:
            yield from self._source.reader.record_pages(self._scope, session_id=name, behind=behind)
        except Corrupt:
            yield from self._up_to_damage(name)

    def _up_to_damage(self, name: str) -> Iterator[list[Record]]:
        """Yield a session event by event, up to the one that cannot be read."""
        while name not in self._plan.refused:
            last = self._last(name)
            try:
                page = self._source.reader.records(self._scope, name, after_seq=last, limit=1)
            except Corrupt as error:
                self._refuse(name, last + 1, str(error))
                return
            if not page:
                return
            yield page

    def _take(self, record: Record) -> None:
        name = record.session_id
        try:
            session = self._session_of(record)
            if name not in self._introduced:
                self._arrivals.introduce(session)
                self._introduced.add(name)
            if self._is_sound(record):
                self._arrivals.take(record, partial(self._refuse, name, record.seq))
                self._plan.behind[name] = record.seq
        except InvalidInput as error:
            self._refuse(name, self._last(name) + 1, str(error))

    def _session_of(self, record: Record) -> SessionRecord:
        """Return the session as it is in the source. Raise InvalidInput if its end was changed."""
        name = record.session_id
        session = self._later.get(name) or self._plan.coming.get(name)
        if session is None or session.head_seq < record.seq:
            session = next(self._source.sessions.records(self._scope, name), None)
            if session is None or session.head_seq < record.seq:
                raise InvalidInput(
                    f"seq {record.seq} comes after the end of the session", hint=_HINT
                )
            self._later[name] = session
        if session.head_seq == record.seq and session.head_link != record.link:
            raise InvalidInput("the record of where the session ends was changed", hint=_HINT)
        return session

    def _is_sound(self, record: Record) -> bool:
        """Whether a payload can be unsealed, and an erasure is proved where the record is from.

        The event that vouches for an erasure comes later than the erased one. Without this check, a
        blank event in the target could be a forgery or the end of an interrupted copy.
        """
        name = record.session_id
        try:
            check_readable(record)
        except Corrupt as error:
            self._refuse(name, record.seq, str(error))
            return False
        if record.erasure is not None and name not in self._proved:
            sessions = self._source.sessions.records(self._scope, name)
            broken = verify(self._source, sessions).first_broken
            if broken is not None:
                self._refuse(name, broken.seq, f"{broken.fault}: {broken.detail}")
                return False
            self._proved.add(name)
        return True

    def _check_ends(self) -> None:
        """Refuse sessions with fewer events in the source than its own record says."""
        for name, session in self._plan.coming.items():
            last = self._last(name)
            if last < session.head_seq and name not in self._plan.refused:
                self._refuse(
                    name,
                    last + 1,
                    f"seq {last + 1} is missing: the session ends at seq {session.head_seq}",
                )

    def _keep_retention(self) -> None:
        """Give the target the scope's policy, if it has the scope and no policy for it."""
        policy = self._source.erasure.retention(self._scope)
        if not policy or self._target.erasure.retention(self._scope):
            return
        # A scope that was created for its policy alone would lack the hashed ids of expired events.
        if next(self._target.sessions.records(self._scope), None) is not None:
            self._target.erasure.set_retention(self._scope, policy)

    def _last(self, name: str) -> int:
        """Return the seq up to which the target has a session, waiting records included."""
        session = self._plan.coming.get(name)
        return self._plan.behind.get(name, 0 if session is None else shared_seq(session))

    def _refuse(self, name: str, seq: int, reason: str) -> None:
        if name not in self._plan.refused:
            self._plan.refused.add(name)
            self._tally.refuse(self._scope, name, seq, reason)
