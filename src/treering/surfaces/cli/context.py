"""``treering context``: what a model is shown next, or was shown before, and what was cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import InvalidInput, NotFound
from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.completing import complete_run
from treering.surfaces.cli.declare import Options, command, flag, option, session_argument, together
from treering.surfaces.cli.finding import find_run_id, open_to_read, short_events
from treering.surfaces.cli.ledgers import open_existing
from treering.surfaces.cli.output import painted, say, say_painted, writing_output
from treering.surfaces.cli.tables import Column, print_table
from treering.surfaces.shared.contexts import (
    Explained,
    MessagePiece,
    explain_repair,
    message_parts,
    pieces_of,
    with_contributors,
)
from treering.surfaces.shared.texts import Mask, counted, one_line, printable
from treering.surfaces.shared.times import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.context.assemble import Context
    from treering.ledger.contexts import Shown
    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.model.messages import Repair
    from treering.model.scopes import Scope

DIALECT_DEFAULT: Final = "openai-chat"
TEXT_CHARACTERS_MAX: Final = 600
"""A longer text is cut in the middle, unless ``full``."""
_MESSAGES: Final = (
    Column(
        "",
        colours={
            "system": "magenta",
            "thinking": "bright_black",
            "user": "cyan",
            "assistant": "green",
            "call": "yellow",
            "result": "yellow",
            "error": "red",
        },
    ),
    Column("", is_prose=True),
)
_REPAIRS: Final = (Column(""), Column("", is_dim=True), Column("", is_prose=True))


class ShownContext(msgspec.Struct, frozen=True, kw_only=True):
    """A context as it is shown here: what goes to the provider, and how it was assembled."""

    dialect: str
    request: dict[str, Any]
    """The keyword arguments of the provider's client; secrets are masked unless asked for."""
    messages: int
    tokens: int
    tokens_between: tuple[int, int]
    """What it costs at least and at most, as far as estimates are known to err."""
    accuracy: str
    """How far the tokens can be relied on."""
    max_tokens: int | None
    reserve_output_tokens: int
    ratio: float
    """What the provider counted to one token of the estimate, lately."""
    report: list[Any]
    """Every repair and cut, in words if that was asked for."""
    event_ids: list[str]
    contributed: list[Any]
    """Who added something for this call alone, without what it was."""
    until_seq: int
    digest: str
    masked: int
    """How many of the messages held a secret, which is masked here."""


class _Budget(Options, frozen=True, kw_only=True):
    """What the next context may cost, and in whose form it is."""

    max_tokens: int | None = option("N", "The context window of the model.", type=int)
    dialect: str | None = option(
        "NAME", "openai-chat (the default), openai-responses, anthropic, gemini or plain."
    )
    reserve: int | None = option("N", "Reserve N tokens of it for the answer.", type=int)


@command(
    scope="wide",
    examples="""
    treering context main:telegram:jo --scope acme/app --max-tokens 8000
    treering context main:telegram:jo --max-tokens 2000 --dialect anthropic --json
    treering context main:telegram:jo --scope acme/app --max-tokens 2000 --explain
    treering context main:telegram:jo --scope acme/app --shown --turn 3
    """,
)
def context(
    *,
    scope: Scope | None,
    session: str = session_argument,
    budget: _Budget = together(_Budget),
    explain: bool = flag("Explain what was repaired and cut, and why."),
    full: bool = flag("Do not shorten long texts."),
    private: bool = flag("Do not mask secrets."),
    shown: bool = flag("Show what the model saw before: last, or in a turn or run."),
    turn: int | None = option("N", "With --shown: in turn N, counted from 1.", type=int),
    run_id: str | None = option(
        "ID", "With --shown: in this run.", "--run", shell_complete=complete_run
    ),
) -> None:
    """Show what the model of SESSION sees next, within --max-tokens.

    Nothing is recorded. --shown reconstructs what a model saw before, and says whether that is
    exact. Secrets are masked, unless --private. SESSION is an id or a short id.
    """
    _check(budget, shown=shown, turn=turn, run_id=run_id)
    mask = None if private else Mask()
    with open_existing() as ledger:
        opened = open_to_read(ledger, scope, session)
        scope = opened.scope
        body = {"scope": scope, "session_id": opened.session_id, "private": private}
        if shown:
            times = find_shown(ledger, opened, turn=turn, run_id=run_id)
            contexts = [
                _shown_context(ledger, scope, time.context, mask, explain=explain) for time in times
            ]
        else:
            times, contexts = (
                [],
                [_shown_context(ledger, scope, _next(opened, budget), mask, explain=explain)],
            )
    if not invocation().as_json:
        with writing_output():
            if shown:
                print_shown(opened, times, contexts, explained=explain, full=full)
            else:
                print_next(opened, contexts[0], explained=explain, full=full)
    elif shown:
        listed = [
            {**_when(time), **msgspec.structs.asdict(shown_context)}
            for time, shown_context in zip(times, contexts, strict=True)
        ]
        show({**body, "count": len(listed), "shown": listed})
    else:
        show({**body, **msgspec.structs.asdict(contexts[0])})


