"""A tool call as blocks, recognised by its arguments rather than by its name.

An unknown tool is shown as formatted JSON, with its output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from typing import Any, Final, Literal

import msgspec

from treering.model.codec import decode, encode
from treering.surfaces.pages.blocks import (
    AnswerOption,
    Block,
    DiffBlock,
    DiffHunk,
    DiffRow,
    ProseBlock,
    QuestionBlock,
    Sign,
    SourcesBlock,
    StyledLine,
    TaskItem,
    TasksBlock,
    TaskState,
    TextBlock,
    WebSource,
)
from treering.surfaces.pages.styles import (
    code_lines,
    language_of,
    marked,
    plain_lines,
    plain_text,
    terminal_lines,
)

ToolSort = Literal[
    "read", "search", "edit", "shell", "tasks", "question", "plan", "web", "agent", "other"
]

TAIL_LINES: Final = 6
"""The last lines of a failed call, which are always shown."""
DIFF_LINES_MAX: Final = 400
"""Lines of a diff, where texts are shortened."""
SOURCES_MAX: Final = 50
_NAMES: Final[dict[ToolSort, tuple[str, ...]]] = {
    "read": (
        "read", "readfile", "view", "viewfile", "openfile", "ls", "listdir", "listdirectory",
        "readmanyfiles", "notebookread", "listfiles",
    ),
    "search": (
        "grep", "glob", "search", "searchfiles", "searchfilecontent", "find", "findfiles", "rg",
        "ripgrep", "grepsearch", "codebasesearch", "filesearch", "toolsearch", "searchtext",
    ),
    "edit": (
        "write", "writefile", "create", "createfile", "savefile", "edit", "multiedit", "replace",
        "editfile", "strreplace", "applypatch", "notebookedit", "strreplaceeditor",
        "strreplacebasededittool", "searchreplace",
    ),
    "shell": (
        "bash", "shell", "exec", "execcommand", "runshellcommand", "runcommand", "terminal",
        "localshell", "executecommand", "runterminalcmd", "shellcommand", "powershell",
    ),
    "tasks": ("todowrite", "updateplan", "writetodos", "todo", "todos"),
    "question": ("askuserquestion", "askuser", "requestuserinput", "askquestion"),
    "web": ("websearch", "googlewebsearch", "webfetch", "fetch", "fetchurl"),
    "agent": ("task", "agent", "spawnagent", "subagent", "sessionsspawn"),
    "plan": ("exitplanmode", "plan"),
}  # fmt: skip
_SORTS: Final[dict[str, ToolSort]] = {
    name: sort for sort, names in _NAMES.items() for name in names
}
_WRITES: Final = frozenset({
    "write", "writefile", "create", "createfile", "savefile", "notebookedit", "strreplaceeditor",
    "strreplacebasededittool",
})  # fmt: skip
_STATES: Final[dict[str, TaskState]] = {
    "completed": "done", "done": "done", "in_progress": "doing", "cancelled": "dropped",
}  # fmt: skip
_TASK_TEXTS: Final = ("content", "step", "description", "title", "text", "subject")
_COMMANDS: Final = ("command", "cmd", "script")
_EXIT_NAMES: Final = ("exit_code", "exitCode", "returncode", "return_code", "code")
_EXIT_TEXTS: Final = (
    re.compile(r"\AExit code:? (-?\d{1,9})\n"),
    re.compile(r"^Exit Code: (-?\d{1,9})$", re.MULTILINE),
    re.compile(r"^Process exited with code (-?\d{1,9})$", re.MULTILINE),
    re.compile(r"\AError: Exit code (-?\d{1,9})\b"),
)
_PREAMBLE: Final = re.compile(
    r"\A(?:Error: )?(?:Exit code:? -?\d+|Process exited with code -?\d+|Wall time: [^\n]*"
    r"|Chunk ID: [^\n]*|Total output lines: \d+|Original token count: \d+)\n?"
)
_GEMINI: Final = re.compile(
    r"\ACommand: .*?^Output: (.*?)^Error: (.*?)^Exit Code: ", re.DOTALL | re.MULTILINE
)
_NUMBERED: Final = re.compile(r" {0,8}(\d{1,7})(?:→|\t)(.*)")
_SOURCE_LINKS: Final = re.compile(r"^Links: (\[.*\])\s*$", re.MULTILINE)
_LISTED_SOURCE: Final = re.compile(
    r"^\[\d+\] (.{1,300}?) \((https?://[^\s)]{1,2000})\)$", re.MULTILINE
)
_ANSWERED: Final = re.compile(r'"([^"\n]{1,500})"="([^"\n]{0,2000})"')


class ToolContent(msgspec.Struct, frozen=True, kw_only=True):
    """Input and output of a tool, masked."""

    name: str
    given: dict[str, Any]
    output: str
    """As text; empty if it has none, or it is not available."""
    result: Any
    """The payload of the result."""
    is_failed: bool


class ToolBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call as it is shown."""

    sort: ToolSort
    blocks: tuple[Block, ...]
    facts: tuple[str, ...]
    """In a few words: exit code, lines added and removed."""
    exit_code: int | None = None


