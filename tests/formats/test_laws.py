"""Every reader of ours keeps the laws that a plug-in has to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from capture.intake_logs import VOYAGES, lines
from formats.logs.terminals import LOGS, RECORDS, content
from treering.formats.registry import named_format
from treering.importing.testing import LAWS, LogSample

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES: Final = {
    form: LogSample(named_format(form), name, {name: lines(records)})
    for form, (name, records) in VOYAGES.items()
} | {
    sample: LogSample(named_format(form), log, {log: content(RECORDS[sample]), **beside})
    for sample, (form, log, beside) in LOGS.items()
}


BUT: Final = {("codex", "grows_into_the_same")}
"""Codex reasoning that is cut from its text is told apart from it: docs/how-to/importing.md."""


@pytest.mark.parametrize(
    ("form", "law"),
    [(form, law) for form in SAMPLES for law in LAWS if (form, law.__name__) not in BUT],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_a_reader_keeps_the_law(form: str, law: Callable[[LogSample], None]) -> None:
    law(SAMPLES[form])
