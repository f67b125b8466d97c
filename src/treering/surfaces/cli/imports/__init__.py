"""``treering import``: find and import the logs of agents."""

from __future__ import annotations

from treering.surfaces.cli.imports.command import import_

__all__ = ["import_"]
