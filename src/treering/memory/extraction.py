"""Extraction: facts are found in what was said, by rules or by a model, and go through the gate.

A session is read from where it was last left. Every fact has an id that follows from its words and
the salts of the events that say them, so reading twice, or after a crash, changes nothing, and what
was rejected or erased stays so. With the events their salts are erased, and the words cannot be
guessed from the id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.claim_relations import relation
from treering.derive.fact_extraction import (
    CORRECTION_REACH,
    extract_facts,
    legacy_statement_id,
    same_statement_id,
)
from treering.derive.memory_state import hashed
from treering.errors import InvalidInput
from treering.memory.conversations import AttributedCandidate, conversation_parts, whole
from treering.model.memories import EVIDENCE_MAX, ExtractReceipt, LearnResult, NewFact

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from treering.derive.fact_extraction import Candidate, Utterance
    from treering.ledger.memory_factory import Recorder
    from treering.memory.conversations import ConversationPart
    from treering.memory.learning import Learner
    from treering.memory.model_reading import ModelReading
    from treering.memory.scope_memory import ScopeMemory
    from treering.model.events import Event
    from treering.model.scopes import Scope

BUDGET_TOKENS: Final = 100_000
"""What models may use for a scope in a month, unless somebody says otherwise."""
RULES: Final = "rules"
LOOKS_MAX: Final = 3
"""How often learning is tried if events are erased meanwhile."""


class Extracting:
    """Reads conversations of one scope, once, and counts what comes of it."""

    def __init__(
        self,
        scope_memory: Callable[[], ScopeMemory],
        recorder: Recorder,
        learner: Learner,
        scope: Scope,
        *,
        model: ModelReading | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._scope_memory = scope_memory
        self._recorder = recorder
        self._learner = learner
        self._scope = scope
        self._model = model
        self._progress = progress
        self._sessions = 0
        self._messages = 0
        self._candidates = 0
        """Those that rules gave."""
        self._learned: list[LearnResult] = []
        self._stopped: str | None = None

    def read_all(self, *, again: bool) -> ExtractReceipt:
        """Read every session of the scope but those that agents began for themselves."""
        for session_id, head_seq in self._recorder.sessions(self._scope):
            if self._stopped is not None:
                break
            through = self._recorder.read_through(self._scope, session_id)
            if again or through < head_seq:
                settings = self._recorder.settings(self._scope, session_id)
                if settings is None or settings.spawned_by is None:
                    self.read(session_id, again=again)
        return self.receipt()

    def read(self, session_id: str, *, again: bool) -> ExtractReceipt:
        """Read what is new in a session; ``again``, all of it. Raises NotFound."""
        through = self._recorder.read_through(self._scope, session_id)
        conversation = self._recorder.conversation(
            self._scope, session_id, after_seq=0 if again else through
        )
        self._sessions += bool(conversation.spoken)
        parts: Iterator[ConversationPart] = iter([whole(conversation)])
        if self._model is not None and conversation.spoken:
            parts = conversation_parts(conversation, CORRECTION_REACH)
        for stretch in parts:
            found = self._found(stretch)
            if self._stopped is not None:
                break
            self._learn(found, session_id)
            # The place is kept behind the facts: a crash in between has them found again.
            if stretch.until_seq > through:
                self._recorder.note_read(self._scope, session_id, stretch.until_seq)
            self._messages += len(stretch.spoken)
            if self._progress is not None and stretch.spoken:
                self._progress(len(stretch.spoken))
        return self.receipt()

    def receipt(self) -> ExtractReceipt:
        """Return what reading came to so far."""
        model = self._model
        return ExtractReceipt(
            scope=self._scope,
            sessions=self._sessions,
            messages=self._messages,
            candidates=self._candidates + (0 if model is None else model.proposed),
            learned=self._learned,
            by=RULES if model is None else model.name,
            calls=0 if model is None else model.calls,
            spent_tokens=0 if model is None else model.spent_tokens,
            stopped=self._stopped,
        )

    # Finding.

    def _found(self, stretch: ConversationPart) -> list[AttributedCandidate]:
        if self._model is not None:
            if not self._model.affords(stretch):
                self._stopped = "budget"
                return []
            found = self._model.read(stretch)
            if found is not None:
                return _attributed(found, stretch)
        found = _attributed(_by_rules(stretch), stretch)
        self._candidates += len(found)
        return found

    # Learning.

    def _learn(self, found: Sequence[AttributedCandidate], session_id: str) -> None:
        facts = self._untold(self._facts(found, session_id))
        for look in range(LOOKS_MAX):
            cited = dict.fromkeys(one for fact in facts for one in fact.evidence)
            gone = self._recorder.gone(self._scope, list(cited))
            facts = [fact for fact in facts if gone.isdisjoint(fact.evidence)]
            try:
                self._learned += self._learner.learn(facts)
            except InvalidInput:
                # Something that they cite may have been erased just now.
                if look == LOOKS_MAX - 1:
                    raise
            else:
                return

    def _facts(self, found: Sequence[AttributedCandidate], session_id: str) -> list[NewFact]:
        """Return what was found as facts, but for those whose evidence was erased meanwhile."""
        sayings = [_saying(one.candidate) for one in found]
        said_in = dict.fromkeys(event_id for saying in sayings for event_id in saying)
        salts = self._recorder.salts(self._scope, list(said_in))
        return [
            _fact(one, session_id, [salts[event_id] for event_id in saying])
            for one, saying in zip(found, sayings, strict=True)
            if salts.keys() >= set(saying)
        ]

    def _erased_before(self, facts: Sequence[NewFact]) -> set[str]:
        """Return the ids of facts that an earlier version learnt under another id, and erased."""
        if self._recorder.engine.store.rekeyed_ms() is None:
            return set()
        legacy = {
            f"memory:{legacy_statement_id(cited, fact.text)}": fact.fact_id
            for fact in facts
            for cited in fact.evidence
        }
        there = self._recorder.places(self._scope, list(legacy))
        gone = self._recorder.gone(self._scope, list(there)) if there else set()
        return {fact_id for one in gone if (fact_id := legacy[one]) is not None}

    def _untold(self, facts: Sequence[NewFact]) -> list[NewFact]:
        """Return facts without those that were made of the same words before.

        They may have been told as part of another fact that was known, or in other words, and
        rejected since.
        """
        if not facts:
            return []
        erased = self._erased_before(facts)
        facts = [fact for fact in facts if fact.fact_id not in erased]
        held = self._scope_memory()
        with held.lock:
            held.refresh()
            fold = held.fold
            citing = fold.state.citing
            tellings = [fold.tellings(citing.get(hashed(fact.evidence[0]), [])) for fact in facts]
            known = fold.state.facts
            return [
                fact
                for fact, told in zip(facts, tellings, strict=True)
                if fact.fact_id in known or not any(_tells(event, fact) for event in told.values())
            ]


def _by_rules(stretch: ConversationPart) -> list[AttributedCandidate]:
    """Return what rules find, each person's words by themselves."""
    new = {one.utterance.event_id for one in stretch.spoken}
    speakers: dict[str | None, list[Utterance]] = {}
    for one in (*stretch.earlier, *stretch.spoken):
        speakers.setdefault(one.user, []).append(one.utterance)
    return [
        AttributedCandidate(_told_now(candidate, new), user)
        for user, utterances in speakers.items()
        for candidate in extract_facts(utterances)
    ]


