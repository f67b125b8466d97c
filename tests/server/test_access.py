"""Who may ask: tokens, hosts, origins, rights and scopes; every route is walked."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import ELSEWHERE, HERE, said
from served import ADDRESS, TOKEN, InProcess, at
from treering.model.queries import unpack
from treering.surfaces.server.access import (
    AccessCheck,
    Protected,
    ServerAddress,
    grant_of,
    is_loopback,
)
from treering.surfaces.server.grants import RIGHTS, Right, TokenFile, TokenSet
from treering.surfaces.server.table import ROUTES

if TYPE_CHECKING:
    from pathlib import Path

    from treering import Ledger
    from treering.surfaces.server.routes import Route

CLOSED_ROUTES = [route for route in ROUTES if route.right is not None]
NOW = 1_790_000_000_000
BODIES: dict[str, Any] = {
    "/events": {"events": [{
        "scope": HERE, "session_id": "s", "kind": "ops.alert", "agent_id": "a", "summary": "x",
    }]},
    "/otlp/v1/traces": {"resourceSpans": [{
        "resource": {"attributes": [{"key": "treering.scope", "value": {"stringValue": HERE}}]},
        "scopeSpans": [{"spans": [{"traceId": "a" * 32, "spanId": "b" * 16}]}],
    }]},
    "/scopes/{scope}/find-ids": {"event_ids": ["x"]},
    "/scopes/{scope}/sessions/{session_id}/open": {"agent": "a"},
    "/scopes/{scope}/sessions/{session_id}/title": {"title": "x"},
    "/scopes/{scope}/facts": {"facts": [{"text": "Mina likes tea"}]},
    "/scopes/{scope}/facts/{fact_id}/settle": {"ended": True},
    "/scopes/{scope}/redact": {"event_id": "x"},
    "/scopes/{scope}/forget": {"user": "mina"},
}  # fmt: skip
QUERIES = {
    "/sessions": f"?scopes={HERE}",
    "/search": f"?query=x&scopes={HERE}",
    "/stream": f"?scopes={HERE}",
    "/scopes/{scope}/search": "?query=x",
    "/scopes/{scope}/file-history": "?path=a.py",
}


def ask(server: InProcess, route: Route, token: str | None, scope: str = HERE) -> Any:
    """Return the answer of a route about one scope."""
    path = "/v1" + route.path.replace("{scope}", scope.replace("/", "%2F"))
    for name in ("session_id", "event_id", "run_id", "fact_id"):
        path = path.replace(f"{{{name}}}", "x")
    if route.method == "POST":
        return server.post(path, BODIES.get(route.path, {}), token=token)
    return server.get(path + QUERIES.get(route.path, ""), token=token)


def add(file: TokenFile, *rights: Right, scope: str | None = None) -> str:
    """Return a new token of a file."""
    scopes = [] if scope is None else [scope]
    return file.add(name="t", rights=rights, scopes=scopes, expires_ms=None, now_ms=NOW)[0]


@pytest.mark.parametrize("route", CLOSED_ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_no_route_answers_without_the_right_token(
    server: InProcess, file: TokenFile, route: Route
) -> None:
    assert route.right is not None
    others = [right for right in RIGHTS if right != route.right]
    answers = {
        "none": ask(server, route, None),
        "wrong": ask(server, route, "trt_guessed"),
        "other rights": ask(server, route, add(file, *others)),
    }

    assert {why: answer.status for why, answer in answers.items()} == {
        "none": 401, "wrong": 401, "other rights": 403,
    }  # fmt: skip
    for answer in answers.values():
        assert {"code", "message", "hint"} == answer.json.keys()


@pytest.mark.parametrize(
    "route",
    [route for route in CLOSED_ROUTES if "{scope}" in route.path or route.scopes],
    ids=lambda route: f"{route.method} {route.path}",
)
def test_no_route_answers_about_a_scope_that_the_token_is_not_for(
    server: InProcess, ledger: Ledger, file: TokenFile, route: Route
) -> None:
    ledger.append([said("private words", event_id="x", session_id="x")])

    answer = ask(server, route, add(file, *RIGHTS, scope=ELSEWHERE))

    assert answer.status == 403
    assert answer.json["code"] == "not_permitted"
    assert "private words" not in answer.body.decode()


def test_lists_over_all_scopes_show_only_those_that_the_token_covers(
    server: InProcess, ledger: Ledger, file: TokenFile
) -> None:
    ledger.append([said("deploy here"), said("deploy there", scope=ELSEWHERE)])
    token = add(file, "read", scope=ELSEWHERE)

    listed = server.get("/v1/scopes", token=token).json["items"]
    found = server.get("/v1/search?query=deploy", token=token).json["sessions"]
    sessions = server.get("/v1/sessions", token=token).json["items"]

    for mine in (listed, found, sessions):
        assert [item["scope"] for item in mine] == [ELSEWHERE]
    for path, name in (("search?query=deploy", "sessions"), ("sessions", "items")):
        everything = server.get(f"/v1/{path}").json[name]
        assert {item["scope"] for item in everything} == {HERE, ELSEWHERE}


def test_pages_of_scopes_name_no_scope_that_the_token_does_not_cover(
    server: InProcess, ledger: Ledger, file: TokenFile
) -> None:
    mine = ["acme/b", "acme/d"]
    ledger.append([said(scope=f"acme/{name}") for name in "abcde"])
    token, _ = file.add(name="", rights=["read"], scopes=mine, expires_ms=None, now_ms=NOW)

    first = server.get("/v1/scopes?limit=1", token=token).json
    second = server.get(f"/v1/scopes?limit=1&after={first['next_cursor']}", token=token).json

    assert [item["scope"] for page in (first, second) for item in page["items"]] == mine
    assert unpack(first["next_cursor"], tuple[str]) == ("acme/b",)
    assert (first["has_more"], second["has_more"], second["next_cursor"]) == (True, False, None)


def test_a_batch_over_two_scopes_needs_both(
    server: InProcess, ledger: Ledger, file: TokenFile
) -> None:
    events = [said("mine"), said("theirs", scope=ELSEWHERE)]

    answer = server.post("/v1/events", {"events": events}, token=add(file, "write", scope=HERE))

    assert answer.status == 403
    assert ledger.headers(HERE).items == []


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8720", "127.0.0.1.evil.example", ""]
)
def test_a_name_that_is_not_ours_reaches_nothing(server: InProcess, host: str) -> None:
    assert server.get("/v1/health", host=host).status == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8720", "localhost", "LOCALHOST:8720", "[::1]:8720"])
def test_our_own_names_are_answered(server: InProcess, host: str) -> None:
    assert server.get("/v1/health", host=host).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_pages_of_others_may_not_ask_even_with_the_token(
    server: InProcess, headers: dict[str, str]
) -> None:
    assert server.get("/v1/scopes", **headers).status == 403


def test_a_link_on_a_page_of_others_leads_here_without_any_token(server: InProcess) -> None:
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    framed = link | {"sec_fetch_dest": "iframe"}
    followed = link | {"sec_fetch_dest": "document"}

    assert server.get("/v1/scopes", **framed).status == 403
    assert server.get("/v1/scopes", **followed).status == 401
    assert server.post("/v1/login", {"token": TOKEN}, **followed).status == 403


def test_an_outdated_cookie_is_no_token_and_does_not_keep_from_a_login(server: InProcess) -> None:
    cookie = f"{ADDRESS.cookie}=trt_of-yesterday"

    assert server.get("/v1/scopes", token=None, cookie=cookie).status == 401
    assert server.post("/v1/login", {"token": TOKEN}, token=None, cookie=cookie).status == 200


def test_our_own_pages_may_ask(server: InProcess) -> None:
    own = {"origin": "http://127.0.0.1:8720", "sec_fetch_site": "same-origin"}

    assert server.get("/v1/scopes", **own).status == 200


def test_a_public_address_is_one_of_our_names(ledger: Ledger) -> None:
    address = ServerAddress(host="0.0.0.0", port=8720, public_url="https://ledger.example.org")
    server = InProcess(ledger, address=address)

    answer = server.get(
        "/v1/scopes", host="ledger.example.org", origin="https://ledger.example.org"
    )

    assert answer.status == 200
    assert server.get("/v1/scopes", host="other.example.org").status == 421


def test_a_browser_exchanges_its_token_for_a_cookie_that_scripts_cannot_read(
    server: InProcess,
) -> None:
    answer = server.post("/v1/login", {"token": TOKEN}, token=None)
    cookie = answer.headers["set-cookie"]
    pair = cookie.partition(";")[0]

    assert answer.status == 200
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert server.get("/v1/scopes", token=None, cookie=pair).status == 200
    assert server.get("/v1/scopes", token=None, cookie="treering-8720=other").status == 401
    assert server.post("/v1/login", {"token": "other"}, token=None).status == 401


def test_the_cookie_goes_by_https_only_where_the_server_does(ledger: Ledger) -> None:
    address = ServerAddress(host="127.0.0.1", port=1, public_url="https://ledger.example.org")
    server = InProcess(ledger, address=address)

    answer = server.post("/v1/login", {"token": TOKEN}, token=None, host="ledger.example.org")

    assert "Secure" in answer.headers["set-cookie"]


def test_an_expired_or_removed_token_is_refused_at_once(ledger: Ledger, file: TokenFile) -> None:
    server = InProcess(ledger, file=file)
    old, _ = file.add(name="", rights=["read"], scopes=[], expires_ms=NOW, now_ms=NOW - 1)
    token, stored = file.add(name="", rights=["read"], scopes=[], expires_ms=None, now_ms=NOW)

    assert "expired" in server.get("/v1/scopes", token=old).json["message"]
    assert server.get("/v1/scopes", token=token).status == 200

    file.remove(stored.id)

    assert server.get("/v1/scopes", token=token).status == 401


def test_the_file_keeps_hashes_and_is_its_owners_alone(file: TokenFile) -> None:
    token = add(file, "read")

    assert token not in file.path.read_text()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    with pytest.raises(treering.InvalidInput, match="invalid right: fly"):
        file.add(name="", rights=["fly"], scopes=[], expires_ms=None, now_ms=NOW)  # type: ignore[list-item]


def test_a_damaged_file_of_tokens_lets_nobody_in(server: InProcess, file: TokenFile) -> None:
    token = add(file, "read")
    file.path.write_text("{")

    assert server.get("/v1/scopes", token=token).status == 500


def test_every_answer_has_the_headers_that_protect_a_browser(server: InProcess) -> None:
    for answer in (server.get("/v1/health"), server.get("/v1/scopes", token=None)):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"


def test_a_read_only_server_refuses_to_write_and_to_erase(ledger: Ledger) -> None:
    server = InProcess(ledger, is_read_only=True)

    for path, body in (
        ("/v1/events", {"events": [said()]}),
        (at("scopes", HERE, "redact"), {"event_id": "x"}),
    ):
        answer = server.post(path, body)
        assert (answer.status, answer.json["code"]) == (403, "read_only")
    assert ledger.headers(HERE).items == []


def test_another_application_can_be_put_behind_the_same_check(tmp_path: Path) -> None:
    """The seam for what is mounted beside /v1: it asks for the grant, and nothing else."""
    asked: list[str] = []

    async def other(scope: Any, receive: Any, send: Any) -> None:
        grant = grant_of(scope)
        assert grant is not None
        asked.append(grant.id)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    server = InProcess.__new__(InProcess)
    tokens = TokenSet(lambda: NOW, token=TOKEN)
    address = ServerAddress(host="127.0.0.1", port=8720)
    server.application = AccessCheck(  # type: ignore[assignment]
        Protected(other, "write"), tokens=tokens, address=address
    )

    assert server.get("/mcp").status == 204
    assert server.get("/mcp", token=None).status == 401
    assert server.get("/mcp", host="evil.example").status == 421
    assert asked == ["start"]


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("192.168.0.2", False), ("example.org", False)],
)  # fmt: skip
def test_only_loopback_addresses_are_out_of_reach_of_others(host: str, *, is_here: bool) -> None:
    assert is_loopback(host) is is_here
