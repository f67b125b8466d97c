"""Cursor's chats in the terminal: a database each, with a tree of blobs named by their contents.

    ~/.cursor/chats/WORKSPACE/SESSION/store.db

The root names the messages in their order, as protobuf; a message is JSON in the blocks of the AI
SDK, or holds such JSON. A message that the root does not name any more was left out of the context.
"""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import msgspec

from treering.formats.blocks import WaitingCalls
from treering.formats.codex.drafts import observed
from treering.formats.cursor.composers import SESSION_KEY, message_events, workspace_in
from treering.formats.loose import fields_of, text_of, time_ms, word
from treering.formats.loose import name as name_of
from treering.formats.parsed import LogRecord, ParsedRecord, SessionHeader
from treering.formats.whole import NOTHING, WholeReader, has_columns, json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.formats.format import DatabaseReader

NAME: Final = "cursor"
META: Final = "meta"
BLOBS: Final = "blobs"
_COLUMNS: Final = {META: ["key", "value"], BLOBS: ["id", "data"]}
_HASH_BYTES: Final = 32
_NAMED: Final = b"\x0a\x20"
"""How protobuf spells a first field of 32 bytes: the hash of a message."""


def score(tables: Sequence[Any]) -> float:
    """Return whether these are the tables of a chat."""
    return has_columns(tables, _COLUMNS)


def records(path: Path, databases: DatabaseReader) -> Iterator[dict[str, Any]]:
    """Yield the rows: what the chat is, then its messages in their order, then other blobs."""
    with databases.open(path) as database:
        root = None
        for row in database.rows(META, _COLUMNS[META]):
            meta = meta_of(row["value"])
            root = root or word(meta.get("latestRootBlobId"))
            yield {"meta": meta, "value": None if meta else row["value"]}
        blobs = {row["id"]: row["data"] for row in database.rows(BLOBS, _COLUMNS[BLOBS])}
        messages = {
            blob_id: message for blob_id, data in blobs.items() if (message := message_in(data))
        }
        named = [blob_id for blob_id in _hashes(blobs.get(root)) if blob_id in messages]
        places = {blob_id: at for at, blob_id in enumerate(messages)}
        left_out = [blob_id for blob_id in messages if blob_id not in set(named)]
        for blob_id in named:
            while left_out and places[left_out[0]] < places[blob_id]:
                earlier = left_out.pop(0)
                yield {"blob": earlier, "message": messages[earlier]}
            yield {"blob": blob_id, "message": messages[blob_id]}
        for blob_id in left_out:
            yield {"blob": blob_id, "message": messages[blob_id]}
        for blob_id in blobs:
            if blob_id not in messages:
                yield {"blob": blob_id, "message": None}


def meta_of(value: Any) -> dict[str, Any]:
    """Return what a chat is: JSON, mostly in hexadecimal digits."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    if not isinstance(text, str):
        return {}
    try:
        return fields_of(json_of(bytes.fromhex(text)))
    except ValueError:
        return fields_of(json_of(text))


def message_in(data: Any) -> dict[str, Any] | None:
    """Return the message that a blob is, or holds."""
    raw = data.encode(errors="replace") if isinstance(data, str) else data
    if not isinstance(raw, bytes):
        return None
    for start in (0, raw.find(b'{"role":'), raw.find(b'{"id":')):
        end = raw.rfind(b"}") + 1
        if 0 <= start < end:
            message = json_of(raw[start:end])
            if isinstance(message, dict) and isinstance(message.get("role"), str):
                return message
    return None


def _hashes(data: Any) -> list[str]:
    """Return the hashes that a blob names, in their order."""
    raw = data if isinstance(data, bytes) else b""
    at, hashes = 0, []
    while raw.startswith(_NAMED, at) and len(raw) >= at + 2 + _HASH_BYTES:
        hashes.append(raw[at + 2 : at + 2 + _HASH_BYTES].hex())
        at += 2 + _HASH_BYTES
    return hashes


class ChatReader(WholeReader):
    """Reads the messages of one chat."""

    agent = NAME

    def __init__(self, path: PurePath | None = None) -> None:
        super().__init__(path)
        self._calls = WaitingCalls()
        self._session = (name_of(path.parent.name) if path is not None else None) or NAME
        self._model: str | None = None

    def _read(self, record: LogRecord) -> list[ParsedRecord]:
        row = fields_of(record.value)
        if "blob" not in row:
            return [self._meta(record, row)]
        message = fields_of(row.get("message"))
        if not message:
            return [ParsedRecord(record=record, skipped="a blob that is not a message")]
        role, content = str(message.get("role")), message.get("content")
        if not self.sessions:
            self._begin({})
        session = self._session
        if role == "user":
            self._find_workspace(text_of(content))
        if role == "system":
            drafts = [observed(str(row["blob"]), "system", message)]
            return [self._outcome(record, session, drafts, NOTHING)]
        options = fields_of(fields_of(message.get("providerOptions")).get("cursor"))
        model = name_of(options.get("modelName")) or self._model
        key_of = partial(self._key, session)
        events = message_events(role, content, key_of, self._calls, model)
        return [self._outcome(record, session, events, "an empty message")]

    def _meta(self, record: LogRecord, row: dict[str, Any]) -> ParsedRecord:
        meta = fields_of(row.get("meta"))
        if not meta:
            drafts = [observed(self._key(self._session, row), "meta", row)]
            return self._outcome(record, self._begin({}), drafts, NOTHING)
        about = {at: value for at, value in meta.items() if at != "latestRootBlobId"}
        drafts = [observed(SESSION_KEY, "session", about)]
        session = self._begin(meta)
        self._is_at(session, time_ms(meta.get("createdAt")))
        return self._outcome(record, session, drafts, NOTHING)

    def _begin(self, meta: dict[str, Any]) -> str:
        self._session = name_of(meta.get("agentId")) or self._session
        self._model = name_of(meta.get("lastUsedModel")) or self._model
        self._workspace = _workspace(self._path)
        return self._open(
            SessionHeader(
                session=self._session,
                agent=self.agent,
                title=word(meta.get("name")),
                cwd=self._workspace,
                about={"model": self._model} if self._model else {},
            )
        )

    def _find_workspace(self, text: str) -> None:
        """Note the folder that a message names, if nothing else does."""
        header = self.sessions[self._session]
        if header.cwd is None and (folder := workspace_in(text)):
            self._open(msgspec.structs.replace(header, cwd=folder))


def _workspace(path: PurePath | None) -> str | None:
    """Return the folder whose hash names the folder of a chat: one of Cursor's projects."""
    if path is None:
        return None
    wanted = path.parent.parent.name
    for trusted in Path(path).parent.parent.parent.parent.glob("projects/*/.workspace-trusted"):
        try:
            folder = word(fields_of(json_of(trusted.read_bytes())).get("workspacePath"))
        except OSError:
            continue
        if folder and hashlib.md5(folder.encode(), usedforsecurity=False).hexdigest() == wanted:
            return folder
    return None
