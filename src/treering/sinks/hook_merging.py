"""Merge the results of several hook functions."""

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
    """The merged results of a modifying hook: the last function wins for each field.

    ``prependContext`` is joined from all of them, and ``block`` ends the calls.
    """

    def __init__(self, hook: str) -> None:
        self._hook = hook
        self.fields: dict[str, Any] = {}

    @property
    def is_final(self) -> bool:
        """Return whether no other function needs to be called."""
        return self.fields.get("block") is True

    def add(self, result: Any, label: str) -> None:
        """Merge the result of the function ``label``; invalid fields are ignored and logged."""
        if result is None:
            return
        if not isinstance(result, Mapping):
            self._ignore("the result", label)
            return
        for name, expected in MODIFYING_HOOKS[self._hook].items():
            value = result.get(name)
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
        log.warning("hook %s: %s of %s is ignored: it has a wrong type", self._hook, what, label)


def next_message(
    result: Any, given: dict[str, Any], message: dict[str, Any]
) -> dict[str, Any] | None:
    """Return the message in ``result``, else ``given`` as it was modified, else ``message``.

    Return None if that is not a message that can be stored.
    """
    returned: Any = None
    if isinstance(result, Mapping):
        # A message that is returned directly counts, too.
        bare = "message" not in result and "content" in result
        returned = result if bare else result.get("message")
    if returned is None:
        returned = given
    if returned == message:
        return message
    return dict(returned) if isinstance(returned, Mapping) and is_json(dict(returned)) else None


def dismiss(awaitable: Any) -> None:
    """Close or cancel an awaitable that nobody will await."""
    if inspect.iscoroutine(awaitable):
        awaitable.close()
    elif callable(getattr(awaitable, "cancel", None)):
        awaitable.cancel()


def own_copy(value: Any) -> Any:
    """Return a copy of ``value`` that the receiver may change; uncopyable values are shared."""
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001  (any object may fail in any way when it is copied)
        return value


def is_json(value: Any) -> bool:
    """Return whether ``value`` can be recorded."""
    try:
        canonical(value, "value")
    except InvalidInput:
        return False
    return True


def recordable(context: Mapping[Any, Any]) -> dict[str, Any] | None:
    """Return the part of ``context`` that can be recorded, or None if it is empty."""
    return {name: value for name, value in context.items() if is_json({name: value})} or None
