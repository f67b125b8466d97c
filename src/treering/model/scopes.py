"""Scopes: the walls around sets of sessions. Every read names one."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final, NewType

from treering.errors import InvalidScope

SCOPE_CHARACTERS_MAX: Final = 200
PUNCTUATION: Final = "._:/-"

Scope = NewType("Scope", str)
"""A scope name in its one stored spelling."""

GLOBAL: Final = Scope("global")
"""A scope of its own that must be named; never a fallback."""

_RULE: Final = "use letters, digits and . _ : / - inside the name"


@lru_cache(maxsize=4_096)
def parse_scope(text: str) -> Scope:
    """Return the stored spelling of ``text``: NFKC, trimmed, lower-case, inner blanks as ``-``.

    Raises InvalidScope for anything else that would need changing: two different names never
    become one scope.
    """
    if not isinstance(text, str):
        raise InvalidScope(f"a scope is a text, not {text!r}", hint="name one, such as acme/app")
    # Twice: lower-casing can take apart what NFKC has put together.
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
    # Marks (M) carry the vowels of many scripts: without them Hindi or Thai names would be refused.
    return unicodedata.category(character)[0] in "LMN"
