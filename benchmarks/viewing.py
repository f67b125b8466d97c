"""The viewer: what its first view takes, and how soon the search palette answers.

The server is a process of its own, as people run it. What is counted is what a browser would be
sent: the page, and the style sheets and modules that it names, compressed.
"""

import http.client
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import treering
from report import Row, Section, at_most
from workload import Effort, Workload, unnumbered

EVENTS: Final = 100_000
BATCH: Final = 5_000
FIRST_VIEW_BYTES_MAX: Final = 60_000
PALETTE_MS_MAX: Final = 200.0
_HOME: Final = "/sessions?since=all"
_TIMEOUT_S: Final = 120.0
_NAMED: Final = re.compile(r'(?:href|src)="(/static/[^"]+)"|data-modules="([^"]*)"')
_IMPORTED: Final = re.compile(r'from "\./([a-z_]+\.js)"')


def run(effort: Effort, folder: Path) -> Section:
    """Measure a ledger of 100,000 events; a tenth of that in a quick run."""
    events = unnumbered(Workload().singles(EVENTS if effort.repeats > 3 else EVENTS // 10))
    path = folder / "viewed.db"
    with treering.open(path, durability="normal") as ledger:
        for at in range(0, len(events), BATCH):
            ledger.append(events[at : at + BATCH])
    with _viewing(path) as (client, token):
        first_ms, _ = _timed(client, token, _HOME)
        again = [_timed(client, token, _HOME)[0] for _ in range(2 * effort.repeats)]
        sent = _first_view(client, token)
        word = events[0].summary.split()[0]
        _timed(client, token, f"/search?q={word}")  # The index is made at the first search.
        asked = [_timed(client, token, f"/search?q={word}")[0] for _ in range(4 * effort.repeats)]
    home, palette = statistics.median(again), statistics.median(asked)
    return Section(
        title="Viewer",
        rows=[
            at_most(
                "bytes of the first view: page, styles, scripts", sent, FIRST_VIEW_BYTES_MAX,
                f"{sent:,} bytes", "bytes",
            ),
            at_most(
                "answer of the search palette, p50", palette, PALETTE_MS_MAX,
                f"{palette:.0f} ms ({len(events):,} events)", "ms",
            ),
            Row(what="the list of sessions, p50", measured=f"{home:.0f} ms"),
            Row(what="the same, for the first time since the start", measured=f"{first_ms:.0f} ms"),
        ],
    )  # fmt: skip


@contextmanager
def _viewing(path: Path) -> Iterator[tuple[http.client.HTTPConnection, str]]:
    command = [sys.executable, "-m", "treering", "--db", str(path), "view", "--no-open", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        port = urlsplit(said["url"]).port
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
        try:
            yield client, said["token"]
        finally:
            client.close()
            process.terminate()


def _timed(client: http.client.HTTPConnection, token: str, path: str) -> tuple[float, bytes]:
    """Return how long a page takes, in milliseconds, and its bytes as they were sent."""
    started = time.perf_counter()
    headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"}
    client.request("GET", path, headers=headers)
    answer = client.getresponse()
    body = answer.read()
    assert answer.status == 200, body[:200]
    return (time.perf_counter() - started) * 1e3, body


def _first_view(client: http.client.HTTPConnection, token: str) -> int:
    """Return the bytes of a page with all that it names, and what that imports."""
    import gzip

    page = _timed(client, token, _HOME)[1]
    waiting: list[str] = []
    for name, modules in _NAMED.findall(gzip.decompress(page).decode()):
        waiting += [name] if name else [f"/static/{module}.js" for module in modules.split()]
    total, seen = len(page), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            body = _timed(client, token, name)[1]
            total += len(body)
            text = gzip.decompress(body).decode()
            waiting += [f"/static/{one}" for one in _IMPORTED.findall(text)]
    return total
