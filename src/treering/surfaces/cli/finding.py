"""Short ids: what people read, and may type, in place of a long id.

A short id is the shortest beginning of an id, or its shortest end, that no other id of the scope
begins or ends with; it has eight characters or more. UUIDs of version 7 that were made in the same
minute share their beginnings, so theirs are ends:

    01997e76-d124-7592-9cac-2ec05abbca08    5abbca08
    01997e76-d124-7da3-8c20-c736db82a7c5    db82a7c5

An id that extends another one, as those of subagents and forks do, does not make it ambiguous.

No index has the ends of event ids. Where many events share a beginning, their short ids have both:

    01997e76-d124-7592-9cac-2ec05abbca08    01997e76..ca08
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from treering.errors import NotFound, TreeringError
from treering.lazy import LazyModule, lazy_pattern
from treering.model.fields import COUNT_MAX
from treering.model.queries import PAGE_ITEMS_MAX, items_of
from treering.model.scopes import Scope
from treering.model.sessions import SESSION_STATES
from treering.surfaces.cli.commands import invocation
from treering.surfaces.cli.declare import known_or_all, require
from treering.surfaces.shared.session_commands import scope_flag, show_command
from treering.surfaces.shared.texts import scope_names

if TYPE_CHECKING:
    import difflib
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.ledger.sessions import Session
    from treering.memory.memory import Memory
    from treering.model import memories
    from treering.model.memories import Fact
    from treering.model.tools import ToolRecord
    from treering.surfaces.cli.search import FoundSession
    from treering.surfaces.shared.file_touches import Touch
else:
    difflib = LazyModule("difflib")
    memories = LazyModule("treering.model.memories")

WHOLE_CHARACTERS_MAX: Final = 24
"""Ids that are no longer than this are shown whole: they are names, or short enough."""
SHOWN_CHARACTERS_MIN: Final = 8
TYPED_CHARACTERS_MIN: Final = 4
EXTENSIONS_MAX: Final = 100
"""Subagents and forks that an id may have and still be shown short."""
_EXTENDING: Final = ("/", "-fork-")
"""What comes after an id in those of its subagents and its forks."""
_NAMED_MAX: Final = 3

Record = TypeVar("Record", bound=msgspec.Struct)

_LAST: Final = "\U0010ffff"
_WORD: Final = lazy_pattern(r"[^\W_]+")
NEIGHBOURS_MAX: Final = 1_000
"""Ids with the same beginning that are compared before a longer beginning is tried."""
MATCHES_MAX: Final = 10_000
"""Events that are counted before an ambiguous id is refused."""
_BEGINNINGS: Final = (SHOWN_CHARACTERS_MIN, 13)
"""What UUIDs of version 7 share that were made in the same 65 seconds, or millisecond."""
_TIMED_ID: Final = lazy_pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""A UUID of version 7."""
_GAP: Final = ".."
"""Between the beginning and the end of an id."""
RUNS_MAX: Final = 100_000
"""How many runs are searched for a short id: the latest ones."""
SHORT_RUNS_MAX: Final = 5_000
"""Runs that are compared to shorten ids, which takes a third of a second."""
SAME_ID_ITEMS: Final = 20
"""How many calls with the same id are shown: the last ones."""
CALL_PAGES_MAX: Final = 20
"""How far back calls are searched where no index helps: 20,000 of them."""
SHORT_PAGES_MAX: Final = 5
"""Pages of calls that are compared to shorten ids: 5,000 calls, a third of a second."""
_PAGE: Final = 1_000
_Place = tuple[str, str]
"""A session, and the id of a call in it."""
NEAR_AMONG: Final = 500
"""Sessions among which one is suggested: those written to last."""
_SESSION_STATES: Final[Any] = SESSION_STATES
FACT_PAGES_MAX: Final = 20
"""Pages of facts that are read: the newest 20,000 facts."""


