"""``treering completion``: let a shell complete commands, scopes, sessions and runs."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Final

import click
from click.shell_completion import get_completion_class

from treering.errors import InvalidInput
from treering.surfaces.cli.commands import show
from treering.surfaces.cli.completing import COMPLETION_VARIABLE
from treering.surfaces.cli.declare import argument, command

SHELLS: Final = ("bash", "zsh", "fish")
_LOADING: Final = "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then"


@command(
    examples="""
    eval "$(treering completion bash)"
    treering completion zsh > ~/.zfunc/_treering
    treering completion fish > ~/.config/fish/completions/treering.fish
    """
)
def completion(*, shell: str | None = argument(required=False, type=click.Choice(SHELLS))) -> None:
    """Print the script that completes commands, options, scopes, sessions and runs.

    Put the line for your shell into its start file. Without a SHELL it uses that of $SHELL.
    """
    name = shell or PurePath(os.environ.get("SHELL", "")).name
    kind = get_completion_class(name) if name in SHELLS else None
    if kind is None:
        raise InvalidInput("name your shell", hint=f"one of {', '.join(SHELLS)}")
    root = click.get_current_context().find_root()
    program = root.info_name or ""
    script = kind(root.command, {}, program, COMPLETION_VARIABLE).source()
    # Click asks whether the file is being loaded, which is so at the first Tab only: the second
    # one would complete nothing. The name of the function says the same at every Tab.
    script = script.replace(_LOADING, f'if [[ "$funcstack[1]" == "_{program}" ]]; then')
    show({"shell": name, "script": script}, page=lambda: click.echo(script))
