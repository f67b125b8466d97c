"""What the tests of the viewer look at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from axe_playwright_python.sync_playwright import Axe

from effort import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from served import ThreadServer
    from treering import Ledger

COLOURS: Final = ("color-contrast", "link-in-text-block")
"""The rules of axe that another theme can break: the page is the same for all others."""


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


def faults(page: Page, rules: tuple[str, ...] = ()) -> list[str]:
    """Return what axe finds wrong with a page, by ``rules`` or by all."""
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{fault['id']}: {[node['html'][:200] for node in fault['nodes']]}" for fault in found]
