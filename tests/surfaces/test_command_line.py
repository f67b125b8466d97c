"""What all commands share: finding the ledger, help, suggestions, the switch, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from children import run_python
from treering.surfaces.cli.commands import Invocation, LazyGroup, reporting
from treering.surfaces.cli.main import root
from treering.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from surfaces.command_line import CommandLine


def commands(group: LazyGroup = root, *path: str) -> Iterator[tuple[str, ...]]:
    """Give the words of every command there is."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, LazyGroup):
            yield from commands(command, *path, name)
        else:
            yield (*path, name)


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("words", [(), ("episodes",), *commands()], ids=" ".join)
def test_every_help_shows_examples_before_options(
    cli: CommandLine, words: tuple[str, ...], flag: str
) -> None:
    outcome = cli.bare(*words, flag)

    assert outcome.status == 0
    assert outcome.out.startswith(f"Usage: {' '.join(['treering', *words])} ")
    assert -1 < outcome.out.find("Examples:\n  ") < outcome.out.find("\nOptions:\n")


@pytest.mark.parametrize("words", [(), ("episodes",), ("db",), ("keys",)])
def test_no_command_is_explained_by_half(cli: CommandLine, words: tuple[str, ...]) -> None:
    listed = cli.bare(*words, "-h").out.split("-h, --help")[1]

    assert "..." not in listed


@pytest.mark.parametrize("words", [(), ("episodes",)])
def test_a_group_alone_explains_itself(cli: CommandLine, words: tuple[str, ...]) -> None:
    outcome = cli.bare(*words)

    assert (outcome.status, outcome.err) == (0, "")
    assert "\n  verify  " in outcome.out


def test_help_has_sections_for_what_one_wants_to_do(cli: CommandLine) -> None:
    lines = cli.bare("--help").out.splitlines()

    titles = [line.rstrip(":") for line in lines if line.endswith(":") and line[0] != " "]
    found = {line.split()[0] for line in lines[lines.index("Capture:") :] if line[:2] == "  "}
    sections = ["Capture", "Look", "Remember", "Prove and erase", "Serve", "Administer"]
    assert titles[2:] == sections
    assert found == set(root.list_commands(click.Context(root)))


def test_the_list_of_commands_says_what_each_says_of_itself(cli: CommandLine) -> None:
    context = click.Context(root)
    loaded = {name: root.get_command(context, name) for name in root.list_commands(context)}

    listed = {item.value: item.help for item in root.shell_complete(context, "")}

    assert listed == {
        name: command.get_short_help_str(200)
        for name, command in loaded.items()
        if command is not None
    }
    lines = cli.bare("--help").out.splitlines()
    assert all(any(line.endswith(f"  {text}") for line in lines) for text in listed.values())


def test_the_list_of_commands_imports_none_of_them() -> None:
    program = (
        "import sys, treering.surfaces.cli.main as cli; cli.main(['--help']);"
        "loaded = [name for name in sys.modules if name.startswith('treering.surfaces.cli.')];"
        "sys.exit('treering.surfaces.cli.imports' in loaded)"
    )

    run_python(program)


