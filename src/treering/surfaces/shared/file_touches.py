"""The tool calls that named a file, and what for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.model.searches import HITS_MAX, SearchHit
from treering.surfaces.shared.session_commands import show_command
from treering.surfaces.shared.texts import Mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering.ledger.ledger import Ledger
    from treering.model.events import Event
    from treering.model.scopes import Scope

PATH_CHARACTERS_MAX: Final = 300
PROMPTS_AT_ONCE: Final = 20
ASKED_CHARACTERS_MAX: Final = 200
"""The index is searched for the end of a longer path."""
_SAID: Final = ("conversation.user", "ops.decision")


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """One time that a file was touched."""

    event_id: str
    session_id: str
    seq: int
    ts_ms: int
    kind: str
    agent: str
    tool: str | None
    status: str | None
    """How the call ended: ok, failed, synthetic, open."""
    paths: list[str]
    """As they were given to the tool."""
    summary: str
    prompt: str | None
    """What the user had said in that turn."""
    decision: str | None
    """The last decision before it in that turn."""
    show: str
    """The command that shows the session."""


def matches(path: str, forms: list[str]) -> bool:
    """Whether a path that was recorded is one of ``forms``, ends in one, or is below one."""
    parts = f"/{spelt(path).strip('/')}/".casefold()
    return any(
        parts.startswith(f"{form.rstrip('/')}/".casefold())
        if form.startswith("/")
        else f"/{form.strip('/')}/".casefold() in parts
        for form in forms
    )


def spelt(path: str) -> str:
    """Return a path with slashes and no detours."""
    return os.path.normpath(path.strip().replace("\\", "/"))


def find_touches(
    ledger: Ledger,
    scope: Scope,
    forms: list[str],
    limit: int,
    *,
    progress: Callable[[int], None] | None = None,
) -> tuple[list[Touch], bool]:
    """Return the newest tool calls that named a file, and whether there are more."""
    result = ledger.search(
        _asked(forms), scope=scope, limit=HITS_MAX, include_failed=True, progress=progress
    )
    newest = sorted(result.hits, key=lambda hit: (-hit.ts_ms, hit.session_id, -hit.seq))
    mask = Mask()
    touches: list[Touch] = []
    for hit in newest:
        event = ledger.event(scope, hit.event_id)
        paths = _paths(event, forms)
        if not paths:
            continue
        if len(touches) == limit:
            return touches, True
        touches.append(_touch(ledger, scope, hit, event, paths, mask))
    return touches, result.at_least or result.total > len(newest)


def _asked(forms: list[str]) -> str:
    """Return what finds all of ``forms``, and a little more."""
    ends = [
        form
        for form in forms
        if not any(form.endswith(f"/{other.lstrip('/')}") for other in forms if other != form)
    ]
    # In the index a path is its words, so what would end the value is as good as a blank.
    plain = (end[-ASKED_CHARACTERS_MAX:].replace(",", " ").replace('"', " ") for end in ends)
    return f'file:"{",".join(plain)}"'


def _paths(event: Event, forms: list[str]) -> list[str]:
    from treering.derive.search_texts import files_in  # noqa: PLC0415  (not for --help)

    return [path for path in files_in(event) if matches(path, forms)]


def _touch(
    ledger: Ledger, scope: Scope, hit: SearchHit, event: Event, paths: list[str], mask: Mask
) -> Touch:

    prompt, decision = _why(ledger, scope, event)
    return Touch(
        event_id=event.event_id,
        session_id=event.session_id,
        seq=event.seq,
        ts_ms=event.ts_ms,
        kind=event.kind,
        agent=event.agent_id,
        tool=hit.tool,
        status=_status(ledger, scope, event),
        paths=[mask.text(path) or "" for path in paths],
        summary=mask.text(event.summary) or "",
        prompt=mask.text(prompt),
        decision=mask.text(decision),
        show=show_command(scope, event.session_id),
    )


def _status(ledger: Ledger, scope: Scope, event: Event) -> str | None:
    call_id = (event.refs or {}).get("call_id")
    if not isinstance(call_id, str) or not call_id:
        return None
    page = ledger.tool_calls(scope, session_id=event.session_id, call_id=call_id, last=5)
    calls = [
        record for record in page.items if record.call_event_id == event.event_id
    ] or page.items
    return calls[-1].status if calls else None


def _why(ledger: Ledger, scope: Scope, event: Event) -> tuple[str | None, str | None]:
    """Return what the user said before an event, and what was decided since."""
    decision: str | None = None
    for header in _before(ledger, scope, event):
        if header.kind == "conversation.user":
            return header.summary, decision
        decision = decision or header.summary
    return None, decision


def _before(ledger: Ledger, scope: Scope, event: Event) -> Iterator[Any]:
    """Yield what was said and decided in the session before an event, the latest first."""
    page = ledger.headers(
        scope, session_id=event.session_id, kinds=_SAID, until_ms=event.ts_ms, last=PROMPTS_AT_ONCE
    )
    yield from (header for header in reversed(page.items) if header.seq < event.seq)
