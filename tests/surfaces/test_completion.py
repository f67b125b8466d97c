"""Tab: a shell completes commands, scopes, sessions and runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import treering
from builders import NOON, run_of, said
from effort import PATIENCE_S

if TYPE_CHECKING:
    from surfaces.command_line import CommandLine

SESSION = "5c0375b4-57a5-4f26-b12d-d022ee4e51b7"
RUN = "01997e76-d124-7592-9cac-2ec05abbca08"


@pytest.fixture
def shell(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Two scopes, two sessions and a run, and a shell that is asked about them."""
    with treering.open(cli.database) as ledger:
        ledger.append(run_of(RUN, "deploy it", session_id=SESSION, ts_ms=NOON))
        ledger.append([said("hi", session_id="main:telegram:jo")])
        ledger.append([said("hi", scope="other/app")])
    monkeypatch.setenv("TREERING_DB", str(cli.database))
    monkeypatch.setenv("_TREERING_COMPLETE", "bash_complete")
    return cli


def completed(cli: CommandLine, monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    """Return what is offered for the last word of ``line``."""
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    return [one.partition(",")[2] for one in cli.bare().out.split()]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("treering reda", ["redact"]),
        ("treering show --scope ", ["acme/app", "other/app"]),
        ("treering search --scope oth", ["other/app"]),
        ("treering episodes query --scope ac", ["acme/app"]),
        ("treering show --scope acme/app 5c", ["5c0375b4"]),
        ("treering show --scope acme/app 5c0375b4-57", [SESSION]),
        ("treering tail --scope acme/app --session main", ["main:telegram:jo"]),
        ("treering redact --scope acme/app --session-id 5", ["5c0375b4"]),
        ("treering trace show --scope acme/app 01", ["01997e76-d124-7592-9cac-2ec05abbca08"]),
        ("treering tools list --scope acme/app --run 0", ["01997e76-d124-7592-9cac-2ec05abbca08"]),
        ("treering show --scope other/app 5c", []),
    ],
)
def test_what_is_in_the_ledger_is_offered(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch, line: str, offered: list[str]
) -> None:
    assert completed(shell, monkeypatch, line) == offered


@pytest.mark.parametrize("name", ["--db /nowhere/x.db", "--db {file}"])
def test_a_ledger_that_cannot_be_read_offers_nothing_and_says_nothing(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "list.txt"
    file.write_text("shopping list")
    line = f"treering {name.format(file=file)} show --scope acme/app 5c"

    assert completed(shell, monkeypatch, line) == []
    assert file.read_text() == "shopping list"


def test_a_session_is_offered_with_its_title(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_TREERING_COMPLETE", "fish_complete")
    monkeypatch.setenv("COMP_WORDS", "treering show --scope acme/app 5c")
    monkeypatch.setenv("COMP_CWORD", "5c")

    assert shell.bare().out == "plain,5c0375b4\tdeploy it\n"


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_every_shell_has_its_script(cli: CommandLine, name: str) -> None:
    outcome = cli("completion", name)

    assert (outcome.status, outcome.err) == (0, "")
    assert f"_TREERING_COMPLETE={name}_complete" in outcome.out


TABS = {
    "bash": """
        source ./script
        COMP_WORDS=(treering show --scope ac) COMP_CWORD=3
        for tab in 1 2; do COMPREPLY=(); _treering_completion treering; echo "${COMPREPLY[@]}"; done
    """,
    # Loaded by its name from a folder, as compinit does; outside of a real Tab, compadd is ours.
    "zsh": """
        cp script _treering; fpath=($PWD $fpath); autoload -Uz _treering
        compdef() { print registered }; compadd() { print -r -- $completions }
        words=(treering show --scope ac) CURRENT=4
        _treering; _treering
    """,
    "fish": """
        source script
        for tab in 1 2; complete -C "treering show --scope ac"; end
    """,
}
"""What presses Tab twice in a shell that has read the script, and prints what it offers."""
PLAIN = {"bash": "--norc", "zsh": "-df", "fish": "--no-config"}


@pytest.mark.parametrize("name", TABS)
def test_a_real_shell_completes_at_every_tab(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    program = shutil.which(name)
    if program is None and name != "bash":
        # No package index has zsh or fish, and nobody needs them to use Treering: where they are
        # missing, bash and the texts of all three scripts are still tried.
        pytest.skip(f"{name} is not installed")
    assert program is not None
    monkeypatch.delenv("_TREERING_COMPLETE")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    (tmp_path / "script").write_text(shell("completion", name).out)

    done = subprocess.run(
        [program, PLAIN[name], "-c", TABS[name]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )

    assert (done.stdout.split(), done.stderr) == (["acme/app", "acme/app"], "")


def test_the_shell_of_the_user_is_the_default(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert "fish_complete" in cli("completion").out
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    refused = cli("completion", "--json")

    assert (refused.status, refused.receipt["hint"]) == (2, "one of bash, zsh, fish")
