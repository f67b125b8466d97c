"""Episodic: the append-only log of one Apeira session, and its state as Apeira stores it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from treering.errors import InvalidInput
from treering.formats.apeira.json import (
    BLANKS,
    INTEGER_MAX,
    JsonParseError,
    copy,
    parse,
    stringify,
    text_of,
    units,
    units_text,
)

if TYPE_CHECKING:
    Normalize = Callable[[list[Any]], list[Any]]
    """Prepares a list of items for a model."""


class Episodic:
    """A log of episodes: plain dicts, numbered from 1, never changed.

    Both the episodes passed in and those returned are copies.
    """

    __hash__ = None  # type: ignore[assignment]  # It is mutable.

    def __init__(self, jsonl: str | Sequence[Mapping[str, Any]] | None = None) -> None:
        """Create an empty log, or one from JSONL or from episodes, whose ids are kept.

        Lines that are not episodes are left out; a last episode reports them.
        """
        self._episodes = load_lines(jsonl) if isinstance(jsonl, str) else load_episodes(jsonl or ())
        self._next_id = next_after(max((episode["id"] for episode in self._episodes), default=0))
        self._next_id = max(self._next_id, 1)

    def __repr__(self) -> str:
        return f"Episodic({len(self._episodes)} episodes)"

    def __len__(self) -> int:
        return len(self._episodes)

    def __eq__(self, other: object) -> bool:
        """Return whether both serialize to the same bytes."""
        return isinstance(other, Episodic) and self.to_jsonl() == other.to_jsonl()

    # Writing.

    def append(self, episode: Mapping[str, Any]) -> Episode:
        """Add an episode and return it with its id; its source defaults to ``runtime``."""
        check_episode(episode)
        added = new_episode(episode, self._next_id)
        self._next_id = next_after(self._next_id)
        self._episodes.append(added)
        return _copy_of(added)

    def append_items(
        self, items: Sequence[Any], *, source: str | None = None, turn_id: str | None = None
    ) -> list[Episode]:
        """Add an episode for each of ``items``: messages, calls and outputs."""
        meta = {} if source is None else {"source": source}
        meta |= {} if turn_id is None else {"turnId": turn_id}
        return [
            self.append({"meta": meta, "payload": {"item": item}, "type": "item"}) for item in items
        ]

    # Reading.

    def read(
        self,
        *,
        from_id: float | None = None,
        type: str | Sequence[str] | None = None,  # noqa: A002  (the original's word)
        turn_id: str | None = None,
        limit: float | None = None,
    ) -> list[Episode]:
        """Return the matching episodes, oldest first; the last 100 if no filter is given.

        ``from_id`` is exclusive, so 0 returns the whole log. ``limit`` is applied last and counts
        from the end; a limit that is not a positive number returns nothing.
        """
        episodes = select(
            self._episodes, from_id=from_id, of_types=type, turn_id=turn_id, limit=limit
        )
        return [_copy_of(episode) for episode in episodes]

    def to_jsonl(self) -> str:
        """Return the log as one line per episode, without a final newline."""
        return "\n".join(map(stringify, self._episodes))

    def fork(self) -> Episodic:
        """Return a new log that starts with the same episodes."""
        return Episodic(self._episodes)

    def slice(
        self,
        *,
        start: Mapping[str, Any] | None = None,
        max_tokens: float | None = None,
        reserve_output_tokens: float | None = None,
        turn_id: str | None = None,
        normalize: Normalize | None = None,
        extensions: Sequence[Any] = (),
    ) -> Slice:
        """Return the items for one model call, followed by ``extensions``, which are not stored.

        ``start`` is ``{"type": "beginning"}`` or ``{"type": "last-boundary", "reason": …}``. If the
        last turn used more than the budget, the slice starts at the last checkpoint or interrupt,
        else at the given turn, else it is empty.
        """
        return make_slice(
            self.read(from_id=0),
            start=check_start(start),
            max_tokens=max_tokens,
            reserve_output_tokens=reserve_output_tokens,
            turn_id=turn_id,
            normalize=normalize or normalize_items,
            extensions=extensions,
        )


def _copy_of(episode: Episode) -> Episode:
    copied: Episode = copy(episode)
    return copied


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """The stored state of one session."""

    context: dict[str, Any]
    episodic: Episodic


def load_state(stored: str | Mapping[str, Any]) -> SessionState:
    """Return the state in ``stored``, as text or parsed. Raises InvalidInput otherwise."""
    state = _parsed(stored) if isinstance(stored, str) else stored
    if not isinstance(state, Mapping):
        raise InvalidInput(
            f"a session state is an object, not a {type(state).__name__}",
            hint="give {context, episodic}",
        )
    context, log = state.get("context"), state.get("episodic")
    if log is None and "items" in state:
        raise InvalidInput(
            "the session state has the old format, with items instead of episodic",
            hint='convert them: Episodic().append_items(state["items"], source="user")',
        )
    if not isinstance(log, str):
        raise InvalidInput(
            f"episodic of a session state is JSONL, not {_described(log)}", hint="give its text"
        )
    if not isinstance(context, Mapping):
        raise InvalidInput(
            f"context of a session state is an object, not {_described(context)}",
            hint="give {} if it is empty",
        )
    return SessionState(context=copy(dict(context)), episodic=Episodic(log))


def save_state(state: SessionState) -> str:
    """Return ``state`` as Apeira stores it."""
    return stringify({"context": copy(state.context), "episodic": state.episodic.to_jsonl()})


def storage_key(agent: str, session_id: str) -> str:
    """Return the key under which Apeira stores the state of a session."""
    return stringify([agent, session_id])


def _parsed(text: str) -> Any:
    try:
        return parse(text)
    except JsonParseError as error:
        raise InvalidInput(
            f"the session state is not JSON: {error}", hint="pass the stored text unchanged"
        ) from error


def _described(value: Any) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"


OUTPUT_UNITS_MAX: Final = 8_000
"""Longer tool outputs are cut; in UTF-16 units."""
KEPT_UNITS: Final = 4_000
"""The units kept at either end of a cut output."""
USAGE_EVENT: Final = "turn.usage"
RESTART_REASONS: Final = frozenset({"checkpoint", "interrupt"})
"""Boundaries at which an over-budget log restarts."""
HIDDEN_REASONS: Final = frozenset({"intent", "segment"})
"""Boundaries that are never shown to a model."""
BEGINNING: Final = {"type": "beginning"}
_STARTS: Final = frozenset({"beginning", "last-boundary"})
_USAGE: Final = ("inputTokens", "outputTokens", "totalTokens")
# A tuple, because an item's type may be unhashable.
_TOOL_ITEMS: Final = ("function_call", "function_call_output")
_UNSAID: Final = "undefined"


class SliceExtent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The size of a slice."""

    item_count: int
    truncated: bool
    """Whether the budget removed episodes; those before ``start`` do not count."""


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """Items for one model call."""

    items: list[Any]
    meta: SliceExtent


