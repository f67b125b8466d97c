"""The entries of a session in their order: their keys, and where its branches leave.

    file   A  B  C  D(B)  E(C)         D goes on from B, and E from C again
    told   A  B  C  undo  D  undo  E   each undo hides all from behind the parent up to itself

What was told up to an entry shows the path to it and nothing else. So hiding all that was told
behind the parent shows the parent's path again, earlier undos and all.
"""

from __future__ import annotations

from typing import Any, Final

_PARTS: Final = 3
_DIGITS: Final = 6
"""What is kept of the digests of entries that have ids."""


class EntryKeys:
    """Keys of entries, in the order in which they were written."""

    def __init__(self) -> None:
        self._firsts: list[str | None] = []
        """The key of the first event that each entry told; None if it told none."""
        self._places: dict[str, int] = {}
        self._digests: dict[str, str] = {}
        self.is_tree = False
        """Whether an entry has named its parent."""
        self._weighty = -1
        """The place of the last entry that told more than what stands beside the talk."""

    @property
    def has_told(self) -> bool:
        """Whether an entry told an event."""
        return any(first is not None for first in self._firsts)

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def free_key(self, key: str) -> str:
        """Return ``key``, or that with a number if another entry has it."""
        number = 1
        free = key
        while free in self._places:
            number += 1
            free = f"{key}~{number}"
        return free

    def repeats(self, key: str, content: str) -> bool:
        """Whether the entry of that ``key`` has the same content."""
        return self._digests.get(key) == content[:_DIGITS]

    def add(
        self, key: str | None, first: str | None, content: str = "", *, counts: bool = False
    ) -> None:
        """Add an entry that told its events from ``first`` on; without a key, a place alone."""
        if key is not None:
            self._places[key] = len(self._firsts)
            self._digests[key] = content[:_DIGITS]
        if counts:
            self._weighty = len(self._firsts)
        self._firsts.append(first)

    def first_from(self, key: str) -> str | None:
        """Return the key of the first event that was told by an entry or behind it."""
        place = self._places.get(key)
        return None if place is None else self.first_at(place)

    def hidden_from(self, parent: str | None) -> str | None:
        """Return the key of the first event to hide, if the next entry goes on from ``parent``.

        None if there is no such entry, or nothing of weight behind it. No parent is the beginning.
        """
        place = -1 if parent is None else self._places.get(parent)
        if place is None or place >= self._weighty:
            return None
        return self.first_at(place + 1)

    def first_at(self, place: int) -> str | None:
        """Return the key of the first event from the entry at ``place`` on."""
        if place < 0:
            return None
        rest = (self._firsts[at] for at in range(place, len(self._firsts)))
        return next((first for first in rest if first is not None), None)

    def state(self) -> Any:
        """Return it in short, as JSON."""
        keys = dict(zip(self._places.values(), self._places, strict=True))
        lines = []
        for place, first in enumerate(self._firsts):
            key = keys.get(place, "")
            told = "=" if first is not None and first == key else first or ""
            lines.append(f"{key}\t{told}\t{self._digests.get(key, '')}")
        return {"entries": "\n".join(lines), "tree": self.is_tree, "weighty": self._weighty}

    @classmethod
    def of(cls, state: Any) -> EntryKeys:
        """Return the trail that ``state`` tells. Raises ValueError if it tells none."""
        entry_keys = cls()
        if not isinstance(state, dict) or not isinstance(state.get("entries"), str):
            raise ValueError("no trail")  # noqa: TRY004  (one error for all that is none)
        for line in state["entries"].split("\n") if state["entries"] else ():
            parts = line.split("\t")
            if len(parts) != _PARTS:
                raise ValueError("no entry of a trail")
            key, told, content = parts
            entry_keys.add(key or None, key if told == "=" else told or None, content)
        weighty = state.get("weighty")
        entry_keys._weighty = weighty if type(weighty) is int else len(entry_keys) - 1
        entry_keys.is_tree = state.get("tree") is True
        return entry_keys
