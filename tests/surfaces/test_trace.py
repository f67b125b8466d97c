"""``treering trace``: runs listed, shown and exported from the ledger."""

from __future__ import annotations

import json
import stat
import zipfile
from typing import TYPE_CHECKING, Any, Final

import pytest

import treering
from builders import DAY, ELSEWHERE, HERE, NOON, run_of, said
from treering.sinks.bundle_files import FILES
from treering.sinks.trace import TraceSink

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine
    from treering import NewEvent

TOKEN: Final = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
IN: Final = ("--scope", HERE)


def night_run(run_id: str = "night-1", *, at: int = NOON, **fields: Any) -> list[NewEvent]:
    """Return a run as the spine records it: one tool, one delta that was not kept, a failure."""
    ids = {"call_id": "c1", "tool": "git_log"}
    stated: list[tuple[int, dict[str, Any]]] = [
        (1, {"kind": "run.started", "text": "run started", "payload": None,
             "refs": {"entry_point": "cron", "runtime": "sdk", "model": "m1"}}),
        (2, {"text": f"use {TOKEN}", "payload": {"text": f"use {TOKEN}"},
             "refs": {"characters": 44}}),
        (3, {"kind": "tool.call", "text": "git_log called",
             "payload": {"input": {"token": TOKEN}}, "refs": {**ids, "input_bytes": 9}}),
        (4, {"kind": "tool.result", "text": "git_log returned",
             "payload": {"output": "3 commits"},
             "refs": {**ids, "status": "ok", "duration_ms": 1_200, "output_bytes": 11}}),
        (6, {"kind": "run.failed", "text": "run failed: ValueError",
             "payload": {"class": "ValueError", "message": "pssst"},
             "refs": {"duration_ms": 2_500, "tool_calls": 1, "reason": "failed",
                      "error_class": "ValueError"}}),
    ]  # fmt: skip
    return [
        said(run_id=run_id, run_seq=seq, ts_ms=at + 500 * (seq - 1), **(one | fields))
        for seq, one in stated
    ]


@pytest.fixture
def runs(cli: CommandLine) -> CommandLine:
    """Three runs of two sessions, the last of them open, and one of another scope."""
    with treering.open(cli.database, guard="off") as ledger:
        ledger.append(night_run())
        ledger.append(run_of("day-1", "hi", session_id="s2", ts_ms=NOON + DAY))
        ledger.append(
            [said("run started", kind="run.started", run_id="night-2", ts_ms=NOON + 2 * DAY)]
        )
        ledger.append(run_of("night-9", "hush", scope=ELSEWHERE, ts_ms=NOON + DAY))
    return cli


def ids(cli: CommandLine, *arguments: str) -> list[str]:
    """Return the runs that a list gives."""
    receipt = cli("trace", "list", *IN, *arguments, "--json").receipt
    return [run["run_id"] for run in receipt["runs"]]


def test_runs_are_listed_the_newest_first(runs: CommandLine) -> None:
    outcome = runs("trace", "list", *IN)

    assert outcome.out.splitlines() == [
        "2026-09-23 14:13:20  night-2  open    lyria  s1  -     -      1 event   0 tool calls",
        "2026-09-22 14:13:20  day-1    ended   lyria  s2  -     0 ms   3 events  0 tool calls",
        "2026-09-21 14:13:20  night-1  failed  lyria  s1  cron  2.5 s  6 events  1 tool call",
        f"3 runs of scope {HERE}",
    ]


