from __future__ import annotations

import contextlib
import json
import re
import shutil
from typing import TYPE_CHECKING

import apsw
import pytest

from surfaces.processes import recorded

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine, Outcome
    from surfaces.processes import Run


@pytest.fixture
def folder(cli: CommandLine) -> Path:
    """Return where the keys are, unless a command says otherwise."""
    return cli.database.parent / "config" / "treering" / "keys"


@pytest.fixture
def sealed(cli: CommandLine) -> CommandLine:
    """Return a ledger whose scope s is encrypted, with one event before and one after."""
    cli.append(event_id="before", payload_json='{"word":"open"}')
    cli("keys", "create", "--scope", "s")
    cli.append(event_id="after", payload_json='{"word":"shut"}')
    return cli


def payloads(cli: CommandLine) -> list[object]:
    found = cli("episodes", "query", "--scope", "s", "--include-payload", "--json").receipt
    return [item["payload"] for item in found["items"]]


def generations(outcome: Outcome) -> list[tuple[int, str, int]]:
    return [(key["generation"], key["state"], key["payloads"]) for key in outcome.receipt["keys"]]


def test_a_new_key_is_accounted_for_and_people_are_told_to_keep_a_copy(
    cli: CommandLine, folder: Path
) -> None:
    first = cli("keys", "create", "--scope", "S", "--json")
    again = cli("keys", "create", "--scope", "s")

    assert first.receipt["kind"] == "treering.keys.create.v1"
    assert first.body == {"scope": "s", "generation": 1, "created": True}
    assert again.out == (
        "payloads of scope s are already encrypted, under generation 1 of its key\n"
        f"the key is in {folder}: keep a copy of it in another place\n"
    )


def test_commands_read_and_write_sealed_payloads_as_any_other(sealed: CommandLine) -> None:
    assert payloads(sealed) == [{"word": "open"}, {"word": "shut"}]
    assert sealed("verify").out.startswith("intact: 2 events of 1 session\n")


def test_the_list_shows_every_generation_and_what_it_seals(sealed: CommandLine) -> None:
    sealed("keys", "rotate", "--scope", "s")
    sealed.append(payload_json="1")
    sealed.append(payload_json="2")

    found = sealed("keys", "list", "--json")
    shown = sealed("keys", "list", "--scope", "s").out

    assert generations(found) == [(1, "kept", 1), (2, "in use", 2)]
    assert found.receipt["keys"][0].keys() == {
        "scope", "generation", "state", "created_ms", "destroyed_ms", "payloads",
    }  # fmt: skip
    assert re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<time>", shown) == (
        "s  generation 1   <time>  kept       1 payload\n"
        "s  generation 2   <time>  in use     2 payloads\n"
    )


def test_a_ledger_without_encrypted_scopes_says_so(cli: CommandLine) -> None:
    cli.append()

    assert cli("keys", "list").out == "no scope is encrypted\n"
    assert cli("keys", "list", "--json").body == {"keys": []}


def test_rotating_says_which_key_is_used(sealed: CommandLine, folder: Path) -> None:
    receipt = sealed("keys", "rotate", "--scope", "s", "--json")
    lines = sealed("keys", "rotate", "--scope", "s").out.splitlines()

    assert receipt.body == {"scope": "s", "generation": 2, "created": True}
    assert lines[0] == "payloads of scope s are encrypted under generation 3 from now on"
    assert str(folder) in lines[1]


def test_nothing_is_destroyed_unless_it_is_said_twice(sealed: CommandLine) -> None:
    whole = sealed("keys", "destroy", "--scope", "s")
    one = sealed("keys", "destroy", "--scope", "s", "--generation", "1", "--json")

    assert (whole.status, one.status) == (2, 2)
    assert whole.err == (
        "error: this redacts every session of scope s and destroys its keys, for good\n"
        "hint: add --yes to do it\n"
    )
    assert one.receipt["error"] == "this destroys generation 1 of the key of scope s, for good"
    assert payloads(sealed) == [{"word": "open"}, {"word": "shut"}]


