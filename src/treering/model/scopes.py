"""Scopes: isolated sets of sessions. Every read names one."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final, NewType

from treering.errors import InvalidScope

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