def test_the_receipt_of_a_list_says_what_was_asked_and_all_of_each_run(runs: CommandLine) -> None:
    outcome = runs("trace", "list", *IN, "--session", "s1", "--failing", "--json")

    assert outcome.receipt["kind"] == "treering.trace.list.v1"
    assert outcome.body == {
        "scope": HERE,
        "ledger": str(runs.database),
        "filters": {
            "session_id": "s1",
            "since_ms": None,
            "until_ms": None,
            "failing": True,
            "limit": 20,
        },
        "count": 1,
        "runs": [
            {
                "run_id": "night-1",
                "session_id": "s1",
                "agent_id": "lyria",
                "state": "failed",
                "started_ms": NOON,
                "duration_ms": 2_500,
                "events": 6,
                "tool_calls": 1,
                "entry_point": "cron",
                "runtime": "sdk",
                "model": "m1",
                "provider": None,
                "reason": "failed",
                "error_class": "ValueError",
            }
        ],
        "has_more": False,
        "next_cursor": None,
    }


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--failing"], ["night-1"]),
        (["--session", "s2"], ["day-1"]),
        (["--since", "2026-09-22"], ["night-2", "day-1"]),
        (["--since", "2026-09-22T14:13:21+00:00"], ["night-2"]),
        (["--since", str(NOON + 1)], ["night-2", "day-1"]),
        (["--since", "2030-01-01"], []),
        (["--until", "2026-09-22"], ["night-1"]),
        (["--since", "2026-09-22", "--until", "2026-09-23"], ["day-1"]),
        (["--until", str(NOON), "--failing"], ["night-1"]),
        (["--limit", "1"], ["night-2"]),
    ],
)
def test_a_list_can_be_narrowed_down(
    runs: CommandLine, arguments: list[str], found: list[str]
) -> None:
    assert ids(runs, *arguments) == found


def test_an_age_counts_from_now(runs: CommandLine) -> None:
    with treering.open(runs.database) as ledger, ledger.session("s3", scope=HERE, agent="x").turn():
        pass

    assert len(ids(runs, "--since", "1h", "--session", "s3")) == 1
    assert ids(runs, "--since", "0s", "--session", "s3") == []


def test_a_short_list_says_that_there_is_more(runs: CommandLine) -> None:
    outcome = runs("trace", "list", *IN, "--limit", "2")

    receipt = runs("trace", "list", *IN, "--limit", "2", "--json").receipt
    more = f"run it again with --cursor {receipt['next_cursor']}"
    assert outcome.out.endswith(f"2 runs of scope {HERE}, and more: {more}\n")
    assert receipt["has_more"] is True


def test_a_cursor_goes_on_to_earlier_runs(runs: CommandLine) -> None:
    cursor = runs("trace", "list", *IN, "--limit", "2", "--json").receipt["next_cursor"]

    assert ids(runs, "--cursor", cursor) == ["night-1"]


def test_nothing_to_list_is_no_error(cli: CommandLine) -> None:
    outcome = cli("trace", "list", *IN)

    assert outcome.status == 0
    assert outcome.out == f"no runs are recorded in scope {HERE}\n"
    assert outcome.err == f"note: no ledger at {cli.database} yet\n"
    assert cli("trace", "list", *IN, "--json").receipt["ledger"] is None
    assert not cli.database.exists()


