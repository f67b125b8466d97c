"""Treering at work: logs imported and searched; an agent recorded; the ledger verified.

Run it with ``make demo``. It needs no network and leaves nothing behind but ``demo-output/``.
Two agents worked on a shop and left logs; a third looks into its slow checkout page. The shop is
small, its work is real: the queries, their timings and the error are what Python and SQLite make
of them. The chapters are in ``demo_parts/``.
"""

from __future__ import annotations

import runpy

if __name__ == "__main__":
    runpy.run_module("demo_parts", run_name="__main__")
