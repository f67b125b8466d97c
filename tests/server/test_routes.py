"""The table of routes: described by OpenAPI, found by path; every error has its status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from builders import HERE, said
from effort import PATIENCE_S
from served import TOKEN, InProcess, at
from treering.errors import TreeringError
from treering.surfaces.server.problems import STATUSES, Limits
from treering.surfaces.server.table import ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treering import Ledger


def test_the_description_of_the_routes_is_valid_openapi_and_has_all_of_them(
    server: InProcess,
) -> None:
    document = server.get("/v1/openapi.json", token=None).json

    OpenAPIV31SpecValidator(document).validate()

    described = {
        (method.upper(), path.removeprefix("/v1"))
        for path, operations in document["paths"].items()
        for method in operations
    }
    assert described == {(route.method, route.path) for route in ROUTES}
    ids = [
        operation["operationId"]
        for operations in document["paths"].values()
        for operation in operations.values()
    ]
    assert len(ids) == len(set(ids))
    cookie = server.post("/v1/login", {"token": TOKEN}, token=None).headers["set-cookie"]
    assert cookie.startswith(document["components"]["securitySchemes"]["cookie"]["name"] + "=")


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_says_in_one_sentence_what_it_gives(route: Any) -> None:
    assert route.summary.endswith((".", "scope."))
    assert len(route.summary) < 100


def codes(kind: type[TreeringError] = TreeringError) -> Iterator[str]:
    """Give the code of every kind of error."""
    yield kind.code
    for lower in kind.__subclasses__():
        yield from codes(lower)


@pytest.mark.parametrize("code", sorted(set(codes())))
def test_every_code_has_a_status_or_is_a_fault_of_the_server(code: str) -> None:
    faults = {
        "error", "storage", "corrupt", "key_missing", "not_a_ledger", "schema_too_new",
        "schema_too_old", "sealed_meanwhile",
    }  # fmt: skip

    assert (code in STATUSES) is not (code in faults)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/v2/scopes", 404, "not_found"),
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/v1/scopes/a/b/c/d/e/f", 404, "not_found"),
        ("DELETE", "/v1/scopes", 405, "method_not_allowed"),
        ("GET", "/v1/login", 405, "method_not_allowed"),
        ("GET", at("scopes", HERE, "events", "unknown"), 404, "not_found"),
        ("GET", at("scopes", "not a scope!", "headers"), 400, "invalid_scope"),
        ("GET", at("scopes", HERE, "sessions") + "/%ff", 400, "invalid"),
        ("GET", at("scopes", HERE, "headers", kinds="nonsense"), 400, "invalid_kind"),
        ("GET", at("scopes", HERE, "headers", after="nonsense"), 400, "invalid_cursor"),
        ("GET", at("scopes", HERE, "headers", first=1001), 400, "invalid"),
        ("GET", at("scopes", HERE, "headers", first="many"), 400, "invalid"),
        ("GET", at("scopes", HERE, "headers", frist=1), 400, "invalid"),
        ("GET", at("scopes", HERE, "headers") + "?first=1&first=2", 400, "invalid"),
        ("GET", at("scopes", HERE, "headers", first=1, last=1), 400, "invalid"),
        ("GET", at("scopes", HERE, "search"), 400, "invalid"),
        ("GET", at("scopes", HERE, "search", query="x", zone="Nowhere"), 400, "invalid"),
        ("GET", at("scopes", HERE, "stream", after="nonsense"), 400, "invalid_cursor"),
        ("GET", at("scopes", HERE, "statistics", since_ms=9, until_ms=3), 400, "invalid"),
        ("GET", at("scopes", HERE, "file-history", path="/"), 400, "invalid"),
    ],
)
def test_what_cannot_be_answered_gets_its_code_status_and_hint(
    server: InProcess, method: str, path: str, status: int, code: str
) -> None:
    answer = server.ask(method, path, b"", token="trt_of-the-test")

    assert (answer.status, answer.json["code"]) == (status, code)
    assert answer.json["hint"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"events": []}',
        b'{"events": [{"scope": "a"}]}',
        b'{"events": [{"scope": "\xff"}]}',
        b'{"event": []}',
        b"[" * 100_000,
    ],
)
def test_a_body_that_does_not_fit_is_refused(server: InProcess, body: bytes) -> None:
    answer = server.post("/v1/events", body)

    assert (answer.status, answer.json["code"]) == (400, "invalid")


def test_a_body_that_is_not_called_json_is_refused(server: InProcess) -> None:
    """A form of another site cannot send JSON without asking the server first."""
    answer = server.post("/v1/events", {"events": [said()]}, content_type="text/plain")

    assert answer.status == 400


def test_a_body_over_its_limit_is_refused_whatever_its_length_says(ledger: Ledger) -> None:
    server = InProcess(ledger, limits=Limits(body_bytes_max=1_000))
    events = {"events": [said("x" * 900, payload={"text": "y" * 500})]}

    for headers in ({}, {"content_length": "5"}, {"content_length": "99999"}):
        answer = server.post("/v1/events", events, **headers)
        assert (answer.status, answer.json["code"]) == (413, "too_large")


def test_little_is_read_of_somebody_who_has_not_said_who_it_is(server: InProcess) -> None:
    answer = server.post("/v1/login", {"token": "x" * 10_000}, token=None)

    assert (answer.status, answer.json["code"]) == (413, "too_large")


def test_the_head_of_a_stream_can_be_asked_for(server: InProcess) -> None:
    answer = server.ask("HEAD", at("scopes", HERE, "stream"), b"", token="trt_of-the-test")

    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.body == b""


def test_an_answer_that_takes_too_long_says_so_and_is_still_carried_out(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    server = InProcess(ledger, limits=Limits(answer_s=0.01))
    slow, done = threading.Event(), threading.Event()
    append = ledger.importing.append

    def late(*arguments: Any, **options: Any) -> Any:
        assert slow.wait(PATIENCE_S)
        answer = append(*arguments, **options)
        done.set()
        return answer

    monkeypatch.setattr(ledger.importing, "append", late)
    answer = server.post("/v1/events", {"events": [said(event_id="e1")]})
    slow.set()

    assert (answer.status, answer.json["code"]) == (503, "busy")
    assert done.wait(PATIENCE_S)
    assert ledger.event(HERE, "e1").seq == 1


def test_an_unforeseen_fault_reveals_only_its_type(
    server: InProcess, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a secret text")

    monkeypatch.setattr(ledger, "sessions", fail)
    answer = server.get(at("scopes", HERE, "sessions"))

    assert answer.status == 500
    assert b"secret" not in answer.body
    assert b"ZeroDivisionError" in answer.body


def test_names_with_slashes_and_other_letters_come_through_whole(
    server: InProcess, ledger: Ledger
) -> None:
    session_id = "main:telegram:Ünal/7?x=%41"
    ledger.append([said(session_id=session_id)])

    answer = server.get(at("scopes", HERE, "sessions", session_id))

    assert answer.json["outline"]["session_id"] == session_id
