"""What messages reveal without being understood: by keywords, argument names and punctuation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from treering.lazy import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering.model.messages import Call, Result

TEXT_CHARS_MAX: Final = 16_384
"""Characters of a text that are searched: its first and last half."""
ARGUMENTS_MAX: Final = 64
"""Values of a call's arguments that are searched."""
PATH_CHARS_MAX: Final = 200

_BREAKS: Final = lazy_pattern(r"(?<=[.!?])\s+|(?<=[。！？])|\n")  # noqa: RUF001  (CJK marks)
# Keywords are matched in lower case: ignoring case takes three times as long.
_DECIDED: Final = lazy_pattern(
    r"\b(?:decided?|decision|agreed|chose|chosen|settled on|going with|opted|(?:will|ll|to) use"
    r"|let'?s (?!see\b|look\b|check\b|try to see\b)|instead of|rather than)\b"
)
_REQUIRED: Final = lazy_pattern(
    r"\b(?:must|never|always|don'?t|do not|make sure|prefer|only use|should not|required?)\b"
)
_OPEN: Final = lazy_pattern(
    r"\b(?:(?<![/.-])to-?dos?(?![/-]|\.\w)|fixme|next steps?|next(?=,)|remaining|remains|not yet"
    r"|still needs?|still have to|pending|follow-?up|left to do|unfinished)\b|[-*] \[ \]"
)
_ASKED: Final = ("?", "？", "؟")  # noqa: RUF001  (as other scripts spell it)

# Bounded repetitions that start only at word boundaries, so that no text makes this slow.
_PATH: Final = lazy_pattern(
    r"(?<![\w.@~+/:-])(?:[\w.@~+-]{0,64}/){0,16}[\w.@+-]{0,63}\w\.[A-Za-z][A-Za-z0-9]{0,7}(?![\w/-])"
)
_DOTTED: Final = lazy_pattern(r"\.[A-Za-z]")
_SUFFIX: Final = lazy_pattern(
    r"\.(?:c|cc|cfg|cpp|cs|css|csv|db|go|h|html|ini|ipynb|java|js|jsonl?|jsx|kt|lock|log|md|php|proto"
    r"|ps1|pyi?|rb|rs|rst|sh|sql|svg|swift|tf|toml|tsx?|txt|vue|xml|ya?ml)$",
    re.IGNORECASE,
)
_LIBRARY: Final = lazy_pattern(r"[A-Z][a-z]+\.js")
"""Node.js and the like, which are not files."""
_PATCHED: Final = lazy_pattern(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ b/)(\S[^\n]{0,199})$", re.MULTILINE
)
_PATH_NAMES: Final = lazy_pattern(r"(?:^|[_-])(?:file)?(?:paths?|files?|name)$|(?:Path|File)$")
_COMMAND_NAMES: Final = ("command", "cmd", "script")
_WRITES: Final = lazy_pattern(
    r"write|edit|patch|create|replace|delete|remove|rename|move|insert|save|append", re.IGNORECASE
)
_TASK_LISTS: Final = ("todos", "plan", "tasks")
_TASK_NAMES: Final = ("content", "step", "title", "text", "task", "description")
_FINISHED: Final = frozenset({"completed", "done", "cancelled"})
_RAISED: Final = lazy_pattern(
    r"^(?:[A-Za-z_][\w.]{0,100})?(?:Error|Exception)\b[^\n]*", re.MULTILINE
)
_TRACEBACK: Final = "Traceback (most recent call last)"


def sentences_in(text: str) -> list[str]:
    """Return the sentences of ``text``, split at punctuation and lines."""
    return split_sentences(_searched(text))


def split_sentences(text: str) -> list[str]:
    """Return the same for a whole text, however long."""
    return _BREAKS.split(text)


def decisions_in(text: str) -> list[str]:
    """Return sentences that decide something."""
    return _cued(text, _DECIDED)


def requirements_in(text: str) -> list[str]:
    """Return sentences that require or forbid something."""
    return _cued(text, _REQUIRED)


