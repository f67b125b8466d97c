"""What is loaded at its first use is loaded whole, also beside a fork."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from children import run_python
from listeners import run_program

if TYPE_CHECKING:
    from pathlib import Path

FORKING = """
import os, sys, threading
from treering.lazy import LazyModule

sys.path.insert(0, sys.argv[1])
slow = LazyModule("slow")
started, imported = threading.Event(), threading.Event()
sys.modules["signals"] = signals = type(sys)("signals")
signals.started, signals.imported = started, imported

thread = threading.Thread(target=lambda: slow.VALUE)
thread.start()
started.wait(60)
threading.Timer(0.2, imported.set).start()
child = os.fork()
if not child:
    print(slow.VALUE, flush=True)
    os._exit(0)
os.waitpid(child, 0)
thread.join()
print(slow.VALUE)
"""

SLOW = """
import signals

signals.started.set()
signals.imported.wait(60)
VALUE = 7
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_is_forked_during_an_import_has_the_module(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)

    assert run_program(FORKING, str(tmp_path)) == [7, 7]


USED = """
import sys
from treering.lazy import LazyModule

fractions = LazyModule("fractions")
before = "fractions" in sys.modules
half = fractions.Fraction(1, 2)
print(int(before), int(fractions is sys.modules["fractions"]), half.denominator)
"""


def test_its_user_has_the_module_itself_after_the_first_use() -> None:
    done = run_python(USED)

    assert done.stdout.split() == ["0", "1", "2"]