class ShortIds:
    """All ids of one sort in a scope, shortened and found again."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = sorted(set(ids))
        self._reversed = sorted(text[::-1] for text in self._ids)
        self._short: dict[str, str] = {}

    def shown(self, whole: str) -> str:
        """Return the short id of ``whole``; ``whole`` itself if it is short, or not known here."""
        if whole not in self._short:
            self._short[whole] = self._shortened(whole)
        return self._short[whole]

    def within(self, record: Record, *fields: str) -> Record:
        """Return ``record`` with short ids in these fields, where they have any."""
        whole = {field: getattr(record, field) for field in fields}
        short = {
            field: self.shown(short_id) for field, short_id in whole.items() if short_id is not None
        }
        changes: dict[str, Any] = {
            field: short_id for field, short_id in short.items() if short_id != whole[field]
        }
        return msgspec.structs.replace(record, **changes) if changes else record

    def knows(self, whole: str) -> bool:
        """Whether ``whole`` is one of the ids."""
        return any(self._ids[at] == whole for at in _range(self._ids, whole)[:1])

    def _shortened(self, whole: str) -> str:
        is_name = len(whole) <= WHOLE_CHARACTERS_MAX or not any(map(str.isdigit, whole))
        if is_name or not self.knows(whole):
            return whole
        # The end of an id that begins with its time stays its own when the next ones come.
        ends_first = bool(_TIMED_ID.fullmatch(whole))
        for length in range(SHOWN_CHARACTERS_MIN, len(whole)):
            parts = (whole[:length], length), (whole[-length:], len(whole) - length)
            for text, cut in reversed(parts) if ends_first else parts:
                # What begins or ends with a dash reads badly, or as an option.
                is_readable = text[0].isalnum() and text[-1].isalnum() and not _in_word(whole, cut)
                if is_readable and self._means_only(text, whole):
                    return text
        return whole

    def _means_only(self, text: str, whole: str) -> bool:
        # Counted first: thousands of ids may share a beginning.
        begun, ended = _range(self._ids, text), _range(self._reversed, text[::-1])
        if len(begun) + len(ended) > EXTENSIONS_MAX:
            return False
        return self.matching(text) == [whole]

    def matching(self, text: str) -> list[str]:
        """Return the ids that ``text`` may mean: itself, else those that begin or end with it.

        ``0199..ca08`` means those that begin with one part and end with the other.
        """
        begun = [self._ids[at] for at in _range(self._ids, text)]
        if begun and begun[0] == text:
            return [text]
        ended = [self._reversed[at][::-1] for at in _range(self._reversed, text[::-1])]
        if not begun and not ended and _GAP in text:
            beginning, end = text.split(_GAP, 1)
            same = (self._ids[at] for at in _range(self._ids, beginning))
            return [whole for whole in same if whole.endswith(end)]
        matches = dict.fromkeys([*begun, *ended])
        return [
            whole for whole in matches if not any(other in matches for other in _extended_by(whole))
        ]

    def find(self, text: str, noun: str) -> str | None:
        """Return the id that ``text`` is, or is short for; None if there is none.

        Raise NotFound if several match: none of them was named.
        """
        matches = self.matching(text)
        if not matches or (matches != [text] and len(text) < TYPED_CHARACTERS_MIN):
            return None
        if len(matches) > 1:
            raise NotFound(
                f"{text} is ambiguous: {len(matches)} {noun}s match",
                hint=f"type more of the id: {some_of(matches)}",
            )
        return matches[0]


def for_people(ids: Callable[[], Iterable[str]]) -> ShortIds:
    """Return the ids to shorten what people read; none of them, for a receipt has whole ids."""
    return ShortIds(() if invocation().as_json else ids())


def some_of(names: Sequence[str]) -> str:
    """Return the first few of ``names``, and whether there are more."""
    return ", ".join([*names[:_NAMED_MAX], *(["…"] if len(names) > _NAMED_MAX else [])])


def _in_word(whole: str, cut: int) -> bool:
    """Return whether ``cut`` is within a word: between letters, without a digit beside them."""
    after = _WORD.match(whole, cut)
    before = _WORD.match(whole[cut - 1 :: -1])
    word = (before[0] if before else "") + (after[0] if after else "")
    return bool(before and after) and word.isalpha()


def _range(ids: Sequence[str], text: str) -> range:
    """Return where the ids are that begin with ``text``."""
    return range(bisect_left(ids, text), bisect_right(ids, text + _LAST))


def _extended_by(whole: str) -> Iterator[str]:
    """Yield the ids that ``whole`` would extend."""
    for mark in _EXTENDING:
        at = whole.find(mark)
        while at > 0:
            yield whole[:at]
            at = whole.find(mark, at + 1)


def find_event(ledger: Ledger, scope: Scope, text: str) -> str:
    """Return the id of the event that ``text`` is, or is short for.

    Raise NotFound if there is none, or if several match.
    """
    name = require(text, "event_id")
    if name in ledger.find_ids(scope, [name]):
        return name
    whole = ShortIds(_candidates(ledger, scope, name)).find(name, "event")
    if whole is None:
        raise NotFound(
            f"no event {name} in scope {scope}",
            hint=f"treering search WORDS --scope {scope} shows the ids of events",
        )
    return whole


def short_events(ledger: Ledger, scope: Scope) -> ShortIds:
    """Return the ids of events to show them to people; use it while the ledger is open."""
    return ShortIds(()) if invocation().as_json else _ShortEventIds(ledger, scope)


class _ShortEventIds(ShortIds):
    """Ids of events, each compared with its neighbours only: a scope may have millions.

    No index has the names that callers gave to events; they are shown whole.
    """

    def __init__(self, ledger: Ledger, scope: Scope) -> None:
        super().__init__(())
        self._ledger = ledger
        self._scope = scope
        self._neighbours: dict[str, list[str]] = {}

    def _shortened(self, whole: str) -> str:
        if len(whole) <= WHOLE_CHARACTERS_MAX:
            return whole
        for length in _BEGINNINGS:
            same = self._starting(whole[:length])
            if len(same) < NEIGHBOURS_MAX:
                return _shortest(whole, length, same) if whole in same else whole
        return whole

    def _starting(self, beginning: str) -> list[str]:
        if beginning not in self._neighbours:
            self._neighbours[beginning] = self._ledger.event_ids(
                self._scope, beginning, limit=NEIGHBOURS_MAX
            )
        return self._neighbours[beginning]


def _shortest(whole: str, shared: int, same: list[str]) -> str:
    """Return the shortest beginning of ``whole``, or beginning and end, that no other id has.

    ``same`` has all ids that begin with the same ``shared`` characters.
    """
    for length in range(shared, _BEGINNINGS[-1] + 1):
        # A dash at the end reads badly.
        if whole[length - 1] != "-" and sum(id_.startswith(whole[:length]) for id_ in same) == 1:
            return whole[:length]
    for length in range(TYPED_CHARACTERS_MIN, len(whole) - shared):
        end = whole[-length:]
        if end[0] != "-" and sum(id_.endswith(end) for id_ in same) == 1:
            return whole[:shared] + _GAP + end
    return whole


def _candidates(ledger: Ledger, scope: Scope, text: str) -> Iterator[str]:
    """Return the ids that ``text`` may be short for.

    Eight characters are as many as we show, and the index finds them. Fewer may begin the name
    that somebody gave to an event, and no index has names or ends of ids: all are compared.
    """
    if len(text) < TYPED_CHARACTERS_MIN:
        return
    if len(text) >= SHOWN_CHARACTERS_MIN:
        begun = ledger.event_ids(scope, text.split(_GAP, 1)[0], limit=MATCHES_MAX)
        if begun:
            yield from begun
            return
    headers = items_of(lambda after: ledger.headers(scope, first=PAGE_ITEMS_MAX, after=after))
    for header in headers:
        if header.event_id.startswith(text) or header.event_id.endswith(text):
            yield header.event_id


def find_run_id(
    ledger: Ledger,
    scope: Scope,
    text: str,
    *,
    session_id: str | None = None,
    runs_max: int = RUNS_MAX,
) -> str:
    """Return the id of the run with this id or short id. Raise NotFound unless there is one."""
    from treering.ledger.runs import is_dated, unknown_run  # noqa: PLC0415  (not for --help)

    if is_dated(text):
        try:
            return ledger.run(scope, text, session_id=session_id).run_id
        except NotFound:
            pass  # It may still be the beginning of an id.
    ids, is_cut = _latest_ids(ledger, scope, session_id, runs_max=runs_max, until=text)
    run_id = ShortIds(ids).find(text, "run")
    if run_id is None:
        raise unknown_run(scope, text, session_id, is_cut=is_cut)
    return run_id


def short_runs(ledger: Ledger, scope: Scope, *, runs_max: int = SHORT_RUNS_MAX) -> ShortIds:
    """Return the ids of the runs of a scope, to show people; none if there are too many."""

    def ids() -> list[str]:
        latest, is_cut = _latest_ids(ledger, scope, None, runs_max=runs_max)
        return [] if is_cut else latest

    return for_people(ids)


def _latest_ids(
    ledger: Ledger, scope: Scope, session_id: str | None, *, runs_max: int, until: str | None = None
) -> tuple[list[str], bool]:
    """Return the ids of the latest runs, up to ``until``, and whether there are earlier ones."""
    ids: list[str] = []
    cursor = None
    while len(ids) < runs_max:
        first = min(runs_max - len(ids), PAGE_ITEMS_MAX)
        page = ledger.run_ids(scope, session_id=session_id, limit=first, after=cursor)
        if until in page.items:
            return [until or ""], False
        ids += page.items
        cursor = page.next_cursor
        if cursor is None:
            return ids, False
    return ids, True


def find_calls(
    ledger: Ledger,
    scope: Scope,
    text: str,
    *,
    session_id: str | None = None,
    progress: Callable[[int], None] | None = None,
    pages_max: int = CALL_PAGES_MAX,
) -> list[ToolRecord]:
    """Return the calls of one session with this id or short id.

    Raise NotFound if there is none, or if several ids or sessions match.
    """
    if session_id is not None and (records := _exact(ledger, scope, (session_id, text), progress)):
        return records
    places, is_cut = _places(
        ledger, scope, session_id=session_id, progress=progress, pages_max=pages_max
    )
    call_id = ShortIds(places).find(text, "call")
    if call_id is None:
        raise _unknown_call(scope, text, session_id, is_cut=is_cut)
    sessions = list(places[call_id])
    if len(sessions) > 1:
        raise NotFound(
            f"{len(sessions)} sessions have a call {call_id}",
            hint=f"name one of them with --session: {some_of(sessions)}",
        )
    return _exact(ledger, scope, (sessions[0], call_id), progress)


def short_calls(
    ledger: Ledger, scope: Scope, *, progress: Callable[[int], None] | None = None
) -> ShortIds:
    """Return the ids of the calls of a scope, to show people; none if there are too many."""

    def ids() -> Iterable[str]:
        sessions_by_call, is_cut = _places(
            ledger, scope, progress=progress, pages_max=SHORT_PAGES_MAX
        )
        return () if is_cut else sessions_by_call

    return for_people(ids)


def run_named(
    ledger: Ledger,
    scope: Scope,
    text: str,
    *,
    session_id: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> str:
    """Return the id of the run that ``text`` is, or is short for. Raise as ``find_run_id`` does."""
    # Runs of other programs may have calls and no start.
    page = ledger.tool_calls(scope, session_id=session_id, run_id=text, first=1, progress=progress)
    return text if page.items else find_run_id(ledger, scope, text, session_id=session_id)


def _exact(ledger: Ledger, scope: Scope, place: _Place, progress: Any) -> list[ToolRecord]:
    session_id, call_id = place
    return ledger.tool_calls(
        scope, session_id=session_id, call_id=call_id, last=SAME_ID_ITEMS, progress=progress
    ).items


def _places(
    ledger: Ledger,
    scope: Scope,
    *,
    session_id: str | None = None,
    progress: Callable[[int], None] | None = None,
    pages_max: int = CALL_PAGES_MAX,
) -> tuple[dict[str, dict[str, None]], bool]:
    """Return the sessions of each call id, and whether there are more calls."""
    sessions_by_call: dict[str, dict[str, None]] = {}
    cursor = None
    for _ in range(pages_max):
        page = ledger.tool_calls(
            scope, session_id=session_id, last=_PAGE, after=cursor, progress=progress
        )
        for record in page.items:
            if record.call_id is not None:
                sessions_by_call.setdefault(record.call_id, {})[record.session_id] = None
        cursor = page.next_cursor
        if cursor is None:
            break
    return sessions_by_call, cursor is not None


def _unknown_call(scope: Scope, text: str, session_id: str | None, *, is_cut: bool) -> NotFound:
    of = f"session {session_id} of scope {scope}" if session_id else f"scope {scope}"
    narrowed = f" --session {session_id}" if session_id else ""
    listing = f"treering tools list --scope {scope}{narrowed} shows the calls"
    if is_cut:
        return NotFound(
            f"no call {text} among the latest of {of}; earlier ones were not searched",
            hint="give the whole id and its session, with --session" if session_id is None
            else "give the whole id",
        )  # fmt: skip
    short = f"{TYPED_CHARACTERS_MIN} characters of an id are enough if no other call matches"
    return NotFound(f"no call {text} in {of}", hint=f"{listing} except redacted ones; {short}")


def find_session(ledger: Ledger, scope: Scope, text: str) -> str:
    """Return the id of the session that ``text`` is, or is short for.

    Raise NotFound if there is none, or if several match.
    """
    name = _session_name(text)
    whole = _whole(ledger, scope, name)
    if whole is None:
        raise _unknown_session(ledger, scope, name)
    return whole


def find_session_anywhere(ledger: Ledger, text: str) -> tuple[Scope, str]:
    """Return scope and id of the session that ``text`` is, or is short for, in any scope.

    Raise NotFound if there is none, or if several match.
    """
    name = _session_name(text)
    matches = _whole_anywhere(ledger, name)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise NotFound(
            f"no session {name} in any scope", hint="treering sessions list --all-scopes shows them"
        )
    raise NotFound(
        f"{len(matches)} scopes have a session {name}",
        hint=f"name one with --scope: {some_of([scope for scope, _ in matches])}",
    )


def narrow_to_session(ledger: Ledger, scope: Scope, text: str | None) -> str | None:
    """Return the same for an option; None if it was not given."""
    return None if text is None else find_session(ledger, scope, text)


def session_or_text(ledger: Ledger, scope: Scope, text: str) -> str:
    """Return the same, but ``text`` itself if there is no such session.

    The episodes commands have nothing to say of an unknown session, and say so without an error.
    """
    return _whole(ledger, scope, text) or text


def short_sessions(ledger: Ledger, scope: Scope) -> ShortIds:
    """Return the ids of the sessions of a scope, to show them to people."""
    return for_people(lambda: ledger.session_ids(scope))


def open_to_read(ledger: Ledger, scope: Scope | None, text: str) -> Session:
    """Return a handle on the same, in any scope if nothing is recorded of the folder's project."""
    scope = known_or_all(ledger, scope)
    return open_session(ledger, *((scope, text) if scope else find_session_anywhere(ledger, text)))


