"""Processes of their own for tests, forked by a server that has loaded what they need."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.process import BaseProcess

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["fork_server_modules"])


def process(work: Callable[..., object], *arguments: object) -> BaseProcess:
    """Return a process, not started yet, that does ``work`` and has nothing of ours."""
    _start_server()
    return _CONTEXT.Process(target=work, args=arguments, daemon=True)


def _start_server() -> None:
    """Start the server where it finds the modules of tests; by itself it knows of none."""
    ours = str(Path(__file__).parent)
    given = os.environ.get("PYTHONPATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ours}{os.pathsep}{given}" if given else ours)
        forkserver.ensure_running()
