"""The limit: the same events as documents in a lean table, on the same engine and pragmas."""

from collections.abc import Sequence
from typing import Final

import apsw
import msgspec

from workload import Body

SCHEMA: Final = """
CREATE TABLE events (
  position INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  body BLOB NOT NULL,
  UNIQUE (session, seq)
);
"""
INSERT: Final = "INSERT INTO events (session, seq, body) VALUES (?, ?, ?)"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Body).decode


class BareTable:
    """A table of documents: order, and nothing else that a ledger promises."""

    def __init__(self, path: str, *, durability: str = "full") -> None:
        self._connection = apsw.Connection(path)
        self._execute = self._connection.execute
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", durability)
        self._connection.pragma("secure_delete", True)
        self._connection.pragma("temp_store", "memory")
        if not self._connection.table_exists(None, "events"):
            self._execute(SCHEMA)
        self._seqs: dict[str, int] = {}

    def append(self, bodies: Sequence[Body]) -> None:
        """Encode and store ``bodies`` in one transaction."""
        rows = []
        for body in bodies:
            name = body.session_id
            seq = self._seqs[name] = self._seqs.get(name, 0) + 1
            rows.append((int(name[8:]), seq, _encode(body)))
        execute = self._execute
        execute("BEGIN IMMEDIATE")
        if len(rows) == 1:
            execute(INSERT, rows[0])
        else:
            self._connection.executemany(INSERT, rows)
        execute("COMMIT")

    def read(self, session: int) -> list[Body]:
        """Return the documents of a session, decoded into their type."""
        found = self._execute("SELECT body FROM events WHERE session = ? ORDER BY seq", (session,))
        return [_decode(body) for (body,) in found]

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
