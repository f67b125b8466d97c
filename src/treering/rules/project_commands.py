"""The commands of a project that work: how to test, lint, build and so on, as tool calls show.

A command counts if its purpose is known, it names no single file or test, and it succeeded twice,
or once after it had failed. A pipe hides the exit code, so its output is asked instead.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.lazy import lazy_pattern
from treering.rules.claim_words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

COMMANDS_MAX: Final = 8
"""Commands of one project."""
EVIDENCE_CALLS_MAX: Final = 5
RECENT_RUNS: Final = 20
"""So many of the latest runs for a purpose choose its command."""
COMMAND_CHARACTERS_MAX: Final = 100
SUCCESSES_MIN: Final = 2

_SCRIPTS: Final = {
    "type check": word_set("typecheck types tsc mypy pyright"),
    "test": word_set("test tests spec e2e unit integration pytest vitest jest"),
    "lint": word_set("lint linter eslint clippy"),
    "format": word_set("format fmt prettier"),
    "build": word_set("build compile dist bundle"),
    "install": word_set("install sync setup bootstrap"),
    "check": word_set("check checks verify validate ci"),
}
"""Purposes by words in the name of a script or target; the first that has one is meant."""
_RUNNERS: Final = word_set("npm pnpm yarn bun make gmake just task rake nox tox turbo nx composer"
    " gradle gradlew mvn mvnw inv invoke deno hatch mage")  # fmt: skip
"""Programs that run a named script or target."""
_TOOLS: Final = {
    "pytest": "test", "py.test": "test", "unittest": "test", "jest": "test", "vitest": "test",
    "mocha": "test", "rspec": "test", "phpunit": "test", "ctest": "test", "tox": "test",
    "nox": "test", "playwright test": "test", "cypress run": "test",
    "eslint": "lint", "flake8": "lint", "pylint": "lint", "oxlint": "lint", "rubocop": "lint",
    "golangci-lint run": "lint", "ruff check": "lint", "biome lint": "lint", "biome check": "lint",
    "pre-commit run": "lint",
    "mypy": "type check", "pyright": "type check", "tsc": "type check", "tsgo": "type check",
    "black": "format", "prettier": "format", "ruff format": "format", "biome format": "format",
    "isort": "format", "rustfmt": "format", "gofmt": "format",
    "cargo test": "test", "cargo nextest": "test", "cargo build": "build", "cargo check": "check",
    "cargo clippy": "lint", "cargo fmt": "format",
    "go test": "test", "go build": "build", "go vet": "lint", "go fmt": "format",
    "dotnet test": "test", "dotnet build": "build", "swift test": "test", "swift build": "build",
    "mix test": "test", "mix format": "format", "mix compile": "build", "flutter test": "test",
    "flutter build": "build", "dart test": "test", "bazel test": "test", "bazel build": "build",
    "zig build": "build", "rails test": "test", "ninja": "build",
    "vite build": "build", "next build": "build", "next lint": "lint", "webpack": "build",
    "uv sync": "install", "poetry install": "install", "bundle install": "install",
    "npm ci": "install", "npm install": "install", "pnpm install": "install",
    "yarn install": "install", "bun install": "install", "composer install": "install",
}  # fmt: skip
"""Purposes of programs, or of a program with its first argument."""
_WRAPPERS: Final = (
    ("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("rye", "run"), ("pdm", "run"),
    ("bundle", "exec"), ("pnpm", "exec"), ("npm", "exec"), ("yarn", "exec"), ("npx",), ("bunx",),
    ("python", "-m"), ("python3", "-m"), ("time",),
)  # fmt: skip
"""Words before the program that does the work."""
_VALUED: Final = word_set("--filter -F --prefix -C -w --workspace -f --file -s --session -e")
"""Options of runners that take the next word."""
_SINGLE: Final = word_set(
    "-k -t -g -run --run --grep --testNamePattern --lf --last-failed --ff --watch --watchAll -u"
    " --updateSnapshot --help -h --version --list --dry-run --collect-only --only --match --bail"
)
"""Options that pick some tests, or only look."""
_SHOWN: Final = lazy_pattern(
    r"-v+|-q+|-x|--verbose|--quiet|--silent|--tb=\w+|--color(?:=\w+)?|--no-color|-ra|--reporter=\w+"
)
"""Options that only change what is printed."""
_SINGLE_FILE: Final = lazy_pattern(
    r"::|\.(?:py|pyi|tsx?|jsx?|mjs|cjs|go|rs|rb|java|kt|php|c|cc|cpp|h|cs|swift|exs?|dart|vue|md)$"
)
_WORD: Final = lazy_pattern(r"[\w@%+:,./~^-][\w@%+=:,./~^-]*")
_SETTING: Final = lazy_pattern(
    r"(?:CI|NODE_ENV|RUST_BACKTRACE|FORCE_COLOR|NO_COLOR|CGO_ENABLED|TZ|PYTHONPATH)=[\w./-]{1,20}"
)
_VIEWERS: Final = word_set("tail head grep cat tee less rg wc sed")
_ERRORS_OUT: Final = lazy_pattern(r"\s+2>\s*(?:&1|/dev/null)(?=\s|$)")
_UNSAFE: Final = lazy_pattern(r"[;`$<>\\\n\"'(){}*?]|(?<!&)&(?!&)|\|\|")
_PIPE: Final = lazy_pattern(r"\s*\|\s*")
_FAILURE: Final = lazy_pattern(
    r"(?<!\b0 )(?<!\bno )(?:\berrors?\b|\bfail(?:ed|ures?|ing|s)?\b|not found|\bexception\b"
    r"|\btraceback\b|\bfatal\b|\bERR!|\bpanic\b|\bcannot\b)",
    re.IGNORECASE,
)
_SCRIPT_WORDS: Final = lazy_pattern(r"[a-z0-9]+")


class CommandRun(msgspec.Struct, frozen=True, kw_only=True):
    """A command that a tool ran, and how it ended."""

    event_id: str
    """Of the call."""
    session_id: str
    command: str
    directory: str = ""
    """Below the project's folder; empty for the folder itself."""
    purpose: str
    is_ok: bool | None
    """None if unknown."""


