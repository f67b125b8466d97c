"""Runtimes and frameworks, recorded as they run."""
