"""What several functions say of one thing, as one answer."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any, Final

from treering.errors import InvalidInput
from treering.model.codec import canonical
from treering.sinks.hook_calls import log
from treering.sinks.hook_names import MODIFYING_HOOKS

BLANK_LINE: Final = "\n\n"


class Merged:
    """What the functions of a modifying hook said so far: for each field, who spoke last.

    Only ``prependContext`` gathers what all of them said, and a ``block`` ends the asking.
    """

    def __init__(self, hook: str) -> None:
        self._hook = hook
        self.fields: dict[str, Any] = {}

    @property
    def is_final(self) -> bool:
        """Whether nobody else is to be asked."""
        return self.fields.get("block") is True

    def add(self, said: Any, label: str) -> None:
        """Take in what the function ``label`` said; what it must not say is ignored and logged."""
        if said is None:
            return
        if not isinstance(said, Mapping):
            self._ignore("what it returned", label)
            return
        for name, expected in MODIFYING_HOOKS[self._hook].items():
            value = said.get(name)
            if value is None:
                continue
            if isinstance(value, expected) and is_json(value):
                self.fields[name] = self._joined(name, value)
            else:
                self._ignore(name, label)

    def _joined(self, name: str, value: Any) -> Any:
        if name != "prependContext":
            return value
        return BLANK_LINE.join(text for text in (self.fields.get(name), value) if text)

    def _ignore(self, what: str, label: str) -> None:
        log.warning("hook %s: %s of %s is ignored: it is of a wrong type", self._hook, what, label)


def next_message(
    said: Any, given: dict[str, Any], message: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the message that ``said`` holds, or ``given`` as it was changed, or ``message``.

    None if that is no message that could be kept.
    """
    found: Any = None
    if isinstance(said, Mapping):
        # A message that is returned bare is meant as one, too.
        bare = "message" not in said and "content" in said
        found = said if bare else said.get("message")
    if found is None:
        found = given
    if found == message:
        return message
    return dict(found) if isinstance(found, Mapping) and is_json(dict(found)) else None


def dismiss(promised: Any) -> None:
    """Let go of something that should have been awaited, so that nothing waits for it."""
    if inspect.iscoroutine(promised):
        promised.close()
    elif callable(getattr(promised, "cancel", None)):
        promised.cancel()


def own(value: Any) -> Any:
    """Return a copy of ``value`` that its taker may change; what cannot be copied is shared."""
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001  (whatever somebody's object does when it is copied)
        return value


def is_json(value: Any) -> bool:
    """Whether ``value`` could be recorded."""
    try:
        canonical(value, "value")
    except InvalidInput:
        return False
    return True


def sound(context: Mapping[Any, Any]) -> dict[str, Any] | None:
    """Return what of ``context`` could be recorded; None if that is nothing."""
    return {name: value for name, value in context.items() if is_json({name: value})} or None
