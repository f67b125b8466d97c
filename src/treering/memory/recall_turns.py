"""Turns that answer a query: what was said, word for word, where the asker may see it.

The walls are those of facts: a turn belongs to its speaker or to the user of its session, and one
of a group or of a session without a user stays there. Turns that were undone or failed are left
out, and so are sentences that repeat a fact that no longer holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.context.texts import message_text
from treering.derive.fact_rows import hashed
from treering.derive.search_texts import own_words
from treering.memory.answer_order import order_answers
from treering.memory.recall_episodes import outdated_facts, repeats
from treering.memory.recall_query import searched_users
from treering.model.memories import RecalledTurn
from treering.rules.fact_sentences import sentences
from treering.rules.terms import terms

if TYPE_CHECKING:
    from treering.ledger.memory_factory import Recorder
    from treering.memory.answer_order import Match
    from treering.memory.fusion import Ranking
    from treering.memory.recall_query import RecallQuery
    from treering.memory.scope_memory import ScopeMemory
    from treering.memory.walls import Walls
    from treering.model.events import Event

KINDS: Final = frozenset({"conversation.user", "conversation.assistant"})
PAGE: Final = 25
"""Events that are read at once."""
RANKED_MAX: Final = 500
"""How many ranked events are read if most of them are hidden or are not turns."""
BEST_SHARE: Final = 0.35
"""A turn below this part of the best score is not an answer."""
QUERY_CHARACTERS_MAX: Final = 1_000
TERMS_MIN: Final = 2
"""A turn with fewer words, such as "Noted.", answers nothing by itself."""
TURN_CHARACTERS_MAX: Final = 600
"""Of a longer turn, the passage around the match is shown."""
OWNERS_HELD_MAX: Final = 10_000
LAG_MAX: Final = 20_000
"""With more events that are not indexed yet, turns are left out: indexing them takes a while."""


def recall_turns(
    scope_memory: ScopeMemory, query: RecallQuery, recorder: Recorder, walls: Walls
) -> list[RecalledTurn]:
    """Return the turns that answer a query, best first. The caller holds the lock."""
    text = (query.query or "")[:QUERY_CHARACTERS_MAX]
    index = scope_memory.events
    index.documents.catch_up(recorder.event_texts)
    ranked = index.rank(text, "hybrid", RANKED_MAX)
    if ranked.ranking is None or not ranked.order:
        return []
    matches = order_answers(index, ranked, text, scope_memory.events_at)
    matches = [match for match in matches if match.score >= BEST_SHARE * matches[0].score]
    access = _Access(scope_memory, query, recorder, walls)
    turns: dict[tuple[str, str], RecalledTurn] = {}
    for at in range(0, len(matches), PAGE):
        page = matches[at : at + PAGE]
        numbers = [match.number for match in page]
        positions = index.documents.column("position")[numbers].tolist()
        events = scope_memory.events_at(positions)
        for match, position in zip(page, positions, strict=True):
            text_left = access.text(events.get(position), text)
            if text_left:
                turn = _turn(events[position], text_left, ranked.ranking, match)
                # What somebody said twice is shown once, where it matches best.
                turns.setdefault((turn.speaker, turn.text), turn)
            if len(turns) == query.turns:
                return list(turns.values())
    return list(turns.values())


def _turn(event: Event, text: str, ranking: Ranking, match: Match) -> RecalledTurn:
    is_agent = event.kind == "conversation.assistant"
    return RecalledTurn(
        event_id=event.event_id,
        session_id=event.session_id,
        seq=event.seq,
        ts_ms=event.ts_ms,
        speaker=event.agent_id if is_agent else event.user_id or "user",
        text=text,
        score=round(min(max(match.score, 0.0), 1.0), 4),
        why=ranking.parts(match.number) | ({"form": round(match.form, 4)} if match.form else {}),
    )


class _Access:
    """Decides which turns the asker may see, and which part of each; caches lookups."""

    def __init__(
        self, scope_memory: ScopeMemory, query: RecallQuery, recorder: Recorder, walls: Walls
    ) -> None:
        self._scope = scope_memory.scope
        self._query = query
        self._recorder = recorder
        self._walls = walls
        self._owners = scope_memory.owners
        self._failed = recorder.failed_runs(self._scope)
        self._undone: dict[str, list[tuple[int, int]]] = {}
        self._users = searched_users(scope_memory, query)
        self._outdated = outdated_facts(scope_memory, self._users, query.walls)

    def text(self, event: Event | None, query: str) -> str:
        """Return what the asker may see of a turn; empty if nothing."""
        if event is None or event.kind not in KINDS or not self._may_see(event):
            return ""
        if self._is_undone(event) or self._failed.failed(event):
            return ""
        text = self._recorder.masked(message_text(event)).strip()
        text = own_words(text) if event.kind == "conversation.user" else text
        if len(set(terms(text))) < TERMS_MIN:
            return ""
        parts = list(sentences(text))
        left = [
            part
            for part in parts
            if not any(repeats(part, (event.event_id,), fact) for fact in self._outdated)
        ]
        if len(left) < len(parts):
            text = " ".join(left)
        return text if len(text) <= TURN_CHARACTERS_MAX else _passage(text, query)

    def _may_see(self, event: Event) -> bool:
        session = event.session_id
        if session not in self._owners:
            if len(self._owners) >= OWNERS_HELD_MAX:
                self._owners.clear()
            self._owners[session] = self._walls.owner(session)
        owner = self._owners[session]
        user = event.user_id or owner.user
        # What a named person says stays in a session only if that is a group.
        wall = owner.wall if owner.is_group or event.user_id is None else None
        walls = self._query.walls
        return _hashed(user) in self._users and _hashed(wall) in walls

    def _is_undone(self, event: Event) -> bool:
        session = event.session_id
        if session not in self._undone:
            self._undone[session] = self._recorder.undone(self._scope, session)
        return any(first <= event.seq <= last for first, last in self._undone[session])


def _passage(text: str, query: str) -> str:
    """Return the part of a long text that has most of the query's words."""
    wanted = frozenset(terms(query))
    parts = list(sentences(text))
    counts = [len(wanted.intersection(terms(sentence))) for sentence in parts]
    best = max(range(len(parts)), key=lambda at: (counts[at], -at))
    first, last, size = best, best + 1, len(parts[best])
    while last < len(parts) and size + len(parts[last]) < TURN_CHARACTERS_MAX:
        size, last = size + len(parts[last]) + 1, last + 1
    while first and size + len(parts[first - 1]) < TURN_CHARACTERS_MAX:
        first, size = first - 1, size + len(parts[first - 1]) + 1
    passage = " ".join(parts[first:last])[:TURN_CHARACTERS_MAX]
    before, after = "… " if first else "", " …" if last < len(parts) else ""
    return f"{before}{passage}{after}"


def _hashed(name: str | None) -> str | None:
    return None if name is None else hashed(name)
