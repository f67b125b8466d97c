"""What a tool changed in files: from its arguments, a patch, or a recorded diff, to hunks of lines.

Lines that changed a little are compared word by word.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.surfaces.pages.blocks import DiffBlock, DiffHunk, DiffRow, Sign, StyledLine
from treering.surfaces.pages.styles import code_lines, language_of, marked, plain_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

CONTEXT_LINES: Final = 3
COMPARE_LINES_MAX: Final = 3_000
"""More lines than this are not compared: all of the old ones are removed, the new ones added."""
WORD_CHARACTERS_MAX: Final = 600
"""Longer lines are not compared word by word."""
LIKENESS_MIN: Final = 0.45
"""Lines that are less alike are shown as different ones."""
PAIRS_MAX: Final = 100
"""In a change of more pairs of lines, no words are compared."""
_WORDS: Final = re.compile(r"\w+|\s+|[^\w\s]")
_PATHS: Final = (
    "file_path", "path", "notebook_path", "filePath", "absolute_path", "filename", "file",
    "target_file",
)  # fmt: skip
_PAIRS: Final = (
    ("old_string", "new_string"), ("oldText", "newText"), ("old_str", "new_str"),
    ("old_text", "new_text"), ("oldString", "newString"), ("search", "replace"),
)  # fmt: skip
"""Names that tools use for the text that an edit removes, and for the text that it adds."""
_WRITTEN: Final = ("content", "file_text", "contents", "new_source", "text")
_PATCHES: Final = ("patch", "input", "diff", "patch_text")
_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_FILE_MARKS: Final = (
    ("*** Update File: ", ""),
    ("*** Add File: ", "new file"),
    ("*** Delete File: ", "deleted"),
)
_MOVED: Final = "*** Move to: "
_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """What changed in one file: hunks of signed lines, with numbers if they are known."""

    path: str
    hunks: tuple[ChangeHunk, ...]
    note: str = ""


class ChangeHunk(msgspec.Struct, frozen=True, kw_only=True):
    """Adjacent signed lines."""

    rows: tuple[tuple[Sign, str], ...]
    title: str = ""
    before_number: int | None = None
    after_number: int | None = None


def path_in(given: Mapping[str, Any]) -> str:
    """Return the file that arguments name; empty if they name none."""
    return next((path for name in _PATHS if isinstance(path := given.get(name), str) and path), "")


def changes_in(given: Mapping[str, Any], *, is_write: bool) -> list[FileChange]:
    """Return what a tool was asked to change; nothing if it is not an edit.

    With ``is_write``, a text beside the name of a file is its new content.
    """
    patch = next((text for text in _patches(given) if _BEGIN in text), None)
    if patch is not None:
        return [*_patched(patch)]
    path = path_in(given)
    edits = given.get("edits")
    hunks = [
        hunk
        for edit in (edits if isinstance(edits, list) else [given])
        if isinstance(edit, dict)
        for hunk in _replaced(edit)
    ]
    if hunks:
        return [FileChange(path=path, hunks=tuple(hunks))]
    for name in ("diff", "patch", "unified_diff"):
        if isinstance(text := given.get(name), str) and (changes := [*unified(text, path=path)]):
            return changes
    if is_write and path:
        for name in _WRITTEN:
            if isinstance(text := given.get(name), str):
                rows = _all_added(text)
                return [FileChange(path=path, hunks=(ChangeHunk(rows=rows, after_number=1),))]
    if isinstance(added := given.get("new_str"), str) and "insert_line" in given:
        rows = _all_added(added)
        line = given["insert_line"]
        number = line + 1 if isinstance(line, int) else None
        return [FileChange(path=path, hunks=(ChangeHunk(rows=rows, after_number=number),))]
    return []


def recorded_change(detail: Any, path: str) -> FileChange | None:
    """Return the diff that a tool returned with its result, if it did: it knows line numbers."""
    if not isinstance(detail, dict):
        return None
    path = path_in(detail) or path
    patch = detail.get("structuredPatch")
    if isinstance(patch, list) and patch and all(isinstance(hunk, dict) for hunk in patch):
        hunks = tuple(
            ChangeHunk(
                rows=_signed(hunk.get("lines")),
                before_number=_number(hunk.get("oldStart")),
                after_number=_number(hunk.get("newStart")),
            )
            for hunk in patch
        )
        return FileChange(path=path, hunks=hunks)
    return None


def unified(text: str, *, path: str = "") -> Iterator[FileChange]:
    """Return the files of a unified diff; nothing if the text is none."""
    hunks: list[ChangeHunk] = []
    rows: list[tuple[Sign, str]] = []
    before = ""
    left = [0, 0]
    """How many lines of the hunk are still to come: of the file before, and after."""
    for line in text.split("\n"):
        if max(left) > 0 and (line[:1] in {" ", "+", "-"} or not line):
            sign = _sign(line)
            rows.append((sign, line[1:]))
            left = [left[0] - (sign != "+"), left[1] - (sign != "-")]
            if max(left) <= 0:
                hunks[-1] = msgspec.structs.replace(hunks[-1], rows=tuple(rows))
        elif (match := _HUNK.match(line)) is not None:
            rows = []
            left = [int(match[2] or 1), int(match[4] or 1)]
            hunks.append(
                ChangeHunk(rows=(), before_number=int(match[1]), after_number=int(match[3]))
            )
        elif line.startswith("--- "):
            if hunks:
                yield FileChange(path=path, hunks=tuple(hunks))
                hunks = []
            before = line[4:]
        elif line.startswith("+++ "):
            named = before if line[4:].startswith("/dev/null") else line[4:]
            path = named.split("\t")[0].strip().removeprefix("a/").removeprefix("b/") or path
    if hunks:
        if max(left) > 0:  # The hunk is shorter than its header says.
            hunks[-1] = msgspec.structs.replace(hunks[-1], rows=tuple(rows))
        yield FileChange(path=path, hunks=tuple(hunks))


def diff_block(
    change: FileChange, clean: Callable[[str], str], *, lines_max: int | None = None
) -> DiffBlock:
    """Return a change as it is shown; ``clean`` returns a text as it may be shown."""
    language = language_of(change.path)
    added = sum(sign == "+" for hunk in change.hunks for sign, _ in hunk.rows)
    removed = sum(sign == "-" for hunk in change.hunks for sign, _ in hunk.rows)
    hunks: list[DiffHunk] = []
    room = lines_max
    cut = 0
    for hunk in change.hunks:
        rows = hunk.rows if room is None else hunk.rows[:room]
        cut += len(hunk.rows) - len(rows)
        if room is not None:
            room -= len(rows)
        if rows:
            shown = msgspec.structs.replace(hunk, rows=rows)
            hunks.append(
                DiffHunk(title=clean(hunk.title), rows=_drawn(shown, clean, language))
            )  # fmt: skip
    return DiffBlock(
        path=clean(change.path),
        added=added,
        removed=removed,
        hunks=tuple(hunks),
        note=clean(change.note),
        cut=cut,
    )


def _patches(given: Mapping[str, Any]) -> Iterator[str]:
    for name in _PATCHES:
        if isinstance(text := given.get(name), str):
            yield text
    command = given.get("command")
    for part in command if isinstance(command, list) else [command]:
        if isinstance(part, str):
            yield part


def _patched(text: str) -> Iterator[FileChange]:
    """Return the files of a patch in the form of ``apply_patch``."""
    body = text.partition(_BEGIN)[2].partition(_END)[0]
    path, note = "", ""
    lines: list[str] = []
    for line in [*body.split("\n"), "*** Update File: "]:
        file_mark = next((mark for mark in _FILE_MARKS if line.startswith(mark[0])), None)
        if file_mark is None:
            if line.startswith(_MOVED):
                note = f"renamed to {line[len(_MOVED) :]}"
            else:
                lines.append(line)
            continue
        if path:
            yield FileChange(path=path, hunks=tuple(_patch_hunks(lines, note)), note=note)
        path, note, lines = line[len(file_mark[0]) :].strip(), file_mark[1], []


def _patch_hunks(lines: Iterable[str], note: str) -> Iterator[ChangeHunk]:
    rows: list[tuple[Sign, str]] = []
    title = ""
    first = 1 if note == "new file" else None
    for line in lines:
        if line.startswith("@@"):
            if rows:
                yield ChangeHunk(rows=tuple(rows), title=title, after_number=first)
            rows, title = [], line.strip("@ ")
        elif line[:1] in {" ", "+", "-"}:
            rows.append((_sign(line), line[1:]))
    if rows:
        yield ChangeHunk(rows=tuple(rows), title=title, after_number=first)


def _replaced(edit: Mapping[str, Any]) -> Iterator[ChangeHunk]:
    """Return what an edit replaces, with the lines around that stay."""
    for before, after in _PAIRS:
        old, new = edit.get(before), edit.get(after)
        if isinstance(old, str) and isinstance(new, str):
            yield from compared(old, new)
            return


def compared(old: str, new: str) -> Iterator[ChangeHunk]:
    """Return the difference of two texts."""
    before, after = _lines(old), _lines(new)
    if len(before) + len(after) > COMPARE_LINES_MAX:
        every: list[tuple[Sign, str]] = [("-", line) for line in before]
        every += [("+", line) for line in after]
        yield ChangeHunk(rows=tuple(every))
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        rows: list[tuple[Sign, str]] = []
        for tag, first, behind, new_first, new_behind in group:
            if tag == "equal":
                rows += [(" ", line) for line in before[first:behind]]
            else:
                rows += [("-", line) for line in before[first:behind]]
                rows += [("+", line) for line in after[new_first:new_behind]]
        yield ChangeHunk(rows=tuple(rows))


def _all_added(text: str) -> tuple[tuple[Sign, str], ...]:
    return tuple(("+", line) for line in _lines(text))


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _drawn(
    hunk: ChangeHunk, clean: Callable[[str], str], language: str
) -> tuple[DiffRow, ...]:  # fmt: skip
    """Return rows with their syntax and the words that changed."""
    texts = [text for _, text in hunk.rows]
    whole = clean("\n".join(texts))
    lines: Sequence[StyledLine] = code_lines(whole, language)
    if len(lines) != len(texts):  # A secret spanned several lines.
        return tuple(DiffRow(" ", line) for line in plain_lines(whole))
    signs = [sign for sign, _ in hunk.rows]
    shown = [*lines]
    for at, mark_ranges, style in _changed_words(signs, whole.split("\n")):
        shown[at] = marked(shown[at], mark_ranges, style)
    before, after = hunk.before_number, hunk.after_number
    rows: list[DiffRow] = []
    for sign, line in zip(signs, shown, strict=True):
        rows.append(DiffRow(sign, line, before if sign == "-" else after))
        before = before + 1 if before is not None and sign != "+" else before
        after = after + 1 if after is not None and sign != "-" else after
    return tuple(rows)


def _changed_words(
    signs: Sequence[Sign], texts: Sequence[str]
) -> Iterator[tuple[int, list[tuple[int, int]], str]]:
    """Return for each changed line which of its characters changed."""
    runs = [
        (sign, [at for at, _ in group])
        for sign, group in groupby(enumerate(signs), key=lambda pair: pair[1])
    ]
    for (sign, removed), (next_sign, added) in pairwise(runs):
        if (sign, next_sign) != ("-", "+"):
            continue
        if len(removed) * len(added) > PAIRS_MAX:
            continue
        words = {at: _WORDS.findall(texts[at]) for at in (*removed, *added)}
        rest = added
        for old_at in removed:
            matchers = {
                at: SequenceMatcher(None, words[old_at], words[at], autojunk=False)
                for at in rest
                if max(len(texts[old_at]), len(texts[at])) <= WORD_CHARACTERS_MAX
            }
            new_at = max(matchers, key=lambda at: matchers[at].ratio(), default=None)
            if new_at is None or matchers[new_at].ratio() < LIKENESS_MIN:
                continue
            rest = [at for at in rest if at > new_at]
            changed = [code for code in matchers[new_at].get_opcodes() if code[0] != "equal"]
            yield old_at, _ranges(words[old_at], [code[1:3] for code in changed]), "wd"
            yield new_at, _ranges(words[new_at], [code[3:5] for code in changed]), "wi"


def _ranges(words: Sequence[str], parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the characters that runs of words take."""
    edges = [0]
    for word in words:
        edges.append(edges[-1] + len(word))
    return [(edges[first], edges[behind]) for first, behind in parts if behind > first]


def _signed(lines: Any) -> tuple[tuple[Sign, str], ...]:
    if not isinstance(lines, list):
        return ()
    texts = [line for line in lines if isinstance(line, str) and line[:1] in {" ", "+", "-"}]
    return tuple((_sign(line), line[1:]) for line in texts)


def _sign(line: str) -> Sign:
    return "+" if line[:1] == "+" else "-" if line[:1] == "-" else " "


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
