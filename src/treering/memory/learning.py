"""Learning: facts are validated, pass the gate, and are recorded in batches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import DuplicateEvent, InvalidInput
from treering.memory.fact_gate import CheckedFact, FactGate, GateDecision, fact_event_id
from treering.model.fields import check_id, check_list, check_name, check_text, check_time
from treering.model.memories import (
    CATEGORIES,
    EVIDENCE_MAX,
    ORIGINS,
    TEXT_CHARACTERS_MAX,
    LearnResult,
    NewFact,
)
from treering.model.sessions import COMMON
from treering.rules.fact_categories import category_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.ledger.memory_factory import Recorder
    from treering.memory.scope_memory import ScopeMemory
    from treering.memory.walls import Walls
    from treering.model.events import Header

CHUNK: Final = 500
"""Facts that are decided and recorded together."""


class Learner:
    """Learns the facts of one scope."""

    def __init__(
        self,
        scope_memory: Callable[[], ScopeMemory],
        recorder: Recorder,
        walls: Walls,
        new_id: Callable[[], str],
    ) -> None:
        self._scope_memory = scope_memory
        self._recorder = recorder
        self._walls = walls
        self._new_id = new_id

    def learn(
        self, facts: Sequence[NewFact], *, progress: Callable[[int], None] | None = None
    ) -> list[LearnResult]:
        """Learn facts in order. Raise InvalidInput before anything is recorded."""
        checked = [self._checked(fact) for fact in check_list(facts, "facts")]
        learned: list[LearnResult] = []
        for at in range(0, len(checked), CHUNK):
            chunk = checked[at : at + CHUNK]
            learned += self._learn(chunk)
            if progress is not None:
                progress(len(chunk))
        return learned

    def _learn(self, asked: list[CheckedFact]) -> list[LearnResult]:
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.refresh(store=False)
            self._check_evidence(scope_memory, asked)
            generation = scope_memory.fold.generation
            try:
                decisions, headers = self._decide(scope_memory, asked)
            except DuplicateEvent:
                # Another process learned a fact with the same id just now: it is known by now.
                scope_memory.refresh(store=False)
                decisions, headers = self._decide(scope_memory, asked)
            learned = [
                _recorded(decision, [next(headers) for _ in decision.events])
                for decision in decisions
            ]
            scope_memory.refresh(store=False)
            if scope_memory.fold.generation != generation:
                # Evidence may have been erased meanwhile: facts must not outlive it.
                return self._withdraw(scope_memory, asked, decisions, learned)
            return learned

    def _decide(
        self, scope_memory: ScopeMemory, asked: list[CheckedFact]
    ) -> tuple[list[GateDecision], Iterator[Header]]:
        """Decide about facts, and record all decisions or none."""
        decisions = FactGate(scope_memory, asked, erased=self._erased(scope_memory, asked)).decide()
        events = [event for decision in decisions for event in decision.events]
        return decisions, iter(self._recorder.engine.append(events) if events else [])

    def _withdraw(
        self,
        scope_memory: ScopeMemory,
        asked: list[CheckedFact],
        decisions: list[GateDecision],
        learned: list[LearnResult],
    ) -> list[LearnResult]:
        cited = dict.fromkeys(event_id for ask in asked for event_id in ask.fact.evidence)
        gone = self._recorder.gone(scope_memory.scope, list(cited))
        results: list[LearnResult] = []
        for ask, decision, result in zip(asked, decisions, learned, strict=True):
            if gone.isdisjoint(ask.fact.evidence) or result.event_id is None or not decision.events:
                results.append(result)
                continue
            self._recorder.engine.redact(scope_memory.scope, result.event_id)
            results.append(
                msgspec.structs.replace(
                    result, outcome="refused", reason="evidence_erased", text=""
                )
            )
        scope_memory.refresh(store=False)
        return results

    def _erased(self, scope_memory: ScopeMemory, asked: Sequence[CheckedFact]) -> set[str]:
        """Return the ids of facts that were learned before and then erased."""
        known_facts = scope_memory.fold.state.facts
        ids = {
            event_id: ask.fact_id
            for ask in asked
            if ask.fact_id not in known_facts and (event_id := fact_event_id(ask)) is not None
        }
        places = self._recorder.places(scope_memory.scope, list(ids)) if ids else {}
        gone = self._recorder.gone(scope_memory.scope, list(places)) if places else set()
        return {ids[event_id] for event_id in gone}

    def _check_evidence(self, scope_memory: ScopeMemory, asked: Sequence[CheckedFact]) -> None:
        cited = dict.fromkeys(event_id for ask in asked for event_id in ask.fact.evidence)
        gone = self._recorder.gone(scope_memory.scope, list(cited)) if cited else set()
        for event_id in cited:
            if event_id in gone:
                raise InvalidInput(f"event {event_id} was erased", hint="cite another one")

    def _checked(self, fact: NewFact) -> CheckedFact:
        if not isinstance(fact, NewFact):
            raise InvalidInput(
                f"a fact is a treering.memory.NewFact, not a {type(fact).__name__}", hint="make one"
            )
        text = " ".join(check_text(fact.text, "text").split())
        evidence = tuple(dict.fromkeys(check_id(event_id) for event_id in fact.evidence))
        session = None if fact.session_id is None else check_name(fact.session_id, "session_id")
        _check_numbers(fact, evidence)
        home, recorded_ms = self._walls.origin_of(session, evidence)
        valid_from_ms = (
            recorded_ms if fact.valid_from_ms is None else check_time(fact.valid_from_ms)
        )
        valid_to_ms = None if fact.valid_to_ms is None else check_time(fact.valid_to_ms)
        valid_from_ms = self._recorder.engine.now_ms() if valid_from_ms is None else valid_from_ms
        if valid_to_ms is not None and valid_to_ms <= valid_from_ms:
            raise InvalidInput("a fact cannot end before it begins", hint="check valid_to_ms")
        attribution = (
            COMMON if fact.user is not None or home is None else self._walls.attribution(home)
        )
        user = attribution.user if fact.user is None else check_name(fact.user, "user")
        wall = self._walls.wall_of(home)
        clean = self._recorder.masked(text[: TEXT_CHARACTERS_MAX + 1])
        return CheckedFact(
            fact=msgspec.structs.replace(
                fact,
                text=clean,
                user=user,
                evidence=evidence,
            ),
            fact_id=self._new_id() if fact.fact_id is None else check_id(fact.fact_id),
            category=fact.category or category_of(text),
            session=home,
            wall=wall or attribution.wall,
            is_walled=wall is not None,
            valid_from_ms=valid_from_ms,
            is_secret=clean != text[: TEXT_CHARACTERS_MAX + 1],
        )


def _recorded(decision: GateDecision, headers: list[Header]) -> LearnResult:
    if not headers:
        return decision.learned
    if headers[0].redacted:
        # Others learned and erased it just now: it must not come back.
        return msgspec.structs.replace(
            decision.learned, outcome="refused", reason="erased_before", superseded=()
        )
    return msgspec.structs.replace(decision.learned, event_id=headers[0].event_id)


def _check_numbers(fact: NewFact, evidence: Sequence[str]) -> None:
    if fact.category is not None and fact.category not in CATEGORIES:
        raise InvalidInput(
            f"invalid category: {fact.category}", hint=f"use one of {', '.join(CATEGORIES)}"
        )
    if fact.origin not in ORIGINS:
        raise InvalidInput(f"invalid origin: {fact.origin}", hint=f"use {' or '.join(ORIGINS)}")
    if type(fact.importance) is not int or not 1 <= fact.importance <= 10:
        raise InvalidInput(f"invalid importance: {fact.importance!r}", hint="use 1 to 10")
    confidence = fact.confidence
    if (
        isinstance(confidence, bool)
        or not isinstance(confidence, int | float)
        or not (math.isfinite(confidence) and 0 <= confidence <= 1)
    ):
        raise InvalidInput(f"invalid confidence: {confidence!r}", hint="use 0 to 1")
    if len(evidence) > EVIDENCE_MAX:
        raise InvalidInput(
            f"{len(evidence)} events are too many for one fact", hint=f"cite {EVIDENCE_MAX} at most"
        )
