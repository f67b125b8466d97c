"""Read and write Apeira's append-only session logs, byte for byte.

episodic = Episodic(jsonl)
to_session(episodic, ledger.session("s1", scope="acme/app", agent="lyria"))
"""

from __future__ import annotations

from treering.formats.apeira.episodic import Episodic
from treering.formats.apeira.sessions import from_session, state_from_session, to_session
from treering.formats.apeira.slices import Slice, SliceExtent, normalize_items
from treering.formats.apeira.states import SessionState, load_state, save_state, storage_key

__all__ = [
    "Episodic",
    "SessionState",
    "Slice",
    "SliceExtent",
    "from_session",
    "load_state",
    "normalize_items",
    "save_state",
    "state_from_session",
    "storage_key",
    "to_session",
]
