"""A request for a page: the caller and its rights, scope and period of the address."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import msgspec

from treering.derive.periods import Period
from treering.errors import InvalidInput, NotFound
from treering.model.queries import PAGE_ITEMS_MAX, items_of
from treering.model.scopes import Scope, parse_scope
from treering.surfaces.pages.wording import clean
from treering.surfaces.server.routes import Request
from treering.surfaces.shared.texts import Mask
from treering.surfaces.shared.times import milliseconds

if TYPE_CHECKING:
    from treering.surfaces.server.grants import Right
    from treering.surfaces.viewer.catalogue import Catalogue, ScopeFigures
    from treering.surfaces.viewer.parts import Markup

PERIODS: Final = {
    "1d": "Today",
    "7d": "7 days",
    "30d": "30 days",
    "90d": "90 days",
    "365d": "A year",
    "all": "All time",
}
"""The periods that the frame offers, as the address spells them."""
_DAY_MS: Final = 86_400_000


class ViewArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The query of every page; a page ignores fields that it does not know."""

    scope: str | None = None
    """All scopes that the token covers, if left out."""
    since: str | None = None
    """A period of ``PERIODS``, or a date."""
    until: str | None = None
    """A date; the day itself is included."""

    def named_scopes(self) -> list[str]:
        """Return the scopes that the address names, for the check of the token."""
        return [self.scope] if self.scope else []


@dataclass(frozen=True)
class PageBody:
    """One page, without the frame around it."""

    title: str
    body: Markup
    modules: tuple[str, ...] = ()
    """Scripts of the page, without ``.js``; each exports ``mount(main, signal)``."""
    styles: tuple[str, ...] = ()
    """Style sheets of the page beside those of the frame, without ``.css``."""
    is_wide: bool = False
    """Whether it takes the whole width."""
    status: int = 200


@dataclass(frozen=True, kw_only=True)
class PageRequest(Request):
    """One request for a page, checked: its token may read the scope of its address."""

    catalogue: Catalogue
    path: str
    query: dict[str, str]
    """As in the address."""
    now_ms: int
    is_read_only: bool = False
    theme: str = "auto"

    @cached_property
    def mask(self) -> Mask:
        """Return the mask for secrets."""
        return Mask()

    def text(self, text: str | None) -> str:
        """Return recorded text fit for a page: no secrets, nothing invisible. Not yet escaped."""
        return clean(text or "", self.mask)

    def may(self, right: Right) -> bool:
        """Return whether the caller may do it here; only then a button shows."""
        return right in self.grant.rights and (right == "read" or not self.is_read_only)

    @cached_property
    def scopes(self) -> list[Scope]:
        """Return the scopes of the page: the one in its address, or all that the token covers."""
        asked = self.arguments.scope
        return [parse_scope(asked)] if asked else self.all_scopes

    @property
    def all_scopes(self) -> list[Scope]:
        """Return all scopes that the token covers, by name."""
        return list(self._updated_ms)

    @cached_property
    def _updated_ms(self) -> dict[Scope, int]:
        """Return when each scope that the token covers was last written to."""
        outlines = items_of(lambda after: self.ledger.scopes(limit=PAGE_ITEMS_MAX, after=after))
        return {
            Scope(outline.scope): outline.updated_ms
            for outline in outlines
            if self.grant.covers(outline.scope)
        }

    def figures(self, since_ms: int | None = None) -> list[ScopeFigures]:
        """Return the figures of the page's scopes, from the start of its period if not earlier."""
        first = self.period.since_ms if since_ms is None else since_ms
        return self.catalogue.of(self.scopes, first, self.now_ms)

    @property
    def the_scope(self) -> Scope:
        """Return the scope of the address. Raise NotFound without one."""
        if not self.arguments.scope:
            raise NotFound("the address names no scope", hint="add ?scope=… to it")
        return parse_scope(self.arguments.scope)

    @cached_property
    def since(self) -> str:
        """Return the period of the address; else the shortest with events, a week at least."""
        if self.arguments.since:
            return str(self.arguments.since)
        latest = max((self._updated_ms.get(scope, 0) for scope in self.scopes), default=0)
        for name in ("7d", "30d", "90d", "365d"):
            if latest >= self.now_ms - int(name[:-1]) * _DAY_MS:
                return name
        return "all"

    @cached_property
    def period(self) -> Period:
        """Return the period of the page. Raise InvalidInput."""
        since_ms, until_ms = 1, self.now_ms
        if self.since != "all":
            since_ms = _moment(self.since, self.now_ms)
        if self.arguments.until:
            until_ms = _moment(self.arguments.until, self.now_ms) + _DAY_MS - 1
        if since_ms > until_ms:
            raise InvalidInput("the period ends before it begins", hint="swap since and until")
        return Period(since_ms=since_ms, until_ms=until_ms)

    def url(self, path: str | None = None, /, **changes: Any) -> str:
        """Return an address in the same scope and period; None removes a part of it.

        Without ``path`` it is this page, with the rest of its query.
        """
        carried = ("scope", "since", "until")
        query: dict[str, Any] = {
            name: value for name, value in self.query.items() if path is None or name in carried
        }
        if path is None:
            query.pop("after", None)
        query |= changes
        given = {name: value for name, value in query.items() if value is not None}
        return f"{path or self.path}{'?' if given else ''}{urlencode(given)}"


def session_address(scope: str, session_id: str, part: str = "", /, **query: Any) -> str:
    """Return the path of a session, of a ``part`` of it, or of one ``event`` in it."""
    stated = {name: value for name, value in query.items() if value is not None}
    return f"/sessions/{quote(session_id, safe='')}{part}?{urlencode({'scope': scope, **stated})}"


def _moment(text: str, now_ms: int) -> int:
    moment = milliseconds(text, now_ms=now_ms)
    if moment is None:
        raise InvalidInput(
            f"{text[:60]} is not a time", hint="write 7d, 2026-03-05, or choose a period above"
        )
    return max(moment, 1)