def test_a_scope_of_imported_sessions_says_where_their_turns_are(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append([said("hello", session_id="imported")])

    lines = cli("trace", "list", *IN).out.splitlines()

    assert lines[0].startswith(f"no runs are recorded in scope {HERE}: its sessions have turns")
    assert lines[1].split(" lists")[0].strip() == f"treering sessions show imported --scope {HERE}"
    assert cli("sessions", "show", "imported", *IN).status == 0


def test_an_end_that_is_dated_before_its_start_is_found(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append([said("run started", kind="run.started", run_id="r1", ts_ms=NOON)])
        ledger.append([said("run over", kind="run.ended", run_id="r1", ts_ms=NOON - 5)])

    run = cli("trace", "list", *IN, "--json").receipt["runs"][0]

    assert (run["state"], run["duration_ms"], run["events"]) == ("ended", 0, 2)


def test_a_run_is_shown_at_a_glance(runs: CommandLine) -> None:
    outcome = runs("trace", "show", "night-1", *IN)

    assert outcome.out.splitlines() == [
        "run night-1 failed after 2.5 s (ValueError)",
        "agent lyria, session s1, entry point cron, runtime sdk, model m1",
        "started 2026-09-21 14:13:20 UTC: 6 events (1 delta not kept), 1 tool call",
        "",
        "     +0.000 s  run.started        run started",
        f"     +0.500 s  conversation.user  use {TOKEN}",
        "     +1.000 s  tool.call          git_log called",
        "     +1.500 s  tool.result        git_log returned",
        "     +2.500 s  run.failed         run failed: ValueError",
        "",
        "  git_log  ok  1.2 s  c1  in 9 B, out 11 B",
    ]


def test_the_receipt_of_a_run_has_its_moments_and_tools_and_no_payload(runs: CommandLine) -> None:
    outcome = runs("trace", "show", "night-1", *IN, "--json")

    receipt = outcome.receipt
    assert receipt["kind"] == "treering.trace.show.v1"
    assert receipt["run"]["state"] == "failed"
    assert (receipt["kept"], receipt["left_out"]) == (5, 0)
    assert [event["offset_ms"] for event in receipt["events"]] == [0, 500, 1_000, 1_500, 2_500]
    assert receipt["events"][4]["part"]["error_class"] == "ValueError"
    assert receipt["calls"][0]["duration_ms"] == 1_200
    assert "pssst" not in outcome.out
    assert "3 commits" not in outcome.out


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_of_a_long_run_the_first_and_the_last_events_are_shown(
    cli: CommandLine, limit: int
) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append(run_of("long", *map(str, range(100))))

    receipt = cli("trace", "show", "long", *IN, "--limit", str(limit), "--json").receipt
    outcome = cli("trace", "show", "long", *IN, "--limit", str(limit))

    assert len(receipt["events"]) == limit
    assert receipt["left_out"] == 102 - limit
    assert receipt["events"][-1]["kind"] == "run.ended"
    assert f"… {102 - limit} events left out: raise --limit, or export the run" in outcome.out


def test_what_is_left_out_of_a_long_run_shifts_no_column(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append([*run_of("long", *map(str, range(9)))[:-1], *run_of("long")[-1:]])

    rows = cli("trace", "show", "long", *IN, "--limit", "2").out.splitlines()[4:]

    first, gap, last = rows
    assert gap.startswith("  … 9 events left out")
    assert first.index("run started") == last.index("run over")


def test_calls_beyond_the_limit_are_counted(cli: CommandLine) -> None:
    with (
        treering.open(cli.database) as ledger,
        ledger.session("s1", scope=HERE, agent="lyria").turn() as run,
    ):
        for number in range(4):
            run.tools.started("grep", {}, call_id=f"call-{number}").finish("1")

    outcome = cli("trace", "show", run.run_id, *IN, "--limit", "2")
    receipt = cli("trace", "show", run.run_id, *IN, "--limit", "2", "--json").receipt

    listing = f"treering tools list --scope {HERE} --run {run.run_id}"
    assert outcome.out.splitlines()[-1] == f"  … 2 more calls: raise --limit, or run {listing}"
    assert [call["call_id"] for call in receipt["calls"]] == ["call-0", "call-1"]
    assert receipt["calls_left_out"] == 2


def test_what_is_safe_to_show_does_not_name_the_process(cli: CommandLine) -> None:
    refs = {"entry_point": "cli", "owner": "machine/1234"}
    with treering.open(cli.database) as ledger:
        ledger.append([said("run started", kind="run.started", run_id="run-1", refs=refs)])

    outcome = cli("trace", "show", "run-1", *IN, "--json")

    assert outcome.receipt["events"][0]["part"] == {"entry_point": "cli"}
    assert "1234" not in outcome.out


def test_a_folder_is_not_written_over(runs: CommandLine, tmp_path: Path) -> None:
    outcome = runs("trace", "export", "night-1", *IN, "--out", str(tmp_path), "--json")

    assert outcome.status == 2
    assert outcome.receipt["error"] == f"{tmp_path} is a folder"
    assert outcome.receipt["hint"] == f"name a file in it, as in {tmp_path}/trace.zip"


def test_the_beginning_of_an_id_is_enough_if_it_is_the_only_one(runs: CommandLine) -> None:
    assert runs("trace", "show", "day-", *IN, "--json").receipt["run"]["run_id"] == "day-1"
    assert (
        runs("trace", "show", "night", *IN, "--session", "s1", "--json").receipt["error"]
        == "night is ambiguous: 2 runs match"
    )


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["show", "night-9", *IN], 1, "no run night-9 in scope acme/app"),
        (["show", "day", *IN], 1, "no run day in scope acme/app"),
        (["show", "day-1", *IN, "--session", "s1"], 1, "no run day-1 in session s1 of scope"),
        (["show", "night", *IN], 1, "night is ambiguous: 2 runs match"),
        (["show", "day-1", "--scope", ""], 2, "scope is required"),
        (["show", " ", *IN], 2, "run is required"),
        (["list", *IN, "--since", "yesterday"], 2, "--since yesterday is not a time"),
        (["list", *IN, "--since", "1970-01-01"], 2, "--since 1970-01-01 is not after the"),
        (["list", *IN, "--until", "9" * 15], 2, f"--until {'9' * 15} is beyond the year 9999"),
        (
            ["list", *IN, "--since", "2026-03-05", "--until", "2026-03-01"],
            2,
            "--since 2026-03-05 is after --until 2026-03-01",
        ),
        (["list", *IN, "--cursor", "abc"], 2, "the cursor is damaged"),
        (["export", "day-1", *IN], 2, "missing option '--out'"),
        (["export", "day-1", *IN, "--out", "-"], 2, "a trace is written to a file"),
        (["export", "night-9", *IN, "--out", "x.zip"], 1, "no run night-9 in scope acme/app"),
    ],
)
def test_what_cannot_be_is_said_with_a_hint(
    runs: CommandLine, arguments: list[str], status: int, message: str
) -> None:
    outcome = runs("trace", *arguments, "--json")

    assert outcome.status == status
    assert outcome.receipt["error"].startswith(message)
    assert outcome.receipt["hint"]


