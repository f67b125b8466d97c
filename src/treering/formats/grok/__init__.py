"""The readers of Grok Build: the updates of a session, and the history of messages it sends.

    ~/.grok/sessions/PROJECT/SESSION/updates.jsonl         all that happened, with times
    ~/.grok/sessions/PROJECT/SESSION/chat_history.jsonl    what the model is sent, without times
    ~/.grok/sessions/PROJECT/SESSION/summary.json          the project, the branch, the title

Grok rewrites the history when it compacts it, and only adds to the updates. So the history is read
only where the updates do not tell what was said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treering.formats.format import Format, LogPlace
from treering.formats.grok import history, updates
from treering.formats.grok.history import HISTORY, NAME, UPDATES, tells_all

if TYPE_CHECKING:
    from pathlib import Path

_BESIDE: Final = frozenset({"summary.json", "signals.json", "prompt_context.json"})


def _left_out(path: Path) -> str | None:
    if path.name == HISTORY and tells_all(path.with_name(UPDATES)):
        return "a history, which the updates beside it tell in full"
    if not any(path.with_name(log).exists() for log in (HISTORY, UPDATES)):
        return None
    if path.name == "events.jsonl":
        return "events that repeat a history"
    return "facts about a session, read with its log" if path.name in _BESIDE else None


FORMAT: Final = (
    Format(
        name=NAME,
        score=history.score,
        reader=history.HistoryReader,
        version=2,
        places=(LogPlace(".grok", "sessions", "GROK_HOME"),),
        left_out=_left_out,
    ),
    Format(
        name=NAME,
        score=updates.score,
        reader=updates.UpdatesReader,
        records=updates.records,
        version=2,
    ),
)
