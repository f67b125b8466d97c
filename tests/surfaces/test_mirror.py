"""``treering mirror`` and ``treering query``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import treering
from builders import HERE

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine


def test_a_mirror_is_made_and_asked_from_the_shell(cli: CommandLine, tmp_path: Path) -> None:
    with (
        treering.open(cli.database) as ledger,
        ledger.session("s1", scope=HERE, agent="lyria").turn() as run,
    ):
        run.tools.started("bash", {"command": "ls"}, call_id="c1").finish("toad.txt")
        run.tools.started("read", {"path": "x"}, call_id="c2").fail(ValueError("no"))
    folder = str(tmp_path / "m")

    made = cli("mirror", "parquet", folder, "--all-scopes", "--once")
    sql = "SELECT tool, count(*) AS calls FROM tool_calls GROUP BY ALL ORDER BY ALL"
    table = cli("query", sql, "--mirror", folder)
    values = cli("query", sql, "--mirror", folder, "--csv")
    receipt = cli("query", sql, "--mirror", folder, "--json").receipt
    unnamed = cli("query", sql)
    wrong = cli("query", sql, "--mirror", str(tmp_path))

    assert made.out == f"mirrored 7 events to {folder}\n"
    assert table.out == "tool  calls\nbash  1\nread  1\n"
    assert values.out == "tool,calls\nbash,1\nread,1\n"
    assert (receipt["columns"], receipt["rows"]) == (["tool", "calls"], [["bash", 1], ["read", 1]])
    assert (unnamed.status, "--mirror DIR" in unnamed.err) == (2, True)
    assert (wrong.status, "is not a mirror" in wrong.err) == (2, True)
