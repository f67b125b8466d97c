from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

from surfaces.command_line import CommandLine

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """Another ledger, to import into."""
    (tmp_path / "elsewhere").mkdir()
    return CommandLine(tmp_path / "elsewhere" / "ledger.db", capsys, monkeypatch)


def exported(cli: CommandLine, *options: str) -> str:
    """Return what an export of scope s writes to standard output."""
    return cli("episodes", "export", "--scope", "s", *options).out


def test_an_export_is_written_whole_and_for_its_owner_alone(
    told: CommandLine, tmp_path: Path
) -> None:
    out = tmp_path / "s.jsonl"

    outcome = told(
        "episodes", "export", "--scope", "s", "--include-payload", "--out", str(out), "--json"
    )

    assert outcome.receipt["kind"] == "treering.episodes.export.v1"
    assert outcome.body == {"scope": "s", "sessions": 2, "events": 5, "payloads": "included"}
    assert outcome.err == ""
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert json.loads(out.read_text().splitlines()[-1])["record"] == "end"
    assert list(tmp_path.glob(".*")) == []


def test_without_payloads_an_export_holds_none_and_says_what_that_means(told: CommandLine) -> None:
    outcome = told("episodes", "export", "--scope", "s")

    events = [
        line for line in map(json.loads, outcome.out.splitlines()) if line["record"] == "event"
    ]
    assert len(events) == 5
    assert all("payload" not in event for event in events)
    assert outcome.err == (
        "note: payloads are withheld, so this export cannot be imported;"
        " add --include-payload for a full copy\n"
    )


def test_the_receipt_of_an_export_to_standard_output_goes_to_standard_error(
    told: CommandLine,
) -> None:
    outcome = told("episodes", "export", "--scope", "s", "--include-payload", "--json")

    assert json.loads(outcome.err)["events"] == 5
    assert json.loads(outcome.out.splitlines()[0])["record"] == "export"


def test_one_session_is_exported_alone(told: CommandLine) -> None:
    lines = map(json.loads, exported(told, "--session-id", "b").splitlines())

    assert [line["event_id"] for line in lines if line["record"] == "event"] == ["q3", "q5"]


@pytest.mark.parametrize("name", ["", "-wal", ".lock"])
def test_an_export_never_replaces_the_ledger(told: CommandLine, name: str) -> None:
    target = f"{told.database}{name}"

    outcome = told("episodes", "export", "--scope", "s", "--out", target, "--json")

    assert (outcome.status, outcome.receipt["error"]) == (2, f"{target} is the ledger itself")
    assert told("episodes", "verify", "--scope", "s").status == 0


def test_a_place_that_cannot_be_written_is_named(told: CommandLine, tmp_path: Path) -> None:
    folder = told("episodes", "export", "--scope", "s", "--out", str(tmp_path))
    nowhere = told("episodes", "export", "--scope", "s", "--out", str(tmp_path / "no" / "file"))

    assert (folder.status, nowhere.status) == (2, 1)
    assert folder.err.startswith(f"error: {tmp_path} is a folder\nhint: ")
    assert nowhere.err.startswith(f"error: cannot write {tmp_path}/no/file: No such file")


