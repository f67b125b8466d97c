"""The readers of Cursor: transcripts, the database of the editor, and chats in the terminal."""

from __future__ import annotations

from typing import Final

from treering.formats.cursor import chats, composers, transcripts
from treering.formats.format import Format, LogPlace, OwnShare

NAME: Final = "cursor"
_EDITOR: Final = (
    ".config/Cursor/User",
    "Library/Application Support/Cursor/User",
    "AppData/Roaming/Cursor/User",
)
_DATABASES: Final = ("globalStorage/state.vscdb", "workspaceStorage/*/state.vscdb")
_SCORE: Final = OwnShare(lambda value: composers.is_row(value) or transcripts.is_own(value))

FORMAT: Final = (
    Format(
        name=NAME,
        score=_SCORE,
        reader=transcripts.TranscriptReader,
        places=(LogPlace(".cursor", "projects/*/agent-transcripts"),),
    ),
    Format(
        name=NAME,
        content="text",
        score=transcripts.text_score,
        reader=transcripts.TranscriptReader,
        records=transcripts.records,
        patterns=transcripts.PATTERNS,
        left_out=transcripts.left_out,
    ),
    Format(
        name=NAME,
        content="sqlite",
        score=composers.score_tables,
        reader=composers.ComposerReader,
        records=composers.records,
        patterns=("state.vscdb",),
        places=tuple(LogPlace(base, logs) for base in _EDITOR for logs in _DATABASES),
    ),
    Format(
        name=NAME,
        content="sqlite",
        score=chats.score,
        reader=chats.ChatReader,
        records=chats.records,
        places=(LogPlace(".cursor", "chats"),),
    ),
)
