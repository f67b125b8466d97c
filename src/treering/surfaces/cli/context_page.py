"""Contexts as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treering.surfaces.cli.context_messages import TEXT_CHARACTERS_MAX, pieces_of, print_pieces
from treering.surfaces.cli.context_repairs import print_explained
from treering.surfaces.cli.output import counted, painted, printable, say, say_painted
from treering.surfaces.cli.times import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.contexts import Shown
    from treering.ledger.sessions import Session
    from treering.surfaces.cli.context import ShownContext


def print_next(session: Session, seen: ShownContext, *, explained: bool, full: bool) -> None:
    """Print what a model is shown next."""
    say(f"context of session {session.session_id} of scope {session.scope}: {_size(seen)}")
    _print_body(seen, explained=explained, full=full)


def print_shown(
    session: Session,
    times: Sequence[Shown],
    seen: Sequence[ShownContext],
    *,
    explained: bool,
    full: bool,
) -> None:
    """Print what a model was shown, once or several times."""
    say(f"what the model of session {session.session_id} of scope {session.scope} was shown:")
    for time, one in zip(times, seen, strict=True):
        say("")
        run = "" if time.run_id is None else f" in run {printable(time.run_id)}"
        say_painted(painted(f"{moment(time.ts_ms)}{run}: {_size(one)}", bold=True))
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


def _size(seen: ShownContext) -> str:
    window = "" if seen.max_tokens is None else f" of {seen.max_tokens:,}"
    reserved = seen.reserve_output_tokens
    kept = f", {reserved:,} kept for the answer" if reserved else ""
    messages = counted(seen.messages, "message")
    return f"{messages}, about {seen.tokens:,}{window} tokens{kept} ({seen.dialect})"


def _print_body(seen: ShownContext, *, explained: bool, full: bool) -> None:
    system, messages = _parts(seen.request)
    say("")
    if messages:
        print_pieces(
            list(pieces_of(system, messages)), characters_max=None if full else TEXT_CHARACTERS_MAX
        )
    else:
        small = any(one.code == "budget_too_small" for one in seen.report)
        say("no messages: the budget is too small" if small else "no messages: nothing was said")
    if explained or seen.report or seen.masked:
        say("")
    if explained:
        print_explained(seen.report)
        if seen.ratio != 1.0:
            say(f"tokens count {seen.ratio:.2f} times the estimate, as the provider did lately")
    elif seen.report:
        nouns = "repair or cut" if len(seen.report) == 1 else "repairs and cuts"
        say(f"{len(seen.report):,} {nouns}: --explain says what and why")
    if seen.masked:
        held = f"{counted(seen.masked, 'message')} held secrets, masked here"
        say(f"{held}: --private shows them as they are")


def _parts(request: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    """Return the system text and the messages of any provider's request."""
    messages = next((value for value in request.values() if isinstance(value, list)), [])
    beside = request.get("config", request)
    names = ("system", "instructions", "system_instruction")
    return next((beside[name] for name in names if name in beside), None), messages
