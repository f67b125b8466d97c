"""Events that are appended again: the same is a no-op, another under its id is refused."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from treering.errors import Conflict, DuplicateEvent
from treering.ledger.chain import content_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.records import Draft
    from treering.model.events import Header

_stated: Final = attrgetter(
    "session_id", "kind", "source", "origin", "run_id", "turn_id", "agent_id",
    "user_id", "visibility",
)  # fmt: skip
"""Fields that the caller states; a time or a number that was filled in is not among them."""


def same_draft(draft: Draft, placed: Draft) -> bool:
    """Whether two drafts of one call say the same."""
    digest = content_digest(draft.salt, placed.summary, placed.stored_refs, placed.payload)
    return digest == draft.content_digest and _same_fields(draft, placed)


def same_stored(draft: Draft, header: Header, salt: bytes) -> bool:
    """Whether a draft says what was recorded."""
    digest = content_digest(salt, draft.summary, draft.stored_refs, draft.payload)
    return digest == header.content_digest and _same_fields(draft, header)


def taken(draft: Draft) -> DuplicateEvent:
    """Return the error for an id that another event has."""
    return DuplicateEvent(
        f"event_id already exists: {draft.event_id}",
        hint="give another id, or leave it out to have one made",
    )


def not_first(draft: Draft, current_seq: int) -> Conflict:
    """Return the error for an event that has to be the first of a session which has others."""
    return Conflict(
        f"session {draft.session_id} is open already",
        current_seq=current_seq,
        hint="leave out the event that opens it",
    )


def _same_fields(draft: Draft, other: Draft | Header) -> bool:
    return (
        (not draft.given_ts or draft.ts_ms == other.ts_ms)
        and (not draft.given_run_seq or draft.run_seq == other.run_seq)
        and _stated(draft) == _stated(other)
    )


def find_repeats(
    drafts: Sequence[Draft], find: Callable[[Draft], Header | None]
) -> list[Header | int | None]:
    """Return, for each draft, the header that its id has, or its place in this call.

    ``find`` is asked for the header that is recorded already.
    """
    here: dict[tuple[str, str], int] = {}
    repeats: list[Header | int | None] = []
    for at, draft in enumerate(drafts):
        first = here.setdefault((draft.scope, draft.event_id), at)
        if first == at or repeats[first] is not None:
            repeats.append(find(draft))
        elif same_draft(draft, drafts[first]):
            repeats.append(first)
        else:
            raise taken(draft)
    return repeats


def in_call_order(repeats: list[Header | int | None], added: list[Header]) -> list[Header]:
    """Return a header for each event of a call: an older one, an earlier one, or a new one."""
    if len(added) == len(repeats):
        return added
    fresh = iter(added)
    headers: list[Header] = []
    for repeat in repeats:
        match repeat:
            case None:
                headers.append(next(fresh))
            case int():
                headers.append(headers[repeat])
            case _:
                headers.append(repeat)
    return headers
