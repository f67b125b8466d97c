"""``treering serve`` and its tokens, ``view`` and ``mcp``: over HTTP, in a browser, for agents."""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import click

from treering.clock import now_ms
from treering.config import settings_folder
from treering.errors import InvalidInput, Unsupported
from treering.surfaces.cli.commands import invocation, show
from treering.surfaces.cli.completing import complete_scope, complete_session
from treering.surfaces.cli.declare import argument, command, flag, group, option
from treering.surfaces.cli.finding import find_session, find_session_anywhere
from treering.surfaces.cli.ledgers import (
    database_path,
    open_existing,
    open_to_ask,
    open_to_write,
    shown,
)
from treering.surfaces.cli.output import note
from treering.surfaces.shared.times import clock, parse_age

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Sequence

    from treering.ledger.ledger import Ledger
    from treering.model.scopes import Scope
    from treering.surfaces.server.access import ServerAddress
    from treering.surfaces.server.grants import Right, StoredToken, TokenFile

PORT_DEFAULT: Final = 8720


@command(
    examples="""
    treering serve
    treering serve --port 0 --json
    treering serve --read-only --open
    treering serve --host 0.0.0.0 --token-file tokens.json --public-url https://ledger.example.org
    """,
    if_stopped="what was acknowledged is recorded; start it again",
)
def serve(
    *,
    host: str = option("HOST", "Default: 127.0.0.1.", default="127.0.0.1"),
    port: int = option(
        "PORT",
        f"0 chooses a free one. Default: {PORT_DEFAULT}.",
        type=click.IntRange(0, 65_535),
        default=PORT_DEFAULT,
    ),
    is_opened: bool = flag("Open it in a browser.", "--open"),
    token_file: Path | None = option(
        "FILE",
        "Accept the tokens of this file only. Default: a new one, and those of treering tokens.",
        type=click.Path(path_type=Path),
    ),
    public_url: str | None = option("URL", "The address by which others reach it."),
    read_only: bool = flag("Refuse writes and erasures."),
    is_logged: bool = flag("Log requests to standard error.", "--log"),
) -> None:
    """Serve the ledger to programs in any language, and its viewer to browsers, until Ctrl-C.

    It prints its address and a token that is valid until it stops. Programs send the token as
    Authorization: Bearer; /v1/openapi.json describes all routes. To serve other machines it needs
    --token-file; put a TLS proxy in front of it.
    """
    check_installed()
    from treering.surfaces.server.access import check_public_url, is_loopback  # noqa: PLC0415
    from treering.surfaces.server.grants import TokenFile, new_token  # noqa: PLC0415

    if public_url is not None:
        check_public_url(public_url)
    if token_file is None and not is_loopback(host):
        raise InvalidInput(
            f"{host} can be reached from other machines, and no token file is named",
            hint="make one with treering tokens add --token-file FILE, and name it",
        )
    if token_file is not None and not TokenFile(token_file).tokens():
        raise InvalidInput(
            f"{token_file} has no tokens", hint=f"treering tokens add --token-file {token_file}"
        )
    token = new_token() if token_file is None else None
    if is_logged:
        logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s")
        logging.getLogger("treering.server").setLevel(logging.INFO)

    def started(address: ServerAddress) -> None:
        _report(address, token)
        if is_opened:
            click.launch(page_address(address, token))

    with listening(host, port) as listener, _open(is_read_only=read_only) as ledger:
        run_server(
            ledger,
            listener,
            host=host,
            public_url=public_url,
            token_file=token_file,
            token=token,
            is_read_only=read_only,
            started=started,
        )


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raise if the port is taken, before any ledger is opened."""
    from treering.surfaces.server.serving import bind  # noqa: PLC0415  (not for --help)

    return bind(host, port)


def run_server(
    ledger: Ledger,
    listener: socket.socket,
    *,
    host: str,
    token: str | None,
    started: Callable[[ServerAddress], None],
    public_url: str | None = None,
    token_file: Path | None = None,
    is_read_only: bool = False,
) -> None:
    """Serve a ledger, its pages and MCP, until the process is asked to end."""
    from treering.surfaces.mcp.endpoint import McpEndpoint  # noqa: PLC0415
    from treering.surfaces.server.access import ServerAddress  # noqa: PLC0415
    from treering.surfaces.server.application import Application  # noqa: PLC0415
    from treering.surfaces.server.grants import TokenFile, TokenSet  # noqa: PLC0415
    from treering.surfaces.server.serving import closing_lost_runs, make_server  # noqa: PLC0415
    from treering.surfaces.viewer.site import ViewerSite  # noqa: PLC0415

    address = ServerAddress(host=host, port=listener.getsockname()[1], public_url=public_url)
    mcp = McpEndpoint(ledger, is_read_only=is_read_only)
    viewer = ViewerSite(ledger, now_ms, is_read_only=is_read_only)
    file = TokenFile(token_file or default_token_file())
    application = Application(
        ledger,
        tokens=TokenSet(now_ms, file=file, token=token),
        address=address,
        is_read_only=is_read_only,
        more=[mcp.route, viewer.route],
        lifespans=[mcp.living, *([] if is_read_only else [partial(closing_lost_runs, ledger)])],
    )
    # A signal ends it in the ordinary way: that is what it is waiting for.
    with contextlib.suppress(KeyboardInterrupt):
        make_server(application, started=lambda: started(address)).run(sockets=[listener])


def _open(*, is_read_only: bool) -> Ledger:
    from treering.app import open as open_ledger  # noqa: PLC0415  (not for --help)

    if is_read_only:
        return open_existing()
    return open_ledger(database_path(), keys=invocation().keys)


def _report(address: ServerAddress, token: str | None) -> None:
    ledger = shown(database_path())
    lines = [f"serving {ledger} at {address.url}"]
    if token is not None:
        lines.append(f"token {token}")
    body = {"url": address.url, "port": address.port, "ledger": ledger, "token": token}
    show(body, *lines)
    sys.stdout.flush()
    if not invocation().as_json:
        note("Ctrl-C ends it")


def page_address(address: ServerAddress, token: str | None, path: str = "/") -> str:
    """Return the address of a page to open; a fragment is in no log and no Referer."""
    return f"{address.url}{path}" if token is None else f"{address.url}{path}#token={token}"


def check_installed() -> None:
    """Raise Unsupported unless there is what serving needs."""
    for name in ("starlette", "uvicorn"):
        if find_spec(name) is None:
            raise Unsupported(
                f"serving needs {name}, which is not installed",
                hint="pip install 'treering[serve]'",
            )


HOST: Final = "127.0.0.1"


@command(
    scope="all",
    examples="""
    treering view
    treering view 3f9c01ab
    treering view --scope acme/app --read-only
    treering view --no-open --port 8720
    """,
    if_stopped="nothing is lost; start it again",
)
def view(
    *,
    scope: Scope | None,
    session: str | None = argument(required=False, shell_complete=complete_session),
    no_open: bool = flag("Print the address; do not open a browser."),
    port: int = option("PORT", "Default: a free one.", type=click.IntRange(0, 65_535), default=0),
    read_only: bool = flag("Offer no action that changes or erases anything."),
) -> None:
    """Open the viewer on all scopes, or at SESSION, until Ctrl-C.

    It serves the ledger to this machine only, on a free port, and opens a browser with its own
    token. SESSION is an id or a short id, in any scope.
    """
    check_installed()
    from treering.surfaces.server.grants import new_token  # noqa: PLC0415  (not for --help)

    token = new_token()
    with listening(HOST, port) as listener, open_existing() as ledger:
        path = _path(ledger, scope, session)

        def started(address: ServerAddress) -> None:
            page = page_address(address, token, path)
            body = {
                "url": page, "port": address.port, "ledger": shown(database_path()), "token": token
            }  # fmt: skip
            show(body, f"viewing {shown(database_path())} at {page}")
            sys.stdout.flush()
            if not invocation().as_json:
                note("Ctrl-C ends it")
            if not no_open and click.launch(page) != 0:
                note("no browser could be opened: open the address by hand")

        run_server(
            ledger, listener, host=HOST, token=token, is_read_only=read_only, started=started
        )


def _path(ledger: Ledger, scope: Scope | None, session: str | None) -> str:
    """Return the path of the page to open. Raise NotFound for an unknown session."""
    from treering.surfaces.viewer.requests import session_address  # noqa: PLC0415

    if session is None:
        return "/" if scope is None else f"/sessions?{urlencode({'scope': scope})}"
    if scope is not None:
        return session_address(scope, find_session(ledger, scope, session))
    return session_address(*find_session_anywhere(ledger, session))


@command(
    scope="project",
    json=False,
    examples="""
    treering mcp
    treering mcp --scope acme/app --write
    treering install claude-code --mcp
    """,
    if_stopped="nothing is lost: the agent starts it again",
)
def mcp(
    *, scope: Scope, write: bool = flag("Let the agent remember and forget facts, too.")
) -> None:
    """Answer an agent's questions about earlier sessions, over standard input and output.

    It speaks the Model Context Protocol. Agents start it themselves: treering install AGENT --mcp
    adds it to their settings. It answers for one scope: by default, for the project of the folder
    that it is started in. Tools: search, timeline, fetch, sessions, recall and
    memory_episodes_query; with --write also remember and forget.
    """
    if find_spec("mcp") is None:
        raise Unsupported(
            "the MCP server needs mcp, which is not installed", hint="pip install 'treering[mcp]'"
        )
    # What is loaded lives as long as the process: to look through it for garbage again and again
    # takes a seventh of the time until the first answer.
    gc.disable()
    from treering.surfaces.mcp.server import make_server, serve  # noqa: PLC0415  (half a second)
    from treering.surfaces.mcp.toolbox import LateLedger, Toolbox  # noqa: PLC0415

    gc.freeze()
    gc.enable()
    late = LateLedger(
        read=_anywhere(_open_masking if write else open_to_ask),
        write=_anywhere(lambda: open_to_write().with_masking()),
    )
    toolbox = Toolbox(late, scope, writes=write)
    try:
        serve(make_server(lambda _: toolbox))
    finally:
        late.drop()


def _open_masking() -> Ledger:
    """Open the ledger to record in it, with secrets masked. Raise NotFound if it is not there."""
    return open_existing("change").with_masking()


def _anywhere(opening: Callable[[], Ledger]) -> Callable[[], Ledger]:
    """Return ``opening`` for other threads, which do not know the command line."""
    context = click.get_current_context()

    def opened() -> Ledger:
        with context.scope(cleanup=False):
            return opening()

    return opened


token_file_option = option(
    "FILE",
    "The file of tokens. Default: tokens.json in your configuration folder.",
    type=click.Path(path_type=Path),
)


def default_token_file() -> Path:
    """Return the file of tokens in the user's configuration folder."""
    return settings_folder() / "tokens.json"


