"""Extraction: rules or a model find facts in conversations, and the facts pass the gate.

A session is read from where the last call stopped. The id of a fact is derived from its words and
the salts of the events that say them, so reading twice, or after a crash, changes nothing, and
rejected or erased facts stay so. Erasing the events erases their salts, and then the words cannot
be guessed from the id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.derive.fact_rows import hashed
from treering.errors import InvalidInput
from treering.memory.conversations import AttributedCandidate, conversation_parts, whole_part
from treering.memory.walls import Owner, Walls
from treering.model.memories import EVIDENCE_MAX, ExtractReceipt, LearnResult, NewFact
from treering.rules.claim_relations import relation
from treering.rules.claim_words import statement_of
from treering.rules.claims import claim_slot, read_claim
from treering.rules.fact_extraction import (
    CORRECTION_REACH,
    Candidate,
    extract_facts,
    legacy_statement_id,
    same_statement_id,
)
from treering.rules.project_commands import working_commands

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from treering.ledger.memory_factory import Recorder
    from treering.memory.conversations import ConversationPart
    from treering.memory.learning import Learner
    from treering.memory.model_extraction import ModelExtractor
    from treering.memory.scope_memory import ScopeMemory
    from treering.model.events import Event
    from treering.model.scopes import Scope
    from treering.rules.fact_extraction import Utterance
    from treering.rules.project_commands import CommandRun, WorkingCommand

RULES: Final = "rules"
LOOKS_MAX: Final = 3
"""Attempts to learn while events are being erased."""
COMMAND_CONFIDENCE: Final = 0.75
"""Of a command that worked: less than of what somebody says about it."""
COMMAND_IMPORTANCE: Final = 7


class ConversationReader:
    """Reads conversations of one scope once, and counts the results."""

    def __init__(
        self,
        scope_memory: Callable[[], ScopeMemory],
        recorder: Recorder,
        learner: Learner,
        scope: Scope,
        *,
        model: ModelExtractor | None = None,
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
        """Found by rules."""
        self._learned: list[LearnResult] = []
        self._stopped: str | None = None

    def read_all(self, *, again: bool) -> ExtractReceipt:
        """Read every session of the scope except those of subagents."""
        has_news = False
        for session_id, head_seq in self._recorder.sessions(self._scope):
            if self._stopped is not None:
                break
            through = self._recorder.read_through(self._scope, session_id, "extraction")
            if (again or through < head_seq) and not self._is_subagent(session_id):
                has_news = True
                self._read(session_id, again=again)
        if has_news:
            self._learn_commands(None)
        return self.receipt()

    def read(self, session_id: str, *, again: bool) -> ExtractReceipt:
        """Read the new messages of a session, or all. Raise NotFound if it does not exist."""
        self._read(session_id, again=again)
        self._learn_commands(session_id)
        return self.receipt()

    def _is_subagent(self, session_id: str) -> bool:
        settings = self._recorder.settings(self._scope, session_id)
        return settings is not None and settings.spawned_by is not None

    def _read(self, session_id: str, *, again: bool) -> None:
        through = self._recorder.read_through(self._scope, session_id, "extraction")
        conversation = self._recorder.conversation(
            self._scope, session_id, after_seq=0 if again else through
        )
        self._sessions += bool(conversation.spoken)
        parts: Iterator[ConversationPart] = iter([whole_part(conversation)])
        if self._model is not None and conversation.spoken:
            parts = conversation_parts(conversation, CORRECTION_REACH)
        for part in parts:
            candidates = self._found(part)
            if self._stopped is not None:
                break
            self._learn(candidates, session_id)
            # The position is saved after the facts: after a crash in between, they are found again.
            if part.until_seq > through:
                self._recorder.note_read(self._scope, session_id, "extraction", part.until_seq)
            self._messages += len(part.spoken)
            if self._progress is not None and part.spoken:
                self._progress(len(part.spoken))

    def receipt(self) -> ExtractReceipt:
        """Return the results so far."""
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

    def _found(self, part: ConversationPart) -> list[AttributedCandidate]:
        if self._model is not None:
            if not self._model.affords(part):
                self._stopped = "budget"
                return []
            candidates = self._model.read(part)
            if candidates is not None:
                return _attributed(candidates, part)
        candidates = _attributed(_by_rules(part), part)
        self._candidates += len(candidates)
        return candidates

    # Commands.

    def _learn_commands(self, session_id: str | None) -> None:
        """Learn which commands of the project work, for each owner of sessions separately."""
        walls, owners = Walls(self._recorder, self._scope), dict[str, Owner]()
        runs: dict[Owner, list[CommandRun]] = {}
        for run in self._recorder.commands(self._scope, session_id):
            if run.session_id not in owners:
                owners[run.session_id] = walls.owner(run.session_id)
            runs.setdefault(owners[run.session_id], []).append(run)
        for owner, own_runs in runs.items():
            for command in working_commands(own_runs):
                if self._is_news(command.text, owner):
                    self._candidates += 1
                    candidate = _candidate(command)
                    self._learn([AttributedCandidate(candidate, owner.user)], command.session_id)

    def _is_news(self, text: str, owner: Owner) -> bool:
        """Return whether a command is not known, rejected or contradicted by somebody's word."""
        if self._recorder.masked(text) != text:
            return False
        statement, slot = hashed(statement_of(text)), claim_slot(read_claim(text))
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.refresh()
            state = scope_memory.fold.state
            users = {None} if owner.user is None else {None, *state.family(hashed(owner.user))}
            walls = {None} if owner.wall is None else {None, hashed(owner.wall)}
            visible = [
                row for row in state.facts.values() if row.user in users and row.wall in walls
            ]
        return not any(
            (row.statement == statement and row.state in {"current", "forgotten"})
            or (
                slot is not None
                and row.slot == hashed(slot)
                and row.state == "current"
                and row.confidence > COMMAND_CONFIDENCE
            )
            for row in visible
        )

    # Learning.

    def _learn(self, candidates: Sequence[AttributedCandidate], session_id: str) -> None:
        facts = self._untold(self._facts(candidates, session_id))
        for look in range(LOOKS_MAX):
            cited = dict.fromkeys(event_id for fact in facts for event_id in fact.evidence)
            gone = self._recorder.gone(self._scope, list(cited))
            facts = [fact for fact in facts if gone.isdisjoint(fact.evidence)]
            try:
                self._learned += self._learner.learn(facts)
            except InvalidInput:
                # Evidence may have been erased just now.
                if look == LOOKS_MAX - 1:
                    raise
            else:
                return

    def _facts(self, candidates: Sequence[AttributedCandidate], session_id: str) -> list[NewFact]:
        """Return the candidates as facts, without those whose evidence was erased meanwhile."""
        cited_by = [_saying(candidate.candidate) for candidate in candidates]
        cited = dict.fromkeys(event_id for saying in cited_by for event_id in saying)
        salts = self._recorder.salts(self._scope, list(cited))
        return [
            _fact(candidate, session_id, [salts[event_id] for event_id in saying])
            for candidate, saying in zip(candidates, cited_by, strict=True)
            if salts.keys() >= set(saying)
        ]

    def _erased_before(self, facts: Sequence[NewFact]) -> set[str]:
        """Return the facts that were erased under the id an earlier version gave them."""
        if self._recorder.engine.store.reader.rekeyed_ms() is None:
            return set()
        legacy = {
            f"memory:{legacy_statement_id(cited, fact.text)}": fact.fact_id
            for fact in facts
            for cited in fact.evidence
        }
        places = self._recorder.places(self._scope, list(legacy))
        gone = self._recorder.gone(self._scope, list(places)) if places else set()
        return {fact_id for event_id in gone if (fact_id := legacy[event_id]) is not None}

    def _untold(self, facts: Sequence[NewFact]) -> list[NewFact]:
        """Return facts without those already learned from the same words.

        They may have been part of another known fact, or stated in other words, and rejected since.
        """
        if not facts:
            return []
        erased = self._erased_before(facts)
        facts = [fact for fact in facts if fact.fact_id not in erased]
        scope_memory = self._scope_memory()
        with scope_memory.lock.guard, scope_memory.lock:
            scope_memory.refresh()
            fold = scope_memory.fold
            citing = fold.state.citing
            citing_events = [
                fold.events_at(citing.get(hashed(fact.evidence[0]), [])) for fact in facts
            ]
            known_facts = fold.state.facts
            return [
                fact
                for fact, events in zip(facts, citing_events, strict=True)
                if fact.fact_id in known_facts
                or not any(_tells(event, fact) for event in events.values())
            ]


