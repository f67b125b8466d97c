"""The real program: its exit codes, its streams, and what it does not load."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from children import run_python
from effort import PATIENCE_S
from surfaces.processes import recorded
from treering.version import __version__

if TYPE_CHECKING:
    from surfaces.processes import Run

GOLDEN: Final = Path(__file__).parents[1] / "golden"
USAGE: Final = r"""
# append one event
treering episodes append \
  --scope openclaw-mem \
  --session-id sess-001 \
  --agent-id lyria \
  --type conversation.user \
  --summary "Asked for status" \
  --payload-json '{"intent":"status"}' \
  --refs-json '{"recordRef":"obs:42"}' \
  --json

# query is scope-bound by default (summary-only)
treering episodes query --scope openclaw-mem --session-id sess-001 --limit 50 --json

# include payload only when needed
treering episodes query --scope openclaw-mem --session-id sess-001 --include-payload --json

# replay shorthand (ordered timeline)
treering episodes replay sess-001 --scope openclaw-mem --json

# redact payloads while preserving rows
treering episodes redact --session-id sess-001 --scope openclaw-mem --replacement placeholder --json

# retention GC (aggregate receipt only)
treering episodes gc --scope openclaw-mem --json
"""


def test_characters_that_a_terminal_lacks_are_escaped(
    run: Run, environment: dict[str, str]
) -> None:
    run(*recorded("a", "--scope", "s"))
    environment["PYTHONIOENCODING"] = "latin-1"

    append = run(*recorded("b")[:-1], "茶 … ✓")
    tail = run("tail", "--scope", "s")
    doctor = run("doctor", "--scope", "s")

    assert append.returncode == 0
    assert r"\u8336 \u2026 \u2713" in tail.stdout
    assert "bug in treering" not in doctor.stderr


def modules_loaded(environment: dict[str, str], *arguments: str) -> set[str]:
    """Return the modules in memory when ``treering arguments`` is done."""
    script = (
        "import sys, atexit, os\n"
        "atexit.register(lambda: os.write(2, ' '.join(sys.modules).encode()))\n"
        "from treering.__main__ import main\n"
        "main()\n"
    )
    finished = run_python(script, *arguments, env=environment)
    return set(finished.stderr.split())


def test_the_usage_block_runs_as_printed(environment: dict[str, str]) -> None:
    finished = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", USAGE],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    receipts = [json.loads(line) for line in finished.stdout.splitlines()]
    assert (finished.returncode, finished.stderr) == (0, "")
    assert [receipt["kind"].split(".")[2] for receipt in receipts] == [
        "append", "query", "query", "replay", "redact", "gc",
    ]  # fmt: skip
    assert all(receipt["ok"] for receipt in receipts)
    assert "payload" not in receipts[1]["items"][0]
    assert receipts[2]["items"][0]["payload"] == {"intent": "status"}
    assert receipts[4]["redacted_count"] == 1


def test_exit_codes_tell_success_mistakes_and_refusals_apart(run: Run) -> None:
    statuses = [
        run(*recorded("a", "--event-id", "e1")).returncode,
        run(*recorded("a", "--event-id", "e1")).returncode,
        run("episodes", "query").returncode,
        run("nonsense").returncode,
        run("verify").returncode,
    ]

    assert statuses == [0, 1, 2, 2, 0]


def test_errors_and_output_keep_to_their_streams(run: Run) -> None:
    said, receipt = run("episodes", "query"), run("episodes", "query", "--json")

    assert (said.stdout, said.stderr.count("\n")) == ("", 2)
    assert (json.loads(receipt.stdout)["ok"], receipt.stderr) == (False, "")


def test_a_payload_and_an_export_pass_through_pipes(run: Run, tmp_path: Path) -> None:
    run(*recorded("a", "--payload-file", "-"), stdin='{"from":"a pipe"}')

    copy = run("episodes", "export", "--scope", "s", "--include-payload")
    taken = run(
        "--db", str(tmp_path / "copy.db"), "episodes", "import", "-", "--scope", "s",
        stdin=copy.stdout,
    )  # fmt: skip

    assert (taken.returncode, taken.stdout) == (0, "imported 1 event of 1 session\n")


def test_many_processes_with_one_event_id_record_it_once(run: Run) -> None:
    arguments = recorded("a", "--event-id", "e1", "--ts-ms", "5")

    with ThreadPoolExecutor(8) as pool:
        finished = list(pool.map(lambda _: run(*arguments).returncode, range(8)))

    assert sorted(finished) == [0, 1, 1, 1, 1, 1, 1, 1]


def test_the_version_needs_neither_click_nor_a_database(environment: dict[str, str]) -> None:
    assert modules_loaded(environment, "--version").isdisjoint({"click", "apsw", "msgspec", "rich"})


def test_help_needs_no_database(environment: dict[str, str]) -> None:
    assert modules_loaded(environment, "episodes", "--help").isdisjoint({"apsw", "rich"})


def test_a_list_loads_nothing_for_mistakes_and_terminals(
    environment: dict[str, str], run: Run
) -> None:
    run(*recorded("a"))

    loaded = modules_loaded(environment, "sessions", "list", "--scope", "s")

    of_others = {"treering.derive.fact_rows", "treering.ledger.erasure"}
    assert loaded.isdisjoint({"difflib", "shutil", *of_others})


@pytest.mark.parametrize(
    "arguments",
    [
        ["episodes", "query", "--scope", "s", "--json"],
        ["episodes", "query", "--scope", "s"],
        recorded("a", "--json"),
    ],
)
def test_rich_is_loaded_for_a_terminal_alone(
    environment: dict[str, str], arguments: list[str]
) -> None:
    assert "rich" not in modules_loaded(environment, *arguments)


def test_the_module_runs_like_the_program(environment: dict[str, str]) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "treering", "--version"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )

    assert finished.stdout == f"treering {__version__}\n"


def test_the_hint_for_an_old_read_only_ledger_works(tmp_path: Path, run: Run) -> None:
    old, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    shutil.copyfile(GOLDEN / "ledger_v3.db", old)
    old.chmod(0o400)

    refused = run("verify")

    assert refused.returncode == 1
    assert "make the copy writable, and run treering verify --db COPY" in refused.stderr
    shutil.copy(old, copy)
    copy.chmod(0o600)
    assert run("verify", "--db", str(copy)).returncode == 0


def test_a_ledger_that_may_only_be_read_is_read(run: Run, tmp_path: Path) -> None:
    run(*recorded())
    (tmp_path / "ledger.db").chmod(0o400)

    asked, told = run("episodes", "query", "--scope", "s"), run(*recorded())

    assert (asked.returncode, told.returncode) == (0, 1)
    assert told.stderr.startswith("error: ")


def test_a_ledger_that_may_only_be_read_is_not_rebuilt_in_a_copy(run: Run, tmp_path: Path) -> None:
    run(*recorded())
    (tmp_path / "ledger.db").chmod(0o400)

    outcome = run("rebuild", "--json")

    assert (outcome.returncode, json.loads(outcome.stdout)["ok"]) == (1, False)
