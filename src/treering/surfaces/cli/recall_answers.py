"""What is recalled for a question, its secrets masked, and recorded if it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from treering.memory.recall_result import RecallResult
from treering.surfaces.cli.facts.masking import masked
from treering.surfaces.cli.facts.search import short_facts
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.sessions.search import find_session, short_sessions

if TYPE_CHECKING:
    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope
    from treering.surfaces.cli.recall import Question
    from treering.surfaces.cli.short_ids import ShortIds


class RecallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was recalled, its secrets masked."""

    recalled: RecallResult
    block: str | None
    ids: list[str]
    """Of what is shown: all of it, or what fits the block."""
    event_id: str | None
    """The event that counts it as used; None if it does not."""
    masked: int


def answer_to(ledger: Ledger, scope: Scope, question: Question) -> RecallAnswer:
    """Recall what answers a question, and record it if the question says so."""
    memory = ledger.memory(scope)
    session = question.session and find_session(ledger, scope, question.session)
    recalled = memory.recall(
        question.query,
        user=question.user,
        session_id=session,
        limit=question.limit,
        as_of_ms=question.as_of_ms,
        record=question.record and not question.block,
    )
    mask = Mask()
    recalled = _masked(recalled, mask)
    block, ids = recalled.block(question.max_tokens) if question.block else (None, recalled.ids)
    event_id = recalled.event_id
    if question.block and question.record and ids:
        # Only what the prompt has room for is used.
        event_id = memory.note_recalled(ids, user=question.user, session_id=session)
    if not question.block:
        recalled = _shortened(recalled, short_facts(memory), short_sessions(ledger, scope))
    return RecallAnswer(
        recalled=recalled, block=block, ids=ids, event_id=event_id, masked=mask.masked
    )


def _shortened(recalled: RecallResult, facts: ShortIds, sessions: ShortIds) -> RecallResult:
    replace = msgspec.structs.replace
    return replace(
        recalled,
        fact_hits=[replace(hit, fact=facts.within(hit.fact, "id")) for hit in recalled.fact_hits],
        episode_hits=[sessions.within(hit, "session_id") for hit in recalled.episode_hits],
    )


def _masked(recalled: RecallResult, mask: Mask) -> RecallResult:
    replace = msgspec.structs.replace
    return replace(
        recalled,
        fact_hits=[replace(hit, fact=masked(hit.fact, mask)) for hit in recalled.fact_hits],
        episode_hits=[
            replace(hit, summary=mask.text(hit.summary) or "", topics=tuple(mask.value(hit.topics)))
            for hit in recalled.episode_hits
        ],
    )
