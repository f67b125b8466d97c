from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from treering.model.fields import TIME_MS_MAX, instant


@given(st.integers(min_value=0, max_value=TIME_MS_MAX))
def test_a_time_reads_as_the_calendar_has_it(ts_ms: int) -> None:
    expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ts_ms)

    assert instant(ts_ms) == expected.isoformat(timespec="milliseconds").replace("+00:00", "Z")
