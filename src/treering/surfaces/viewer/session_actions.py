"""What can be done to a session: fork it, undo its last turn, redo it. All of it asks first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from treering.errors import NotFound
from treering.ledger.forking import fork_name
from treering.model.codec import encode
from treering.model.parts import SessionRedone, SessionUndone, safe_part
from treering.surfaces.shared.texts import counted
from treering.surfaces.viewer.markup import NOTHING, Markup, html
from treering.surfaces.viewer.parts import action_button
from treering.surfaces.viewer.requests import ViewArguments, session_address
from treering.surfaces.viewer.session_rows import opened

if TYPE_CHECKING:
    from treering.ledger.sessions import Session
    from treering.model.views import TurnView
    from treering.surfaces.viewer.requests import PageRequest

PROMPT_CHARACTERS: Final = 80


class ForkPlanArguments(ViewArguments, frozen=True, kw_only=True):
    """After which turn to fork; the last one that has ended if it is left out."""

    turn: int | None = None


def fork_plan(request: PageRequest) -> Markup:
    """Return what a fork will share, and what it will be called; ``data-body`` does just that."""
    session = opened(request)
    turns = [*session.turns()]
    ended = [number for number, turn in enumerate(turns, 1) if turn.state != "open"]
    if not ended:
        raise NotFound("no turn has ended yet", hint="fork it after its first turn")
    number = min(max(request.arguments.turn or ended[-1], ended[0]), ended[-1])
    last = next(session.headers(last=1)).seq
    shared = turns[number].first_seq - 1 if number < len(turns) else last
    at = next(session.headers(after_seq=shared - 1))
    name = fork_name(session.session_id)
    return html(
        """<div data-body="{body}" data-then="{then}">
<p class="row"><label>After turn <input type="number" name="turn" min="{first}" max="{ends}"
 value="{number}"></label><small class="muted">of {turns}: {prompt}</small></p>
<ul><li>{shared} of {events} shared, up to event {at}; none is copied</li>
<li>The new session is called <code>{name}</code></li>
<li>This session stays as it is</li></ul></div>""",
        body=encode({"session_id": name, "at": at.event_id, "whole_turn": False}).decode(),
        then=session_address(session.scope, name),
        first=ended[0],
        ends=ended[-1],
        number=number,
        turns=f"{len(turns):,}",
        prompt=_prompt(request, turns[number - 1]),
        shared=f"{shared:,}",
        events=counted(last, "event"),
        at=f"{shared:,}",
        name=name,
    )


def fork_button(request: PageRequest, session: Session) -> Markup:
    """Return the button that forks a session after a turn."""
    base = f"/sessions/{quote(session.session_id, safe='')}"
    return action_button(
        request,
        "write",
        "Fork",
        url=f"{_routes(session)}/fork",
        plan=f"{base}/fork?{urlencode({'scope': session.scope})}",
        title="Fork this session?",
        says="A new session begins with the past of this one.",
        done="Forked.",
    )


def undo_buttons(
    request: PageRequest, session: Session, turns: list[tuple[int, TurnView]]
) -> Markup:
    """Return the buttons that undo and redo the last turn, and say what they will do."""
    standing = [(number, turn) for number, turn in turns if not turn.is_undone]
    then = f"{session_address(session.scope, session.session_id)}&open=tree"
    buttons = []
    if standing:
        number, last = standing[-1]
        buttons.append(action_button(
            request, "write", "Undo the last turn", url=f"{_routes(session)}/undo", then=then,
            title="Undo the last turn?", done="Undone.",
            says=f"Turn {number} is hidden from the model and from views: {_prompt(request, last)}."
            " Nothing is deleted, and Redo shows it again.",
        ))  # fmt: skip
    if again := _hidden_last(session, turns):
        named = "; ".join(f"turn {number}, {_prompt(request, turn)}" for number, turn in again)
        buttons.append(action_button(
            request, "write", "Redo", url=f"{_routes(session)}/redo", then=then,
            title="Redo?", done="Shown again.",
            says=f"What the last undo hid is shown again, to the model as well: {named}.",
        ))  # fmt: skip
    return html('<p class="row">{}</p>', buttons) if any(buttons) else NOTHING


def _hidden_last(session: Session, turns: list[tuple[int, TurnView]]) -> list[tuple[int, TurnView]]:
    """Return the turns that the last undo hid, unless they are shown again."""
    if not any(turn.is_undone for _, turn in turns):
        return []
    standing: dict[int, int] = {}
    for header in session.headers(kinds=("session.undone", "session.redone")):
        part = safe_part(header.kind, header.refs)
        if isinstance(part, SessionUndone) and part.from_seq is not None:
            standing[header.seq] = part.from_seq
        elif isinstance(part, SessionRedone):
            standing.pop(part.undone_seq or 0, None)
    first = standing[max(standing)] if standing else None
    return [
        (number, turn)
        for number, turn in turns
        if turn.is_undone and first is not None and first <= turn.first_seq < max(standing)
    ]


def _prompt(request: PageRequest, turn: TurnView) -> str:
    text = " ".join(request.text(turn.prompt).split())
    return f"“{text[:PROMPT_CHARACTERS]}{'…' if len(text) > PROMPT_CHARACTERS else ''}”"


def _routes(session: Session) -> str:
    scope, name = quote(session.scope, safe=""), quote(session.session_id, safe="")
    return f"/v1/scopes/{scope}/sessions/{name}"
