"""Measure everything in one run and write RESULTS.md beside this file.

    python benchmarks/run.py [--quick] [--only NAME]... [--keep]

A run with ``--only`` or ``--quick`` prints its numbers and leaves RESULTS.md alone; what is in
ON_REQUEST is measured with ``--only`` alone. RESULTS.md is left alone, too, by a run
during which the source changed: its processes have then measured different programs.
"""

import argparse
import hashlib
import importlib
import shutil
import sys
import tempfile
import time
import traceback
from itertools import chain
from pathlib import Path
from typing import Final

import treering
from report import Row, Section, markdown, plain
from workload import FULL, QUICK, Effort

HERE: Final = Path(__file__).parent
TESTS: Final = HERE.parent / "tests"
"""Servers and power cuts are made as there."""
DATA: Final = HERE / ".data"
SUBJECTS: Final = (
    "append", "reading", "threads", "processes", "guarding", "scale", "starting", "copying",
    "imports", "hooks", "contexts", "forks", "views", "searches", "recall_quality",
    "recall_precision", "extraction_quality", "update_pairs", "tongues", "memory_speed", "spine",
    "serving", "viewing", "transcript", "postgres", "mirroring", "peers", "framework_sessions",
    "checkpoints", "cuts", "ten_million",
)  # fmt: skip
"""Peers and mirrors come late: they make the process large, and that must not weigh on others."""
ON_REQUEST: Final = frozenset({"ten_million"})
"""Measured with ``--all`` or ``--only``: they take as long as all the others."""


def main() -> int:
    options = _options()
    effort = QUICK if options.quick else FULL
    chosen = options.only or [name for name in SUBJECTS if options.all or name not in ON_REQUEST]
    sys.path.append(str(TESTS))
    started, source = time.perf_counter(), _fingerprint()
    DATA.mkdir(exist_ok=True)
    try:
        measured = [_measure(name, effort) for name in SUBJECTS if name in chosen]
    finally:
        if not options.keep:
            shutil.rmtree(DATA, ignore_errors=True)
    sections = list(chain.from_iterable(measured))
    minutes = (time.perf_counter() - started) / 60
    changed = source != _fingerprint()
    if not (options.quick or options.only or changed):
        (HERE / "RESULTS.md").write_text(markdown(sections, minutes=minutes, source=source))
    missed = [row for section in sections for row in section.rows if row.met is False]
    print(f"\n{minutes:.1f} minutes; {len(missed)} targets missed")
    for row in missed:
        print(f"  {row.what}: {row.measured}, target {row.target}")
    if changed:
        print("the source changed during the run: these numbers are of no one version")
    return int(changed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the ledger against its limits and peers.")
    parser.add_argument("--quick", action="store_true", help="a small run, to see that all works")
    parser.add_argument("--only", action="append", choices=SUBJECTS, help="one subject; repeatable")
    parser.add_argument("--all", action="store_true", help="measure ten million events, too")
    parser.add_argument("--keep", action="store_true", help="keep large ledgers for next time")
    return parser.parse_args()


def _fingerprint() -> str:
    """Return a mark of everything that is measured, and of what measures it."""
    roots = (Path(treering.__file__).parent, HERE, TESTS)
    files = sorted(
        path for root in roots for path in root.rglob("*") if path.suffix in {".py", ".sql"}
    )
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:12]


def _measure(name: str, effort: Effort) -> list[Section]:
    """Measure one subject in a folder of its own; a failure is reported, not hidden."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=DATA, prefix=f"{name}-") as folder:
        try:
            found: Section | list[Section] = importlib.import_module(name).run(effort, Path(folder))
        except Exception as error:
            traceback.print_exc()
            failure = Row(what=name, measured=f"failed: {error}", target="measured", met=False)
            found = Section(title=name.capitalize(), rows=[failure])
    sections = found if isinstance(found, list) else [found]
    print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)
    for section in sections:
        print(f"{section.title}\n{plain(section)}", flush=True)
    return sections


if __name__ == "__main__":
    sys.exit(main())
