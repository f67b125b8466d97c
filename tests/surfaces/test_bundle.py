"""Bundles to share: proved without a ledger, and whatever is changed in one is found."""

from __future__ import annotations

import io
import json
import zipfile
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import HERE
from surfaces.talks import IN, LAUNCH, NEIGHBOUR, TOKEN, record_talk
from treering.capture.secrets import SecretGuard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from surfaces.command_line import CommandLine

Files = dict[str, bytes]


@pytest.fixture
def bundle(cli: CommandLine, tmp_path: Path) -> Path:
    record_talk(cli.database)
    file = tmp_path / "share.zip"
    done = cli("export", "deploy-17", *IN, "--payload", "--out", str(file))
    assert done.status == 0, done.err
    # From here on there is no ledger to ask.
    cli.database.unlink()
    return file


def files_in(bundle: Path) -> Files:
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(bundle: Path, files: Files) -> None:
    with zipfile.ZipFile(bundle, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def lines(files: Files) -> list[bytes]:
    return files["events.jsonl"].splitlines()


def with_lines(files: Files, changed: list[bytes]) -> Files:
    return files | {"events.jsonl": b"\n".join(changed) + b"\n"}


def test_a_bundle_is_proved_without_a_ledger_and_says_what_it_does_not_prove(
    cli: CommandLine, bundle: Path
) -> None:
    checked = cli("verify-bundle", str(bundle))
    receipt = cli("verify-bundle", str(bundle), "--json").receipt

    assert checked.status == 0
    proof = receipt["proof"]
    assert checked.out.startswith(f"intact: {proof['events']} events of session deploy-17")
    assert f"root: {receipt['root']}" in checked.out
    assert "the root was compared with nothing" in checked.out
    assert "not proved: who made the bundle" in checked.out
    counts = proof["with_content"] + proof["withheld"] + proof["erased"]
    assert (proof["events"], proof["erased"]) == (counts, 1)
    assert sorted(files_in(bundle)) == ["events.jsonl", "index.html", "proof.json"]
    told = cli("verify-bundle", str(bundle), "--root", receipt["root"])
    assert (told.status, "compared with nothing" in told.out) == (0, False)
    assert cli("verify-bundle", str(bundle), "--root", "00" * 32).status == 1


def test_a_bundle_holds_no_secret_and_the_chain_still_holds(cli: CommandLine, bundle: Path) -> None:
    files = files_in(bundle)
    text = b"".join(files.values()).decode()

    for secret in (TOKEN, "hunter2", LAUNCH, NEIGHBOUR):
        assert secret not in text
    assert SecretGuard(key=b"test").find_text(text) == []
    assert json.loads(files["proof.json"])["secrets"] >= 2
    assert cli("verify-bundle", str(bundle)).status == 0


def drop_an_event(files: Files) -> Files:
    return with_lines(files, [line for at, line in enumerate(lines(files)) if at != 5])


def drop_the_last_event_and_say_so(files: Files) -> Files:
    *kept, _, end = lines(files)
    told = json.loads(end)
    return with_lines(files, [*kept, json.dumps(told | {"events": told["events"] - 1}).encode()])


def swap_two_events(files: Files) -> Files:
    listed = lines(files)
    listed[4], listed[5] = listed[5], listed[4]
    return with_lines(files, listed)


def change_a_field(name: str, value: Any) -> Callable[[Files], Files]:
    def changed(files: Files) -> Files:
        listed = lines(files)
        at = next(n for n, line in enumerate(listed) if json.loads(line).get("payload"))
        listed[at] = json.dumps(json.loads(listed[at]) | {name: value}).encode()
        return with_lines(files, listed)

    return changed


def cut_the_end(files: Files) -> Files:
    return with_lines(files, lines(files)[:-1])


def repeat_an_event(files: Files) -> Files:
    return with_lines(files, [*lines(files)[:6], *lines(files)[5:]])


def change_the_page(files: Files) -> Files:
    return files | {"index.html": files["index.html"].replace(b"Yes", b"No!")}


def remove_the_page(files: Files) -> Files:
    return {name: content for name, content in files.items() if name != "index.html"}


def change_the_proof(files: Files) -> Files:
    told = json.loads(files["proof.json"]) | {"events": 3}
    return files | {"proof.json": json.dumps(told).encode()}


TAMPERINGS = [
    drop_an_event, drop_the_last_event_and_say_so, swap_two_events, cut_the_end, repeat_an_event,
    change_the_page, remove_the_page, change_the_proof,
    change_a_field("payload", {"text": "other words"}), change_a_field("summary", "other words"),
    change_a_field("ts_ms", 1), change_a_field("agent_id", "somebody"),
    change_a_field("session_id", "another"), change_a_field("link", "00" * 32),
    lambda files: files | {"more.txt": b"added"},
    lambda files: files | {"proof.json": b"{}"},
]  # fmt: skip


@pytest.mark.parametrize("tamper", TAMPERINGS)
def test_whatever_is_changed_is_found(
    cli: CommandLine, bundle: Path, tamper: Callable[[Files], Files]
) -> None:
    write(bundle, tamper(files_in(bundle)))

    outcome = cli("verify-bundle", str(bundle), "--json")

    assert outcome.status == 1
    assert (outcome.receipt["intact"], outcome.receipt["faults"] != []) == (False, True)


@pytest.mark.parametrize(
    "tamper", [drop_an_event, swap_two_events, repeat_an_event, *TAMPERINGS[8:14]]
)
def test_events_are_proved_even_against_one_who_makes_the_digests_fit(
    cli: CommandLine, bundle: Path, tamper: Callable[[Files], Files]
) -> None:
    files = tamper(files_in(bundle))
    proof = json.loads(files["proof.json"])
    events = files["events.jsonl"]
    proof["files"]["events.jsonl"] = {"sha256": sha256(events).hexdigest(), "bytes": len(events)}
    bare = json.dumps(proof | {"root": ""}, sort_keys=True, separators=(",", ":"))
    proof["root"] = sha256(bare.encode()).hexdigest()
    write(bundle, files | {"proof.json": json.dumps(proof).encode()})

    outcome = cli("verify-bundle", str(bundle), "--json")

    assert outcome.status == 1
    assert "its root does not fit" not in str(outcome.receipt["faults"])


def test_a_bundle_without_payloads_is_chained_and_says_that_content_is_withheld(
    cli: CommandLine, tmp_path: Path
) -> None:
    record_talk(cli.database)
    file = tmp_path / "share.zip"
    cli("export", "deploy-17", *IN, "--out", str(file))

    proof = cli("verify-bundle", str(file), "--json").receipt["proof"]

    assert (proof["with_content"], proof["withheld"] > 5) == (0, True)
    assert b"df -h" not in b"".join(files_in(file).values())


def test_an_anchor_of_the_ledger_vouches_for_a_bundle_and_a_fork_brings_its_past(
    cli: CommandLine, tmp_path: Path
) -> None:
    with treering.open(cli.database) as ledger:
        session = ledger.session("s1", scope=HERE, agent="lyria")
        with session.turn() as run:
            run.user("one")
        session.fork("s2").record("conversation.user", "two", payload={"text": "two"})
        anchor = io.BytesIO()
        ledger.admin.anchor(anchor)
    (tmp_path / "a.anchor").write_bytes(anchor.getvalue())
    file = str(tmp_path / "fork.zip")
    assert cli("export", "s2", *IN, "--payload", "--out", file).status == 0

    good = cli("verify-bundle", file, "--anchor", str(tmp_path / "a.anchor"), "--json")
    with treering.open(tmp_path / "other.db") as other:
        other.session("s1", scope=HERE, agent="lyria").record("conversation.user", "x")
        anchor = io.BytesIO()
        other.admin.anchor(anchor)
    (tmp_path / "b.anchor").write_bytes(anchor.getvalue())
    bad = cli("verify-bundle", file, "--anchor", str(tmp_path / "b.anchor"))

    assert good.receipt["anchored"] == 2
    assert [one["session_id"] for one in good.receipt["proof"]["heads"]] == ["s1", "s2"]
    assert (bad.status, "knows no event" in bad.err) == (1, True)


def test_what_is_no_bundle_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"no zip")
    write(tmp_path / "y.zip", {"a.txt": b"a"})

    assert cli("verify-bundle", str(tmp_path / "x.zip")).status == 2
    assert "it has no proof.json" in cli("verify-bundle", str(tmp_path / "y.zip")).err