def test_help_fits_eighty_columns(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert max(map(len, cli.bare("--help").out.splitlines())) <= 80


@pytest.mark.parametrize("words", [("redact",), ("episodes", "redact"), ("gc",)])
def test_the_examples_of_a_command_show_it_as_it_was_called(
    cli: CommandLine, words: tuple[str, ...]
) -> None:
    examples = cli.bare(*words, "--help").out.split("Examples:\n")[1].splitlines()

    assert examples[0].startswith(f"  treering {' '.join(words)} --")


def test_the_low_level_door_says_that_it_is_one(cli: CommandLine) -> None:
    assert "at a low level" in cli.bare("--help").out
    assert "at a low level" in cli.bare("episodes", "--help").out


def test_the_version_is_told(cli: CommandLine) -> None:
    assert cli.bare("--db", "x", "--version").out == f"treering {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["episode"], "no such command: episode", "did you mean treering episodes?"),
        (["append"], "no such command: append", "did you mean treering episodes append?"),
        (["xyzzy"], "no such command: xyzzy", "see treering --help"),
        (
            ["episodes", "repaly"],
            "no such command: repaly",
            "did you mean treering episodes replay?",
        ),
        (["episodes", "query", "--scop", "s"], "no such option", "did you mean --scope?"),
        (
            ["episodes", "query", "--limit", "x", "--scope", "s"],
            "invalid value for '--limit'",
            "see treering episodes q",
        ),
        (
            ["episodes", "query", "extra"],
            "got unexpected extra argument",
            "see treering episodes q",
        ),
        (["--verbose"], "no such option", "did you mean --version?"),
    ],
)
def test_a_slip_of_the_fingers_gets_a_suggestion(
    cli: CommandLine, arguments: list[str], message: str, hint: str
) -> None:
    said, receipt = cli.bare(*arguments), cli.bare(*arguments, "--json")

    assert (said.status, said.out) == (2, "")
    assert said.err.startswith(f"error: {message}")
    assert f"\nhint: {hint}" in said.err
    assert (receipt.status, receipt.err, receipt.receipt["code"]) == (2, "", "usage")


def test_an_error_is_one_line_without_escapes(cli: CommandLine) -> None:
    outcome = cli.bare("export", "s1", "--format", "pdf")

    assert outcome.status == 2
    assert len(outcome.err.splitlines()) == 2
    assert "\\" not in outcome.err


def test_the_ledger_can_be_named_at_every_level(cli: CommandLine, tmp_path: Path) -> None:
    cli.append(event_id="e1")
    name, other = str(cli.database), str(tmp_path / "other.db")
    query = ["query", "--scope", "s"]

    found = [
        cli.bare("--db", name, "episodes", *query, "--json"),
        cli.bare("episodes", "--db", name, *query, "--json"),
        cli.bare("episodes", *query, "--db", name, "--json"),
        cli.bare("--db", other, "episodes", "--db", other, *query, "--db", name, "--json"),
    ]

    assert [outcome.receipt["count"] for outcome in found] == [1, 1, 1, 1]


