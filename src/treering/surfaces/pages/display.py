"""How each entry of a session is shown; the terminal, pages and viewer share it."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from treering.context.media import split_media
from treering.context.texts import message_media, tool_output
from treering.model.events import Event, Header
from treering.model.pictures import PictureFacts, picture_in
from treering.spine.words import shorten
from treering.surfaces.pages.blocks import (
    AttachmentBlock,
    Block,
    PictureBlock,
    ProseBlock,
    StyledLine,
    SubagentBlock,
)
from treering.surfaces.pages.entries import PageEntry, Sort
from treering.surfaces.pages.tool_blocks import (
    ToolContent,
    ToolSort,
    sort_of,
    tail_lines,
    tool_blocks,
)
from treering.surfaces.pages.wording import (
    ToolWording,
    body_of,
    clean,
    counted_of,
    given_of,
    note_of,
    raw_output_of,
    rule_of,
    text_of,
    tool_of,
)
from treering.surfaces.shared.texts import Mask, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from treering.model.messages import Media
    from treering.surfaces.pages.transcripts import TurnHead

GROUP_MIN: Final = 2
BAD_NOTES: Final = frozenset({"error", "alert", "warning", "blocked"})
BAD_RULES: Final = ("run.failed", "run.interrupted", "session.undone", "ledger.")
_FOLDED: Final[dict[ToolSort, str]] = {"read": "read", "search": "search"}

DisplaySort = Sort | Literal["group"]


class EntryDisplay(msgspec.Struct, frozen=True, kw_only=True):
    """One entry as it is shown."""

    sort: DisplaySort
    event: Header
    title: str
    """Who speaks, what a mark says, the name of a note or of a tool, what a group holds."""
    text: str = ""
    """What a note says."""
    is_bad: bool = False
    """Whether it failed, warns or was interrupted."""
    blocks: tuple[Block, ...] = ()
    tool: ToolWording | None = None
    tool_sort: ToolSort = "other"
    facts: tuple[str, ...] = ()
    """Of a tool, in a few words: exit code, lines changed, time, size."""
    tail: tuple[StyledLine, ...] = ()
    """The last lines of a call that failed."""
    members: tuple[EntryDisplay, ...] = ()
    """Of a group: calls that read or searched, and worked."""


def display_entry(
    entry: PageEntry,
    mask: Mask,
    *,
    characters_max: int | None = None,
    subagent: Callable[[str], SubagentBlock | None] = lambda _: None,
) -> EntryDisplay:
    """Return how an entry is shown; a longer text of a tool is cut after ``characters_max``.

    ``subagent`` returns the session that a tool call began, by the call's id.
    """
    event = entry.event
    match entry.sort:
        case "tool":
            return _tool(entry, mask, characters_max, subagent)
        case "rule":
            body = body_of(event, mask)
            return EntryDisplay(
                sort="rule",
                event=event,
                title=rule_of(event, mask),
                is_bad=event.kind.startswith(BAD_RULES),
                blocks=(ProseBlock(text=body),) if body else (),
            )
        case "note":
            label, text = note_of(event, mask)
            return EntryDisplay(
                sort="note", event=event, title=label, text=text, is_bad=label in BAD_NOTES
            )
        case "more":
            return EntryDisplay(sort="more", event=event, title=counted_of(entry))
        case _:
            text = text_of(event, mask)
            media = message_media(event) if isinstance(event, Event) else []
            words = (ProseBlock(text=text),) if text else ()
            blocks = (*words, *_attached(media, event, mask))
            return EntryDisplay(sort=entry.sort, event=event, title=entry.sort, blocks=blocks)


def grouped(shown: Iterable[TurnHead | EntryDisplay]) -> Iterator[TurnHead | EntryDisplay]:
    """Fold calls that only read or searched, and worked, into one entry where they follow on."""
    held: list[EntryDisplay] = []
    for piece in shown:
        if isinstance(piece, EntryDisplay) and _is_quiet(piece):
            held.append(piece)
            continue
        yield from _group(held)
        held = []
        yield piece
    yield from _group(held)


def _is_quiet(shown: EntryDisplay) -> bool:
    is_ok = shown.tool is not None and shown.tool.status == "ok" and not shown.is_bad
    has_picture = any(isinstance(block, PictureBlock) for block in shown.blocks)
    return is_ok and shown.tool_sort in _FOLDED and not has_picture


def _group(held: list[EntryDisplay]) -> Iterator[EntryDisplay]:
    if len(held) < GROUP_MIN:
        yield from held
        return
    counts = Counter(_FOLDED[shown.tool_sort] for shown in held)
    words = [
        counted(number, name).replace("searchs", "searches") for name, number in counts.items()
    ]
    yield EntryDisplay(
        sort="group", event=held[0].event, title=", ".join(words), members=tuple(held)
    )


def _tool(
    entry: PageEntry,
    mask: Mask,
    characters_max: int | None,
    subagent: Callable[[str], SubagentBlock | None],
) -> EntryDisplay:
    tool = tool_of(entry, mask)
    given = given_of(entry, mask)
    is_failed = tool.status in {"failed", "synthetic"}
    card = _clean_card(subagent(tool.call_id) if tool.call_id else None, mask)
    result = entry.result if isinstance(entry.result, Event) else None
    media = tool_output(result)[1] if result is not None else []
    facts = [fact for fact in (tool.took, tool.size) if fact]
    if not given and result is None:
        return EntryDisplay(
            sort="tool",
            event=entry.event,
            title=tool.name,
            is_bad=is_failed,
            blocks=(card,) if card else (),
            tool=tool,
            tool_sort=sort_of(tool.name, {}),
            facts=tuple(facts),
        )
    content = ToolContent(
        name=tool.name,
        given=given,
        output=raw_output_of(entry, mask),
        result=None if result is None else mask.value(split_media(result.payload)[0]),
        is_failed=is_failed,
    )
    drawn = tool_blocks(content, partial(clean, mask=mask), characters_max=characters_max)
    is_bad = is_failed or bool(drawn.exit_code)
    return EntryDisplay(
        sort="tool",
        event=entry.event,
        title=tool.name,
        is_bad=is_bad,
        blocks=(
            *((card,) if card else ()),
            *drawn.blocks,
            *_attached(media, entry.result or entry.event, mask),
        ),
        tool=tool,
        tool_sort=drawn.sort,
        facts=(*drawn.facts, *facts),
        tail=tail_lines(drawn.blocks) if is_bad else (),
    )


def _clean_card(card: SubagentBlock | None, mask: Mask) -> SubagentBlock | None:
    if card is None:
        return None
    title, agent = clean(shorten(card.title), mask), clean(card.agent, mask)
    return msgspec.structs.replace(card, title=title, agent=agent)


def _attached(media: list[Media], event: Header, mask: Mask) -> Iterator[Block]:
    """Return the pictures that can be shown, and what the other attachments are."""
    for number, attachment in enumerate(media):
        facts = picture_facts(attachment)
        if facts is None or attachment.data is None:
            yield AttachmentBlock(text=clean(attachment.placeholder(), mask))
            continue
        yield PictureBlock(
            name=clean(attachment.name or "", mask),
            mime=facts.mime,
            data=attachment.data,
            bytes_count=attachment.size,
            event_id=event.event_id,
            number=number,
            width=facts.width,
            height=facts.height,
        )


PICTURE_BYTES_MAX: Final = 8_000_000
"""A larger one is named, and not shown."""
_HEAD_BASE64: Final = 262_144
"""Characters of base64 that are searched for the size of a picture."""
_SIDE_MAX: Final = 30_000


def picture_facts(media: Media) -> PictureFacts | None:
    """Return type and size of a picture; None if a browser must not get it."""
    if media.data is None or media.size > PICTURE_BYTES_MAX:
        return None
    try:
        head = base64.b64decode(media.data[:_HEAD_BASE64], validate=True)
    except (binascii.Error, ValueError):
        return None
    facts = picture_in(head)
    if facts is None or not (0 < facts.width <= _SIDE_MAX and 0 < facts.height <= _SIDE_MAX):
        return None
    return facts
