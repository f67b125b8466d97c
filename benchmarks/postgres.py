"""PostgreSQL: a real server as it comes, over its Unix socket; ours and bare psycopg in turns."""

from pathlib import Path
from typing import Final

import postgres_calls
import postgres_contexts
import postgres_copying
import postgres_following
import postgres_processes
import postgres_scale
from report import Section
from workload import Effort

AS_SHIPPED: Final = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "autovacuum": "on",
    "shared_buffers": "128MB",
}
"""PostgreSQL's own settings, where the servers of the tests have others."""


def run(effort: Effort, folder: Path) -> list[Section]:
    """Measure everything on one server."""
    from postgres_server import Server

    with Server(AS_SHIPPED, on_disk=True) as server:
        server.create_database("bench")
        url = server.url("bench")
        return [
            postgres_calls.measure(effort, url),
            postgres_copying.measure(effort, url, folder),
            postgres_processes.measure(effort, url),
            postgres_following.measure(effort, url),
            postgres_scale.measure(effort, url),
            postgres_contexts.measure(effort, url),
        ]
