"""Write what a ledger on PostgreSQL is made of. Run it whenever a migration or a role changes.

python tests/golden/make_layout.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from postgres_places import Place
from postgres_server import Server
from treering.storage.postgres import schema
from treering.storage.postgres.address import parse_address
from treering.storage.postgres.server import connect


def main() -> None:
    """Write it beside the module that compares ledgers with it."""
    with Server() as server:
        server.create_database("treering")
        place = Place(server)
        place.administration.init(partitions=2)
        address = parse_address(place.url)
        with connect(address) as connection:
            found = schema.describe(connection, address)
    target = Path(schema.__file__).with_name(schema.EXPECTED)
    target.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
