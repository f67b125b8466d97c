"""The memory of one scope: learn, recall, fade. Every change to it is an event."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final, Unpack

import msgspec

from treering.derive.fact_rows import hashed
from treering.derive.memory_state import BOTH_HOLD
from treering.errors import DuplicateEvent, InvalidInput, NotFound, ReadOnly
from treering.lazy import LazyModule
from treering.memory import fading, listing
from treering.memory.contributor import TOKENS_DEFAULT, MemoryContributor
from treering.memory.events import fact_change_event, recall_events
from treering.memory.facts import doubts_of, facts_of, history_of
from treering.memory.identity import UserIdentities
from treering.memory.recall import recall
from treering.memory.recall_episodes import leading_first
from treering.memory.recall_query import RecallQuery
from treering.memory.recall_result import RecallResult
from treering.memory.recall_turns import LAG_MAX, recall_turns
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
    BUDGET_TOKENS,
    CONFIDENCE_DEFAULT,
    EPISODES_DEFAULT,
    IMPORTANCE_DEFAULT,
    RECALL_DEFAULT,
    RECALL_MAX,
    TURNS_DEFAULT,
    NewFact,
)
from treering.model.queries import PAGE_ITEMS_DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.context.summaries import Summariser
    from treering.derive.fact_rows import FactRow
    from treering.ledger.memory_factory import Recorder
    from treering.ledger.sessions import Session
    from treering.memory import extraction, learning, model_extraction
    from treering.memory.ports import Extractor, MemoryStore
    from treering.memory.recall_query import RankingOptions
    from treering.memory.scope_memory import ScopeMemory
    from treering.model.events import Header
    from treering.model.memories import (
        Category,
        DoubtfulChange,
        Episode,
        ExtractReceipt,
        Fact,
        FactAudit,
        FactChange,
        FactDetails,
        FactState,
        FadeReceipt,
        LearnResult,
        Origin,
        RecalledTurn,
    )
    from treering.model.queries import Page
    from treering.model.scopes import Scope
else:
    # Who only recalls needs none of them.
    extraction = LazyModule("treering.memory.extraction")
    learning = LazyModule("treering.memory.learning")
    model_extraction = LazyModule("treering.memory.model_extraction")

NOTE_SILENT: Final = (
    "the embedder does not answer: recent memories are missing, older ones are found by words only"
)
NOTE_STRANGERS: Final = (
    "{count} memories have no vector of the current embedder and are found by words only:"
    " run treering rebuild --vectors"
)
NOTE_LAG: Final = (
    "turns are left out, because {count} events are not indexed yet:"
    " run treering search --mode hybrid once"
)


@checks_arguments
class Memory:
    """What is remembered in one scope, as ``ledger.memory`` returns it. Thread-safe."""

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
        self._new_id = new_id
        self.users = UserIdentities(scope_memory, recorder, new_id)
        """Users, their handles on channels, and which of them are one person."""

    # Learning.

    @property
    def _learner(self) -> learning.Learner:
        return learning.Learner(self._scope_memory, self._recorder, self._walls, self._new_id)

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
        origin: Origin = "host",
        **details: Unpack[FactDetails],
    ) -> LearnResult:
        """Check a fact and remember it if it passes.

        A known fact gains the new evidence; a fact that it contradicts is superseded; fragments,
        passing states and instructions from outside are refused or quarantined, with the reason.
        ``evidence`` holds ids of events of the scope. ``session_id`` is the session it was learned
        in, if that is not the session of its evidence: a group keeps its facts to itself. Times are
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
            origin=origin,
            **details,
        )
        return self.learn_all([fact])[0]

    def learn_all(
        self, facts: Sequence[NewFact], *, progress: Callable[[int], None] | None = None
    ) -> list[LearnResult]:
        """Learn several facts in order, as ``learn`` does; they are recorded in batches."""
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
        """Find facts in the messages since the last call, and learn them.

        Reads one session, or all sessions of the scope except those of subagents. Rules find the
        facts and need no model. With ``model``, a model finds them, within ``budget_tokens`` per
        scope and calendar month (UTC): when the budget is spent it stops, and it continues in a
        later call. If the model fails, the rules take over. ``again`` reads from the beginning;
        facts that are known, rejected or erased stay so. ``progress`` is called with the number of
        messages read. Raise NotFound if the session does not exist.
        """
        reading = None
        if model is not None:
            budget = check_count(budget_tokens, "budget_tokens")
            reading = model_extraction.ModelExtractor(
                model, self._recorder, self.scope, budget_tokens=budget
            )
        extracting = extraction.ConversationReader(
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
        """Accept a quarantined, refused or archived fact. Raise NotFound without one."""
        row = self._named(fact_id, {"quarantined", "refused", "archived", "current"})
        if row.state != "current" or not row.accepted:
            self._change(row, "memory.restored", reason="accepted")
        return self.fact(fact_id)

    def reject(self, fact_id: str, *, reason: str | None = None) -> Fact:
        """Never recall a fact again. Its events are kept; ``redact`` erases them."""
        row = self._named(fact_id, {"quarantined", "refused", "archived", "current"})
        self._change(row, "memory.forgotten", reason=reason or "rejected")
        return self.fact(fact_id)

    def doubts(self, *, user: str | None = None) -> list[DoubtfulChange]:
        """Return the facts that may have ended an earlier one: ``settle`` decides about each."""
        found = self._scope_memory().fresh(lambda held: doubts_of(held, self._recorder))
        return [
            each for each in found if user is None or each.fact.user == check_name(user, "user")
        ]

    def settle(self, fact_id: str, *, ended: bool) -> Fact:
        """Decide whether a fact ended the earlier one that it may have ended; return that one.

        If not, both hold. Raise NotFound if there is nothing to decide about the fact, or if
        somebody else has decided otherwise meanwhile.
        """
        doubt = next((each for each in self.doubts() if each.fact.id == fact_id), None)
        if doubt is None:
            raise _undoubted(fact_id)
        fact, earlier = doubt.fact, doubt.earlier
        changed, kind = fact, "memory.restored"
        details: dict[str, Any] = {"reason": BOTH_HOLD}
        if ended:
            changed, kind = earlier, "memory.superseded"
            details = {
                "reason": "reviewed",
                "by": fact.id,
                "valid_to_ms": fact.valid_from_ms,
                "signs": list(doubt.signs),
            }
        try:
            row = self._named(changed.id, {"current"})
        except InvalidInput:
            raise _undoubted(fact_id) from None
        # All who decide about a fact give their events the same id, and one is recorded; the next
        # one, if that was erased.
        ids = (f"settled-{fact.id}-{number}" for number in count())
        try:
            while self._change(row, kind, next(ids), **details).redacted:
                pass
        except DuplicateEvent:
            raise _undoubted(fact_id) from None
        return self.fact(earlier.id)

    # Recalling.

    def recall(
        self,
        query: str | None,
        *,
        user: str | None = None,
        session_id: str | None = None,
        limit: int = RECALL_DEFAULT,
        episodes: int = EPISODES_DEFAULT,
        turns: int = TURNS_DEFAULT,
        as_of_ms: int | None = None,
        record: bool = True,
        **ranking: Unpack[RankingOptions],
    ) -> RecallResult:
        """Return the facts, turns and episodes that answer ``query``, best first, each with why.

        Searches the memories of ``user``, those of the whole scope, and those of ``session_id`` if
        that session names no user; in a group session, only those of the group. A ``query`` of None
        returns what matters most: a brief for the start of a session. Recalled memories count as
        used, and the recall is recorded in ``session_id``, unless ``record`` is False. ``as_of_ms``
        asks what was believed at a time, in milliseconds since 1970.
        """
        question = None if query is None else check_text(query, "query")
        user_id = None if user is None else check_name(user, "user")
        session = None if session_id is None else check_name(session_id, "session_id")
        at_ms = None if as_of_ms is None else check_time(as_of_ms)
        episode_limit = check_count(episodes, "episodes")
        turn_limit = check_count(turns, "turns")
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.refresh()
            recall_query = RecallQuery(
                query=question,
                user=self._asked_for(user_id, session),
                walls=frozenset(
                    None if wall is None else hashed(wall)
                    for wall in self._walls.visible_walls(session, user_id)
                ),
                limit=_limit(limit),
                episodes=0 if at_ms is not None else episode_limit,
                turns=0 if at_ms is not None else turn_limit,
                now_ms=self._recorder.engine.now_ms() if at_ms is None else at_ms,
                as_of_ms=at_ms,
                **ranking,
            )
            matches = recall(scope_memory, recall_query, self._recorder)
            turn_hits, turn_notes = self._turns(scope_memory, recall_query)
            notes = _notes(scope_memory)
        result = RecallResult(
            scope=self.scope,
            query=question,
            user=user_id,
            session_id=session,
            fact_hits=matches.facts,
            episode_hits=leading_first(matches.episodes, turn_hits, question),
            turn_hits=turn_hits,
            notes=[*notes, *turn_notes],
        )
        if not record or as_of_ms is not None or not result.ids:
            return result
        try:
            event_id = self.note_recalled(result.ids, user=user_id, session_id=session)
        except ReadOnly:
            # A read-only ledger can still be asked.
            return result
        return msgspec.structs.replace(result, event_id=event_id)

    def brief(
        self,
        *,
        user: str | None = None,
        session_id: str | None = None,
        limit: int = RECALL_DEFAULT,
        episodes: int = EPISODES_DEFAULT,
        record: bool = True,
    ) -> RecallResult:
        """Return what matters most, for the start of a session.

        These are facts by importance and use, and the latest episodes.
        """
        return self.recall(
            None,
            user=user,
            session_id=session_id,
            limit=limit,
            episodes=episodes,
            record=record,
        )

    def note_recalled(
        self,
        ids: Sequence[str],
        *,
        user: str | None = None,
        session_id: str | None = None,
        run_id: str | None = None,
    ) -> str:
        """Record that memories were shown to a model, and count them as used.

        Archived memories become current again.
        """
        home = self._walls.existing_session(session_id)
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            facts = scope_memory.fold.state.facts
            archived = [
                fact_id
                for fact_id in ids
                if fact_id in facts and facts[fact_id].state == "archived"
            ]
        events = [
            fact_change_event(
                self.scope, "memory.restored", fact_id, session=home, user=user, reason="used"
            )
            for fact_id in archived
        ]
        events += recall_events(self.scope, ids, session=home, user=user, run_id=run_id)
        return self._recorder.engine.append(events)[-1].event_id

    def contributor(
        self,
        *,
        user: str | None = None,
        session_id: str | None = None,
        limit: int = RECALL_DEFAULT,
        max_tokens: int = TOKENS_DEFAULT,
    ) -> MemoryContributor:
        """Return a contributor that adds recalled memories to a context, within ``max_tokens``."""
        return MemoryContributor(
            self, user=user, session_id=session_id, limit=limit, max_tokens=max_tokens
        )

    # Looking.

    def fact(self, fact_id: str) -> Fact:
        """Return one fact in any state. Raise NotFound if there is none with this id."""
        facts = self._scope_memory().fresh(
            lambda held: facts_of(held, [self._row(held, fact_id)], self._recorder)
        )
        if not facts:
            raise _unknown(fact_id, self.scope)
        return facts[0]

    def fact_ids(self, prefix: str, *, limit: int = PAGE_ITEMS_DEFAULT) -> list[str]:
        """Return the ids of facts that start with ``prefix``, in any state."""
        check_text(prefix, "prefix")
        check_count(limit, "limit")
        return self._scope_memory().fresh(
            lambda held: sorted(fact for fact in held.fold.state.facts if fact.startswith(prefix))
        )[:limit]

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
        """Return one page of the scope's facts, newest first, including facts of groups.

        ``as_of_ms`` asks what the ledger believed at a time, ``valid_at_ms`` what was true at a
        time, both in milliseconds since 1970. ``after`` is the ``next_cursor`` of the previous
        page.
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
        return self._scope_memory().fresh(
            lambda held: listing.list_facts(held, query, self._recorder)
        )

    def history(self, fact_id: str) -> list[FactChange]:
        """Return every change to a fact, in order. Raise NotFound if there is none with this id."""
        return self._scope_memory().fresh(
            lambda held: list(history_of(self._row(held, fact_id), self._store, held))
        )

    def facts_citing(self, event_id: str) -> list[Fact]:
        """Return the facts that cite an event."""
        cited = hashed(check_id(event_id))

        def citing(held: ScopeMemory) -> list[Fact]:
            rows = [row for row in held.fold.state.facts.values() if cited in row.cites]
            return facts_of(held, rows, self._recorder)

        return self._scope_memory().fresh(citing)

    def audit(self) -> FactAudit:
        """Return how reliable the memory is: counts by state, missing evidence, duplicates."""
        return self._scope_memory().fresh(lambda held: listing.audit(held, self._recorder))

    # Episodes.

    def write_episode(
        self, session: Session, *, summariser: Summariser | None = None
    ) -> Header | None:
        """Record an episode of a session since its last one; None if nothing was said.

        Closing and pruning a session record one automatically.
        """
        if session.scope != self.scope:
            raise InvalidInput(
                f"the session is in scope {session.scope}, not {self.scope}",
                hint="use the memory of that scope",
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
        return self._scope_memory().fresh(lambda held: listing.list_episodes(held, query))

    # Fading.

    def fade(self, *, now_ms: int | None = None, dry_run: bool = False) -> FadeReceipt:
        """Archive facts that have not been used for a long time. Using one restores it."""
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.refresh()
            at_ms = self._recorder.engine.now_ms() if now_ms is None else check_time(now_ms)
            return fading.fade(scope_memory, self._recorder, now_ms=at_ms, dry_run=dry_run)

    def _turns(
        self, scope_memory: ScopeMemory, query: RecallQuery
    ) -> tuple[list[RecalledTurn], list[str]]:
        """Return the turns that answer a query, and why there are none."""
        if not query.turns or query.query is None or scope_memory.is_sealed:
            return [], []
        lag = self._store.documents_lag(self.scope, "events")
        if lag > LAG_MAX:
            return [], [NOTE_LAG.format(count=lag)]
        return recall_turns(scope_memory, query, self._recorder, self._walls), []

    def _asked_for(self, user: str | None, session: str | None) -> str | None:
        """Return the user to recall for: the one given, or the only person in the session."""
        if user is not None or session is None:
            return user
        return self._walls.attribution(session).user

    def _row(self, scope_memory: ScopeMemory, fact_id: str) -> FactRow:
        row = scope_memory.fold.state.facts.get(check_id(fact_id))
        if row is None:
            raise _unknown(fact_id, self.scope)
        return row

    def _named(self, fact_id: str, states: set[str]) -> FactRow:
        row = self._scope_memory().fresh(lambda held: self._row(held, fact_id))
        if row.state not in states:
            raise InvalidInput(
                f"fact {fact_id} is {row.state}", hint="add it again if it is true after all"
            )
        return row

    def _change(
        self, row: FactRow, kind: str, event_id: str | None = None, *, reason: str, **details: Any
    ) -> Header:
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            stated = scope_memory.fold.events_at([row.position]).get(row.position)
        session = None if stated is None else stated.session_id
        user = None if stated is None else stated.user_id
        event = fact_change_event(
            self.scope, kind, row.id, session=session, user=user, reason=reason, **details
        )
        return self._recorder.engine.append([msgspec.structs.replace(event, event_id=event_id)])[0]


def _notes(scope_memory: ScopeMemory) -> list[str]:
    notes = [NOTE_SILENT] if scope_memory.documents.embedder_failed else []
    without_vector = scope_memory.documents.without_vector
    return [*notes, NOTE_STRANGERS.format(count=without_vector)] if without_vector else notes


def _limit(limit: int) -> int:
    if check_count(limit, "limit") > RECALL_MAX:
        raise InvalidInput(f"a limit of {limit} is too large", hint=f"ask for {RECALL_MAX} at most")
    return limit


def _undoubted(fact_id: str) -> NotFound:
    return NotFound(
        f"there is nothing to decide about fact {fact_id}", hint="see treering facts review"
    )


def _unknown(fact_id: str, scope: str) -> NotFound:
    return NotFound(f"no fact {fact_id} in scope {scope}", hint="see treering facts list")
