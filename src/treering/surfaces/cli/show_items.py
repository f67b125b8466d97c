"""A session as items of a receipt: its cover, its turns, and what happened in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from treering.surfaces.pages.transcripts import TurnHead
from treering.surfaces.pages.wording import (
    body_of,
    clean,
    counted_of,
    input_of,
    note_of,
    output_of,
    rule_of,
    state_of,
    text_of,
    tool_of,
)

if TYPE_CHECKING:
    from treering.surfaces.cli.show_lines import Showing
    from treering.surfaces.pages.entries import PageEntry


def cover_item(showing: Showing) -> dict[str, Any]:
    """Return what a session is."""
    cover = showing.mask.value(msgspec.to_builtins(showing.cover))
    return {**cover, "include_payload": showing.with_payloads}


def item_of(piece: TurnHead | PageEntry, showing: Showing) -> dict[str, Any]:
    """Return one item: a turn's head has ``number``, everything else ``seq``."""
    if isinstance(piece, TurnHead):
        turn = msgspec.structs.asdict(piece.turn)
        turn["prompt"] = clean(piece.turn.prompt, showing.mask)
        return {"sort": "turn", "number": piece.number, **turn, "outcome": state_of(piece) or None}
    event = piece.event
    item: dict[str, Any] = {
        "sort": piece.sort,
        "seq": event.seq,
        "event_id": event.event_id,
        "ts_ms": event.ts_ms,
        "type": event.kind,
        "redacted": event.redacted,
    }
    return item | _content(piece, showing)


def _content(piece: PageEntry, showing: Showing) -> dict[str, Any]:
    mask = showing.mask
    if piece.sort == "tool":
        tool = tool_of(piece, mask)
        body = {**msgspec.structs.asdict(tool), "session": showing.subagent(tool.call_id)}
        if showing.with_payloads:
            body |= {"input": input_of(piece, mask), "output": output_of(piece, mask)}
        return body
    if piece.sort == "rule":
        body = {"body": body_of(piece.event, mask)} if showing.with_payloads else {}
        return {"text": rule_of(piece.event, mask), **body}
    if piece.sort == "note":
        return {"text": note_of(piece.event, mask)[1]}
    if piece.sort == "more":
        return {"text": counted_of(piece), "counts": piece.counts}
    return {"text": text_of(piece.event, mask)}
