"""Importing the logs that agents write: every line accounted for, no event recorded twice."""

from __future__ import annotations

from treering.capture.intake.importer import BOOKMARK_SCOPE, Importer, import_files

__all__ = ["BOOKMARK_SCOPE", "Importer", "import_files"]
