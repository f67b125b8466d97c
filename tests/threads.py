"""Works done at the same time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from effort import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable


def in_threads(*works: Callable[[], object]) -> None:
    """Do each of ``works`` in a thread; raise what the first of them raised."""
    failures: list[BaseException] = []

    def attempt(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (raised again below)
            failures.append(error)

    threads = [threading.Thread(target=attempt, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    if failures:
        raise failures[0]
