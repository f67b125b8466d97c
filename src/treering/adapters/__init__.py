"""Adapters that record the runs of agent runtimes and frameworks."""
