"""``treering db``, and every other command on a server."""

from __future__ import annotations

import os
import pty
import secrets
import select
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
import psycopg
import pytest

from effort import PATIENCE_S
from surfaces.processes import PROGRAM, recorded
from treering.app import administer
from treering.model.receipts import Blocker, DatabaseStatus, Partition, Replica
from treering.storage.postgres.schema import migrations
from treering.surfaces.cli.db import lasting, lines_of, sized

if TYPE_CHECKING:
    from pathlib import Path

    from postgres_server import Places
    from surfaces.command_line import CommandLine, Outcome

PASSWORD: Final = "hunter2-swordfish"
VERSION: Final = len(migrations())
"""The schema that this program makes."""


class Site:
    """A place on a server, and the command line there."""

    def __init__(self, cli: CommandLine, places: Places) -> None:
        self.cli = cli
        self.server = places.url
        self.url = places.vacant()
        self.schema = self.url.rpartition("schema=")[2]

    def __call__(self, *arguments: str, stdin: str = "") -> Outcome:
        return self.cli.bare(*arguments, "--db", self.url, stdin=stdin)

    def role(self) -> str:
        return f"{self.schema}_{secrets.token_hex(3)}"

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        connection = psycopg.connect(self.server, autocommit=True)
        connection.execute(f"SET search_path = {self.schema}".encode())
        return connection

    def is_laid_out(self) -> bool:
        with self.connect() as connection:
            row = connection.execute("SELECT to_regnamespace(%s)", (self.schema,)).fetchone()
        return row is not None and row[0] is not None


@pytest.fixture
def empty(cli: CommandLine, postgres: Places) -> Site:
    """Return a place where no ledger is yet."""
    return Site(cli, postgres)


@pytest.fixture
def site(empty: Site) -> Site:
    """Return a place with a ledger."""
    administer(empty.url).init(partitions=2)
    return empty


def test_the_group_explains_itself(cli: CommandLine) -> None:
    outcome = cli.bare("db")

    assert outcome.status == 0
    for command in ("init", "status", "grant", "revoke", "scrub"):
        assert f"\n  {command} " in outcome.out


# Laying out.


def test_a_ledger_is_laid_out_and_a_second_time_left_alone(empty: Site) -> None:
    first, second = empty("db", "init", "--partitions", "3"), empty("db", "init")

    assert (first.status, first.err) == (0, "")
    assert first.out == f"laid out a ledger of 3 partitions in schema {empty.schema}\n"
    assert second.out == f"the ledger in schema {empty.schema} is at version {VERSION} already\n"


def test_the_receipt_of_an_init(empty: Site) -> None:
    receipt = empty("db", "init", "--partitions", "2", "--json").receipt

    assert receipt["kind"] == "treering.db.init.v1"
    assert set(receipt["version"]) == {"treering", "schema"}
    assert (receipt["schema"], receipt["partitions"]) == (empty.schema, 2)
    assert receipt["roles"] == [f"{empty.schema}_app", f"{empty.schema}_scoped"]


def test_other_partitions_than_those_that_are_there_are_not_promised(site: Site) -> None:
    outcome = site("db", "init", "--partitions", "7")

    assert outcome.status == 0
    assert outcome.err == "note: the ledger keeps its 2 partitions: their number is fixed\n"


@pytest.mark.parametrize("number", ["0", "1025", "many"])
def test_partitions_that_make_no_sense_are_refused(empty: Site, number: str) -> None:
    assert empty("db", "init", "--partitions", number).status == 2
    assert not empty.is_laid_out()


# The state.


def test_the_status_of_a_ledger(site: Site) -> None:
    outcome = site("db", "status")

    assert (outcome.status, outcome.err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in outcome.out.splitlines())
    assert lines["server"].startswith("PostgreSQL 1")
    assert lines["ledger"] == f"schema {site.schema}, version {VERSION}"
    assert lines["partitions"].startswith("2 of ")
    assert lines["erasure"] == "nothing is left to scrub"
    assert lines["roles"] == "none but the owner: see treering db grant"


def test_the_receipt_of_a_status_has_all_of_it(site: Site) -> None:
    outcome = site("db", "status", "--json")

    assert outcome.receipt["kind"] == "treering.db.status.v1"
    assert set(outcome.receipt["version"]) == {"treering", "schema"}
    assert outcome.receipt.keys() >= set(DatabaseStatus.__struct_fields__)


