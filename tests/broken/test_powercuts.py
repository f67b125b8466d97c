"""Promise 1: nothing acknowledged is lost, at a power cut either; promise 5 holds through it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import apsw
import pytest

from broken.disks import mounted
from broken.ledgers import SCOPE, open_ledger
from broken.powercut import write_files
from broken.stories import NAME, Story, cut_power, told
from effort import SEED, quick_folder, rounds

if TYPE_CHECKING:
    from collections.abc import Iterator

CUTS = rounds(15, times=30)
"""For each workload; the benchmark does 2,000."""


@pytest.fixture(params=["append", "batch", "redact", "expire", "migrate"])
def story(request: pytest.FixtureRequest) -> Iterator[Story]:
    with told(request.param, seed=SEED + 1) as story:
        yield story


def test_a_power_cut_loses_nothing_acknowledged_and_brings_nothing_erased_back(
    story: Story,
) -> None:
    aftermaths = [cut_power(story, seed) for seed in range(SEED, SEED + CUTS)]

    assert [aftermath for aftermath in aftermaths if not aftermath.sound] == []


def test_checkpoints_happen_during_the_stories_so_that_cuts_fall_into_them() -> None:
    with told("append", seed=1) as story:
        synced = [op.name for op in story.disk.log if op.verb == "sync"]

    assert synced.count(NAME) > 10


def test_the_simulator_sees_what_a_lower_durability_loses() -> None:
    with told("append", seed=1, durability="normal") as story:
        aftermaths = [cut_power(story, seed) for seed in range(CUTS)]

    assert sum(bool(aftermath.lost) for aftermath in aftermaths) > CUTS // 10
    assert [aftermath.broken for aftermath in aftermaths if aftermath.broken] == []


def test_the_simulator_sees_what_a_plain_update_leaves_behind() -> None:
    with told("append", seed=1) as story:
        outsider = apsw.Connection(str(story.path), vfs=story.vfs)
        for statement in (
            "UPDATE events SET summary = NULL, refs = NULL, flags = flags | 2",
            "UPDATE contents SET payload = NULL, salt = NULL, blob = NULL",
            "UPDATE blobs SET body = NULL",
        ):
            outsider.execute(statement)
        story.erasing = dict.fromkeys(story.events, 0)
        story.erased = dict.fromkeys(story.events, story.now)
        found = story.disk.surviving(story.now, Random(1))
        outsider.close()

    assert b"mark-" in found[NAME]


def test_a_retry_that_finds_its_event_makes_it_durable_before_it_says_so() -> None:
    with told("append", seed=3) as story:
        lost = [
            (cut, event_id)
            for cut, event_id in _killed_before_sync(story)
            if not _survives_after_retry(story, cut, event_id)
        ]

    assert lost == []


def _killed_before_sync(story: Story) -> Iterator[tuple[int, str]]:
    """Return moments when an event was written and not yet synced, with its id."""
    for cut, op in enumerate(story.disk.log):
        coming = [event_id for event_id, at in story.acked.items() if at > cut]
        if op.verb == "sync" and op.name == f"{NAME}-wal" and coming:
            yield cut, coming[0]


def _survives_after_retry(story: Story, cut: int, event_id: str) -> bool:
    """Kill the writer at ``cut``, retry in a new one, cut the power once that is acknowledged."""
    disk = story.disk.continued(cut)
    folder = tempfile.TemporaryDirectory(dir=quick_folder())
    remains = tempfile.TemporaryDirectory(dir=quick_folder())
    with folder, remains, mounted(disk) as vfs:
        write_files(disk.written(), Path(folder.name))
        with open_ledger(Path(folder.name) / NAME, vfs=vfs) as ledger:
            ledger.append([story.events[event_id]])
            files = disk.surviving(len(disk.log), Random(cut))
        write_files(files, Path(remains.name))
        with open_ledger(Path(remains.name) / NAME) as ledger:
            page = ledger.events(SCOPE, last=1_000)
            return ledger.admin.verify().intact and event_id in {e.event_id for e in page.items}
