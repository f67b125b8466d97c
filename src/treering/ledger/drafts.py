"""From what a caller states to what is stored: checked, masked, encoded, digested.

All of it happens before any lock is taken.
"""

from __future__ import annotations

import os
from hashlib import sha256
from itertools import repeat
from struct import Struct
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec.structs import replace
from uuid_utils import uuid7

from treering.errors import InvalidInput, InvalidKind, SensitiveContent, TooLarge
from treering.lazy import lazy_pattern
from treering.ledger.chain import SALT_BYTES
from treering.ledger.records import Draft, Names
from treering.model.codec import (
    PAYLOAD_BYTES_MAX,
    REFS_BYTES_MAX,
    SPILL_BYTES_MAX,
    canonical_content,
    decode,
    encode,
    holds_bytes,
    packed,
)
from treering.model.events import SCHEMA_VERSION, SUMMARY_CHARACTERS_MAX, FirstEvent, KeyedEvent
from treering.model.fields import (
    MILLISECONDS_MIN,
    TIME_MS_MAX,
    bounded_clock,
    check_id,
    check_name,
    check_summary,
    check_time,
)
from treering.model.kinds import ERASURE_KINDS, KINDS, SOURCES, VISIBILITIES, Kind, parse_kind
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treering.ledger.ports import Clock, ContentGuard
    from treering.model.events import NewEvent

WORD_CHARS_MIN: Final = 4
"""Shorter words are in every text, and reveal nothing."""
NAMES: Final = {
    "conversation.user": "user message",
    "conversation.assistant": "assistant message",
}
_WORD: Final = lazy_pattern(r"\w+")
_CODE: Final = lazy_pattern(r"[\w.:/@+-]{1,128}")
"""An id, a name or a path, as opposed to prose."""

Content = tuple[bytes, bytes | None, bytes | None]
"""All of it, refs and payload, as canonical JSON."""

GuardMode = Literal["off", "safe", "mask", "reject"]
"""safe masks summary and refs; mask and reject look at payloads too."""

CHECKED_TOGETHER: Final = 32
CHECKED_BYTES_MAX: Final = 65_536
"""How many events, and how much of them, a guard looks at together."""

NAMES_MAX: Final = 10_000
"""Checked names that are remembered; then it starts afresh."""
_Stated = tuple[str, str, str, str | None, str | None, str | None, str | None]
"""The names of an event as its author writes them."""
_NAME_FIELDS: Final = ("session_id", "agent_id", "run_id", "turn_id", "user_id", "origin")
_NAMES_REQUIRED: Final = 2
"""Of these, the first ones are in every event."""
_NAME_TYPES: Final = frozenset({str, NoneType})
_INTEGER_MAX: Final = 2**63 - 1
_salts: Final = Struct(f"{SALT_BYTES}s").iter_unpack
_RECORDABLE: Final = {
    kind.name: kind for kind in KINDS.values() if kind.durable and kind.name not in ERASURE_KINDS
}


