"""Sealed scopes: their keys made, changed, listed and destroyed, and what has to happen first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.errors import InvalidInput, KeyMissing, NotFound
from treering.ledger import erasure
from treering.model.receipts import DestroyReceipt, KeyGeneration, KeyReceipt

if TYPE_CHECKING:
    from treering.ledger.drafts import Drafter
    from treering.ledger.ports import EventStore
    from treering.ledger.records import KeyRecord
    from treering.model.receipts import KeyState
    from treering.model.scopes import Scope


def encrypt(store: EventStore, scope: Scope, *, at_ms: int) -> KeyReceipt:
    """Seal what is recorded in ``scope`` from now on; make a key unless one is in use."""
    _check_not_lost(store, scope)
    created = not store.vault.seals(scope)
    generation = store.vault.create(scope, at_ms=at_ms)
    # The key first: who finds the mark, finds the key.
    store.seal_scope(scope)
    store.vault.confirm(scope)
    return KeyReceipt(scope=scope, generation=generation, created=created)


def rotate(store: EventStore, scope: Scope, *, at_ms: int) -> KeyReceipt:
    """Seal what is recorded from now on under a new key; the old ones are kept for reading."""
    _check_encrypted(store, scope)
    generation = store.vault.rotate(scope, at_ms=at_ms)
    return KeyReceipt(scope=scope, generation=generation, created=True)


def generations(store: EventStore, scope: Scope | None) -> list[KeyGeneration]:
    """Return the generations of one scope's key, or of every sealed scope's."""
    scopes = store.sealed_scopes() if scope is None else [scope]
    return [one for name in scopes for one in _generations(store, name)]


def destroy_generation(
    store: EventStore, scope: Scope, generation: int, *, at_ms: int
) -> DestroyReceipt:
    """Destroy one key that nothing is sealed under any more."""
    _check_encrypted(store, scope)
    known = next((one for one in store.vault.records(scope) if one.generation == generation), None)
    if known is None:
        raise NotFound(
            f"scope {scope} has no generation {generation} of its key",
            hint="treering keys list shows those that it has",
        )
    if known.in_use:
        raise InvalidInput(
            f"generation {generation} of scope {scope} is in use",
            hint="rotate the key first, or destroy all of the scope's keys",
        )
    # Who still had the key at hand when it was rotated is done after this.
    store.await_writers(scope)
    payloads = store.sealed_payloads(scope).get(generation, 0)
    if payloads and known.destroyed_ms is None:
        raise InvalidInput(
            f"scope {scope} holds {payloads:,} payload{'s' if payloads > 1 else ''} sealed under"
            f" generation {generation}",
            hint="redact them or let them expire first, or destroy all of the scope's keys",
        )
    destroyed = store.vault.destroy(scope, [generation], at_ms=at_ms)
    return DestroyReceipt(
        scope=scope, generations=destroyed, redacted_count=0, blobs_erased=0, physical="done"
    )


def destroy_all(store: EventStore, drafter: Drafter, scope: Scope, *, at_ms: int) -> DestroyReceipt:
    """Redact every session of the scope, then destroy every key that it had."""
    _check_encrypted(store, scope)
    # Nobody seals any more, so that no payload is recorded between the two and lost.
    store.vault.retire(scope)
    # One that is in use was made since, and stays.
    known = [one.generation for one in store.vault.records(scope) if not one.in_use]
    store.await_writers(scope)
    redacted, blobs = erasure.redact_all(store, drafter, scope)
    physical = store.finish_erasure()
    return DestroyReceipt(
        scope=scope,
        generations=store.vault.destroy(scope, known, at_ms=at_ms),
        redacted_count=redacted,
        blobs_erased=blobs,
        physical=physical,
    )


def _check_encrypted(store: EventStore, scope: Scope) -> None:
    _check_not_lost(store, scope)
    if not store.vault.records(scope):
        raise NotFound(
            f"scope {scope} has no key",
            hint=f"make one: treering keys create --scope {scope}",
        )


def _check_not_lost(store: EventStore, scope: Scope) -> None:
    """Raise KeyMissing if the scope is sealed under keys that are not here.

    Others have them: a new generation made here would have the number of one of theirs.
    """
    if store.vault.records(scope):
        return
    if store.is_sealed(scope) or store.sealed_payloads(scope):
        raise KeyMissing(
            f"scope {scope} is sealed, and its key is not here",
            hint="put the key file into the folder of keys, or say where it is with TREERING_KEYS",
        )


def _generations(store: EventStore, scope: Scope) -> list[KeyGeneration]:
    payloads = store.sealed_payloads(scope)
    known = {one.generation: one for one in store.vault.records(scope)}
    numbers = sorted(known.keys() | payloads.keys())
    if not numbers and store.is_sealed(scope):
        numbers = [0]
    return [
        KeyGeneration(
            scope=scope,
            generation=number,
            state=_state(found := known.get(number)),
            created_ms=None if found is None else found.created_ms,
            destroyed_ms=None if found is None else found.destroyed_ms,
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
