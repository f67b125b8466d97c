"""From what a caller states to what is stored: checked, masked, encoded, digested.

All of it happens before any lock is taken.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import uuid_utils

from treering.errors import InvalidInput, InvalidKind, SensitiveContent, TooLarge
from treering.ledger.chain import SALT_BYTES, content_digest, header_digest
from treering.ledger.records import Draft
from treering.model.codec import (
    PAYLOAD_BYTES_MAX,
    REFS_BYTES_MAX,
    SPILL_BYTES_MAX,
    canonical,
)
from treering.model.events import NAME_CHARACTERS_MAX, SCHEMA_VERSION, SUMMARY_CHARACTERS_MAX
from treering.model.kinds import ERASURE_KINDS, SOURCES, Kind, parse_kind
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.ports import Clock, Guard
    from treering.model.events import NewEvent

GuardMode = Literal["off", "safe", "mask", "reject"]
"""safe masks summary and refs; mask and reject look at payloads too."""

TIME_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_INTEGER_MAX: Final = 2**63 - 1


class Drafter:
    """Turns new events into drafts, by one guard and one clock."""

    def __init__(self, *, guard: Guard, mode: GuardMode, clock: Clock) -> None:
        self._guard = guard
        self._mode = mode
        self._clock = clock

    def draft(self, events: Sequence[NewEvent]) -> list[Draft]:
        """Return a draft for each of ``events``. Raises InvalidInput for the first bad one."""
        salts = os.urandom(SALT_BYTES * len(events))
        now_ms = self._clock()
        return [
            self._draft(event, now_ms, salts[at * SALT_BYTES : (at + 1) * SALT_BYTES])
            for at, event in enumerate(events)
        ]

    def vouch(self, event: NewEvent) -> Draft:
        """Return a draft of the ledger's own word about an erasure."""
        return self._draft(
            event, self._clock(), os.urandom(SALT_BYTES), kind=parse_kind(event.kind)
        )

    def _draft(self, event: NewEvent, now_ms: int, salt: bytes, kind: Kind | None = None) -> Draft:
        kind = kind or _recordable(event.kind)
        scope = parse_scope(event.scope)
        session_id = check_name(event.session_id, "session_id")
        agent_id = check_name(event.agent_id, "agent_id")
        run_id = event.run_id and check_name(event.run_id, "run_id")
        turn_id = event.turn_id and check_name(event.turn_id, "turn_id")
        user_id = event.user_id and check_name(event.user_id, "user_id")
        origin = event.origin and check_name(event.origin, "origin")
        source = event.source or kind.source
        visibility = event.visibility or kind.visibility
        if source not in SOURCES or visibility not in {"safe", "private"}:
            raise _bad_choice(source, visibility)
        run_seq = event.run_seq
        if run_seq is not None and not 0 < run_seq <= _INTEGER_MAX:
            raise InvalidInput(f"run_seq must be > 0, not {run_seq}", hint="count runs from 1")
        ts_ms = now_ms if event.ts_ms is None else check_time(event.ts_ms)
        summary, refs_value, payload_value = event.summary, event.refs, event.payload
        if self._mode != "off":
            summary, refs_value, payload_value = self._guarded(summary, refs_value, payload_value)
        check_summary(summary)
        refs = None if refs_value is None else _refs(refs_value)
        payload = None if payload_value is None else canonical(payload_value, "payload")
        size = 0 if payload is None else len(payload)
        given_id = event.event_id is not None
        event_id = check_id(event.event_id) if event.event_id is not None else new_id()
        return Draft(
            scope, session_id, event_id, given_id, kind.name, source, origin, run_id, run_seq,
            turn_id, agent_id, user_id, ts_ms, event.ts_ms is not None, now_ms, visibility,
            summary, refs, payload, size,
            compressed(payload) if payload is not None and size > PAYLOAD_BYTES_MAX else None,
            salt,
            content_digest(salt, summary, refs, payload),
            header_digest(
                event_id, run_id, run_seq, turn_id, agent_id, user_id, kind.name, source, origin,
                ts_ms, now_ms, visibility, SCHEMA_VERSION,
            ),
            refs_value,
        )  # fmt: skip

    def _guarded(self, summary: str, refs: Any, payload: Any) -> tuple[str, Any, Any]:
        guard = self._guard
        if self._mode == "reject":
            found = next((finding.rule for finding in guard.find_text(summary)), None)
            for name, rule in (
                ("summary", found),
                ("refs", guard.find_value(refs)),
                ("payload", guard.find_value(payload)),
            ):
                if rule is not None:
                    raise SensitiveContent(
                        f"{name} appears to hold a secret ({rule})",
                        hint="remove it, or record it with the guard set to mask",
                    )
            return summary, refs, payload
        if refs is not None:
            refs = guard.mask_value(refs)
        if payload is not None and self._mode == "mask":
            payload = guard.mask_value(payload)
        return guard.mask_text(summary), refs, payload


