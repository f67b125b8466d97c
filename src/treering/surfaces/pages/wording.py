"""The wording of a page: texts, tools in a line, marks, sizes and sums."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.context.media import split_media
from treering.context.texts import (
    call_arguments,
    call_names,
    message_text,
    tool_output,
    tool_output_text,
)
from treering.model.codec import encode
from treering.model.events import REDACTED, Event, Header
from treering.model.parts import (
    ContextAssembled,
    ContextCompacted,
    RunEnded,
    SessionForked,
    SessionUndone,
    ToolCalled,
    ToolReturned,
    safe_part,
)
from treering.spine.words import SUMMARY_CHARACTERS, shorten
from treering.surfaces.pages.tool_blocks import call_hint
from treering.surfaces.shared.texts import Mask, counted, printable
from treering.surfaces.shared.times import duration

if TYPE_CHECKING:
    from treering.model.views import Spent
    from treering.surfaces.pages.entries import PageEntry
    from treering.surfaces.pages.transcripts import TurnHead

HINT_CHARACTERS_MAX: Final = 120
_UNNAMED: Final = "(unnamed)"
_TELLING: Final = (
    "command", "cmd", "file_path", "path", "absolute_path", "pattern", "query", "url",
    "description", "prompt", "question",
)  # fmt: skip
"""The most telling arguments of calls."""
_STEERING: Final = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
"""What colours a terminal, moves its cursor or names its window."""
_BREAKS: Final = re.compile(r"([\n\t])")
_PICTURES: Final = {
    code: 0x2400 + code for code in range(32) if code not in {0x09, 0x0A}
} | {0x7F: 0x2421}  # fmt: skip


class ToolWording(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call, in words."""

    name: str
    hint: str
    """The beginning of what it was called with."""
    status: str
    """ok, failed, synthetic or open; late for what came after a synthetic outcome."""
    remark: str
    """Why it is not ok, if that is known."""
    took: str
    size: str
    call_id: str | None


def text_of(event: Header, mask: Mask) -> str:
    """Return what was said: the whole payload if it is available, else the summary."""
    if event.redacted:
        return erased_text(event)
    if not isinstance(event, Event):
        text = "" if event.summary == "thinking" else shorten(event.summary, SUMMARY_CHARACTERS)
        return clean(text, mask)
    safe = _masked(event, mask)
    if event.kind == "ops.observation" and isinstance(safe.payload, dict):
        thought = safe.payload.get("thinking")
        if isinstance(thought, str):
            return clean(thought, mask)
    return clean(message_text(safe), mask)


def clean(text: str, mask: Mask) -> str:
    """Return ``text`` without control sequences, and with its secrets masked."""
    # In this order: a control sequence could have split a secret.
    plain = _STEERING.sub("", text) if "\x1b" in text else text
    plain = plain.replace("\r\n", "\n").translate(_PICTURES)
    if not plain.isascii():
        # Invisible characters, and those that reverse the order of letters, are escaped.
        parts = _BREAKS.split(plain)
        plain = "".join(part if part in {"\n", "\t"} else printable(part) for part in parts)
    return mask.text(plain) or ""


def erased_text(event: Header) -> str:
    """Return the placeholder of an event that was erased."""
    return f"{REDACTED} (expired)" if event.expired else REDACTED


def tool_of(entry: PageEntry, mask: Mask) -> ToolWording:
    """Return a tool call in words."""
    call = entry.event if entry.event.kind == "tool.call" else None
    returned = _returned(entry.result)
    status, remark = _outcome(entry, returned)
    size = returned.output_bytes
    if size is None and entry.result is not None:
        size = entry.result.payload_bytes
    called = safe_part("tool.call", entry.event.refs)
    name = called.tool if isinstance(called, ToolCalled) else None
    if name is None and isinstance(entry.event, Event):
        name = call_names(entry.event)[1]
    return ToolWording(
        name=clean(name or _UNNAMED, mask),
        hint="" if call is None else clean(_hint(call, name or "", mask), mask),
        status=status,
        remark=clean(remark, mask),
        took=_took(entry, returned, status),
        size=size_text(size) if size and entry.result is not None else "",
        call_id=called.call_id if isinstance(called, ToolCalled) else None,
    )


