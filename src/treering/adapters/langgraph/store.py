"""LangGraph's long-term store in a ledger: items by namespace and key, searched by meaning.

An item is a keyed record, so every change of it is an event, and deleting it erases all that it
ever held. No vector is stored: items are embedded when they are first searched.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
    get_text_at_path,
    tokenize_path,
)
from typing_extensions import override

from treering.adapters.record_buffer import RecordBuffer
from treering.async_objects import AsyncLedger, sync_ledger
from treering.errors import Conflict
from treering.ledger.keyed_records import CHANGES_MAX, KeyedRecord, RecordChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langgraph.store.base import MatchCondition, Op, Result

    from treering.ledger.ledger import Ledger

RECORDS: Final = "langgraph-store"
ALL: Final = 2**31
VECTORS_MAX: Final = 100_000
"""Items whose vectors are kept in memory."""
ATTEMPTS_MAX: Final = 20
_OPERATORS: Final = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_ORDERED: Final = frozenset({"$gt", "$gte", "$lt", "$lte"})


class TreeringStore(BaseStore):
    """Keeps items of graphs in a ledger.

    If the ledger fails, the graph continues: items wait in memory and in the spool, and are found
    there. With ``strict``, errors are raised. Deleting raises in any case.
    """

    supports_ttl = False

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        *,
        scope: str,
        agent: str = "langgraph",
        strict: bool = False,
    ) -> None:
        self._ledger, self._lanes = sync_ledger(ledger)
        self.buffer = RecordBuffer(self._ledger, RECORDS, strict=strict)
        """The buffer of writes to the ledger, with what waits or was lost."""
        self._records = self.buffer.records(scope, RECORDS, agent=agent)
        self._vectors: OrderedDict[str, Any] = OrderedDict()
        """Rows of vectors by the version of an item."""

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations: all reads see what was there before the writes."""
        listed = list(ops)
        results: list[Result] = []
        puts: dict[str, PutOp] = {}
        for op in listed:
            match op:
                case GetOp():
                    results.append(self._get(op))
                case SearchOp():
                    results.append(self._search(op))
                case ListNamespacesOp():
                    results.append(self._namespaces(op))
                case PutOp():
                    key = _key(op.namespace, op.key)
                    puts.pop(key, None)
                    puts[key] = op
                    results.append(None)
                case _:
                    raise ValueError(f"unknown operation: {op!r}")
        self._put(puts)
        return results

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same in a thread; batches are carried out in order."""
        return await self._lanes.run(self._records.session_id, self.batch, list(ops))

    def _get(self, op: GetOp) -> Item | None:
        record = self._records.get(_key(op.namespace, op.key))
        return None if record is None else Item(**_item(record))

    def _put(self, puts: Mapping[str, PutOp]) -> None:
        written = {key: op for key, op in puts.items() if op.value is not None}
        keys = list(written)
        for start in range(0, len(keys), CHANGES_MAX):
            self._write({key: written[key] for key in keys[start : start + CHANGES_MAX]})
        gone = [key for key, op in puts.items() if op.value is None]
        if gone:
            self._records.erase(gone)

    def _write(self, puts: Mapping[str, PutOp]) -> None:
        for attempt in range(ATTEMPTS_MAX):
            existing = self._records.get_many(list(puts))
            try:
                self._records.put_all([self._change(op, key, existing) for key, op in puts.items()])
            except Conflict:
                if attempt == ATTEMPTS_MAX - 1:
                    raise
            else:
                return

    def _change(self, op: PutOp, key: str, known: Mapping[str, KeyedRecord]) -> RecordChange:
        before = known.get(key)
        value: dict[str, Any] = {"value": dict(op.value or {})}
        if op.index is not None:
            value["index"] = op.index
        if before is not None:
            value["created_ms"] = before.value.get("created_ms", before.recorded_ms)
        # Expected, so that the time at which it was created stays.
        return RecordChange(key=key, value=value, expected="" if before is None else before.version)

    # Searching.

    def _search(self, op: SearchOp) -> list[SearchItem]:
        matching = [
            record
            for record in self._below(op.namespace_prefix)
            if all(
                _matches(record.value["value"].get(name), wanted)
                for name, wanted in (op.filter or {}).items()
            )
        ]
        scored = self._scored(op.query, matching) if op.query else [(None, r) for r in matching]
        return [
            SearchItem(**_item(record), score=score)
            for score, record in scored[op.offset : op.offset + op.limit]
        ]

    def _below(self, prefix: Sequence[str]) -> Iterator[KeyedRecord]:
        """Yield the items of a namespace and of those below it."""
        keys = self._records.keys("".join(f"{_quoted(label)}/" for label in prefix), limit=ALL)
        for start in range(0, len(keys), CHANGES_MAX):
            yield from self._records.get_many(keys[start : start + CHANGES_MAX]).values()

    def _scored(
        self, query: str, records: Sequence[KeyedRecord]
    ) -> list[tuple[float | None, KeyedRecord]]:
        """Return items with their similarity, the best first; those without texts come last."""
        embedder = self._ledger.embedder
        if embedder is None:
            return [(None, record) for record in records]
        new = {
            record.version: _texts(record)
            for record in records
            if record.version not in self._vectors
        }
        texts = [text for some in new.values() for text in some]
        rows = embedder.embed(texts) if texts else ()
        at = 0
        for version, some in new.items():
            self._vectors[version] = rows[at : at + len(some)] if some else None
            at += len(some)
        asked = embedder.embed_queries([query])[0]
        scored: list[tuple[float | None, KeyedRecord]] = []
        for record in records:
            vectors = self._vectors[record.version]
            scored.append((None if vectors is None else float((vectors @ asked).max()), record))
        while len(self._vectors) > VECTORS_MAX:
            self._vectors.popitem(last=False)
        return sorted(scored, key=lambda one: -2.0 if one[0] is None else one[0], reverse=True)

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        namespaces = {_namespace(key) for key in self._records.keys(limit=ALL)}
        matching = {
            namespace[: op.max_depth]
            for namespace in namespaces
            if all(_fits(condition, namespace) for condition in op.match_conditions or ())
        }
        return sorted(matching)[op.offset : op.offset + op.limit]


def _key(namespace: Sequence[str], key: str) -> str:
    return f"{''.join(f'{_quoted(label)}/' for label in namespace)}/{_quoted(str(key))}"


def _quoted(label: str) -> str:
    return quote(label, safe=" @:+=,;~!*'()[]{}<>|&$#?^`")


def _namespace(key: str) -> tuple[str, ...]:
    return tuple(unquote(label) for label in key.partition("//")[0].split("/"))


def _item(record: KeyedRecord) -> dict[str, Any]:
    created_ms = record.value.get("created_ms", record.recorded_ms)
    return {
        "value": record.value["value"],
        "key": unquote(record.key.partition("//")[2]),
        "namespace": _namespace(record.key),
        "created_at": datetime.fromtimestamp(created_ms / 1_000, UTC),
        "updated_at": datetime.fromtimestamp(record.recorded_ms / 1_000, UTC),
    }


def _texts(record: KeyedRecord) -> list[str]:
    """Return the texts by which an item is found: those at its paths, or all together."""
    paths, value = record.value.get("index"), record.value["value"]
    if paths is False:
        return []
    if not paths or "$" in paths:
        return [text] if (text := " ".join(_leaves(value))) else []
    texts = (text for path in paths for text in get_text_at_path(value, tokenize_path(path)))
    return [text for text in texts if text]


def _leaves(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _leaves(item)
        case list():
            for item in value:
                yield from _leaves(item)


def _matches(value: Any, wanted: Any) -> bool:
    """Whether a value matches a filter; nested objects are compared field by field."""
    match wanted:
        case dict() if any(name.startswith("$") for name in wanted):
            return all(_compare(value, name, other) for name, other in wanted.items())
        case dict():
            return isinstance(value, dict) and all(
                _matches(value.get(name), other) for name, other in wanted.items()
            )
        case list() | tuple():
            return (
                isinstance(value, list)
                and len(value) == len(wanted)
                and all(map(_matches, value, wanted))
            )
    return bool(value == wanted)


def _compare(value: Any, name: str, other: Any) -> bool:
    if name not in _OPERATORS:
        raise ValueError(f"unsupported operator: {name}")
    if name in _ORDERED:
        try:
            value, other = float(value), float(other)
        except (TypeError, ValueError):
            return False
    return bool(_OPERATORS[name](value, other))


def _fits(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(wanted in {"*", label} for wanted, label in zip(path, part, strict=True))
