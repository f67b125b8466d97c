"""Tool calls in words: what was called, and what a failed one said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from treering.context.texts import tool_output_text
from treering.errors import NotFound
from treering.surfaces.pages.blocks_html import PageLinks, blocks_html
from treering.surfaces.pages.display import display_entry
from treering.surfaces.pages.entries import PageEntry
from treering.surfaces.pages.wording import erased_text, tool_of
from treering.surfaces.viewer.markup import Markup

if TYPE_CHECKING:
    from treering.model.events import Event
    from treering.model.tool_records import ToolRecord
    from treering.surfaces.viewer.requests import PageRequest

CHARACTERS_MAX: Final = 20_000

MESSAGE_CHARACTERS_MAX: Final = 300


class CallWords(NamedTuple):
    """One call, in words that are fit for a page but not yet escaped."""

    tool: str
    command: str
    """The beginning of what it was called with."""
    message: str
    """The last line of its output."""
    remark: str
    """How it ended, if that is not ok: an error class, or why the result is missing."""


def call_words(request: PageRequest, record: ToolRecord) -> CallWords:
    """Return a call in words; erased content is marked as such."""
    call = _event(request, record, record.call_event_id)
    result = _event(request, record, record.late_event_id or record.result_event_id)
    tool, command, remark = request.text(record.tool) or "(unnamed)", "", ""
    if call is not None and not call.redacted:
        words = tool_of(
            PageEntry(sort="tool", event=call, result=result, record=record), request.mask
        )
        command, remark = words.hint, words.remark
    elif call is not None:
        command = erased_text(call)
    message = ""
    if result is not None:
        output = erased_text(result) if result.redacted else tool_output_text(result)
        message = last_line(request.text(output))
    remark = remark or request.text(record.error_class or record.reason)
    return CallWords(tool, command, message, remark)


def last_line(text: str) -> str:
    """Return the last line that says something; errors end with what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t-=_*#")]
    return lines[-1][:MESSAGE_CHARACTERS_MAX] if lines else ""


def _event(request: PageRequest, record: ToolRecord, event_id: str | None) -> Event | None:
    if event_id is None:
        return None
    try:
        return request.ledger.event(record.scope, event_id)
    except NotFound:
        return None


def call_html(request: PageRequest, call: Event, result: Event | None = None) -> Markup:
    """Return the arguments of a call, and its result if it is known."""
    entry = PageEntry(sort="tool", event=call, result=result)
    shown = display_entry(entry, request.mask, characters_max=CHARACTERS_MAX)
    # It escapes everything recorded, as the exported page does.
    return Markup(blocks_html(shown.blocks, PageLinks()))
