"""The guard that finds secrets in text and JSON, and masks them.

A mask reads ``[redacted:<rule>:<hash8>]``. The hash is keyed, so that two masks of the same secret
are equal, while nobody without the key can test guesses. Finding never stores a value, masking
never changes a clean one, and masks are never found again.
"""

import hmac
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from typing import Final, TypeAlias

import msgspec
from ahocorasick_rs import AhoCorasick, Implementation

from treering.capture.personal_rules import (
    PERSONAL_RULES,
    find_phones,
    is_phone_field,
    may_hold_phone,
)
from treering.capture.secret_alarm import Alarm, Find, finder
from treering.capture.secret_assignments import NAME_CHARS, NAME_CHARS_MAX, WORD_CHARS_MAX, Span
from treering.capture.secret_layouts import find_around
from treering.capture.secret_names import PIN_DIGITS_MIN, Named, holds_secret, named
from treering.capture.secret_rules import AUTHORIZATION, GENERIC, SECRET_RULES, Rule
from treering.capture.secret_values import MASK, is_tangled
from treering.capture.secret_wraps import BROKEN_IN_TEXT, BrokenKeywords
from treering.errors import is_interruption
from treering.lazy import lazy_pattern
from treering.model.codec import Json

Hit: TypeAlias = tuple[int, int, int]
"""The index of the rule of a keyword, and the keyword's position."""

_BACKSLASH, _LINE_END = b"\\\n"
HASH_DIGITS: Final = 8
KEYS_MAX: Final = 1_000
"""The number of clean keys cached: the same few occur in every event."""
KEY_CHARS_MAX: Final = 64
SHORT_CHARS_MAX: Final = 4_096
WRAPPED_LINES_MAX: Final = 64
WRAPPED_CHARS_MIN: Final = 16

_NAMING: Final = ("name", "key", "Name", "Key", "ParameterKey", "OptionName")
_NAMED: Final = frozenset(("value", "Value", "ParameterValue"))
_SURROGATE: Final = lazy_pattern("[\ud800-\udfff]")
_FLAG: Final = lazy_pattern(r"--?[A-Za-z][\w-]{1,48}")
_HEADER: Final = "authorization: "
_CODES: Final = lazy_pattern(
    r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_])"
)
_JOINT: Final = lazy_pattern(
    r"\\[ ]?\r?\n[ \t]{0,32}[A-Za-z0-9+/_=.~-]{4,4096}+"
    r"|[\"'][ ]{0,4}[+.&\\]?[ ]{0,4}\r?\n"
    r"[ \t]{0,32}[+.&]?[ ]{0,4}[\"'][A-Za-z0-9+/_=.~-]{4,4096}+(?=[\"'])"
)
_WRAPPED: Final = lazy_pattern(r"\r?\n[ \t]{0,8}([A-Za-z0-9+/_=-]{16,4096}+)(?=[\s\"']|\Z)")


class GuardFailed(RuntimeError):
    """A rule failed on a text, so the text cannot be masked."""


class SecretMatch(msgspec.Struct, frozen=True):
    """The position of a secret in a text, never the secret itself."""

    rule: str
    start: int
    end: int


