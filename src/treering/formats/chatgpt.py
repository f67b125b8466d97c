"""The reader of ChatGPT's export: ``conversations.json``, a list of conversations.

A conversation is a tree of messages. The branch that ends at its current node is its session; each
other branch is a fork of the session that it leaves, named after the first node of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from treering.formats.codex.drafts import (
    PendingEvent,
    called,
    input_of,
    observed,
    returned,
    said,
    short_id,
)
from treering.formats.format import DatabaseReader, Format, OwnShare
from treering.formats.loose import fields_of, items_of, objects_in, says_something, word
from treering.formats.loose import name as name_of
from treering.formats.parsed import LogRecord, ParsedEvent, ParsedRecord, SessionHeader
from treering.formats.sources import read_list
from treering.formats.whole import WholeReader, timed, titled
from treering.spine.conversion import plain
from treering.spine.words import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NAME: Final = "chatgpt"
BRANCHES_MAX: Final = 1_000
"""The most branches of one conversation that become separate sessions."""
_TEXTS: Final = frozenset({"text", "multimodal_text"})
_CODE: Final = "code"
_ALL: Final = "all"
"""The recipient of what is said to the user."""
_FAILED: Final = frozenset({"failed", "error", "finished_with_error"})


def conversations(values: Sequence[Any]) -> Iterator[Any]:
    """Yield conversations, which may be in a list."""
    for value in values:
        yield from value if isinstance(value, list) else [value]


def _is_own(value: dict[str, Any]) -> bool:
    mapping = value.get("mapping")
    if not isinstance(mapping, dict):
        return False
    node = fields_of(next(iter(mapping.values()), None))
    return not mapping or "children" in node or "message" in node


score: Final = OwnShare(_is_own, lambda values: [*conversations(values)])
"""Returns the share of values that are conversations."""


class ChatGptReader(WholeReader):
    """Reads conversations, each a record."""

    agent = NAME

    def _read(self, record: LogRecord) -> list[ParsedRecord]:
        events: list[ParsedEvent] = []
        for value in conversations([record.value]):
            events += self._conversation(fields_of(value), value)
        return [ParsedRecord(record=record, events=events, skipped=None if events else "is empty")]

    def _conversation(self, value: dict[str, Any], raw: Any) -> list[ParsedEvent]:
        session = name_of(value.get("conversation_id")) or name_of(value.get("id"))
        session = session or f"{NAME}-{self._key(NAME, raw)}"
        mapping, title = fields_of(value.get("mapping")), word(value.get("title"))
        about = {at: value[at] for at in ("default_model_slug", "gizmo_id") if value.get(at)}
        header = SessionHeader(
            session=session, agent=self.agent, title=title and shorten(title), about=about
        )
        if not mapping:
            if not says_something(raw):
                return []
            self._open(header)
            return self._events(session, [observed(self._key(session, raw), "conversation", raw)])
        self._is_at(session, _time(value.get("create_time")), is_about=True)
        nodes = {str(at): fields_of(node) for at, node in mapping.items()}
        owners: dict[str, str] = {}
        events: list[ParsedEvent] = []
        for leaf in _leaves(nodes, value.get("current_node")):
            path = _path(nodes, leaf)
            own = next((at for at, node in enumerate(path) if node not in owners), len(path))
            if own == len(path):
                continue
            branch, parent = session, None
            if owners:
                parent = owners.get(path[own - 1], session) if own else session
                branch = f"{session}~{short_id(path[own])}"
                self._is_at(branch, _time(value.get("create_time")), is_about=True)
            owners |= dict.fromkeys(path[own:], branch)
            drafts = [draft for node in path for draft in node_events(node, nodes)]
            if parent is None:
                self._open(header)
                drafts = [*([titled(title)] if title else []), *drafts]
            else:
                agent, text = self.agent, header.title
                self._open(
                    SessionHeader(session=branch, agent=agent, title=text, forked_from=parent)
                )
            events += self._events(branch, drafts)
        return events


def _leaves(nodes: dict[str, dict[str, Any]], current: Any) -> list[str]:
    """Return the ends of branches: the current one first, then the others by their times."""
    parents = {str(node.get("parent")) for node in nodes.values()}
    ends = [at for at in nodes if at not in parents]
    ends.sort(key=lambda at: (_time_of(nodes[at]) or 0, at))
    first = [str(current)] if str(current) in nodes else ends[-1:]
    return [*dict.fromkeys([*first, *ends])][:BRANCHES_MAX]


def _path(nodes: dict[str, dict[str, Any]], leaf: str) -> list[str]:
    """Return the nodes from the root to ``leaf``."""
    path: dict[str, None] = {}
    at: str | None = leaf
    while at in nodes and at not in path:
        path[at] = None
        parent = nodes[at].get("parent")
        at = None if parent is None else str(parent)
    return [*reversed(path)]


def node_events(at: str, nodes: dict[str, dict[str, Any]]) -> list[PendingEvent]:
    """Return the events of a node's message; none if it is empty."""
    message = fields_of(nodes[at].get("message"))
    content, author = fields_of(message.get("content")), fields_of(message.get("author"))
    key = short_id(name_of(message.get("id")) or at)
    role, sort = word(author.get("role")), word(content.get("content_type"))
    metadata = fields_of(message.get("metadata"))
    drafts: list[PendingEvent]
    if role == "tool":
        drafts = [_result(key, at, nodes)]
    elif not says_something({**content, "content_type": None, "language": None}):
        drafts = []
    elif metadata.get("is_visually_hidden_from_conversation") or role not in {"user", "assistant"}:
        drafts = [observed(key, sort or role or "message", message)]
    elif sort == "thoughts":
        drafts = [*_thoughts(content, key)]
    elif role == "assistant" and (tool := _recipient(message)) is not None:
        drafts = [called(f"call:{key}", key, tool, input_of(_text(content), "text"))]
    elif sort in _TEXTS or (sort == _CODE and role == "assistant"):
        drafts = [_said(role, content, key, metadata)]
    else:
        drafts = [observed(key, sort or "message", message)]
    return timed(drafts, _time_of(nodes[at]))


