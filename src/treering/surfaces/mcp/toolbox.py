"""The tools of an agent on one scope: search, look around, read, recall, and if allowed, write."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final

from treering.clock import now_ms
from treering.context.tokens import estimate
from treering.errors import Closed, InvalidInput, InvalidScope, LedgerMoved, NotFound, TreeringError
from treering.ledger.records import AGENT
from treering.model.queries import make_seq_cursor
from treering.model.scopes import Scope, parse_scope
from treering.surfaces.mcp.schemas import (
    ROOM,
    Answer,
    answer,
    check_arguments,
    fitting,
    masked,
    moment,
    one_line,
    refusal,
    shortened,
    tools_for,
    written,
)
from treering.tools import answer_query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from treering.ledger.ledger import Ledger
    from treering.model.events import Event, Header
    from treering.model.memories import RecalledEpisode, RecalledFact, RecalledTurn
    from treering.model.searches import SearchHit

SUMMARY_CHARACTERS_MAX: Final = 400
TITLE_CHARACTERS_MAX: Final = 200
RECALLED_CHARACTERS_MAX: Final = 600
ID_CHARACTERS_MAX: Final = 200
WORD_CHARACTERS_MAX: Final = 60
WORDS_MAX: Final = 10
EVIDENCE_MAX: Final = 5
"""Events named for a fact or an episode; the first ones say enough."""
_NO_MATCH: Final = (
    "nothing matches: no event has any of the words; try others, a prefix such as deploy*, or mode"
    " hybrid"
)
_NO_LEDGER: Final = "nothing is recorded yet: run treering import, or treering watch"


class LateLedger:
    """Opens a ledger at the first call, and again after it was replaced. Thread-safe."""

    def __init__(self, *, read: Callable[[], Ledger], write: Callable[[], Ledger]) -> None:
        self._read = read
        self._write = write
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None

    def reading(self) -> Ledger | None:
        """Return the ledger, or None if it does not exist."""
        with self._lock, contextlib.suppress(NotFound):
            self._ledger = self._ledger or self._read()
        return self._ledger

    def writing(self) -> Ledger:
        """Return the ledger; it is made if it does not exist."""
        with self._lock:
            self._ledger = self._ledger or self._write()
            return self._ledger

    def drop(self) -> None:
        """Close the ledger; the next call opens it again."""
        with self._lock:
            ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger.close()


class Toolbox:
    """Answers the calls of an agent about one scope. Thread-safe."""

    def __init__(self, late: LateLedger, scope: Scope, *, writes: bool = False) -> None:
        self.scope = scope
        self.writes = writes
        self.tools = {tool.name: tool for tool in tools_for(writes=writes)}
        self._late = late

    def call(self, name: str, given: Mapping[str, Any]) -> Answer:
        """Return the answer to one call; every error is an answer, too."""
        try:
            return self._answer(name, given)
        except (LedgerMoved, Closed) as error:
            self._late.drop()
            return refusal(error)
        except TreeringError as error:
            return refusal(error)
        except Exception as error:  # noqa: BLE001  (the agent continues without this answer)
            # The text of an unforeseen error may quote what is recorded.
            return refusal(
                TreeringError(
                    f"unexpected {type(error).__name__}", hint="this is a bug in treering"
                )
            )

    def _answer(self, name: str, given: Mapping[str, Any]) -> Answer:
        tool = self.tools.get(name)
        if tool is None:
            raise NotFound(f"no tool {name[:60]}", hint=f"use {', '.join(self.tools)}")
        arguments = check_arguments(tool, given)
        ledger = self._late.writing() if tool.writes else self._late.reading()
        if ledger is None:
            return answer(self.scope, note=_NO_LEDGER, **_EMPTY[name])
        return _ANSWERS[name](self, ledger, arguments)

    def ledger(self) -> Ledger | None:
        """Return the ledger, or None if it does not exist."""
        return self._late.reading()

    def existing_ledger(self) -> Ledger:
        """Return the ledger. Raise NotFound if it does not exist."""
        ledger = self._late.reading()
        if ledger is None:
            raise NotFound("the ledger does not exist yet", hint=_NO_LEDGER)
        return ledger

    def search(self, ledger: Ledger, asked: dict[str, Any]) -> Answer:
        """Return events that match a query, best first."""
        result = ledger.search(
            asked["query"], scope=self.scope, mode=asked["mode"], limit=max(1, asked["limit"])
        )
        widened = [word[:WORD_CHARACTERS_MAX] for word in result.widened[:WORDS_MAX]]
        hits, left_out = fitting((_hit(hit) for hit in result.hits), beside=widened)
        more: dict[str, Any] = {"widened": widened} if widened else {}
        if left_out:
            more["left_out"] = left_out
        if not hits:
            more["note"] = _NO_MATCH
        return answer(
            self.scope,
            total=result.total,
            at_least=result.at_least,
            mode=result.mode,
            hits=hits,
            **more,
        )

    def timeline(self, ledger: Ledger, asked: dict[str, Any]) -> Answer:
        """Return headers around an event, or those at the end of a session."""
        anchor, before, after = asked["anchor"], asked["before"], asked["after"]
        location = ledger.find_ids(self.scope, [anchor]).get(anchor)
        if location is None:
            session = ledger.session(anchor, scope=self.scope, agent=AGENT)
            headers = list(session.headers(last=max(1, before + after)))
            if not headers:
                raise NotFound(
                    f"no event and no session {anchor[:60]} in scope {self.scope}",
                    hint="search and sessions give ids",
                )
            session_id = anchor
        else:
            session_id = location.session_id
            from_seq = max(0, location.seq - before - 1)
            cursor = make_seq_cursor(self.scope, session_id, from_seq) if from_seq else None
            count = location.seq - from_seq + after
            headers = ledger.replay(self.scope, session_id, first=count, after=cursor).items
        items, left_out = fitting((_glance(header) for header in headers), beside=session_id)
        more = {"left_out": left_out} if left_out else {}
        return answer(self.scope, session=session_id, events=items, **more)

    def fetch(self, ledger: Ledger, asked: dict[str, Any]) -> Answer:
        """Return events with their payloads, shortened."""
        records: list[dict[str, Any]] = []
        room = ROOM
        for event_id in asked["ids"]:
            record = self._record(ledger, event_id, asked["max_chars"])
            room -= len(written(record)) + 1
            if room < 0 and records:
                break
            records.append(record)
        left_out = len(asked["ids"]) - len(records)
        more: dict[str, Any] = {}
        if left_out:
            more = {"left_out": left_out, "note": f"fetch the last {left_out} ids again"}
        return answer(self.scope, events=records, **more)

    def _record(self, ledger: Ledger, event_id: str, characters: int) -> dict[str, Any]:
        try:
            event = ledger.event(self.scope, event_id)
        except (NotFound, InvalidInput) as error:
            return {"id": event_id[:ID_CHARACTERS_MAX], "error": error.code}
        record = _record(event, characters)
        while len(written(record)) > ROOM:
            characters //= 2
            record = _record(event, characters)
        return record

    def sessions(self, ledger: Ledger, asked: dict[str, Any]) -> Answer:
        """Return the sessions of the scope, the last written to first."""
        from treering.surfaces.shared.times import parse_moment  # noqa: PLC0415

        page = ledger.sessions(
            self.scope,
            text=asked["text"],
            since_ms=parse_moment(asked["since"], now_ms=now_ms(), flag="since"),
            limit=max(1, asked["limit"]),
        )
        items, left_out = fitting(
            {
                "id": outline.session_id,
                "title": one_line(outline.title, TITLE_CHARACTERS_MAX),
                "agent": outline.agent,
                "state": outline.state,
                "updated": moment(outline.updated_ms),
                "events": outline.event_count,
            }
            for outline in page.items
        )
        note = {} if items else {"note": "no session matches"}
        return answer(self.scope, sessions=items, has_more=page.has_more or bool(left_out), **note)

    def recall(self, ledger: Ledger, asked: dict[str, Any]) -> Answer:
        """Return what is relevant to a question, facts first, within the requested tokens."""
        memory = ledger.memory(self.scope)
        recalled = memory.recall(asked["query"], user=asked["user"], record=False)
        budget = TokenBudget(max(1, asked["max_tokens"]))
        facts = budget.fitting(_fact(hit) for hit in recalled.fact_hits)
        turns = budget.fitting(_turn(hit) for hit in recalled.turn_hits)
        shown = {turn["session"] for turn in turns}
        # A summary adds nothing to the words of its session.
        hits = [hit for hit in recalled.episode_hits if hit.session_id not in shown]
        episodes = budget.fitting(_episode(hit) for hit in hits)
        ids = [*(fact["id"] for fact in facts), *(episode["id"] for episode in episodes)]
        if self.writes and ids:
            # Only what is shown counts as used.
            memory.note_recalled(ids, user=asked["user"])
        notes = list(recalled.notes)
        if not (ids or turns):
            notes.append("nothing is known about it; search reads everything that is recorded")
        if budget.left_out:
            notes.append("more is known: raise max_tokens, or ask more precisely")
        return answer(self.scope, facts=facts, turns=turns, episodes=episodes, notes=notes)

    def query(self, ledger: Ledger, asked: dict[str, Any]) -> Answer:
        """Return events of the scope by time."""
        named = asked.pop("scope")
        if named is not None and parse_scope(named) != self.scope:
            raise InvalidScope(
                "this server answers for one scope only", hint=f"leave scope out: {self.scope}"
            )
        fields = answer_query(ledger, {**asked, "scope": self.scope}, written=written)
        del fields["ok"], fields["scope"]
        return answer(self.scope, **fields)

    def remember(self, ledger: Ledger, asked: dict[str, Any]) -> Answer:
        """Let the gate decide about a fact."""
        learned = ledger.memory(self.scope).learn(
            asked["text"], user=asked["user"], evidence=asked["evidence"] or (), origin="agent"
        )
        more = {"reason": learned.reason, "hint": learned.hint}
        return answer(
            self.scope,
            outcome=learned.outcome,
            fact_id=learned.fact_id,
            believed=learned.believed,
            superseded=list(learned.superseded),
            **{name: text for name, text in more.items() if text},
        )

    def forget(self, ledger: Ledger, asked: dict[str, Any]) -> Answer:
        """Reject a fact; doing so again changes nothing."""
        memory = ledger.memory(self.scope)
        state = memory.fact(asked["fact_id"]).state
        if state != "forgotten":
            state = memory.reject(asked["fact_id"], reason=asked["reason"]).state
        return answer(self.scope, fact_id=asked["fact_id"], state=state)


class TokenBudget:
    """Takes items as long as they fit into a number of tokens, and into an answer."""

    def __init__(self, tokens: int) -> None:
        self._tokens = self._left = tokens
        self.left_out = 0

    def fitting(self, items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the items that fit, in their order."""
        chosen = []
        for item in items:
            text = written(item)
            # All tokens together are at most as many characters as an answer has.
            cost = max(estimate(text), -(-len(text) * self._tokens // ROOM))
            if cost <= self._left:
                self._left -= cost
                chosen.append(item)
            else:
                self.left_out += 1
        return chosen


_ANSWERS: Final[dict[str, Callable[[Toolbox, Ledger, dict[str, Any]], Answer]]] = {
    "search": Toolbox.search,
    "timeline": Toolbox.timeline,
    "fetch": Toolbox.fetch,
    "sessions": Toolbox.sessions,
    "recall": Toolbox.recall,
    "memory_episodes_query": Toolbox.query,
    "remember": Toolbox.remember,
    "forget": Toolbox.forget,
}
_EMPTY: Final[dict[str, dict[str, Any]]] = {
    "search": {"total": 0, "hits": []},
    "timeline": {"events": []},
    "fetch": {"events": []},
    "sessions": {"sessions": [], "has_more": False},
    "recall": {"facts": [], "turns": [], "episodes": []},
    "memory_episodes_query": {"count": 0, "items": [], "has_more": False, "next": None},
}
"""What the tools answer while nothing is recorded."""


def _hit(hit: SearchHit) -> dict[str, Any]:
    tool = {"tool": hit.tool} if hit.tool else {}
    partial = {"partial": True} if hit.partial else {}
    return {
        "id": hit.event_id,
        "session": hit.session_id,
        "time": moment(hit.ts_ms),
        "kind": hit.kind,
        "agent": hit.agent_id,
        **tool,
        "snippet": masked(hit.snippet),
        "score": round(hit.score, 3),
        **partial,
    }


def _fact(hit: RecalledFact) -> dict[str, Any]:
    return {
        "id": hit.fact.id,
        "text": masked(hit.fact.text),
        "category": hit.fact.category,
        "since": moment(hit.fact.valid_from_ms)[:10],
        "evidence": list(hit.evidence[:EVIDENCE_MAX]),
    }


def _turn(hit: RecalledTurn) -> dict[str, Any]:
    return {
        "event": hit.event_id,
        "session": hit.session_id,
        "time": moment(hit.ts_ms),
        "speaker": hit.speaker,
        "text": one_line(hit.text, RECALLED_CHARACTERS_MAX),
    }


def _episode(hit: RecalledEpisode) -> dict[str, Any]:
    return {
        "id": hit.id,
        "session": hit.session_id,
        "date": moment(hit.started_ms)[:10],
        "summary": one_line(hit.summary, RECALLED_CHARACTERS_MAX),
        "evidence": list(hit.evidence[:EVIDENCE_MAX]),
    }


def _glance(header: Header) -> dict[str, Any]:
    return {
        "id": header.event_id,
        "seq": header.seq,
        "time": moment(header.ts_ms),
        "kind": header.kind,
        "agent": header.agent_id,
        "summary": one_line(header.summary, SUMMARY_CHARACTERS_MAX),
    }


def _record(event: Event, characters: int) -> dict[str, Any]:
    return {
        **_glance(event),
        "session": event.session_id,
        "refs": shortened(masked(event.refs), min(1_000, characters)),
        "payload": shortened(masked(event.payload), characters),
    }
