"""Runs the blocks of one page of the docs, in a process that a server has forked."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any


def run_blocks(
    blocks: list[tuple[str, str]], folder: str, environment: dict[str, str], answer: str
) -> None:
    """Run blocks in order in ``folder`` and write what each printed to the file ``answer``.

    Names, files and exported variables carry over. If one fails, the answer says why.
    """
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    warnings.simplefilter("error")
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        outputs: Any = [
            _python(body, names) if language == "python" else _shell(language, body)
            for language, body in blocks
        ]
    except Exception:  # noqa: BLE001  (told to the test)
        outputs = traceback.format_exc()
    Path(answer).write_text(json.dumps(outputs), encoding="utf-8")


def _python(body: str, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(body, "<docs>", "exec", dont_inherit=True), names)
    return printed.getvalue()


def _shell(language: str, body: str) -> str:
    exports = Path(os.environ["HOME"], "exports")
    bash = ["bash", "-e", "-c"] if language == "sh" else ["bash", "-c"]
    done = subprocess.run(
        [*bash, f"{body}\nstatus=$?; env -0 > {exports}; exit $status"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if language == "sh" and done.returncode:
        sys.exit(done.stdout)
    for line in filter(None, exports.read_text().split("\0")):
        name, _, value = line.partition("=")
        os.environ[name] = value
    return done.stdout
