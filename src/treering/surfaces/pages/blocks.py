"""What an event looks like, as a small tree of values that every renderer draws the same way.

    entries ─► display.py ─► blocks ─┬─► blocks_html.py      exported page, viewer
                                     ├─► cli/show.py         treering show
                                     └─► session_files.py    Markdown

All texts in a tree are clean: secrets are masked, and nothing in them steers a terminal.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

TaskState = Literal["done", "doing", "dropped", "open"]
Sign = Literal[" ", "+", "-"]
BOXES: Final[dict[TaskState, str]] = {"done": "x", "doing": "~", "dropped": "-", "open": " "}


class TextSpan(msgspec.Struct, frozen=True, gc=False):
    """A piece of a line in one style."""

    text: str
    style: str = ""
    """Names of ``styles.py``, separated by blanks."""


StyledLine = tuple[TextSpan, ...]


class ProseBlock(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A text in Markdown."""

    text: str


class TextBlock(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Lines as they were: a command, code, the output of a tool."""

    label: str
    """What it is: input, output, command, error."""
    lines: tuple[StyledLine, ...]
    first_number: int | None = None
    """The number of the first line in its file, if it is known."""
    cut: int = 0
    """Characters that were left out, at the end or, if ``is_end``, at the beginning."""
    is_end: bool = False


class DiffRow(msgspec.Struct, frozen=True, gc=False):
    """One line of a diff; the words that changed have a style of their own."""

    sign: Sign
    spans: StyledLine
    number: int | None = None
    """In the file before if it was removed, else in the file after."""


class DiffHunk(msgspec.Struct, frozen=True, kw_only=True):
    """Adjacent lines of a diff."""

    title: str
    rows: tuple[DiffRow, ...]


class DiffBlock(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a tool changed in one file."""

    path: str
    added: int
    removed: int
    hunks: tuple[DiffHunk, ...]
    note: str = ""
    """Such as new file, deleted, or the new name."""
    cut: int = 0
    """Lines that were left out."""


class TaskItem(msgspec.Struct, frozen=True):
    """One task of a list."""

    text: str
    state: TaskState


class TasksBlock(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A list of tasks."""

    tasks: tuple[TaskItem, ...]


class AnswerOption(msgspec.Struct, frozen=True):
    """One answer that a question offered."""

    label: str
    description: str
    is_chosen: bool


class QuestionBlock(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A question to the user, and the answer."""

    text: str
    options: tuple[AnswerOption, ...]
    answer: str
    """The answer, if it is not one of the options."""


class WebSource(msgspec.Struct, frozen=True):
    """One result of a search on the web."""

    title: str
    address: str
    excerpt: str = ""


class SourcesBlock(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Results of a search on the web."""

    sources: tuple[WebSource, ...]


class PictureBlock(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A picture of the recording: ``data`` has bytes that were recognised as ``mime``."""

    name: str
    mime: str
    data: str
    """In base64."""
    bytes_count: int
    event_id: str
    number: int
    """Its place among the pictures of the event, from 0."""
    width: int
    height: int


class AttachmentBlock(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An attachment that is not shown: what it is, and how large."""

    text: str


class SubagentBlock(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The session of a subagent that a tool call began."""

    session_id: str
    title: str
    agent: str
    facts: tuple[str, ...]
    """Turns, tool calls, tokens and cost of its own."""


Block = (
    ProseBlock | TextBlock | DiffBlock | TasksBlock | QuestionBlock | SourcesBlock
    | PictureBlock | AttachmentBlock | SubagentBlock
)  # fmt: skip
