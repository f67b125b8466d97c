"""Parse, check and select episodes.

Pure functions over plain dicts. They reproduce Apeira's own behaviour, including its oddities.
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
