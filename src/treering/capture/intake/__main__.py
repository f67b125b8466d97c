"""The process that reads a large log for another: see ``reading``."""

from __future__ import annotations

from treering.capture.intake.reading import main

if __name__ == "__main__":
    main()
