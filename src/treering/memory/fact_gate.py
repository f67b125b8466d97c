"""The gate: decides whether a new fact is stored, revises a known one, or is refused.

A fact is compared only with facts of the same person, behind the same wall, in the same scope.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.fact_rows import hashed
from treering.derive.memory_state import FactPayload
from treering.derive.search_texts import fact_text
from treering.errors import Unavailable
from treering.lazy import LazyModule
from treering.memory.change_decision import COMPARED_MAX as CHANGED_MAX
from treering.memory.change_decision import DISPUTED, ChangeVerdict
from treering.memory.events import fact_change_event, fact_event
from treering.model.events import NewEvent
from treering.model.memories import EVIDENCE_MAX, LearnResult, NewFact
from treering.rules.claim_relations import ended_words, relation
from treering.rules.claim_updates import is_undecided
from treering.rules.claim_words import statement_of
from treering.rules.claims import claim_key, claim_slot, read_claim
from treering.rules.fact_quality import judge_fact

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.memory.ports import Matrix
    from treering.memory.scope_memory import ScopeMemory
    from treering.rules.claim_relations import Relation
else:
    np = LazyModule("numpy")

SIMILAR_FROM: Final = 0.6
"""Facts with a lower cosine are not compared."""
BLOCK: Final = 64
"""Facts whose neighbours are searched at once."""
COMPARED_MAX: Final = 4
"""Nearest facts that are compared."""
NAMING_MAX: Final = 20
"""Newest facts that are compared because they name what is over."""


class CheckedFact(msgspec.Struct, frozen=True):
    """A validated fact with the session, wall and user that it belongs to."""

    fact: NewFact
    fact_id: str
    category: str
    session: str | None
    wall: str | None
    """The session that keeps it to itself; None if it belongs to its user or the scope."""
    valid_from_ms: int
    is_walled: bool = False
    """Whether that session is a group."""
    is_secret: bool = False
    """Whether a secret was masked in the text."""


class GateDecision(msgspec.Struct, frozen=True):
    """What became of one fact, and the events that record it."""

    learned: LearnResult
    events: list[NewEvent]


class KnownFact(msgspec.Struct, gc=False):
    """A fact that new ones are compared with."""

    content: FactPayload
    user: str | None
    session: str | None
    similarity: float = 0.0


class FactGate:
    """Decides about facts in order; each decision sees the ones before it."""

    def __init__(
        self,
        scope_memory: ScopeMemory,
        asked: Sequence[CheckedFact],
        *,
        erased: Collection[str] = (),
    ) -> None:
        self._scope_memory = scope_memory
        self._asked = asked
        self._erased = erased
        """Ids of facts that were learned before and then erased."""
        self._state = scope_memory.fold.state
        self._new: dict[str, KnownFact] = {}
        """Facts decided just now, by id."""
        self._gone: set[str] = set()
        """Ids of facts superseded by them."""
        self._slots: dict[tuple[str | None, str | None, str], str] = {}
        self._statements: dict[tuple[str | None, str | None, str], str] = {}
        self._stated_at: dict[tuple[str | None, str | None], dict[str, int]] = {}
        """Per owner, the index in ``asked`` of the last statement of each new fact."""
        self._noted: dict[int, str] = {}
        """The id of the fact that each of ``asked`` became, by its index."""
        self._vectors: Matrix | None = None
        self._among: Matrix | None = None
        """The cosines of all facts with each other, once any of them is needed."""
        self._near: dict[int, list[tuple[str, float]]] = {}
        self._changeable: dict[int, list[tuple[str, float]]] = {}
        """Per fact that speaks of a change, the nearest facts, however far."""
        self._counts: dict[tuple[str | None, str | None], int] = {}
        """Per owner, how many facts were known."""

    def decide(self) -> list[GateDecision]:
        """Return one decision per fact."""
        self._look_near()
        return [self._decide(at, asked) for at, asked in enumerate(self._asked)]

    def _decide(self, at: int, asked: CheckedFact) -> GateDecision:
        fact = asked.fact
        content = self._content(asked)
        known_row = self._state.facts.get(asked.fact_id)
        if known_row is not None or asked.fact_id in self._new:
            return GateDecision(_learned("known", content), [])
        if asked.fact_id in self._erased:
            # An erased fact does not come back, nor does it contradict newer ones.
            refusal = msgspec.structs.replace(_learned("refused", content), reason="erased_before")
            return GateDecision(refusal, [])
        if asked.is_secret:
            hint = "keep secrets in a secret store"
            return self._refuse(asked, content, "refuse", "secret", hint)
        verdict = judge_fact(fact.text, origin=fact.origin)
        if verdict.outcome != "accept":
            return self._refuse(asked, content, verdict.outcome, verdict.reason, verdict.hint)
        if fact.origin == "agent" and not fact.evidence:
            # A model may have made it up: somebody must have said it.
            hint = "cite the events that say so, or accept it by hand"
            return self._refuse(asked, content, "quarantine", "unsupported", hint)
        contradicted: list[KnownFact] = []
        for known_fact in self._comparable(at, asked, content):
            relation_to_known = self._relation(content, known_fact)
            if relation_to_known == "same":
                # Keep the first wording: a fact should not change with every repetition.
                same = msgspec.structs.replace(
                    content,
                    text=known_fact.content.text,
                    statement=known_fact.content.statement,
                    slot=known_fact.content.slot,
                    category=known_fact.content.category,
                )
                return self._revise(asked, same, known_fact, at)
            if relation_to_known == "refines":
                return self._revise(asked, content, known_fact, at)
            if relation_to_known == "contradicts":
                contradicted.append(known_fact)
        return self._judge(asked, content, contradicted, at)

    def _judge(
        self, asked: CheckedFact, content: FactPayload, contradicted: list[KnownFact], at: int
    ) -> GateDecision:
        """Store a fact that ends others, by the rules or, where these know nothing, by signs."""
        if not contradicted and self._changes_from(at) is None:
            return self._store(asked, content, [], at)
        if is_undecided(content.text):
            # "I might leave Acme", "Ben didn't leave Acme": neither is a change.
            return self._store(asked, content, [], at)
        ended = [one for one in contradicted if not self._disputes(content, one)]
        if ended:
            return self._store(asked, content, ended, at)
        verdict, changed = self._changed(at, content)
        if contradicted and (verdict is None or not verdict.is_certain):
            verdict = ChangeVerdict(contradicted[0].content.id, is_certain=False, signs=DISPUTED)
        if verdict is None or verdict.is_certain:
            signs = None if verdict is None else verdict.signs
            return self._store(asked, content, changed, at, signs=signs)
        # Whether both hold is for somebody to decide; until then both do.
        content.may_end, content.signs = verdict.key, verdict.signs
        return self._store(asked, content, [], at)

    def _content(self, asked: CheckedFact) -> FactPayload:
        fact = asked.fact
        key = claim_key(read_claim(fact.text))
        return FactPayload(
            id=asked.fact_id,
            text=fact.text,
            category=asked.category,
            importance=fact.importance,
            confidence=fact.confidence,
            statement=hashed(statement_of(fact.text)),
            slot=None if key is None else hashed(key),
            walled=asked.is_walled,
            valid_from_ms=asked.valid_from_ms,
            valid_to_ms=fact.valid_to_ms,
            evidence=fact.evidence,
            source_session=asked.session,
        )

    def _relation(self, content: FactPayload, one: KnownFact) -> Relation:
        if content.statement == one.content.statement:
            return "same"
        return relation(content.text, one.content.text, one.similarity)

    def _disputes(self, content: FactPayload, one: KnownFact) -> bool:
        """Whether a model is sure that a fact does not end one that a rule would have it end."""
        # Two values of one attribute of one subject are certain.
        if content.slot is not None and content.slot == one.content.slot:
            return False
        # A fact about earlier times ends nothing later, so there is nothing to review.
        if content.valid_from_ms < one.content.valid_from_ms:
            return False
        judge = self._scope_memory.judge
        return judge is not None and judge.disputes(content.text, one.content.text)

    def _changed(
        self, at: int, content: FactPayload
    ) -> tuple[ChangeVerdict | None, list[KnownFact]]:
        """Return the fact that a new one changes or may change, in words that no rule knows."""
        judge, least = self._scope_memory.judge, self._changes_from(at)
        if judge is None or least is None:
            return None, []
        nearest = [
            *self._changeable.get(at, ()),
            *self._near_among_new(at, CHANGED_MAX, least),
        ]
        nearest.sort(key=lambda each: -each[1])
        near = {fact_id: cosine for fact_id, cosine in nearest if fact_id not in self._gone}
        known = {
            one.content.id: one
            for one in self._read(list(near), near)
            # A fact about earlier times changes nothing later.
            if one.content.valid_from_ms <= content.valid_from_ms
        }
        earlier = {fact_id: one.content.text for fact_id, one in known.items()}
        verdict = judge.changed(content.text, earlier, known=self._count_known(at))
        return verdict, [] if verdict is None else [known[verdict.key]]

    # Outcomes.

    def _refuse(
        self,
        asked: CheckedFact,
        content: FactPayload,
        outcome: str,
        reason: str | None,
        hint: str | None,
    ) -> GateDecision:
        quarantined = outcome == "quarantine"
        content.reason, content.quarantined = reason, quarantined
        event = fact_event(
            self._scope_memory.scope,
            "memory.refused",
            content,
            session=asked.session,
            user=asked.fact.user,
            event_id=fact_event_id(asked),
            summary=f"fact {'quarantined' if quarantined else 'refused'}: {reason}",
        )
        learned = _learned("quarantined" if quarantined else "refused", content)
        learned = msgspec.structs.replace(learned, reason=reason, hint=hint)
        return GateDecision(learned, [event])

    def _revise(
        self, asked: CheckedFact, content: FactPayload, one: KnownFact, at: int
    ) -> GateDecision:
        before = one.content
        evidence = tuple(dict.fromkeys([*before.evidence, *content.evidence]))
        until = _until(before, content)
        nothing_new = (
            evidence == before.evidence
            and until == before.valid_to_ms
            and content.valid_from_ms >= before.valid_from_ms
            and content.statement == before.statement
            and content.confidence <= before.confidence
            and content.importance <= before.importance
            and self._is_current(before.id)
        )
        if nothing_new:
            return GateDecision(_learned("known", before), [])
        after = msgspec.structs.replace(
            content,
            id=before.id,
            importance=max(before.importance, content.importance),
            confidence=max(before.confidence, content.confidence),
            valid_from_ms=min(before.valid_from_ms, content.valid_from_ms),
            valid_to_ms=until,
            evidence=evidence[-EVIDENCE_MAX:],
        )
        user = one.user
        event = fact_event(
            self._scope_memory.scope, "memory.revised", after, session=asked.session, user=user
        )
        self._note(KnownFact(after, user, asked.session), at)
        return GateDecision(_learned("revised", after), [event])

    def _store(
        self,
        asked: CheckedFact,
        content: FactPayload,
        contradicted: list[KnownFact],
        at: int,
        *,
        signs: tuple[str, ...] | None = None,
    ) -> GateDecision:
        scope, user, session = self._scope_memory.scope, asked.fact.user, asked.session
        event = fact_event(
            scope,
            "memory.stored",
            content,
            session=session,
            user=user,
            event_id=fact_event_id(asked),
        )
        events, gone = [event], []
        for opposed in contradicted:
            if content.valid_from_ms >= opposed.content.valid_from_ms:
                old, new, until = opposed.content.id, content.id, content.valid_from_ms
            else:
                # The new fact is about earlier times: the known one about later times stays.
                old, new, until = content.id, opposed.content.id, opposed.content.valid_from_ms
            gone.append(old)
            events.append(
                fact_change_event(
                    scope,
                    "memory.superseded",
                    old,
                    session=session,
                    user=user,
                    by=new,
                    valid_to_ms=until,
                    signs=None if signs is None else list(signs),
                )
            )
        self._gone.update(gone)
        self._note(KnownFact(content, user, session), at)
        learned = _learned("superseding" if gone else "stored", content)
        learned = msgspec.structs.replace(
            learned, superseded=tuple(gone), may_end=content.may_end, signs=content.signs or signs
        )
        return GateDecision(learned, events)

    def _note(self, known: KnownFact, at: int) -> None:
        content, owner = known.content, (known.user, self._asked[at].wall)
        self._new[content.id] = known
        self._statements[*owner, content.statement] = content.id
        if content.slot is not None and content.id not in self._gone:
            self._slots[*owner, content.slot] = content.id
        self._stated_at.setdefault(owner, {})[content.id] = at
        self._noted[at] = content.id

    # Candidates for comparison.

    def _comparable(self, at: int, asked: CheckedFact, content: FactPayload) -> list[KnownFact]:
        """Return facts that may say the same or the opposite, certain matches first."""
        near: dict[str, float] = {}
        owner = (asked.fact.user, asked.wall)
        # A denial has no slot of its own, and is compared with the fact in the slot it denies.
        denied = claim_slot(read_claim(content.text))
        slot = content.slot or (None if denied is None else hashed(denied))
        for table, key in ((self._statements, content.statement), (self._slots, slot)):
            if key is not None and (fact_id := table.get((*owner, key))) is not None:
                near.setdefault(fact_id, 1.0)
        wall = None if asked.wall is None else hashed(asked.wall)
        for user in self._users(asked.fact.user):
            twin = self._state.competing("statement", (user, wall), content.statement)
            rival = None if slot is None else self._state.competing("slot", (user, wall), slot)
            for row in (twin, rival):
                if row is not None:
                    near.setdefault(row.id, 1.0)
        for fact_id, similarity in self._near.get(at, []):
            near.setdefault(fact_id, similarity)
        for fact_id, similarity in self._near_among_new(at, COMPARED_MAX, SIMILAR_FROM):
            near.setdefault(fact_id, similarity)
        for fact_id in self._naming(asked):
            near.setdefault(fact_id, 0.0)
        wanted = [fact_id for fact_id in near if fact_id not in self._gone]
        return self._read(wanted, near)

    def _naming(self, asked: CheckedFact) -> list[str]:
        """Return facts with the words for what a new one says is over, however it says so."""
        scope_memory, columns = self._scope_memory, self._scope_memory.columns
        named = (scope_memory.documents.term_ids(words) for words in ended_words(asked.fact.text))
        having_all = scope_memory.documents.lexicon.having_all
        documents = [having_all(list(terms)) for terms in named if len(terms)]
        if not documents:
            return []
        wall = None if asked.wall is None else hashed(asked.wall)
        facts = columns.visible_to(self._users(asked.fact.user), {wall})
        naming = facts[np.isin(columns.column("document")[facts], np.concatenate(documents))]
        just_now = self._stated_at.get((asked.fact.user, asked.wall), {})
        return [*(columns.ids[int(index)] for index in naming[-NAMING_MAX:]), *just_now]

    def _read(self, ids: list[str], near: dict[str, float]) -> list[KnownFact]:
        rows = {fact_id: self._state.facts[fact_id] for fact_id in ids if fact_id not in self._new}
        stating_events = self._scope_memory.fold.events_at([row.position for row in rows.values()])
        known_facts: list[KnownFact] = []
        for fact_id in ids:
            if fact_id in self._new:
                known_facts.append(
                    msgspec.structs.replace(self._new[fact_id], similarity=near[fact_id])
                )
            elif (event := stating_events.get(rows[fact_id].position)) is not None:
                content = msgspec.convert(event.payload, FactPayload)
                content.valid_from_ms = rows[fact_id].valid_from_ms
                content.confidence = rows[fact_id].confidence
                known_facts.append(
                    KnownFact(content, event.user_id, event.session_id, similarity=near[fact_id])
                )
        return known_facts

    def _is_current(self, fact_id: str) -> bool:
        row = self._state.facts.get(fact_id)
        return fact_id in self._new or (row is not None and row.state == "current")

    def _users(self, user: str | None) -> set[str | None]:
        return {None} if user is None else set(self._state.family(hashed(user)))

    def _look_near(self) -> None:
        """Find the nearest known facts of all new ones, in batches."""
        scope_memory = self._scope_memory
        if scope_memory.embedder is None:
            return
        try:
            texts = [fact_text(asked.fact.text) for asked in self._asked]
            self._vectors = scope_memory.embedder.embed(texts)
            if not scope_memory.is_sealed:
                scope_memory.documents.ahead = dict(zip(texts, self._vectors, strict=True))
        except Unavailable:
            # Without an embedder, facts in the same words are still recognised.
            return
        owners: dict[tuple[str | None, str | None], list[int]] = {}
        for at, asked in enumerate(self._asked):
            owners.setdefault((asked.fact.user, asked.wall), []).append(at)
        for (user, wall), indexes in owners.items():
            self._look_near_of(user, wall, indexes)
        # Fetch at once the events that will be compared one by one.
        near = {fact_id for neighbours in self._near.values() for fact_id, _ in neighbours}
        scope_memory.fold.events_at([self._state.facts[fact_id].position for fact_id in near])

    def _look_near_of(self, user: str | None, wall: str | None, indexes: list[int]) -> None:
        scope_memory, vectors = self._scope_memory, self._vectors
        here = None if wall is None else hashed(wall)
        facts = scope_memory.columns.visible_to(self._users(user), {here})
        documents = scope_memory.columns.column("document")[facts]
        if documents.min(initial=0) < 0:
            facts, documents = facts[documents >= 0], documents[documents >= 0]
        self._counts[user, wall] = len(facts)
        if vectors is None or not len(facts):
            return
        for begin in range(0, len(indexes), BLOCK):
            part = indexes[begin : begin + BLOCK]
            cosines = scope_memory.documents.products(vectors[part], documents)
            for at, near in zip(part, cosines, strict=True):
                self._near[at] = [
                    (scope_memory.columns.ids[int(facts[index])], float(near[index]))
                    for index in _largest(near, COMPARED_MAX, SIMILAR_FROM)
                ]
                least = self._changes_from(at)
                if least is not None:
                    self._changeable[at] = [
                        (scope_memory.columns.ids[int(facts[index])], float(near[index]))
                        for index in _largest(near, CHANGED_MAX, least)
                    ]

    def _changes_from(self, at: int) -> float | None:
        """Return the cosine from which a fact may change others unknown to rules; None if never."""
        judge, text = self._scope_memory.judge, self._asked[at].fact.text
        return None if judge is None else judge.near_from(text, known=self._count_known(at))

    def _count_known(self, at: int) -> int:
        """Return how many facts there are beside a new one, those of this call included."""
        asked = self._asked[at]
        return self._counts.get((asked.fact.user, asked.wall), 0) + len(self._new)

    def _near_among_new(self, at: int, most: int, least: float) -> list[tuple[str, float]]:
        asked = self._asked[at]
        stated_at = self._stated_at.get((asked.fact.user, asked.wall))
        if self._vectors is None or not stated_at:
            return []
        if self._among is None:
            self._among = self._vectors @ self._vectors.T
        cosines = self._among[at, :at]
        similar = np.flatnonzero(cosines >= least)
        nearest = similar[np.argsort(-cosines[similar], kind="stable")]
        near = (
            (fact_id, float(cosines[index]))
            for index in nearest.tolist()
            # What was said again counts where it was said last.
            if (fact_id := self._noted.get(index)) is not None and stated_at.get(fact_id) == index
        )
        return list(islice(near, most))


def _largest(cosines: NDArray[np.float32], most: int, least: float) -> list[int]:
    """Return the indexes of the largest cosines, largest first, down to the least."""
    similar = np.flatnonzero(cosines >= least)
    if len(similar) > most:
        similar = similar[np.argpartition(-cosines[similar], most)[:most]]
    order: list[int] = similar[np.argsort(-cosines[similar], kind="stable")].tolist()
    return order


def _until(before: FactPayload, content: FactPayload) -> int | None:
    """Return when a restated fact ends: it may last longer than was known."""
    if content.valid_to_ms is not None or before.valid_to_ms is None:
        return content.valid_to_ms
    return before.valid_to_ms if content.valid_from_ms < before.valid_to_ms else None


def _learned(outcome: str, content: FactPayload) -> LearnResult:
    return msgspec.convert(
        {"outcome": outcome, "fact_id": content.id, "text": content.text}, LearnResult
    )


def fact_event_id(asked: CheckedFact) -> str | None:
    """Return the id of the event that states a fact, if the fact was given an id."""
    return None if asked.fact.fact_id is None else f"memory:{asked.fact_id}"