def open_session(ledger: Ledger, scope: Scope, text: str) -> Session:
    """Return a handle on the session that is named, as its agent and its user."""
    from treering.ledger.records import AGENT  # noqa: PLC0415  (not for --help)

    name = find_session(ledger, scope, text)
    outline = ledger.session(name, scope=scope, agent=AGENT).outline()
    return ledger.session(name, scope=scope, agent=outline.agent or AGENT, user=outline.user)


def _session_name(text: str) -> str:
    return require(text, "session", hint="name the session before the options")


def _whole_anywhere(ledger: Ledger, name: str) -> list[tuple[Scope, str]]:
    # A whole id is not short for one of another scope that begins with it.
    scopes = [Scope(scope) for scope in scope_names(ledger)]
    return [(scope, name) for scope in scopes if _is_session(ledger, scope, name)] or [
        (scope, whole) for scope in scopes if (whole := _lengthened(ledger, scope, name))
    ]


def _whole(ledger: Ledger, scope: Scope, name: str) -> str | None:
    return name if _is_session(ledger, scope, name) else _lengthened(ledger, scope, name)


def _is_session(ledger: Ledger, scope: Scope, name: str) -> bool:
    return bool(ledger.headers(scope, session_id=name, last=1).items)


def _lengthened(ledger: Ledger, scope: Scope, name: str) -> str | None:
    return ShortIds(ledger.session_ids(scope)).find(name, "session")


