"""Hooks of agents: put into their settings, heard through a spool, and logs watched."""