@group(
    "tokens",
    keys=False,
    db=False,
    commands="add list_ remove",
    examples="""
    treering tokens add --scope acme/app --rights read,write --expires 30d
    treering tokens list
    treering tokens remove 3f9c01ab
    """,
)
def tokens() -> None:
    """Create, list and remove the tokens that treering serve accepts.

    Only hashes of tokens are kept. A running server notices changes at once.
    """


@command(
    keys=False,
    db=False,
    short_help="Create a token, and print it once.",
    examples="""
    treering tokens add --scope acme/app --rights read,write --expires 30d
    treering tokens add --name dashboard --token-file /etc/treering/tokens.json
    """,
)
def add(
    *,
    scopes: Sequence[str] = option(
        "SCOPE",
        "Good for this scope only; may be repeated. Default: all scopes.",
        "--scope",
        multiple=True,
        shell_complete=complete_scope,
    ),
    rights: str = option(
        "RIGHTS", "A comma-separated list of read, write and erase. Default: read.", default="read"
    ),
    expires: str | None = option("AGE", "Expires after 30d, 12w or 8h. Default: never."),
    name: str = option("NAME", "A name by which you recognise it.", default=""),
    token_file: Path | None = token_file_option,
) -> None:
    """Create a token and print it. It is shown only once: the file keeps its hash."""
    now = now_ms()
    wanted: Any = [right.strip() for right in rights.split(",") if right.strip()]
    token, stored = _file(token_file).add(
        name=name,
        rights=wanted,
        scopes=scopes,
        expires_ms=None if expires is None else now + parse_age(expires, flag="--expires"),
        now_ms=now,
    )
    show({"token": token, **_shown(stored)}, token, done="the token was made")


