"""The reference page names everything there is to type."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from treering.surfaces.cli.commands import LazyGroup
from treering.surfaces.cli.main import root

REFERENCE = Path(__file__).parents[2] / "docs" / "reference/cli.md"


def walk(command: click.Command, name: str) -> dict[str, click.Command]:
    """Return every command below ``command`` by its full name."""
    found = {name: command}
    if isinstance(command, LazyGroup):
        context = click.Context(command)
        for inner in command.list_commands(context):
            child = command.get_command(context, inner)
            assert child is not None
            found |= walk(child, f"{name} {inner}")
    return found


COMMANDS = {
    name: command
    for name, command in walk(root, "treering").items()
    if not isinstance(command, LazyGroup)
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_section_with_all_its_flags(name: str) -> None:
    text = REFERENCE.read_text()
    common = text[: text.index("\n## ")]

    section = text.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]

    flags = [
        flag
        for parameter in COMMANDS[name].params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for flag in parameter.opts
    ]
    assert [flag for flag in flags if f"`{flag}" not in section + common] == []