def _check(budget: _Budget, *, shown: bool, turn: int | None, run_id: str | None) -> None:
    """Raise InvalidInput if the options do not belong together."""
    if not shown:
        if turn is not None or run_id is not None:
            flag = "--turn" if turn is not None else "--run"
            raise InvalidInput(f"{flag} needs --shown", hint="add --shown")
        if budget.max_tokens is None:
            raise InvalidInput(
                "max_tokens is required",
                hint="pass the window of the model, as in --max-tokens 8000, or --shown",
            )
        return
    if turn is not None and run_id is not None:
        raise InvalidInput("--turn and --run exclude each other", hint="drop one of the two")
    for name, value in msgspec.structs.asdict(budget).items():
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            raise InvalidInput(f"{flag} cannot be combined with --shown", hint=f"drop {flag}")


def _next(session: Session, budget: _Budget) -> Context:
    return session.context(
        budget.max_tokens,
        dialect=budget.dialect or DIALECT_DEFAULT,
        reserve_output_tokens=budget.reserve or 0,
    )


def _shown_context(
    ledger: Ledger, scope: Scope, context: Context, mask: Mask | None, *, explain: bool
) -> ShownContext:

    before = 0 if mask is None else mask.masked
    request = context.request if mask is None else _masked(context.request, mask)
    return ShownContext(
        dialect=context.dialect, request=request, messages=len(context.messages),
        tokens=context.tokens, tokens_between=context.tokens_between, accuracy=context.accuracy,
        max_tokens=context.max_tokens, reserve_output_tokens=context.reserve_output_tokens,
        ratio=context.ratio,
        report=explain_all(ledger, scope, context.report) if explain else context.report,
        event_ids=context.event_ids, contributed=context.contributed, until_seq=context.until_seq,
        digest=context.digest, masked=0 if mask is None else mask.masked - before,
    )  # fmt: skip


def _masked(request: dict[str, Any], mask: Mask) -> dict[str, Any]:
    """Return a request with secrets masked, message by message."""
    return {
        name: [mask.value(item) for item in value] if isinstance(value, list) else mask.value(value)
        for name, value in request.items()
    }


def _when(shown: Any) -> dict[str, Any]:
    names = ("event_id", "seq", "run_id", "ts_ms", "exact")
    return {name: getattr(shown, name) for name in names}


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
    for time, context in zip(times, seen, strict=True):
        say("")
        run = "" if time.run_id is None else f" in run {printable(time.run_id)}"
        say_painted(painted(f"{moment(time.ts_ms)}{run}: {_size(context)}", bold=True))
        if time.exact:
            say("this is exactly what was shown of the ledger")
        else:
            say(
                "this is not exact: some of it was erased since, or would be assembled otherwise"
                " today"
            )
        _print_body(context, explained=explained, full=full)
        if names := ", ".join(printable(added.name) for added in context.contributed):
            say(f"beside it, for this call alone and not kept: {names}")