class RuleKeywords:
    """Finds the keywords of rules in texts. Each automaton takes milliseconds to build.

    All copies of a guard share it: what one of them has built is there for the others.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        called = [(word, rule) for rule in rules for word in rule.keywords]
        # Most text is ASCII, and a smaller automaton is faster.
        self._ascii_called = [pair for pair in called if pair[0].isascii()]
        self._foreign_called = [pair for pair in called if not pair[0].isascii()]
        self._called = called
        self.rules = [rule for _, rule in (*self._ascii_called, *self._foreign_called)]
        """The rule of each keyword: of those that are ASCII, then of the others."""

    def hits(self, text: str) -> list[Hit]:
        """Return the keywords in ``text``, in the order of their ends."""
        if text.isascii():
            return self._find(text.encode(), True)
        encoded = text.encode()
        # Positions in bytes are those in the text if each character takes one. No keyword has a
        # question mark.
        hits = self._find(text.encode("ascii", "replace"), True)
        if not self.alarm.is_foreign(encoded):
            return hits
        offset = len(self._ascii_called)
        foreign = self._foreign.find_matches_as_indexes(text, True)
        hits += [(index + offset, start, end) for index, start, end in foreign]
        return sorted(hits, key=itemgetter(2))

    # A command that prints a few titles needs only the alarm.

    @cached_property
    def _find(self) -> Find:
        return finder(word.encode() for word, _ in self._ascii_called)

    @cached_property
    def _foreign(self) -> AhoCorasick:
        words = [word for word, _ in self._foreign_called]
        return AhoCorasick(words, implementation=Implementation.DFA)

    @cached_property
    def broken(self) -> BrokenKeywords:
        """Return what finds keywords that are broken by line ends."""
        return BrokenKeywords(
            [(word, rule.rejoin) for word, rule in self._called if rule.rejoin is not None]
        )

    @cached_property
    def alarm(self) -> Alarm:
        """Return what tells quickly whether a text may hold a secret."""
        called = [pair for pair in self._called if pair[1] is not _MASKED]
        return Alarm([(word, rule.is_called, rule.veto) for word, rule in called])


class SecretGuard:
    """Finds and masks secrets, and with ``personal`` e-mail addresses and phone numbers too.

    ``key`` is for the hashes in the masks; a function is called once, at the first mask.
    """

    def __init__(self, *, key: bytes | Callable[[], bytes], personal: bool = False) -> None:
        self._key = key
        self._personal = personal
        rules = (*SECRET_RULES, *PERSONAL_RULES) if personal else SECRET_RULES
        self._keywords = RuleKeywords((*rules, _CODED, _MASKED))
        self._clean_keys: set[str] = set()

    def find_text(self, text: str) -> list[SecretMatch]:
        """Return every secret in ``text``, in order and without overlaps."""
        return [SecretMatch(*span) for span in self._spans(text)]

    def mask_text(self, text: str) -> str:
        """Return ``text`` with every secret masked; a clean text is returned unchanged."""
        # Most texts are clean, and a long one holds something that needs a closer look.
        if len(text) <= SHORT_CHARS_MAX and not self.suspicious(
            text.encode("utf-8", "surrogatepass")
        ):
            return text
        spans = self._spans(text)
        return self._masked(text, spans) if spans else text

    def suspicious(self, encoded: bytes) -> bool:
        """Return whether canonical JSON or UTF-8 text may hold a secret; False is a guarantee."""
        return self._keywords.alarm.raised_at(encoded, 1) != [] or self._may_hide(encoded)

    def suspects(self, parts: Sequence[bytes]) -> set[int]:
        """Return which of several canonical JSON texts may hold a secret, by their indexes."""
        joined = b",".join(parts)
        if self._may_hide(joined):
            return {index for index, part in enumerate(parts) if self.suspicious(part)}
        raised = self._keywords.alarm.raised_at(joined, len(joined))
        ends = list(accumulate(len(part) + 1 for part in parts)) if raised else []
        return {bisect_right(ends, at) for at in raised}

    def _may_hide(self, encoded: bytes) -> bool:
        """Return whether a secret may be there that no ASCII keyword announces."""
        keywords = self._keywords
        # Looking for a number takes a fifth of the time of looking for bytes.
        return (
            (_BACKSLASH in encoded and keywords.broken.may_be_in_json(encoded))
            or (
                _LINE_END in encoded
                and BROKEN_IN_TEXT.search(encoded) is not None
                and keywords.broken.may_be_in_text(encoded)
            )
            or (not encoded.isascii() and keywords.alarm.is_foreign(encoded))
            or (self._personal and may_hold_phone(encoded))
        )

    def find_value(self, value: Json, name: str = "") -> str | None:
        """Return the first rule that finds a secret anywhere in a JSON ``value``, or None.

        ``name`` is the field that holds it, if any.
        """
        if isinstance(value, dict):
            for key, item, field in _fields(value, name):
                spans = self._spans(key)
                rule = spans[0][0] if spans else self.find_value(item, field)
                if rule is not None:
                    return rule
            return None
        if isinstance(value, list):
            for item, field in _items(value, name):
                rule = self.find_value(item, field)
                if rule is not None:
                    return rule
            return None
        spans = self._field_spans(name, value)
        return spans[0][0] if spans else None

    def mask_value(self, value: Json, name: str = "") -> Json:
        """Return a JSON ``value`` with every secret masked, including keys; unchanged if clean.

        ``value`` itself is never modified. A number that is a password becomes a mask. ``name`` is
        the field that holds it, if any.
        """
        if isinstance(value, dict):
            clean_keys = self._clean_keys
            fields = {
                key if key in clean_keys else self._mask_key(key): self.mask_value(item, field)
                for key, item, field in _fields(value, name)
            }
            clean = all(key in fields and fields[key] is item for key, item in value.items())
            return value if clean else fields
        if isinstance(value, list):
            items = [self.mask_value(item, field) for item, field in _items(value, name)]
            clean = all(masked is item for masked, item in zip(items, value, strict=True))
            return value if clean else items
        spans = self._field_spans(name, value)
        return self._masked(str(value), spans) if spans else value

    def _mask_key(self, key: str) -> str:
        masked = self.mask_text(key)
        if masked is key and len(key) <= KEY_CHARS_MAX:
            if len(self._clean_keys) >= KEYS_MAX:
                self._clean_keys.clear()
            self._clean_keys.add(key)
        return masked

    def _field_spans(self, name: str, value: Json) -> Sequence[Span]:
        """Return the secrets in a single value, which has a ``name`` if that is not empty."""
        if isinstance(value, int) and not isinstance(value, bool) and _is_password(name):
            digits = str(value)
            return (("password", 0, len(digits)),) if len(digits) >= PIN_DIGITS_MIN else ()
        if not isinstance(value, str):
            return ()
        if name.endswith(AUTHORIZATION):
            return _shifted(self._spans(f"{_HEADER}{value}"), -len(_HEADER))
        spans = self._spans(value)
        whole = self._whole(name, value)
        if whole is None or (len(spans) == 1 and spans[0][1:] == (0, len(value))):
            return spans
        return ((whole, 0, len(value)),)

    def _whole(self, name: str, value: str) -> str | None:
        """Return the rule by which all of ``value`` is a secret because of its name, or None."""
        promise = _promise(name)
        if promise is not None and value and holds_secret(promise, value):
            return promise.rule
        return "phone" if self._personal and name and is_phone_field(name, value) else None

    def _spans(self, text: str) -> Sequence[Span]:
        if "\x1b" in text:
            return self._coded_spans(text)
        try:
            hits = self._keywords.hits(text)
        except UnicodeEncodeError:
            return self._spans(_SURROGATE.sub("\ufffd", text))
        spans = self._unannounced(text) if self._personal or "\n" in text else []
        if not hits and not spans:
            return ()
        masks: list[Span] = []
        identified = guessed = ("", 0, 0)
        rules = self._keywords.rules
        for index, start, end in hits:
            # Reading five fields takes longer.
            name, _, locate, is_generic, _, veto, _, looks_around = rules[index]
            # Text inside a secret needs no second check, unless it identifies the family.
            if (
                identified[2] > start >= identified[1]
                or (is_generic and guessed[2] > start >= guessed[1])
                or (veto and text.startswith(veto, end))
            ):
                continue
            try:
                span = locate(text, start, end)
                if span is None and looks_around:
                    spans += find_around(text, start, end)
            except Exception as error:
                if is_interruption(error):
                    raise
                # The cause may quote the text, so it is not chained.
                raise GuardFailed(f"The secret rule {name!r} failed") from None
            if span is None:
                continue
            generic = span[0] in GENERIC
            guessed, identified = (span, identified) if generic else (guessed, span)
            (masks if locate is _mask_span else spans).append(span)
        return _continued(text, _merged(spans, masks))

    def _unannounced(self, text: str) -> list[Span]:
        """Return secrets that no keyword announces."""
        spans = self._keywords.broken.spans(text)
        return spans + find_phones(text) if self._personal else spans

    def _coded_spans(self, text: str) -> Sequence[Span]:
        """Return the secrets in ``text`` as a reader sees it, without terminal codes."""
        plain, removed = _without_codes(text)
        return [
            (rule, start + _shift(removed, start), end + _shift(removed, end - 1))
            for rule, start, end in self._spans(plain)
        ]

    def _masked(self, text: str, spans: Iterable[Span]) -> str:
        parts = []
        done = 0
        for rule, start, end in spans:
            parts += [text[done:start], f"[redacted:{rule}:{self._hash(text[start:end])}]"]
            done = end
        return "".join([*parts, text[done:]])

    def _hash(self, secret: str) -> str:
        if callable(self._key):
            self._key = self._key()
        digest = hmac.digest(self._key, secret.encode("utf-8", "surrogatepass"), "sha256")
        return digest.hex()[:HASH_DIGITS]


def _fields(value: dict[str, Json], name: str) -> Iterator[tuple[str, Json, str]]:
    """Yield each key, its item and the item's name.

    {"name": …, "value": …} is a pair, and {"password": {"value": …}} names its value. So is
    {"selector": …, "text": …}, with which an agent types into a form.
    """
    pair = next(filter(None, map(value.get, _NAMING)), name)
    form = value.get("selector") or value.get("element")
    for key, item in value.items():
        given = pair if key in _NAMED else form if key == "text" else None
        # A cookie as exported by a browser.
        if key == "value" and "domain" in value and "path" in value:
            given = "session_token"
        yield key, item, given if given and isinstance(given, str) else key


def _items(value: list[Json], name: str) -> Iterator[tuple[Json, str]]:
    """Yield each item and its name: that of its list, or else of the flag before it."""
    given = name if _promise(name) else ""
    flag = ""
    for item in value:
        yield item, given or flag or name
        flag = item if isinstance(item, str) and _FLAG.fullmatch(item) else ""


def _promise(name: str) -> Named | None:
    """Return what the end of ``name`` implies; no word of usual length is cut."""
    if len(name) <= NAME_CHARS_MAX:
        return named(name) if name else None
    before = name[-NAME_CHARS_MAX - WORD_CHARS_MAX : -NAME_CHARS_MAX]
    return named(name[len(before.rstrip(NAME_CHARS)) - len(before) - NAME_CHARS_MAX :])


def _is_password(name: str) -> bool:
    promise = _promise(name)
    return promise is not None and promise.rule == "password" and promise.demand == "given"


def _shifted(spans: Iterable[Span], offset: int) -> list[Span]:
    return [(rule, start + offset, end + offset) for rule, start, end in spans]


def _merged(spans: list[Span], masks: list[Span]) -> list[Span]:
    """Return the spans in order, with overlaps joined and without those that touch a mask."""
    merged: list[Span] = []
    mask_starts = [start for _, start, _ in masks]
    for rule, start, end in sorted(spans, key=itemgetter(1, 2)):
        mask = bisect_left(mask_starts, end) - 1
        if mask >= 0 and masks[mask][2] > start:
            continue
        if merged and start < merged[-1][2]:
            first, first_start, first_end = merged[-1]
            merged[-1] = (rule if first in GENERIC else first, first_start, max(first_end, end))
        else:
            merged.append((rule, start, end))
    return merged


def _without_codes(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return ``text`` without terminal codes, and the number of removed characters by position."""
    parts: list[str] = []
    removed: list[tuple[int, int]] = []
    done = position = 0
    for code in _CODES.finditer(text):
        parts.append(text[done : code.start()])
        position += code.start() - done
        done = code.end()
        removed.append((position, done - position))
    plain = "".join([*parts, text[done:]]).replace("\x1b", " ")
    return plain, removed