@pytest.mark.parametrize("command", [["show", "r1"], ["export", "r1", "--out", "x.zip"]])
def test_a_ledger_that_is_not_there_has_no_run(cli: CommandLine, command: list[str]) -> None:
    outcome = cli("trace", *command, *IN, "--json")

    assert (outcome.status, outcome.receipt["code"]) == (1, "not_found")
    assert not cli.database.exists()


def test_nothing_in_a_run_can_steer_the_terminal(cli: CommandLine) -> None:
    evil = "\x1b[31mred\x1b[0m\u202e"
    refs = {"call_id": "c1", "tool": evil, "status": "failed", "error_class": evil}
    with treering.open(cli.database) as ledger:
        ledger.append(
            [
                said(evil, kind="run.started", run_id="r1", refs={"entry_point": evil}),
                said(evil, kind="tool.result", run_id="r1", run_seq=2, refs=refs),
                said(evil, kind="run.failed", run_id="r1", refs={"reason": evil}),
            ]
        )

    shown = cli("trace", "show", "r1", *IN).out + cli("trace", "list", *IN).out

    assert shown.count("\\x1b[31mred\\x1b[0m\\u202e") == 8
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_an_export_is_a_zip_of_five_files_for_its_owner_alone(
    runs: CommandLine, tmp_path: Path
) -> None:
    out = tmp_path / "trace.zip"

    outcome = runs("trace", "export", "night-1", *IN, "--out", str(out))

    assert outcome.out.splitlines() == [
        f"exported run night-1 to {out}: 4 of 5 events, 1 tool call",
        "a trace has no place for some kinds, such as user messages; the ledger keeps them",
        "private content is left out; --payload includes it",
    ]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == list(FILES)
        told = json.loads(archive.read("meta.json"))
    assert (told["runId"], told["outcome"], told["complete"]) == ("night-1", "failed", True)


