"""What events say of a model's messages besides their words: model, thoughts, usage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.derive.reports import REPORT, larger_report, report_of
from treering.formats.claude_code.lines import name_in
from treering.model.events import Event

if TYPE_CHECKING:
    from collections.abc import Iterable

UNKNOWN_MODEL: Final = "unknown"
MASK: Final = "[redacted:"
"""How a mask begins. A thought with one in it does not fit its signature any more."""
_NOTHING_USED: Final = {"input_tokens": 0, "output_tokens": 0}


class ModelReply(msgspec.Struct):
    """What the events of one message of a model say of it."""

    model: str | None = None
    report: Event | None = None
    """What it used: of several reports the largest."""
    thoughts: list[Event] = []
    """Those that can be given back to a model, in their order."""

    @property
    def is_counted_alike(self) -> bool:
        """Whether its usage was reported in Anthropic's own fields, which say all of it."""
        payload = None if self.report is None else self.report.payload
        return isinstance(payload, dict) and isinstance(payload.get("usage"), dict)

    @property
    def usage(self) -> dict[str, Any]:
        """Return what it used, as Anthropic counts: cached tokens are not part of the input."""
        payload = None if self.report is None else self.report.payload
        given = payload.get("usage") if isinstance(payload, dict) else None
        if isinstance(given, dict):
            return given
        report = None if self.report is None else report_of(self.report)
        if report is None:
            return _NOTHING_USED
        tokens = report.tokens
        apart = tokens.cached_tokens + tokens.cache_write_tokens
        return {
            "input_tokens": max(0, tokens.input_tokens - apart),
            "output_tokens": tokens.output_tokens,
            "cache_read_input_tokens": tokens.cached_tokens,
            "cache_creation_input_tokens": tokens.cache_write_tokens,
        }


class Answers:
    """The messages of a session, by their ids."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._known: dict[str, ModelReply] = {}
        self._last = UNKNOWN_MODEL
        for event in events:
            name = message_of(event)
            if name is not None and not event.redacted:
                self._take(self._known.setdefault(name, ModelReply()), event)

    def find(self, event: Event | None) -> ModelReply:
        """Return what is known of the message that ``event`` is a part of."""
        return self._known.get(message_of(event) or "") or ModelReply()

    def model(self, event: Event | None) -> str:
        """Return the model that said it, or else the one that spoke last."""
        own = None if event is None else name_in(event.refs, "model")
        self._last = own or self.find(event).model or self._last
        return self._last

    def _take(self, answer: ModelReply, event: Event) -> None:
        answer.model = name_in(event.refs, "model") or answer.model
        if event.kind == REPORT:
            report = report_of(event)
            known = None if answer.report is None else report_of(answer.report)
            if report is not None and (known is None or larger_report(known, report) is report):
                answer.report = event
        elif thought_in(event) is not None:
            answer.thoughts.append(event)


def message_of(event: Event | None) -> str | None:
    """Return the id of the message that an event is a part of."""
    return None if event is None else name_in(event.refs, "message_id")


def thought_in(event: Event) -> dict[str, Any] | None:
    """Return the block of a thought that a model takes back: signed, and as it was."""
    refs = event.refs if isinstance(event.refs, dict) else {}
    payload = event.payload if isinstance(event.payload, dict) else {}
    if event.kind != "ops.observation" or refs.get("observed") != "thinking":
        return None
    words, sign, sealed = payload.get("thinking"), payload.get("signature"), payload.get("data")
    if any(isinstance(part, str) and MASK in part for part in (words, sign, sealed)):
        return None
    if isinstance(sealed, str) and sealed:
        return {"type": "redacted_thinking", "data": sealed}
    if isinstance(words, str) and isinstance(sign, str) and sign:
        return {"type": "thinking", "thinking": words, "signature": sign}
    return None