class WorkingCommand(msgspec.Struct, frozen=True):
    """A command of a project that works."""

    text: str
    evidence: tuple[str, ...]
    """The latest calls that succeeded, in order."""
    session_id: str
    """Of the last one."""


class ShellCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that may have run a command."""

    event_id: str
    session_id: str
    arguments: dict[str, Any]
    is_ok: bool | None
    root: str | None
    """The project's folder; None if it is unknown."""


def command_runs(call: ShellCall, output: str | None) -> Iterator[CommandRun]:
    """Yield the commands with a known purpose that a call ran; a chain has several."""
    line = _command_line(call.arguments)
    if line is None or len(line) > 4 * COMMAND_CHARACTERS_MAX:
        return
    parts, is_piped = _split(line)
    if not parts:
        return
    is_ok = _is_ok_by_output(output) if is_piped and call.is_ok else call.is_ok
    # If one of a chain fails, the exit code does not tell which.
    is_chain = sum(not part.startswith("cd ") for part in parts) > 1
    directory = _text(call.arguments, "workdir", "cwd", "directory", "dir_path") or ""
    for part in parts:
        if part.startswith("cd "):
            directory = posixpath.join(directory, part[3:].strip())
            continue
        command = _plain_command(part)
        below = _below(directory, call.root)
        purpose = None if command is None else _purpose(command.split())
        if command is not None and below is not None and purpose is not None:
            yield CommandRun(
                event_id=call.event_id,
                session_id=call.session_id,
                command=command,
                directory=below,
                purpose=purpose,
                is_ok=None if is_chain and not is_ok else is_ok,
            )


def is_piped(arguments: dict[str, Any]) -> bool:
    """Return whether the exit code of a call is that of what its output was piped to."""
    line = _command_line(arguments)
    return line is not None and "|" in line


def working_commands(runs: Sequence[CommandRun]) -> list[WorkingCommand]:
    """Return one command for each purpose and folder, of runs in order; the most used first."""
    slots: dict[tuple[str, str], list[CommandRun]] = {}
    for run in runs:
        slots.setdefault((run.purpose, run.directory), []).append(run)
    working = [
        successes
        for slot_runs in slots.values()
        if (successes := _successes(slot_runs)) is not None
    ]
    working.sort(key=len, reverse=True)
    return [_working(successes) for successes in working[:COMMANDS_MAX]]


def _successes(runs: Sequence[CommandRun]) -> list[CommandRun] | None:
    """Return the successful runs of the command that is used for a purpose; None without one."""
    succeeded: dict[str, list[CommandRun]] = {}
    failed: set[str] = set()
    proven: set[str] = set()
    for run in runs:
        if run.is_ok:
            succeeded.setdefault(run.command, []).append(run)
            if run.command in failed or len(succeeded[run.command]) >= SUCCESSES_MIN:
                proven.add(run.command)
        elif run.is_ok is False:
            failed.add(run.command)
    latest = [run.command for run in runs if run.is_ok and run.command in proven][-RECENT_RUNS:]
    if not latest:
        return None
    # Of equally many, the later one: Counter keeps the order in which they came.
    count = Counter(reversed(latest))
    return succeeded[max(count, key=count.__getitem__)]


