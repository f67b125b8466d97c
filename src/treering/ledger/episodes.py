"""Episodes: what a stretch of a session was about, told once, with the events that say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.context.pairing import pair
from treering.context.summaries import summarise
from treering.ledger.lineage import ENDLESS
from treering.ledger.windows import read_window
from treering.spine.entries import Entry

if TYPE_CHECKING:
    from treering.ledger.lineage import Lineage
    from treering.model.events import Event
    from treering.model.tools import SyntheticPolicy

EPISODE_TOKENS_MAX: Final = 600
EVENTS_MAX: Final = 20_000
"""Events that one episode looks at, the latest ones."""


def episode(lineage: Lineage, policy: SyntheticPolicy, *, user: str | None) -> Entry | None:
    """Return the episode of what was said since the last one; None if nothing was."""
    last = lineage.committed_before(ENDLESS, kinds={"episode.written"}, limit=1)
    # What a fork shares is told by the session that it was said in.
    told_seq = max(_through(last[0]) if last else 0, lineage.own_after_seq())
    window = read_window(lineage, tokens=None, events=EVENTS_MAX, after_seq=told_seq, past="whole")
    events = [*window.lead, *window.events]
    messages, _ = pair(events, policy)
    if not messages:
        return None
    found = summarise(messages, limit=EPISODE_TOKENS_MAX)
    by_section: dict[str, list[str]] = {}
    for line in found.evidence:
        by_section.setdefault(line.section, []).append(line.text)
    payload: dict[str, Any] = {
        "user": user,
        "started_ms": events[0].ts_ms,
        "ended_ms": events[-1].ts_ms,
        "summary": found.text,
        "key_decisions": by_section.get("Decisions", []),
        "action_items": by_section.get("Open", []),
        "outcome": "\n".join(by_section.get("Outcome", [])),
        "duration_minutes": round(max(events[-1].ts_ms - events[0].ts_ms, 0) / 60_000, 2),
        "message_count": len(messages),
        "evidence": [
            {"section": line.section, "text": line.text, "event_ids": list(line.event_ids)}
            for line in found.evidence
        ],
        "from_seq": events[0].seq,
        "through_seq": events[-1].seq,
    }
    noun = "message" if len(messages) == 1 else "messages"
    return Entry(
        kind="episode.written",
        summary=f"episode of {len(messages)} {noun}",
        payload=payload,
        refs={"from_seq": events[0].seq, "through_seq": events[-1].seq},
    )


def _through(event: Event) -> int:
    through = event.refs.get("through_seq") if isinstance(event.refs, dict) else None
    return through if type(through) is int else 0
