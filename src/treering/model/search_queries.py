"""Search queries: words, prefixes, phrases, and operators that narrow them.

    storage deploy*  "no such table"  -draft  kind:tool.call  agent:lyria  after:3d

All words must occur. ``-`` excludes. Quotes make a phrase, or a plain word of what looks like an
operator.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from treering.errors import InvalidInput
from treering.model.fields import TIME_MS_MAX
from treering.model.kinds import stored_kinds
from treering.model.scopes import Scope
from treering.model.search_words import inner_spelling, is_unspaced, words_in

QUERY_CHARACTERS_MAX: Final = 1_000
TERMS_MAX: Final = 32
VALUES_MAX: Final = 50
"""The number of values that one operator may list."""

ZoneOffset: TypeAlias = "Callable[[int], int]"
"""How far a zone is ahead of UTC, in milliseconds, at a time there, in milliseconds since 1970."""

Operator = Literal["kind", "agent", "session", "tool", "file"]
_MARKED: Final[tuple[str, ...]] = get_args(Operator)
_TIMES: Final = ("before", "after")
OPERATORS: Final = (*_MARKED, *_TIMES)

_PIECE: Final = re.compile(r'-?(?:[A-Za-z]+:)?"[^"]*"?\*?|\S+')
_OPERATION: Final = re.compile(r"([A-Za-z_]{2,}):(.*)", re.DOTALL)
_QUOTED: Final = "put it in quotes to search for the text"

_AGE: Final = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DATE: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,3})\d*)?)?)?"
    r"(Z|[+-]\d\d:?\d\d)?",
    re.ASCII | re.IGNORECASE,
)
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EPOCH_DAYS: Final = 719_162
"""Days from the first day of the year 1 to 1970."""


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """A word, a phrase or a prefix that must occur."""

    words: tuple[str, ...]
    """In order; several words must be adjacent."""
    is_prefix: bool = False
    """Whether the last word is a prefix."""
    inside: str | None = None
    """Its spelling inside names in code, if it is searched for there."""


class Narrowing(msgspec.Struct, frozen=True, kw_only=True):
    """An operator: one of ``values`` must match, or none of them."""

    operator: Operator
    values: tuple[str, ...]
    is_negative: bool = False


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search in one scope."""

    scope: Scope
    terms: tuple[Term, ...] = ()
    without: tuple[Term, ...] = ()
    narrowings: tuple[Narrowing, ...] = ()
    since_ms: int | None = None
    """Inclusive."""
    before_ms: int | None = None
    """Exclusive."""


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One search: the query as it was typed, and how to answer it."""

    text: str
    scope: Scope
    mode: str
    limit: int
    include_failed: bool
    now_ms: int
    local_offset_ms: ZoneOffset
    """The zone of times in the query that name none."""

    def parse(self, text: str) -> SearchQuery:
        """Return the query that ``text`` means: the whole request, or a part of it."""
        return parse_search(
            text, self.scope, now_ms=self.now_ms, local_offset_ms=self.local_offset_ms
        )


def utc_offset_ms(_: int) -> int:
    """Return how far UTC is ahead of itself."""
    return 0


def parse_search(
    text: str, scope: Scope, *, now_ms: int, local_offset_ms: ZoneOffset = utc_offset_ms
) -> SearchQuery:
    """Return the query for ``text``. Raises InvalidInput if it is not valid.

    Times without a zone are in that of ``local_offset_ms``.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"a query is text, not {type(text).__name__}", hint="pass some words")
    if len(text) > QUERY_CHARACTERS_MAX:
        raise InvalidInput(
            f"a query has up to {QUERY_CHARACTERS_MAX} characters, not {len(text)}",
            hint="use fewer words",
        )
    terms: list[Term] = []
    without: list[Term] = []
    narrowings: list[Narrowing] = []
    times: dict[str, int] = {}
    for piece in _PIECE.findall(text):
        is_negative = piece.startswith("-") and len(piece) > 1
        body = piece[1:] if is_negative else piece
        name, value = _operation(body)
        if name in _TIMES:
            if is_negative:
                raise InvalidInput(f"-{name}: makes no sense", hint="use before: or after:")
            times[name] = _parse_time(value, local_offset_ms, name=name, now_ms=now_ms)
        elif name is not None:
            narrowings.append(_narrowing(name, value, is_negative=is_negative))
        elif (term := _term(body)) is not None:
            (without if is_negative else terms).append(term)
    return _checked(
        SearchQuery(
            scope=scope,
            terms=tuple(terms),
            without=tuple(without),
            narrowings=tuple(narrowings),
            since_ms=times.get("after"),
            before_ms=times.get("before"),
        )
    )