def input_of(entry: PageEntry, mask: Mask) -> str:
    """Return the input of a tool; nothing if it is not available."""
    given = given_of(entry, mask)
    if len(given) == 1 and isinstance(only := next(iter(given.values())), str):
        return clean(f"{next(iter(given))}: {only}", mask)
    return clean(msgspec.json.format(encode(given), indent=2).decode(), mask) if given else ""


def given_of(entry: PageEntry, mask: Mask) -> dict[str, Any]:
    """Return the arguments of a tool call, masked; nothing if they are not available."""
    event = entry.event
    if event.kind != "tool.call" or not isinstance(event, Event) or event.payload is None:
        return {}
    given: dict[str, Any] = mask.value(call_arguments(event.payload))
    return given


def output_of(entry: PageEntry, mask: Mask) -> str:
    """Return the output of a tool; nothing if it is not available."""
    return clean(raw_output_of(entry, mask), mask)


def raw_output_of(entry: PageEntry, mask: Mask) -> str:
    """Return the output of a tool, masked, with its colours."""
    event = entry.result
    if not isinstance(event, Event) or event.payload is None:
        return ""
    text, media = tool_output(event)
    return tool_output_text(_masked(event, mask)) if text or not media else ""


def rule_of(event: Header, mask: Mask) -> str:
    """Return what a mark across the page says."""
    if event.redacted and not event.kind.startswith("ledger."):
        return f"{event.kind.rpartition('.')[2]}: {erased_text(event)}"
    part = safe_part(event.kind, event.refs)
    match part:
        case ContextCompacted():
            return clean(_compacted(event, part), mask)
        case RunEnded():
            why = part.error_class or part.reason or event.summary
            return f"{event.kind.replace('.', ' ')}: {clean(why, mask)}"
        case SessionForked():
            return f"forked from {part.parent or 'another session'} at {part.at_seq or '?'}"
        case SessionUndone():
            return f"undone: {part.turns or 1} {'turn' if part.turns in {None, 1} else 'turns'}"
    if event.kind.startswith("boundary."):
        return f"{event.kind.partition('.')[2]}: {clean(shorten(event.summary), mask)}"
    return clean(event.summary, mask)


def body_of(event: Header, mask: Mask) -> str:
    """Return the body of a mark, such as a summary; nothing if it is not available."""
    if event.redacted or not isinstance(event, Event) or not isinstance(event.payload, dict):
        return ""
    text = event.payload.get("summary" if event.kind == "context.compacted" else "content")
    return clean(text, mask) if isinstance(text, str) and text != event.summary else ""


def note_of(event: Header, mask: Mask) -> tuple[str, str]:
    """Return the name and text of a remark beside the conversation."""
    area, _, name = event.kind.partition(".")
    label = name if area in {"ops", "session"} else event.kind.replace(".", " ")
    if event.redacted:
        return label, erased_text(event)
    part = safe_part(event.kind, event.refs)
    if isinstance(part, ContextAssembled):
        number = part.repairs or 0
        text = f"{number:,} {'repair' if number == 1 else 'repairs'} in what the model was shown"
        return "repairs", text + _codes(event)
    return label, clean(shorten(event.summary), mask)


def counted_of(entry: PageEntry) -> str:
    """Return what is only counted, the most frequent first."""
    counts = entry.counts or {}
    named = ", ".join(f"{name} {number:,}" for name, number in counts.items())
    return f"{sum(counts.values()):,} more: {named}"


def size_text(size: int) -> str:
    """Return bytes as people say them."""
    if size < 1_000:
        return f"{size} B"
    return f"{size / 1_000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def span_text(milliseconds: int) -> str:
    """Return a span of time as people say it."""
    minutes = milliseconds // 60_000
    if minutes < 1:
        return duration(milliseconds)
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} days"