def new_id() -> str:
    """Return a fresh UUIDv7: unique, and sorted by time."""
    return str(uuid_utils.uuid7())


@lru_cache(maxsize=8_192)
def check_name(text: str, field: str) -> str:
    """Return ``text`` if it can name something. Raises InvalidInput otherwise."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(f"{field} is required", hint=f"give a {field}")
    if len(text) > NAME_CHARACTERS_MAX:
        raise TooLarge(
            f"{field} has {len(text)} characters, {NAME_CHARACTERS_MAX} are allowed",
            hint="shorten it",
        )
    if not text.isprintable():
        raise InvalidInput(
            f"{field} {text!r} holds a control character or lone surrogate", hint="remove it"
        )
    return text


def check_id(text: str) -> str:
    """Return ``text`` if it can be an event id. Raises InvalidInput otherwise."""
    return check_name.__wrapped__(text, "event_id")


def check_time(ts_ms: int) -> int:
    """Return ``ts_ms`` if it is a time after 1970. Raises InvalidInput otherwise."""
    if not isinstance(ts_ms, int) or isinstance(ts_ms, bool):
        raise InvalidInput(f"invalid ts_ms: {ts_ms!r}", hint="give whole milliseconds since 1970")
    if not 0 < ts_ms <= TIME_MS_MAX:
        raise InvalidInput(
            "ts_ms must be > 0" if ts_ms <= 0 else f"ts_ms {ts_ms} is beyond the year 9999",
            hint="give milliseconds since 1970",
        )
    return ts_ms


def check_summary(text: str) -> str:
    """Return ``text`` if it can be a summary. Raises InvalidInput otherwise."""
    if not text.strip():
        raise InvalidInput("summary is required", hint="say in a few words what happened")
    if len(text) > SUMMARY_CHARACTERS_MAX:
        raise TooLarge(
            f"summary exceeds cap ({len(text)} > {SUMMARY_CHARACTERS_MAX} characters)",
            hint="put the long text into the payload",
        )
    if "\0" in text:
        raise InvalidInput("summary holds a NUL character", hint="remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"summary holds a lone surrogate at character {error.start}", hint="remove it"
        ) from error
    return text


def _recordable(name: str) -> Kind:
    kind = parse_kind(name)
    if kind.name in ERASURE_KINDS:
        raise InvalidKind(
            f"{kind.name} is written by the ledger alone", hint="use redact, expire or forget"
        )
    if not kind.durable:
        raise InvalidKind(
            f"{kind.name} is carried to sinks and never kept", hint="record the final text"
        )
    return kind


def _refs(value: Any) -> bytes:
    refs = canonical(value, "refs")
    if len(refs) > REFS_BYTES_MAX:
        raise TooLarge(
            f"refs exceeds cap ({len(refs)} > {REFS_BYTES_MAX} bytes)",
            hint="put the bulk into the payload",
        )
    return refs


def compressed(payload: bytes) -> bytes:
    """Return a blob's body. Raises TooLarge for more than a ledger should hold."""
    if len(payload) > SPILL_BYTES_MAX:
        raise TooLarge(
            f"payload exceeds cap ({len(payload)} > {SPILL_BYTES_MAX} bytes)",
            hint="keep the file elsewhere and refer to it",
        )
    import zstandard  # noqa: PLC0415  (only large payloads pay for it)

    return zstandard.ZstdCompressor(level=3).compress(payload)


def _bad_choice(source: str, visibility: str) -> InvalidInput:
    if source not in SOURCES:
        return InvalidInput(
            f"invalid source: {source}", hint=f"use one of {', '.join(sorted(SOURCES))}"
        )
    return InvalidInput(f"invalid visibility: {visibility}", hint="use safe or private")