class Drafter:
    """Turns new events into drafts, by one guard and one clock."""

    def __init__(
        self,
        *,
        guard: Callable[[], ContentGuard],
        mode: GuardMode,
        clock: Clock,
        seals: Callable[[str], bool],
    ) -> None:
        self._guard = guard
        self._seals = seals
        """Says whether payloads of a scope are sealed."""
        self._plain: set[str] = set()
        """Scopes that were found not to be sealed; the store says if one is after all."""
        self._sealed: set[str] = set()
        """Scopes of which the store has said so."""
        self._found_guard: ContentGuard | None = None
        self._mode = mode
        self._clock = bounded_clock(clock)
        self._known_names: dict[_Stated, Names] = {}
        """Names of events that were checked before, each with the stored spelling of its scope."""

    def guard(self) -> ContentGuard:
        """Return what finds secrets, whether or not it is asked when something is recorded."""
        return self._found_guard or self._find_guard()

    def with_masking(self) -> Drafter:
        """Return one that masks secrets in payloads, too, whatever this one does."""
        return Drafter(guard=self._guard, mode="mask", clock=self._clock, seals=self._seals)

    def note_sealed(self, scope: str) -> None:
        """Draft what comes in ``scope`` for a scope whose payloads are sealed."""
        self._sealed.add(scope)
        self._plain.clear()

    def draft(  # noqa: C901, PLR0912, PLR0915  (straight on: every event passes here)
        self,
        events: Sequence[NewEvent],
        numbers: Sequence[int | None] | None = None,
        *,
        counted: bool = False,
        vouching: bool = False,
    ) -> list[Draft]:
        """Return a draft for each of ``events``. Raises InvalidInput for the first bad one.

        ``numbers`` are those in runs of events that do not say theirs; if ``counted``, the store
        gives all others theirs. ``vouching`` is for the ledger's own words about erasures.
        """
        now_ms = self._clock()
        known = self._known_names
        kinds = KINDS if vouching else _RECORDABLE
        salts = _salts(os.urandom(SALT_BYTES * len(events)))
        stated_numbers = numbers or repeat(None, len(events))
        contents = self._contents(events) if len(events) > 1 else (None,) * len(events)
        drafts: list[Draft] = []
        try:
            for event, number, content, (salt,) in zip(
                events, stated_numbers, contents, salts, strict=True
            ):
                kind = kinds.get(event.kind) or _recordable(event.kind)
                stated = (
                    event.scope, event.session_id, event.agent_id, event.run_id, event.turn_id,
                    event.user_id, event.origin,
                )  # fmt: skip
                names = known.get(stated)
                # A text of another class may equal a known name, and cannot be stored.
                if names is None or not _NAME_TYPES.issuperset(map(type, stated)):
                    names = known[stated] = _checked(stated)
                scope, session_id, agent_id, run_id, turn_id, user_id, origin = names
                source, visibility = (
                    _chosen(event, kind)
                    if event.source or event.visibility
                    else (kind.source, kind.visibility)
                )
                run_seq = event.run_seq if number is None else number
                if run_seq is not None and (
                    type(run_seq) is not int or not 0 < run_seq <= _INTEGER_MAX
                ):
                    raise InvalidInput(f"run_seq must be > 0, not {run_seq!r}", hint="count from 1")
                given_ms = event.ts_ms
                if given_ms is None:
                    ts_ms = now_ms
                elif type(given_ms) is int and MILLISECONDS_MIN <= given_ms <= TIME_MS_MAX:
                    ts_ms = given_ms
                else:
                    ts_ms = check_time(given_ms)
                is_sealed = False
                if content is None:
                    event, content, is_sealed = self._fit_content(event, vouching)  # noqa: PLW2901
                encoded, refs, payload = content
                summary = event.summary
                if (
                    not summary
                    or summary.isspace()
                    or len(summary) > SUMMARY_CHARACTERS_MAX
                    or "\0" in summary
                ):
                    check_summary(summary)
                if refs is not None and len(refs) > REFS_BYTES_MAX:
                    raise _too_many_refs(len(refs))
                size = 0 if payload is None else len(payload)
                event_id, made_id = event.event_id, None
                if event_id is None:
                    made = uuid7()
                    event_id, made_id = str(made), made.bytes
                else:
                    check_id(event_id)
                is_counted = run_id is not None and (counted or number is not None)
                is_unnumbered = is_counted and run_seq is None
                draft = Draft(
                    event_id, scope, session_id, kind.name, source, origin, run_id, run_seq,
                    turn_id, agent_id, user_id, ts_ms, now_ms, visibility, summary,
                    # A copy: the header does not follow what its author does later.
                    None if refs is None else decode(refs),
                    names, refs, payload, size,
                    compressed(payload) if payload and size > PAYLOAD_BYTES_MAX else None,
                    salt, sha256(salt + encoded).digest(),
                    # As ``chain.header_digest`` has it.
                    b"" if is_unnumbered else sha256(encode((
                        event_id, run_id, run_seq, turn_id, agent_id, user_id, kind.name, source,
                        origin, ts_ms, now_ms, visibility, SCHEMA_VERSION,
                    ))).digest(),
                    made_id, given_ms is not None, number is None and not is_unnumbered,
                    is_counted, is_sealed,
                )  # fmt: skip
                if type(event) is FirstEvent:
                    draft.is_first = True
                elif type(event) is KeyedEvent and event.expected:
                    draft.expected = event.expected
                if number is not None:
                    draft.least_run_seq = number
                drafts.append(draft)
        except (TypeError, AttributeError) as error:
            raise InvalidInput(
                f"a field of an event has the wrong type: {error}",
                hint="see treering.NewEvent for what each field takes",
            ) from error
        if len(known) > NAMES_MAX:
            known.clear()
        return drafts

    def vouch(self, event: NewEvent) -> Draft:
        """Return a draft of the ledger's own word about an erasure."""
        return self.draft([event], vouching=True)[0]

    def _is_sealed(self, name: str) -> bool:
        """Whether to draft for a scope whose payloads are sealed. One that is not is remembered."""
        scope = parse_scope(name)
        if scope in self._sealed or self._seals(scope):
            return True
        if len(self._plain) > NAMES_MAX:
            self._plain.clear()
        self._plain.add(name)
        return False

    def _contents(self, events: Sequence[NewEvent]) -> list[Content | None]:
        """Return the content of each of ``events``; None for one that is to be looked at alone."""
        contents: list[Content | None] = []
        for start in range(0, len(events), CHECKED_TOGETHER):
            contents += self._clean(events[start : start + CHECKED_TOGETHER])
        return contents

    def _clean(self, events: Sequence[NewEvent]) -> Sequence[Content | None]:
        """Return the content of each of ``events``, None for one that may hold a secret.

        One look at several takes less time than one at each, since what it needs stays in the
        processor's cache. All are None if one of them is not fit to be looked at so.
        """
        plain, alone = self._plain, [None] * len(events)
        if self._mode == "reject":
            return alone
        try:
            contents = [
                canonical_content(event.summary, event.refs, event.payload)
                for event in events
                if event.payload is None or event.scope in plain
            ]
        except (InvalidInput, TypeError, AttributeError):
            return alone
        if len(contents) < len(events):
            return alone
        if self._mode == "off":
            return contents
        guard = self.guard()
        watched = list(map(self._watched, contents))
        if sum(map(len, watched)) <= CHECKED_BYTES_MAX:
            suspects = guard.suspects(watched)
        else:
            suspects = {at for at, part in enumerate(watched) if guard.suspicious(part)}
        if not suspects:
            return contents
        return [None if at in suspects else content for at, content in enumerate(contents)]

    def _fit_content(self, event: NewEvent, vouching: bool) -> tuple[NewEvent, Content, bool]:  # noqa: FBT001
        """Return ``event`` as it can be recorded, its content, and whether its scope is sealed.

        Raises InvalidInput if it cannot be, SensitiveContent if a secret must not be masked.
        """
        is_sealed = (
            event.payload is not None
            and not vouching
            and event.scope not in self._plain
            and self._is_sealed(event.scope)
        )
        if is_sealed:
            event = without_words(event)
        try:
            content = canonical_content(event.summary, event.refs, event.payload)
        except InvalidInput:
            readable = without_bytes(event)
            if readable is event:
                raise
            event = readable
            content = canonical_content(event.summary, event.refs, event.payload)
        if self._mode == "off":
            return event, content, is_sealed
        if self._mode == "reject":
            _refuse_opaque(event.refs)
        guard = self._found_guard or self._find_guard()
        if guard.suspicious(self._watched(content)):
            masked = self._masked(event)
            if masked is not event:
                event = masked
                content = canonical_content(event.summary, event.refs, event.payload)
        return event, content, is_sealed

    def _watched(self, content: Content) -> bytes:
        """Return the part of a content that the guard looks at."""
        encoded, _, payload = content
        # The payload comes last, before one bracket.
        return encoded[: -len(payload) - 1] if self._mode == "safe" and payload else encoded

    def _find_guard(self) -> ContentGuard:
        # Made when first needed: its rules take longer to load than a short command to run.
        self._found_guard = self._guard()
        return self._found_guard

    def _masked(self, event: NewEvent) -> NewEvent:
        """Return ``event`` without secrets; the same one if there are none.

        Raises SensitiveContent where they must not be masked.
        """
        guard = self.guard()
        summary, refs, payload = event.summary, event.refs, event.payload
        if self._mode == "reject":
            summary_rule = next((finding.rule for finding in guard.find_text(summary)), None)
            for name, rule in (
                ("summary", summary_rule),
                ("refs", guard.find_value(refs)),
                ("payload", guard.find_value(payload)),
            ):
                if rule is not None:
                    raise SensitiveContent(
                        f"{name} appears to hold a secret ({rule})",
                        hint="remove it, or record it with the guard set to mask",
                    )
            return event
        # A guard gives back what is clean as it is.
        safe_refs = None if refs is None else guard.mask_value(refs)
        is_looked_at = payload is not None and self._mode == "mask"
        safe_payload = guard.mask_value(payload) if is_looked_at else payload
        safe_summary = guard.mask_text(summary)
        if safe_refs is not refs and type(event) is KeyedEvent:
            raise SensitiveContent(
                "the key of a record appears to hold a secret",
                hint="use an id as the key, and put the rest into the value",
            )
        if safe_summary is summary and safe_refs is refs and safe_payload is payload:
            return event
        return replace(event, summary=safe_summary, refs=safe_refs, payload=safe_payload)


