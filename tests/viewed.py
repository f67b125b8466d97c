"""What the tests of the viewer look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
