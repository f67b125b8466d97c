"""Databases. The only rooms that know SQL."""

from typing import Literal

Durability = Literal["full", "normal"]
"""Whether an append waits for the disk."""
Mode = Literal["rw", "ro"]
"""Whether a ledger may be written to."""
