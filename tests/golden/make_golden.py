"""Write the golden ledger of the current schema. Run once for each released schema.

python tests/golden/make_golden.py
"""

from __future__ import annotations

from pathlib import Path

import treering
from treering import NewEvent
from treering.storage.sqlite import schema


def main() -> None:
    """Write ``ledger_vN.db`` beside this file."""
    path = Path(__file__).parent / f"ledger_v{len(schema.migrations())}.db"
    path.unlink(missing_ok=True)
    with treering.open(path) as ledger:

        def say(text: str, ts_ms: int, **fields: object) -> None:
            stated = {
                "scope": "golden", "session_id": "g1", "kind": "conversation.user",
                "agent_id": "lyria", "summary": text, "payload": {"text": text}, "ts_ms": ts_ms,
            }  # fmt: skip
            ledger.append([NewEvent(**(stated | fields))])  # type: ignore[arg-type]

        say("the first ring", 1_790_000_000_000, refs={"file": "a.py"}, user_id="u1")
        say("erased later", 1_790_000_000_001, event_id="erased")
        say("a tool", 1_790_000_000_002, kind="tool.call", event_id="expired")
        say("large", 1_790_000_000_003, payload={"text": "ring " * 3_000})
        say("in a run", 1_790_000_000_004, run_id="r1", run_seq=1, turn_id="t1", origin="kernel")
        ledger.redact("golden", event_id="erased")
        ledger.expire("golden", policy={"tool.call": 0}, now_ms=1_790_000_000_003)
    for beside in (".lock", ".memory", ".memory.lock"):
        Path(f"{path}{beside}").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
