"""``treering doctor``: what is wrong, and what to do about it."""

from __future__ import annotations

from treering.surfaces.cli.doctor.command import doctor

__all__ = ["doctor"]
