"""The memory of one scope: learn, recall, fade; every change of it is an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.memory_state import hashed
from treering.errors import InvalidInput, NotFound, ReadOnly
from treering.memory import auditing, fading, listing
from treering.memory.contributor import TOKENS_DEFAULT, MemoryContributor
from treering.memory.events import changed, recallings
from treering.memory.extraction import BUDGET_TOKENS, Extracting
from treering.memory.facts import facts_of, history_of
from treering.memory.identity import UserIdentities
from treering.memory.learning import Learner
from treering.memory.model_reading import ModelReading
from treering.memory.recall import recall
from treering.memory.recall_query import RecallQuery
from treering.memory.recall_result import WEIGHTS, RecallResult
from treering.memory.walls import Walls
from treering.model.arguments import checks_arguments
from treering.model.fields import (
    check_count,
    check_id,
    check_list,
    check_name,
    check_text,
    check_time,
)
from treering.model.memories import (
    CONFIDENCE_DEFAULT,
    EPISODES_DEFAULT,
    IMPORTANCE_DEFAULT,
    RECALL_DEFAULT,
    RECALL_MAX,
    NewFact,
)
from treering.model.queries import PAGE_ITEMS_DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.context.summaries import Summariser
    from treering.derive.memory_state import FactRow
    from treering.ledger.memory_factory import Recorder
    from treering.ledger.sessions import Session
    from treering.memory.ports import Extractor, MemoryStore
    from treering.memory.recall_result import Weights
    from treering.memory.scope_memory import ScopeMemory
    from treering.model.episodes import Episode
    from treering.model.events import Header
    from treering.model.memories import (
        Category,
        ExtractReceipt,
        Fact,
        FactAudit,
        FactChange,
        FactState,
        FadeReceipt,
        LearnResult,
        MergeReceipt,
        Origin,
        UserHandle,
    )
    from treering.model.queries import Page
    from treering.model.scopes import Scope

NOTE_SILENT: Final = (
    "the embedder does not answer: what was learnt lately is not found, the rest by words only"
)
NOTE_STRANGERS: Final = (
    "{count} memories have no vector of the embedder in use and are found by words only:"
    " run treering rebuild --vectors"
)


@checks_arguments
class Memory:
    """What is remembered in one scope. Made by ``ledger.memory``; safe to share between threads."""

    def __init__(
        self,
        store: MemoryStore,
        recorder: Recorder,
        scope_memory: Callable[[], ScopeMemory],
        scope: Scope,
        *,
        new_id: Callable[[], str],
    ) -> None:
        self.scope = scope
        self._store = store
        self._recorder = recorder
        self._scope_memory = scope_memory
        self._walls = Walls(recorder, scope)
        self._learner = Learner(scope_memory, recorder, self._walls, new_id)
        self._identities = UserIdentities(scope_memory, recorder, new_id)

    # Learning.

    def learn(
        self,
        text: str,
        *,
        user: str | None = None,
        category: Category | None = None,
        importance: int = IMPORTANCE_DEFAULT,
        confidence: float = CONFIDENCE_DEFAULT,
        evidence: Sequence[str] = (),
        session_id: str | None = None,
        valid_from_ms: int | None = None,
        valid_to_ms: int | None = None,
        origin: Origin = "host",
        fact_id: str | None = None,
    ) -> LearnResult:
        """Have a fact go through the gate, and remember it if it passes.

        A known fact is stated again and gathers evidence; what it contradicts is superseded; a
        fragment, a passing state or an instruction from outside is not believed, and the reason
        is given. ``evidence`` are ids of events of the scope. ``session`` is the one it was
        learnt in, if not that of its evidence: a group keeps its facts to itself. Times are
        milliseconds since 1970. ``origin`` is who said it: user, agent, tool or host.
        """
        fact = NewFact(
            text=text,
            user=user,
            category=category,
            importance=importance,
            confidence=confidence,
            evidence=tuple(check_list(evidence, "evidence")),
            session_id=session_id,
            valid_from_ms=valid_from_ms,
            valid_to_ms=valid_to_ms,
            origin=origin,
            fact_id=fact_id,
        )
        return self.learn_all([fact])[0]

    def learn_all(
        self, facts: Sequence[NewFact], *, progress: Callable[[int], None] | None = None
    ) -> list[LearnResult]:
        """Learn many facts in their order, as ``learn`` does; many are recorded at once."""
        return self._learner.learn(facts, progress=progress)

    def extract(
        self,
        session_id: str | None = None,
        *,
        model: Extractor | None = None,
        budget_tokens: int = BUDGET_TOKENS,
        again: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> ExtractReceipt:
        """Find facts in what was said since this was last asked, and learn them.

        In one session, or in every one of the scope but those of subagents. Rules find them, and
        need no model; ``model`` may, within ``budget_tokens`` for the scope in a calendar month
        (UTC): when they are used up it stops, and continues the next time. If the model fails,
        rules take over. ``again`` reads all from the beginning; what is known, rejected or
        erased stays so. ``progress`` hears of how many messages were read. Raises NotFound.
        """
        reading = None
        if model is not None:
            budget = check_count(budget_tokens, "budget_tokens")
            reading = ModelReading(model, self._recorder, self.scope, budget_tokens=budget)
        extracting = Extracting(
            self._scope_memory,
            self._recorder,
            self._learner,
            self.scope,
            model=reading,
            progress=progress,
        )
        if session_id is None:
            return extracting.read_all(again=again)
        return extracting.read(check_name(session_id, "session_id"), again=again)

    def accept(self, fact_id: str) -> Fact:
        """Believe a fact that was quarantined, refused or archived. Raises NotFound."""
        row = self._named(fact_id, {"quarantined", "refused", "archived", "current"})
        if row.state != "current" or not row.accepted:
            self._change(row, "memory.restored", reason="accepted")
        return self.fact(fact_id)

    def reject(self, fact_id: str, *, reason: str | None = None) -> Fact:
        """Never recall a fact again. What was recorded of it stays; ``redact`` erases."""
        row = self._named(fact_id, {"quarantined", "refused", "archived", "current"})
        self._change(row, "memory.forgotten", reason=reason or "rejected")
        return self.fact(fact_id)

    # Recalling.

    def recall(
        self,
        query: str | None,
        *,
        user: str | None = None,
        session_id: str | None = None,
        limit: int = RECALL_DEFAULT,
        episodes: int = EPISODES_DEFAULT,
        weights: Weights = WEIGHTS,
        include_archived: bool = False,
        as_of_ms: int | None = None,
        record: bool = True,
    ) -> RecallResult:
        """Return facts and episodes that answer ``query``, the best first, each with why.

        Those of ``user``, of the scope as a whole, and of ``session`` where it names nobody; in a
        group ``session`` only the group's own.
        A ``query`` of None asks for what matters most: a brief for the start of a session. What is
        recalled counts as used, and is recorded in ``session``, unless ``record`` is False.
        ``as_of`` asks what was believed at a time, in milliseconds since 1970.
        """
        asked = None if query is None else check_text(query, "query")
        who = None if user is None else check_name(user, "user")
        where = None if session_id is None else check_name(session_id, "session_id")
        at_ms = None if as_of_ms is None else check_time(as_of_ms)
        told = check_count(episodes, "episodes")
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            asking = RecallQuery(
                query=asked,
                user=self._asked_for(who, where),
                walls=frozenset(
                    None if one is None else hashed(one)
                    for one in self._walls.seen_from(where, who)
                ),
                limit=_limit(limit),
                episodes=0 if at_ms is not None else told,
                now_ms=self._recorder.engine.now_ms() if at_ms is None else at_ms,
                weights=weights,
                include_archived=include_archived,
                as_of_ms=at_ms,
            )
            found = recall(held, asking, self._recorder)
            notes = _notes(held)
        result = RecallResult(
            scope=self.scope,
            query=asked,
            user=who,
            session_id=where,
            fact_hits=found.facts,
            episode_hits=found.episodes,
            notes=notes,
        )
        if not record or as_of_ms is not None or not result.ids:
            return result
        try:
            event_id = self.note_recalled(result.ids, user=who, session_id=where)
        except ReadOnly:
            # Where nothing may be written, what is known may still be asked for.
            return result
        return msgspec.structs.replace(result, event_id=event_id)

    def note_recalled(
        self,
        ids: Sequence[str],
        *,
        user: str | None = None,
        session_id: str | None = None,
        run_id: str | None = None,
    ) -> str:
        """Record that memories were shown to a model, and count them as used.

        Those that had faded are believed again.
        """
        home = self._walls.opened(session_id)
        held = self._scope_memory()
        with held.lock:
            facts = held.fold.state.facts
            archived = [one for one in ids if one in facts and facts[one].state == "archived"]
        events = [
            changed(self.scope, "memory.restored", one, session=home, user=user, reason="used")
            for one in archived
        ]
        events += recallings(self.scope, ids, session=home, user=user, run_id=run_id)
        return self._recorder.engine.append(events)[-1].event_id

    def contributor(
        self,
        *,
        user: str | None = None,
        session_id: str | None = None,
        limit: int = RECALL_DEFAULT,
        max_tokens: int = TOKENS_DEFAULT,
    ) -> MemoryContributor:
        """Return a contributor that puts what is recalled into a context, within a budget."""
        return MemoryContributor(
            self, user=user, session_id=session_id, limit=limit, max_tokens=max_tokens
        )

    # Looking.

    def fact(self, fact_id: str) -> Fact:
        """Return one fact, whatever became of it. Raises NotFound."""
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            row = self._row(held, fact_id)
            found = facts_of(held, [row], self._recorder)
        if not found:
            raise _unknown(fact_id, self.scope)
        return found[0]

    def fact_ids(self, prefix: str, *, limit: int = PAGE_ITEMS_DEFAULT) -> list[str]:
        """Return the ids of facts that begin like this, whatever became of them."""
        check_text(prefix, "prefix")
        check_count(limit, "limit")
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            begun = sorted(one for one in held.fold.state.facts if one.startswith(prefix))
            return begun[:limit]

    def facts(
        self,
        *,
        user: str | None = None,
        state: FactState | Sequence[FactState] = "current",
        category: Category | None = None,
        as_of_ms: int | None = None,
        valid_at_ms: int | None = None,
        limit: int = PAGE_ITEMS_DEFAULT,
        after: str | None = None,
    ) -> Page[Fact]:
        """Return facts of the scope, the newest first; those of groups among them.

        ``as_of`` asks what the ledger believed at a time, ``valid_at`` what held at a time, both in
        milliseconds since 1970. ``after`` is the ``next_cursor`` of the page before.
        """
        query = listing.FactQuery(
            user=None if user is None else check_name(user, "user"),
            states=listing.check_states(state),
            category=category,
            as_of_ms=None if as_of_ms is None else check_time(as_of_ms),
            valid_at_ms=None if valid_at_ms is None else check_time(valid_at_ms),
            limit=check_count(limit, "limit"),
            after=after,
        )
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            return listing.list_facts(held, query, self._recorder)

    def history(self, fact_id: str) -> list[FactChange]:
        """Return all that happened to a fact, in order. Raises NotFound."""
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            return list(history_of(self._row(held, fact_id), self._store, held))

    def facts_citing(self, event_id: str) -> list[Fact]:
        """Return the facts that cite an event."""
        cited = hashed(check_id(event_id))
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            rows = [row for row in held.fold.state.facts.values() if cited in row.cites]
            return facts_of(held, rows, self._recorder)

    def audit(self) -> FactAudit:
        """Return how sound what is remembered is."""
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            return auditing.audit(held, self._recorder)

    # Episodes.

    def write_episode(
        self, session: Session, *, summariser: Summariser | None = None
    ) -> Header | None:
        """Record what a session was about since its last episode; None if nothing was said.

        Closing a session and pruning it do so by themselves.
        """
        if session.scope != self.scope:
            raise InvalidInput(
                f"the session is in scope {session.scope}, not {self.scope}",
                hint="ask the memory of its own scope",
            )
        return session.write_episode(summariser=summariser)

    def episodes(
        self,
        *,
        user: str | None = None,
        limit: int = PAGE_ITEMS_DEFAULT,
        after: str | None = None,
    ) -> Page[Episode]:
        """Return one page of the scope's episodes, newest first; ``user`` limits it to one person.

        ``after`` is the ``next_cursor`` of the previous page.
        """
        query = listing.EpisodeQuery(
            user=None if user is None else check_name(user, "user"),
            limit=check_count(limit, "limit"),
            after=after,
        )
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            return listing.list_episodes(held, query)

    # Fading.

    def fade(self, *, now_ms: int | None = None, dry_run: bool = False) -> FadeReceipt:
        """Archive facts that nobody used for long. What is used again comes back."""
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            at_ms = self._recorder.engine.now_ms() if now_ms is None else check_time(now_ms)
            return fading.fade(held, self._recorder, now_ms=at_ms, dry_run=dry_run)

    # Who is who.

    def resolve_user(self, channel: str, handle: str) -> str:
        """Return the user behind a handle on a channel; a new one if nobody has it yet."""
        return self._identities.resolve(
            check_name(channel, "channel"), check_name(handle, "handle")
        )

    def link_handle(self, user: str, channel: str, handle: str) -> UserHandle:
        """Have a handle on a channel belong to a user. Raises InvalidInput if it is another's."""
        return self._identities.link(
            check_name(user, "user"), check_name(channel, "channel"), check_name(handle, "handle")
        )

    def unlink_handle(self, channel: str, handle: str) -> str:
        """Take a handle from its user; return who that was. Raises NotFound."""
        return self._identities.unlink(check_name(channel, "channel"), check_name(handle, "handle"))

    def merge_users(self, user: str, other: str) -> MergeReceipt:
        """Say that two users are the same person: what is known of ``other`` is of ``user``."""
        return self._identities.merge(check_name(user, "user"), check_name(other, "other"))

    def unmerge_users(self, user: str, other: str) -> MergeReceipt:
        """Undo a merger: each has again what is their own."""
        return self._identities.merge(
            check_name(user, "user"), check_name(other, "other"), undo=True
        )

    def handles(self, user: str | None = None) -> list[UserHandle]:
        """Return the handles of a user, or of all of them."""
        return self._identities.handles(None if user is None else check_name(user, "user"))

    def user_ids(self, user: str) -> list[str]:
        """Return all ids that a person goes by as a user, the given one first."""
        return self._identities.ids_of(check_name(user, "user"))

    # Its own.

    def _asked_for(self, user: str | None, session: str | None) -> str | None:
        """Return whose memories are meant: those of the one person that a session is with."""
        if user is not None or session is None:
            return user
        return self._walls.attribution(session).user

    def _row(self, held: ScopeMemory, fact_id: str) -> FactRow:
        row = held.fold.state.facts.get(check_id(fact_id))
        if row is None:
            raise _unknown(fact_id, self.scope)
        return row

    def _named(self, fact_id: str, states: set[str]) -> FactRow:
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            row = self._row(held, fact_id)
        if row.state not in states:
            raise InvalidInput(
                f"fact {fact_id} is {row.state}", hint="learn it anew if it holds after all"
            )
        return row

    def _change(self, row: FactRow, kind: str, *, reason: str) -> None:
        held = self._scope_memory()
        with held.lock:
            telling = held.fold.tellings([row.position]).get(row.position)
        session = None if telling is None else telling.session_id
        user = None if telling is None else telling.user_id
        event = changed(self.scope, kind, row.id, session=session, user=user, reason=reason)
        self._recorder.engine.append([event])


def _notes(held: ScopeMemory) -> list[str]:
    notes = [NOTE_SILENT] if held.shelf.embedder_failed else []
    without_vector = held.shelf.without_vector
    return [*notes, NOTE_STRANGERS.format(count=without_vector)] if without_vector else notes


def _limit(limit: int) -> int:
    if check_count(limit, "limit") > RECALL_MAX:
        raise InvalidInput(f"a limit of {limit} is too large", hint=f"ask for {RECALL_MAX} at most")
    return limit


def _unknown(fact_id: str, scope: str) -> NotFound:
    return NotFound(f"no fact {fact_id} in scope {scope}", hint="see treering facts list")
