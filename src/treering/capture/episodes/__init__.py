"""The lanes of the ``episodes`` commands: from transcripts to a spool, and from there in."""
