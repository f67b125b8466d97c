"""The filter of the list of sessions, in the grammar of search.

    agent:codex failing cost>1 after:7d "upload test"

Words match titles, ids, and everything said and done.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from treering.errors import InvalidInput
from treering.model.search_queries import OPERATORS
from treering.model.sessions import SESSION_STATES

if TYPE_CHECKING:
    from decimal import Decimal

    from treering.model.sessions import SessionOutline

_PIECE: Final = re.compile(r'-?(?:[A-Za-z]+[:<>])?"[^"]*"?\*?|\S+')
_NUMBER: Final = re.compile(r"(cost|tokens|turns)([<>])(\d+(?:\.\d+)?)([kM]?)")
_UNITS: Final = {"": 1, "k": 1_000, "M": 1_000_000}
_OWN: Final = ("agent", "model", "state", "scope", "project", "user", "session")
_TIMES: Final = ("before", "after")
HINT: Final = (
    "write words, agent:NAME, model:NAME, scope:NAME, state:running, failing, cost>1, tokens>100k,"
    " turns>5, after:7d, before:2026-03-05, tool:Bash or file:src/a.py"
)


class SessionNumbers(NamedTuple):
    """The numbers of a session that filters compare."""

    turns: int
    tokens: int
    cost: Decimal | None
    failed: int


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list."""

    names: dict[str, str] = {}
    """What agent, model, state, scope, user or session must contain."""
    numbers: tuple[tuple[str, str, float], ...] = ()
    is_failing: bool = False
    times: dict[str, str] = {}
    words: str = ""
    """What is searched for, with the operators that only a search has."""
    plain: str = ""
    """The words alone, as a title shows them."""

    def compares(self, numbers: SessionNumbers) -> bool:
        """Return whether the numbers of a session fit."""
        return all(_compares(numbers, *number) for number in self.numbers)

    def matches(self, outline: SessionOutline, state: str, failed: int) -> bool:
        """Return whether a session matches, apart from numbers, words and times."""
        of = {
            "agent": outline.agent, "model": outline.model, "state": state,
            "scope": outline.scope, "user": outline.user, "session": outline.session_id,
        }  # fmt: skip
        is_named = all(part in (of[name] or "").casefold() for name, part in self.names.items())
        return is_named and (not self.is_failing or failed > 0)


def parse_filter(text: str) -> SessionFilter:
    """Return the filter that ``text`` means. Raise InvalidInput with the syntax as a hint."""
    names: dict[str, str] = {}
    times: dict[str, str] = {}
    numbers: list[tuple[str, str, float]] = []
    words: list[str] = []
    plain: list[str] = []
    is_failing = False
    for piece in _PIECE.findall(text):
        name, colon, value = piece.partition(":")
        lower = name.lower()
        bare = value.strip('"').casefold()
        if piece.lower() in {"failing", "failed"}:
            is_failing = True
        elif piece.lower() in {"live", "running"}:
            names["state"] = "running"
        elif compared := _NUMBER.fullmatch(piece):
            numbers.append((compared[1], compared[2], float(compared[3]) * _UNITS[compared[4]]))
        elif re.match(r"(cost|tokens|turns)[<>]", piece):
            raise InvalidInput(f"{piece} is not a comparison", hint=HINT)
        elif colon and lower in _OWN:
            names["scope" if lower == "project" else lower] = bare
        elif colon and lower in _TIMES:
            times[lower] = bare
        else:
            words.append(piece)
            if not (colon and lower.lstrip("-") in OPERATORS):
                plain.append(piece.strip('"*'))
    if (state := names.get("state")) is not None and state not in SESSION_STATES:
        raise InvalidInput(f"no state {state}", hint=f"use {', '.join(SESSION_STATES)}")
    return SessionFilter(
        names=names,
        numbers=tuple(numbers),
        is_failing=is_failing,
        times=times,
        words=" ".join(words),
        plain=" ".join(plain) if len(plain) == len(words) else "",
    )


def toggled(text: str, piece: str) -> str | None:
    """Return the filter with ``piece`` removed, or added; None if nothing is left.

    It replaces another value of the same operator.
    """
    pieces = _PIECE.findall(text)
    if piece in pieces:
        pieces.remove(piece)
    else:
        name, colon, _ = piece.partition(":")
        pieces = [other for other in pieces if not (colon and other.startswith(f"{name}:"))]
        pieces.append(piece)
    return " ".join(pieces) or None


def _compares(numbers: SessionNumbers, name: str, sign: str, than: float) -> bool:
    value = {"cost": numbers.cost, "tokens": numbers.tokens, "turns": numbers.turns}[name]
    if value is None:
        return False
    return float(value) > than if sign == ">" else float(value) < than