def sort_of(name: str, given: Mapping[str, Any]) -> ToolSort:
    """Return what a tool does."""
    plain = re.sub(r"[^a-z]", "", name.rpartition("__")[2].lower())
    command = given.get("command")
    if _SORTS.get(plain) == "edit" and command == "view":
        return "read"
    if changes_in(given, is_write=plain in _WRITES):
        return "edit"
    if _tasks(given):
        return "tasks"
    if named_sort := _SORTS.get(plain):
        return named_sort
    if _questions(given):
        return "question"
    return "shell" if _command(given) and not path_in(given) else "other"


def tool_blocks(
    content: ToolContent, clean: Callable[[str], str], *, characters_max: int | None
) -> ToolBlocks:
    """Return the blocks of a call. Texts beyond ``characters_max`` are cut."""
    given = content.given
    sort = sort_of(content.name, given)
    draw = _Drawing(content, clean, characters_max)
    match sort:
        case "edit":
            return draw.edit()
        case "shell":
            return draw.shell()
        case "tasks":
            done = [*_tasks(given)]
            tasks = tuple(TaskItem(clean(item.text), item.state) for item in done)
            return draw.made(sort, TasksBlock(tasks=tasks), with_output=content.is_failed)
        case "question" if questions := [*draw.questions()]:
            return draw.made(sort, *questions, with_output=content.is_failed)
        case "plan" if isinstance(plan := given.get("plan"), str):
            return draw.made(sort, ProseBlock(text=clean(plan)), with_output=content.is_failed)
        case "web":
            return draw.web()
        case "search":
            return draw.made(sort, *draw.options(), with_output=True)
        case "read":
            return ToolBlocks(sort=sort, blocks=(*draw.options(), *draw.file()), facts=())
        case "agent" if isinstance(prompt := given.get("prompt"), str):
            answer = [ProseBlock(text=clean(content.output))] if content.output else []
            blocks = (ProseBlock(text=clean(prompt)), *(answer if not content.is_failed else ()))
            return draw.made(sort, *blocks, with_output=content.is_failed)
        case _:
            return draw.made(sort, *draw.input(), with_output=True)


def tail_lines(blocks: tuple[Block, ...]) -> tuple[StyledLine, ...]:
    """Return the last lines of the output."""
    for block in reversed(blocks):
        if isinstance(block, TextBlock) and block.label in {"output", "error"}:
            filled = [line for line in block.lines if any(span.text.strip() for span in line)]
            return tuple(filled[-TAIL_LINES:])
    return ()


