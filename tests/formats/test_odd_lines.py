"""Lines that no program would write: each has one outcome, and its events can be recorded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.clawser_logs import voyage as clawser_voyage
from formats.logs.openclaw import MISSING, mirrored, opening
from formats.logs.pi import entry, said
from formats.logs.pi import voyage as pi_voyage
from formats.logs.tellings import outcomes
from formats.test_lines_with_doors import episodes
from formats.test_openclaw_mem import LINES
from formats.test_tape import voyage as tape_voyage
from treering.formats import openclaw, openclaw_mem, pi, tape
from treering.formats.apeira import lines as apeira_lines
from treering.formats.apeira.lines import ApeiraReader
from treering.formats.clawser import lines as clawser_lines
from treering.formats.clawser.lines import ClawserReader
from treering.formats.openclaw import OpenClawReader
from treering.formats.openclaw_mem import OpenClawMemReader
from treering.formats.pi import PiReader
from treering.formats.tape import TapeReader
from treering.model.codec import REFS_BYTES_MAX, canonical, encode
from treering.model.fields import check_summary, check_time
from treering.model.kinds import KINDS

FIELDS = ["type", "text", "id", "name", "role"]
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", " ", "user", "text", "\0", "x" * 300, "a\nb", MISSING]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "id", "name", "role"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)

MODULES = (apeira_lines, clawser_lines, openclaw, openclaw_mem, pi, tape)
BRANCHES = [entry(11, "leaf", targetId="x"), said(12, "anew", parent=3), said(13, "z", parent=None)]
READERS = {
    PiReader: [*pi_voyage(), *BRANCHES],
    OpenClawReader: [*opening(), mirrored(2, "a"), mirrored(3, "a"), *pi_voyage()[3:]],
    OpenClawMemReader: LINES,
    TapeReader: tape_voyage(),
    ApeiraReader: episodes(),
    ClawserReader: clawser_voyage(),
}


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Return the path of every value inside ``value``."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    found = [(value, at) for at, _ in pairs]
    inner = value.values() if isinstance(value, dict) else value
    return found + [spot for one in inner if isinstance(one, dict | list) for spot in spots(one)]


def twisted(value: Any, draw: st.DrawFn) -> Any:
    """Return ``value`` with some odd values inside."""
    copied = _copy(value)
    for _ in range(draw(st.integers(0, 3))):
        places = spots(copied)
        holder, at = places[draw(st.integers(0, len(places) - 1))]
        holder[at] = draw(ODD)
    return copied


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {at: _copy(one) for at, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
@given(st.data())
def test_odd_lines_are_answered_and_can_be_recorded(reader: Any, data: st.DataObject) -> None:
    log = st.composite(lambda draw: twisted(READERS[reader], draw))
    reading = reader()

    lines = data.draw(log())
    found = outcomes(reading, lines)

    assert sum(bool(one.score(lines)) for one in MODULES) <= 1
    assert len(found) == len(lines)
    for one in found:
        assert bool(one.events) != bool(one.skipped)
        for event in one.events:
            assert event.kind in KINDS
            assert event.session in reading.sessions
            check_summary(event.summary)
            check_time(event.ts_ms)
            canonical([event.payload, event.refs], "event")
            assert len(encode(event.refs)) <= REFS_BYTES_MAX
    reader().resume(reading.state())
