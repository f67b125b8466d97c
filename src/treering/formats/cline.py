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
from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.errors import InvalidInput
from treering.formats.blocks import (
    CALLS,
    RESULTS,
    THOUGHTS,
    WaitingCalls,
    block_events,
    failure_of,
    first_name,
    thought,
)
from treering.formats.codex.drafts import PendingEvent, called, count_of, observed, returned, said
from treering.formats.format import DatabaseReader, Format, LogPlace, OwnShare, no_score, share
from treering.formats.loose import blocks_of, fields_of, objects_in, text_of, time_ms, word
from treering.formats.loose import name as name_of
from treering.formats.parsed import LogRecord, ParsedRecord, SessionHeader, content_key
from treering.formats.record_reader import milliseconds
from treering.formats.sources import read_list
from treering.formats.whole import (
    NOTHING,
    WholeReader,
    compacted,
    failed,
    json_of,
    timed,
    used,
    version_key,
)
from treering.spine.conversion import plain
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path, PurePath

CONVERSATION: Final = "api_conversation_history.json"
SHOWN: Final = "ui_messages.json"
OLDER_SHOWN: Final = "claude_messages.json"
MESSAGES: Final = ".messages.json"
"""How the name of a file ends that has the messages of a session in the terminal."""
METADATA: Final = "metadata"
_METADATA: Final = ("task_metadata.json", "history_item.json")
_OTHERS: Final = frozenset({SHOWN, OLDER_SHOWN, *_METADATA, "context_history.json"})
_REQUEST: Final = "api_req_started"


class TaskTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The times of the messages of a task, as far as the editor noted them."""

    times_ms: dict[int, int] = {}
    """The times of messages, by their numbers."""
    models: list[tuple[int, str]] = []
    """The models in use, with the times from which they were."""
    has_costs: bool = False
    """Whether the editor noted what requests cost."""

    def at(self, number: int) -> int | None:
        """Return the time of a message; None if nothing tells."""
        return self.times_ms.get(number)

    def model_at(self, number: int) -> str | None:
        """Return the model that was in use when a message was said."""
        ts_ms = self.at(number)
        before = 0 if ts_ms is None else bisect_left(self.models, (ts_ms + 1, ""))
        return self.models[before - 1][1] if before else None


def records(path: Path, _: DatabaseReader) -> Iterator[Any]:
    """Yield what a task is, its conversation, and what the editor showed: an element a record."""
    if path.name.endswith(MESSAGES):
        yield from _terminal(path)
        return
    folder = path.parent
    metadata: dict[str, Any] = {}
    for name in _METADATA:
        for record in _documents(folder / name):
            metadata |= fields_of(record.value)
            yield row(record, METADATA, record.value)
    displayed = [
        document for name in (SHOWN, OLDER_SHOWN) for document in _documents(folder / name)
    ]
    times = task_times([fields_of(document.value) for document in displayed], metadata)
    has_conversation = False
    for at, record in enumerate(_documents(folder / CONVERSATION)):
        has_conversation = has_conversation or record.fault is None
        about = {"ts_ms": times.at(at), "model": times.model_at(at), "has_costs": times.has_costs}
        yield row(record, CONVERSATION, record.value, **about)
    for record in displayed:
        yield row(record, SHOWN, record.value, is_repeated=has_conversation)


def is_named(path: PurePath) -> bool:
    """Return whether a file has the name of a document of a task."""
    return path.name.endswith(MESSAGES) or path.name in {CONVERSATION, *_OTHERS}


def messages_in(path: Path) -> Iterator[LogRecord]:
    """Yield the messages in one file, wherever it is."""
    for record in _documents(path):
        listed = fields_of(record.value).get("messages")
        if not isinstance(listed, list):
            yield record
            continue
        for message in listed:
            yield msgspec.structs.replace(record, value=message)


def _terminal(path: Path) -> Iterator[LogRecord]:
    """Yield what a session in the terminal is, and its messages."""
    for record in _documents(about_session(path)):
        yield row(record, METADATA, record.value)
    for record in _documents(path):
        whole = fields_of(record.value)
        listed = whole.get("messages", record.value if "role" in whole else None)
        about = {at: value for at, value in whole.items() if at != "messages"}
        if not isinstance(listed, list):
            yield row(record, CONVERSATION, record.value)
            continue
        yield row(record, METADATA, about)
        for message in listed:
            yield row(msgspec.structs.replace(record, value=message), CONVERSATION, message)


def about_session(path: Path) -> Path:
    """Return the file that says what a session in the terminal is, by that of its messages."""
    return path.with_name(f"{path.parent.name}.json")


def files(path: Path) -> list[Path]:
    """Return the other files of a task."""
    if path.name.endswith(MESSAGES):
        return [about_session(path)]
    if path.name not in {CONVERSATION, SHOWN, OLDER_SHOWN}:
        return []
    return [path.parent / name for name in (SHOWN, OLDER_SHOWN, *_METADATA, CONVERSATION)]


def left_out(path: Path) -> str | None:
    """Return why a document is left out: it is read with the conversation of its task."""
    if path.stem == path.parent.name and path.with_name(path.stem + MESSAGES).is_file():
        return "facts about a session, read with its messages"
    if path.name not in _OTHERS or path.parent.parent.name != "tasks":
        return None
    if path.name in {SHOWN, OLDER_SHOWN} and not (path.parent / CONVERSATION).is_file():
        return None
    return "a part of a task, which is read with its conversation"


def task_times(displayed: Sequence[dict[str, Any]], known: dict[str, Any]) -> TaskTimes:
    """Return the times of messages.

    Newer versions note how many messages there were when something was shown. Otherwise a request
    tells when the message before it was sent, and the last that was shown after it when it ended.
    """
    times: dict[int, int] = {}
    request = -2
    for message in displayed:
        ts_ms, index = time_ms(message.get("ts")), message.get("conversationHistoryIndex")
        if message.get("say") == _REQUEST:
            request += 2
        if ts_ms is None:
            continue
        if type(index) is int:
            times[index + 1] = max(ts_ms, times.get(index + 1, 0))
        elif request >= 0:
            at = request if message.get("say") == _REQUEST else request + 1
            times[at] = max(ts_ms, times.get(at, 0))
    models = [
        (ts_ms, model)
        for usage in objects_in(known.get("model_usage"))
        if (ts_ms := time_ms(usage.get("ts"))) and (model := name_of(usage.get("model_id")))
    ]
    has_costs = any(
        message.get("say") == _REQUEST and "tokensIn" in fields_of(json_of(message.get("text")))
        for message in displayed
    )
    return TaskTimes(times_ms=times, models=sorted(models), has_costs=has_costs)


def _documents(path: Path) -> Iterator[LogRecord]:
    if path.is_file():
        yield from read_list(path)


def row(record: LogRecord, document: str, value: Any, **more: Any) -> LogRecord:
    """Return an element of a document, with what is known beside it."""
    if record.fault is not None:
        return msgspec.structs.replace(record, fault=f"{document}: {record.fault}")
    return msgspec.structs.replace(record, value={"document": document, "value": value, **more})


NAME: Final = "cline"
_LIKELY: Final = 0.5
_HINT: Final = f"if it is a task, name the file {CONVERSATION}"
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


class _TaskShare(OwnShare):
    """The share of values that are messages of a task, or what the editor showed of one."""

    def against(self, values: Sequence[Any], best: float) -> float:
        """Return the score; of values without a list of messages, as ``OwnShare.against`` does.

        They are elements of a list that was cut off; or lines of another agent, so less is sure.
        """
        listed = [
            value.get("messages", value) if isinstance(value, dict) else value for value in values
        ]
        messages = [one for value in listed if isinstance(value, list) for one in value]
        return _score_of(messages) if messages else super().against(values, best)


def _score_of(messages: Sequence[Any]) -> float:
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


score: Final = _TaskShare(_has_marks)


class TaskReader(WholeReader):
    """Reads the documents of one task, an element each."""

    agent = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        super().__init__(path)
        folder = "" if path is None else path.parent.name if is_named(path) else path.stem
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
            return events(value, key, is_repeated=bool(row.get("is_repeated")), by=self.agent)
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
            return [compacted(key, text, by=self.agent)]

        key_of = partial(self._key, session)
        if role == "user":
            drafts, rest = results_in(blocks_of(content), self._calls, key_of)
            rest = [self._asked(block) for block in rest]
            return [*drafts, *block_events(role, rest, key_of, self._calls)]
        blocks, calls = calls_in(blocks_of(content), self._calls, key_of)
        return [*block_events(role, blocks, key_of, self._calls, model=model), *calls]

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
        cost = metrics.get("cost")
        return [used(key, counts, cost=cost, model=model, provider=provider, message_id=key)]


def _records(path: Path, databases: DatabaseReader) -> Iterator[Any]:
    """Yield the documents of a task; a file with a name of its own must say whose it is."""
    if is_named(path):
        yield from records(path, databases)
        return
    listed = [*messages_in(path)]
    if not any(_is_own(fields_of(record.value)) for record in listed):
        raise InvalidInput("a list of messages that does not say whose it is", hint=_HINT)
    yield from (row(record, CONVERSATION, record.value) for record in listed)


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
        files=files,
        left_out=left_out,
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

_USAGE: Final = frozenset({"api_req_started", "subagent_usage", "deleted_api_reqs"})
_ERRORS: Final = frozenset(
    {"error", "api_req_failed", "diff_error", "clineignore_error", "rooignore_error"}
)
_USERS: Final = frozenset({"task", "user_feedback", "user_feedback_diff"})
_ANSWERS: Final = frozenset(
    {"text", "completion_result", "followup", "plan_mode_respond", "act_mode_respond"}
)
_CALLS: Final = frozenset(
    {"tool", "command", "use_mcp_server", "browser_action", "browser_action_launch"}
)
_RESULTS: Final = frozenset({"command_output", "mcp_server_response", "browser_action_result"})
_MARKS: Final = frozenset({
    "api_req_finished", "api_req_retried", "checkpoint_created", "checkpoint_saved", "resume_task",
    "resume_completed_task", "mcp_server_request_started", "shell_integration_warning", "reasoning",
})  # fmt: skip
"""What only says that something was shown, or repeats it."""


def events(value: dict[str, Any], key: str, *, is_repeated: bool, by: str) -> list[PendingEvent]:
    """Return what a message in the editor adds to the conversation, which may repeat it."""
    sort = word(value.get(str(value.get("type")))) or "shown"
    text = value["text"] if isinstance(value.get("text"), str) else ""
    ts_ms = time_ms(value.get("ts"))
    drafts: list[PendingEvent]
    condensed = fields_of(value.get("contextCondense"))
    if sort in _USAGE:
        drafts = _used(fields_of(json_of(text)), value, key)
    elif sort in _ERRORS:
        shown = shorten(plain(text)) or sort
        drafts = [failed(key, shown, {"message": text, "code": sort}, sort)]
    elif word(condensed.get("summary")):
        drafts = [] if is_repeated else [compacted(key, str(condensed["summary"]), by=by)]
    elif is_repeated and sort in _USERS | _ANSWERS | _CALLS | _RESULTS | _MARKS:
        drafts = []
    else:
        drafts = _conversation(sort, text, value, key)
    return timed(drafts, ts_ms)


def _used(request: dict[str, Any], value: dict[str, Any], key: str) -> list[PendingEvent]:
    """Return what a request used, and that it was broken off."""
    read = count_of(request.get("cacheReads")) or 0
    written = count_of(request.get("cacheWrites")) or 0
    counts = {
        "input_tokens": (count_of(request.get("tokensIn")) or 0) + read + written,
        "output_tokens": count_of(request.get("tokensOut")) or 0,
        "cached_tokens": read,
        "cache_creation_tokens": written,
    }
    drafts = []
    if any(counts.values()):
        info = fields_of(value.get("modelInfo"))
        version = version_key(key, counts)
        drafts.append(
            used(
                version,
                counts,
                cost=request.get("cost"),
                model=name_of(info.get("modelId")),
                provider=name_of(info.get("providerId")),
                message_id=version,
            )
        )
    if reason := word(request.get("cancelReason")):
        message = word(request.get("streamingFailedMessage")) or reason
        payload = {"message": message, "code": reason}
        ended = failed(f"{key}.end", shorten(plain(message)), payload, reason)
        if reason == "user_cancelled":
            ended = msgspec.structs.replace(ended, kind="boundary.interrupt", refs={})
        drafts.append(ended)
    return drafts


def _conversation(sort: str, text: str, value: dict[str, Any], key: str) -> list[PendingEvent]:
    """Return what was shown as the conversation, in place of one that is missing."""
    made = version_key(key, text)
    images = {"attached": value["images"]} if value.get("images") else {}
    if sort in _USERS and (text.strip() or images):
        return [said("user", made, text, **images)]
    if sort in _ANSWERS:
        stated = fields_of(json_of(text))
        shown = next((stated[at] for at in ("question", "response") if word(stated.get(at))), text)
        return [said("assistant", made, shown)] if shown.strip() else []
    if sort == "reasoning":
        return [said("thinking", made, text)] if text.strip() else []
    if sort in _CALLS and text.strip():
        stated = fields_of(json_of(text)) or {"command": text}
        tool = name_of(stated.get("tool")) or name_of(stated.get("toolName")) or sort
        return [called(made, key, tool, stated)]
    if sort in _RESULTS and text.strip():
        return [returned(made, key, sort, text, None)]
    if sort in _MARKS or not (text.strip() or images):
        return []
    return [observed(made, sort, value)]


_CALL: Final = re.compile(r"<([a-z][a-z0-9]*(?:_[a-z0-9]+)+)>\s*(<[a-z_]+>.*?|\s*)</\1>", re.DOTALL)
"""A tool has a name of several words, and its arguments in tags of their own."""
_ARGUMENT: Final = re.compile(r"<([a-zA-Z_]+)>(.*?)</\1>", re.DOTALL)
_THOUGHT: Final = re.compile(r"\s*<thinking>(.*?)</thinking>\s*", re.DOTALL)
_RESULT: Final = re.compile(
    r"\[([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?: for .*?| in .*?|)\] Result:\s*", re.DOTALL
)
_NO_TOOLS: Final = frozenset({"environment_details", "user_message"})


def calls_in(
    blocks: Sequence[dict[str, Any]], calls: WaitingCalls, key_of: Callable[[Any], str]
) -> tuple[list[dict[str, Any]], list[PendingEvent]]:
    """Return an answer's blocks without calls and thoughts in tags, and these calls."""
    rest: list[dict[str, Any]] = []
    events: list[PendingEvent] = []
    for block in blocks:
        text = block.get("text")
        if block.get("type") != "text" or not isinstance(text, str) or "<" not in text:
            rest.append(block)
            continue
        rest += [{"type": "thinking", "thinking": match[1]} for match in _THOUGHT.finditer(text)]
        text = _THOUGHT.sub("", text)
        found_calls = [match for match in _CALL.finditer(text) if match[1] not in _NO_TOOLS]
        for call in found_calls:
            key = key_of(["call", call[0]])
            call_id = content_key(f"call.{key}")
            given = {name: value.strip("\n") for name, value in _ARGUMENT.findall(call[2])}
            calls.add(call_id, call[1])
            events.append(called(f"call:{call_id}", call_id, call[1], given))
        for call in found_calls:
            text = text.replace(call[0], "", 1)
        rest.append({**block, "text": text.strip("\n") if found_calls else text})
    return rest, events


def results_in(
    blocks: Sequence[dict[str, Any]], calls: WaitingCalls, key_of: Callable[[Any], str]
) -> tuple[list[PendingEvent], list[dict[str, Any]]]:
    """Return the results of calls by tags among a user's blocks, and the other blocks."""
    events: list[PendingEvent] = []
    rest: list[dict[str, Any]] = []
    ahead = [*blocks]
    while ahead:
        block = ahead.pop(0)
        text = str(block.get("text"))
        match = _RESULT.match(text)
        if match is None or block.get("type") != "text":
            rest.append(block)
            continue
        output: Any = text[match.end() :]
        if (
            not output.strip()
            and ahead
            and "<environment_details>" not in str(ahead[0].get("text"))
        ):
            following = ahead.pop(0)
            given = following.get("text")
            output = given if isinstance(given, str) else [following]
        call_id, tool = calls.take(None, match[1])
        key = key_of(["result", match[1], output])
        call_id = call_id or content_key(f"call.{key}")
        events.append(returned(f"result:{call_id}", call_id, tool, output, failure_of(output)))
    return events, rest
