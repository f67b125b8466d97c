"""HTML that content cannot break out of: values are escaped, unless they are HTML already."""

from __future__ import annotations

from html import escape
from typing import Any, LiteralString, Self


class Markup(str):
    """HTML. Only ``html`` and ``joined`` make it, from templates in the code."""

    __slots__ = ()

    def __html__(self) -> Self:
        """Return itself: it is HTML already."""
        return self


NOTHING = Markup()


def html(template: LiteralString, *values: Any, **named: Any) -> Markup:
    """Return ``template`` with values in its braces: escaped, Markup as it is, None as nothing.

    Several in a list or tuple follow each other. Attributes must be quoted in the template.
    """
    filled = template.format(
        *(_safe(value) for value in values),
        **{name: _safe(value) for name, value in named.items()},
    )
    return Markup(filled)


def joined(*parts: Any) -> Markup:
    """Return parts that follow each other; each is escaped unless it is Markup."""
    return _safe(parts)


def _safe(value: Any) -> Markup:
    if isinstance(value, Markup):
        return value
    if value is None or value is False:
        return NOTHING
    if isinstance(value, list | tuple):
        return Markup("".join(map(_safe, value)))
    return Markup(escape(str(value)))
