"""The state of a session as Apeira stores it: its context, and its log as JSONL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from treering.errors import InvalidInput
from treering.formats.apeira.episodic import Episodic
from treering.formats.apeira.json import JsonParseError, copy, parse, stringify


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
