"""What holds the words of a log: the same in another shape, and under masks, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from treering.capture.intake.former_reading import holds

MASK = "[redacted:github:0123abcd]"
SAID = {"text": "mend the lamp\nand the horn"}
ASKED = {"call_id": "c1", "name": "tide", "input": {"port": "Bergen", "days": 3}}


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        (SAID, SAID),
        (SAID, {**SAID, "model": "m2", "message_id": "another"}),
        ({"content": [{"text": "mend the lamp"}, {"text": "and the horn"}]}, SAID),
        ({"message": {"content": "and the horn\n\nmend the lamp"}}, SAID),
        ({**ASKED, "name": "tool"}, ASKED),
        ({"text": f"use {MASK}, and {MASK} then"}, {"text": "use a b\nc, and d then"}),
        ({"input": {"pin": MASK}}, {"input": {"pin": 1234}}),
        ({"anything": 1}, {"model": "m1"}),
        ({"anything": 1}, None),
    ],
)
def test_the_same_words_are_known_in_whatever_shape(recorded: Any, told: Any) -> None:
    assert holds(recorded, told)


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        (SAID, {"text": "paint the boat"}),
        (SAID, {"text": "the lamp"}),
        (SAID, {"text": "mend the lamp\nand the bell"}),
        (ASKED, {**ASKED, "input": {"port": "Bergen", "days": 4}}),
        ({"text": f"use {MASK}, then go"}, {"text": "use a, then stay"}),
        ({"text": f"{MASK} and {MASK}"}, {"text": "a or b"}),
        ({"text": f"aba{MASK}aba"}, {"text": "aba"}),
        ({"message": "error"}, SAID),
        (None, SAID),
    ],
)
def test_other_words_are_not_known(recorded: Any, told: Any) -> None:
    assert not holds(recorded, told)
