"""``treering file-history``: who touched a file, when, by which tool, and what for."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from treering.errors import InvalidInput
from treering.model.searches import HITS_MAX
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import command
from treering.surfaces.cli.ledgers import asking, location_of, open_to_ask
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.options import clamp, limit_option
from treering.surfaces.cli.output import counted, one_line, painted, printable, say, say_painted
from treering.surfaces.cli.progress import counting
from treering.surfaces.cli.search_commands import show_command, with_short_ids
from treering.surfaces.cli.times import clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.events import Event
    from treering.model.scopes import Scope
    from treering.model.searches import SearchHit

_COLOURS: Final = {"ok": "green", "failed": "red", "synthetic": "yellow", "open": "cyan"}

ITEMS: Final = 20
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


@command(
    "file-history",
    scope="project",
    short_help="Show which tool calls touched a file, and why.",
    examples="""
    treering file-history src/a.py
    treering file-history a.py --scope acme/app --limit 50 --json
    """,
)
@click.argument("path")
@limit_option(ITEMS)
def file_history(*, path: str, scope: Scope, limit: int) -> None:
    """Show the tool calls that named PATH, newest first, and what the user had asked.

    PATH is a file or a folder: as it was written, relative to here, or its last parts, such as
    src/a.py. Failed runs are included. Files that a tool changed without naming them are not
    found.
    """
    forms = path_forms(path)
    touches: list[Touch] = []
    more = False
    with asking(open_to_ask) as ledger:
        if ledger is not None:
            touches, more = find_touches(ledger, scope, forms, clamp(limit))
            touches = with_short_ids(ledger, scope, touches)
        location = location_of(ledger)
    show(
        {
            "scope": scope,
            "ledger": location,
            "path": path,
            "count": len(touches),
            "has_more": more,
            "sessions": len({touch.session_id for touch in touches}),
            "items": touches,
        },
        page=lambda: (
            print_touches(scope, path, touches, more=more)
            if touches
            else print_nothing(scope, path)
        ),
    )


def path_forms(path: str) -> list[str]:
    """Return how a file may have been named: as given, from here, from the top of the project.

    Raises InvalidInput if that names no file.
    """
    if not path.strip(" /") or len(path) > PATH_CHARACTERS_MAX:
        raise InvalidInput(
            "the path is too long" if path.strip(" /") else "not a path",
            hint="name a file or a folder, as in treering file-history src/a.py",
        )
    here = os.getcwd()  # noqa: PTH109  (a path as text)
    given = os.path.expanduser(path.strip())  # noqa: PTH111
    whole = os.path.normpath(os.path.join(here, given))  # noqa: PTH118
    forms = [_spelt(given)]
    if ".." in PurePath(given).parts:
        forms = []
    forms.append(_spelt(whole))
    for top in (here, _project_top(here)):
        inside = os.path.relpath(whole, top)
        if not inside.startswith(os.pardir) and inside != os.curdir:
            forms.append(_spelt(inside))
    return [form for form in dict.fromkeys(forms) if form.strip("/.")]


def matches(path: str, forms: list[str]) -> bool:
    """Whether a path that was recorded is one of ``forms``, ends in one, or is below one."""
    parts = f"/{_spelt(path).strip('/')}/".casefold()
    return any(
        parts.startswith(f"{form.rstrip('/')}/".casefold())
        if form.startswith("/")
        else f"/{form.strip('/')}/".casefold() in parts
        for form in forms
    )


def _spelt(path: str) -> str:
    return os.path.normpath(path.strip().replace("\\", "/"))


def _project_top(folder: str) -> str:
    at = folder
    while not os.path.exists(os.path.join(at, ".git")):  # noqa: PTH110, PTH118
        above = os.path.dirname(at)  # noqa: PTH120
        if above == at:
            return folder
        at = above
    return at


def find_touches(
    ledger: Ledger, scope: Scope, forms: list[str], limit: int
) -> tuple[list[Touch], bool]:
    """Return the newest tool calls that named a file, and whether there are more."""
    with counting("indexing", "events") as progress:
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
        scope,
        session_id=event.session_id,
        kinds=_SAID,
        until_ms=event.ts_ms,
        last=PROMPTS_AT_ONCE,
    )
    yield from (header for header in reversed(page.items) if header.seq < event.seq)


def print_touches(scope: Scope, path: str, touches: Sequence[Touch], *, more: bool) -> None:
    """Print when a file was touched, those of one session that follow each other together."""
    session = prompt = None
    for at, touch in enumerate(touches):
        if touch.session_id != session:
            if at:
                say_painted(f"  → {printable(touches[at - 1].show)}")
                say("")
            session, prompt = touch.session_id, None
            say_painted(painted(printable(f"{touch.session_id} · {touch.agent}"), bold=True))
        if touch.prompt != prompt:
            prompt = touch.prompt
            if prompt:
                say_painted(f"  user: {painted(one_line(prompt), dim=True)}")
        _print_touch(touch)
    say_painted(f"  → {printable(touches[-1].show)}")
    say("")
    sessions = len({touch.session_id for touch in touches})
    say(
        f"{printable(path)}: touched {counted(len(touches), 'time')} in"
        f" {counted(sessions, 'session')} of scope {scope}"
        + (", and earlier: --limit shows more" if more else "")
    )


def print_nothing(scope: Scope, path: str) -> None:
    """Say that no tool call names a file, and what may help."""
    say(f"no tool call in scope {scope} names {printable(path)}")
    say("  try its last parts only, such as src/a.py, or treering search with its name")
    say("  only imported logs are searched; treering doctor lists the others")


def _print_touch(touch: Touch) -> None:
    status = painted(touch.status, _COLOURS.get(touch.status)) if touch.status else ""
    what = painted(printable(touch.tool or touch.kind), "cyan")
    when = clock(touch.ts_ms)
    say_painted("  ".join(filter(None, (f"  {when}", what, status, one_line(touch.summary)))))
    if touch.decision:
        say_painted(painted(f"    decided: {one_line(touch.decision)}", dim=True))