def _unknown_session(ledger: Ledger, scope: Scope, text: str) -> NotFound:
    latest = [
        outline.session_id
        for outline in ledger.sessions(scope, state=_SESSION_STATES, limit=NEAR_AMONG).items
    ]
    begun = [name for name in latest if name.startswith(text)]
    near = begun[:2] or difflib.get_close_matches(text, latest, n=2)
    message = f"no session {text} in scope {scope}" if latest else f"scope {scope} has no sessions"
    if near:
        return NotFound(message, hint=f"did you mean {' or '.join(near)}?")
    # Who is held to one scope may not look into others.
    with contextlib.suppress(TreeringError):
        for other, _ in _whole_anywhere(ledger, text):
            return NotFound(message, hint=f"scope {other} has it: add --scope {other}")
    if not latest:
        return NotFound(message, hint="check its name, and --db")
    return NotFound(message, hint=f"treering sessions list --scope {scope} shows them")


def find_fact(memory: Memory, text: str) -> Fact:
    """Return the fact with this id or short id. Raise NotFound if none, or several, match."""
    name = require(text, "fact", hint="name the fact before the options")
    with contextlib.suppress(NotFound):
        return memory.fact(name)
    whole = ShortIds(_every_fact_id(memory)).find(name, "fact")
    if whole is None:
        raise NotFound(
            f"no fact {name} in scope {memory.scope}",
            hint=f"treering facts list {scope_flag(memory.scope)} --state all shows them;"
            f" {TYPED_CHARACTERS_MIN} characters of an id are enough if no other fact matches",
        )
    return memory.fact(whole)


def short_facts(memory: Memory) -> ShortIds:
    """Return the ids of all facts of a scope, to show them to people."""
    return for_people(lambda: _every_fact_id(memory))


def every_fact(memory: Memory) -> Iterator[Fact]:
    """Return all facts of a scope, whatever became of them, the newest first."""
    states: Any = memories.FACT_STATES
    return items_of(
        lambda after: memory.facts(state=states, limit=PAGE_ITEMS_MAX, after=after),
        pages_max=FACT_PAGES_MAX,
    )


def _every_fact_id(memory: Memory) -> list[str]:
    return memory.fact_ids("", limit=COUNT_MAX)


Leading = TypeVar("Leading", "FoundSession", "Touch")
"""What has the id of a session, and the command that shows it."""


def with_short_ids(ledger: Ledger, scope: Scope, sessions: Sequence[Leading]) -> list[Leading]:
    """Return what leads to sessions, with their short ids, for people."""
    short = short_sessions(ledger, scope)
    ids = [short.shown(session.session_id) for session in sessions]
    return [
        msgspec.structs.replace(session, session_id=name, show=show_command(scope, name))
        for session, name in zip(sessions, ids, strict=True)
    ]
