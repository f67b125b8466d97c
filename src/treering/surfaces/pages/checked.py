"""The last look before bytes leave: what the guard finds in them then is withheld."""

from __future__ import annotations

from typing import IO

from treering.surfaces.cli.masking import Mask


class Checked:
    """Writes a page piece by piece, and checks the final text of each."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._look = Mask()
        self.withheld = 0
        """Pieces that still looked as if they held a secret, and were left out."""

    def write(self, piece: str, *, instead: str = "") -> None:
        """Write ``piece``, or ``instead`` if it holds a secret."""
        if self._look.text(piece) != piece:
            self.withheld += 1
            piece = instead
        self._stream.write(piece.encode())
