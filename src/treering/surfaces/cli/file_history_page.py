"""The history of a file, as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.surfaces.cli.output import counted, one_line, painted, printable, say, say_painted
from treering.surfaces.cli.times import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.model.scopes import Scope
    from treering.surfaces.cli.file_history import Touch

_COLOURS: Final = {"ok": "green", "failed": "red", "synthetic": "yellow", "open": "cyan"}


def print_touches(scope: Scope, path: str, touches: Sequence[Touch], *, more: bool) -> None:
    """Print when a file was touched, those of one session that follow each other together."""
    session = prompt = None
    for at, one in enumerate(touches):
        if one.session_id != session:
            if at:
                say_painted(f"  → {printable(touches[at - 1].show)}")
                say("")
            session, prompt = one.session_id, None
            say_painted(painted(printable(f"{one.session_id} · {one.agent}"), bold=True))
        if one.prompt != prompt:
            prompt = one.prompt
            if prompt:
                say_painted(f"  user: {painted(one_line(prompt), dim=True)}")
        _print_touch(one)
    say_painted(f"  → {printable(touches[-1].show)}")
    say("")
    sessions = len({one.session_id for one in touches})
    say(
        f"{printable(path)}: touched {counted(len(touches), 'time')} in"
        f" {counted(sessions, 'session')} of scope {scope}"
        + (", and earlier: --limit shows more" if more else "")
    )


def print_nothing(scope: Scope, path: str) -> None:
    """Say that nothing is known of a file, and what may help."""
    say(f"no tool call in scope {scope} names {printable(path)}")
    say("  try its last parts only, such as src/a.py, or treering search with its name")
    say("  only imported logs are searched; treering doctor lists the others")


def _print_touch(one: Touch) -> None:
    status = painted(one.status, _COLOURS.get(one.status)) if one.status else ""
    what = painted(printable(one.tool or one.kind), "cyan")
    when = clock(one.ts_ms)
    say_painted("  ".join(filter(None, (f"  {when}", what, status, one_line(one.summary)))))
    if one.decision:
        say_painted(painted(f"    decided: {one_line(one.decision)}", dim=True))
