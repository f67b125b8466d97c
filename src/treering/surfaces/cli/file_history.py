"""``treering file-history``: who touched a file, when, by which tool, and what for."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.declare import argument, clamp, command, limit_option
from treering.surfaces.cli.finding import with_short_ids
from treering.surfaces.cli.ledgers import asking, is_unknown, location_of, open_to_ask, say_unknown
from treering.surfaces.cli.output import painted, say, say_painted
from treering.surfaces.cli.progress import counting
from treering.surfaces.shared.file_touches import PATH_CHARACTERS_MAX, Touch, find_touches, spelt
from treering.surfaces.shared.texts import counted, one_line, printable
from treering.surfaces.shared.times import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.scopes import Scope

_COLOURS: Final = {"ok": "green", "failed": "red", "synthetic": "yellow", "open": "cyan"}

ITEMS: Final = 20


@command(
    scope="project",
    examples="""
    treering file-history src/a.py
    treering file-history a.py --scope acme/app --limit 50 --json
    """,
)
def file_history(*, scope: Scope, path: str = argument(), limit: int = limit_option(ITEMS)) -> None:
    """Show the tool calls that named PATH, newest first, and what the user had asked.

    PATH is a file or a folder: as it was written, relative to here, or its last parts, such as
    src/a.py. Failed runs are included. Files that a tool changed without naming them are not
    found.
    """
    forms = path_forms(path)
    touches: list[Touch] = []
    more = is_new = False
    with asking(open_to_ask) as ledger:
        if ledger is not None:
            with counting("indexing", "events") as progress:
                touches, more = find_touches(ledger, scope, forms, clamp(limit), progress=progress)
            touches = with_short_ids(ledger, scope, touches)
            is_new = not touches and is_unknown(ledger, scope)
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
            else print_nothing(scope, path, is_new=is_new)
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
    forms = [spelt(given)]
    if ".." in PurePath(given).parts:
        forms = []
    forms.append(spelt(whole))
    for top in (here, _project_top(here)):
        inside = os.path.relpath(whole, top)
        if not inside.startswith(os.pardir) and inside != os.curdir:
            forms.append(spelt(inside))
    return [form for form in dict.fromkeys(forms) if form.strip("/.")]


def _project_top(folder: str) -> str:
    at = folder
    while not os.path.exists(os.path.join(at, ".git")):  # noqa: PTH110, PTH118
        above = os.path.dirname(at)  # noqa: PTH120
        if above == at:
            return folder
        at = above
    return at


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


def print_nothing(scope: Scope, path: str, *, is_new: bool) -> None:
    """Say that no tool call names a file, and what may help."""
    if is_new:
        say_unknown(scope)
        return
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
