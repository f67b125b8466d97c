"""Hooks of agents: their installation, the spool they write to, and the watching of logs."""
