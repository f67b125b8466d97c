"""What the search indexes of all databases share: limits, and marks.

Marks are the filters of a search (kind, agent, session, tool, time) as words of an event. Each
begins with an underscore, which no word contains. Names are hashed, so that marks are short.
"""

from __future__ import annotations

from datetime import date, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from treering.model.search_words import words_in

if TYPE_CHECKING:
    from treering.derive.search_texts import SearchText
    from treering.model.events import Header
    from treering.model.search_queries import Narrowing

CANDIDATES_MAX: Final = 1_000
"""How many of the newest matches are ranked."""
WORD_MATCHES_MAX: Final = 20_000
"""How many of the newest matches of one word are counted when some of the words suffice."""
SCANNED_MAX: Final = 8_000
"""How many matches are read when many of them do not count."""
ANY: Final = "_e"
"""Every event has this mark."""
_ONE: Final = timedelta(days=1)
_DAY_MS: Final = 86_400_000
_KEPT_MAX: Final = 4_096
_LAST_DAY: Final = date(2100, 12, 31)
"""Later events count as of this day, so that the list of years ends."""
_LETTERS: Final = {"kind": "k", "agent": "a", "session": "s", "tool": "t"}


def marks_of(event: Header, text: SearchText) -> str:
    """Return the marks of an event, separated by spaces."""
    day = event.ts_ms // _DAY_MS
    return _marks(event.kind, event.agent_id, event.session_id, text.tool, day)


@lru_cache(_KEPT_MAX)
def _marks(kind: str, agent_id: str, session_id: str, tool: str | None, days: int) -> str:
    """Return the marks of the events that have these in common: in a log, many in a row."""
    marks = [
        ANY,
        _mark("kind", kind),
        _mark("agent", agent_id),
        _mark("session", session_id),
        _day_marks(days),
    ]
    if tool is not None:
        marks.append(_mark("tool", tool))
    return " ".join(marks)


@lru_cache(_KEPT_MAX)
def _day_marks(days: int) -> str:
    day = _day(days * _DAY_MS)
    return f"_y{day:%Y} _m{day:%Y%m} _d{day:%Y%m%d}"


def marks_asked(narrowing: Narrowing) -> list[str]:
    """Return the marks of which an event must have one; files are words."""
    return [_mark(narrowing.operator, value) for value in narrowing.values]


def file_words(path: str) -> list[str]:
    """Return a path as its words; a query may leave out the first ones."""
    return [token.word for token in words_in(path)]


def time_marks(since_ms: int | None, before_ms: int | None) -> list[str]:
    """Return marks of which all events within these times have one, and few others have.

    Whole years first, then months, then days.
    """
    if since_ms is None and before_ms is None:
        return []
    day = _day(0 if since_ms is None else since_ms)
    end = _LAST_DAY if before_ms is None else _day(before_ms - 1)
    marks = []
    while day <= end:
        year, month = date(day.year + 1, 1, 1), _next_month(day)
        if (day.month, day.day) == (1, 1) and year - _ONE <= end:
            marks.append(f"_y{day:%Y}")
            day = year
        elif day.day == 1 and month - _ONE <= end:
            marks.append(f"_m{day:%Y%m}")
            day = month
        else:
            marks.append(f"_d{day:%Y%m%d}")
            day += _ONE
    return marks


@lru_cache(_KEPT_MAX)
def _mark(operator: str, value: str) -> str:
    spelt = value.casefold() if operator == "tool" else value
    return f"_{_LETTERS[operator]}{blake2b(spelt.encode(), digest_size=6).hexdigest()}"


def _day(ts_ms: int) -> date:
    return min(date(1970, 1, 1) + timedelta(days=min(ts_ms // _DAY_MS, 10**5)), _LAST_DAY)


def _next_month(day: date) -> date:
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)