def _said(role: str, content: dict[str, Any], key: str, metadata: dict[str, Any]) -> PendingEvent:
    listed = objects_in(content.get("parts"))
    model = name_of(metadata.get("model_slug")) if role == "assistant" else None
    stopped = name_of(fields_of(metadata.get("finish_details")).get("type"))
    attached = metadata.get("attachments") or None
    return said(
        role, key, _text(content), model=model, stop_reason=stopped, content=listed or None,
        attached=attached, message_id=key,
    )  # fmt: skip


def _thoughts(content: dict[str, Any], key: str) -> Iterator[PendingEvent]:
    for number, thought in enumerate(map(fields_of, items_of(content.get("thoughts")))):
        texts = [text for at in ("summary", "content") if (text := word(thought.get(at)))]
        if texts:
            yield said("thinking", f"{key}.{number}" if number else key, "\n".join(texts))


def _result(key: str, at: str, nodes: dict[str, dict[str, Any]]) -> PendingEvent:
    """Return the outcome of the call that led to a node."""
    message = fields_of(nodes[at].get("message"))
    content, author = fields_of(message.get("content")), fields_of(message.get("author"))
    metadata, tool = fields_of(message.get("metadata")), name_of(author.get("name"))
    call_id = _call_before(at, nodes, tool)
    text = _text(content)
    ended = fields_of(metadata.get("aggregate_result")).get("status")
    is_error = content.get("content_type") == "system_error"
    error = None
    if is_error or word(ended) in _FAILED or word(message.get("status")) in _FAILED:
        error = {
            "class": name_of(content.get("name")) or "Failed",
            "message": shorten(plain(text)) or "failed",
        }
    rest = {} if word(text) else {"content": content}
    return returned(f"result:{key}", call_id or key, tool, text, error, **rest)


def _call_before(at: str, nodes: dict[str, dict[str, Any]], tool: str | None) -> str | None:
    """Return the id of the nearest call before a node: one to the same tool, if there is one."""
    nearest, seen = None, {at}
    before = str(nodes[at].get("parent"))
    while before in nodes and before not in seen:
        seen.add(before)
        message = fields_of(nodes[before].get("message"))
        role, recipient = fields_of(message.get("author")).get("role"), _recipient(message)
        if role == "user":
            break
        if role == "assistant" and recipient is not None:
            key = short_id(name_of(message.get("id")) or before)
            if recipient.split(".")[0] == str(tool).split(".")[0]:
                return key
            nearest = nearest or key
        before = str(nodes[before].get("parent"))
    return nearest


def _recipient(message: dict[str, Any]) -> str | None:
    """Return the tool that a message is for; None if it is for the user."""
    named = name_of(message.get("recipient"))
    return None if named == _ALL else named


def _text(content: dict[str, Any]) -> str:
    parts = items_of(content.get("parts"))
    texts = [part for part in parts if isinstance(part, str)]
    texts += [part["text"] for part in objects_in(parts) if isinstance(part.get("text"), str)]
    for at in ("text", "result", "content"):
        texts += [content[at]] if isinstance(content.get(at), str) else []
    return "\n".join(text for text in texts if text)


def _time_of(node: dict[str, Any]) -> int | None:
    return _time(fields_of(node.get("message")).get("create_time"))


def _time(seconds: Any) -> int | None:
    if type(seconds) not in {int, float} or not 0 < seconds < 10**11:
        return None
    return round(float(seconds) * 1_000)


def _records(path: Path, _: DatabaseReader) -> Iterator[LogRecord]:
    return read_list(path)


FORMAT: Final = Format(name=NAME, score=score, reader=ChatGptReader, records=_records)
