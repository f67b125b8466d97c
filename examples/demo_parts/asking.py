"""A chapter: an agent asks about sessions of other agents, over the Model Context Protocol."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from . import logs, taking_in
from .stage import chapter, check, choose, code, line, step


def show_asking() -> None:
    """Run the chapter."""
    chapter("Asking", "A third agent gets tools with which it asks what the others did (MCP).")
    choose(taking_in.LEDGER, logs.SCOPE)
    asyncio.run(ask())


async def ask() -> None:
    """Talk with the server as an agent does."""
    step("Ask", "The agent starts treering mcp; it answers for one scope: masked, bounded, quoted.")
    code("$ treering mcp   # as treering install claude-code --mcp lets an agent do")
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "treering", "mcp"], env=dict(os.environ)
    )
    async with Client(stdio_client(server)) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        line(f"{', '.join(tools)} (protocol {client.protocol_version})")
        found = await answer(client, "search", query="checkout", limit=3)
        for hit in found["hits"]:
            line(f"{hit['agent']}: {hit['snippet'][:80]}")
        check(bool(found["hits"]), "it finds what another agent did")
        around = await answer(client, "timeline", anchor=found["hits"][0]["id"], before=2, after=2)
        for event in around["events"]:
            line(f"{event['kind']}: {str(event['summary'])[:80]}")
        check(len(around["events"]) > 1, "and what happened before and after")
        refused = await answer(client, "memory_episodes_query", scope="somebody/else")
        line(refused["error"]["message"], style="red")
        check(refused["error"]["code"] == "invalid_scope", "and nothing of another scope")


async def answer(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, and show what was called."""
    code(f"{name} {json.dumps(arguments)}")
    result: Any = await client.call_tool(name, arguments)
    fields: dict[str, Any] = json.loads(result.content[0].text)
    return fields
