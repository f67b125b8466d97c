"""The server as a process: it starts, says where it is, shares its ledger, and ends in order."""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import socket
import subprocess
import threading
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import treering
from builders import HERE, said
from effort import PATIENCE_S
from served import PROGRAM, ServerProcess, ThreadServer, at
from treering.surfaces.server import serving

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    return subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


def test_a_server_records_what_others_read_and_reads_what_others_record(
    process: ServerProcess, database: Path
) -> None:
    with process.caller() as caller, treering.open(database) as ledger:
        assert caller.post("/v1/events", {"events": [said("by http")]}).status == 200
        ledger.append([said("by python")])

        assert [header.summary for header in ledger.headers(HERE).items] == ["by http", "by python"]
        items = caller.get(at("scopes", HERE, "headers")).json["items"]
        assert [item["summary"] for item in items] == ["by http", "by python"]


def test_a_second_start_on_the_same_port_says_so(process: ServerProcess, tmp_path: Path) -> None:
    done = run("--db", str(tmp_path / "b.db"), "serve", "--port", str(process.port))

    assert done.returncode == 1
    assert f"port {process.port} of 127.0.0.1 is taken: a server runs there already" in done.stderr
    assert "hint:" in done.stderr
    assert not (tmp_path / "b.db").exists()


def test_it_is_not_served_beyond_this_machine_without_a_token_file(tmp_path: Path) -> None:
    database = str(tmp_path / "a.db")

    done = run("--db", database, "serve", "--host", "0.0.0.0", "--port", "0")
    empty = run("--db", database, "serve", "--token-file", str(tmp_path / "none.json"))

    assert (done.returncode, empty.returncode) == (2, 2)
    assert "no token file is named" in done.stderr
    assert "has no tokens" in empty.stderr


def test_tokens_are_made_listed_used_and_removed(database: Path, tmp_path: Path) -> None:
    tokens = str(tmp_path / "tokens.json")
    made = run(
        "tokens", "add", "--scope", HERE, "--rights", "read,write", "--expires", "30d",
        "--name", "dash", "--token-file", tokens, "--json",
    )  # fmt: skip
    receipt = msgspec.json.decode(made.stdout)

    with ServerProcess(database, "--token-file", tokens) as process:
        assert process.token is None
        with process.caller(receipt["token"]) as caller:
            assert caller.get(at("scopes", HERE, "headers")).status == 200
            assert caller.get(at("scopes", "other", "headers")).status == 403
            assert caller.post(at("scopes", HERE, "redact"), {"event_id": "x"}).status == 403

            listed = run("tokens", "list", "--token-file", tokens)
            assert receipt["id"] in listed.stdout
            assert "dash" in listed.stdout
            assert receipt["token"] not in listed.stdout
            removed = run("tokens", "remove", receipt["id"], "--token-file", tokens)
            assert removed.returncode == 0

            assert caller.get(at("scopes", HERE, "headers")).status == 401
    missing = run("tokens", "remove", "no-such", "--token-file", tokens)
    assert missing.returncode == 1
    assert "no token no-such" in missing.stderr


def test_tokens_of_the_default_file_are_accepted_too(database: Path) -> None:
    token = run("tokens", "add").stdout.strip()

    with ServerProcess(database) as process, process.caller(token) as caller:
        assert caller.get("/v1/scopes").status == 200
        assert caller.post("/v1/events", {"events": [said()]}).status == 403


def test_it_writes_no_token_no_payload_and_no_query_to_its_log(database: Path) -> None:
    with ServerProcess(database, "--log") as process, process.caller() as caller:
        caller.post("/v1/events", {"events": [said("secret words", session_id="hidden")]})
        caller.get(at("scopes", HERE, "search", query="searched-for"))
        caller.get(at("scopes", HERE, "sessions", "hidden"))
        caller.get(at("scopes", HERE, "headers", first=0))
        caller.get("/hidden")
        caller.get("/v1/health", host="hidden.example")
        caller.get("/v1/scopes", authorization="Bearer trt_hidden")
        assert process.token is not None
        status, log = process.stop()

    assert status == 0
    for line in (
        r"POST /v1/events 200 \S+ ms start", r"GET /v1/scopes/{scope}/search 200 \S+ ms start",
        # What was refused is there as well, and by whom it was asked.
        r"GET /v1/scopes/{scope}/headers 400 \S+ ms start", r"GET - 404 \S+ ms start",
        r"GET - 421 \S+ ms -", r"GET - 401 \S+ ms -",
    ):  # fmt: skip
        assert re.search(line, log), line
    for text in (process.token, "secret words", "searched-for", "hidden", HERE):
        assert text not in log


