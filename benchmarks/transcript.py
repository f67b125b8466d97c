"""The session screen of the viewer on 100,000 events, in a browser: first rows, bytes, scrolling.

The server is a process of its own. Without a browser, there is nothing to measure.
"""

import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

import treering
from report import Row, Section, at_most
from workload import SCOPE, Effort

EVENTS: Final = 100_000
BATCH: Final = 5_000
FIRST_ROWS_MS_MAX: Final = 1_000.0
FIRST_VIEW_BYTES_MAX: Final = 60_000
LONG_TASK_MS_MAX: Final = 200.0
STEPS: Final = 40
_SCRIPTS: Final = Path(__file__).parent.parent / "scripts"
_FIRST_ROWS: Final = """() => new Promise((done) => requestAnimationFrame(() =>
  done(document.querySelector("#rows [data-item]") ? performance.now() : -1)))"""
_BYTES: Final = """() => [...performance.getEntriesByType("resource"),
  ...performance.getEntriesByType("navigation")]
  .filter((one) => !one.name.includes("/outline") && !one.name.includes("/stream"))
  .reduce((sum, one) => sum + one.transferSize, 0)"""
_WATCH: Final = """() => { window.longest = 0;
  new PerformanceObserver((list) => { for (const one of list.getEntries())
    window.longest = Math.max(window.longest, one.duration); }).observe({ type: "longtask" }); }"""


def run(effort: Effort, folder: Path) -> Section:
    """Measure a session of 100,000 events; a tenth of that in a quick run."""
    count = EVENTS if effort.repeats > 5 else EVENTS // 10
    path = folder / "long.db"
    _record(path, count)
    sys.path.append(str(_SCRIPTS))
    try:
        from playwright.sync_api import sync_playwright

        from browsers import launch_options

        options = launch_options()
    except (ImportError, LookupError) as error:
        return Section(title="Session screen", rows=[Row(what="no browser", measured=str(error))])
    with _viewing(path) as (url, cookie), sync_playwright() as playwright:
        browser = playwright.chromium.launch(**options)
        times = [_visit(browser, url, cookie) for _ in range(max(effort.repeats // 2, 3))]
        longest = _scrolled(browser, url, cookie)
        browser.close()
    first, sent = statistics.median(one for one, _ in times[1:]), times[0][1]
    return Section(
        title="Session screen",
        rows=[
            at_most(
                f"first rows of a session of {count:,} events, p50", first, FIRST_ROWS_MS_MAX,
                f"{first:.0f} ms", "ms",
            ),
            at_most(
                "the same, for the first time", times[0][0], FIRST_ROWS_MS_MAX,
                f"{times[0][0]:.0f} ms", "ms",
            ),
            at_most(
                "bytes of its first view", sent, FIRST_VIEW_BYTES_MAX, f"{sent:,} bytes", "bytes"
            ),
            at_most(
                f"longest task while scrolling, {STEPS} screens", longest, LONG_TASK_MS_MAX,
                f"{longest:.0f} ms", "ms",
            ),
        ],
    )  # fmt: skip


def _record(path: Path, count: int) -> None:
    with treering.open(path, durability="normal") as ledger:
        session = ledger.session("long", scope=SCOPE, agent="bench")
        events = []
        for number in range(count // 4):
            ids = {"call_id": f"c{number}", "tool": "Bash"}
            given = {**ids, "name": "Bash", "input": {"command": f"make part-{number}"}}
            text = f"Part {number}: why does it **fail**?"
            events += [
                session.new_event("conversation.user", text, payload={"text": text}),
                session.new_event("tool.call", "Bash", payload=given, refs=ids),
                session.new_event(
                    "tool.result", "Bash", payload={**ids, "output": "line\n" * 8},
                    refs={**ids, "status": "ok"},
                ),
                session.new_event("conversation.assistant", "Done", payload={"text": "- done"}),
            ]  # fmt: skip
        for at in range(0, len(events), BATCH):
            session.append(events[at : at + BATCH])


@contextmanager
def _viewing(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    command = [sys.executable, "-m", "treering", "--db", str(path), "view", "--no-open", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = msgspec.json.decode(process.stdout.readline())
        port = urlsplit(said["url"]).port
        url = f"http://127.0.0.1:{port}"
        try:
            yield url, {"name": f"treering-{port}", "value": said["token"], "url": url}
        finally:
            process.terminate()


def _page(browser: Any, url: str, cookie: dict[str, str]) -> Any:
    context = browser.new_context(base_url=url, viewport={"width": 1_280, "height": 800})
    context.add_cookies([cookie])
    return context.new_page()


def _visit(browser: Any, url: str, cookie: dict[str, str]) -> tuple[float, int]:
    """Return when the first rows were there, and how much was sent until then."""
    page = _page(browser, url, cookie)
    page.goto(f"/sessions/long?scope={quote(SCOPE, safe='')}", wait_until="commit")
    page.wait_for_selector("#rows [data-item]")
    first = page.evaluate(_FIRST_ROWS)
    page.wait_for_selector(".session[data-ready]")
    sent = page.evaluate(_BYTES)
    page.context.close()
    return first, sent


def _scrolled(browser: Any, url: str, cookie: dict[str, str]) -> float:
    """Return the longest task of the page while it is scrolled by a wheel, in milliseconds."""
    page = _page(browser, url, cookie)
    page.goto(f"/sessions/long?scope={quote(SCOPE, safe='')}")
    page.wait_for_selector("#turn-list li", state="attached", timeout=120_000)
    page.evaluate(_WATCH)
    page.mouse.move(700, 500)
    for _ in range(STEPS):
        page.mouse.wheel(0, 800)
        page.wait_for_timeout(50)
    longest: float = page.evaluate("() => window.longest")
    page.context.close()
    return longest
