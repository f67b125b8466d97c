"""From what a caller states to what is stored: checked, masked, encoded, digested.

All of it happens before any lock is taken.
"""

from __future__ import annotations

import os
from hashlib import sha256
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec.structs import replace
from uuid_utils import uuid7

from treering.errors import InvalidInput, InvalidKind, SensitiveContent, TooLarge
from treering.lazy import lazy_pattern
from treering.ledger.chain import SALT_BYTES
from treering.ledger.records import Draft
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
    from treering.model.scopes import Scope

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
_INTEGER_MAX: Final = 2**63 - 1
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
        self._scopes: dict[str, Scope] = {}
        self._names: set[str] = set()
        """Ids that were checked before."""

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
        # Every append goes through here, mostly with cold caches: few calls, known names first. The
        # last digest is the one that ``chain.header_digest`` returns.
        salts = os.urandom(SALT_BYTES * len(events))
        now_ms = self._clock()
        plain, names, scopes = self._plain, self._names, self._scopes
        mode = self._mode
        suspicious = None if mode == "off" else (self._found_guard or self._find_guard()).suspicious
        drafts: list[Draft] = []
        clean: list[Content | None] = []
        at = 0
        try:
            for event, number in zip(events, numbers or repeat(None, len(events)), strict=True):
                position = len(drafts) % CHECKED_TOGETHER
                if suspicious is not None and position == 0 and len(events) > 1:
                    clean = self._clean(events[len(drafts) : len(drafts) + CHECKED_TOGETHER])
                kind = (
                    KINDS[event.kind]
                    if vouching
                    else _RECORDABLE.get(event.kind) or _recordable(event.kind)
                )
                is_sealed = False
                if event.payload is not None and event.scope not in plain and not vouching:
                    is_sealed = self._is_sealed(event.scope)
                    if is_sealed:
                        event = without_words(event)  # noqa: PLW2901  (the same, for such a scope)
                scope = scopes.get(event.scope) or self._new_scope(event.scope)
                session_id, agent_id = event.session_id, event.agent_id
                run_id, turn_id = event.run_id, event.turn_id
                user_id, origin = event.user_id, event.origin
                # A text of another class may equal a known name, and cannot be stored.
                if session_id not in names or type(session_id) is not str:
                    names.add(check_name(session_id, "session_id"))
                if agent_id not in names or type(agent_id) is not str:
                    names.add(check_name(agent_id, "agent_id"))
                if run_id is not None and (run_id not in names or type(run_id) is not str):
                    names.add(check_name(run_id, "run_id"))
                if turn_id is not None and (turn_id not in names or type(turn_id) is not str):
                    names.add(check_name(turn_id, "turn_id"))
                if user_id is not None and (user_id not in names or type(user_id) is not str):
                    names.add(check_name(user_id, "user_id"))
                if origin is not None and (origin not in names or type(origin) is not str):
                    names.add(check_name(origin, "origin"))
                source = event.source or kind.source
                visibility = event.visibility or kind.visibility
                if type(source) is not str or not (
                    source in SOURCES and visibility in VISIBILITIES
                ):
                    raise _bad_choice(source, visibility)
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
                summary, refs_value = event.summary, event.refs
                payload_value = event.payload
                checked = clean[position] if clean and not is_sealed else None
                try:
                    content, refs, payload = checked or canonical_content(
                        summary, refs_value, payload_value
                    )
                except InvalidInput:
                    readable = without_bytes(event)
                    if readable is event:
                        raise
                    refs_value, payload_value = readable.refs, readable.payload
                    content, refs, payload = canonical_content(summary, refs_value, payload_value)
                if mode == "reject":
                    _refuse_opaque(refs_value)
                if (
                    suspicious is not None
                    and checked is None
                    and suspicious(self._watched(content, payload))
                ):
                    masked = self._masked(event, summary, refs_value, payload_value)
                    if masked is not None:
                        summary, refs_value, payload_value = masked
                        content, refs, payload = canonical_content(*masked)
                if (
                    not summary
                    or summary.isspace()
                    or len(summary) > SUMMARY_CHARACTERS_MAX
                    or "\0" in summary
                ):
                    check_summary(summary)
                if refs is not None:
                    if len(refs) > REFS_BYTES_MAX:
                        raise _too_many_refs(len(refs))
                    # A copy: the header does not follow what its author does later.
                    refs_value = decode(refs)
                size, blob = 0, None
                if payload is not None:
                    size = len(payload)
                    if size > PAYLOAD_BYTES_MAX:
                        blob = compressed(payload)
                if event.event_id is None:
                    made = uuid7()
                    event_id, made_id = str(made), made.bytes
                else:
                    event_id, made_id = check_id(event.event_id), None
                is_counted = run_id is not None and (counted or number is not None)
                is_unnumbered = is_counted and run_seq is None
                salt = salts[at : at + SALT_BYTES]
                at += SALT_BYTES
                draft = Draft(
                    scope, session_id, kind.name, run_id, event_id, made_id, given_ms is not None,
                    number is None and not is_unnumbered, is_counted, is_sealed,
                    (
                        event_id, scope, session_id, kind.name, source, origin, run_id, run_seq,
                        turn_id, agent_id, user_id, ts_ms, now_ms, visibility, summary, refs_value,
                    ),
                    refs, payload, size, blob, salt,
                    sha256(salt + content).digest(),
                    b"" if is_unnumbered else sha256(encode((
                        event_id, run_id, run_seq, turn_id, agent_id, user_id, kind.name, source,
                        origin, ts_ms, now_ms, visibility, SCHEMA_VERSION,
                    ))).digest(),
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
        if len(names) > NAMES_MAX:
            names.clear()
        return drafts

    def vouch(self, event: NewEvent) -> Draft:
        """Return a draft of the ledger's own word about an erasure."""
        return self.draft([event], vouching=True)[0]

    def _is_sealed(self, name: str) -> bool:
        """Whether to draft for a scope whose payloads are sealed. One that is not is remembered."""
        scope = self._scopes.get(name) or self._new_scope(name)
        if scope in self._sealed or self._seals(scope):
            return True
        if len(self._plain) > NAMES_MAX:
            self._plain.clear()
        self._plain.add(name)
        return False

    def _clean(self, events: Sequence[NewEvent]) -> list[Content | None]:
        """Return the content of each of ``events``, None for one that may hold a secret.

        One look at several takes less time than one at each, since what it needs stays in the
        processor's cache. Nothing is returned for events that must be taken one by one.
        """
        plain = self._plain
        try:
            contents = [
                canonical_content(event.summary, event.refs, event.payload)
                for event in events
                if event.payload is None or event.scope in plain
            ]
        except (InvalidInput, TypeError, AttributeError):
            return []
        if len(contents) < len(events):
            return []
        guard = self.guard()
        watched = (
            [self._watched(content, payload) for content, _, payload in contents]
            if self._mode == "safe"
            else [content for content, _, _ in contents]
        )
        if sum(map(len, watched)) <= CHECKED_BYTES_MAX:
            suspects = guard.suspects(watched)
        else:
            suspects = {at for at, part in enumerate(watched) if guard.suspicious(part)}
        if not suspects:
            return [*contents]
        return [None if at in suspects else content for at, content in enumerate(contents)]

    def _watched(self, content: bytes, payload: bytes | None) -> bytes:
        """Return the part of a content that the guard looks at."""
        # The payload comes last, before one bracket.
        return content[: -len(payload) - 1] if self._mode == "safe" and payload else content

    def _find_guard(self) -> ContentGuard:
        # Made when first needed: its rules take longer to load than a short command to run.
        self._found_guard = self._guard()
        return self._found_guard

    def _new_scope(self, text: str) -> Scope:
        scope = parse_scope(text)
        if len(self._scopes) > NAMES_MAX:
            self._scopes.clear()
        self._scopes[text] = scope
        return scope

    def _masked(
        self, event: NewEvent, summary: str, refs: Any, payload: Any
    ) -> tuple[str, Any, Any] | None:
        """Return the content of ``event`` without secrets, None if there are none.

        Raises SensitiveContent where they must not be masked.
        """
        guard = self._found_guard or self._find_guard()
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
            return None
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
            return None
        return safe_summary, safe_refs, safe_payload


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


def _bad_choice(source: str, visibility: str) -> InvalidInput:
    if type(source) is not str or source not in SOURCES:
        return InvalidInput(
            f"invalid source: {source}", hint=f"use one of {', '.join(sorted(SOURCES))}"
        )
    return InvalidInput(f"invalid visibility: {visibility}", hint="use safe or private")


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