def make_slice(
    episodes: Sequence[Episode],
    *,
    start: Mapping[str, Any],
    max_tokens: float | None,
    reserve_output_tokens: float | None,
    turn_id: str | None,
    normalize: Normalize,
    extensions: Sequence[Any],
) -> Slice:
    """Return the items of ``episodes`` from ``start`` on, within the budget."""
    started = _from_start(episodes, start)
    at = _restart(started, max_tokens, reserve_output_tokens or 0, turn_id)
    items = normalize([*_items_of(started[at:]), *extensions])
    return Slice(items=items, meta=SliceExtent(item_count=len(items), truncated=at > 0))


def normalize_items(items: Sequence[Any]) -> list[Any]:
    """Return ``items`` without outputs that precede their call, and with long outputs cut.

    A repeated output stays, and so does a call without an output.
    """
    called: set[str] = set()
    normalized: list[Any] = []
    for item in items:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind not in _TOOL_ITEMS:
            normalized.append(item)
            continue
        call_id = item.get("call_id")
        if kind == "function_call":
            called |= {call_id} if isinstance(call_id, str) else set()
            normalized.append(item)
        elif isinstance(call_id, str) and call_id in called:
            normalized.append(_with_short_output(item))
    return normalized


def shorten_output(output: Any) -> Any:
    """Return the head and the tail of a long text, with a mark between; other values unchanged.

    The mark is not counted: a text of 8,001 units gets longer.
    """
    if not isinstance(output, str) or 2 * len(output) <= OUTPUT_UNITS_MAX:
        return output
    whole = units(output)
    length = len(whole) // 2
    if length <= OUTPUT_UNITS_MAX:
        return output
    head, tail = units_text(whole[: 2 * KEPT_UNITS]), units_text(whole[-2 * KEPT_UNITS :])
    return f"{head}\n\n(truncated: {length - 2 * KEPT_UNITS} chars omitted)\n\n{tail}"