def _refuse_opaque(refs: Any) -> None:
    if type(refs) is dict and refs.get("opaque"):
        raise SensitiveContent(
            "the payload holds bytes, which the guard cannot check for secrets",
            hint="record text or JSON, or open the ledger with another guard",
        )


def _recordable(name: str) -> Kind:
    kind = parse_kind(name)
    if kind.name in ERASURE_KINDS:
        raise InvalidKind(
            f"{kind.name} is written by the ledger alone", hint="use redact, expire or forget"
        )
    if not kind.durable:
        raise InvalidKind(
            f"{kind.name} is sent to sinks and never stored", hint="record the final text"
        )
    return kind


def _too_many_refs(size: int) -> TooLarge:
    return TooLarge(
        f"refs exceeds cap ({size} > {REFS_BYTES_MAX} bytes)",
        hint="put the bulk into the payload",
    )


def compressed(payload: bytes) -> bytes:
    """Return a blob's body. Raises TooLarge for more than a ledger should hold."""
    if len(payload) > SPILL_BYTES_MAX:
        raise TooLarge(
            f"payload exceeds cap ({len(payload)} > {SPILL_BYTES_MAX} bytes)",
            hint="keep the file elsewhere and refer to it",
        )
    import zstandard  # noqa: PLC0415  (only large payloads pay for it)

    return zstandard.ZstdCompressor(level=3).compress(payload)


