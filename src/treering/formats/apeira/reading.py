"""Reading a log of episodes: its lines, what is asked of it, and what new episodes look like.

Pure functions over plain dicts. They do what Apeira's own code does, its oddities included.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from treering.errors import InvalidInput
from treering.formats.apeira.json import BLANKS, INTEGER_MAX, JsonParseError, copy, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

Episode: TypeAlias = dict[str, Any]
"""A plain dict of meta, payload, type and id."""

TYPES: Final = ("item", "boundary", "meta")
DEFAULT_SOURCE: Final = "runtime"
READ_DEFAULT: Final = 100
"""How many episodes an unqualified read gives."""
ERROR_SAMPLES_MAX: Final = 5
"""How many parse errors are kept in words; all are counted."""
PARSE_ERROR: Final = "error.parse"
_INVALID: Final = "Invalid episode."


def load_lines(jsonl: str) -> list[Episode]:
    """Return the episodes of a log, and behind them one that tells of lines that are none."""
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
        # Ids only ever rise: one that is taken or too low becomes the next.
        episode["id"] = max(episode["id"], upcoming)
        upcoming = next_after(episode["id"])
        episodes.append(episode)
    if count:
        told = {"count": count, "errors": errors}
        event = {"payload": {"data": told, "event": PARSE_ERROR}, "type": "meta"}
        episodes.append(new_episode({"meta": {}} | event, upcoming))
    return episodes


def parse_episode(line: str) -> Episode:
    """Return the episode that ``line`` holds. Raises JsonParseError if it holds none."""
    found = parse(line)
    if not (
        isinstance(found, dict)
        and type(found.get("id")) is int
        and abs(found["id"]) < INTEGER_MAX
        and found.get("type") in TYPES
        # A list is an object to JavaScript, and passes.
        and isinstance(found.get("payload"), dict | list)
        and isinstance(found.get("meta"), dict | list)
    ):
        raise JsonParseError(_INVALID)
    return found


def load_episodes(episodes: Sequence[Mapping[str, Any]]) -> list[Episode]:
    """Return copies of ``episodes``, ids as they are. Raises InvalidInput if one has none."""
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
                f"episode {at} has no whole id or no meta", hint="append it to have both given"
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
    """Return ``event`` as the episode of that id; its keys keep their order.

    Of meta only source and turnId are taken over, as in the original.
    """
    copied: Episode = copy(dict(event))
    given = copied.get("meta")
    stated = given if isinstance(given, dict) else {}
    source = stated.get("source")
    kept = {"source": DEFAULT_SOURCE if source is None else source}
    if "turnId" in stated:
        kept["turnId"] = stated["turnId"]
    return copied | {"id": episode_id, "meta": kept}


def next_after(episode_id: int) -> int:
    """Return the id behind ``episode_id``; as doubles go, it stays the same beyond 2^53."""
    return int(float(episode_id) + 1)


def select(
    episodes: Sequence[Episode],
    *,
    from_id: float | None = None,
    of_types: str | Sequence[str] | None = None,
    turn_id: str | None = None,
    limit: float | None = None,
) -> list[Episode]:
    """Return the episodes behind ``from_id``, of these types and that turn; the last ``limit``."""
    found = list(episodes)
    if from_id is not None:
        found = [episode for episode in found if episode["id"] > from_id]
    if of_types is not None:
        wanted = {of_types} if isinstance(of_types, str) else set(of_types)
        found = [episode for episode in found if episode["type"] in wanted]
    if turn_id is not None:
        found = [episode for episode in found if turn_of(episode) == turn_id]
    if limit is not None:
        count = math.trunc(limit) if math.isfinite(limit) else 0
        return found[-count:] if count > 0 else []
    if from_id is None and of_types is None and turn_id is None:
        return found[-READ_DEFAULT:]
    return found


def turn_of(episode: Episode) -> str | None:
    """Return the turn of ``episode``, if it names one."""
    told = episode["meta"]
    turn = told.get("turnId") if isinstance(told, dict) else None
    return turn if isinstance(turn, str) else None
