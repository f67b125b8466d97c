"""A checkpoint saver: LangGraph's threads in a ledger, exact, and as small as what changed.

    {thread}/c/{ns}/{id}         state.saved     a checkpoint without its values, and its metadata
    {thread}/latest/{ns}                         the same event: the newest checkpoint
    run:{run}/                                   the same event: checkpoints of a run
    {thread}/v/{ns}/{channel}/{version}          state.value     a channel's value, if it changed
    {thread}/w/{ns}/{id}         state.written   writes of tasks; all of its history counts

Threads, namespaces and channels are hashes in keys. State is stored as the bytes that LangGraph's
serializer makes: a graph continues with exactly what it had.
"""

from __future__ import annotations

import random
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from typing_extensions import override

from treering.adapters.langgraph.byte_deltas import Delta, GrowingValue, Version, applied
from treering.adapters.record_buffer import RecentValues, RecordBuffer
from treering.async_objects import AsyncItems, AsyncLedger, sync_ledger
from treering.errors import Conflict, InvalidInput
from treering.ledger.keyed_records import CHANGES_MAX, KeyedRecord, KeyedRecords, RecordChange
from treering.model.fields import check_name

if TYPE_CHECKING:
    import builtins
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from treering.ledger.ledger import Ledger

RECORDS: Final = "langgraph"
ATTEMPTS_MAX: Final = 20
LATEST_MAX: Final = 2_000
BYTES_MAX: Final = 64 * 1024 * 1024
"""Values that are kept in memory: to store the next versions as what changed, and to read them."""
CACHED_BYTES_MIN: Final = 1_024
"""Smaller values are read as quickly as their versions."""
ALL: Final = 2**31
_EMPTY: Final = "empty"
_TAG: Final = 24
"""Characters of a hash in a key."""


class _Place(NamedTuple):
    """A namespace of a thread, as keys have it."""

    thread_id: str
    ns: str
    thread: str
    tag: str

    def checkpoint(self, checkpoint_id: str) -> str:
        return f"{self.thread}/c/{self.tag}/{checkpoint_id}"

    @property
    def latest(self) -> str:
        return f"{self.thread}/latest/{self.tag}"

    def writes(self, checkpoint_id: str) -> str:
        return f"{self.thread}/w/{self.tag}/{checkpoint_id}"

    def value(self, channel: str, version: Any) -> str:
        return f"{self.thread}/v/{self.tag}/{_tag(channel)}/{version}"

    def config(self, checkpoint_id: str) -> RunnableConfig:
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": self.ns,
                "checkpoint_id": checkpoint_id,
            }
        }


class _Value(NamedTuple):
    """A value as it was serialized."""

    type: str
    content: bytes
    versions: Mapping[str, str]
    """Versions of all records that it is made of: with another one, it is another value."""


class _ValueChange(NamedTuple):
    """A value that is about to be put."""

    change: RecordChange
    channel: str
    added: Version
    bases: tuple[Version, ...]


