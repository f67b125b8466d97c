"""Take the pictures of the README and the docs from our own sample sessions, in light and in dark.

Run it as ``make pictures``. It records into a temporary ledger under a clock that stands still, so
that pictures change only when pages do, and needs a Chromium (see browsers.py).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from playwright.sync_api import sync_playwright

import treering
import treering.app
from browsers import launch_options
from sample_sessions import APP, record_samples
from treering.surfaces.server.access import ServerAddress
from treering.surfaces.server.application import Application
from treering.surfaces.server.grants import TokenSet
from treering.surfaces.server.serving import bind, make_server
from treering.surfaces.viewer.site import ViewerSite

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PICTURES: Final = Path(__file__).parents[1] / "docs" / "pictures"
THEMES: Final = ("light", "dark")
NOW: Final = 1_772_721_000_000
"""2026-03-05 14:30:00 UTC."""
TOKEN: Final = "trt_of-the-pictures"  # noqa: S105  (of a server that runs for seconds)


class Shot(NamedTuple):
    """A page of the viewer, and how much of it the picture shows."""

    name: str
    path: str
    height: int


SHOTS: Final = (
    Shot("viewer", "/sessions?since=30d", 780),
    Shot("viewer-session", "/sessions/fix-tides?scope=acme%2Fapp", 780),
    Shot("viewer-memory", "/memory?tab=recall&q=When+do+we+release%3F&scope=acme%2Fapp", 620),
)


class StandingClock:
    """Tells the time that it was set to."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ms

    def set(self, now_ms: int) -> None:
        """Set the time."""
        self.now_ms = now_ms


def main() -> None:
    """Write every picture in each theme."""
    PICTURES.mkdir(exist_ok=True)
    clock = StandingClock(NOW)
    treering.app.now_ms = clock
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        file = Path(name) / "agents.db"
        browser = playwright.chromium.launch(**launch_options())
        with treering.open(file, durability="normal") as ledger:
            record_samples(ledger, NOW, tick=clock.set)
            photograph_viewer(browser, ledger, clock)
        page = Path(name) / "session.html"
        options = ["--scope", APP, "--format", "html", "--payload", "--out", str(page)]
        program = str(Path(sys.executable).with_name("treering"))
        subprocess.run([program, "--db", str(file), "export", "fix-tides", *options], check=True)
        for theme in THEMES:
            photograph(browser, page.as_uri(), f"session-{theme}", theme, height=780, width=1000)
        browser.close()


def photograph_viewer(browser: Browser, ledger: treering.Ledger, clock: StandingClock) -> None:
    """Serve a ledger, and take every picture of its viewer."""
    listener = bind("127.0.0.1", 0)
    address = ServerAddress(host="127.0.0.1", port=listener.getsockname()[1])
    application = Application(
        ledger,
        tokens=TokenSet(clock, token=TOKEN),
        address=address,
        more=[ViewerSite(ledger, clock).route],
    )
    started = threading.Event()
    server = make_server(application, started=started.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    started.wait(60)
    try:
        for shot in SHOTS:
            for theme in THEMES:
                address_of = f"{address.url}{shot.path}#token={TOKEN}"
                photograph(browser, address_of, f"{shot.name}-{theme}", theme, height=shot.height)
    finally:
        server.should_exit = True
        thread.join(60)


def photograph(
    browser: Browser, url: str, name: str, theme: str, *, height: int, width: int = 1200
) -> None:
    """Write a page as the browser shows it."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
        timezone_id="UTC",
    )
    page = context.new_page()
    page.goto(url)
    page.locator("h1").wait_for(state="attached")
    page.wait_for_load_state("load")
    page.wait_for_timeout(500)  # Until the scripts of the page have done what they do.
    picture = PICTURES / f"{name}.png"
    page.screenshot(path=picture)
    print(f"{picture.relative_to(PICTURES.parents[1])}: {picture.stat().st_size:,} bytes")
    context.close()


if __name__ == "__main__":
    main()
