"""The reader of Aider's history: ``.aider.chat.history.md`` in a repository, Markdown without ids.

    # aider chat started at 2026-06-09 14:01:00     a session begins
    #### add a retry                                what the user typed, each line so
    > Applied edit to src/retry.py                  what Aider did and printed
    anything else                                   what the model said

The only times are those at which sessions began.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from treering.formats.codex.drafts import PendingEvent, called, observed, returned, said
from treering.formats.format import DatabaseReader, Format, LogPlace
from treering.formats.loose import fields_of, time_ms
from treering.formats.parsed import LogRecord, ParsedRecord, SessionHeader, content_key
from treering.formats.sources import open_source
from treering.formats.whole import UNFINISHED, WholeReader, failed, used
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path, PurePath

NAME: Final = "aider"
FILE: Final = ".aider.chat.history.md"
DEPTH_MAX: Final = 3
"""How deep below the home folder repositories are searched for."""
_STARTED: Final = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_TYPED: Final = "#### "
_PRINTED: Final = ">"
_MODEL: Final = re.compile(r"(?:Main model|Model|Models): ([^\s,]+)")
_TOKENS: Final = re.compile(
    r"Tokens: (?P<sent>[\d.,]+[kM]?) sent(?:, (?P<written>[\d.,]+[kM]?) cache write)?"
    r"(?:, (?P<read>[\d.,]+[kM]?) cache hit)?, (?P<received>[\d.,]+[kM]?) received"
    r"(?:.*?Cost: \$(?P<cost>[\d.]+) (?:message|request))?"
)
_EDITED: Final = re.compile(
    r"(?P<made>Applied edit to|Creating empty file|Created|Committing) (?P<path>\S.*)"
    r"|(?P<refused>Did not apply edit to|Skipping edits to|Failed to apply edit to)"
    r" (?P<missed>\S.*)"
)
_FAILED: Final = re.compile(
    r"litellm\.\w+|.*\b(?:Error|Exception):|The LLM did not conform|Only \d+ reflections allowed"
    r"|.*exceeds the \S+ token limit|Can't "
)
_UNITS: Final = {"k": 1_000, "M": 1_000_000}


def score(values: Sequence[Any]) -> float:
    """Return 1 for a text with the first line of a session, which no other program writes."""
    return float(any(_STARTED.fullmatch(line) for line in values if isinstance(line, str)))


def records(path: Path, _: DatabaseReader) -> Iterator[LogRecord]:
    """Yield the entries of a history: lines that belong together."""
    with open_source(path) as stream:
        text = stream.read().decode(errors="replace").replace("\x00", "\ufffd")
    yield from entries(text.removeprefix("\ufeff"))


def entries(text: str) -> Iterator[LogRecord]:
    """Yield the entries in a text; blank lines belong to the entry before them."""
    kinds = _Kinds()
    kind, held, line, offset = "blank", list[str](), 1, 0
    for number, text_line in enumerate(text.splitlines(keepends=True), start=1):
        next_kind = kinds.next(text_line)
        if next_kind is None and held:
            held.append(text_line)
            continue
        if next_kind == kind and next_kind != "start":
            held.append(text_line)
            continue
        if held:
            end = offset + sum(len(part.encode()) for part in held)
            yield LogRecord({"kind": kind, "lines": held}, line, offset, end)
            offset = end
        kind, held, line = next_kind or "blank", [text_line], number
    if held:
        end = offset + sum(len(part.encode()) for part in held)
        yield LogRecord({"kind": kind, "lines": held, "is_last": True}, line, offset, end)


class _Kinds:
    """Classifies a line, by its text and the lines before it."""

    def __init__(self) -> None:
        self._last = ""
        self._is_spaced = False
        """Whether Aider ends its own lines in two blanks, as it mostly does."""

    def next(self, line: str) -> str | None:
        """Return what a line is; None if it is blank."""
        if not line.strip():
            return None
        self._last = self._kind(line)
        return self._last

    def _kind(self, line: str) -> str:
        if _STARTED.fullmatch(line):
            return "start"
        is_typed, is_printed = line.startswith(_TYPED), line.startswith(_PRINTED)
        if not (is_typed or is_printed):
            return "answer"
        is_spaced = line.rstrip("\r\n").endswith("  ")
        self._is_spaced = self._is_spaced or is_spaced
        # A model writes headings and quotes as well: what it writes does not end in two blanks, and
        # Aider prints something before it waits for a user again.
        in_answer = self._last == "answer" and not is_spaced
        if in_answer and (is_typed or self._is_spaced):
            return "answer"
        return "typed" if is_typed else "printed"


class AiderReader(WholeReader):
    """Reads a history, an entry at a time."""

    agent = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        super().__init__(path)
        self._repository = str(path.parent) if path is not None else None
        self._session: str | None = None
        self._model: str | None = None

    def _read(self, record: LogRecord) -> list[ParsedRecord]:
        entry = fields_of(record.value)
        kind, stated = str(entry.get("kind")), entry.get("lines")
        lines = [str(line) for line in stated] if isinstance(stated, list) else []
        if kind == "answer" and entry.get("is_last") and self.is_live:
            return [ParsedRecord(record=record, skipped=UNFINISHED)]
        drafts = [*self._drafts(kind, lines)]
        if self._session is None:
            return [ParsedRecord(record=record, skipped="blank")]
        otherwise = "begins a session" if kind == "start" else "blank"
        return [self._outcome(record, self._session, drafts, otherwise)]

    def _drafts(self, kind: str, lines: list[str]) -> Iterator[PendingEvent]:
        if kind == "start" and lines:
            self._begin(lines[0])
            return
        if kind != "blank" and self._session is None:
            self._begin(None)
        session = str(self._session)
        if kind == "typed":
            typed = [line.removeprefix("####").strip() for line in lines if line.strip()]
            text = "\n".join(typed).strip()
            if text and text != "<blank>":
                yield said("user", self._key(session, ["user", text]), text)
        elif kind == "answer":
            text = "".join(line.rstrip("\n").rstrip() + "\n" for line in lines).strip()
            if text:
                more = {} if self._model is None else {"model": self._model}
                yield said("assistant", self._key(session, ["assistant", text]), text, **more)
        elif kind == "printed":
            yield from self._printed(
                [line.removeprefix(">").strip() for line in lines if line.strip()]
            )

    def _begin(self, line: str | None) -> None:
        """Open a session: it is named after its repository and when it began."""
        match = _STARTED.fullmatch(line) if line else None
        ts_ms = time_ms(match[1].replace(" ", "T")) if match else None
        folder = self._path.parent.name if self._path is not None else ""
        stamp = re.sub(r"\D", "", match[1]) if match else "unknown"
        session = "-".join(filter(None, (NAME, folder, stamp)))
        self._session, self._model = session, None
        header = SessionHeader(session=session, agent=self.agent, cwd=self._repository)
        self._open(header)
        self._is_at(session, ts_ms, is_about=True)

    def _printed(self, lines: list[str]) -> Iterator[PendingEvent]:
        """Yield edits as calls, usage, errors, and the rest as it was printed."""
        session, rest = str(self._session), list[str]()
        for line in lines:
            edit, tokens, model = _EDITED.match(line), _TOKENS.match(line), _MODEL.match(line)
            if model:
                self._model = model[1]
            if edit:
                yield from self._edit(session, edit, line)
            elif tokens:
                yield self._used(session, tokens, line)
            elif _FAILED.match(line):
                key = self._key(session, ["error", line])
                yield failed(key, shorten(line), {"message": line}, "printed")
            else:
                rest.append(line)
        if rest:
            text = "\n".join(rest)
            yield observed(self._key(session, ["printed", text]), "printed", {"text": text})

    def _edit(self, session: str, edit: re.Match[str], line: str) -> Iterator[PendingEvent]:
        key = self._key(session, ["edit", line])
        call_id = content_key(f"call.{key}")
        path = (edit["path"] or edit["missed"]).removesuffix("(--dry-run)").strip()
        yield called(f"call:{call_id}", call_id, "edit", {"path": path})
        error = {"class": "NotApplied", "message": shorten(line)} if edit["refused"] else None
        yield returned(f"result:{call_id}", call_id, "edit", line, error)

    def _used(self, session: str, tokens: re.Match[str], line: str) -> PendingEvent:
        """Return the usage of a message, which Aider prints rounded."""
        read, written = _count(tokens["read"]), _count(tokens["written"])
        key = self._key(session, ["usage", line])
        counts = {
            "input_tokens": max(_count(tokens["sent"]), read + written),
            "output_tokens": _count(tokens["received"]),
            "cached_tokens": read,
            "cache_creation_tokens": written,
        }
        cost = {"cost_usd": float(tokens["cost"])} if tokens["cost"] else {}
        stated = {**cost, "printed": line, "is_rounded": True}
        return used(key, counts, stated=stated, model=self._model)


def _count(text: str | None) -> int:
    if not text:
        return 0
    unit = _UNITS.get(text[-1], 1)
    try:
        return round(float(text.rstrip("kM").replace(",", "")) * unit)
    except ValueError:
        return 0


FORMAT: Final = Format(
    name=NAME,
    content="text",
    score=score,
    reader=AiderReader,
    records=records,
    patterns=(FILE,),
    places=tuple(LogPlace("", f"{'[!.]*/' * depth}{FILE}") for depth in range(DEPTH_MAX + 1)),
)