def test_the_same_run_makes_the_same_bytes(runs: CommandLine, tmp_path: Path) -> None:
    for flags in ([], ["--payload"]):
        for name in ("one.zip", "two.zip"):
            runs(
                "trace", "export", "night-1", *IN, "--out", str(tmp_path / name), "--force", *flags
            )

        assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_a_file_that_is_there_is_written_over_only_when_asked(
    runs: CommandLine, tmp_path: Path
) -> None:
    out = tmp_path / "trace.zip"
    out.write_text("mine")

    refused = runs("trace", "export", "night-1", *IN, "--out", str(out), "--json")
    kept = out.read_text()
    forced = runs("trace", "export", "night-1", *IN, "--out", str(out), "--force", "--json")

    assert (refused.status, refused.receipt["error"]) == (2, f"{out} already exists")
    assert kept == "mine"
    assert forced.receipt["kind"] == "treering.trace.export.v1"
    assert forced.body["files"].keys() == set(FILES)
    assert forced.body | {"files": {}} == {
        "scope": HERE,
        "run_id": "night-1",
        "session_id": "s1",
        "out": str(out),
        "visibility": "safe",
        "complete": True,
        "truncated": False,
        "kept": 5,
        "events": 4,
        "tool_calls": 1,
        "files": {},
    }


def unpacked(out: Path) -> dict[str, str]:
    """Return the files of an export."""
    with zipfile.ZipFile(out) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_a_safe_export_holds_nothing_that_was_said(runs: CommandLine, tmp_path: Path) -> None:
    runs("trace", "export", "night-1", *IN, "--out", str(tmp_path / "t.zip"))

    files = unpacked(tmp_path / "t.zip")
    everything = "".join(files.values())
    for text in (TOKEN, "use ", "3 commits", "pssst"):
        assert text not in everything
    assert json.loads(files["redactions.json"])["withheld"] == {"payloads": 4, "summaries": 1}


def test_a_private_export_holds_it_with_secrets_masked(runs: CommandLine, tmp_path: Path) -> None:
    outcome = runs("trace", "export", "night-1", *IN, "--out", str(tmp_path / "t.zip"), "--payload")

    files = unpacked(tmp_path / "t.zip")
    assert "be careful whom you give it to" in outcome.out
    assert TOKEN not in "".join(files.values())
    assert "3 commits" in files["events.jsonl"]
    assert "pssst" in files["events.jsonl"]
    assert json.loads(files["redactions.json"])["masked"] == {"github": 1}


def test_an_open_run_is_exported_as_far_as_it_went(runs: CommandLine, tmp_path: Path) -> None:
    outcome = runs("trace", "export", "night-2", *IN, "--out", str(tmp_path / "t.zip"))

    assert "the run is still open: export it again for the rest" in outcome.out
    assert json.loads(unpacked(tmp_path / "t.zip")["meta.json"])["complete"] is False


def test_erased_events_are_named_and_their_content_is_nowhere(
    runs: CommandLine, tmp_path: Path
) -> None:
    with treering.open(runs.database) as ledger:
        call = ledger.headers(HERE, kinds=["tool.call"], first=1).items[0].event_id
        ledger.redact(HERE, event_id=call)

    runs("trace", "export", "night-1", *IN, "--out", str(tmp_path / "t.zip"), "--payload")

    found = json.loads(unpacked(tmp_path / "t.zip")["redactions.json"])
    assert found["erased"] == {"redacted": 1, "expired": 0}
    assert found["erasedEvents"] == [call]
    assert found["masked"] == {}