def open_items_in(text: str) -> list[str]:
    """Return sentences that say what remains to be done."""
    return _cued(text, _OPEN)


def questions_in(text: str) -> list[str]:
    """Return sentences that ask."""
    return [sentence for sentence in sentences_in(text) if sentence.rstrip().endswith(_ASKED)]


def paths_in(text: str) -> list[str]:
    """Return file names in ``text``: with a folder, or with a file extension."""
    searched = _searched(text)
    if not _DOTTED.search(searched):
        return []
    return [
        path
        for path in _PATH.findall(searched)
        if "/" in path or (_SUFFIX.search(path) and not _LIBRARY.fullmatch(path))
    ]


def files_of(call: Call) -> list[tuple[str, bool]]:
    """Return the files in a call's arguments, each with whether the call writes it."""
    writes = _WRITES.search(call.tool) is not None
    files: list[tuple[str, bool]] = []
    for name, value in _values(call.arguments):
        patched = _PATCHED.findall(_searched(value))
        files.extend((path.strip(), True) for path in patched)
        if _PATH_NAMES.search(name):
            if len(value) <= PATH_CHARS_MAX and "\n" not in value:
                files.append((value, writes))
        elif name in _COMMAND_NAMES and not patched:
            files.extend((path, False) for path in paths_in(value))
    return files


def command_of(call: Call) -> str | None:
    """Return the shell command that a call runs, if any."""
    if not isinstance(call.arguments, dict):
        return None
    for name in _COMMAND_NAMES:
        command = call.arguments.get(name)
        if isinstance(command, list) and command:
            words = [word for word in command if isinstance(word, str)]
            # Of "sh -c LINE" only the line matters.
            command = words[-1] if "-c" in words or "-lc" in words else " ".join(words)
        if isinstance(command, str) and command.strip():
            return command
    return None


def error_in(result: Result) -> str | None:
    """Return the line that says how a call failed, if it did."""
    output = _searched(result.output)
    if not result.is_error and result.reason is None and _TRACEBACK not in output:
        return None
    raised = _RAISED.findall(output)
    if raised:
        return str(raised[-1])
    return next((line for line in output.splitlines() if line.strip()), "")


def tasks_of(call: Call) -> tuple[list[str], list[str]] | None:
    """Return the open and the finished tasks, if the call maintains a task list."""
    if not isinstance(call.arguments, dict):
        return None
    for name in _TASK_LISTS:
        tasks = call.arguments.get(name)
        if isinstance(tasks, list) and all(_is_task(task) for task in tasks):
            open_tasks: list[str] = []
            finished: list[str] = []
            for task in tasks[:ARGUMENTS_MAX]:
                text = next((task[key] for key in _TASK_NAMES if key in task), None)
                if isinstance(text, str):
                    (finished if task["status"] in _FINISHED else open_tasks).append(text)
            return open_tasks, finished
    return None


def _is_task(task: Any) -> bool:
    return isinstance(task, dict) and isinstance(task.get("status"), str)


def _cued(text: str, cue: re.Pattern[str]) -> list[str]:
    searched = _searched(text)
    # Most texts match no keyword, and one search settles it.
    if not cue.search(searched.lower()):
        return []
    return [sentence for sentence in _BREAKS.split(searched) if cue.search(sentence.lower())]


def _searched(text: str) -> str:
    if len(text) <= TEXT_CHARS_MAX:
        return text
    half = TEXT_CHARS_MAX // 2
    return f"{text[:half]}\n{text[-half:]}"


def _values(arguments: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts in ``arguments`` with their names."""
    if isinstance(arguments, str):
        yield "", arguments
    if not isinstance(arguments, dict):
        return
    searched = 0
    for name, value in arguments.items():
        for part in value if isinstance(value, list) else (value,):
            searched += 1
            if searched > ARGUMENTS_MAX:
                return
            if isinstance(part, str):
                yield name, part
            elif isinstance(part, dict):
                yield from ((key, text) for key, text in part.items() if isinstance(text, str))
