"""The keys of a session's entries, in order, and the points where branches leave.

    entries  A  B  C  D(B)  E(C)         D continues from B, and E from C again
    events   A  B  C  undo  D  undo  E   an undo hides all events after the parent's

The events up to an entry show only the path to that entry. So hiding everything after the parent
restores the parent's path, including its earlier undos.
"""

from __future__ import annotations

from typing import Any, Final

_PARTS: Final = 3
_DIGITS: Final = 6
"""The digits kept of the digests of entries with ids."""


class EntryKeys:
    """Keys of entries, in the order in which they were written."""

    def __init__(self) -> None:
        self._firsts: list[str | None] = []
        """The key of each entry's first event; None if it has no events."""
        self._positions: dict[str, int] = {}
        self._digests: dict[str, str] = {}
        self.is_tree = False
        """Whether any entry names its parent."""
        self._last_message = -1
        """The position of the last entry with an event of the conversation."""

    @property
    def has_events(self) -> bool:
        """Return whether any entry has an event."""
        return any(first is not None for first in self._firsts)

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, key: str) -> bool:
        return key in self._positions

    def free_key(self, key: str) -> str:
        """Return ``key``, with a number appended if it is taken."""
        number = 1
        free = key
        while free in self._positions:
            number += 1
            free = f"{key}~{number}"
        return free

    def repeats(self, key: str, content: str) -> bool:
        """Return whether the entry with that ``key`` has the same content."""
        return self._digests.get(key) == content[:_DIGITS]

    def add(
        self, key: str | None, first: str | None, content: str = "", *, counts: bool = False
    ) -> None:
        """Add an entry whose events start with ``first``; without a key it is a position only."""
        if key is not None:
            self._positions[key] = len(self._firsts)
            self._digests[key] = content[:_DIGITS]
        if counts:
            self._last_message = len(self._firsts)
        self._firsts.append(first)

    def first_from(self, key: str) -> str | None:
        """Return the key of the first event of an entry or of a later one."""
        position = self._positions.get(key)
        return None if position is None else self.first_at(position)

    def hidden_from(self, parent: str | None) -> str | None:
        """Return the key of the first event to hide if the next entry continues from ``parent``.

        Return None if there is no such entry, or no conversation after it. A ``parent`` of None is
        the beginning.
        """
        position = -1 if parent is None else self._positions.get(parent)
        if position is None or position >= self._last_message:
            return None
        return self.first_at(position + 1)

    def first_at(self, position: int) -> str | None:
        """Return the key of the first event at or after the entry at ``place``."""
        if position < 0:
            return None
        rest = (self._firsts[at] for at in range(position, len(self._firsts)))
        return next((first for first in rest if first is not None), None)

    def state(self) -> Any:
        """Return a compact JSON form."""
        keys = dict(zip(self._positions.values(), self._positions, strict=True))
        lines = []
        for position, first in enumerate(self._firsts):
            key = keys.get(position, "")
            shown = "=" if first is not None and first == key else first or ""
            lines.append(f"{key}\t{shown}\t{self._digests.get(key, '')}")
        return {"entries": "\n".join(lines), "tree": self.is_tree, "weighty": self._last_message}

    @classmethod
    def of(cls, state: Any) -> EntryKeys:
        """Return the keys in ``state``. Raises ValueError if it is not such a state."""
        entry_keys = cls()
        if not isinstance(state, dict) or not isinstance(state.get("entries"), str):
            raise ValueError("not a state of entry keys")  # noqa: TRY004  (one error for all)
        for line in state["entries"].split("\n") if state["entries"] else ():
            parts = line.split("\t")
            if len(parts) != _PARTS:
                raise ValueError("not an entry of a state")
            key, shown, content = parts
            entry_keys.add(key or None, key if shown == "=" else shown or None, content)
        weighty = state.get("weighty")
        entry_keys._last_message = weighty if type(weighty) is int else len(entry_keys) - 1
        entry_keys.is_tree = state.get("tree") is True
        return entry_keys