def test_the_status_where_no_ledger_is(empty: Site) -> None:
    outcome = empty("db", "status")

    assert outcome.status == 1
    assert "no ledger at" in outcome.err
    assert "treering db init" in outcome.err
    assert not empty.is_laid_out()


def test_whoever_holds_followers_up_is_shown_with_the_way_out(site: Site) -> None:
    site(*recorded())
    with site.connect() as writer:
        pid = writer.info.backend_pid
        writer.execute("SET application_name = 'nightly import'")
        writer.execute("BEGIN")
        writer.execute("INSERT INTO retention VALUES ('s', 'tool.call', 1)")
        site(*recorded())

        shown = site("db", "status").out

    assert f"followers   1 event waits for pid {pid} (user " in shown
    assert "nightly import, idle in transaction for " in shown
    assert f"            to end it: SELECT pg_terminate_backend({pid})\n" in shown


STATUS: Final = DatabaseStatus(
    server="18.1",
    is_replica=False,
    schema="treering",
    schema_version=1,
    schema_version_known=1,
    bytes=1_600_000,
    partitions=[Partition(name=f"events_{n:02}", bytes=57_344, events_estimated=0) for n in (0, 1)],
    epoch=1,
    events_unsettled=0,
    blocker=None,
    replicas=[],
    erasure_pending=[],
    roles={},
    extensions={"vector": "available", "pg_trgm": None},
)
BLOCKER: Final = Blocker(
    pid=4242, user="app", application="psql", state="active", seconds=200, prepared=None
)
PREPARED: Final = Blocker(
    pid=None, user="app", application="", state="prepared", seconds=90_000, prepared="tx-7"
)
UNSEEN: Final = Blocker(
    pid=7, user="other", application="psql", state=None, seconds=None, prepared=None
)


def told(**changes: Any) -> list[str]:
    return list(lines_of(msgspec.structs.replace(STATUS, **changes)))


def test_a_quiet_ledger_is_told_of_in_eight_lines() -> None:
    assert told() == [
        "server      PostgreSQL 18.1",
        "ledger      schema treering, version 1",
        "size        1.5 MB",
        "partitions  2 of 56 kB each",
        "followers   see every event",
        "replicas    none",
        "erasure     nothing is left to scrub",
        "roles       none but the owner: see treering db grant",
    ]


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"is_replica": True}, ["server      PostgreSQL 18.1, a replica"]),
        ({"is_replica": True}, ["replicas    see them on the primary"]),
        (
            {"schema_version_known": 2},
            ["ledger      schema treering, version 1 of 2: run treering db init"],
        ),
        (
            {"schema_version": 3},
            ["ledger      schema treering, version 3, newer than this program: upgrade treering"],
        ),
        ({"events_unsettled": 2}, ["followers   2 events wait a moment longer"]),
        (
            {"events_unsettled": 2, "blocker": BLOCKER},
            [
                "followers   2 events wait for pid 4242 (user app, psql, active for 3 min)",
                "            to end it: SELECT pg_terminate_backend(4242)",
            ],
        ),
        ({"blocker": UNSEEN}, ["followers   wait for pid 7 (user other, psql, open)"]),
        (
            {"events_unsettled": 1, "blocker": PREPARED},
            [
                (
                    "followers   1 event waits for prepared transaction tx-7"
                    " (user app, open for 25 h)"
                ),
                "            to end it: ROLLBACK PREPARED 'tx-7', or COMMIT PREPARED",
            ],
        ),
        (
            {
                "replicas": [
                    Replica(name="db-2", state="streaming", bytes_behind=65_535),
                    Replica(name="db-3", state="catchup", bytes_behind=5_000_000),
                    Replica(name="db-4", state="startup", bytes_behind=None),
                ]
            },
            [
                "replicas    db-2: streaming, up to date",
                "            db-3: catchup, 4.8 MB behind",
                "            db-4: startup, how far is unknown",
            ],
        ),
        (
            {"erasure_pending": ["blobs_01", "events_00"]},
            ["erasure     blobs_01, events_00 still hold erased bytes: run treering db scrub"],
        ),
        (
            {"erasure_pending": ["pg_statistic"]},
            [
                (
                    "erasure     pg_statistic still holds erased bytes:"
                    " run treering db scrub as a superuser"
                )
            ],
        ),
        (
            {"roles": {"app": None, "lyria": ["acme/app", "acme/other"]}},
            [
                "roles       app    states its scope",
                "            lyria  held to acme/app, acme/other",
            ],
        ),
    ],
)
def test_what_is_out_of_the_ordinary_is_told(changes: dict[str, Any], lines: list[str]) -> None:
    shown = told(**changes)

    assert shown[shown.index(lines[0]) :][: len(lines)] == lines


