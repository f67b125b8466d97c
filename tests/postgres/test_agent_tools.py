"""An agent asks about sessions on a server as it does about those in a file."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import treering
from builders import HERE
from effort import PATIENCE_S
from mcp_server.recorded import INITIALIZE, PROGRAM, ask, environment, record, request, toolbox

if TYPE_CHECKING:
    from pathlib import Path

    from postgres_places import Place


def test_every_tool_answers_on_a_server(place: Place) -> None:
    with treering.open(place.url) as ledger:
        record(ledger)
        tools = toolbox(ledger, writes=True)

        hit = ask(tools, "search", query="harbour")["hits"][0]
        around = ask(tools, "timeline", anchor=hit["id"], before=1, after=1)["events"]
        [event] = ask(tools, "fetch", ids=[hit["id"]])["events"]
        [session] = ask(tools, "sessions")["sessions"]
        newest = ask(tools, "memory_episodes_query", newestFirst=True, limit=1)["items"][0]
        fact = "The harbour project has two tests."
        learned = ask(tools, "remember", text=fact, evidence=[hit["id"]], user="jo")
        recalled = ask(tools, "recall", query="tests of the harbour project", user="jo")
        forgotten = ask(tools, "forget", fact_id=learned["fact_id"])

    assert [one["kind"] for one in around] == ["run.started", "conversation.user", "tool.call"]
    assert event["payload"]["text"].startswith("How many tests")
    assert (session["id"], newest["type"]) == ("monday", "run.ended")
    assert [one["id"] for one in recalled["facts"]] == [learned["fact_id"]]
    assert forgotten["state"] == "forgotten"


def test_the_program_asks_a_server(place: Place, tmp_path: Path) -> None:
    with treering.open(place.url) as ledger:
        record(ledger)
    lines = [
        request(1, "initialize", **INITIALIZE),
        '{"jsonrpc":"2.0","method":"notifications/initialized"}\n',
        request(2, "tools/call", name="search", arguments={"query": "harbour"}),
    ]

    done = subprocess.run(
        [PROGRAM, "mcp", "--scope", HERE],
        env={**environment(tmp_path), "TREERING_DB": place.url},
        input="".join(lines),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )

    answer = json.loads(done.stdout.splitlines()[1])["result"]["content"][0]["text"]
    assert json.loads(answer)["hits"][0]["session"] == "monday"
