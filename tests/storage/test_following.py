"""A follower of a scope that begins while it looks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import treering
from builders import HERE, said
from treering.storage.sqlite import reader

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_scope_that_begins_meanwhile_loses_no_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with treering.open(tmp_path / "a.db") as ledger, treering.open(tmp_path / "a.db") as writer:
        find = reader.find_scope
        begun: list[Any] = []

        def found_too_early(connection: Any, scope: Any) -> Any:
            number = find(connection, scope)
            if not begun:
                begun.append(writer.append([said("n0")]))
            return number

        monkeypatch.setattr(reader, "find_scope", found_too_early)
        follower = ledger.follow(HERE, idle_s=1)

        assert next(follower).summary == "n0"
        assert begun
