"""Scopes: isolated sets of sessions, and how many days each keeps a kind. Every read names one."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NewType, TypeAlias

from treering.errors import InvalidInput, InvalidScope
from treering.model.kinds import KINDS, parse_kind

SCOPE_CHARACTERS_MAX: Final = 200
PUNCTUATION: Final = "._:/-"

Scope = NewType("Scope", str)
"""A scope name in its stored spelling."""

GLOBAL: Final = Scope("global")
"""An ordinary scope that must be named; never a fallback."""

_RULE: Final = "use letters, digits and . _ : / - in the name"


@lru_cache(maxsize=4_096)
def parse_scope(text: str) -> Scope:
    """Return the stored spelling of ``text``: NFKC, trimmed, lower-case, spaces as ``-``.

    Raises InvalidScope if more would have to change: two different names never become one scope.
    """
    if not isinstance(text, str):
        raise InvalidScope(f"a scope must be text, not {text!r}", hint="name one, such as acme/app")
    # Twice: lower-casing can split what NFKC has combined.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    name = "-".join(folded.split())
    if not name:
        raise InvalidScope("a scope is required", hint="name one, such as acme/app")
    if len(name) > SCOPE_CHARACTERS_MAX:
        raise InvalidScope(
            f"the scope has {len(name)} characters, {SCOPE_CHARACTERS_MAX} are allowed",
            hint="shorten it",
        )
    wrong = next((c for c in name if not (_is_letter_or_digit(c) or c in PUNCTUATION)), None)
    if wrong is not None:
        raise InvalidScope(f"{text!r} is not a scope: it holds {wrong!r}", hint=_RULE)
    if name[0] in PUNCTUATION or name[-1] in PUNCTUATION:
        raise InvalidScope(
            f"{text!r} is not a scope: it starts or ends with punctuation",
            hint=f"write {name.strip(PUNCTUATION) or 'a name'!r}",
        )
    return Scope(name)


def _is_letter_or_digit(character: str) -> bool:
    # Marks (M) are the vowels of many scripts: Hindi or Thai names need them.
    return unicodedata.category(character)[0] in "LMN"


DAY_MS: Final = 86_400_000
FOREVER: Final = None
DAYS_MAX: Final = 36_500
"""A hundred years; more is forever."""

Retention: TypeAlias = Mapping[str, int | None]
"""Days by kind; None and missing kinds mean forever."""

DEFAULT_RETENTION: Final[Retention] = {
    kind.name: kind.retention_days for kind in KINDS.values() if kind.retention_days is not None
}

_FOREVER_WORDS: Final = frozenset({"forever", "inf", "infinite", "none"})


def check_retention(policy: Retention) -> dict[str, int | None]:
    """Return ``policy`` under stored kind names. Raises InvalidInput for an invalid age."""
    checked: dict[str, int | None] = {}
    for name, days in policy.items():
        kind = parse_kind(name).name
        if days is not None and (not isinstance(days, int) or isinstance(days, bool)):
            raise InvalidInput(
                f"invalid retention days for {kind}: {days!r}", hint="give whole days, or None"
            )
        if days is not None and days > DAYS_MAX:
            raise InvalidInput(
                f"retention days must be <= {DAYS_MAX} for {kind}", hint="write forever"
            )
        if days is not None and days < 0:
            raise InvalidInput(
                f"retention days must be >= 0 for {kind}", hint="write 0 or more, or forever"
            )
        checked[kind] = days
    return checked


def parse_retention_entry(entry: str) -> tuple[str, int | None]:
    """Return the kind and days of one ``KIND=DAYS`` entry; DAYS may be ``forever``."""
    name, equals, days = entry.partition("=")
    if not equals or not name.strip():
        raise InvalidInput(f"invalid --policy entry: {entry}", hint="write it as tool.result=30")
    kind = parse_kind(name).name
    text = days.strip().lower()
    if text in _FOREVER_WORDS:
        return kind, FOREVER
    try:
        number = int(text)
    except ValueError as error:
        raise InvalidInput(
            f"invalid retention days for {kind}: {days.strip()}",
            hint="write whole days, or forever",
        ) from error
    return next(iter(check_retention({kind: number}).items()))


def cutoffs(policy: Retention, now_ms: int) -> dict[str, int]:
    """Return the time before which events expire, for each kind with a limit.

    An event exactly as old as its retention is kept.
    """
    return {kind: now_ms - days * DAY_MS for kind, days in policy.items() if days is not None}