def test_a_failed_export_leaves_what_was_there(cli: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "kept.jsonl"
    out.write_text("precious")
    cli.database.write_text("not a ledger")

    outcome = cli("episodes", "export", "--scope", "s", "--out", str(out))

    assert outcome.status == 1
    assert out.read_text() == "precious"


def test_an_import_restores_events_and_chain(
    told: CommandLine, elsewhere: CommandLine, tmp_path: Path
) -> None:
    out = tmp_path / "s.jsonl"
    out.write_text(exported(told, "--include-payload"))

    outcome = elsewhere("episodes", "import", str(out), "--scope", "s", "--json")

    assert outcome.receipt["kind"] == "treering.episodes.import.v1"
    assert outcome.body == {
        "lines": 9,
        "imported": 5,
        "duplicates": 0,
        "other": 4,
        "errors": 0,
        "sessions": 2,
        "complete": True,
        "errors_sample": [],
    }
    assert (
        exported(elsewhere, "--include-payload").splitlines()[1:]
        == (exported(told, "--include-payload").splitlines()[1:])
    )
    assert elsewhere("verify").status == 0


def test_an_import_reads_standard_input_and_can_be_repeated(
    told: CommandLine, elsewhere: CommandLine
) -> None:
    lines = exported(told, "--include-payload")

    first = elsewhere("episodes", "import", "-", "--scope", "s", stdin=lines)
    again = elsewhere("episodes", "import", "-", "--scope", "s", stdin=lines)

    assert first.out == "imported 5 events of 2 sessions\n"
    assert again.out == "imported 0 events of 2 sessions (5 were here already)\n"


def test_a_line_that_was_changed_is_refused_by_place_and_the_rest_is_taken(
    told: CommandLine, elsewhere: CommandLine
) -> None:
    lines = exported(told, "--include-payload").replace('"n2"', '"N2"')

    outcome = elsewhere("episodes", "import", "-", "--scope", "s", "--json", stdin=lines)

    assert outcome.status == 1
    receipt = outcome.receipt
    (fault,) = receipt["errors_sample"]
    assert (receipt["ok"], receipt["code"]) == (False, "incomplete")
    assert (receipt["errors"], receipt["imported"]) == (1, 4)
    assert lines.encode()[fault["offset"] :].startswith(
        lines.splitlines()[fault["line"] - 1].encode()
    )
    assert receipt["hint"]


def test_a_file_that_was_cut_off_is_noticed(told: CommandLine, elsewhere: CommandLine) -> None:
    lines = exported(told, "--include-payload").splitlines(keepends=True)

    outcome = elsewhere("episodes", "import", "-", "--scope", "s", stdin="".join(lines[:-1]))

    assert outcome.status == 1
    assert outcome.err.startswith("error: the file ends before its closing line; 5 events imported")


def test_an_export_without_payloads_is_not_taken_in(
    told: CommandLine, elsewhere: CommandLine
) -> None:
    lines = exported(told)

    outcome = elsewhere("episodes", "import", "-", "--scope", "s", "--json", stdin=lines)

    assert (outcome.status, outcome.receipt["ok"]) == (2, False)
    assert "no payloads" in outcome.receipt["error"]
    assert "--include-payload" in outcome.receipt["hint"]
    assert not elsewhere.database.exists()


def test_a_mistyped_file_name_leaves_no_ledger(cli: CommandLine) -> None:
    outcome = cli("episodes", "import", "nowhere.jsonl", "--scope", "s")

    assert outcome.status == 2
    assert outcome.err.startswith("error: cannot read nowhere.jsonl: No such file or directory\n")
    assert not cli.database.exists()


def test_exporting_nothing_says_so(told: CommandLine, tmp_path: Path) -> None:
    outcome = told("episodes", "export", "--scope", "t", "--out", str(tmp_path / "t.jsonl"))

    assert (outcome.status, outcome.err) == (0, "note: nothing is recorded in scope t\n")


@pytest.mark.parametrize(
    ("named", "message", "hint"),
    [
        ([], "scope is required (or pass --global)", "name one, as in --scope acme/app"),
        (["--scope", "other"], "the export is not of scope other", "pass --scope s"),
        (["--global"], "the export is not of scope global", "pass --scope s"),
        (["--scope", "s", "--global"], "--global cannot be combined with non-global --scope", "d"),
    ],
)
def test_an_import_names_the_scope_that_was_exported(
    told: CommandLine, elsewhere: CommandLine, named: list[str], message: str, hint: str
) -> None:
    lines = exported(told, "--include-payload")

    outcome = elsewhere("episodes", "import", "-", *named, "--json", stdin=lines)

    assert (outcome.status, outcome.receipt["error"]) == (2, message)
    assert outcome.receipt["hint"].startswith(hint)
    assert not elsewhere.database.exists()


def test_an_export_of_global_is_imported_as_global(
    cli: CommandLine, elsewhere: CommandLine
) -> None:
    cli.append(scope="global")
    lines = cli("episodes", "export", "--global", "--include-payload").out

    refused = elsewhere("episodes", "import", "-", "--scope", "s", stdin=lines)
    taken = elsewhere("episodes", "import", "-", "--global", stdin=lines)

    assert refused.err.endswith("hint: pass --global\n")
    assert taken.out == "imported 1 event of 1 session\n"


@pytest.mark.parametrize("spelling", ["export", "\\u0065xport"])
def test_an_export_of_another_scope_cannot_follow_in_the_same_file(
    told: CommandLine, elsewhere: CommandLine, spelling: str
) -> None:
    first = exported(told, "--include-payload")
    second = told("episodes", "export", "--scope", "other", "--include-payload").out
    second = second.replace('"export"', f'"{spelling}"', 1)

    outcome = elsewhere("episodes", "import", "-", "--scope", "s", "--json", stdin=first + second)

    assert (outcome.status, outcome.receipt["code"]) == (2, "invalid_scope")
    assert outcome.receipt["hint"].endswith("import it alone with --scope other")
    assert elsewhere.ids("episodes", "query", "--scope", "other") == []


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "\n",
        "shopping list\n",
        '{"record":"event"}\n',
        '{"record":"end","sessions":0,"events":0}\n',
        "x" * 100_000,
    ],
    ids=["empty", "blank", "text", "event", "end", "long"],
)
def test_what_is_no_export_is_refused_and_makes_no_ledger(cli: CommandLine, garbage: str) -> None:
    outcome = cli("episodes", "import", "-", "--scope", "s", "--json", stdin=garbage)

    assert (outcome.status, outcome.receipt["error"]) == (
        2,
        "the file does not start like an export",
    )
    assert outcome.receipt["hint"]
    assert not cli.database.exists()


def test_a_scope_in_another_spelling_is_none_of_ours(
    told: CommandLine, elsewhere: CommandLine
) -> None:
    lines = exported(told, "--include-payload").replace('"scope":"s"', '"scope":"S"', 1)

    outcome = elsewhere("episodes", "import", "-", "--scope", "s", "--json", stdin=lines)

    assert (outcome.status, outcome.receipt["error"]) == (2, "the export names no scope")


def test_secrets_come_back_as_they_were_recorded(cli: CommandLine, elsewhere: CommandLine) -> None:
    secret = "ghp_" + "a1B2" * 9
    cli("episodes", "append", "--scope", "s", "--session-id", "a", "--agent-id", "x",
        "--type", "tool.call", "--summary", secret, "--allow-sensitive")  # fmt: skip

    elsewhere("episodes", "import", "-", "--scope", "s", stdin=exported(cli, "--include-payload"))

    (item,) = elsewhere("episodes", "query", "--scope", "s", "--json").receipt["items"]
    assert item["summary"] == secret
    assert elsewhere("verify").status == 0
