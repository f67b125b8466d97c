"""Facts as NumPy columns, so that 100,000 of them can be filtered at once."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from treering.derive.memory_state import FactRow
    from treering.model.memories import FactState

STATES: Final[tuple[FactState, ...]] = (
    "current", "archived", "superseded", "forgotten", "quarantined", "refused",
)  # fmt: skip
_STATE_NUMBERS: Final = {state: number for number, state in enumerate(STATES)}
CURRENT: Final = 0
ARCHIVED: Final = 1
SUPERSEDED: Final = 2
FORGOTTEN: Final = 3
NO_END_MS: Final = 2**62
NOBODY: Final = 0
"""The number for no user, and for no wall."""
NUMBERS_HELD: Final = 4_096


class FactColumns:
    """Owner, state, times and document of each fact, as columns."""

    def __init__(self) -> None:
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        self.ids: list[str] = []
        self._at: dict[str, int] = {}
        self._columns: dict[str, Any] = {
            "state": np.zeros(0, np.int8),
            "user": np.zeros(0, np.uint64),
            "wall": np.zeros(0, np.uint64),
            "importance": np.zeros(0, np.float32),
            "uses": np.zeros(0, np.int32),
            "accessed": np.zeros(0, np.int64),
            "valid_from": np.zeros(0, np.int64),
            "valid_to": np.zeros(0, np.int64),
            "position": np.zeros(0, np.int64),
            "document": np.zeros(0, np.int32),
        }

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, name: str) -> NDArray[Any]:
        """Return one column."""
        values: NDArray[Any] = self._columns[name][: len(self.ids)]
        return values

    def update(self, rows: Iterable[FactRow], documents: dict[int, int]) -> None:
        """Add or update facts; ``documents`` maps positions to document numbers."""
        import numpy as np  # noqa: PLC0415

        listed = list(rows)
        new = [row for row in listed if row.id not in self._at]
        for row in new:
            self._at[row.id] = len(self.ids)
            self.ids.append(row.id)
        columns = self._columns
        if len(self.ids) > len(columns["state"]):
            room = max(len(self.ids), len(columns["state"]) * 3 // 2)
            for name, column in columns.items():
                grown = np.zeros(room, column.dtype)
                grown[: len(column)] = column
                columns[name] = grown
        if not listed:
            return
        at = np.fromiter((self._at[row.id] for row in listed), np.int64, len(listed))
        positions = [row.position for row in listed]
        for name, values in (
            ("state", [_STATE_NUMBERS[row.state] for row in listed]),
            ("user", [number(row.user) for row in listed]),
            ("wall", [number(row.wall) for row in listed]),
            ("importance", [row.importance / 10 for row in listed]),
            ("uses", [row.uses for row in listed]),
            ("accessed", [row.accessed_ms for row in listed]),
            ("valid_from", [row.valid_from_ms for row in listed]),
            (
                "valid_to",
                [NO_END_MS if row.valid_to_ms is None else row.valid_to_ms for row in listed],
            ),
            ("position", positions),
            ("document", [documents.get(position, -1) for position in positions]),
        ):
            columns[name][at] = np.array(values, columns[name].dtype)


@lru_cache(NUMBERS_HELD)
def number(text: str | None) -> int:
    """Return a hash as a number that is never NOBODY."""
    return NOBODY if text is None else int(text, 16) or 1
