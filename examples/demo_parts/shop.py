"""The agent's world: a shop with a query that scans every order."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any, Final

from .stage import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from treering import Run

SHOP: Final = FOLDER / "shop.db"
ORDERS: Final = 40_000
CUSTOMERS: Final = 800


def open_shop() -> sqlite3.Connection:
    """Make the shop's primary database."""
    shop = sqlite3.connect(SHOP)
    shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, total INTEGER)")
    shop.executemany(
        "INSERT INTO orders (customer, total) VALUES (?, ?)",
        ((number * 7919 % CUSTOMERS, number % 9_700) for number in range(ORDERS)),
    )
    shop.commit()
    return shop


def open_replica() -> sqlite3.Connection:
    """Open the shop's database for reading only."""
    return sqlite3.connect(f"file:{SHOP}?mode=ro", uri=True)


def latest_orders_ms(shop: sqlite3.Connection) -> float:
    """Return how long the checkout page waits for a customer's latest orders."""
    started = time.perf_counter()
    for customer in range(25):
        shop.execute(
            "SELECT total FROM orders WHERE customer = ? ORDER BY id DESC LIMIT 20", (customer,)
        ).fetchall()
    return round((time.perf_counter() - started) * 1_000, 2)


def explain(shop: sqlite3.Connection) -> list[str]:
    """Return SQLite's plan for that query."""
    rows = shop.execute("EXPLAIN QUERY PLAN SELECT total FROM orders WHERE customer = 1")
    return [row[3] for row in rows]


def add_index(shop: sqlite3.Connection) -> str:
    """Add the index that the query lacks."""
    shop.execute("CREATE INDEX orders_by_customer ON orders (customer, id)")
    return "orders_by_customer created"


def use(turn: Run, tool: Callable[[sqlite3.Connection], Any], on: Any, at: str) -> Any:
    """Call a tool as part of a turn: its intent is durable before it runs."""
    with turn.tool(tool.__name__, {"database": at}) as call:
        output = tool(on)
        call.finish(output)
    return output