def _size(seen: ShownContext) -> str:
    window = "" if seen.max_tokens is None else f" of {seen.max_tokens:,}"
    reserved = seen.reserve_output_tokens
    reserve = f", {reserved:,} kept for the answer" if reserved else ""
    messages = counted(seen.messages, "message")
    return f"{messages}, about {seen.tokens:,}{window} tokens{reserve} ({seen.dialect})"


def _print_body(seen: ShownContext, *, explained: bool, full: bool) -> None:
    system, messages = message_parts(seen.request)
    say("")
    if messages:
        print_pieces(
            list(pieces_of(system, messages)), characters_max=None if full else TEXT_CHARACTERS_MAX
        )
    else:
        small = any(repair.code == "budget_too_small" for repair in seen.report)
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


def find_shown(
    ledger: Ledger, session: Session, *, turn: int | None, run_id: str | None
) -> list[Shown]:
    """Return every time that a model was shown something in a turn or a run, or the last one.

    The beginning of a run's id will do. Each says who contributed. Raises NotFound if nothing is
    known.
    """
    if run_id is None:
        contexts = session.shown(turn=turn)
        where = f"session {session.session_id}" if turn is None else f"turn {turn}"
    else:
        contexts = session.shown(run_id=run_id)
        if not contexts:
            # A fork has runs of other sessions in its past.
            whole = find_run_id(ledger, session.scope, run_id)
            contexts = session.shown(run_id=whole)
        where = f"run {run_id}"
    if not contexts:
        raise NotFound(
            f"what the model was shown in {where} is not recorded",
            hint="turn.context() records it; --max-tokens shows what it would be shown now",
        )
    return [with_contributors(ledger, session, context) for context in contexts]


def print_pieces(pieces: Sequence[MessagePiece], *, characters_max: int | None) -> None:
    """Print ``pieces`` one below the other, each line of a text on a line of its own."""
    rows: list[list[str]] = []
    for piece in pieces:
        first, *more = _lines(piece.text, characters_max)
        rows.append([piece.speaker, printable(first)])
        rows += [["", printable(line)] for line in more]
    print_table(_MESSAGES, rows)


def _lines(text: str, characters_max: int | None) -> list[str]:
    """Return the lines of ``text``; if it is long, the first and the last."""
    if characters_max is None or len(text) <= characters_max:
        return text.split("\n")
    half = characters_max // 2
    head, tail = text[:half], text[-half:]
    if "\n" in head and "\n" in tail:
        # Keep whole lines where possible.
        head, tail = head.rpartition("\n")[0], tail.partition("\n")[2]
    omitted = len(text) - len(head) - len(tail)
    # Not the words of a cut that a model reads: this one is for people only.
    marker = f"… {omitted:,} characters are not printed: --full prints them …"
    return [*head.split("\n"), marker, *tail.split("\n")]


def explain_all(ledger: Ledger, scope: Scope, report: Sequence[Repair]) -> list[Explained]:
    """Return what each repair means; of the events, only what is safe to show."""
    mask, short = Mask(), short_events(ledger, scope)
    explained = (explain_repair(ledger, scope, repair, mask) for repair in report)
    return [short.within(explanation, "event_id") for explanation in explained]


def print_explained(report: Sequence[Explained]) -> None:
    """Print repairs and cuts, those of one sort together."""
    if not report:
        say("nothing was repaired or cut")
        return
    for code in dict.fromkeys(repair.code for repair in report):
        repairs = [repair for repair in report if repair.code == code]
        say_painted(f"{painted(code, bold=True)}: {repairs[0].meaning}")
        for repair in repairs:
            if repair.event_id is None and repair.detail:
                say(f"  {repair.detail}")
        rows = [
            [
                f"  {'-' if repair.seq is None else repair.seq}",
                printable(repair.event_id),
                _what(repair),
            ]
            for repair in repairs
            if repair.event_id is not None
        ]
        if rows:
            print_table(_REPAIRS, rows)


def _what(repair: Explained) -> str:
    detail = f" ({one_line(repair.detail)})" if repair.detail else ""
    return f"{one_line(repair.summary or '')}{detail}".strip()
