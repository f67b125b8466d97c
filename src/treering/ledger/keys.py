"""The keys of encrypted scopes, and the key that hides ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.errors import InvalidInput, KeyMissing, NotFound
from treering.ledger import erasure
from treering.ledger.import_access import accept_id_key, find_id_key
from treering.model.arguments import checks_arguments
from treering.model.receipts import DestroyReceipt, KeyGeneration, KeyReceipt, KeyState
from treering.model.scopes import Scope, parse_scope

if TYPE_CHECKING:
    from treering.ledger.drafts import Drafter
    from treering.ledger.ports import Clock, EventStore
    from treering.ledger.records import KeyRecord


@checks_arguments
class LedgerKeys:
    """The keys of a ledger's encrypted scopes: ``ledger.keys``."""

    def __init__(self, store: EventStore, drafter: Drafter, clock: Clock) -> None:
        self._store = store
        self._drafter = drafter
        self._clock = clock

    def create(self, scope: str) -> KeyReceipt:
        """Encrypt the payloads recorded in a scope from now on; create a key if it has none.

        Summaries and refs stay legible. The key is in the folder of keys, not in the ledger: if it
        is lost, the payloads are lost.
        """
        name = parse_scope(scope)
        vault = self._store.vault
        _check_not_lost(self._store, name)
        created = not vault.seals(name)
        generation = vault.create(name, at_ms=self._clock())
        # The key comes first, so that every writer who sees the scope's mark finds the key.
        self._store.seals.seal(name)
        vault.confirm(name)
        return KeyReceipt(scope=name, generation=generation, created=created)

    def rotate(self, scope: str) -> KeyReceipt:
        """Encrypt under a new key from now on; the old ones are kept for reading."""
        name = parse_scope(scope)
        _check_encrypted(self._store, name)
        generation = self._store.vault.rotate(name, at_ms=self._clock())
        return KeyReceipt(scope=name, generation=generation, created=True)

    def list(self, scope: str | None = None) -> list[KeyGeneration]:
        """Return every generation of the keys of one scope, or of all encrypted scopes."""
        scopes = self._store.seals.scopes() if scope is None else [parse_scope(scope)]
        return [generation for name in scopes for generation in _generations(self._store, name)]

    def destroy(self, scope: str, *, generation: int | None = None) -> DestroyReceipt:
        """Redact a whole scope, then destroy its keys: its backups become unreadable, too.

        With a ``generation``, destroy only that key. Raise InvalidInput if payloads are still
        sealed under it.
        """
        name = parse_scope(scope)
        _check_encrypted(self._store, name)
        return self._destroy_all(name) if generation is None else self._destroy(name, generation)

    def fits_id_key(self, scope: str) -> bool:
        """Whether the key that hides ids is the one that the scope was used with, if any."""
        try:
            find_id_key(self._store, parse_scope(scope))
        except KeyMissing:
            return False
        return True

    def accept_id_key(self, scope: str) -> None:
        """Continue with the key that hides ids as it is here, though the scope used another one.

        Ids that were hidden under the other key are no longer recognised: logs without ids of
        their own are recorded again at their next import, erased events included.
        """
        accept_id_key(self._store, parse_scope(scope))

    def _destroy(self, scope: Scope, generation: int) -> DestroyReceipt:
        """Destroy one key that no payload is sealed under any more."""
        store = self._store
        records = store.vault.records(scope)
        record = next((record for record in records if record.generation == generation), None)
        if record is None:
            raise NotFound(
                f"scope {scope} has no generation {generation} of its key",
                hint="treering keys list shows those that it has",
            )
        if record.in_use:
            raise InvalidInput(
                f"generation {generation} of scope {scope} is in use",
                hint="rotate the key first, or destroy all of the scope's keys",
            )
        # A writer who read the key before it was rotated is done after this.
        store.seals.await_writers(scope)
        payloads = store.seals.payloads(scope).get(generation, 0)
        if payloads and record.destroyed_ms is None:
            raise InvalidInput(
                f"scope {scope} holds {payloads:,} payload{'s' if payloads > 1 else ''} sealed"
                f" under generation {generation}",
                hint="redact them or let them expire first, or destroy all of the scope's keys",
            )
        destroyed = store.vault.destroy(scope, [generation], at_ms=self._clock())
        return DestroyReceipt(
            scope=scope, generations=destroyed, redacted_count=0, blobs_erased=0, physical="done"
        )

    def _destroy_all(self, scope: Scope) -> DestroyReceipt:
        """Redact every session of the scope, then destroy every key that it had."""
        store, at_ms = self._store, self._clock()
        # After this nobody seals, so that no payload is recorded in between and lost.
        store.vault.retire(scope)
        # A key that is in use was made since, and stays.
        retired = [record.generation for record in store.vault.records(scope) if not record.in_use]
        store.seals.await_writers(scope)
        redacted, blobs = erasure.redact_all(store, self._drafter, scope)
        physical = store.erasure.finish()
        return DestroyReceipt(
            scope=scope,
            generations=store.vault.destroy(scope, retired, at_ms=at_ms),
            redacted_count=redacted,
            blobs_erased=blobs,
            physical=physical,
        )


def _check_encrypted(store: EventStore, scope: Scope) -> None:
    _check_not_lost(store, scope)
    if not store.vault.records(scope):
        raise NotFound(
            f"scope {scope} has no key", hint=f"make one: treering keys create --scope {scope}"
        )


def _check_not_lost(store: EventStore, scope: Scope) -> None:
    """Raise KeyMissing if the scope is sealed under keys that are not here.

    Another machine has them: a new generation made here would repeat a number used there.
    """
    if store.vault.records(scope):
        return
    if store.seals.is_sealed(scope) or store.seals.payloads(scope):
        raise KeyMissing(
            f"scope {scope} is sealed, and its key is not here",
            hint="put the key file into the folder of keys, or say where it is with TREERING_KEYS",
        )


def _generations(store: EventStore, scope: Scope) -> list[KeyGeneration]:
    payloads = store.seals.payloads(scope)
    records = {record.generation: record for record in store.vault.records(scope)}
    numbers = sorted(records.keys() | payloads.keys())
    if not numbers and store.seals.is_sealed(scope):
        numbers = [0]
    return [
        KeyGeneration(
            scope=scope,
            generation=number,
            state=_state(record := records.get(number)),
            created_ms=None if record is None else record.created_ms,
            destroyed_ms=None if record is None else record.destroyed_ms,
            payloads=payloads.get(number, 0),
        )
        for number in numbers
    ]


def _state(record: KeyRecord | None) -> KeyState:
    if record is None:
        return "missing"
    if record.destroyed_ms is not None:
        return "destroyed"
    return "in use" if record.in_use else "kept"
