"""Every reader of ours keeps the laws that a plug-in has to keep."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import pytest

from capture.intake_logs import VOYAGES, lines
from formats.logs.terminals import LOGS, RECORDS, content
from treering.formats.registry import named_format
from treering.importing.testing import LAWS, LogSample

if TYPE_CHECKING:
    from collections.abc import Callable


def terminal_log(sample: str) -> LogSample:
    """Return a log of an agent in the terminal; one in the grammar of another, as that one's."""
    form, log, beside = LOGS[sample]
    family = named_format(form).family
    if family:
        form, log = family[0], PurePath(log).name
    return LogSample(named_format(form), log, {log: content(RECORDS[sample]), **beside})


SAMPLES: Final = {
    form: LogSample(named_format(form), name, {name: lines(records)})
    for form, (name, records) in VOYAGES.items()
} | {sample: terminal_log(sample) for sample in LOGS}


BUT: Final = {("codex", "grows_into_the_same"), ("trae", "grows_into_the_same")}
"""Codex reasoning that is cut from its text is told apart from it: docs/how-to/importing.md."""


@pytest.mark.parametrize(
    ("form", "law"),
    [(form, law) for form in SAMPLES for law in LAWS if (form, law.__name__) not in BUT],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_a_reader_keeps_the_law(form: str, law: Callable[[LogSample], None]) -> None:
    law(SAMPLES[form])
