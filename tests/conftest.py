"""Fixtures that every test may ask for, how hard Hypothesis looks, and what ends a stuck run."""

from __future__ import annotations

import faulthandler
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings

import children
import treering
from builders import HERE
from effort import LONG, SEED, quick_folder, rounds
from postgres_server import Places, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from served import Switchboard
    from treering import Ledger, Session

STALL_SECONDS: Final = rounds(360)
"""How long nothing may move: longer than one test may take (see pyproject.toml and Makefile)."""
COLLECTING_SECONDS: Final = 1_200
"""How long it may take until the first test has ended: all tests are collected before, which is
minutes of work for a machine that has other things to do."""

TESTS: Final = Path(__file__).parent
DATABASES: Final = ("file", "memory", "postgres")
OVER_HTTP: Final = frozenset({
    *("test_append", "test_filters", "test_find_ids", "test_memory_facts"),
    *("test_memory_recall", "test_reading", "test_run_numbers", "test_search", "test_tool_calls"),
})  # fmt: skip
"""Contracts that a ledger on a server keeps as well."""
NOT_OVER_HTTP: Final = frozenset({
    # It refuses: sealing, expiring, copies and rebuilds, the inside of indexes, followers of
    # committed runs alone, first events, summarisers and contributors of the caller, short ids.
    "test_a_committed_follower_gets_a_run_when_it_has_ended_well",
    "test_a_committed_follower_that_stopped_before_an_end_gets_the_whole_run",
    "test_a_contributor_shows_what_fits_and_records_it_with_the_run",
    "test_a_copy_has_the_same_records",
    "test_a_fact_and_its_evidence_lead_to_each_other",
    "test_a_long_past_is_caught_up_with_step_by_step",
    "test_a_mode_is_one_of_three_and_a_limit_is_a_number_of_hits",
    "test_a_rebuild_changes_no_answer_and_counts_what_it_made",
    "test_a_scope_that_nobody_has_written_to_has_nothing",
    "test_a_sealed_scope_is_found_by_its_summaries_alone",
    "test_a_word_in_the_middle_of_a_very_long_output_is_found",
    "test_an_erasure_that_arrives_by_copy_takes_its_records_with_it",
    "test_an_event_that_has_to_be_the_first_of_its_session_is_refused_behind_others",
    "test_an_imported_erasure_reaches_what_was_searched",
    "test_facts_and_episodes_come_with_scores_reasons_and_evidence",
    "test_ids_are_found_by_how_they_start",
    "test_ids_of_erased_events_are_found_by_how_they_start",
    "test_ids_of_erased_events_stay_known",
    "test_large_payloads_are_read_a_few_at_a_time",
    "test_looking_at_a_context_uses_nothing",
    "test_matches_in_other_scopes_are_counted",
    "test_no_session_is_opened_by_recalling_in_it",
    "test_the_index_can_be_thrown_away_and_finds_the_same",
    "test_the_index_says_how_far_behind_it_is_and_catches_up",
    "test_what_expired_is_not_found_any_more",
    "test_what_has_expired_has_no_records",
    "test_what_no_longer_holds_comes_back_neither_itself_nor_in_an_episode",
    "test_what_was_remembered_is_still_known_when_it_is_folded_anew",
})  # fmt: skip
CHOSEN: Final = {"contract": DATABASES}
"""The databases that a folder's tests run on; a file alone for all others, but for the long run."""
SHARED: Final = frozenset({"contract", "concurrency"})
"""Folders whose tests of what several processes share run on both databases."""
FILE_SPEAKS_FOR_MEMORY: Final = frozenset({
    *("test_append", "test_copied_runs", "test_copy", "test_copying", "test_cursors"),
    *("test_cut_off_copies", "test_derived_proof", "test_filters", "test_find_ids"),
    *("test_fork_copies", "test_forks", "test_import_forgeries", "test_known"),
    *("test_memory_attribution", "test_memory_facts", "test_memory_fading", "test_memory_groups"),
    *("test_memory_identity", "test_memory_recall", "test_open_runs", "test_reading"),
    *("test_run_numbers", "test_tool_calls"),
})  # fmt: skip
"""Contracts about tables and folds alone, which are the same in a file and in memory.

What is kept beside them differs: indexes of search and memory, keys, leases, what is to be erased.
The long run has all of them in memory, too.
"""

