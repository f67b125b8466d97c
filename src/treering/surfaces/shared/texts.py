"""Texts for people: on one line, numbers with their nouns, secrets masked; all items of pages."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any, Final, TypeVar

from treering.model.codec import encode
from treering.model.queries import PAGE_ITEMS_MAX, items_of
from treering.spine.conversion import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.capture.secrets import SecretGuard
    from treering.ledger.ledger import Ledger
    from treering.model.receipts import ExpireReceipt

_PLURALS: Final = {"entry": "entries", "reply": "replies", "match": "matches"}
_JOINERS: Final = "\u200c\u200d"
"""Invisible, and part of how emoji and some scripts are written."""


def printable(text: str) -> str:
    """Return ``text`` on one line, with everything that could steer a terminal written out."""
    if text.isprintable():
        return text
    return "".join(c if _is_harmless(c) else _escaped(c) for c in text)


def one_line(text: str) -> str:
    """Return ``text`` printable, its lines and blanks run together."""
    return printable(" ".join(text.split()))


def counted(number: int, noun: str) -> str:
    """Return ``1 event`` or ``1,200 events``."""
    return f"{number:,} {noun if number == 1 else _PLURALS.get(noun, noun + 's')}"


def in_words(parts: Sequence[str]) -> str:
    """Return ``a``, ``a and b``, or ``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), *parts[-1:]] if len(parts) > 1 else parts)


def days(number: float) -> str:
    """Return ``1 day``, ``30 days`` or ``0.5 days``."""
    return f"{number:g} {'day' if number == 1 else 'days'}"


def _is_harmless(character: str) -> bool:
    category = unicodedata.category(character)
    if category in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
        return character in _JOINERS
    return True


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def days_kept(receipt: ExpireReceipt, kind: str) -> str:
    """Return how long a kind is kept, as people say it."""
    days = receipt.policy_days.get(kind)
    return "its retention" if days is None else counted(days, "day")


Item = TypeVar("Item")


def scope_names(ledger: Ledger) -> list[str]:
    """Return the scopes of a ledger, all pages of them, by name."""
    outlines = items_of(lambda after: ledger.scopes(limit=PAGE_ITEMS_MAX, after=after))
    return [outline.scope for outline in outlines]


class Mask:
    """Masks secrets in what is shown; creates its guard when it is first needed."""

    def __init__(self) -> None:
        self.masked = 0
        """How many of the values that it was given held a secret."""
        self._guard: SecretGuard | None = None

    def text(self, text: str | None) -> str | None:
        """Return ``text`` with its secrets masked."""
        masked: str | None = self.value(text and plain(text))
        return masked

    def value(self, value: Any) -> Any:
        """Return a JSON value with its secrets masked; a clean one comes back as it is."""
        if not value:
            return value
        guard = self._guard = self._guard or _guard()
        if not guard.suspicious(encode(value)):
            return value
        clean = guard.mask_value(value)
        self.masked += clean != value
        return clean


def _guard() -> SecretGuard:
    from treering.app import new_guard  # noqa: PLC0415  (only for private content)

    return new_guard()
