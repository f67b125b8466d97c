"""MCP over HTTP: the real client at a real server, and who may ask what."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

import treering
from builders import ELSEWHERE, HERE
from effort import PATIENCE_S
from mcp_server.recorded import INITIALIZE, record
from served import Caller, ServerProcess
from treering.surfaces.server.grants import RIGHTS, Right, TokenFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ACCEPTED: Final = "application/json, text/event-stream"
READING: Final = 6
"""Tools of a token that may not write."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, _folders_of_module: None) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def tokens(folder: Path) -> TokenFile:
    file = TokenFile(folder / "tokens.json")
    add(file, *RIGHTS)
    return file


@pytest.fixture(scope="module")
def server(folder: Path, tokens: TokenFile) -> Iterator[ServerProcess]:
    """Return a server for all tests that only read."""
    with treering.open(folder / "served.db") as ledger:
        record(ledger)
    with ServerProcess(folder / "served.db", "--token-file", str(tokens.path)) as process:
        yield process


def add(file: TokenFile, *rights: Right, scopes: tuple[str, ...] = ()) -> str:
    """Return a new token of a file."""
    return file.add(name="t", rights=rights, scopes=scopes, expires_ms=None, now_ms=1)[0]


def sent(
    server: ServerProcess,
    token: str | None,
    method: str,
    path: str = f"/mcp?scope={HERE}",
    **params: Any,
) -> Any:
    """Return what is answered to one request of the old era."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    with Caller(server.url, token) as caller:
        return caller.post(path, body, accept=ACCEPTED)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_real_client_talks_with_a_real_server_in_both_eras(
    server: ServerProcess, tokens: TokenFile, mode: Any
) -> None:
    token = add(tokens, "read", scopes=(HERE,))

    async def conversation() -> tuple[str, int, dict[str, Any], str]:
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as web:
            transport = streamable_http_client(f"{server.url}/mcp", http_client=web)
            async with Client(transport, mode=mode) as client:
                tools = (await client.list_tools()).tools
                found: Any = await client.call_tool("search", {"query": "harbour"})
                prompt: Any = await client.get_prompt("handoff", {})
                answer = json.loads(found.content[0].text)
                return client.protocol_version, len(tools), answer, prompt.messages[0].content.text

    version, tools, answer, prompt = asyncio.run(conversation())

    assert (version >= "2026-07-28") == (mode == "auto")
    assert tools == READING
    assert [hit["session"] for hit in answer["hits"]] == ["monday"] * len(answer["hits"])
    assert "> There are two tests." in prompt


def test_the_old_handshake_is_answered(server: ServerProcess, tokens: TokenFile) -> None:
    token = add(tokens, "read")

    greeting = sent(server, token, "initialize", **dict[str, Any](INITIALIZE))
    listed = sent(server, token, "tools/list")

    assert greeting.status == 200
    assert greeting.json["result"]["protocolVersion"] == "2024-11-05"
    assert len(listed.json["result"]["tools"]) == READING


def test_only_the_right_token_is_answered(server: ServerProcess, tokens: TokenFile) -> None:
    elsewhere = add(tokens, *RIGHTS, scopes=(ELSEWHERE,))
    statuses = {
        "none": sent(server, None, "tools/list").status,
        "wrong": sent(server, "trt_guessed", "tools/list").status,
        "no right to read": sent(server, add(tokens, "write", "erase"), "tools/list").status,
        "another scope": sent(server, elsewhere, "tools/list").status,
        "no scope": sent(server, add(tokens, "read"), "tools/list", "/mcp").status,
        "two scopes": sent(server, add(tokens, "read"), "x", "/mcp?scope=a&scope=b").status,
        "not a scope": sent(server, add(tokens, "read"), "tools/list", "/mcp?scope=a@b").status,
    }

    assert statuses == {
        "none": 401,
        "wrong": 401,
        "no right to read": 403,
        "another scope": 403,
        "no scope": 400,
        "two scopes": 400,
        "not a scope": 400,
    }


def test_nothing_leaves_its_scope(server: ServerProcess, tokens: TokenFile) -> None:
    token = add(tokens, "read", scopes=(HERE,))

    answer = sent(
        server, token, "tools/call", name="memory_episodes_query", arguments={"scope": ELSEWHERE}
    )
    found = sent(server, token, "tools/call", name="search", arguments={"query": "nobody"})

    assert answer.json["result"]["isError"]
    assert "invalid_scope" in answer.json["result"]["content"][0]["text"]
    assert json.loads(found.json["result"]["content"][0]["text"])["hits"] == []


def test_a_token_that_may_write_may_remember_and_the_server_ends_in_order(
    tokens: TokenFile, tmp_path: Path
) -> None:
    token = add(tokens, "read", "write", scopes=(HERE,))
    fact = {"text": "The harbour project has two cranes."}

    with ServerProcess(tmp_path / "served.db", "--token-file", str(tokens.path)) as server:
        listed = sent(server, token, "tools/list")
        learned = sent(server, token, "tools/call", name="remember", arguments=fact)
        refused = sent(server, add(tokens, "read"), "tools/call", name="remember", arguments=fact)

        assert server.stop() == (0, "")
    assert len(listed.json["result"]["tools"]) == READING + 2
    assert not learned.json["result"]["isError"]
    assert "no tool remember" in refused.json["result"]["content"][0]["text"]


def test_pages_of_other_sites_and_other_names_are_refused(
    server: ServerProcess, tokens: TokenFile
) -> None:
    with Caller(server.url, add(tokens, "read")) as caller:
        foreign = caller.post(f"/mcp?scope={HERE}", {}, origin="https://evil.example")
        renamed = caller.post(f"/mcp?scope={HERE}", {}, host="evil.example")
        watched = caller.get(f"/mcp?scope={HERE}", accept="text/event-stream")

    assert (foreign.status, renamed.status, watched.status) == (403, 421, 405)
    assert watched.headers["allow"] == "POST"


def test_a_server_that_only_reads_offers_no_writing(tmp_path: Path, tokens: TokenFile) -> None:
    with treering.open(tmp_path / "served.db") as ledger:
        record(ledger)
    options = ("--token-file", str(tokens.path), "--read-only")
    with ServerProcess(tmp_path / "served.db", *options) as server:
        listed = sent(server, add(tokens, *RIGHTS), "tools/list")

    assert len(listed.json["result"]["tools"]) == READING
