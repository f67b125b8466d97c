"""How a ledger is opened, whatever it lies on."""

from __future__ import annotations

from typing import Literal

Durability = Literal["full", "normal"]
"""Whether an append waits for the disk."""
Mode = Literal["rw", "ro"]
"""Whether a ledger may be written to."""