class _Drawing:
    """Turns one call into blocks."""

    def __init__(
        self, content: ToolContent, clean: Callable[[str], str], characters_max: int | None
    ) -> None:
        self._content = content
        self._clean = clean
        self._max = characters_max

    def made(self, sort: ToolSort, *blocks: Block, with_output: bool) -> ToolBlocks:
        """Return blocks, and the output after them if it adds something."""
        output = self.output() if with_output else ()
        return ToolBlocks(sort=sort, blocks=(*blocks, *output), facts=())

    def input(self) -> Iterator[TextBlock]:
        """Return the arguments: the one text, or all as JSON."""
        given = self._content.given
        if len(given) == 1 and isinstance(only := next(iter(given.values())), str):
            yield self.text("input", f"{next(iter(given))}: {only}")
        elif given:
            tidy = msgspec.json.format(encode(given), indent=2).decode()
            yield self.text("input", tidy, language="json")

    def options(self) -> Iterator[TextBlock]:
        """Return the arguments of a call whose line names its file."""
        rest = {name: value for name, value in self._content.given.items() if name not in _TOLD}
        if rest:
            yield self.text(
                "input", ", ".join(f"{name}: {_short(value)}" for name, value in rest.items())
            )

    def output(self) -> Iterator[TextBlock]:
        """Return the output: as JSON if it is some, else as a terminal would show it."""
        text = self._content.output
        if not text.strip():
            return
        label = "error" if self._content.is_failed else "output"
        if text[:1] in "{[" and (tidy := _tidy(text)) is not None:
            yield self.text(label, tidy, language="json")
        else:
            yield self.text(label, text, is_terminal=True)

    def file(self) -> Iterator[TextBlock]:
        """Return the output of a read: its lines with their numbers and syntax."""
        content = self._content
        if content.is_failed or not content.output:
            yield from self.output()
            return
        rows = [_NUMBERED.fullmatch(line) for line in content.output.rstrip("\n").split("\n")]
        lead = len([*_while(rows)])
        text, first = content.output, None
        # Some tools add a remark below the numbered lines.
        if rows and rows[0] is not None and all(row is None for row in rows[lead:]):
            text = "\n".join(row[2] for row in _while(rows))
            first = int(rows[0][1])
        block = self.text("output", text.rstrip("\n"), language=language_of(path_in(content.given)))
        yield msgspec.structs.replace(block, first_number=first)

    def edit(self) -> ToolBlocks:
        content = self._content
        plain = re.sub(r"[^a-z]", "", content.name.lower())
        asked = changes_in(content.given, is_write=plain in _WRITES)
        result = content.result if isinstance(content.result, dict) else {}
        recorded = [
            change
            for name in ("detail", "details")
            if (change := recorded_change(result.get(name), path_in(content.given))) is not None
        ]
        changes = recorded[:1] if len(asked) <= 1 and recorded else asked
        lines_max = None if self._max is None else DIFF_LINES_MAX
        diffs = [diff_block(change, self._clean, lines_max=lines_max) for change in changes]
        if not diffs:
            return self.made("edit", *self.input(), with_output=True)
        facts = _counts(diffs)
        made = self.made("edit", *diffs, with_output=content.is_failed)
        return msgspec.structs.replace(made, facts=facts)

    def shell(self) -> ToolBlocks:
        content = self._content
        command = _command(content.given)
        if not command:
            return self.made("shell", *self.input(), with_output=True)
        code, output = exit_code(content.result, content.output)
        block = self.text("command", command, language="bash")
        label = "error" if content.is_failed or code else "output"
        shown = [self.text(label, output, is_terminal=True)] if output.strip() else []
        facts = () if not code else (f"exit {code}",)
        return ToolBlocks(sort="shell", blocks=(block, *shown), facts=facts, exit_code=code)

    def questions(self) -> Iterator[QuestionBlock]:
        answers = _answers(self._content)
        for text, options in _questions(self._content.given):
            answer = answers.get(text, "")
            chosen = {part.strip() for part in answer.split(",")} | {answer}
            drawn = tuple(
                AnswerOption(self._clean(label), self._clean(why), bool(label) and label in chosen)
                for label, why in options
            )
            other = "" if any(option.is_chosen for option in drawn) else self._clean(answer)
            yield QuestionBlock(text=self._clean(text), options=drawn, answer=other)

    def web(self) -> ToolBlocks:
        content = self._content
        sources = tuple(
            WebSource(
                self._clean(source.title), self._clean(source.address), self._clean(source.excerpt)
            )
            for source in _sources(content)[:SOURCES_MAX]
        )
        blocks: list[Block] = [SourcesBlock(sources=sources)] if sources else []
        prompt = content.given.get("prompt")
        if isinstance(prompt, str):
            blocks.insert(0, self.text("input", prompt))
        text = _SOURCE_LINKS.sub("", content.output)
        if content.is_failed:
            return self.made("web", *blocks, with_output=True)
        if text.strip() and (not sources or len(text) > 400):
            blocks.append(ProseBlock(text=self._cut(self._clean(text))[0]))
        return self.made("web", *blocks, with_output=False)

    def text(
        self, label: str, text: str, *, language: str = "", is_terminal: bool = False
    ) -> TextBlock:
        """Return a text with its colours, cut if it is long: of a failure, the end is kept."""
        is_end = label == "error"
        if is_terminal and "\x1b" in text:
            lines = terminal_lines(text, self._clean)
            whole = plain_text(lines)
            if self._max is None or len(whole) <= self._max:
                return TextBlock(label=label, lines=lines)
            shown, cut = self._cut(whole, is_end=is_end)
            return TextBlock(label=label, lines=plain_lines(shown), cut=cut, is_end=is_end)
        shown, cut = self._cut(self._clean(text).rstrip("\n"), is_end=is_end)
        lines = terminal_lines(shown, str) if is_terminal else code_lines(shown, language)
        return TextBlock(label=label, lines=lines, cut=cut, is_end=is_end)

    def _cut(self, text: str, *, is_end: bool = False) -> tuple[str, int]:
        if self._max is None or len(text) <= self._max:
            return text, 0
        return (text[-self._max :] if is_end else text[: self._max]), len(text) - self._max


