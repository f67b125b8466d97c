"""A chapter: the ledger over HTTP, for programs in any language."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

from .recording import LEDGER, SCOPE
from .stage import chapter, check, code, line, step

TIMEOUT_S = 60


def show_server() -> None:
    """Run the chapter."""
    chapter("Server", "Programs in other languages record and follow over HTTP, each with a token.")
    command = [sys.executable, "-m", "treering", "--db", str(LEDGER), "serve", "--port", "0"]
    code(f"$ treering --db {LEDGER} serve --port 0")
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            started = json.loads(server.stdout.readline())
            line(f"serving {LEDGER} at {started['url']}")
            record_and_follow(started["url"], started["token"])
        finally:
            server.terminate()
    check(server.returncode == 0, "the server ends in order, and no live client keeps it")


def record_and_follow(url: str, token: str) -> None:
    """Record an event as any program would, and see it on a live stream."""
    step("Follow live", "A stream resumes exactly where it was, by the id of its last event.")
    stream = ask(f"{url}/v1/scopes/{quote(SCOPE, safe='')}/stream?after=end", token)
    stream.readline()
    event = {
        "scope": SCOPE,
        "session_id": "night-watch",
        "agent_id": "curl",
        "event_id": "disk-91",
        "kind": "ops.alert",
        "summary": "Disk at 91 %",
    }
    code(f"$ curl {url}/v1/events -H 'Authorization: Bearer …' --json '{{\"events\": […]}}'")
    new = [json.load(ask(f"{url}/v1/events", token, {"events": [event]}))["new"] for _ in "ab"]
    check(new == [["disk-91"], []], "sent twice, recorded once: the answer says what was new")
    for text in (raw.decode().rstrip() for raw in stream):
        if text.startswith(("id: ", "event: ")):
            line(text)
        if text.startswith("data: "):
            check(json.loads(text[6:])["summary"] == event["summary"], "it arrives on the stream")
            break
    stream.close()
    try:
        ask(f"{url}/v1/scopes", "a guess")
    except urllib.error.HTTPError as refused:
        check(refused.code == 401, f"a wrong token gets {json.load(refused)['code']}")
        refused.close()


def ask(url: str, token: str, body: Any = None) -> Any:
    """Return the answer of a server, to be read."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    return urllib.request.urlopen(urllib.request.Request(url, content, headers), timeout=TIMEOUT_S)
