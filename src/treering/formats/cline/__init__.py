"""The reader of Cline's tasks, and of Roo's and Kilo's: a folder of JSON documents each.

    globalStorage/saoudrizwan.claude-dev/tasks/TASK/
        api_conversation_history.json   what was said
        ui_messages.json                what was shown: times, costs, errors
        task_metadata.json              the models
        history_item.json               Roo's: the parent and the folder
    ~/.cline/data/sessions/SESSION/     Cline's in the terminal
        SESSION.messages.json           what was said; each teammate has such a file, too
        SESSION.json                    the model, the folder, the branch

The conversation is what the model was sent, in Anthropic's blocks. Older tasks call tools by tags
in texts. What was shown repeats it; it is read in place of a conversation that is missing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from treering.errors import InvalidInput
from treering.formats.blocks import (
    CALLS,
    RESULTS,
    THOUGHTS,
    WaitingCalls,
    block_events,
    first_name,
    thought,
)
from treering.formats.cline import shown, tasks
from treering.formats.cline.shown import calls_in, results_in
from treering.formats.cline.tasks import MESSAGES, METADATA, SHOWN
from treering.formats.codex.drafts import PendingEvent, count_of, observed
from treering.formats.format import Format, LogPlace, no_score, share
from treering.formats.loose import blocks_of, fields_of, text_of, time_ms, word
from treering.formats.loose import name as name_of
from treering.formats.parsed import ParsedRecord, SessionHeader
from treering.formats.record_reader import milliseconds
from treering.formats.whole import NOTHING, WholeReader, timed, version_key
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path, PurePath

    from treering.formats.format import DatabaseReader
    from treering.formats.parsed import LogRecord

NAME: Final = "cline"
_LIKELY: Final = 0.5
_HINT: Final = f"if it is a task, name the file {tasks.CONVERSATION}"
_FOLDER: Final = re.compile(r"# Current (?:Working|Workspace) Directory \((.+?)\) Files")
_ENVIRONMENT: Final = re.compile(r"\s*<environment_details>.*", re.DOTALL)
_TASK: Final = re.compile(
    r"\s*<(task|feedback|user_message|answer|user_input)(?: [^>]*)?>\n?(.*?)\n?</\1>\s*(.*)",
    re.DOTALL,
)
_OWN_FIELDS: Final = frozenset(
    {"ts", "modelInfo", "metrics", "isSummary", "condenseParent", "condenseId", "truncationParent"}
)
"""Fields that these agents add to the messages of Anthropic."""
_ABOUT: Final = ("mode", "rootTaskId", "modelId", "model", "provider")
_FOLDERS: Final = ("workspace", "cwdOnTaskInitialization", "cwd", "workspace_root")


def score(values: Sequence[Any]) -> float:
    """Return the share of values that are messages of a task, or what the editor showed of one."""
    listed = [fields_of(value).get("messages", value) for value in values]
    messages = [
        message for value in listed for message in (value if isinstance(value, list) else ())
    ]
    if not messages:
        # Elements of a list that was cut off; or lines of another agent, so less is sure.
        return share(_has_marks(fields_of(value)) for value in values)
    verdicts = [_is_own(fields_of(message)) for message in messages]
    # A list of nothing but messages in blocks is a conversation as well, if nobody else claims it.
    if verdicts and not any(verdicts) and all(map(_is_message, messages)):
        return _LIKELY
    return share(verdicts)


def _is_message(value: Any) -> bool:
    fields = fields_of(value)
    blocks = blocks_of(fields.get("content"))
    types = {"text", "image", *THOUGHTS, *CALLS, *RESULTS}
    return word(fields.get("role")) in {"user", "assistant"} and all(
        word(block.get("type")) in types for block in blocks
    )


def _is_own(value: dict[str, Any]) -> bool | None:
    if word(value.get("type")) in {"say", "ask"} and type(value.get("ts")) is int:
        return True
    if word(value.get("role")) not in {"user", "assistant"} or "content" not in value:
        return False
    if not value.keys() <= {"role", "content", "id", "type"} | _OWN_FIELDS:
        return None
    return True if value.keys() & _OWN_FIELDS else _has_marks(value)


def _has_marks(value: dict[str, Any]) -> bool | None:
    """Return whether what was said has the tags that these agents put around it."""
    if "role" not in value or "content" not in value or {"uuid", "sessionId", "id"} & value.keys():
        return False
    text = text_of(value["content"])
    marks = ("<environment_details>", "<task>", "] Result:", "[ERROR]", "<feedback>")
    return True if any(mark in text for mark in marks) else None


class TaskReader(WholeReader):
    """Reads the documents of one task, an element each."""

    agent = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        super().__init__(path)
        folder = "" if path is None else path.parent.name if tasks.is_named(path) else path.stem
        self._session = name_of(folder) or NAME
        self._parent: str | None = None
        if path is not None and path.name.endswith(MESSAGES):
            own = name_of(path.name.removesuffix(MESSAGES))
            if own is not None and own != self._session:
                # What a teammate said, in the folder of the session that it works for.
                self._session, self._parent = f"{self._session}/{own}", self._session
        self._calls = WaitingCalls()
        self._metadata: dict[str, Any] = {}

    def _read(self, record: LogRecord) -> list[ParsedRecord]:
        row = fields_of(record.value)
        document, value = row.get("document"), row.get("value")
        if word(document) is None:
            # The file itself, without the folder around it: all of its messages.
            listed = record.value if isinstance(record.value, list) else [record.value]
            events = [event for message in listed for event in self._value(fields_of(message), {})]
            return [self._outcome(record, self._known(), events, NOTHING)]
        if document == METADATA:
            self._learn(fields_of(value))
            drafts = [observed(version_key("metadata", value), "task", value)]
            drafts = timed(drafts, self._begun_ms())
            return [self._outcome(record, self._known(), drafts, NOTHING)]
        drafts = self._value(fields_of(value), row)
        otherwise = "repeats the conversation" if document == SHOWN else "an empty message"
        return [self._outcome(record, self._known(), drafts, otherwise)]

    def _known(self) -> str:
        if self._session not in self.sessions:
            self._learn({})
        return self._session

    def _begun_ms(self) -> int | None:
        """Return when the task began, if anything says so: its name is mostly a time."""
        metadata, session = self._metadata, self._session
        stated = (
            metadata.get("started_at"),
            metadata.get("ts"),
            session.isdecimal() and int(session),
        )
        return next(filter(None, map(milliseconds, stated)), None)

    def _learn(self, metadata: dict[str, Any]) -> None:
        """Open the session with what is known of the task."""
        self._metadata |= metadata
        task = self._metadata
        details, origin = fields_of(task.get("metadata")), fields_of(task.get("origin"))
        parent = name_of(task.get("parentTaskId")) or self._parent
        title = word(task.get("task")) or word(details.get("title")) or word(task.get("prompt"))
        asked = _TASK.fullmatch(title) if title else None
        title = None if self._parent else asked[2] if asked else title
        about = {at: task[at] for at in _ABOUT if word(task.get(at))}
        about |= {"branch": branch} if (branch := word(_git(details).get("branch"))) else {}
        cwd = next(filter(None, (word(task.get(at)) for at in _FOLDERS)), None)
        child = f"{self.agent}:{name_of(origin.get('subagent')) or 'subagent'}"
        self._open(
            SessionHeader(
                session=self._session,
                agent=child if parent else self.agent,
                cwd=cwd,
                title=title and shorten(title),
                parent=parent,
                about=about,
            )
        )

    def _value(self, value: dict[str, Any], row: dict[str, Any]) -> list[PendingEvent]:
        """Return the events of a message, or of what was shown; ``row`` says what is beside it."""
        session = self._known()
        sort = word(value.get("type"))
        if sort in {"say", "ask"}:
            if value.get("partial") and self.is_live:
                return []
            key = f"{sort}.{value.get('ts')}.{value.get(sort)}"
            return shown.events(value, key, is_repeated=bool(row.get("is_repeated")), by=self.agent)
        if word(value.get("role")) is None:
            if sort in THOUGHTS:
                drafts = [thought(value, self._key(session, value))]
                return timed(drafts, time_ms(value.get("ts")))
            return [observed(self._key(session, value), "record", value)] if value else []
        model = first_name(fields_of(value.get("modelInfo")), "modelId", "id")
        model = model or name_of(row.get("model")) or name_of(self._metadata.get("model"))
        drafts = self._message(value, model)
        if not row.get("has_costs"):
            drafts += self._metrics(value, model)
        return timed(drafts, time_ms(value.get("ts")) or time_ms(row.get("ts_ms")))

    def _message(self, value: dict[str, Any], model: str | None) -> list[PendingEvent]:
        session, role = self._session, str(value["role"])
        content = value.get("content")
        if value.get("isSummary") is True:
            text = text_of(content)
            key = self._key(session, ["summary", text])
            return [shown.compaction(text, key, by=self.agent)]

        def key_of(block: Any) -> str:
            return self._key(session, block)

        if role == "user":
            drafts, rest = results_in(blocks_of(content), self._calls, key_of)
            rest = [self._asked(block) for block in rest]
            return [*drafts, *block_events(role, rest, key_of, self._calls)]
        blocks, calls = calls_in(blocks_of(content), self._calls, key_of)
        more = {} if model is None else {"model": model}
        return [*block_events(role, blocks, key_of, self._calls, **more), *calls]

    def _asked(self, block: dict[str, Any]) -> dict[str, Any]:
        """Return a user's block without the tags around it; what the program adds is context."""
        text = block.get("text")
        if block.get("type") != "text" or not isinstance(text, str):
            return block
        if _ENVIRONMENT.fullmatch(text):
            folder = _FOLDER.search(text)
            header = self.sessions[self._session]
            if folder and header.cwd is None:
                self._learn({"workspace": folder[1]})
            return {"type": "environment", "text": text}
        asked = _TASK.fullmatch(text)
        if asked is None:
            return {"type": "program", "text": text} if text.startswith("[") else block
        if asked[1] == "task" and self.sessions[self._session].title is None:
            self._learn({"task": asked[2]})
        around = asked[3].strip()
        return {"type": "text", "text": asked[2], **({"around": around} if around else {})}

    def _metrics(self, value: dict[str, Any], model: str | None) -> list[PendingEvent]:
        """Return what a message used, where it says so itself."""
        metrics = fields_of(value.get("metrics"))
        tokens = fields_of(metrics.get("tokens"))
        read = count_of(metrics.get("cacheReadTokens")) or 0
        written = count_of(metrics.get("cacheWriteTokens")) or 0
        fresh = count_of(tokens.get("prompt")) or count_of(metrics.get("inputTokens")) or 0
        counts = {
            "input_tokens": fresh + read + written,
            "output_tokens": count_of(tokens.get("completion"))
            or count_of(metrics.get("outputTokens"))
            or 0,
            "cached_tokens": count_of(tokens.get("cached")) or read,
            "cache_creation_tokens": written,
        }
        if not any(counts.values()):
            return []
        key = self._key(self._session, ["usage", value.get("ts"), counts])
        provider = first_name(fields_of(value.get("modelInfo")), "providerId", "provider")
        return [shown.usage(counts, key, metrics.get("cost"), model=model, provider=provider)]


