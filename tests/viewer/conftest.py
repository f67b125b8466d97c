"""A browser for the tests of the viewer, servers over recorded sessions, pages without errors.

One browser serves a whole worker. Playwright's event loop would be in the way of other tests of the
worker, which run their own: it is this thread's loop only while a test of a page runs.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from browsers import launch_options
from effort import PATIENCE_S
from sample_sessions import record_samples
from served import ThreadServer
from treering.clock import now_ms
from viewed import ViewedLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from treering import Ledger

PATIENCE_MS: Final = PATIENCE_S * 1_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return a real browser: TREERING_CHROMIUM, one that is installed, or the pinned one."""
    try:
        options = launch_options()
    except LookupError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(**options)
        asyncio._set_running_loop(None)
        yield running
        asyncio._set_running_loop(_loop_of(running))
        running.close()


def _loop_of(browser: Browser) -> Any:
    return browser._impl_obj._loop


@pytest.fixture(scope="module")
def viewed(unchanged: Ledger) -> Iterator[ViewedLedger]:
    """Return a server over our sample sessions, for all tests of a module."""
    ids = record_samples(unchanged, now_ms())
    with ThreadServer(unchanged) as server:
        yield ViewedLedger(unchanged, server, ids)


@pytest.fixture
def new_context(browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """Make browsers of other people: each with cookies and storage of its own."""
    asyncio._set_running_loop(_loop_of(browser))
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def make(**options: Any) -> BrowserContext:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 800}} | options))
        context.set_default_timeout(PATIENCE_MS)
        context.on("weberror", lambda error: faults.append(str(error.error)))
        context.on("dialog", lambda dialog: faults.append(f"a dialog: {dialog.message}"))
        context.on(
            "console",
            lambda message: (
                faults.append(message.text)
                if message.type == "error" and "status of 4" not in message.text
                else None
            ),
        )
        contexts.append(context)
        return context

    yield make
    for context in contexts:
        context.close()
    asyncio._set_running_loop(None)
    assert not faults  # Neither errors nor what the policy of the pages forbids.


@pytest.fixture
def page(new_context: Callable[..., BrowserContext], viewed: ViewedLedger) -> Page:
    """Return a page of somebody who has logged in."""
    context = new_context(base_url=viewed.url)
    context.add_cookies([viewed.cookie])
    return context.new_page()