def test_an_export_is_what_a_trace_sink_wrote(cli: CommandLine, tmp_path: Path) -> None:
    """Every run is in the ledger, whether or not anybody listened when it happened."""
    with treering.open(cli.database) as ledger:
        spine = ledger.spine(sinks=[TraceSink(tmp_path / "traces")])
        session = ledger.session("s1", scope=HERE, agent="lyria", key="agent:main")
        with spine.run(session, entry_point="cli") as run:
            run.user("hello")
            with run.tool("git_log", {"since": "friday"}) as call:
                call.finish("3 commits")
            run.deliver("three", by="cli", chunk=1)
            run.assistant("three")
        assert spine.flush(30.0)

    cli("trace", "export", run.run_id, *IN, "--out", str(tmp_path / "t.zip"))

    heard = {path.name: path.read_text() for path in (tmp_path / "traces" / run.run_id).iterdir()}
    assert unpacked(tmp_path / "t.zip") == heard
    assert json.loads(heard["meta.json"])["sessionKey"] == "agent:main"


def test_a_run_of_numberless_events_is_numbered_in_order(cli: CommandLine, tmp_path: Path) -> None:
    with treering.open(cli.database) as ledger:
        ledger.append(run_of("r1", end="run.interrupted"))

    cli("trace", "export", "r1", *IN, "--out", str(tmp_path / "t.zip"))

    events = [
        json.loads(line) for line in unpacked(tmp_path / "t.zip")["events.jsonl"].splitlines()
    ]
    assert [(event["seq"], event["kind"]) for event in events] == [
        (1, "lifecycle.started"),
        (2, "lifecycle.failed"),
    ]


def test_a_safe_export_of_an_encrypted_scope_needs_no_key(cli: CommandLine, tmp_path: Path) -> None:
    with treering.open(cli.database, keys=tmp_path / "keys") as ledger:
        ledger.keys.create(HERE)
        with ledger.session("s1", scope=HERE, agent="lyria", key="k").turn() as run:
            run.user("hello")
    (tmp_path / "none").mkdir()
    out, keyless = str(tmp_path / "t.zip"), ("--keys", str(tmp_path / "none"))

    safe = cli("trace", "export", run.run_id, *IN, "--out", out, *keyless, "--json")
    secret = cli("trace", "export", run.run_id, *IN, "--out", out, *keyless, "--force", "--payload",
                 "--json")  # fmt: skip

    assert safe.receipt["ok"] is True
    assert (secret.status, secret.receipt["code"]) == (1, "key_missing")


@pytest.mark.parametrize("how", ["by hand", "by itself"])
def test_a_compaction_has_a_trace(cli: CommandLine, tmp_path: Path, how: str) -> None:
    with treering.open(cli.database) as ledger:
        session = ledger.session("s1", scope="acme/app", agent="lyria")
        for number in range(30):
            with session.turn() as turn:
                turn.user(f"question {number}?")
                if how == "by itself" and number == 29:
                    turn.context(max_tokens=300)
                turn.assistant(f"answer {number}!")
        if how == "by hand":
            session.compact()

    run = cli("trace", "list", *IN, "--limit", "1", "--json").receipt["runs"][0]
    shown = cli("trace", "show", run["run_id"], *IN).out
    cli("trace", "export", run["run_id"], *IN, "--out", str(tmp_path / "t.zip"))
    lines = unpacked(tmp_path / "t.zip")["events.jsonl"].splitlines()

    assert run["entry_point"] == "compaction"
    assert "compaction.started" in shown
    assert [json.loads(line)["payload"].get("phase") for line in lines] == [
        None, "start", "end", None
    ]  # fmt: skip


def test_what_a_private_trace_tells_is_private(runs: CommandLine, tmp_path: Path) -> None:
    runs("trace", "export", "night-1", *IN, "--out", str(tmp_path / "t.zip"), "--payload")

    lines = map(json.loads, unpacked(tmp_path / "t.zip")["events.jsonl"].splitlines())

    contents = {"input", "output", "error", "text", "message", "details"}
    seen = [(bool(contents & line["payload"].keys()), line["visibility"]) for line in lines]
    assert (True, "private") in seen
    assert (True, "safe") not in seen
