"""What importers need of a ledger beyond recording and reading: repeats, bookmarks, hidden ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treering.ledger.bookmarks import Bookmarks, find_id_key, id_key
from treering.model.arguments import checks_arguments
from treering.model.fields import check_events, check_id, check_list, check_name
from treering.model.scopes import parse_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treering.ledger.engine import Engine
    from treering.ledger.ports import EventStore
    from treering.model.events import Header, NewEvent
    from treering.model.scopes import Scope


@checks_arguments
class ImportAccess:
    """What an importer needs of a ledger: ``ledger.importing``."""

    def __init__(
        self, store: EventStore, engine: Engine, withdraw: Callable[[Scope, tuple[str, ...]], None]
    ) -> None:
        self._store = store
        self._engine = engine
        self._withdraw = withdraw

    def append(
        self, events: Sequence[NewEvent], *, expected_seq: int | None = None
    ) -> tuple[list[Header], list[str]]:
        """Record as ``ledger.append`` does; return the headers, and the ids that were new."""
        listed = check_events(events)
        new: list[Header] = []
        if not listed:
            return [], []
        headers = self._engine.append(listed, expected_seq=expected_seq, new=new)
        return headers, [header.event_id for header in new]

    def append_missing(self, events: Sequence[NewEvent]) -> list[Header]:
        """Record as ``ledger.append`` does; return only the headers of events that were new."""
        listed = check_events(events)
        return self._engine.append_missing(listed) if listed else []

    def withdraw(self, scope: str, event_ids: Sequence[str]) -> None:
        """Erase events that a reader should not have made of a log.

        Transcripts that hold the log itself stay: see ``ledger.redact`` to erase what it says.
        """
        ids = tuple(map(check_id, check_list(event_ids, "event_ids")))
        self._withdraw(parse_scope(scope), ids)

    def is_unknown(self, scope: str, session_id: str) -> bool:
        """Return whether a session has no events, not even before a fork: cheaper than a handle."""
        name = check_name(session_id, "session_id")
        reader = self._store.reader
        return not reader.last_headers(parse_scope(scope), name, before_seq=None, limit=1)

    def close_silent_runs(self, scope: str | None, *, prefix: str, silent_ms: int) -> set[str]:
        """Close imported runs whose ends never came, as interrupted; return those that stay open.

        Runs whose ids begin with ``prefix``, if nothing was recorded in their session for so long;
        without a scope, those of all scopes.
        """
        name = None if scope is None else parse_scope(scope)
        return self._engine.close_silent(name, prefix=prefix, silent_ms=silent_ms)

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
