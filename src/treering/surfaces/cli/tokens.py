"""``treering tokens``: tokens of the server, made, listed and removed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treering.config import settings_folder
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.completing import complete_scope
from treering.surfaces.cli.declare import command, group
from treering.surfaces.shared.times import clock, parse_age

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treering.surfaces.server.grants import Right, StoredToken, TokenFile


token_file_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file of tokens. Default: tokens.json in your configuration folder.",
)


def default_token_file() -> Path:
    """Return the file of tokens in the user's configuration folder."""
    return settings_folder() / "tokens.json"


@group(
    "tokens",
    short_help="Create and remove tokens for treering serve.",
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
    "add",
    keys=False,
    db=False,
    short_help="Create a token, and print it once.",
    examples="""
    treering tokens add --scope acme/app --rights read,write --expires 30d
    treering tokens add --name dashboard --token-file /etc/treering/tokens.json
    """,
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    shell_complete=complete_scope,
    help="Good for this scope only; may be repeated. Default: all scopes.",
)
@click.option(
    "--rights",
    default="read",
    metavar="RIGHTS",
    help="A comma-separated list of read, write and erase. Default: read.",
)
@click.option("--expires", metavar="AGE", help="Expires after 30d, 12w or 8h. Default: never.")
@click.option("--name", default="", metavar="NAME", help="A name by which you recognise it.")
@token_file_option
def add(
    *,
    scopes: Sequence[str],
    rights: str,
    expires: str | None,
    name: str,
    token_file: Path | None,
) -> None:
    """Create a token and print it. It is shown only once: the file keeps its hash."""
    from treering.app import now_ms  # noqa: PLC0415  (not for --help)

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
    "list",
    keys=False,
    db=False,
    short_help="List tokens, without the tokens themselves.",
    examples="""
    treering tokens list
    treering tokens list --token-file /etc/treering/tokens.json --json
    """,
)
@token_file_option
def list_(*, token_file: Path | None) -> None:
    """List the tokens of a file: ids, rights, scopes and when they expire."""
    file = _file(token_file)
    stored = file.tokens()
    body = {"file": str(file.path), "count": len(stored), "tokens": [*map(_shown, stored)]}
    show(body, *_lines(stored))


@command(
    "remove",
    keys=False,
    db=False,
    short_help="Remove a token; it is refused from then on.",
    examples="""
    treering tokens remove 3f9c01ab
    """,
)
@click.argument("token_id", metavar="ID")
@token_file_option
def remove(*, token_id: str, token_file: Path | None) -> None:
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
