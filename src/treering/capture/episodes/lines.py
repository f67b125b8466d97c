"""Lines of a spool, each one event as other programs write it, checked and bounded for a ledger."""

from __future__ import annotations

import hmac
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.capture.episodes.bounds import EventLimits, bound, is_dump
from treering.errors import InvalidInput, InvalidKind
from treering.formats.records.values import TOO_DEEP, Unreadable, read_value
from treering.hook import LEVELS_MAX, shallow
from treering.model.codec import REFS_BYTES_MAX, decode, encode
from treering.model.events import SUMMARY_CHARACTERS_MAX, NewEvent
from treering.model.fields import check_id, check_name, check_time, looks_like_seconds
from treering.model.kinds import EPISODE_KINDS
from treering.model.scopes import GLOBAL, PUNCTUATION, Scope, parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering.capture.episodes.files import FileLine
    from treering.capture.secrets import SecretGuard

SPOOL_SCHEMA: Final = "openclaw-mem.episodes.spool.v0"
ORIGIN: Final = "openclaw-mem"
WITHHELD: Final = "_redacted"
"""Marks in an event's refs that content was withheld on ingestion."""
ID_DIGITS: Final = 32
ECHO_CHARACTERS_MAX: Final = 60

_TAG: Final = re.compile(r"\s*\[\s*SCOPE\s*:\s*([^\]]+)\]\s*(.*)", re.IGNORECASE | re.DOTALL)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class EventOfLine(msgspec.Struct, frozen=True, kw_only=True):
    """The event of a line, and what was changed in it."""

    event: NewEvent
    payload_cut: bool = False
    refs_cut: bool = False
    summary_cut: bool = False
    redacted: bool = False
    mended: bool = False
    """Whether it was invalid JSON that could be repaired."""


class ScopeRule(msgspec.Struct, frozen=True):
    """How a line finds its scope.

    ``scope`` is set by the operator and overrides any line. Without it, a line's field ``scope``
    counts, and with ``allows_markers`` also a summary that starts with ``[SCOPE: x]``.
    """

    scope: Scope | None = None
    allows_markers: bool = False


BY_FIELD: Final = ScopeRule()