def _working(successes: Sequence[CommandRun]) -> WorkingCommand:
    last = successes[-1]
    where = f" in {last.directory}" if last.directory else ""
    return WorkingCommand(
        f"The {last.purpose} command{where} is `{last.command}`",
        tuple(run.event_id for run in successes[-EVIDENCE_CALLS_MAX:]),
        last.session_id,
    )


# Reading a command.


def _command_line(arguments: dict[str, Any]) -> str | None:
    given = next((arguments[name] for name in ("command", "cmd") if name in arguments), None)
    if isinstance(given, list) and all(isinstance(word, str) for word in given):
        is_shell = len(given) == 3 and given[1] in {"-c", "-lc"}
        given = given[2] if is_shell else shlex.join(given)
    return given.strip() if isinstance(given, str) else None


def _split(line: str) -> tuple[list[str], bool]:
    """Return the commands of a line, and whether the last one is piped into a viewer.

    None of them, if the line does anything else.
    """
    plain = _ERRORS_OUT.sub("", line)
    chain, *viewers = _PIPE.split(plain.replace("||", "\0"))
    if any(viewer.split(" ", 1)[0] not in _VIEWERS for viewer in viewers):
        return [], False
    if "\0" in chain or _UNSAFE.search(chain) is not None:
        return [], False
    return [part.strip() for part in chain.split("&&") if part.strip()], bool(viewers)


def _plain_command(part: str) -> str | None:
    """Return a command without what only changes its output; None for a one-off."""
    words = [word for word in part.split() if _SHOWN.fullmatch(word) is None]
    command = " ".join(words)
    if not words or len(command) > COMMAND_CHARACTERS_MAX:
        return None
    first = next((at for at, word in enumerate(words) if _SETTING.fullmatch(word) is None), 0)
    is_repeatable = all(
        _WORD.fullmatch(word) is not None
        and word.partition("=")[0] not in _SINGLE
        and _SINGLE_FILE.search(word) is None
        for word in words[first:]
    )
    return command if is_repeatable and "=" not in words[first] else None


def _purpose(words: list[str]) -> str | None:
    """Return what a command is for; None if that is unknown."""
    while words and "=" in words[0]:
        words = words[1:]
    words = [posixpath.basename(words[0]), *words[1:]] if words else words
    for wrapper in _WRAPPERS:
        if tuple(words[: len(wrapper)]) == wrapper:
            rest = list(words[len(wrapper) :])
            while rest and rest[0].startswith("-"):
                rest = rest[1:]
            return _purpose(rest)
    if not words:
        return None
    plain = [word for word in words[1:] if not word.startswith("-")]
    named = " ".join([words[0], *plain[:1]])
    if _TOOLS.get(named) == "install":
        # Installing something named is a change, not a set-up.
        return "install" if len(plain) == 1 else None
    purpose = _TOOLS.get(named)
    if purpose is None and words[0] in _RUNNERS:
        return _purpose_of_script(words[1:]) or _TOOLS.get(words[0])
    return purpose or _TOOLS.get(words[0])


def _purpose_of_script(words: Iterable[str]) -> str | None:
    rest = iter(words)
    for word in rest:
        if word in _VALUED:
            next(rest, None)
        elif word not in {"run", "run-script", "task", "exec"} and not word.startswith("-"):
            script = set(_SCRIPT_WORDS.findall(word.lower()))
            return next((name for name, terms in _SCRIPTS.items() if terms & script), None)
    return None


def _below(directory: str, root: str | None) -> str | None:
    """Return a folder as it is below the project's; None for one elsewhere."""
    path = posixpath.normpath(directory) if directory else "."
    if posixpath.isabs(path) and root is not None:
        path = posixpath.relpath(path, posixpath.normpath(root))
    if path == ".." or path.startswith("../"):
        return None
    return "" if path == "." else path


def _is_ok_by_output(output: str | None) -> bool | None:
    if not output or not output.strip():
        return None
    return _FAILURE.search(output) is None


def _text(arguments: dict[str, Any], *names: str) -> str | None:
    return next((value for name in names if isinstance(value := arguments.get(name), str)), None)
