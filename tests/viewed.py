"""What the tests of the viewer look at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from effort import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from served import ThreadServer
    from treering import Ledger


class ViewedLedger:
    """A server over a ledger, and what was recorded there."""

    def __init__(self, ledger: Ledger, server: ThreadServer, ids: dict[str, str]) -> None:
        self.ledger = ledger
        self.server = server
        self.ids = ids
        self.url = server.url
        self.cookie: Any = {
            "name": f"treering-{server.port}",
            "value": server.token,
            "url": server.url,
            "httpOnly": True,
            "sameSite": "Strict",
        }


def wait_until(condition: Callable[[], Any]) -> None:
    """Wait for what no expectation can wait for; a page's policy forbids to evaluate its text."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
