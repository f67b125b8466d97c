"""The server as a process: the old handshake, and every way in which a client leaves."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import HERE
from children import run_python
from effort import LONG, PATIENCE_S
from mcp_server.recorded import INITIALIZE, PROGRAM, environment, make, request, start

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = ["2024-11-05", "2025-11-25", *(["2025-03-26", "2025-06-18"] if LONG else [])]
INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


def spoken(folder: Path, *lines: str, arguments: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Return what the server answers to lines that end."""
    with start(folder, *arguments) as process:
        out, err = process.communicate("".join(lines), timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_old_handshake_is_answered_in_its_own_version(tmp_path: Path, version: str) -> None:
    make(tmp_path)

    greeting, listed, found = spoken(
        tmp_path,
        request(1, "initialize", **{**INITIALIZE, "protocolVersion": version}),
        INITIALIZED,
        request(2, "tools/list"),
        request(3, "tools/call", name="search", arguments={"query": "harbour"}),
    )

    assert greeting["result"]["protocolVersion"] == version
    assert greeting["result"]["serverInfo"]["name"] == "treering"
    assert set(greeting["result"]["capabilities"]) == {"prompts", "resources", "tools"}
    by_id = {answer["id"]: answer["result"] for answer in (listed, found)}
    assert len(by_id[2]["tools"]) == 6
    assert json.loads(by_id[3]["content"][0]["text"])["hits"]


def test_damaged_and_endless_lines_do_not_stop_it(tmp_path: Path) -> None:
    answers = spoken(
        tmp_path,
        "garbage\n\n",
        '{"jsonrpc": "2.0"}\n',
        request(1, "initialize", **INITIALIZE),
        INITIALIZED,
        "x" * 5_000_000 + "\n",
        request(2, "dance"),
        request(3, "tools/call", name="sessions", arguments={}),
    )

    by_id = {answer.get("id"): answer for answer in answers}
    assert by_id[2]["error"]["code"] == -32_601
    assert "nothing is recorded yet" in by_id[3]["result"]["content"][0]["text"]


def test_an_answer_comes_before_the_end_even_if_the_last_line_is_not_ended(tmp_path: Path) -> None:
    last = request(2, "tools/call", name="sessions", arguments={}).rstrip("\n")

    answers = spoken(tmp_path, request(1, "initialize", **INITIALIZE), INITIALIZED, last)

    assert [answer["id"] for answer in answers] == [1, 2]
    assert "result" in answers[1]


def test_requests_at_once_are_each_answered_once(tmp_path: Path) -> None:
    make(tmp_path)
    calls = [
        request(number, "tools/call", name="search", arguments={"query": "harbour"})
        for number in range(2, 42)
    ]

    answers = spoken(tmp_path, request(1, "initialize", **INITIALIZE), INITIALIZED, *calls)

    assert sorted(answer["id"] for answer in answers) == list(range(1, 42))
    assert all("harbour" in json.dumps(answer) for answer in answers if answer["id"] > 1)


def test_what_is_printed_by_mistake_does_not_get_between_the_answers(tmp_path: Path) -> None:
    program = (
        "import os, subprocess, sys; from treering.surfaces.mcp.toolbox import Toolbox;"
        "from treering.surfaces.cli.main import main; call = Toolbox.call\n"
        "def noisy(*given):\n"
        "    print('noise', flush=True); os.write(1, b'noise'); subprocess.run(['echo', 'noise'])\n"
        "    return call(*given)\n"
        f"Toolbox.call = noisy; sys.exit(main(['mcp', '--scope', '{HERE}']))"
    )
    lines = [
        request(1, "initialize", **INITIALIZE),
        INITIALIZED,
        request(2, "tools/call", name="sessions", arguments={}),
    ]

    done = run_python(program, env=environment(tmp_path), input="".join(lines))

    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]
    assert done.stderr.count("noise") == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_cleanly_while_it_waits(tmp_path: Path, number: signal.Signals) -> None:
    with start(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request(1, "initialize", **INITIALIZE))
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(number)
        status = process.wait(PATIENCE_S)
        rest = process.stdout.read()
        complaints = process.stderr.read() if process.stderr else ""

    assert (status, rest, complaints) == (0, "", "")


def test_it_ends_when_nobody_reads_its_answers(tmp_path: Path) -> None:
    with start(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(request(1, "initialize", **INITIALIZE))
        process.stdin.flush()
        status = process.wait(PATIENCE_S)
        complaints = process.stderr.read() if process.stderr else ""

    assert (status, complaints) == (0, "")


def test_the_scope_is_that_of_the_folder_it_is_started_in(tmp_path: Path) -> None:
    project = tmp_path / "harbour"
    project.mkdir()
    lines = [
        request(1, "initialize", **INITIALIZE),
        INITIALIZED,
        request(2, "tools/call", name="sessions", arguments={}),
    ]

    output = subprocess.run(
        [PROGRAM, "mcp"],
        env=environment(tmp_path),
        cwd=project,
        input="".join(lines),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    ).stdout

    answer = json.loads(output.splitlines()[1])["result"]["content"][0]["text"]
    assert json.loads(answer)["scope"] == "harbour"


def test_facts_survive_the_server_that_remembered_them(tmp_path: Path) -> None:
    make(tmp_path)
    greeting = [request(1, "initialize", **INITIALIZE), INITIALIZED]

    def answered(name: str, **arguments: Any) -> dict[str, Any]:
        call = request(2, "tools/call", name=name, arguments=arguments)
        _, answer = spoken(tmp_path, *greeting, call, arguments=("--write",))
        fields: dict[str, Any] = json.loads(answer["result"]["content"][0]["text"])
        return fields

    with treering.open(tmp_path / "ledger.db") as ledger:
        (answer,) = ledger.headers(HERE, kinds=["conversation.assistant"], first=2).items
    learned = answered(
        "remember", text="The harbour project has two tests.", evidence=[answer.event_id], user="jo"
    )
    recalled = answered("recall", query="how many tests does the harbour project have?", user="jo")

    assert [fact["id"] for fact in recalled["facts"]] == [learned["fact_id"]]


def test_without_the_package_it_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['mcp'] = None;"
        "from treering.surfaces.cli.main import main; sys.exit(main(['mcp', '--scope', 'a']))"
    )

    result = run_python(program, status=None, env=environment(tmp_path), stdin=subprocess.DEVNULL)

    assert (result.returncode, result.stdout) == (1, "")
    assert "pip install 'treering[mcp]'" in result.stderr


def test_no_other_command_loads_the_protocol(tmp_path: Path) -> None:
    program = (
        "import sys; from treering.surfaces.cli.main import main;"
        f"main(['sessions', 'list', '--scope', '{HERE}']); main(['mcp', '--help']);"
        "print([name for name in sys.modules if name.split('.')[0] in"
        " {'mcp', 'mcp_types', 'pydantic', 'starlette', 'anyio'}])"
    )

    output = run_python(program, env=environment(tmp_path)).stdout

    assert output.splitlines()[-1] == "[]"