def test_partitions_that_stand_out_are_listed_by_size() -> None:
    parts = [Partition(name=f"events_{n:02}", bytes=57_344, events_estimated=0) for n in range(16)]
    parts[4] = Partition(name="events_04", bytes=430_000_000, events_estimated=600_201)
    parts[13] = Partition(name="events_13", bytes=870_000_000, events_estimated=1_204_118)

    shown = told(partitions=parts)

    assert shown[3:6] == [
        "partitions  events_13    830 MB, about 1,204,118 events",
        "            events_04    410 MB, about 600,201 events",
        "            and 14 of 56 kB or less",
    ]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (57_344, "56 kB"),
        (1_600_000, "1.5 MB"),
        (5 * 1024**4, "5.0 TB"),
        (5_000 * 1024**4, "5,000 TB"),
    ],
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert sized(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert lasting(seconds) == text


# Roles.


def test_grants_and_revocations_say_what_they_did(site: Site) -> None:
    app, held = site.role(), site.role()

    assert site("db", "grant", "--role", app).out == (
        f"role {app} may use the ledger, and states its scope itself\n"
    )
    assert site("db", "grant", "--role", held, "--scope", "Acme App").out == (
        f"role {held} may use scope acme-app, and is held to what it was granted\n"
    )
    shown = site("db", "status").out
    assert f"{app}  states its scope" in shown
    assert f"{held}  held to acme-app" in shown
    assert site("db", "revoke", "--role", held, "--scope", "acme-app").out == (
        f"role {held} may no longer use scope acme-app\n"
    )
    assert site("db", "revoke", "--role", app).out == f"role {app} may no longer use the ledger\n"
    assert "none but the owner" in site("db", "status").out


def test_the_receipts_of_grants_and_revocations(site: Site) -> None:
    role = site.role()

    granted = site("db", "grant", "--role", role, "--scope", "acme/app", "--json")
    revoked = site("db", "revoke", "--role", role, "--scope", "acme/app", "--json")

    assert granted.receipt["kind"] == "treering.db.grant.v1"
    assert granted.body == {"role": role, "scope": "acme/app", "password_set": False}
    assert revoked.receipt["kind"] == "treering.db.revoke.v1"
    assert revoked.body == {"role": role, "scope": "acme/app"}


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_password_is_read_and_never_printed(site: Site, option: list[str]) -> None:
    role = site.role()

    outcome = site("db", "grant", "--role", role, "--set-password", *option, stdin=f"{PASSWORD}\n")

    assert outcome.status == 0
    assert PASSWORD not in outcome.out + outcome.err
    with site.connect() as connection:
        row = connection.execute(
            "SELECT rolpassword FROM pg_authid WHERE rolname = %s", (role,)
        ).fetchone()
    assert row is not None
    assert row[0].startswith("SCRAM-SHA-256")


@pytest.mark.parametrize("text", ["", "\n", "  \n", f"{'x' * 1_001}\n", "a\0b\n"])
def test_a_password_that_is_none_is_refused_before_anything_is_granted(
    site: Site, text: str
) -> None:
    role = site.role()

    outcome = site("db", "grant", "--role", role, "--set-password", stdin=text)

    assert outcome.status == 2
    assert outcome.err.splitlines()[0] == "error: the password is empty or too long"
    assert "none but the owner" in site("db", "status").out


ON_TERMINAL: Final = """
import os, sys
os.setsid()
terminal = os.open(sys.argv[1], os.O_RDWR)
for stream in range(3):
    os.dup2(terminal, stream)
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_at_a_terminal_a_password_is_asked_for_twice_and_not_shown(site: Site) -> None:
    role = site.role()

    status, shown = granted_at_terminal(
        site,
        role,
        (f"Password of {role}: ", f"{PASSWORD}\n"),
        ("Repeat for confirmation: ", f"{PASSWORD}\n"),
        ("its password is set", ""),
    )

    assert status == 0
    assert PASSWORD not in shown


@pytest.mark.parametrize(
    ("typed", "status", "said"),
    [
        (
            [f"{PASSWORD}\n", "another\n"],
            2,
            "error: the two passwords differ\nhint: nothing was granted; run it again\n",
        ),
        (["\n"], 2, "error: the password is empty or too long\nhint: give up to 1,000 characters"),
        (
            ["\x04"],
            2,
            "error: the password is empty or too long\nhint: give up to 1,000 characters",
        ),
        (
            ["\x03"],
            130,
            "error: interrupted\nhint: the grant is complete or missing; run it again\n",
        ),
    ],
    ids=["differ", "empty", "end", "interrupted"],
)
def test_at_a_terminal_nothing_is_granted_without_a_password(
    site: Site, typed: list[str], status: int, said: str
) -> None:
    role = site.role()
    prompts = (f"Password of {role}: ", "Repeat for confirmation: ")
    *_, last = said.rstrip("\n").splitlines()

    found, shown = granted_at_terminal(site, role, *zip(prompts, typed, strict=False), (last, ""))

    assert found == status
    assert f"\n{said}" in shown
    assert "none but the owner" in site("db", "status").out


def granted_at_terminal(site: Site, role: str, *answers: tuple[str, str]) -> tuple[int, str]:
    """Grant, answer each prompt, and return the status and what was on the screen."""
    ours, theirs = pty.openpty()
    grant = ("db", "grant", "--db", site.url, "--role", role, "--set-password")
    with subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, os.ttyname(theirs), PROGRAM, *grant]
    ) as process:
        shown = "".join(answered(ours, prompt, answer) for prompt, answer in answers)
        status = process.wait(PATIENCE_S)
    while select.select([ours], [], [], 0)[0]:
        shown += os.read(ours, 1_000).decode()
    os.close(ours)
    os.close(theirs)
    return status, shown.replace("\r\n", "\n")


def answered(terminal: int, prompt: str, answer: str) -> str:
    """Wait for ``prompt``, type ``answer``, and return what was on the screen.

    What is typed before the terminal stops showing it is thrown away: a person is not that quick.
    """
    screen = b""
    end = time.monotonic() + PATIENCE_S
    while prompt.encode() not in screen:
        assert select.select([terminal], [], [], PATIENCE_S)[0], screen
        screen += os.read(terminal, 1_000)
    while answer and termios.tcgetattr(terminal)[3] & termios.ECHO:
        assert time.monotonic() < end, screen
        time.sleep(0.01)
    os.write(terminal, answer.encode())
    return screen.decode()


def test_what_cannot_be_granted_or_revoked_says_why(site: Site) -> None:
    role = site.role()
    for arguments, status in (
        (("grant", "--role", "postgres"), 2),
        (("grant", "--role", role, "--scope", "A@B"), 2),
        (("grant", "--role", role, "--scope", " "), 2),
        (("grant",), 2),
        (("revoke",), 2),
        (("revoke", "--role", role), 1),
    ):
        outcome = site("db", *arguments)
        assert outcome.status == status
        assert outcome.err.startswith("error: ")
        assert "\nhint: " in outcome.err


# Scrubbing.


def test_a_scrub_with_nothing_to_do(site: Site) -> None:
    assert site("db", "scrub").out == "nothing is left to scrub\n"
    assert site("db", "scrub", "--json").body == {"done": [], "pending": []}


def test_a_scrub_waits_for_older_readers_and_then_ends_what_they_held_up(site: Site) -> None:
    site(*recorded("a", "--event-id", "e1"))
    with site.connect() as reader:
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM pg_class")
        redacted = site("episodes", "redact", "--event-id", "e1", "--scope", "s")
        shown = site("db", "status").out
        waiting = site("db", "scrub", "--json")
        said = site("db", "scrub")
        reader.execute("COMMIT")

    done = site("db", "scrub")

    assert redacted.out == (
        "redacted event e1 in scope s; the bytes are still in the tables: run treering db scrub\n"
    )
    assert "still holds erased bytes: run treering db scrub" in shown
    assert (waiting.status, waiting.receipt["ok"], waiting.receipt["code"]) == (1, False, "pending")
    [table] = waiting.receipt["pending"]
    assert said.status == 1
    assert f"error: erased bytes are left in {table}: " in said.err
    assert "or this role may not\n" in said.err
    assert done.out == f"rewrote 1 table; no erased bytes are left: {table}\n"


# Files.


def test_of_a_file_the_status_shows_version_and_size(told: CommandLine) -> None:
    shown = told("db", "status")
    receipt = told("db", "status", "--json").receipt

    assert [line.split()[0] for line in shown.out.splitlines()] == ["file", "ledger", "size"]
    assert receipt["file"] == str(told.database)
    assert receipt["bytes"] >= told.database.stat().st_size
    assert set(receipt["version"]) == {"treering", "schema"}


def test_a_file_that_is_not_there_has_no_status(cli: CommandLine) -> None:
    assert cli("db", "status").status == 1
    assert not cli.database.exists()


@pytest.mark.parametrize(
    "arguments", [["init"], ["grant", "--role", "x"], ["revoke", "--role", "x"], ["scrub"]]
)
def test_a_file_is_not_looked_after(told: CommandLine, arguments: list[str]) -> None:
    outcome = told("db", *arguments)

    assert outcome.status == 2
    assert "is not a database server" in outcome.err
    assert "postgresql://" in outcome.err


# Every other command, on a server.


def test_every_command_works_on_a_server(site: Site, tmp_path: Path) -> None:
    out, anchor = tmp_path / "out.jsonl", tmp_path / "out.anchor"
    payload = ("--payload-json", '{"text":"hello"}', "--event-id", "e1")
    for arguments, start in (
        (recorded("a", *payload), "recorded tool.call e1 as number 1"),
        (recorded("a"), "recorded tool.call"),
        (recorded("b", "--ts-ms", "1000"), "recorded tool.call"),
        (["episodes", "query", "--scope", "s"], "1970-01-01 00:00:01  tool.call"),
        (["episodes", "replay", "a", "--scope", "s", "--include-payload"], "1  20"),
        (["anchor", "--out", str(anchor)], "anchored 3 events of 2 sessions"),
        (
            ["episodes", "redact", "--event-id", "e1", "--scope", "s"],
            "redacted event e1 in scope s; the bytes are gone from the tables",
        ),
        (["episodes", "gc", "--scope", "s", "--dry-run"], "would remove 1 event"),
        (
            ["episodes", "gc", "--scope", "s"],
            "removed 1 event of scope s; the bytes are gone from the tables",
        ),
        (["rebuild"], "rebuilt the states of 0 runs"),
        (["episodes", "verify", "--scope", "s"], "intact: 5 events (1 redacted, 1 expired)"),
        (["verify", "--anchor", str(anchor)], "intact: 5 events"),
        (
            ["episodes", "export", "--scope", "s", "--include-payload", "--out", str(out)],
            "exported 5 events of 2 sessions",
        ),
        (["episodes", "import", str(out), "--scope", "s"], "imported 0 events"),
    ):
        outcome = site(*arguments)
        assert (outcome.status, outcome.err) == (0, ""), arguments
        assert outcome.out.startswith(start)


@pytest.mark.parametrize("command", [["anchor", "--out", "-"], ["rebuild"]])
def test_what_takes_the_whole_ledger_is_for_its_owner(site: Site, command: list[str]) -> None:
    role = site.role()
    site("db", "grant", "--role", role)
    as_role = f"postgresql://{role}@{site.url.rpartition('@')[2]}"

    refused = site.cli.bare(*command, "--db", as_role)

    assert refused.status == 1
    assert refused.err == (
        "error: this role sees one scope at a time\n"
        "hint: this takes the whole ledger: connect as its owner\n"
    )


def test_asking_where_no_ledger_is_makes_none(empty: Site, tmp_path: Path) -> None:
    secretive = f"{empty.url}&password={PASSWORD}"
    for arguments, status in (
        (["episodes", "query", "--scope", "s"], 0),
        (["episodes", "replay", "a", "--scope", "s"], 0),
        (["episodes", "gc", "--scope", "s"], 0),
        (["episodes", "redact", "--session-id", "a", "--scope", "s"], 1),
        (["episodes", "export", "--scope", "s"], 1),
        (["episodes", "verify", "--scope", "s"], 1),
        (["verify"], 1),
        (["anchor", "--out", str(tmp_path / "x")], 1),
        (["rebuild"], 1),
    ):
        outcome = empty.cli.bare(*arguments, "--db", secretive)
        assert outcome.status == status, arguments
        assert "no ledger at postgresql://" in outcome.err
        assert PASSWORD not in outcome.err
    assert not empty.is_laid_out()