class LineReader:
    """Converts lines to events."""

    def __init__(
        self,
        *,
        guard: SecretGuard,
        caps: EventLimits,
        scope_rule: ScopeRule,
        id_key: Callable[[str], bytes],
    ) -> None:
        self._guard = guard
        self._caps = caps
        self._scope = scope_rule.scope
        self._allows_markers = scope_rule.allows_markers
        self._id_key = cache(id_key)

    def read(self, line: FileLine, *, generation: int, ts_ms: int) -> EventOfLine:
        """Return the event of ``line``; ``ts_ms`` is its time if it has none.

        Raises NotJsonObject if it is not an object, and InvalidInput if it is not an event.
        """
        stated, mended = read_object(line)
        kind = _kind(stated.get("type"))
        time_ms = ts_ms if stated.get("ts_ms") is None else _time(stated["ts_ms"])
        scope, original = self._scoped(stated)
        session_id = _name(stated.get("session_id"), "session_id")
        agent_id = _name(stated.get("agent_id"), "agent_id")
        content, links = stated.get("payload"), stated.get("refs")
        # Most lines are clean, and one check of the whole line shows it.
        event_id = _text(stated.get("event_id")) or self._made_id(line, generation, scope)
        names = [session_id, agent_id, event_id]
        guard = self._guard if self._is_suspicious([original, content, links, *names]) else None
        summary = original
        if guard is not None:
            summary = guard.mask_text(original)
            session_id, agent_id, event_id = map(guard.mask_text, names)
        if not summary:
            raise InvalidInput("summary is required", hint="say in a few words what happened")
        summary_cut = len(summary) > SUMMARY_CHARACTERS_MAX
        cap = self._caps.payload_of(kind)
        payload = bound(content, cap=cap, reason="payload_cap", guard=guard)
        refs = bound(links, cap=self._caps.refs, reason="refs_cap", guard=guard)
        stored, links = payload.value, refs.value
        if time_ms != ts_ms and isinstance(links, dict | None) and _seconds(stated["ts_ms"]):
            links = {**(links or {}), "stated_seconds": time_ms // 1_000}
        redacted = stated.get("redacted") is True
        # Check again what will be stored: if it still contains a secret, withhold all of it.
        if guard is not None and guard.find_value([stored, links]) is not None:
            stored, links, redacted = None, None, True
        elif not redacted and kind.startswith("conversation.") and stored is not None:
            given = stated["payload"]
            probe = given.get("text") if isinstance(given, dict) else given
            if is_dump(f"{summary}\n{probe if isinstance(probe, str) else ''}"):
                stored, redacted = None, True
        return EventOfLine(
            event=NewEvent(
                scope=scope,
                session_id=session_id,
                kind=kind,
                agent_id=agent_id,
                summary=_shortened(summary) if summary_cut else summary,
                payload=stored,
                refs=_marked(links) if redacted else links,
                event_id=check_id(event_id),
                ts_ms=time_ms,
                origin=ORIGIN,
            ),
            payload_cut=payload.was_cut,
            refs_cut=refs.was_cut,
            summary_cut=summary_cut,
            redacted=redacted,
            mended=mended,
        )

    def _scoped(self, stated: dict[str, Any]) -> tuple[Scope, str]:
        """Return the scope of a line, and its summary."""
        summary = _text(stated.get("summary")).replace("\0", " ").strip()
        marked = None
        if self._allows_markers:
            marked, summary = split_scope(summary)
        if self._scope is not None:
            return self._scope, summary
        named = _text(stated.get("scope"))
        return parse_scope(named) if named else marked or GLOBAL, summary

    def _made_id(self, line: FileLine, generation: int, scope: Scope) -> str:
        # After a truncation the same line at the same offset is another event.
        position = f"{generation}:{line.start}:" if generation else f"{line.start}:"
        digest = hmac.digest(self._id_key(scope), position.encode() + line.body, "sha256")
        return f"ep-{digest.hex()[:ID_DIGITS]}"

    def _is_suspicious(self, content: Any) -> bool:
        try:
            return self._guard.suspicious(encode(content))
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
            return True


class NotJsonObject(ValueError):
    """The line is not a JSON object."""


def split_scope(text: str) -> tuple[Scope | None, str]:
    """Return the scope at the start of ``text``, as in ``[SCOPE: acme/app]``, and the rest.

    Raises InvalidScope if it is not a valid scope.
    """
    match = _TAG.fullmatch(text)
    if match is None:
        return None, text.strip()
    name = match[1].strip()
    # A tag of punctuation alone names no scope.
    return parse_scope(name) if name.strip(PUNCTUATION) else None, match[2].strip()


def storable(value: Any) -> Any:
    """Return a JSON ``value`` with lone surrogates replaced: no encoding allows them."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_SURROGATE.sub("\ufffd", key): storable(item) for key, item in value.items()}
    return [storable(item) for item in value] if isinstance(value, list) else value


def read_object(line: FileLine) -> tuple[dict[str, Any], bool]:
    """Return the JSON object of a line, and whether it had to be repaired.

    Invalid UTF-8 and lone surrogates become replacement characters; numbers that JSON does not have
    become text. Raises NotJsonObject, with the reason.
    """
    if line.too_long:
        raise NotJsonObject("too_long")
    value: Any
    is_mended = False
    try:
        value = decode(line.body)
    except (ValueError, RecursionError):
        try:
            value, mended = read_value(line.body)
        except Unreadable as error:
            is_deep = str(error) == TOO_DEEP
            raise NotJsonObject("nested_too_deeply" if is_deep else "invalid_json") from error
        is_mended = bool(mended)
    if not isinstance(value, dict):
        raise NotJsonObject("invalid_json")
    # Each level opens one bracket, so a small count of brackets rules out deep nesting.
    if line.body.count(b"{") + line.body.count(b"[") > LEVELS_MAX:
        value = {key: shallow(item) for key, item in value.items()}
    return value, is_mended


def _text(value: Any) -> str:
    if value is None or isinstance(value, dict | list):
        return ""
    return str(value).strip()


def _name(value: Any, field: str) -> str:
    return check_name(_text(value), field)


def _kind(value: Any) -> str:
    name = _text(value).lower()
    if name not in EPISODE_KINDS:
        raise InvalidKind(
            f"invalid type: {name[:ECHO_CHARACTERS_MAX] or '<empty>'};"
            f" allowed: {', '.join(EPISODE_KINDS)}",
            hint="write one of them",
        )
    return name


def _time(value: Any) -> int:
    try:
        number = int(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None:
        raise InvalidInput(
            f"invalid ts_ms: {str(value)[:ECHO_CHARACTERS_MAX]}",
            hint="use whole milliseconds since 1970",
        )
    return number * 1_000 if looks_like_seconds(number) else check_time(number)


def _seconds(value: Any) -> bool:
    return looks_like_seconds(int(value))


def _marked(refs: Any) -> Any:
    links = refs if isinstance(refs, dict) else {} if refs is None else {"refs": refs}
    marked = {**links, WITHHELD: True}
    return marked if len(encode(marked)) <= REFS_BYTES_MAX else {WITHHELD: True}


def _shortened(summary: str) -> str:
    return summary[: SUMMARY_CHARACTERS_MAX - 1] + "…"