def spent_text(spent: Spent) -> str:
    """Return tokens and their cost; nothing if no model was asked."""
    if not spent.calls:
        return ""
    cost = "price not known" if spent.cost_usd is None else f"${spent.cost_usd:,.4f}"
    return f"{counted(spent.total_tokens, 'token')}, {cost}"


def state_of(head: TurnHead) -> str:
    """Return the state of a turn; nothing if no run records it."""
    return "undone" if head.turn.is_undone else head.turn.state or ""


def _masked(event: Event, mask: Mask) -> Event:
    """Return an event with the secrets of its payload masked; some are known by field names.

    Pictures and files are left out first, since a mask would damage their headers.
    """
    return msgspec.structs.replace(event, payload=mask.value(split_media(event.payload)[0]))


def _returned(result: Header | None) -> ToolReturned:
    part = None if result is None else safe_part("tool.result", result.refs)
    return part if isinstance(part, ToolReturned) else ToolReturned()


def _outcome(entry: PageEntry, returned: ToolReturned) -> tuple[str, str]:
    """Return how a call ended, and why."""
    if entry.result is None:
        record = entry.record
        if record is None or record.status == "open":
            return "open", ""
        return record.status, record.reason or record.error_class or ""
    if returned.is_synthetic or returned.status == "synthetic":
        return "synthetic", f"no result: {returned.reason or 'unknown'}"
    failed = returned.status == "failed" or (returned.status is None and returned.error_class)
    remark = returned.error_class or ""
    if entry.event.kind != "tool.call":
        remark = ", ".join(filter(None, ("late" if returned.late else "no call", remark)))
    return "failed" if failed else "ok", remark


def _took(entry: PageEntry, returned: ToolReturned, status: str) -> str:
    took = returned.duration_ms
    if took is None and entry.record is not None:
        took = entry.record.duration_ms
    result = entry.result
    is_timed = returned.time is None
    if took is None and status in {"ok", "failed"} and result is not None and is_timed:
        took = max(result.ts_ms - entry.event.ts_ms, 0) if result is not entry.event else None
    return "" if took is None else duration(took)


def _hint(call: Header, tool: str, mask: Mask) -> str:
    """Return the beginning of a tool's input, if it is known."""
    if isinstance(call, Event) and call.payload is not None:
        given = mask.value(call_arguments(call.payload))
        named = (text for name in _TELLING if (text := _words(given.get(name))))
        if main := call_hint(given) or next(named, ""):
            return shorten(main, HINT_CHARACTERS_MAX)
        if given:
            return shorten(" ".join(_pair(*item) for item in given.items()), HINT_CHARACTERS_MAX)
    text = call.summary.removeprefix(tool).lstrip(": ")
    return "" if text in {"", "called"} else shorten(text, HINT_CHARACTERS_MAX)


def _words(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return " ".join(value)
    return value if isinstance(value, str) else ""


def _pair(name: str, value: Any) -> str:
    return f"{name}={value if isinstance(value, str) else encode(value).decode()}"


def _compacted(event: Header, part: ContextCompacted) -> str:
    before, after = part.from_tokens, part.to_tokens
    tokens = f": {before:,} → {after:,} tokens" if before and after is not None else ""
    if before and after:
        tokens += f" ({round(100 * (after - before) / before):+d} %)"
    elif before:
        tokens = f": {before:,} tokens before"
    of = f", {counted(part.messages, 'message')} summarised" if part.messages else ""
    return f"compacted{tokens}{of}" if tokens or of else f"compacted: {shorten(event.summary)}"


def _codes(event: Header) -> str:
    """Return the codes of repairs, if their event is available."""
    payload = event.payload if isinstance(event, Event) else None
    report = payload.get("report") if isinstance(payload, dict) else None
    codes = [item["code"] for item in report or [] if isinstance(item, dict) and "code" in item]
    return f": {', '.join(dict.fromkeys(map(str, codes)))}" if codes else ""