def _checked(stated: _Stated) -> Names:
    """Return the names of an event as they are stored. Raises InvalidInput for a bad one."""
    scope = parse_scope(stated[0])
    names = stated[1:]
    for at, (field, name) in enumerate(zip(_NAME_FIELDS, names, strict=True)):
        if name is not None or at < _NAMES_REQUIRED:
            check_name(name, field)  # type: ignore[arg-type]  # None is refused
    return (scope, *names)


def _chosen(event: NewEvent, kind: Kind) -> tuple[str, str]:
    """Return source and visibility as an author states them, or else those of the kind."""
    source, visibility = event.source or kind.source, event.visibility or kind.visibility
    if type(source) is not str or source not in SOURCES:
        raise InvalidInput(
            f"invalid source: {source}", hint=f"use one of {', '.join(sorted(SOURCES))}"
        )
    if visibility not in VISIBILITIES:
        raise InvalidInput(f"invalid visibility: {visibility}", hint="use safe or private")
    return source, visibility


def without_bytes(event: NewEvent) -> NewEvent:
    """Return ``event`` with bytes in its payload as JSON, and refs that say that no guard reads it.

    It is the same object if there are none.
    """
    if not holds_bytes(event.payload):
        return event
    refs = event.refs if isinstance(event.refs, dict) else {}
    return replace(event, payload=packed(event.payload), refs={**refs, "opaque": True})


def without_words(event: NewEvent) -> NewEvent:
    """Return ``event`` with a summary and refs that repeat nothing of its payload.

    A summary that shares a word with the payload is replaced by the kind and the size. Prose in
    refs is replaced, too; ids, names and paths stay.
    """
    if type(event) is KeyedEvent:
        return replace(event, summary=event.kind.replace(".", " "))
    texts = list(_texts(event.payload))
    payload_words = "\n".join((*texts, *_figures(event.payload))).lower()
    summary, refs = event.summary, event.refs
    if _repeats(summary, payload_words):
        summary = _described(event, sum(map(len, texts)))
    if refs is not None:
        refs = _wordless(refs, payload_words)
        if event.kind == "session.closed" and event.payload is not None and "reason" in refs:
            refs = {**refs, "reason": "…"}  # Even a single word is somebody's own.
    if summary is event.summary and refs is event.refs:
        return event
    return replace(event, summary=summary, refs=refs)


def _repeats(text: str, payload_words: str) -> bool:
    words = _WORD.findall(text.lower())
    long = [word for word in words if len(word) >= WORD_CHARS_MIN]
    return any(word in payload_words for word in long or words)


def _described(event: NewEvent, characters: int) -> str:
    name = NAMES.get(event.kind) or event.kind.replace(".", " ")
    tool = event.refs.get("tool") if isinstance(event.refs, dict) else None
    if isinstance(tool, str) and _CODE.fullmatch(tool):
        name = f"{name} of {tool}"
    return f"{name}, {characters:,} character{'' if characters == 1 else 's'}"


def _wordless(value: Any, payload_words: str) -> Any:
    """Return refs with "…" for every text that repeats the payload."""
    if isinstance(value, str):
        return "…" if not _CODE.fullmatch(value) and _repeats(value, payload_words) else value
    if isinstance(value, dict):
        return {key: _wordless(item, payload_words) for key, item in value.items()}
    if isinstance(value, list):
        return [_wordless(item, payload_words) for item in value]
    return value


def _figures(value: Any) -> Iterator[str]:
    """Yield every number in a payload, and every key that is not a plain name."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not _CODE.fullmatch(key):
                yield key
            yield from _figures(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _figures(item)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a payload, without keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
