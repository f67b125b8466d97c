"""``treering-hook``: it says little, quickly, and never gets in an agent's way."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from children import run_python
from effort import PATIENCE_S
from surfaces.processes import UNPRIVILEGED, patient_hook

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM: Final = [sys.executable, "-m", "treering.hook"]
CALL: Final = {
    "session_id": "s1",
    "transcript_path": "/logs/s1.jsonl",
    "cwd": "/srv/app",
    "hook_event_name": "Stop",
    "permission_mode": "default",
}


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "state" / "treering" / "spool"


def call(
    spool: Path, stdin: bytes | int, *arguments: str, program: Sequence[str] = (), **more: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run the hook as an agent does, with its state where ``spool`` is."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(spool.parents[2]), **more}
    environment.setdefault("XDG_STATE_HOME", str(spool.parents[1]))
    given: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    return subprocess.run(
        [*UNPRIVILEGED, *(program or patient_hook()), *(arguments or ("claude-code",))],
        env=environment,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        **given,
    )


def lines(spool: Path) -> list[dict[str, Any]]:
    """Return what is in the spool."""
    text = "".join(path.read_text() for path in sorted(spool.glob("*.jsonl")))
    return [json.loads(line) for line in text.splitlines() if line]


def assert_unobtrusive(done: subprocess.CompletedProcess[bytes]) -> None:
    assert (done.returncode, done.stdout) == (0, b"{}\n")


def test_a_call_becomes_one_line_for_its_owner_alone(spool: Path) -> None:
    done = call(spool, json.dumps(CALL).encode())

    assert_unobtrusive(done)
    (line,) = lines(spool)
    assert line.pop("ts_ms") > 1_700_000_000_000
    assert line == {
        "schema": "treering.spool.v1",
        "agent": "claude-code",
        "event": "Stop",
        "session_id": "s1",
        "transcript_path": "/logs/s1.jsonl",
        "cwd": "/srv/app",
        "content": {"permission_mode": "default"},
    }
    (file,) = spool.iterdir()
    assert (file.stat().st_mode & 0o777, spool.stat().st_mode & 0o777) == (0o600, 0o700)
    assert done.stderr == b""


def test_what_the_transcript_has_too_is_not_copied(spool: Path) -> None:
    said = {"prompt": "hello", "last_assistant_message": "bye", "tool_input": {"path": "x"}}

    call(spool, json.dumps({**CALL, **said}).encode())

    (line,) = lines(spool)
    assert line["content"] == {"permission_mode": "default"}
    assert sorted(line["left_out"]) == sorted(said)


def test_what_a_permission_is_asked_for_is_kept(spool: Path) -> None:
    asked = {**CALL, "hook_event_name": "PermissionRequest", "tool_input": {"command": "ls"}}

    call(spool, json.dumps(asked).encode())

    assert lines(spool)[0]["content"]["tool_input"] == {"command": "ls"}


def test_the_spool_can_be_named(spool: Path, tmp_path: Path) -> None:
    call(spool, json.dumps(CALL).encode(), TREERING_SPOOL=str(tmp_path / "elsewhere"))

    assert len(lines(tmp_path / "elsewhere")) == 1
    assert not spool.exists()


def test_twenty_at_once_write_twenty_whole_lines(spool: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "TREERING_SPOOL": str(spool)}
    body = {**CALL, "hook_event_name": "PermissionRequest", "tool_input": "x" * 40_000}
    running = [
        subprocess.Popen(
            [*patient_hook(), "codex"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(20)
    ]

    for number, process in enumerate(running):
        assert process.stdin is not None
        process.stdin.write(json.dumps({**body, "session_id": f"s{number}"}).encode())
        process.stdin.close()
    answers = [process.stdout.read() for process in running if process.stdout]
    statuses = [process.wait(PATIENCE_S) for process in running]
    for process in running:
        if process.stdout:
            process.stdout.close()

    assert answers == [b"{}\n"] * 20
    assert statuses == [0] * 20
    assert sorted(line["session_id"] for line in lines(spool)) == sorted(
        f"s{number}" for number in range(20)
    )


@pytest.mark.parametrize(
    ("stdin", "fault"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"not json", "not JSON"),
        (b"[1,2]", "no object"),
        (b"\xff\xfe\x00", "not JSON"),
        (b'{"a":' * 100_000, "not JSON"),
        (b'{"session_id":"s1","cost":' + b"9" * 10_000 + b"}", "not JSON"),
    ],
    ids=["empty", "blank", "text", "array", "bytes", "deep", "huge-number"],
)
def test_whatever_it_is_given_is_told_as_what_it_is(spool: Path, stdin: bytes, fault: str) -> None:
    done = call(spool, stdin)

    assert_unobtrusive(done)
    assert [line["fault"] for line in lines(spool)] == [fault]


def test_closed_streams_are_as_good_as_empty_ones(spool: Path) -> None:
    program = shlex.join(patient_hook())
    environment = {"PATH": os.environ["PATH"], "TREERING_SPOOL": str(spool)}

    done = subprocess.run(
        ["bash", "-c", f"{program} gemini 0<&- 1>&- 2>&-"],
        env=environment,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0
    assert [(line["agent"], line["fault"]) for line in lines(spool)] == [("gemini", "empty")]


def test_an_input_that_does_not_end_is_not_waited_for(spool: Path) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b'{"session_id":"s1","prompt":"still ty')

        done = call(spool, reading, program=patient_hook(read_s=1))
    finally:
        os.close(reading)
        os.close(writing)

    assert_unobtrusive(done)
    assert [(line["session_id"], line["fault"]) for line in lines(spool)] == [("s1", "not JSON")]


def test_a_hundred_megabytes_are_taken_in_and_their_beginning_is_told(spool: Path) -> None:
    body = json.dumps(CALL)[:-1] + ', "tool_response": "' + "x" * 100_000_000 + '"}'

    done = call(spool, body.encode())

    assert_unobtrusive(done)
    (line,) = lines(spool)
    assert (line["transcript_path"], line["fault"]) == ("/logs/s1.jsonl", "too long")
    assert sum(path.stat().st_size for path in spool.rglob("*") if path.is_file()) < 10_000


def test_what_is_too_long_for_a_line_goes_beside_it(spool: Path) -> None:
    asked = {**CALL, "hook_event_name": "PermissionRequest", "tool_input": "x" * 70_000}

    call(spool, json.dumps(asked).encode())

    (line,) = lines(spool)
    beside = spool / "side" / line["content_file"]
    assert line["content"] is None
    assert json.loads(beside.read_text())["tool_input"] == "x" * 70_000
    assert beside.stat().st_mode & 0o777 == 0o600


def test_characters_that_no_encoding_can_hold_do_no_harm(spool: Path) -> None:
    done = call(spool, b'{"session_id":"s\\ud800","permission_mode":NaN,"x":"\xc3"}')

    assert_unobtrusive(done)
    assert lines(spool)[0]["content"]["permission_mode"] == "NaN"


def test_a_folder_that_cannot_be_written_to_does_not_stop_the_agent(spool: Path) -> None:
    spool.parents[1].mkdir(mode=0o500)

    done = call(spool, json.dumps(CALL).encode())

    assert_unobtrusive(done)
    assert b"PermissionError 13" in done.stderr


def test_a_spool_that_takes_nothing_is_noted_in_the_log_without_what_was_said(spool: Path) -> None:
    spool.mkdir(parents=True)
    (spool / f"{os.uname().nodename}.jsonl").mkdir()
    asked = {**CALL, "hook_event_name": "PermissionRequest", "tool_input": "fake-password-of-ours"}

    done = call(spool, json.dumps(asked).encode())

    assert_unobtrusive(done)
    log = (spool / "hook.log").read_text()
    assert "IsADirectoryError 21" in log
    assert "fake-password-of-ours" not in log


def test_a_full_disk_does_not_stop_the_agent(spool: Path) -> None:
    spool.mkdir(parents=True)
    program = f"ulimit -f 0; trap '' XFSZ; {shlex.join(PROGRAM)} codex"
    environment = {"PATH": os.environ["PATH"], "TREERING_SPOOL": str(spool)}

    done = subprocess.run(
        ["bash", "-c", program],
        env=environment,
        input=json.dumps(CALL).encode(),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert_unobtrusive(done)
    assert lines(spool) == []


def test_a_spool_that_nobody_drains_stops_growing(spool: Path) -> None:
    spool.mkdir(parents=True)
    file = spool / f"{os.uname().nodename}.jsonl"
    with file.open("wb") as stream:
        stream.truncate(67_108_865)

    done = call(spool, json.dumps(CALL).encode())

    assert_unobtrusive(done)
    assert file.stat().st_size == 67_108_865
    assert "OSError 27" in (spool / "hook.log").read_text()


def test_a_name_that_is_no_agents_is_told_as_unknown(spool: Path) -> None:
    call(spool, json.dumps(CALL).encode(), "../../etc")

    assert lines(spool)[0]["agent"] == "unknown"


def test_it_loads_nothing_but_the_standard_library_and_little_of_that() -> None:
    program = (
        "import sys; before = set(sys.modules); import treering.hook;"
        "print(*sorted(set(sys.modules) - before))"
    )

    done = run_python(program)

    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("treering")} == {
        "treering",
        "treering.hook",
        "treering.lazy",
        "treering.version",
    }
    heavy = {"msgspec", "click", "pathlib", "subprocess", "logging", "asyncio", "inspect", "socket"}
    assert loaded & heavy == set()
    roots = {name.partition(".")[0] for name in loaded} - {"treering"}
    assert roots <= set(sys.stdlib_module_names)


def test_the_console_script_is_the_hook() -> None:
    import tomllib

    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())

    assert settings["project"]["scripts"]["treering-hook"] == "treering.hook:main"


def test_time_that_masking_did_not_need_is_left_for_writing() -> None:
    program = (
        "import signal; from treering import hook; hook.MASK_S_MAX = 600;"
        "signal.setitimer(signal.ITIMER_REAL, 600);"
        "hook._mask({'content': {}, 'session_id': None, 'cwd': None});"
        "print(signal.getitimer(signal.ITIMER_REAL)[0] > 300)"
    )

    done = run_python(program)

    assert done.stdout == "True\n"
