"""The process that reads a large log for another: see ``steps``."""

from __future__ import annotations

from treering.capture.intake.read_steps import main

if __name__ == "__main__":
    main()