def _told_now(candidate: Candidate, new: Collection[str]) -> Candidate:
    """Return a candidate by what is new of its evidence: the rest was learnt when it was said.

    Who says again what they said before says that it holds now, whatever came in between. Only a
    correction needs what it corrects to be understood.
    """
    fresh = [one for one in candidate.evidence if one in new]
    others = [one for one in candidate.evidence if one not in new] if candidate.correction else []
    sayings = [one for one in candidate.sayings if one[-1] in new]
    return msgspec.structs.replace(
        candidate, evidence=(*fresh, *others), sayings=tuple(sayings or candidate.sayings)
    )


def _attributed(
    found: Sequence[AttributedCandidate], stretch: ConversationPart
) -> list[AttributedCandidate]:
    """Return what is new and of somebody who is known, in the order it was said."""
    order = {one.utterance.event_id: at for at, one in enumerate(stretch.spoken)}
    kept: list[tuple[int, AttributedCandidate]] = []
    for one in found:
        said_at = max((order.get(cited, -1) for cited in one.candidate.evidence), default=-1)
        # In a group, nobody is told by a name that is missing.
        is_known = one.user is not None or not stretch.in_group or one.candidate.role == "tool"
        if said_at >= 0 and is_known:
            kept.append((said_at, one))
    return [one for _, one in sorted(kept, key=lambda pair: pair[0])]


def _saying(candidate: Candidate) -> tuple[str, ...]:
    """Return the events that say it, when it was said first; all that are cited, if nobody knows.

    All of their salts go into its id: none of them alone may give the words of another back.
    """
    return candidate.sayings[0] if candidate.sayings else candidate.evidence[:EVIDENCE_MAX]


def _fact(found: AttributedCandidate, session_id: str, salts: Sequence[bytes]) -> NewFact:
    candidate = found.candidate
    return NewFact(
        text=candidate.text,
        user=found.user,
        category=candidate.category,
        importance=candidate.importance,
        confidence=candidate.confidence,
        evidence=candidate.evidence[:EVIDENCE_MAX],
        session_id=session_id,
        origin=candidate.role,
        fact_id=same_statement_id(salts, candidate.text),
    )


def _tells(event: Event, fact: NewFact) -> bool:
    payload = event.payload if isinstance(event.payload, dict) else {}
    text, evidence = payload.get("text"), payload.get("evidence") or []
    if not isinstance(text, str) or event.user_id != fact.user:
        return False
    if not set(fact.evidence) <= set(evidence):
        return False
    return relation(fact.text, text, 0.0) in {"same", "refines"}
