"""What is looked for: words, beginnings, phrases, and operators that narrow them.

    storage deploy*  "no such table"  -draft  kind:tool.call  agent:lyria  after:3d

All words have to be there. ``-`` leaves out. Quotes make a phrase, or a word of what looks like an
operator.
"""

from __future__ import annotations

import re
from typing import Final, Literal, get_args

import msgspec

from treering.errors import InvalidInput
from treering.model.kinds import stored_kinds
from treering.model.scopes import Scope
from treering.model.search_times import parse_time
from treering.model.search_words import inner_spelling, is_unspaced, words_in

QUERY_CHARACTERS_MAX: Final = 1_000
TERMS_MAX: Final = 32
VALUES_MAX: Final = 50
"""What one operator may list."""

Operator = Literal["kind", "agent", "session", "tool", "file"]
_MARKED: Final[tuple[str, ...]] = get_args(Operator)
_TIMES: Final = ("before", "after")
OPERATORS: Final = (*_MARKED, *_TIMES)

_PIECE: Final = re.compile(r'-?(?:[A-Za-z]+:)?"[^"]*"?\*?|\S+')
_OPERATION: Final = re.compile(r"([A-Za-z_]{2,}):(.*)", re.DOTALL)
_QUOTED: Final = "put it in quotes to look for it as text"


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that has to be there: a word, a phrase, a beginning."""

    words: tuple[str, ...]
    """In order; several stand side by side."""
    is_prefix: bool = False
    """The last word may go on."""
    inside: str | None = None
    """How it is spelt inside of names in code, if it is looked for there."""


class Narrowing(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator says: one of ``values``, or none of them."""

    operator: Operator
    values: tuple[str, ...]
    is_negative: bool = False


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for in one scope."""

    scope: Scope
    terms: tuple[Term, ...] = ()
    without: tuple[Term, ...] = ()
    narrowings: tuple[Narrowing, ...] = ()
    since_ms: int | None = None
    """Inclusive."""
    before_ms: int | None = None
    """Exclusive."""


def parse_search(text: str, scope: Scope, *, now_ms: int) -> SearchQuery:
    """Return the query that ``text`` spells. Raises InvalidInput if it spells none."""
    if not isinstance(text, str):
        raise InvalidInput(f"a query is text, not {type(text).__name__}", hint="give some words")
    if len(text) > QUERY_CHARACTERS_MAX:
        raise InvalidInput(
            f"a query has up to {QUERY_CHARACTERS_MAX} characters, not {len(text)}",
            hint="look for fewer words",
        )
    terms: list[Term] = []
    without: list[Term] = []
    narrowings: list[Narrowing] = []
    times: dict[str, int] = {}
    for piece in _PIECE.findall(text):
        is_negative = piece.startswith("-") and len(piece) > 1
        said = piece[1:] if is_negative else piece
        name, value = _operation(said)
        if name in _TIMES:
            if is_negative:
                raise InvalidInput(f"-{name}: makes no sense", hint="use before: or after:")
            times[name] = parse_time(value, name=name, now_ms=now_ms)
        elif name is not None:
            narrowings.append(_narrowing(name, value, is_negative=is_negative))
        elif (term := _term(said)) is not None:
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
        raise InvalidInput(
            "there is no word in the query", hint="give letters or digits to look for"
        )
    if count > TERMS_MAX:
        raise InvalidInput(
            f"a query has up to {TERMS_MAX} words, not {count}", hint="look for fewer"
        )
    since, before = query.since_ms, query.before_ms
    if since is not None and before is not None and since >= before:
        raise InvalidInput(
            "the time range is empty: after: is not before before:", hint="swap the two times"
        )
    return query


def _operation(said: str) -> tuple[str | None, str]:
    """Return the operator that a piece names, and its value; None for plain words."""
    found = _OPERATION.fullmatch(said)
    if found is None or said.startswith('"'):
        return None, said
    name, value = found[1].lower(), found[2]
    if name in OPERATORS:
        value = value.strip('"').strip()
        if not value:
            raise InvalidInput(f"{name}: says nothing", hint=f"write {name}:… without a space")
        return name, value
    # What has two colons, a slash or nothing behind it is a name, an address or a sentence.
    if not value or value[0] in ':/\\"' or not found[1].isalpha():
        return None, said
    raise InvalidInput(
        f"{name}: is no operator",
        hint=f"there are {', '.join(f'{one}:' for one in OPERATORS)}; or {_QUOTED}",
    )


def _narrowing(name: str, value: str, *, is_negative: bool) -> Narrowing:
    values = [one.strip() for one in value.split(",") if one.strip()]
    if name == "kind":
        values = list(stored_kinds(values))
    if not 1 <= len(values) <= VALUES_MAX:
        raise InvalidInput(
            f"{name}: lists {len(values)} values", hint=f"give 1 to {VALUES_MAX} of them"
        )
    return Narrowing(
        operator=msgspec.convert(name, Operator), values=tuple(values), is_negative=is_negative
    )


def _term(said: str) -> Term | None:
    is_prefix = said.endswith("*")
    bare = said.rstrip("*")
    is_phrase = bare.startswith('"')
    words = [found.word for found in words_in(bare)]
    if not words:
        return None
    # The last character of a run stands alone, for whoever looks for it; a query ends before it.
    if is_unspaced(words[-1]):
        if len(words) > 1 and len(words[-1]) == 1 and words[-2].endswith(words[-1]):
            words = words[:-1]
        elif len(words[-1]) == 1:
            is_prefix = True
    inside = None if is_phrase else inner_spelling(bare)
    return Term(words=tuple(words), is_prefix=is_prefix, inside=inside)