def test_a_read_only_server_leaves_the_ledger_as_it_is(database: Path) -> None:
    with treering.open(database) as ledger:
        ledger.append([said("before")])

    with ServerProcess(database, "--read-only") as process, process.caller() as caller:
        assert caller.post("/v1/events", {"events": [said()]}).status == 403
        assert caller.get(at("scopes", HERE, "search", query="before")).json["total"] == 1

    with treering.open(database) as ledger:
        assert [header.summary for header in ledger.headers(HERE).items] == ["before"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_order_and_loses_nothing_that_was_acknowledged(
    database: Path, number: signal.Signals
) -> None:
    acknowledged: list[str] = []
    enough = threading.Event()

    with ServerProcess(database) as process:

        def write() -> None:
            with process.caller() as caller:
                for batch in range(10_000):
                    ids = [f"{batch}-{number}" for number in range(10)]
                    events = [said(event_id=event_id) for event_id in ids]
                    try:
                        answer = caller.post("/v1/events", {"events": events})
                    except (OSError, HTTPException):
                        return
                    if answer.status != 200:
                        return
                    acknowledged.extend(ids)
                    if batch == 5:
                        enough.set()

        writer = threading.Thread(target=write)
        writer.start()
        streaming = process.caller().stream(at("scopes", HERE, "stream"))
        next(streaming)
        assert enough.wait(PATIENCE_S)
        status, errors = process.stop(number)
        writer.join(PATIENCE_S)
        rest = list(streaming)

    assert (status, errors) == (0, "")
    assert rest is not None
    with treering.open(database) as ledger:
        assert ledger.find_ids(HERE, acknowledged).keys() == set(acknowledged)
        assert ledger.admin.verify().intact


def test_a_client_that_sends_half_a_request_or_none_does_not_hold_up_others(
    process: ServerProcess,
) -> None:
    lazy = [socket.create_connection(("127.0.0.1", process.port)) for _ in range(50)]
    for connection in lazy:
        connection.sendall(b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n")
    try:
        with process.caller() as caller:
            assert caller.get("/v1/health").status == 200
    finally:
        for connection in lazy:
            connection.close()


def test_a_request_that_does_not_come_is_not_waited_for(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HEAD_S", 0.2)
    with ThreadServer(ledger) as server, server.caller() as caller:
        for sent in (b"", b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "):
            with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as slow:
                slow.sendall(sent)
                assert slow.recv(1) == b""
        # One that has sent a request may wait as long as a connection is kept.
        monkeypatch.setattr(serving, "HEAD_S", PATIENCE_S)
        assert caller.get("/v1/health").status == 200
        with contextlib.closing(caller.stream(at("scopes", HERE, "stream"))) as stream:  # type: ignore[type-var]
            ledger.append([said("late")])
            assert msgspec.json.decode(next(stream)["data"])["summary"] == "late"
            connections = list(server.server.server_state.connections)
            assert [connection._waiting for connection in connections] == [None, None]  # type: ignore[union-attr]


def test_what_is_not_http_is_refused_as_everything_else_is(process: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", process.port), PATIENCE_S) as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 ")
    assert msgspec.json.decode(body).keys() == {"code", "message", "hint"}


def test_it_takes_as_many_connections_as_the_system_permits(database: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = ("/bin/sh", "-c", 'ulimit -S -n 256 && exec "$@"', "sh")
    with ServerProcess(database, within=few) as process:
        soft, hard = resource.prlimit(process.process.pid, resource.RLIMIT_NOFILE)

    assert hard == most
    assert soft >= min(most, serving.FILES_MAX)


def test_the_ledger_on_a_server_is_served_too(postgres: Any) -> None:
    with ServerProcess(postgres.fresh()) as process, process.caller() as caller:
        assert caller.post("/v1/events", {"events": [said("hello")]}).status == 200
        stream = caller.stream(at("scopes", HERE, "stream"))
        assert msgspec.json.decode(next(stream)["data"])["summary"] == "hello"
        caller.post("/v1/events", {"events": [said("again")]})
        assert msgspec.json.decode(next(stream)["data"])["summary"] == "again"
        stream.close()  # type: ignore[attr-defined]