_TOLD: Final = frozenset(
    {"file_path", "path", "absolute_path", "notebook_path", "pattern", "filePath"}
)


def exit_code(result: Any, output: str) -> tuple[int | None, str]:
    """Return the exit code of a command, and its output without the lines that only state it."""
    code: int | None = None
    fields = result if isinstance(result, dict) else {}
    inner = _parsed(output)
    if isinstance(inner, dict) and isinstance(text := inner.get("output"), str):
        metadata = inner.get("metadata")
        code = _code_in(metadata if isinstance(metadata, dict) else inner)
        output = text
    for holder in (fields, fields.get("details"), fields.get("detail"), fields.get("output")):
        if code is None and isinstance(holder, dict):
            code = _code_in(holder)
    for pattern in _EXIT_TEXTS:
        if code is None and (match := pattern.search(output)) is not None:
            code = int(match[1])
    if (match := _GEMINI.match(output)) is not None:
        parts = [part.strip("\n") for part in match.groups()]
        return code, "\n".join(part for part in parts if part not in {"(none)", "(empty)"})
    rest = output
    while (match := _PREAMBLE.match(rest)) is not None and match.end():
        rest = rest[match.end() :]
    return code, rest.removeprefix("Output:\n") if rest != output else output


def _code_in(fields: Mapping[str, Any]) -> int | None:
    for name in _EXIT_NAMES[:-1]:
        value = fields.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _command(given: Mapping[str, Any]) -> str:
    value = next((given[name] for name in _COMMANDS if given.get(name)), None)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        # ``bash -lc "…"`` says no more than the command in it.
        return value[-1] if len(value) == 3 and value[1] in {"-c", "-lc"} else " ".join(value)
    return ""


def _tasks(given: Mapping[str, Any]) -> list[TaskItem]:
    tasks = given.get("todos") or given.get("plan") or given.get("items")
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        return []
    texts = [
        next((task[name] for name in _TASK_TEXTS if isinstance(task.get(name), str)), "")
        for task in tasks
    ]
    has_states = any("status" in task for task in tasks)
    states = [_STATES.get(str(task.get("status")), "open") for task in tasks]
    return [*map(TaskItem, texts, states)] if has_states and all(texts) else []


