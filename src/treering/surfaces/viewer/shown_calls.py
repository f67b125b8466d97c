"""A tool call as the transcript shows it: an edit as a diff, a command with its output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.surfaces.pages.blocks_html import PageLinks, blocks_html
from treering.surfaces.pages.display import display_entry
from treering.surfaces.pages.entries import PageEntry
from treering.surfaces.viewer.markup import Markup

if TYPE_CHECKING:
    from treering.model.events import Event
    from treering.surfaces.viewer.requests import PageRequest

CHARACTERS_MAX: Final = 20_000


def call_html(request: PageRequest, call: Event, result: Event | None = None) -> Markup:
    """Return the arguments of a call, and its result if it is known."""
    entry = PageEntry(sort="tool", event=call, result=result)
    shown = display_entry(entry, request.mask, characters_max=CHARACTERS_MAX)
    # It escapes everything recorded, as the exported page does.
    return Markup(blocks_html(shown.blocks, PageLinks()))
