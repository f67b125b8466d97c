"""The version, alone in its file so that ``treering --version`` imports nothing else."""

__version__ = "0.1.0"