def _records(path: Path, databases: DatabaseReader) -> Iterator[Any]:
    """Yield the documents of a task; a file with a name of its own must say whose it is."""
    if tasks.is_named(path):
        yield from tasks.records(path, databases)
        return
    listed = [*tasks.messages_in(path)]
    if not any(_is_own(fields_of(record.value)) for record in listed):
        raise InvalidInput("a list of messages that does not say whose it is", hint=_HINT)
    yield from (tasks.row(record, tasks.CONVERSATION, record.value) for record in listed)


def _git(details: dict[str, Any]) -> dict[str, Any]:
    return fields_of(details.get("git"))


class RooReader(TaskReader):
    """Reads the documents of a task of Roo's."""

    agent = "roo"


class KiloReader(TaskReader):
    """Reads the documents of a task of Kilo's."""

    agent = "kilo"


def _format(
    extension: str, reader: type[TaskReader], family: tuple[str, ...], *others: LogPlace
) -> Format:
    return Format(
        name=reader.agent,
        score=no_score if family else score,
        reader=reader,
        records=_records,
        files=tasks.files,
        left_out=tasks.left_out,
        family=family,
        claims=lambda path: extension in path.parts,
        places=(
            *(LogPlace(f"{base}/globalStorage/{extension}", "tasks") for base in _EDITORS),
            *others,
        ),
    )


_EDITORS: Final = (
    ".config/*/User",
    "Library/Application Support/*/User",
    "AppData/Roaming/*/User",
    ".*-server/data/User",
)
"""Where editors like VS Code keep what belongs to extensions, on any system or a remote one."""
FORMAT: Final = (
    _format(
        "saoudrizwan.claude-dev",
        TaskReader,
        (),
        LogPlace(".cline/data", "tasks"),
        LogPlace(".cline/data", "sessions"),
    ),
    _format("rooveterinaryinc.roo-cline", RooReader, (NAME,)),
    _format("kilocode.kilo-code", KiloReader, (NAME,), LogPlace(".kilocode/cli/global", "tasks")),
    # Newer versions of Kilo keep their sessions as OpenCode does.
    Format(
        name=KiloReader.agent,
        family=("opencode",),
        claims=lambda path: path.name.startswith("kilo") and path.suffix == ".db",
        places=tuple(
            LogPlace(base, logs)
            for base in (".local/share/kilo", "AppData/Local/kilo")
            for logs in ("kilo*.db", "storage/session")
        ),
    ),
)
