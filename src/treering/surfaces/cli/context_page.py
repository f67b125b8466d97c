"""Contexts as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.surfaces.cli.context_messages import TEXT_CHARACTERS_MAX, pieces_of, print_pieces
from treering.surfaces.cli.context_repairs import print_explained
from treering.surfaces.cli.output import counted, painted, printable, say, say_painted
from treering.surfaces.cli.tables import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.contexts import Shown
    from treering.ledger.sessions import Session
    from treering.surfaces.cli.context import ShownContext


def print_next(session: Session, told: ShownContext, *, explained: bool, full: bool) -> None:
    """Print what a model is shown next."""
    say(f"context of session {session.session_id} of scope {session.scope}: {_size(told)}")
    _print_body(told, explained=explained, full=full)


def print_shown(
    session: Session,
    times: Sequence[Shown],
    told: Sequence[ShownContext],
    *,
    explained: bool,
    full: bool,
) -> None:
    """Print what a model was shown, once or several times."""
    say(f"what the model of session {session.session_id} of scope {session.scope} was shown:")
    for time, one in zip(times, told, strict=True):
        say("")
        run = "" if time.run_id is None else f" in run {printable(time.run_id)}"
        say_painted(painted(f"{clock(time.ts_ms)} UTC{run}: {_size(one)}", bold=True))
        if time.exact:
            say("this is exactly what was shown of the ledger")
        else:
            say(
                "this is not exact: some of it was erased since, or would be assembled otherwise"
                " today"
            )
        _print_body(one, explained=explained, full=full)
        if names := ", ".join(printable(added.name) for added in one.contributed):
            say(f"beside it, for this call alone and not kept: {names}")


def _size(told: ShownContext) -> str:
    window = "" if told.max_tokens is None else f" of {told.max_tokens:,}"
    reserved = told.reserve_output_tokens
    kept = f", {reserved:,} kept for the answer" if reserved else ""
    messages = counted(told.messages, "message")
    return f"{messages}, about {told.tokens:,}{window} tokens{kept} ({told.dialect})"


def _print_body(told: ShownContext, *, explained: bool, full: bool) -> None:
    system, messages = _parts(told.request)
    say("")
    if messages:
        print_pieces(
            list(pieces_of(system, messages)), characters_max=None if full else TEXT_CHARACTERS_MAX
        )
    else:
        small = any(one.code == "budget_too_small" for one in told.report)
        say("no messages: the budget is too small" if small else "no messages: nothing was said")
    if explained or told.report or told.masked:
        say("")
    if explained:
        print_explained(told.report)
        if told.ratio != 1.0:
            say(f"tokens count {told.ratio:.2f} times the estimate, as the provider did lately")
    elif told.report:
        nouns = "repair or cut" if len(told.report) == 1 else "repairs and cuts"
        say(f"{len(told.report):,} {nouns}: --explain says what and why")
    if told.masked:
        held = f"{counted(told.masked, 'message')} held secrets, masked here"
        say(f"{held}: --private shows them as they are")


def _parts(request: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    """Return the system text and the messages of any provider's request."""
    messages = next((value for value in request.values() if isinstance(value, list)), [])
    beside = request.get("config", request)
    names = ("system", "instructions", "system_instruction")
    return next((beside[name] for name in names if name in beside), None), messages
