"""Slash commands: what the user typed, without the tags that the log puts around it."""

from __future__ import annotations

import re
from typing import Final

LOCAL: Final = frozenset({
    "/agents", "/clear", "/compact", "/config", "/context", "/cost", "/doctor", "/exit", "/help",
    "/hooks", "/ide", "/login", "/logout", "/mcp", "/memory", "/model", "/permissions", "/resume",
    "/status", "/terminal-setup", "/upgrade", "/vim",
})  # fmt: skip
"""Commands for the program itself: no model sees them."""
OUTPUT: Final = "<local-command-stdout>"
"""Comes with a command that the program answered itself."""

_NAME: Final = re.compile(r"<command-name>\s*(/?[^<>\s]+)\s*</command-name>")
_ARGUMENTS: Final = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)


def typed_in(text: str) -> str | None:
    """Return a command as the user typed it; None if there is none, or it is for the program."""
    named = _NAME.search(text)
    if named is None or OUTPUT in text:
        return None
    name = f"/{named[1].removeprefix('/')}"
    given = _ARGUMENTS.search(text)
    words = given[1].strip() if given is not None else ""
    return None if name in LOCAL else f"{name} {words}".rstrip()
