"""``treering import``: the logs of agents, found and taken in."""

from __future__ import annotations

from treering.surfaces.cli.imports.command import import_

__all__ = ["import_"]