def _checked(query: SearchQuery) -> SearchQuery:
    count = len(query.terms) + len(query.without) + len(query.narrowings)
    if not count and query.since_ms is None and query.before_ms is None:
        raise InvalidInput("the query has no words", hint="search for letters or digits")
    if count > TERMS_MAX:
        raise InvalidInput(f"a query has up to {TERMS_MAX} words, not {count}", hint="use fewer")
    since, before = query.since_ms, query.before_ms
    if since is not None and before is not None and since >= before:
        raise InvalidInput(
            "the time range is empty: after: is not before before:", hint="swap the two times"
        )
    return query


def _operation(text: str) -> tuple[str | None, str]:
    """Return the operator and value of a piece; None and the piece for plain words."""
    match = _OPERATION.fullmatch(text)
    if match is None or text.startswith('"'):
        return None, text
    name, value = match[1].lower(), match[2]
    if name in OPERATORS:
        value = value.strip('"').strip()
        if not value:
            raise InvalidInput(f"{name}: has no value", hint=f"write {name}:… without a space")
        return name, value
    # With two colons, a slash or nothing after it, it is a name, a URL or a sentence.
    if not value or value[0] in ':/\\"' or not match[1].isalpha():
        return None, text
    raise InvalidInput(
        f"{name}: is not an operator",
        hint=f"use {', '.join(f'{operator}:' for operator in OPERATORS)}; or {_QUOTED}",
    )


def _narrowing(name: str, value: str, *, is_negative: bool) -> Narrowing:
    values = [item.strip() for item in value.split(",") if item.strip()]
    if name == "kind":
        values = list(stored_kinds(values))
    if not 1 <= len(values) <= VALUES_MAX:
        raise InvalidInput(f"{name}: lists {len(values)} values", hint=f"list 1 to {VALUES_MAX}")
    return Narrowing(
        operator=msgspec.convert(name, Operator), values=tuple(values), is_negative=is_negative
    )


def _term(text: str) -> Term | None:
    is_prefix = text.endswith("*")
    bare = text.rstrip("*")
    is_phrase = bare.startswith('"')
    words = [word.word for word in words_in(bare)]
    if not words:
        return None
    # The index has the last character of a run on its own, too; a query must not require it.
    if is_unspaced(words[-1]):
        if len(words) > 1 and len(words[-1]) == 1 and words[-2].endswith(words[-1]):
            words = words[:-1]
        elif len(words[-1]) == 1:
            is_prefix = True
    inside = None if is_phrase else inner_spelling(bare)
    return Term(words=tuple(words), is_prefix=is_prefix, inside=inside)


def _parse_time(text: str, local_offset_ms: ZoneOffset, *, name: str, now_ms: int) -> int:
    """Return milliseconds since 1970; a time without a zone is local. Raises InvalidInput.

    ``name`` is the operator of the time, for the error.
    """
    age = _AGE.fullmatch(text.lower())
    ts_ms = (
        _instant(text, local_offset_ms) if age is None else now_ms - int(age[1]) * _UNITS_MS[age[2]]
    )
    if ts_ms is None:
        raise InvalidInput(
            f"{name}:{text[:40]} is not a time",
            hint="write a date as 2026-03-05, a time as 2026-03-05T14:00, or an age as 3d",
        )
    return min(max(ts_ms, 1), TIME_MS_MAX)


def _instant(text: str, local_offset_ms: ZoneOffset) -> int | None:
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:6])
    days = _days_before(year, month, day)
    if days is None or hours > 23 or minutes > 59 or seconds > 59:
        return None
    milliseconds = int((match[7] or "0").ljust(3, "0"))
    in_day = ((hours * 60 + minutes) * 60 + seconds) * 1_000 + milliseconds
    there_ms = days * 86_400_000 + in_day
    offset_ms = local_offset_ms(there_ms) if match[8] is None else _offset_ms(match[8])
    return there_ms - offset_ms


def _days_before(year: int, month: int, day: int) -> int | None:
    """Return the days from 1970 to a date; None if the date does not exist."""
    if not (year and 1 <= month <= 12):
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _MONTH_DAYS[month - 1] + (leap and month == 2):
        return None
    past = year - 1
    days = past * 365 + past // 4 - past // 100 + past // 400
    days += sum(_MONTH_DAYS[: month - 1]) + (leap and month > 2) + day - 1
    return days - _EPOCH_DAYS


def _offset_ms(zone: str) -> int:
    if zone in "zZ":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return (-minutes if zone[0] == "-" else minutes) * 60_000
