"""What importers need of a ledger beyond recording and reading: repeats, bookmarks, hidden ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.ledger.bookmarks import Bookmarks, find_id_key, id_key
from treering.model.arguments import checks_arguments
from treering.model.fields import check_events, check_name
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treering.ledger.engine import Engine
    from treering.ledger.ports import EventStore
    from treering.model.events import Header, NewEvent


@checks_arguments
class ImportAccess:
    """What an importer needs of a ledger: ``ledger.importing``."""

    def __init__(self, store: EventStore, engine: Engine) -> None:
        self._store = store
        self._engine = engine

    def append_missing(self, events: Sequence[NewEvent]) -> list[Header]:
        """Record as ``ledger.append`` does; return only the headers of events that were new."""
        listed = check_events(events)
        return self._engine.append_missing(listed) if listed else []

    def is_unknown(self, scope: str, session_id: str) -> bool:
        """Return whether a session has no events, not even before a fork: cheaper than a handle."""
        name = check_name(session_id, "session_id")
        reader = self._store.reader
        return not reader.last_headers(parse_scope(scope), name, before_seq=None, limit=1)

    def bookmarks(self, scope: str) -> Bookmarks:
        """Return the notes that importers keep in a scope about how far they have read.

        Raise KeyMissing if the scope was used with another key that hides ids.
        """
        name = parse_scope(scope)
        find_id_key(self._store, name)
        return Bookmarks(self._store, name)

    def id_key(self, scope: str | None = None) -> bytes:
        """Return the key that hides ids made from words; it is in the folder of keys.

        With a scope, the scope notes which key it is. Raise KeyMissing if it noted another one.
        """
        if scope is None:
            return self._store.vault.id_key()
        return id_key(self._store, parse_scope(scope))

    def rekeyed_ms(self) -> int | None:
        """Return when ids that words can be guessed from were hidden in this ledger.

        None if it never held any: it was made by a version that makes none.
        """
        return self._store.reader.rekeyed_ms()