def test_destroying_accounts_for_keys_and_events(sealed: CommandLine) -> None:
    done = sealed("keys", "destroy", "--scope", "s", "--yes", "--json")
    again = sealed("keys", "destroy", "--scope", "s", "--yes")

    assert done.receipt["kind"] == "treering.keys.destroy.v1"
    assert done.body == {
        "scope": "s",
        "generations": [1],
        "redacted_count": 2,
        "blobs_erased": 0,
        "physical": "done",
    }
    assert again.out == "no key was left to destroy in scope s\n"
    assert generations(sealed("keys", "list", "--json")) == [(1, "destroyed", 0)]


def test_destroying_says_where_the_bytes_are_and_which_keys_there_were(sealed: CommandLine) -> None:
    sealed("keys", "rotate", "--scope", "s")
    with contextlib.closing(apsw.Connection(str(sealed.database))) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM events").fetchone()
        pending = sealed("keys", "destroy", "--scope", "s", "--yes")
        again = sealed("keys", "destroy", "--scope", "s", "--yes")

    later = "the bytes leave the file once other programs stop reading it\n"
    assert pending.out == (
        f"redacted 2 events of scope s; {later}"
        "destroyed generations 1 and 2 of the key of scope s\n"
    )
    assert again.out == (
        f"what was redacted in scope s before: {later}no key was left to destroy in scope s\n"
    )


def test_an_old_key_is_destroyed_when_it_seals_nothing(sealed: CommandLine) -> None:
    sealed("keys", "rotate", "--scope", "s")
    refused = sealed("keys", "destroy", "--scope", "s", "--generation", "1", "--yes", "--json")
    sealed("episodes", "redact", "--scope", "s", "--event-id", "after")

    done = sealed("keys", "destroy", "--scope", "s", "--generation", "1", "--yes")

    assert (refused.status, refused.receipt["code"]) == (2, "invalid")
    assert refused.receipt["error"] == "scope s holds 1 payload sealed under generation 1"
    assert done.out == "destroyed generation 1 of the key of scope s\n"


def test_a_restored_backup_shows_no_payload(sealed: CommandLine) -> None:
    backup = sealed.database.with_name("backup.db")
    shutil.copyfile(sealed.database, backup)
    sealed("keys", "destroy", "--scope", "s", "--yes")
    sealed.database = backup

    assert payloads(sealed) == [{"word": "open"}, "[REDACTED]"]
    assert sealed("verify").out.startswith(
        "intact: 2 events of 1 session\n"
        "not verified: 1 sealed payload, whose key is destroyed or not here\n"
    )
    assert sealed("verify", "--json").receipt["sealed"] == 1


