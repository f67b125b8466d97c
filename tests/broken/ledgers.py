"""Ledgers on any disk, events that can be found again in raw bytes, and the bytes themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ahocorasick_rs import BytesAhoCorasick

from treering.capture.secrets import SecretGuard
from treering.clock import now_ms
from treering.ledger.drafts import Drafter, compressed
from treering.ledger.ledger import Ledger
from treering.model.codec import PAYLOAD_BYTES_MAX, encode
from treering.model.events import NewEvent
from treering.storage.keys import KeyFolder
from treering.storage.sqlite.database import PATIENCE_S, Database
from treering.storage.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

    from treering.storage import Durability

SCOPE: Final = "acme/app"
AGENT: Final = "lyria"
_TRACE_BYTES: Final = 24
_TRACES_MAX: Final = 12
"""Of one payload, spread over its length."""


def open_ledger(
    path: Path | str,
    *,
    vfs: str = "",
    durability: Durability = "full",
    patience_s: float = PATIENCE_S,
    autocheckpoint_pages: int | None = None,
) -> Ledger:
    """Open a ledger as ``treering.open`` does, with the parts that it leaves at their defaults."""
    database = Database(str(path), vfs=vfs, durability=durability, patience_s=patience_s)
    vault = KeyFolder(lambda: Path(f"{path}.keys"), database.ledger_id)
    store = SqliteStore(database, vault)
    if autocheckpoint_pages is not None:
        database.writer().wal_autocheckpoint(autocheckpoint_pages)
    drafter = Drafter(
        guard=lambda: SecretGuard(key=b"tests"), mode="off", clock=now_ms, seals=lambda _: False
    )
    return Ledger(store, drafter=drafter, clock=now_ms)


def said(
    text: str,
    *,
    session_id: str = "s1",
    event_id: str | None = None,
    payload: object = None,
    refs: object = None,
    ts_ms: int | None = None,
    kind: str = "conversation.user",
    scope: str = SCOPE,
) -> NewEvent:
    """Return an event that says ``text``."""
    return NewEvent(
        scope=scope,
        session_id=session_id,
        kind=kind,
        agent_id=AGENT,
        summary=text,
        payload=payload,
        refs=refs,
        event_id=event_id,
        ts_ms=ts_ms,
    )


def marker(dice: Random) -> str:
    """Return a text that stands nowhere else."""
    return f"mark-{dice.getrandbits(96):024x}"


def marked(
    dice: Random, event_id: str, *, size: int, session_id: str, ts_ms: int | None = None
) -> NewEvent:
    """Return an event with its own marker in each part and about ``size`` bytes of payload."""
    mark = marker(dice)
    filling = dice.randbytes(max(0, size // 2 - 40)).hex()
    return said(
        f"summary-{mark} of {session_id}",
        session_id=session_id,
        event_id=event_id,
        refs={"file": f"refs-{mark}"},
        payload={"text": f"payload-{mark}", "filling": filling},
        ts_ms=ts_ms,
    )


def traces(event: NewEvent) -> list[bytes]:
    """Return byte strings that give the content of a marked event away, compressed ones too."""
    found = [event.summary[:37].encode()]
    if event.refs is not None:
        found.append(event.refs["file"].encode())
    if event.payload is not None:
        found.append(event.payload["text"].encode())
        encoded = encode(event.payload)
        body = compressed(encoded) if len(encoded) > PAYLOAD_BYTES_MAX else encoded
        found += _slices(body)
    return found


def _slices(body: bytes) -> Iterator[bytes]:
    # Compressed bodies begin with tables that those of similar content share.
    step = max(300, len(body) // _TRACES_MAX)
    for start in range(256, len(body) - _TRACE_BYTES, step):
        yield body[start : start + _TRACE_BYTES]


def shown(events: Iterable[NewEvent], content: bytes) -> set[str]:
    """Return the ids of those marked events of which ``content`` holds a trace."""
    pairs = [(trace, str(event.event_id)) for event in events for trace in traces(event)]
    if not pairs:
        return set()
    search = BytesAhoCorasick([trace for trace, _ in pairs])
    return {pairs[at][1] for at, _, _ in search.find_matches_as_indexes(content, overlapping=True)}


def raw_bytes(path: Path | str) -> bytes:
    """Return the bytes of the ledger's files, read by another process.

    Opening and closing the file here would drop the locks that SQLite holds in this process.
    """
    script = (
        "import sys, pathlib\n"
        "for suffix in ('', '-wal', '-journal'):\n"
        "    file = pathlib.Path(sys.argv[1] + suffix)\n"
        "    sys.stdout.buffer.write(file.read_bytes() if file.exists() else b'')\n"
    )
    command = [sys.executable, "-S", "-E", "-c", script, str(path)]
    return subprocess.run(command, capture_output=True, check=True).stdout