def _shift(removed: list[tuple[int, int]], at: int) -> int:
    index = bisect_left(removed, (at + 1, 0))
    return removed[index - 1][1] if index else 0


def _continued(text: str, spans: Sequence[Span]) -> Sequence[Span]:
    """Return spans extended over line breaks: by a backslash, a plus or a terminal."""
    if not spans or "\n" not in text:
        return spans
    grown = []
    for rule, start, end in spans:
        stop = end
        for _ in range(WRAPPED_LINES_MAX):
            joint = _JOINT.match(text, stop)
            if joint is not None:
                stop = joint.end()
                continue
            line = _WRAPPED.match(text, stop)
            if (
                line is None
                or end - start < WRAPPED_CHARS_MIN
                or not is_tangled(line[1].replace("/", "+"))
            ):
                break
            stop = line.end()
        grown.append((rule, start, stop))
    return _merged(grown, [])


def _mask_span(text: str, start: int, _end: int) -> Span | None:
    match = MASK.match(text, start)
    return None if match is None else ("mask", *match.span())


# Text between terminal codes of any kind is examined without them.
_CODED: Final = Rule("codes", ("\x1b", "\\u001b"), lambda _text, _start, _end: None)
_MASKED: Final = Rule("mask", ("[redacted:",), _mask_span, is_called=lambda _encoded, _end: False)
