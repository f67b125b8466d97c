"""Agents that write another agent's format, in their own folders."""

from __future__ import annotations

from typing import Final

from treering.formats.format import Format, LogPlace

FORMAT: Final = (
    Format(
        name="iflow",
        family=("claude-code", "gemini", "qwen"),
        places=(LogPlace(".iflow", "projects"), LogPlace(".iflow", "tmp")),
    ),
    Format(
        name="trae",
        family=("codex",),
        places=(
            LogPlace(".trae", "cli/sessions"),
            LogPlace(".trae", "cli/archived_sessions"),
            LogPlace(".trae", "sessions"),
        ),
    ),
    Format(name="prime", family=("pi",), places=(LogPlace(".prime/agent", "sessions"),)),
    Format(name="omp", family=("pi",), places=(LogPlace(".omp/agent", "sessions"),)),
)
