"""Formats: readers and writers for the logs and APIs of other systems."""
