"""What Cursor and Grok wrap a user's words in, and what Cursor's databases name a session by."""

from __future__ import annotations

import re
from typing import Any, Final

SESSION_KEY: Final = "session"
"""The key of the first event of a session that comes from a database."""
_ASKED: Final = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_CONTEXT: Final = re.compile(
    r"(?:\s*<(user_info|system[_-]reminder|rules|open_and_recently_viewed_files|git_status"
    r"|agent_skills|mcp_servers)>(?:.*?</\1>|.*))+\s*",
    re.DOTALL,
)
"""Tags at the beginning that these programs add; the last may be cut off."""
_WORKSPACE: Final = re.compile(r"^Workspace Path: (.+)$", re.MULTILINE)


def asked(block: Any) -> Any:
    """Return a user's block without the tags around the question; context is kept as such."""
    text = (
        block if isinstance(block, str) else block.get("text") if isinstance(block, dict) else None
    )
    if not isinstance(text, str):
        return block
    question = _ASKED.search(text)
    if question:
        rest = (text[: question.start()] + text[question.end() :]).strip()
        return {"type": "text", "text": question[1], **({"around": rest} if rest else {})}
    context = _CONTEXT.match(text)
    if context is None:
        return block
    rest = text[context.end() :]
    if not rest:
        return {"type": "context", "text": text}
    return {"type": "text", "text": rest, "around": context[0].strip()}


def workspace_in(text: str) -> str | None:
    """Return the folder that Cursor tells the model it works in."""
    match = _WORKSPACE.search(text)
    return match[1].strip() if match else None