def test_the_ledger_can_be_named_by_a_variable(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.append(event_id="e1")
    monkeypatch.setenv("TREERING_DB", str(cli.database))

    assert cli.bare("episodes", "query", "--scope", "s", "--json").receipt["count"] == 1


def test_a_ledger_that_is_not_named_lives_in_the_data_folder(
    cli: CommandLine, tmp_path: Path
) -> None:
    cli.bare(
        "episodes", "append", "--scope", "s", "--session-id", "a", "--agent-id", "x",
        "--type", "tool.call", "--summary", "hi",
    )  # fmt: skip

    assert (tmp_path / "home" / "treering" / "ledger.db").exists()


def test_the_alias_answers_under_the_same_kind(cli: CommandLine) -> None:
    receipt = cli("episodic", "query", "--scope", "s", "--json").receipt

    assert receipt["kind"] == "treering.episodes.query.v1"


@pytest.mark.parametrize("value", ["off", " OFF ", "disabled", "Disabled", "false", "no", "0"])
def test_the_switch_turns_the_group_off_and_touches_nothing(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("TREERING_EPISODES", value)

    said, receipt = cli("episodes", "query", "--nonsense"), cli.append()

    assert (said.status, said.out) == (2, "")
    assert said.err == (
        "error: the episodes commands are switched off by TREERING_EPISODES\n"
        "hint: unset TREERING_EPISODES to use them; what was recorded is untouched\n"
    )
    assert receipt.receipt == {
        "kind": "treering.episodes.append.v1",
        "ok": False,
        "error": "the episodes commands are switched off by TREERING_EPISODES",
        "code": "disabled",
        "hint": "unset TREERING_EPISODES to use them; what was recorded is untouched",
    }
    assert not cli.database.exists()


def test_a_missing_folder_is_named_and_not_made(cli: CommandLine, tmp_path: Path) -> None:
    outcome = cli.bare("--db", str(tmp_path / "no" / "x.db"), "verify")

    assert outcome.status == 1
    assert outcome.err.startswith(f"error: the folder {tmp_path}/no does not exist\nhint: ")
    assert not (tmp_path / "no").exists()


def test_a_folder_is_not_a_ledger(cli: CommandLine, tmp_path: Path) -> None:
    outcome = cli.bare("--db", str(tmp_path), "verify")

    assert outcome.status == 1
    assert outcome.err.startswith(f"error: {tmp_path} is a folder, not a ledger\nhint: ")


def test_a_file_that_is_no_ledger_is_left_alone(cli: CommandLine) -> None:
    cli.database.write_text("shopping list")

    outcome = cli.append()

    assert (outcome.status, outcome.receipt["code"]) == (1, "not_a_ledger")
    assert outcome.receipt["hint"]
    assert cli.database.read_text() == "shopping list"


def test_an_empty_name_is_refused_rather_than_replaced_by_the_default(cli: CommandLine) -> None:
    outcome = cli.bare("--db", "", "episodes", "query", "--scope", "s")

    assert (outcome.status, outcome.err.splitlines()[0]) == (2, "error: --db is empty")


def test_the_address_of_a_server_is_refused_with_what_takes_it(cli: CommandLine) -> None:
    outcome = cli.bare("--db", "http://127.0.0.1:1", "search", "x", "--scope", "s")

    assert outcome.err.splitlines()[0] == "error: commands do not work over HTTP"
    assert "treering.open('http://127.0.0.1:1', token=…)" in outcome.err


def test_an_unforeseen_fault_names_its_place_and_repeats_no_content(
    capsys: pytest.CaptureFixture[str],
) -> None:
    context = click.Context(root, obj=Invocation(as_json=False))

    with pytest.raises(click.exceptions.Exit) as leaving, reporting(context, "treering"):
        raise LookupError("the secret that was being recorded")

    assert leaving.value.exit_code == 1
    printed = capsys.readouterr().err
    assert printed.startswith("error: unexpected LookupError (")
    assert "secret" not in printed
    assert "\nhint: this is a bug in treering; set TREERING_TRACEBACK=1" in printed


def test_a_shell_completes_commands_and_flags(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_TREERING_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "treering --db x episodes re")
    monkeypatch.setenv("COMP_CWORD", "4")

    assert cli.bare().out.split() == ["plain,replay", "plain,redact"]


def test_bytes_that_are_no_text_are_shown_escaped(cli: CommandLine) -> None:
    outcome = cli.append(ts_ms="\udcff")

    assert outcome.receipt["error"] == "invalid ts_ms: \\udcff"


@pytest.mark.parametrize(
    "words",
    [
        ("redact", "--session", "s1"),
        ("gc", "--dry-run"),
        ("retention", "list"),
        ("retention", "set", "tool.result=7"),
        ("keys", "create"),
        ("keys", "rotate"),
        ("search", "hello"),
    ],
    ids=" ".join,
)
def test_every_command_takes_its_scope_from_the_environment(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    cli.append(session_id="s1")
    if words == ("keys", "rotate"):
        cli("keys", "create", "--scope", "s")
    monkeypatch.setenv("TREERING_SCOPE", "s")

    done = cli(*words, "--json")

    assert done.status == 0
    assert done.receipt.get("scope", "s") == "s"


@pytest.mark.parametrize("command", ["redact", "tail", "stats"])
def test_a_word_where_none_is_expected_is_taken_for_a_session(
    cli: CommandLine, command: str
) -> None:
    done = cli(command, "monday")

    assert done.status == 2
    assert done.err.endswith("hint: did you mean --session monday?\n")