def call_hint(given: Mapping[str, Any]) -> str:
    """Return the most telling words of a call; empty for an unknown tool."""
    if tasks := _tasks(given):
        done = sum(task.state == "done" for task in tasks)
        return f"{done:,} of {len(tasks):,} {'task' if len(tasks) == 1 else 'tasks'} done"
    if not path_in(given) and (changes := changes_in(given, is_write=False)):
        return ", ".join(change.path for change in changes)
    if questions := _questions(given):
        return questions[0][0]
    if command := _command(given):
        return command if given.get("command") != "view" else path_in(given)
    pattern, plan = given.get("pattern"), given.get("plan")
    if isinstance(pattern, str) and path_in(given):
        return f"{pattern} in {path_in(given)}"
    return plan.strip().partition("\n")[0] if isinstance(plan, str) else ""


def _questions(given: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    asked = given.get("questions")
    every = asked if isinstance(asked, list) else [given]
    questions = []
    for question in every:
        text = question.get("question") if isinstance(question, dict) else None
        if isinstance(text, str):
            options = question.get("options")
            questions.append(
                (
                    text,
                    [_option(two) for two in options if two] if isinstance(options, list) else [],
                )
            )
    return questions if isinstance(asked, list) or any(options for _, options in questions) else []


def _option(value: Any) -> tuple[str, str]:
    if isinstance(value, dict):
        label, why = value.get("label"), value.get("description")
        return (label if isinstance(label, str) else "", why if isinstance(why, str) else "")
    return (value, "") if isinstance(value, str) else ("", "")


def _answers(content: ToolContent) -> dict[str, str]:
    """Return the answer to each question."""
    result = content.result if isinstance(content.result, dict) else {}
    inner = _parsed(content.output)
    for holder in (result.get("detail"), result.get("details"), inner):
        answers = holder.get("answers") if isinstance(holder, dict) else None
        if isinstance(answers, dict):
            return {question: _answer(answer) for question, answer in answers.items()}
    parsed = dict(_ANSWERED.findall(content.output))
    questions = _questions(content.given)
    if not parsed and len(questions) == 1 and not content.is_failed:
        return {questions[0][0]: content.output.strip()}
    return parsed


def _answer(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("answers", value.get("answer"))
    if isinstance(value, list):
        return ", ".join(answer for answer in value if isinstance(answer, str))
    return value if isinstance(value, str) else ""


def _sources(content: ToolContent) -> list[WebSource]:
    """Return the results of a search, wherever the tool puts them."""
    result = content.result if isinstance(content.result, dict) else {}
    links = _SOURCE_LINKS.search(content.output)
    for value in (
        result.get("detail"),
        result.get("details"),
        _parsed(content.output),
        _parsed(links[1]) if links else None,
    ):
        if sources := [*_sources_in(value, levels=4)]:
            return sources
    return [WebSource(title, address) for title, address in _LISTED_SOURCE.findall(content.output)]


def _sources_in(value: Any, levels: int) -> Iterator[WebSource]:
    if isinstance(value, list) and levels:
        for item in value:
            yield from _sources_in(item, levels - 1)
    elif isinstance(value, dict) and levels:
        title, address = value.get("title"), value.get("url") or value.get("link")
        if isinstance(title, str) and isinstance(address, str):
            excerpt = value.get("snippet") or value.get("description") or ""
            yield WebSource(title, address, excerpt if isinstance(excerpt, str) else "")
            return
        for name in ("results", "content", "items", "sources"):
            yield from _sources_in(value.get(name), levels - 1)


def _counts(diffs: list[DiffBlock]) -> tuple[str, ...]:
    added, removed = sum(diff.added for diff in diffs), sum(diff.removed for diff in diffs)
    counts = f"+{added:,} −{removed:,}"  # noqa: RUF001  (a minus sign, as wide as the plus)
    return (counts,) if len(diffs) == 1 else (f"{len(diffs)} files", counts)


def _while(rows: list[re.Match[str] | None]) -> Iterator[re.Match[str]]:
    for row in rows:
        if row is None:
            return
        yield row


def _short(value: Any) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def _tidy(text: str) -> str | None:
    value = _parsed(text)
    if not isinstance(value, dict | list):
        return None
    return msgspec.json.format(encode(value), indent=2).decode()


def _parsed(text: str) -> Any:
    if text[:1] not in {"{", "["} or len(text) > 1_000_000:
        return None
    try:
        return decode(text.encode())
    except (ValueError, RecursionError):
        return None


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
