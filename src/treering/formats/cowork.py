"""Claude Cowork: Claude Code's transcripts, in the folders of sessions of Claude's desktop program.

    local-agent-mode-sessions/ORGANISATION/WORKSPACE/local_ID.json       the title, the folders
    local-agent-mode-sessions/ORGANISATION/WORKSPACE/local_ID/.claude/projects/…/SESSION.jsonl
    local-agent-mode-sessions/ORGANISATION/WORKSPACE/local_ID/audit.jsonl    the same as a stream

The stream is read only if the transcript is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats import claude_code
from treering.formats.format import Format, LogPlace
from treering.formats.loose import read_beside, word
from treering.spine.words import shorten

if TYPE_CHECKING:
    from pathlib import Path, PurePath

    from treering.formats.claude_code.lines import LogLine
    from treering.formats.parsed import SessionHeader

NAME: Final = "claude-cowork"
_FOLDER: Final = "local-agent-mode-sessions"
_STREAM: Final = "audit.jsonl"
_SESSION: Final = "local_"


class CoworkReader(claude_code.ClaudeCodeReader):
    """Reads a transcript, with what the program knows of its session."""

    agent = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        super().__init__(path)
        folder = _session_folder(path)
        self._about = {} if folder is None else read_beside(folder, f"{folder.name}.json")

    def _new_header(self, line: LogLine) -> SessionHeader:
        header = super()._new_header(line)
        folders = self._about.get("userSelectedFolders")
        chosen = word(folders[0]) if isinstance(folders, list) and folders else None
        title = None if header.parent else word(self._about.get("title"))
        return msgspec.structs.replace(
            header, cwd=chosen, title=shorten(title) if title else header.title
        )


def _session_folder(path: PurePath | None) -> PurePath | None:
    """Return the folder of the session that a file belongs to."""
    parents: Any = () if path is None else path.parents
    return next((parent for parent in parents if parent.name.startswith(_SESSION)), None)


def _left_out(path: Path) -> str | None:
    if _FOLDER not in path.parts:
        return None
    if path.name == _STREAM and any(path.parent.glob(".claude/projects/*/*.jsonl")):
        return "a stream that repeats a transcript"
    is_about = path.name.startswith(_SESSION) and path.with_suffix("").is_dir()
    return "what a session is, which is read with its transcript" if is_about else None


FORMAT: Final = Format(
    name=NAME,
    version=2,
    reader=CoworkReader,
    family=(claude_code.NAME,),
    claims=lambda path: _FOLDER in path.parts,
    left_out=_left_out,
    places=tuple(
        LogPlace(f"{base}/Claude/{_FOLDER}")
        for base in ("Library/Application Support", ".config", "AppData/Roaming")
    ),
)