@pytest.mark.parametrize("place", ["root", "group", "command", "variable"])
def test_the_folder_of_keys_can_be_named(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folder = tmp_path / "elsewhere"
    named = ["--keys", str(folder)]
    if place == "variable":
        monkeypatch.setenv("TREERING_KEYS", str(folder))

    cli(
        *(named if place == "root" else []),
        "keys",
        *(named if place == "group" else []),
        *("create", "--scope", "s"),
        *(named if place == "command" else []),
    )

    (key,) = folder.glob("*.key")
    assert json.loads(key.read_bytes())["scope"] == "s"


def test_whatever_reads_payloads_takes_the_folder_after_its_name(
    cli: CommandLine, tmp_path: Path
) -> None:
    named = ["--keys", str(tmp_path / "elsewhere")]
    cli("keys", "create", "--scope", "s", *named)
    cli(*recorded("a", "--payload-json", '{"word":"shut"}', *named))

    query = ["query", "--scope", "s", "--include-payload", "--json"]
    after = cli("episodes", *query, *named)
    between = cli("episodes", *named, *query)

    assert [item["payload"] for item in after.receipt["items"]] == [{"word": "shut"}]
    assert between.receipt["items"] == after.receipt["items"]
    assert cli("verify", *named, "--json").receipt["sealed"] == 0
    assert cli("verify", "--json").receipt["sealed"] == 1


@pytest.mark.parametrize("below", ["", "keys"])
@pytest.mark.parametrize("command", [["keys", "create"], ["episodes", "query"]])
def test_a_folder_that_is_none_is_named_as_it_was_given(
    told: CommandLine, tmp_path: Path, command: list[str], below: str
) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / below

    refused = told(*command, "--scope", "s", "--keys", str(folder))

    assert refused.status == 1
    reason = f"{tmp_path / 'file'} is not a folder" if below else "it is not a folder"
    assert refused.err == (
        f"error: {folder} cannot be the key folder: {reason}\n"
        "hint: name another with --keys or TREERING_KEYS, or check its permissions\n"
    )


def test_a_folder_that_may_not_be_made_is_named_as_it_was_given(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    folder = tmp_path / "shut" / "keys"

    refused = run("keys", "create", "--scope", "s", "--keys", str(folder))

    assert refused.returncode == 1
    assert refused.stderr.startswith(
        f"error: {folder} cannot be the key folder: permission denied\n"
    )


def test_without_the_key_nothing_is_recorded_in_plain_text(
    sealed: CommandLine, folder: Path
) -> None:
    shutil.rmtree(folder)

    refused = sealed.append(event_id="lost", payload_json='{"word":"plain"}')
    read = sealed("episodes", "query", "--scope", "s", "--include-payload", "--json")

    assert (refused.status, refused.receipt["code"]) == (1, "key_missing")
    assert "TREERING_KEYS" in refused.receipt["hint"]
    assert (read.status, read.receipt["code"]) == (1, "key_missing")
    assert sealed.ids("episodes", "query", "--scope", "s") == ["before", "after"]
    assert generations(sealed("keys", "list", "--json")) == [(1, "missing", 1)]


@pytest.mark.parametrize("command", ["create", "rotate", "destroy"])
def test_a_scope_is_named(cli: CommandLine, command: str) -> None:
    refused = cli("keys", command, "--json")

    assert (refused.status, refused.receipt["code"]) == (2, "invalid_scope")


@pytest.mark.parametrize("command", [["list"], ["rotate", "--scope", "s"]])
def test_keys_of_a_ledger_that_is_not_there_are_not_looked_for(
    cli: CommandLine, command: list[str]
) -> None:
    refused = cli("keys", *command, "--json")

    assert (refused.status, refused.receipt["code"]) == (1, "not_found")
    assert not cli.database.exists()


def test_no_command_shows_a_key(sealed: CommandLine, folder: Path) -> None:
    (path,) = folder.glob("*.key")
    key = json.loads(path.read_bytes())["generations"][0]["key"]

    outcomes = [
        sealed("keys", *command, *form)
        for command in (
            ["create", "--scope", "s"],
            ["list"],
            ["rotate", "--scope", "s"],
            ["destroy", "--scope", "s", "--yes"],
        )
        for form in ([], ["--json"])
    ]

    assert [outcome.status for outcome in outcomes[:6]] == [0] * 6
    assert all(key not in outcome.out + outcome.err for outcome in outcomes)


def test_an_empty_folder_name_is_a_mistake(cli: CommandLine) -> None:
    refused = cli("keys", "list", "--keys", "", "--json")

    assert (refused.status, refused.receipt["code"]) == (2, "usage")


def test_a_spool_whose_lines_have_no_ids_is_refused_under_another_key(
    cli: CommandLine, tmp_path: Path
) -> None:
    spool = tmp_path / "spool.jsonl"
    spool.write_text(
        '{"ts_ms": 1700000000000, "scope": "acme/app", "session_id": "a", "agent_id": "x",'
        ' "type": "tool.result", "summary": "ok"}\n'
    )
    keys = tmp_path / "keys"
    assert cli("episodes", "ingest", "--file", str(spool), "--keys", str(keys)).status == 0
    (keys / "ids.secret").write_text("ab" * 32)

    refused = cli("episodes", "ingest", "--file", str(spool), "--keys", str(keys),
                  "--state", str(tmp_path / "other.json"))  # fmt: skip
    looked = cli("doctor", "--quick", "--keys", str(keys), "--json")
    asked = cli("keys", "ids", "--keys", str(keys))
    accepted = cli("keys", "ids", "--keys", str(keys), "--accept")

    assert (refused.status, "ids.secret" in refused.err) == (1, True)
    assert "id_key" in {one["code"] for one in looked.body["findings"]}
    assert "scope acme/app was used with another key" in asked.out
    assert "scope acme/app continues with" in accepted.out
    assert "no scope was used with another key" in cli("keys", "ids", "--keys", str(keys)).out
