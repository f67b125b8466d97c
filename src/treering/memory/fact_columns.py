"""Facts as NumPy columns, so that 100,000 of them can be filtered at once."""

from __future__ import annotations

from itertools import count, repeat
from typing import TYPE_CHECKING, Any, Final

from treering.derive.fact_rows import FIELDS, NO_END_MS, STATE_NUMBERS, number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from treering.derive.fact_rows import FactRow, FactRows

CURRENT: Final = 0
ARCHIVED: Final = 1
SUPERSEDED: Final = 2
FORGOTTEN: Final = 3
IMPORTANCE_MAX: Final = 10
_COLUMNS: Final = {
    "state": "i1",
    "user": "u8",
    "wall": "u8",
    "importance": "f4",
    "uses": "i4",
    "accessed": "i8",
    "valid_from": "i8",
    "valid_to": "i8",
    "position": "i8",
    "document": "i4",
}


class FactColumns:
    """Owner, state, times and document of each fact, as columns."""

    def __init__(self) -> None:
        import numpy as np  # noqa: PLC0415  (only who remembers needs it)

        self.ids: list[str] = []
        self._at: dict[str, int] = {}
        self._columns: dict[str, Any] = {name: np.zeros(0, kind) for name, kind in _COLUMNS.items()}

    def __len__(self) -> int:
        return len(self.ids)

    def column(self, name: str) -> NDArray[Any]:
        """Return one column."""
        values: NDArray[Any] = self._columns[name][: len(self.ids)]
        return values

    def visible_to(
        self,
        users: Collection[str | None],
        walls: Collection[str | None],
        *,
        states: Sequence[int] = (CURRENT, ARCHIVED),
    ) -> NDArray[np.int64]:
        """Return the indexes of facts of these users and behind these walls; both are hashed."""
        import numpy as np  # noqa: PLC0415

        visible = np.ones(len(self), np.bool_)
        for name, numbers in (
            ("state", states),
            ("wall", [number(wall) for wall in walls]),
            ("user", [number(user) for user in users]),
        ):
            # Few numbers: comparing with each is faster than a set of them.
            column, allowed = self.column(name), np.zeros(len(self), np.bool_)
            for wanted in numbers:
                allowed |= column == wanted
            visible &= allowed
        return np.flatnonzero(visible)

    def load(self, facts: FactRows) -> None:
        """Add saved facts. They have no document until all are placed."""
        import numpy as np  # noqa: PLC0415

        rows = np.frombuffer(facts.numbers, list(FIELDS))
        self._add(facts.saved)
        new = slice(len(self) - len(rows), len(self))
        for name, column in self._columns.items():
            if name != "document":
                column[new] = rows[name] / IMPORTANCE_MAX if name == "importance" else rows[name]

    def place(self, documents: Mapping[int, int]) -> None:
        """Set the documents of all facts; ``documents`` maps positions to document numbers."""
        import numpy as np  # noqa: PLC0415

        numbers = map(documents.get, self.column("position").tolist(), repeat(-1))
        self.column("document")[:] = np.fromiter(numbers, np.int32, len(self))

    def update(self, rows: Iterable[FactRow], documents: Mapping[int, int]) -> None:
        """Add or update facts; ``documents`` maps positions to document numbers."""
        import numpy as np  # noqa: PLC0415

        listed = list(rows)
        self._add([row.id for row in listed if row.id not in self._at])
        if not listed:
            return
        at = np.fromiter((self._at[row.id] for row in listed), np.int64, len(listed))
        positions = [row.position for row in listed]
        columns = self._columns
        for name, values in (
            ("state", [STATE_NUMBERS[row.state] for row in listed]),
            ("user", [number(row.user) for row in listed]),
            ("wall", [number(row.wall) for row in listed]),
            ("importance", [row.importance / IMPORTANCE_MAX for row in listed]),
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

    def _add(self, ids: Collection[str]) -> None:
        """Make room for new facts."""
        import numpy as np  # noqa: PLC0415

        self._at.update(zip(ids, count(len(self.ids)), strict=False))
        self.ids.extend(ids)
        columns = self._columns
        if len(self.ids) > len(columns["state"]):
            room = max(len(self.ids), len(columns["state"]) * 3 // 2)
            for name, column in columns.items():
                grown = np.zeros(room, column.dtype)
                grown[: len(column)] = column
                columns[name] = grown
