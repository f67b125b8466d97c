"""The server: batches over HTTP against the direct call, and how soon a live client hears of one.

The server is a process of its own, as people run it. The client is the smallest there is: one
connection and bodies that were encoded before, so that what is measured is the server's.
"""

import http.client
import json
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

import treering
from report import Row, Section, at_least, at_most
from treering import NewEvent
from workload import SCOPE, Effort, Workload, settled_heap, unnumbered

BATCH: Final = 100
RATE_MIN: Final = 10_000
SHARE_MIN: Final = 0.3
DELAY_MS_MAX: Final = 20.0
PAUSE_S: Final = 0.02
_TIMEOUT_S: Final = 60.0


def run(effort: Effort, folder: Path) -> Section:
    """Measure batches of 100 events, and the delay of single ones on a live stream."""
    batches = 10 * effort.rounds
    events = unnumbered(Workload().singles(batches * BATCH))
    parts = [events[at : at + BATCH] for at in range(0, len(events), BATCH)]
    rounds = max(3, effort.repeats // 2)
    direct, served = [], []
    with settled_heap():
        for at in range(rounds):
            direct.append(_direct_rate(folder / f"direct-{at}.db", parts))
            served.append(_served_rate(folder / f"served-{at}.db", parts))
    delays = _delays(folder / "live.db", 40 * effort.repeats)
    rate, share = statistics.median(served), statistics.median(served) / statistics.median(direct)
    p50, p99 = statistics.median(delays), sorted(delays)[int(len(delays) * 0.99)]
    return Section(
        title="HTTP server",
        rows=[
            at_least(
                "batches of 100 over HTTP, one client", rate, RATE_MIN,
                f"{rate:,.0f} events/s", "events/s",
            ),
            at_least(
                "the same against the direct call", share, SHARE_MIN,
                f"{share:.2f} x (direct {statistics.median(direct):,.0f} events/s)",
            ),
            at_most(
                "from the commit in another process to a live client, p50", p50, DELAY_MS_MAX,
                f"{p50:.1f} ms", "ms",
            ),
            Row(what="the same, p99", measured=f"{p99:.1f} ms"),
        ],
    )  # fmt: skip


def _direct_rate(path: Path, parts: Sequence[Sequence[NewEvent]]) -> float:
    with treering.open(path) as ledger:
        ledger.append(parts[0])
        started = time.perf_counter()
        for part in parts[1:]:
            ledger.append(part)
        return (len(parts) - 1) * BATCH / (time.perf_counter() - started)


def _served_rate(path: Path, parts: Sequence[Sequence[NewEvent]]) -> float:
    bodies = [msgspec.json.encode({"events": part}) for part in parts]
    with _serving(path) as (port, token):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        _post(connection, bodies[0], headers)
        started = time.perf_counter()
        for body in bodies[1:]:
            _post(connection, body, headers)
        rate = (len(bodies) - 1) * BATCH / (time.perf_counter() - started)
        connection.close()
    return rate


def _post(connection: http.client.HTTPConnection, body: bytes, headers: dict[str, str]) -> None:
    connection.request("POST", "/v1/events", body, headers)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200


def _delays(path: Path, count: int) -> list[float]:
    """Return the milliseconds from before an append here to its arrival at a client."""
    heard: queue.Queue[tuple[str, float]] = queue.Queue()
    delays: list[float] = []
    with treering.open(path) as ledger, _serving(path) as (port, token):
        session = ledger.session("live", scope=SCOPE, agent="bench")
        session.record("ops.alert", "first")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
        scope = quote(SCOPE, safe="")
        connection.request(
            "GET",
            f"/v1/scopes/{scope}/stream?after=end",
            headers={"Authorization": f"Bearer {token}"},
        )
        stream = connection.getresponse()

        def listen() -> None:
            while line := stream.readline():
                now = time.perf_counter()
                if line.startswith(b"data: "):
                    heard.put((json.loads(line[6:])["summary"], now))

        while not stream.readline().startswith(b": caught up"):
            pass
        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        for number in range(count):
            time.sleep(PAUSE_S)
            sent = time.perf_counter()
            session.record("ops.alert", str(number))
            summary, arrived = heard.get(timeout=_TIMEOUT_S)
            assert summary == str(number)
            delays.append((arrived - sent) * 1e3)
    listener.join(_TIMEOUT_S)
    connection.close()
    return delays


@contextmanager
def _serving(path: Path) -> Iterator[tuple[int, str]]:
    """Give the port and the token of a server in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "treering",
        "--db",
        str(path),
        "serve",
        "--port",
        "0",
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        started = json.loads(process.stdout.readline())
        try:
            yield started["port"], started["token"]
        finally:
            process.terminate()