def boundary_message(payload: Any) -> dict[str, Any] | None:
    """Return the message that shows a boundary to a model, or None if it is hidden."""
    fields = payload if isinstance(payload, dict) else {}
    reason = fields.get("reason", _UNSAID)
    if isinstance(reason, str) and reason in HIDDEN_REASONS:
        return None
    content = fields.get("content")
    words = text_of(fields.get("title", _UNSAID) if content is None else content)
    mark = text_of(reason)
    return {"content": f"<{mark}>\n{words}\n</{mark}>", "role": "user", "type": "message"}


def check_start(start: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a valid start; the beginning by default. Raises InvalidInput."""
    if start is None:
        return BEGINNING
    if start.get("type") not in _STARTS:
        raise InvalidInput(
            f"a slice cannot start at {start.get('type')!r}",
            hint='use {"type": "beginning"} or {"type": "last-boundary"}',
        )
    return start


def _with_short_output(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "output": shorten_output(item["output"])} if "output" in item else item


def _from_start(episodes: Sequence[Episode], start: Mapping[str, Any]) -> Sequence[Episode]:
    if start["type"] == "beginning":
        return episodes
    reason = start.get("reason")
    wanted = None if reason is None else frozenset({reason})
    return episodes[max(_last_boundary(episodes, wanted), 0) :]


def _restart(
    episodes: Sequence[Episode], max_tokens: float | None, reserved: float, turn_id: str | None
) -> int:
    """Return the index of the first episode within the budget.

    The budget is compared with what the last turn used, so a log is cut one turn late.
    """
    if max_tokens is None or not math.isfinite(max_tokens):
        return 0
    budget = max_tokens - reserved
    if budget <= 0:
        return len(episodes)
    used = _last_input_tokens(episodes)
    if used is None or used <= budget:
        return 0
    boundary = _last_boundary(episodes, RESTART_REASONS)
    if boundary >= 0:
        return boundary
    turns = (at for at, episode in enumerate(episodes) if turn_of(episode) == turn_id)
    return len(episodes) if turn_id is None else next(turns, len(episodes))


def _last_input_tokens(episodes: Sequence[Episode]) -> float | None:
    """Return the input tokens of the latest usage report; None if that report is invalid."""
    for episode in reversed(episodes):
        payload = _payload_of(episode)
        if episode["type"] == "meta" and payload.get("event") == USAGE_EVENT:
            usage = payload.get("data")
            counts = [usage.get(name) for name in _USAGE] if isinstance(usage, dict) else [None]
            is_valid = all(type(count) in {int, float} for count in counts)
            return counts[0] if is_valid else None
    return None


def _last_boundary(episodes: Sequence[Episode], reasons: frozenset[str] | None) -> int:
    """Return the index of the last boundary for one of ``reasons``, or -1."""
    for at in range(len(episodes) - 1, -1, -1):
        if episodes[at]["type"] == "boundary":
            reason = _payload_of(episodes[at]).get("reason")
            if reasons is None or (isinstance(reason, str) and reason in reasons):
                return at
    return -1


def _items_of(episodes: Sequence[Episode]) -> Iterator[Any]:
    for episode in episodes:
        if episode["type"] == "item":
            yield _payload_of(episode).get("item")
        elif episode["type"] == "boundary":
            message = boundary_message(episode["payload"])
            if message is not None:
                yield message


def _payload_of(episode: Episode) -> dict[str, Any]:
    """Return the payload; a list counts as empty, since it has no fields."""
    payload = episode["payload"]
    return payload if isinstance(payload, dict) else {}


Episode: TypeAlias = dict[str, Any]
"""A plain dict of meta, payload, type and id."""

TYPES: Final = ("item", "boundary", "meta")
DEFAULT_SOURCE: Final = "runtime"
READ_DEFAULT: Final = 100
"""The number of episodes that a read without filters returns."""
ERROR_SAMPLES_MAX: Final = 5
"""The number of parse errors kept as text; all are counted."""
PARSE_ERROR: Final = "error.parse"
_INVALID: Final = "Invalid episode."


def load_lines(jsonl: str) -> list[Episode]:
    """Return the episodes of a log, and a last one that reports the invalid lines, if any."""
    episodes: list[Episode] = []
    errors: list[str] = []
    count, upcoming = 0, 1
    for line in jsonl.split("\n"):
        text = line.strip(BLANKS)
        if not text:
            continue
        try:
            episode = parse_episode(text)
        except JsonParseError as error:
            count += 1
            if count <= ERROR_SAMPLES_MAX:
                errors.append(str(error))
            continue
        # Ids always increase: one that is taken or too low becomes the next free id.
        episode["id"] = max(episode["id"], upcoming)
        upcoming = next_after(episode["id"])
        episodes.append(episode)
    if count:
        report = {"count": count, "errors": errors}
        event = {"payload": {"data": report, "event": PARSE_ERROR}, "type": "meta"}
        episodes.append(new_episode({"meta": {}} | event, upcoming))
    return episodes


def parse_episode(line: str) -> Episode:
    """Return the episode in ``line``. Raises JsonParseError if it is not an episode."""
    episode = parse(line)
    if not (
        isinstance(episode, dict)
        and type(episode.get("id")) is int
        and abs(episode["id"]) < INTEGER_MAX
        and episode.get("type") in TYPES
        # JavaScript counts a list as an object, so it passes.
        and isinstance(episode.get("payload"), dict | list)
        and isinstance(episode.get("meta"), dict | list)
    ):
        raise JsonParseError(_INVALID)
    return episode


def load_episodes(episodes: Sequence[Mapping[str, Any]]) -> list[Episode]:
    """Return copies of ``episodes`` with their ids. Raises InvalidInput if one is invalid."""
    copied: list[Episode] = []
    for at, given in enumerate(episodes):
        if not isinstance(given, Mapping):
            raise InvalidInput(
                f"episode {at} is a {type(given).__name__}", hint="give JSONL text, or dicts"
            )
        episode = copy(dict(given))
        copied.append(episode)
        check_episode(episode)
        if type(episode.get("id")) is not int or not isinstance(episode.get("meta"), dict | list):
            raise InvalidInput(
                f"episode {at} lacks an integer id or meta", hint="append it, which sets both"
            )
    return copied


def check_episode(event: Mapping[str, Any]) -> None:
    """Raise InvalidInput unless ``event`` has the type and the payload of an episode."""
    if not isinstance(event, Mapping):
        raise InvalidInput(
            f"an episode is a dict, not a {type(event).__name__}", hint="give its type and payload"
        )
    if event.get("type") not in TYPES:
        raise InvalidInput(
            f"invalid episode type: {event.get('type')!r}", hint=f"use {', '.join(TYPES)}"
        )
    if not isinstance(event.get("payload"), dict | list):
        raise InvalidInput(
            "the payload of an episode is an object", hint='give {"item": …}, or see its type'
        )


def new_episode(event: Mapping[str, Any], episode_id: int) -> Episode:
    """Return ``event`` as the episode with that id; its keys keep their order.

    Only source and turnId of meta are kept, as in the original.
    """
    copied: Episode = copy(dict(event))
    meta = copied.get("meta")
    given = meta if isinstance(meta, dict) else {}
    source = given.get("source")
    new_meta = {"source": DEFAULT_SOURCE if source is None else source}
    if "turnId" in given:
        new_meta["turnId"] = given["turnId"]
    return copied | {"id": episode_id, "meta": new_meta}


def next_after(episode_id: int) -> int:
    """Return the id after ``episode_id``; above 2^53, doubles make it the same id."""
    return int(float(episode_id) + 1)


def select(
    episodes: Sequence[Episode],
    *,
    from_id: float | None = None,
    of_types: str | Sequence[str] | None = None,
    turn_id: str | None = None,
    limit: float | None = None,
) -> list[Episode]:
    """Return the episodes after ``from_id`` that match the filters; the last ``limit`` of them."""
    selected = list(episodes)
    if from_id is not None:
        selected = [episode for episode in selected if episode["id"] > from_id]
    if of_types is not None:
        wanted = {of_types} if isinstance(of_types, str) else set(of_types)
        selected = [episode for episode in selected if episode["type"] in wanted]
    if turn_id is not None:
        selected = [episode for episode in selected if turn_of(episode) == turn_id]
    if limit is not None:
        count = math.trunc(limit) if math.isfinite(limit) else 0
        return selected[-count:] if count > 0 else []
    if from_id is None and of_types is None and turn_id is None:
        return selected[-READ_DEFAULT:]
    return selected


def turn_of(episode: Episode) -> str | None:
    """Return the turn of ``episode``, or None."""
    meta = episode["meta"]
    turn = meta.get("turnId") if isinstance(meta, dict) else None
    return turn if isinstance(turn, str) else None
