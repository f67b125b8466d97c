"""Errors of a server: each is of the right sort, says what to do, and tells no secret."""

from __future__ import annotations

import secrets
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import psycopg
import pytest

import treering
from builders import HERE, said
from children import run_python
from ports import store_of
from postgres_places import Place
from postgres_server import Server, laid_out
from surfaces.command_line import CommandLine
from treering import TreeringError, app
from treering.app import administer
from treering.errors import Busy, NotPermitted, StorageFull, Unavailable, Unsupported
from treering.storage.postgres import schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


PASSWORD: Final = "hunter2-swordfish"


@pytest.fixture
def cli(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    return CommandLine(tmp_path / "unused.db", capsys, monkeypatch)


@pytest.fixture(scope="module")
def login(server: Server) -> str:
    """Return a role that may log in over TCP, and nothing else."""
    name = f"r_{secrets.token_hex(4)}"
    server.create_role(name, password=PASSWORD)
    return name


Case = tuple[type[TreeringError], str, str]
"""The error, a part of its message, a part of its hint."""


def check(cli: CommandLine, url: str, expected: Case) -> None:
    """Check what Python, and what the command line, gets at ``url``."""
    error, message, hint = expected
    for work in (
        lambda: treering.open(url),
        lambda: treering.open(url, mode="ro"),
        lambda: administer(url).status(),
        lambda: administer(url).init(),
    ):
        with pytest.raises(TreeringError) as raised:
            work()
        assert type(raised.value) is error, raised.value
        assert message in str(raised.value)
        assert hint in str(raised.value.hint)
        check_secret_kept(raised.value)
    outcome = cli.bare("verify", "--db", url)
    assert outcome.status == (2 if issubclass(error, treering.InvalidInput) else 1)
    assert outcome.out == ""
    first, second = outcome.err.splitlines()
    assert (first[:7], second[:6]) == ("error: ", "hint: ")
    assert message in first
    receipt = cli.bare("db", "status", "--json", "--db", url).receipt
    assert (receipt["ok"], receipt["code"]) == (False, error.code)
    assert PASSWORD not in f"{outcome} {receipt}"


def check_secret_kept(error: BaseException) -> None:
    told = [repr(error), str(error), *traceback.format_exception(error)]
    assert PASSWORD not in "".join(told)


# Reaching the server.


def test_a_port_that_nobody_listens_at(cli: CommandLine) -> None:
    url = f"postgresql://somebody:{PASSWORD}@127.0.0.1:1/treering"

    check(cli, url, (Unavailable, "127.0.0.1:1/treering cannot be reached", "server runs"))


def test_a_host_that_is_unknown(cli: CommandLine) -> None:
    url = f"postgresql://somebody:{PASSWORD}@no-such-host.invalid/treering"

    check(cli, url, (Unavailable, "no-such-host.invalid/treering cannot be reached", "check host"))


def test_a_socket_that_is_not_there(cli: CommandLine, tmp_path: Path) -> None:
    url = f"postgresql://somebody@/treering?host={tmp_path}&password={PASSWORD}"

    check(cli, url, (Unavailable, "cannot be reached", "check host"))


def test_a_wrong_password(cli: CommandLine, server: Server, login: str) -> None:
    url = server.tcp_url("treering", user=login, password=f"{PASSWORD}-wrong")

    check(cli, url, (NotPermitted, "refuses the login", "user and password"))


def test_no_password_where_one_is_asked(
    cli: CommandLine, server: Server, login: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    url = f"postgresql://{login}@127.0.0.1:{server.port}/treering"

    check(cli, url, (NotPermitted, "refuses the login", "PGPASSWORD"))


def test_a_role_that_is_unknown(cli: CommandLine, server: Server) -> None:
    url = server.url("treering", user="nobody_here")

    check(cli, url, (NotPermitted, 'role "nobody_here" does not exist', "check user"))


def test_a_database_that_is_unknown(cli: CommandLine, server: Server) -> None:
    check(
        cli,
        server.url("nowhere"),
        (Unavailable, 'database "nowhere" does not exist', "make the database first"),
    )


def test_a_role_that_may_not_enter_the_database(
    cli: CommandLine, server: Server, login: str
) -> None:
    database = f"d_{secrets.token_hex(4)}"
    server.create_database(database)
    Place(server).sql(f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC")

    check(cli, server.url(database, user=login), (NotPermitted, "permission denied", "owner"))


# What the server lacks.


def test_a_server_that_is_too_old(
    cli: CommandLine, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "SERVER_VERSION_MIN", 99)

    check(cli, place.url, (Unsupported, "99 or newer is needed", "upgrade the server"))


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_text(
    cli: CommandLine, server: Server, encoding: str
) -> None:
    database = f"d_{secrets.token_hex(4)}"
    Place(server).sql(
        f"CREATE DATABASE {database} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'"
    )

    check(cli, server.url(database), (Unsupported, f"encoded in {encoding}", "ENCODING 'UTF8'"))


@pytest.mark.parametrize("missing", ["psycopg", "psycopg_pool"])
def test_psycopg_that_is_not_installed(
    cli: CommandLine, place: Place, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(app, "find_spec", lambda name: None if name == missing else object())

    check(cli, place.url, (Unsupported, "is not installed", "pip install 'treering[postgres]'"))


# What may not be done.


def test_a_role_without_rights_is_told_who_grants_them(
    cli: CommandLine, place: Place, login: str
) -> None:
    check(cli, place.url_of(login), (NotPermitted, "", "db grant"))


def test_a_role_that_may_not_lay_out_a_ledger(cli: CommandLine, server: Server, login: str) -> None:
    place = Place(server)

    with pytest.raises(NotPermitted) as refused:
        treering.open(place.url_of(login))

    assert "treering db init" in str(refused.value.hint)
    append = ("episodes", "append", "--scope", HERE, "--session-id", "s1", "--agent-id", "a")
    event = ("--type", "tool.call", "--summary", "x")
    outcome = cli.bare(*append, *event, "--db", place.url_of(login))
    assert outcome.status == 1
    assert "hint: " in outcome.err


def test_a_database_that_is_set_read_only_is_only_read(server: Server) -> None:
    database = f"d_{secrets.token_hex(4)}"
    server.create_database(database)
    place = Place(server, database=database)
    with treering.open(place.url) as ledger:
        ledger.append([said("hello")])
    Place(server).sql(f"ALTER DATABASE {database} SET default_transaction_read_only = on")

    with pytest.raises(treering.errors.ReadOnly) as refused:
        treering.open(place.url)

    assert "mode='ro'" in str(refused.value.hint)
    with treering.open(place.url, mode="ro") as ledger:
        assert [header.summary for header in ledger.headers(HERE).items] == ["hello"]


def test_a_closed_ledger_says_so(place: Place) -> None:
    ledger = treering.open(place.url)
    ledger.append([said("hello", event_id="e1")])

    ledger.close()
    ledger.close()

    uses: list[Callable[[], Any]] = [
        lambda: ledger.append([said("more")]),
        lambda: ledger.headers(HERE),
        lambda: ledger.event(HERE, "e1"),
        lambda: list(ledger.follow(HERE, idle_s=0)),
        lambda: ledger.redact(HERE, event_id="e1"),
        ledger.admin.verify,
        ledger.admin.rebuild,
    ]
    for use in uses:
        with pytest.raises(treering.errors.Closed) as refused:
            use()
        assert refused.value.hint == "open it again"


# Addresses.


@pytest.mark.parametrize("name", ["", "Upper", "1st", "a-b", "a b", 'a"b', "pg_mine", "x" * 51])
def test_a_name_that_is_no_schema(server: Server, name: str) -> None:
    with pytest.raises(treering.InvalidInput, match="cannot be a schema") as refused:
        treering.open(f"{server.url('treering')}&schema={name}")

    assert "lowercase letters" in str(refused.value.hint)


@pytest.mark.parametrize(
    "address",
    [
        f"somebody:{PASSWORD}@127.0.0.1:1/treering",
        f"127.0.0.1:1/treering?user=somebody&password={PASSWORD}",
        f"127.0.0.1:1/treering?sslpassword={PASSWORD}",
        # What people write who do not encode what has to be encoded.
        f"somebody:%{PASSWORD}@127.0.0.1:1/treering",
        f"somebody:1@{PASSWORD}@127.0.0.1:1/treering",
        f"somebody:1/{PASSWORD}@127.0.0.1:1/treering",
        f"somebody:1#{PASSWORD}@127.0.0.1:1/treering",
        f"somebody:1?{PASSWORD}@127.0.0.1:1/treering",
        f"somebody:[{PASSWORD}@127.0.0.1:1/treering",
        f"somebody:{PASSWORD}\u2100@127.0.0.1:1/treering",
        f"somebody:{PASSWORD}@127.0.0.1:99999/treering",
        f"somebody:{PASSWORD}@127.0.0.1:one/treering",
        f"somebody:{PASSWORD}@127.0.0.1:1/treering?no_such_option=1",
        f"somebody:{PASSWORD}@127.0.0.1:1/treering?schema=A",
    ],
)
def test_a_password_is_never_told(cli: CommandLine, address: str) -> None:
    url = f"postgresql://{address}"

    for work in (lambda: treering.open(url), lambda: administer(url).status()):
        with pytest.raises(TreeringError) as refused:
            work()
        assert refused.value.hint
        check_secret_kept(refused.value)
    outcome = cli.bare("verify", "--db", url)
    assert outcome.status in {1, 2}
    assert "unexpected" not in outcome.err
    assert PASSWORD not in outcome.err


def test_the_short_scheme_is_the_same(cli: CommandLine) -> None:
    url = f"postgres://somebody:{PASSWORD}@127.0.0.1:1/treering"

    check(cli, url, (Unavailable, "127.0.0.1:1/treering cannot be reached", "server runs"))


def test_what_holds_a_password_does_not_show_it(server: Server, login: str, place: Place) -> None:
    place.administration.grant(login, HERE)
    url = f"{server.tcp_url(place.database, user=login, password=PASSWORD)}?schema={place.schema}"

    with treering.open(url) as ledger:
        ledger.append([said("hello")])
        shown = [repr(ledger), repr(store_of(ledger)), repr(administer(url))]
        shown += [repr(vars(part)) for part in (store_of(ledger)._server, administer(url))]  # type: ignore[attr-defined]

    place.administration.revoke(login, HERE)
    assert PASSWORD not in "".join(shown)


@pytest.mark.parametrize(
    ("option", "setting", "value"),
    [
        ("options=-c%20work_mem%3D5MB", "work_mem", "5MB"),
        ("application_name=night%20shift", "application_name", "night shift"),
        ("options=-c%20DateStyle%3DISO%2CDMY&sslmode=prefer", "DateStyle", "ISO, DMY"),
    ],
)
def test_what_libpq_understands_may_stand_in_the_address(
    place: Place, option: str, setting: str, value: str
) -> None:
    with treering.open(f"{place.url}&{option}") as ledger:
        server = store_of(ledger)._server  # type: ignore[attr-defined]
        [found] = server.read(lambda c: c.execute(f"SHOW {setting}").fetchone(), HERE)

    assert found == value


@pytest.mark.parametrize("password", ["a+b c%20", "p@ss/w:o?r#d", "ümläut&=", "'\"\\"])
def test_a_password_of_any_characters_opens(server: Server, place: Place, password: str) -> None:
    name = f"r_{secrets.token_hex(4)}"
    server.create_role(name, password=password)
    place.administration.grant(name, HERE)

    with treering.open(
        f"{server.tcp_url(place.database, user=name, password=password)}?schema={place.schema}"
    ) as ledger:
        ledger.append([said("hello")])
        assert ledger.admin.verify(HERE).intact


def test_a_password_among_the_options_is_read_as_libpq_reads_it(
    server: Server, place: Place
) -> None:
    """There a plus is a plus, and no blank."""
    name = f"r_{secrets.token_hex(4)}"
    server.create_role(name, password="a+b c")
    place.administration.grant(name, HERE)
    options = f"user={name}&password=a+b%20c&schema={place.schema}"

    with treering.open(
        f"postgresql://127.0.0.1:{server.port}/{place.database}?{options}"
    ) as ledger:
        assert ledger.append([said("hello")])[0].seq == 1


UNHEARD: Final = """
import sys, psycopg, treering
from treering.storage.postgres import server
server.PATIENCE_S = 0.5
with treering.open(sys.argv[1]) as ledger:
    with psycopg.connect(sys.argv[2], autocommit=True) as owner:
        owner.execute(f"ALTER ROLE {sys.argv[3]} NOLOGIN")
        owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s",
            (sys.argv[3],),
        )
    try:
        ledger.headers("acme/app")
    except treering.TreeringError as error:
        print(error.code)
"""


def test_why_no_connection_can_be_had_is_raised_and_not_printed(
    server: Server, place: Place
) -> None:
    role = place.role(HERE)

    done = run_python(UNHEARD, place.url_of(role), server.url(), role, status=None)

    assert (done.stdout, done.stderr) == ("not_permitted\n", "")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_the_encoding_of_a_client_does_not_matter(
    place: Place, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    text = "drei Jahresringe 🌲 年輪"

    with treering.open(place.url) as ledger:
        ledger.append([said(text, event_id="e1")])

        assert ledger.event(HERE, "e1").summary == text
        assert ledger.admin.verify().intact


def test_a_broken_row_is_corruption_and_names_the_ledger(place: Place) -> None:
    with treering.open(place.url) as ledger:
        ledger.append([said("hello", event_id="e1")])
        place.sql("UPDATE events SET payload = 'no json'")

        with pytest.raises(treering.errors.Corrupt, match="damaged") as refused:
            ledger.event(HERE, "e1")
        assert "treering verify" in str(refused.value.hint)
        with suppress(treering.errors.Corrupt):
            assert not ledger.admin.verify().intact


# Limits of the server.


def test_a_statement_that_runs_into_its_time_limit(server: Server) -> None:
    url = laid_out(server.url("treering"))
    with treering.open(url) as ledger, psycopg.connect(server.url("treering")) as other:
        ledger.append([said("first")])
        schema_name = store_of(ledger)._server.address.schema  # type: ignore[attr-defined]
        with treering.open(f"{url}&options={quote('-c statement_timeout=3000')}") as hurried:
            other.execute(f"LOCK TABLE {schema_name}.events IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(Busy, match=r"too slow for a time limit.*statement timeout") as slow:
                hurried.append([said("second", event_id="second")])
            other.rollback()
            # Nothing was recorded, and it continues.
            assert len(ledger.headers(HERE).items) == 1
            hurried.append([said("second", event_id="second")])
    assert "statement_timeout" in str(slow.value.hint)
    assert "reached" not in str(slow.value)


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("57014", "canceling statement due to user request", (Busy, "cancelled", "try again")),
        ("57014", "canceling statement due to statement timeout", (Busy, "too slow", "db status")),
        ("55P03", "canceling statement due to lock timeout", (Busy, "lock timeout", "db status")),
        ("53100", "could not extend file", (StorageFull, "out of room", "free some space")),
        ("53200", "out of memory", (StorageFull, "out of memory", "work_mem")),
        ("53400", "temporary file size exceeds", (StorageFull, "out of room", "free some space")),
    ],
)
def test_what_the_server_says_is_told_with_what_to_do(
    server: Server, code: str, text: str, expected: Case
) -> None:
    error, message, hint = expected

    def fail(connection: Any) -> None:
        connection.execute(f"DO $$ BEGIN RAISE EXCEPTION '{text}' USING ERRCODE = '{code}'; END $$")

    with treering.open(laid_out(server.url("treering"))) as ledger:
        store: Any = store_of(ledger)
        with pytest.raises(error, match=message) as raised:
            store._server.read(fail)
    assert hint in str(raised.value.hint)
    assert "cannot be reached" not in str(raised.value)


def test_a_server_without_a_connection_left(server: Server, login: str) -> None:
    url = server.tcp_url("treering", user=login, password=PASSWORD)
    with psycopg.connect(server.url("treering"), autocommit=True) as owner:
        owner.execute(f"ALTER ROLE {login} CONNECTION LIMIT 0")
        try:
            with pytest.raises(Busy, match=r"no connection left: .*too many connections") as raised:
                treering.open(url)
        finally:
            owner.execute(f"ALTER ROLE {login} CONNECTION LIMIT -1")
    assert "max_connections" in str(raised.value.hint)