@command(
    keys=False,
    db=False,
    short_help="List tokens, without the tokens themselves.",
    examples="""
    treering tokens list
    treering tokens list --token-file /etc/treering/tokens.json --json
    """,
)
def list_(*, token_file: Path | None = token_file_option) -> None:
    """List the tokens of a file: ids, rights, scopes and when they expire."""
    file = _file(token_file)
    stored = file.tokens()
    body = {"file": str(file.path), "count": len(stored), "tokens": [*map(_shown, stored)]}
    show(body, *_lines(stored))


@command(
    keys=False,
    db=False,
    short_help="Remove a token; it is refused from then on.",
    examples="""
    treering tokens remove 3f9c01ab
    """,
)
def remove(
    *, token_id: str = argument(metavar="ID"), token_file: Path | None = token_file_option
) -> None:
    """Remove the token with an ID that treering tokens list shows."""
    removed = _file(token_file).remove(token_id)
    show(_shown(removed), f"removed token {removed.id}", done="the token was removed")


def _file(path: Path | None) -> TokenFile:
    from treering.surfaces.server.grants import TokenFile  # noqa: PLC0415  (not for --help)

    return TokenFile((path or default_token_file()).expanduser())


def _shown(token: StoredToken) -> dict[str, Any]:
    rights: tuple[Right, ...] = token.rights
    return {
        "id": token.id,
        "name": token.name,
        "rights": rights,
        "scopes": token.scopes,
        "created_ms": token.created_ms,
        "expires_ms": token.expires_ms,
    }


def _lines(stored: Sequence[StoredToken]) -> Iterator[str]:
    if not stored:
        yield "no tokens"
    for token in stored:
        expires = (
            "never expires" if token.expires_ms is None else f"until {clock(token.expires_ms)}"
        )
        scopes = ", ".join(token.scopes) or "all scopes"
        name = f"  {token.name}" if token.name else ""
        yield f"{token.id}  {','.join(token.rights)}  {scopes}  {expires}{name}"