def _by_rules(part: ConversationPart) -> list[AttributedCandidate]:
    """Return what rules find, for each speaker separately."""
    new = {message.utterance.event_id for message in part.spoken}
    speakers: dict[str | None, list[Utterance]] = {}
    for message in (*part.earlier, *part.spoken):
        speakers.setdefault(message.user, []).append(message.utterance)
    return [
        AttributedCandidate(_told_now(candidate, new), user)
        for user, utterances in speakers.items()
        for candidate in extract_facts(utterances)
    ]


def _told_now(candidate: Candidate, new: Collection[str]) -> Candidate:
    """Return a candidate with only its new evidence: the rest was learned when it was said.

    A repeated statement holds now, whatever was said in between. Only a correction also needs the
    message that it corrects.
    """
    new_evidence = [event_id for event_id in candidate.evidence if event_id in new]
    corrected = (
        [event_id for event_id in candidate.evidence if event_id not in new]
        if candidate.correction
        else []
    )
    sayings = [saying for saying in candidate.sayings if saying[-1] in new]
    return msgspec.structs.replace(
        candidate, evidence=(*new_evidence, *corrected), sayings=tuple(sayings or candidate.sayings)
    )


def _attributed(
    candidates: Sequence[AttributedCandidate], part: ConversationPart
) -> list[AttributedCandidate]:
    """Return new candidates of known people, in the order they were said."""
    order = {message.utterance.event_id: at for at, message in enumerate(part.spoken)}
    ordered: list[tuple[int, AttributedCandidate]] = []
    for candidate in candidates:
        said_at = max((order.get(cited, -1) for cited in candidate.candidate.evidence), default=-1)
        # In a group, a message without a user cannot be attributed.
        is_known = (
            candidate.user is not None or not part.in_group or candidate.candidate.role == "tool"
        )
        if said_at >= 0 and is_known:
            ordered.append((said_at, candidate))
    return [candidate for _, candidate in sorted(ordered, key=lambda pair: pair[0])]


def _candidate(command: WorkingCommand) -> Candidate:
    return Candidate(
        text=command.text,
        category="technical",
        importance=COMMAND_IMPORTANCE,
        confidence=COMMAND_CONFIDENCE,
        evidence=command.evidence,
        role="agent",
        sayings=(command.evidence[:1],),
    )


def _saying(candidate: Candidate) -> tuple[str, ...]:
    """Return the events that first said it; all cited ones, if that is unknown.

    All their salts go into the id, so that no single event gives away the words of another.
    """
    return candidate.sayings[0] if candidate.sayings else candidate.evidence[:EVIDENCE_MAX]


def _fact(attributed: AttributedCandidate, session_id: str, salts: Sequence[bytes]) -> NewFact:
    candidate = attributed.candidate
    return NewFact(
        text=candidate.text,
        user=attributed.user,
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
