"""Repairs and cuts of a context in words: what each means, and what it befell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from treering.errors import NotFound
from treering.surfaces.cli.masking import Mask
from treering.surfaces.cli.output import one_line, painted, printable, say, say_painted
from treering.surfaces.cli.tables import Column, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.messages import Repair, RepairCode
    from treering.model.scopes import Scope

MEANINGS: Final[dict[RepairCode, str]] = {
    "orphan_result": "a result without a call: left out",
    "duplicate_result": "a second result of one call: left out, the first counts",
    "missing_result": "a call without a result: a synthetic one was added",
    "moved_result": "a result that did not follow its call: moved there",
    "duplicate_call_id": "a call whose id was used before: left out if it is the same call again,"
    " else given another id",
    "missing_call_id": "a call without an id: it was given one",
    "empty_message": "nothing was said in it: left out",
    "left_out_message": "a message of a log that neither its user nor its model said: left out",
    "left_out_tool": "a tool that the dialect does not declare: left out",
    "left_out_attachment": "a picture, file or sound that cannot be shown: replaced"
    " by a placeholder",
    "dropped_thinking": "a thought that the model does not take back: left out",
    "missing_thinking": "a call without a signature: a placeholder was added",
    "erased": "its content was redacted or has expired: a placeholder replaces it",
    "shortened_output": "the output of a tool was cut in the middle",
    "restarted": "all before this checkpoint or interrupt was left out, to fit",
    "dropped_turn": "a whole turn was left out, to fit",
    "dropped_message": "part of a turn was left out, to fit",
    "shortened_message": "a message was cut, to fit",
    "summarised": "from here on a summary replaces what was left out",
    "contributor_failed": "a contributor raised an error, and added nothing",
    "contributor_dropped": "what a contributor added was left out, to fit",
    "budget_too_small": "not even the last message fits: nothing is shown",
}

_COLUMNS: Final = (Column(""), Column("", is_dim=True), Column("", is_prose=True))


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A repair or a cut, with what it means and the event that it befell."""

    code: str
    event_id: str | None
    detail: str | None
    meaning: str
    seq: int | None
    type: str | None
    """The kind of the event."""
    summary: str | None


def explain(ledger: Ledger, scope: Scope, report: Sequence[Repair]) -> list[Explained]:
    """Return what each repair means; of the events, only what is safe to show."""
    mask = Mask()
    return [_explained(ledger, scope, repair, mask) for repair in report]


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
            print_table(_COLUMNS, rows)


def _what(repair: Explained) -> str:
    detail = f" ({one_line(repair.detail)})" if repair.detail else ""
    return f"{one_line(repair.summary or '')}{detail}".strip()


def _explained(ledger: Ledger, scope: Scope, repair: Repair, mask: Mask) -> Explained:
    header = None
    if repair.event_id is not None:
        try:
            header = ledger.event(scope, repair.event_id)
        except NotFound:
            # It has expired since.
            header = None
    return Explained(
        code=repair.code,
        event_id=repair.event_id,
        detail=repair.detail,
        meaning=MEANINGS[repair.code],
        seq=None if header is None else header.seq,
        type=None if header is None else header.kind,
        summary=None if header is None else mask.text(header.summary),
    )