class TreeringSaver(BaseCheckpointSaver[str]):
    """Saves the checkpoints of graphs in a ledger, for synchronous and asynchronous graphs.

    If the ledger fails, the graph continues: checkpoints wait in memory and in the spool, and the
    graph continues with them. With ``strict``, errors are raised.
    """

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        *,
        scope: str,
        serde: SerializerProtocol | None = None,
        agent: str = "langgraph",
        strict: bool = False,
    ) -> None:
        super().__init__(serde=serde)
        self._ledger, self._lanes = sync_ledger(ledger)
        self._scope = scope
        self._agent = agent
        self.buffer = RecordBuffer(self._ledger, RECORDS, strict=strict)
        """The buffer of writes to the ledger, with what waits or was lost."""
        self._all = self.buffer.records(scope, RECORDS, agent=agent)
        self._latest = RecentValues[tuple[str, str], tuple[str, str]](LATEST_MAX)
        """The newest checkpoint of namespaces, and the version of its record."""
        self._growing = RecentValues[tuple[str, str, str], GrowingValue](BYTES_MAX, _growing_size)
        """Values by thread, namespace and channel."""
        self._values_read = RecentValues[str, _Value](BYTES_MAX, lambda value: len(value.content))
        """Values by their keys."""

    # Reading.

    @override
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = _place(config)
        wanted = get_checkpoint_id(config)
        record = self._all.get(place.latest if wanted is None else place.checkpoint(wanted))
        if record is None and wanted is None:
            record = self._newest(place)
        return None if record is None else self._tuple(record)

    @override
    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        left = limit
        for key in self._checkpoint_keys(config, before):
            if left is not None and left <= 0:
                return
            record = self._all.get(key)
            if record is None:
                continue  # It was deleted meanwhile.
            metadata = self._loaded(record.value["metadata"])
            if all(metadata.get(name) == value for name, value in (filter or {}).items()):
                yield self._tuple(record)
                left = None if left is None else left - 1

    @override
    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Walk the parent chain; of each checkpoint only the values of ``channels`` are read."""
        histories: dict[str, DeltaChannelHistory] = {
            channel: {"writes": []} for channel in channels
        }
        remaining = set(channels)
        place, wanted = _place(config), get_checkpoint_id(config)
        record = self._all.get(place.latest if wanted is None else place.checkpoint(wanted))
        seen: set[str] = set()
        while record is not None and remaining and record.value["id"] not in seen:
            seen.add(record.value["id"])
            parent = record.value["parent"]
            record = None if parent is None else self._all.get(place.checkpoint(parent))
            if record is None:
                break
            for write in reversed(self._writes(place, record.value["id"])):
                if write[1] in remaining:
                    histories[write[1]]["writes"].append(write)
            versions = self._loaded(record.value["checkpoint"])["channel_versions"]
            asked = {name: versions[name] for name in remaining if name in versions}
            for name, value in self._values(place, asked).items():
                histories[name]["seed"] = value
                remaining.discard(name)
        for entry in histories.values():
            entry["writes"].reverse()
        return histories

    def _tuple(self, record: KeyedRecord) -> CheckpointTuple:
        saved = record.value
        place = _place_of(saved["thread"], saved["ns"])
        checkpoint = self._loaded(saved["checkpoint"])
        checkpoint["channel_values"] = self._values(place, checkpoint["channel_versions"])
        return CheckpointTuple(
            config=place.config(saved["id"]),
            checkpoint=checkpoint,
            metadata=self._loaded(saved["metadata"]),
            parent_config=None if saved["parent"] is None else place.config(saved["parent"]),
            pending_writes=self._writes(place, saved["id"]),
        )

    def _values(self, place: _Place, versions: Mapping[str, Any]) -> dict[str, Any]:
        channels = {place.value(channel, version): channel for channel, version in versions.items()}
        values = self._cached(channels)
        missing = [key for key in channels if key not in values]
        if missing:
            values |= self._read(missing)
        return {
            channel: self.serde.loads_typed((values[key].type, values[key].content))
            for key, channel in channels.items()
            if key in values and values[key].type != _EMPTY
        }

    def _cached(self, keys: Iterable[str]) -> dict[str, _Value]:
        """Return the values that were put or read here before, if they are still the same."""
        cached = {key: value for key in keys if (value := self._values_read.get(key))}
        needed = {key for value in cached.values() for key in value.versions}
        current = self._all.versions(sorted(needed)) if needed else {}
        return {
            key: value
            for key, value in cached.items()
            if all(current.get(base) == version for base, version in value.versions.items())
        }

    def _cache(self, key: str, value: _Value) -> None:
        if len(value.content) >= CACHED_BYTES_MIN:
            self._values_read.add(key, value)

    def _read(self, keys: Sequence[str]) -> dict[str, _Value]:
        """Return values, made of the versions that they differ from."""
        records = self._all.get_many(keys)
        needed = {
            base: key
            for key, record in records.items()
            for name in record.value.get("bases", ())
            if (base := f"{key.rpartition('/')[0]}/{name}") not in records
        }
        made = self._cached(needed)
        missing = [base for base in needed if base not in made]
        bases = records | (self._all.get_many(missing) if missing else {})

        def make(key: str) -> _Value:
            if key not in made:
                value, versions = bases[key].value, {key: bases[key].version}
                content = value.get("content", b"")
                if "delta" in value:
                    base = make(f"{key.rpartition('/')[0]}/{value['bases'][0]}")
                    content = applied(Delta(*value["delta"]), base.content)
                    versions |= base.versions
                made[key] = _Value(value["type"], content, versions)
                self._cache(key, made[key])
            return made[key]

        return {key: make(key) for key in records}

    def _writes(self, place: _Place, checkpoint_id: str) -> builtins.list[PendingWrite]:
        """Return the writes of a checkpoint, each once, in the order in which they are replayed."""
        writes: dict[tuple[str, int], tuple[str, Sequence[Any]]] = {}
        for record in self._all.history(place.writes(checkpoint_id)):
            task, path = record.value["task"], record.value["path"]
            for write in record.value["writes"]:
                # An ordinary write counts once; special ones replace those before them.
                if write[0] < 0 or (task, write[0]) not in writes:
                    writes[task, write[0]] = (path, write)
        order = sorted(writes, key=lambda key: writes_sort_key(writes[key][0], *key))
        return [
            (task, writes[task, at][1][1], self._loaded(writes[task, at][1][2:]))
            for task, at in order
        ]

    def _newest(self, place: _Place) -> KeyedRecord | None:
        """Return the newest checkpoint by its id, where no record says which it is."""
        keys = self._all.keys(place.checkpoint(""), limit=ALL)
        return self._all.get(keys[-1]) if keys else None

    def _checkpoint_keys(
        self, config: RunnableConfig | None, before: RunnableConfig | None
    ) -> Sequence[str]:
        """Return the keys of the requested checkpoints, the newest first by their ids."""
        prefix, only = "", None
        if config is not None:
            place, only = _place(config), get_checkpoint_id(config)
            has_ns = config["configurable"].get("checkpoint_ns") is not None
            prefix = place.checkpoint("") if has_ns else f"{place.thread}/c/"
        below = None if before is None else get_checkpoint_id(before)
        checkpoints = [
            (_id_in(key), key)
            for key in self._all.keys(prefix, limit=ALL)
            if key[_TAG : _TAG + 3] == "/c/"
        ]
        return [
            key
            for checkpoint_id, key in sorted(checkpoints, reverse=True)
            if (only is None or checkpoint_id == only) and (below is None or checkpoint_id < below)
        ]

    # Writing.

    @override
    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        place = _place(config)
        rest: dict[str, Any] = {**checkpoint}
        state = rest.pop("channel_values")
        stated = get_checkpoint_metadata(config, metadata)
        saved: dict[str, Any] = {
            "thread": place.thread_id,
            "ns": place.ns,
            "id": checkpoint["id"],
            "parent": config["configurable"].get("checkpoint_id"),
            "checkpoint": self._dumped(rest),
            "metadata": self._dumped(stated),
        }
        contents = {
            channel: self.serde.dumps_typed(state[channel]) if channel in state else (_EMPTY, b"")
            for channel in new_versions
        }
        refs = {
            name: stated[name]
            for name in ("step", "source", "run_id")
            if isinstance(stated.get(name), int | str)
        }
        records, lost = self._records(place), self.buffer.lost
        existing: set[str] = set()
        for attempt in range(ATTEMPTS_MAX):
            values = [
                self._value_change(place, channel, new_versions[channel], *contents[channel])
                for channel in contents
                if place.value(channel, new_versions[channel]) not in existing
            ]
            change = self._checkpoint_change(place, saved, refs)
            try:
                *stored, head = records.put_all([*(value.change for value in values), change])
            except Conflict:
                # Another process put a checkpoint, or the same version was put before: it stays.
                if attempt == ATTEMPTS_MAX - 1:
                    raise
                self._forget(place)
                keys = [place.value(channel, new_versions[channel]) for channel in contents]
                existing = set(self._all.get_many(keys))
                continue
            if place.latest in change.also:
                self._latest.add((place.thread, place.tag), (saved["id"], head.version))
            for value, record in zip(values, stored, strict=True):
                self._note_value(place, value, record.version)
            break
        if self.buffer.lost != lost:
            self._forget(place)  # The next versions must not be made of what is not stored.
        return place.config(checkpoint["id"])

    def _checkpoint_change(
        self, place: _Place, saved: dict[str, Any], refs: dict[str, Any]
    ) -> RecordChange:
        """Return a checkpoint as a change; it is the newest unless one with a higher id is."""
        latest = self._latest.get((place.thread, place.tag))
        if latest is None:
            record = self._all.get(place.latest)
            newest = record or self._newest(place)
            latest = (newest.value["id"] if newest else "", record.version if record else "")
            self._latest.add((place.thread, place.tag), latest)
        also = [place.latest] if saved["id"] >= latest[0] else []
        if isinstance(run := refs.get("run_id"), str):
            also.append(_run_key(run))
        return RecordChange(
            key=place.checkpoint(saved["id"]),
            value=saved,
            kind="state.saved",
            also=tuple(also),
            requires={place.latest: latest[1]} if place.latest in also else {},
            refs=refs,
        )

    def _value_change(
        self, place: _Place, channel: str, version: Any, kind: str, content: bytes
    ) -> _ValueChange:
        """Return a value as a change: whole, or as its difference to an earlier version."""
        key = place.value(channel, version)
        growing = self._growing.get((place.thread, place.tag, channel)) or GrowingValue()
        number, delta, bases = growing.next(content)
        value: dict[str, Any] = {"type": kind}
        if delta is not None:
            value |= {"delta": [*delta], "bases": [base.name for base in reversed(bases)]}
        elif kind != _EMPTY:
            value["content"] = content
        change = RecordChange(
            key=key,
            value=value,
            expected="",
            # A prune keeps those that are needed and still there.
            requires={place.value(channel, base.name): base.record for base in bases},
        )
        return _ValueChange(change, channel, Version(number, str(version), "", content), bases)

    def _note_value(self, place: _Place, value: _ValueChange, version: str) -> None:
        """Remember a value that was put, for its next version and for readers."""
        kind, content = value.change.value["type"], value.added.content
        versions = {**value.change.requires, value.change.key: version}
        self._cache(value.change.key, _Value(kind, content, versions))
        path = (*value.bases, value.added._replace(record=version))
        growing = GrowingValue(() if kind == _EMPTY else path)
        self._growing.add((place.thread, place.tag, value.channel), growing)

    def _forget(self, place: _Place) -> None:
        """Forget what is remembered of a thread."""
        self._latest.drop(lambda name: name[0] == place.thread)
        self._growing.drop(lambda name: name[0] == place.thread)

    @override
    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        place = _place(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        value = {
            "task": task_id,
            "path": task_path,
            "writes": [
                [WRITES_IDX_MAP.get(channel, at), channel, *self.serde.dumps_typed(value)]
                for at, (channel, value) in enumerate(writes)
            ],
        }
        change = RecordChange(key=place.writes(checkpoint_id), value=value, kind="state.written")
        self._records(place).put_all([change])

    # Deleting and copying.

    @override
    def delete_thread(self, thread_id: str) -> None:
        """Erase all checkpoints, values and writes of a thread, physically."""
        place = _place_of(str(thread_id), "")
        if self._all.keys(f"{place.thread}/", limit=1):
            self.buffer.redact(self._scope, session_id=_session_id(place.thread_id))
        self._forget(place)

    @override
    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erase the checkpoints of runs, their writes, and values that no other checkpoint has."""
        gone: dict[str, builtins.list[KeyedRecord]] = {}
        for run in _listed(run_ids, "run_ids"):
            for record in self._all.history(_run_key(str(run))):
                gone.setdefault(record.value["thread"], []).append(record)
        for thread_id, records in gone.items():
            keys = {_key_of(record) for record in records}
            self._erase(thread_id, keys)

    @override
    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Erase all but the newest checkpoint of each namespace, or whole threads.

        What a delta channel of a kept checkpoint is replayed from is kept, too.
        """
        if strategy not in {"keep_latest", "delete"}:
            raise ValueError(f"unknown strategy {strategy!r}: use keep_latest or delete")
        for thread_id in map(str, _listed(thread_ids, "thread_ids")):
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            place = _place_of(thread_id, "")
            keys = self._keys_of(place, "c")
            newest = {key[: -len(_id_in(key))]: key for key in keys}  # In order: the last counts.
            needed = {replayed for key in newest.values() for replayed in self._replayed(key)}
            self._erase(thread_id, set(keys) - needed)

    @override
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread: erasing one of the two leaves the other."""
        source, target = _place_of(str(source_thread_id), ""), _place_of(str(target_thread_id), "")
        self._forget(target)
        taken = set(self._all.keys(f"{target.thread}/", limit=ALL))
        changes: builtins.list[RecordChange] = []

        def copied(key: str) -> str:
            return f"{target.thread}{key[_TAG:]}"

        for key, record in self._all_of(self._keys_of(source, "v")):
            if copied(key) not in taken:
                changes.append(RecordChange(key=copied(key), value=record.value))
        for key, record in self._all_of(self._keys_of(source, "c")):
            value = {**record.value, "thread": target.thread_id}
            also = [_place_of(target.thread_id, value["ns"]).latest]
            changes.append(
                RecordChange(key=copied(key), value=value, kind="state.saved", also=tuple(also))
            )
        records = self._records(target)
        for start in range(0, len(changes), CHANGES_MAX // 4):
            records.put_all(changes[start : start + CHANGES_MAX // 4])
        for key in self._keys_of(source, "w"):
            for record in self._all.history(key):
                change = RecordChange(key=copied(key), value=record.value, kind="state.written")
                records.put_all([change])

    def _keys_of(self, place: _Place, sort: str) -> Sequence[str]:
        return self._all.keys(f"{place.thread}/{sort}/", limit=ALL)

    def _all_of(self, keys: Sequence[str]) -> Iterator[tuple[str, KeyedRecord]]:
        for start in range(0, len(keys), CHANGES_MAX):
            yield from self._all.get_many(keys[start : start + CHANGES_MAX]).items()

    def _replayed(self, key: str) -> Iterator[str]:
        """Yield a checkpoint and all that its delta channels are replayed from."""
        record, pending, seen = self._all.get(key), None, set[str]()
        while record is not None and (checkpoint_key := _key_of(record)) not in seen:
            seen.add(checkpoint_key)
            yield checkpoint_key
            place = _place_of(record.value["thread"], record.value["ns"])
            checkpoint = self._loaded(record.value["checkpoint"])
            if pending is None:
                counters = self._loaded(record.value["metadata"]).get(
                    "counters_since_delta_snapshot"
                )
                pending = set(counters or ())
            pending -= set(self._values(place, checkpoint["channel_versions"]))
            parent = record.value["parent"]
            if not pending or parent is None:
                return
            record = self._all.get(place.checkpoint(parent))

    def _erase(self, thread_id: str, gone: set[str]) -> None:
        """Erase checkpoints by key, with their writes and with values that no other one needs."""
        if not gone:
            return
        place = _place_of(thread_id, "")
        self._forget(place)
        left = [key for key in self._keys_of(place, "c") if key not in gone]
        needed: set[str] = set()
        for _, record in self._all_of(left):
            here = _place_of(thread_id, record.value["ns"])
            versions = self._loaded(record.value["checkpoint"])["channel_versions"]
            needed |= {here.value(channel, version) for channel, version in versions.items()}
        for key, record in list(self._all_of(sorted(needed))):
            bases = record.value.get("bases", ())
            needed |= {f"{key.rpartition('/')[0]}/{base}" for base in bases}
        values = [key for key in self._keys_of(place, "v") if key not in needed]
        writes = [f"{key[:_TAG]}/w/{key[_TAG + 3 :]}" for key in gone]
        self._all.erase([*sorted(gone), *writes, *values])

    # Asynchronously: the same, in the order of the thread.

    @override
    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._lanes.run(_lane(config), self.get_tuple, config)

    @override
    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        make = partial(self.list, config, filter=filter, before=before, limit=limit)
        async for item in AsyncItems(self._lanes, None, make, None):
            yield item

    @override
    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self._lanes.run(
            _lane(config), self.put, config, checkpoint, metadata, new_versions
        )

    @override
    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._lanes.run(_lane(config), self.put_writes, config, writes, task_id, task_path)

    @override
    async def adelete_thread(self, thread_id: str) -> None:
        await self._lanes.run(str(thread_id), self.delete_thread, thread_id)

    @override
    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._lanes.run(None, self.delete_for_runs, run_ids)

    @override
    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        target = str(target_thread_id)
        await self._lanes.run(target, self.copy_thread, source_thread_id, target)

    @override
    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._lanes.run(None, partial(self.prune, thread_ids, strategy=strategy))

    @override
    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        work = partial(self.get_delta_channel_history, config=config, channels=channels)
        return await self._lanes.run(_lane(config), work)

    @override
    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return a version that no other branch of the same checkpoint gets."""
        number = 0 if current is None else int(str(current).split(".", maxsplit=1)[0])
        return f"{number + 1:032}.{random.random():016}"  # noqa: S311  (no secret)

    def _records(self, place: _Place) -> KeyedRecords:
        """Return the records of a thread's session."""
        return self.buffer.records(
            self._scope, RECORDS, session_id=_session_id(place.thread_id), agent=self._agent
        )

    def _dumped(self, value: Any) -> Sequence[Any]:
        return [*self.serde.dumps_typed(value)]

    def _loaded(self, stored: Sequence[Any]) -> Any:
        return self.serde.loads_typed((stored[0], stored[1]))


def _growing_size(growing: GrowingValue) -> int:
    return sum(len(version.content) for version in growing.path)


def _place(config: RunnableConfig) -> _Place:
    configurable = config["configurable"]
    return _place_of(str(configurable["thread_id"]), configurable.get("checkpoint_ns") or "")


def _place_of(thread_id: str, ns: str) -> _Place:
    return _Place(thread_id, ns, _tag(thread_id), _tag(ns))


def _session_id(thread_id: str) -> str:
    """Return the session of a thread: its name, or its hash if that is not a valid id."""
    try:
        return check_name(f"langgraph:{thread_id}", "session_id")
    except InvalidInput:
        return f"langgraph:#{_tag(thread_id)}"


def _lane(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _run_key(run_id: str) -> str:
    # One that cannot be part of a key is hashed; a slash ends what is locked and listed together.
    return f"run:{_tag(run_id)}/"


def _key_of(record: KeyedRecord) -> str:
    """Return the key of a checkpoint, whichever key it was found by."""
    saved = record.value
    return _place_of(saved["thread"], saved["ns"]).checkpoint(saved["id"])


def _id_in(key: str) -> str:
    """Return the id of a checkpoint, which its key ends with."""
    return key[2 * _TAG + 4 :]


def _tag(text: str) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=_TAG // 2).hexdigest()


def _listed(items: Iterable[str], name: str) -> list[str]:
    if isinstance(items, str):
        raise TypeError(f"{name} is a string: pass a list")
    return list(items)
