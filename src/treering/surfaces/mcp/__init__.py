"""The Model Context Protocol: an agent's own access to the past of its project."""