os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", quick_folder())  # Where tmp_path is made.
children.restore_signals()
subprocess.Popen = children.Child  # type: ignore[misc]
settings.register_profile(
    "treering",
    max_examples=400 if LONG else 12,  # Those of the short run are the same every time.
    stateful_step_count=50 if LONG else 25,
    deadline=None,
    derandomize=not LONG,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("treering")


class Watchdog:
    """Ends the run, and shows where every process is, if no test has ended for long."""

    def __init__(self) -> None:
        self._moved = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def pytest_runtest_logreport(self) -> None:
        """Note that something has moved."""
        self._moved.set()

    def _watch(self) -> None:
        seconds = COLLECTING_SECONDS
        while self._moved.wait(seconds):
            self._moved.clear()
            seconds = STALL_SECONDS
        print(f"\nno test has ended for {seconds} seconds: the run ends", file=sys.stderr)  # noqa: T201
        faulthandler.dump_traceback()
        workers = [child for child in list(children.running) if child.poll() is None]
        for worker in workers:
            worker.send_signal(signal.SIGUSR2)  # It shows its stacks: see pytest_configure.
        threading.Event().wait(10)
        for worker in workers:
            worker.kill()
        os._exit(70)


def pytest_configure(config: pytest.Config) -> None:
    """Watch from the process that hears of every test; have the others show their stacks."""
    if hasattr(config, "workerinput"):
        faulthandler.register(signal.SIGUSR2, file=2, all_threads=True)
        _begin_elsewhere(config)
    else:
        config.pluginmanager.register(Watchdog())


def _begin_elsewhere(config: pytest.Config) -> None:
    """Have each worker begin with other tests, so that it finds compiled what others have read.

    In a fresh clone three workers that begin with the same would compile every module three times.
    """
    if config.args == config.getini("testpaths"):
        parts = [
            path
            for path in sorted(TESTS.iterdir())
            if path.match("test_*.py") or any(path.glob("test_*.py"))
        ]
        worker = config.workerinput  # type: ignore[attr-defined]
        begin = len(parts) * int(worker["workerid"][2:]) // worker["workercount"]
        config.args = [str(path) for path in (*parts[begin:], *parts[:begin])]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of workers into one order, wherever each began."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path.parts[len(TESTS.parts)])


def pytest_report_header() -> str:
    """Say where random choices start."""
    return f"seed: {SEED or 'fixed'}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Spare the garbage collector what stays to the end: half a million objects of all tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Note what ran before the test itself began: servers that fixtures keep for all tests."""
    item.stash[BEFORE] = children.started()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """End what a test left running, so that no other trips over it; that is an error of its own."""
    try:
        return (yield)
    finally:
        before = item.stash.get(BEFORE, None)
        if before is not None and (left := children.end_all_but(before)):
            pytest.fail(f"the test left processes running: {left}", pytrace=False)


_HOMES: Final = itertools.count()
BEFORE: Final = pytest.StashKey[frozenset[int]]()


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own ledger and keys out of every test."""
    _move_home(tmp_path_factory, monkeypatch)


def _move_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not made, for pytest looks through all folders to number the next.
    home = tmp_path_factory.getbasetemp() / "homes" / str(next(_HOMES))
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(home / variable.lower()))
    for variable in ("TREERING_DB", "TREERING_SCOPE", "TREERING_EPISODES"):
        monkeypatch.delenv(variable, raising=False)
    # Which one is the default depends on what is installed, and a model is slow.
    monkeypatch.setenv("TREERING_EMBEDDER", "static")


@pytest.fixture(scope="module")
def _folders_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep them out of what a module starts for all of its tests."""
    with pytest.MonkeyPatch.context() as patch:
        _move_home(tmp_path_factory, patch)
        yield


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at a SIGINT, also where we were started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def _places() -> Iterator[Places]:
    """Have a PostgreSQL server: the one that is named, or one of our own."""
    if given := os.environ.get("TREERING_TEST_POSTGRES"):
        with closing(Places(given)) as places:
            yield places
    else:
        with Server() as server:
            children.spared.add(server.watch_id)
            server.create_database("treering")
            with closing(Places(server.url("treering"))) as places:
                yield places


@pytest.fixture
def postgres(_places: Places) -> Iterator[Places]:
    """Give out fresh places on a PostgreSQL server; they are gone when the test is over."""
    yield _places
    _places.clear()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the databases of a test: the contract holds on all, the engine needs one to show."""
    folder = metafunc.definition.path.parent.name
    chosen: tuple[str, ...] = DATABASES if LONG else CHOSEN.get(folder, DATABASES[:1])
    shared = ("file", "postgres") if LONG or folder in SHARED else ("file",)
    definition = metafunc.definition
    if not LONG and definition.path.stem in FILE_SPEAKS_FOR_MEMORY:
        chosen = shared
    is_offered = definition.path.stem in OVER_HTTP and definition.name not in NOT_OVER_HTTP
    if folder == "contract" and is_offered:
        chosen = (*chosen, "http")
    if "kept_in" in metafunc.fixturenames:
        metafunc.parametrize("kept_in", chosen, scope="module")
    if "shared_database" in metafunc.fixturenames:
        metafunc.parametrize("shared_database", shared)


@pytest.fixture(scope="module")
def unchanged(
    request: pytest.FixtureRequest, kept_in: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ledger]:
    """Return one empty ledger for all tests of a module that leave it as it is."""
    with ExitStack() as undo:
        _move_home(tmp_path_factory, undo.enter_context(pytest.MonkeyPatch.context()))
        if kept_in == "postgres":
            places: Places = request.getfixturevalue("_places")
            location = places.at(undo.enter_context(places.lasting()))
        elif kept_in == "memory":
            location = ":memory:"
        else:
            location = str(tmp_path_factory.mktemp("unchanged") / "ledger.db")
        ledger = undo.enter_context(treering.open(location))
        if kept_in == "http":
            ledger = undo.enter_context(request.getfixturevalue("_switchboard").connect(ledger))
        yield ledger


@pytest.fixture
def open_ledger(
    request: pytest.FixtureRequest, kept_in: str, tmp_path: Path
) -> Iterator[Callable[[], Ledger]]:
    """Open fresh ledgers, on every database that the test is for."""
    opened: list[Ledger] = []
    # Asked for by name, so that no server starts for the other databases.
    places: Places | None = request.getfixturevalue("postgres") if kept_in == "postgres" else None

    def opening() -> Ledger:
        if places:
            opened.append(treering.open(places.fresh()))
        elif kept_in == "memory":
            opened.append(treering.open(":memory:"))
        else:
            opened.append(treering.open(tmp_path / f"{len(opened)}.db"))
        if kept_in == "http":
            opened.append(request.getfixturevalue("_switchboard").connect(opened[-1]))
        return opened[-1]

    yield opening
    for ledger in reversed(opened):
        ledger.close()


@pytest.fixture(scope="session")
def _switchboard() -> Iterator[Switchboard]:
    """Serve whichever ledgers tests open, by one server."""
    from served import Switchboard

    with Switchboard() as switchboard:
        yield switchboard


@pytest.fixture
def ledger(open_ledger: Callable[[], Ledger]) -> Ledger:
    """Return an empty ledger, on every database that the test is for."""
    return open_ledger()


@pytest.fixture
def session(ledger: Ledger) -> Session:
    """Return a fresh session."""
    return ledger.session("s1", scope=HERE, agent="lyria")


@pytest.fixture
def book() -> Iterator[Ledger]:
    """Return an empty ledger in memory, where the database does not matter."""
    with treering.open(":memory:") as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a ledger in a file can be made."""
    return tmp_path / "ledger.db"


@pytest.fixture
def here(path: Path) -> Iterator[Ledger]:
    """Return a ledger in a file, where the database does not matter."""
    with treering.open(path) as ledger:
        yield ledger


@pytest.fixture
def location(request: pytest.FixtureRequest, shared_database: str, tmp_path: Path) -> str:
    """Return where a ledger is that others can open too, on each database in turn."""
    if shared_database == "file":
        return str(tmp_path / "shared.db")
    places: Places = request.getfixturevalue("postgres")
    return places.fresh()


@pytest.fixture
def open_shared(location: str) -> Iterator[Callable[[], Ledger]]:
    """Open ledgers at one place, each with a store of its own."""
    opened: list[Ledger] = []

    def opening() -> Ledger:
        opened.append(treering.open(location))
        return opened[-1]

    yield opening
    for ledger in opened:
        ledger.close()
