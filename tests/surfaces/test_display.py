"""How events are shown: the same tree of blocks for the terminal, for pages and for the viewer."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

import treering
from builders import HERE
from surfaces.showcase import EDIT, FAILURE, PATCH, QUESTION, picture, record_showcase
from surfaces.talks import IN, TOKEN
from treering.model.messages import Media
from treering.surfaces.pages.blocks import (
    DiffBlock,
    PictureBlock,
    QuestionBlock,
    SourcesBlock,
    TasksBlock,
    TextBlock,
)
from treering.surfaces.pages.blocks_html import PageLinks, blocks_html, entry_html
from treering.surfaces.pages.display import EntryDisplay, display_entry, grouped, picture_facts
from treering.surfaces.pages.styles import code_lines, plain_text, terminal_lines
from treering.surfaces.pages.tool_blocks import (
    ToolContent,
    changes_in,
    diff_block,
    exit_code,
    recorded_change,
    tool_blocks,
    unified,
)
from treering.surfaces.pages.transcripts import TurnHead, pieces, read_cover, whole
from treering.surfaces.pages.wording import clean
from treering.surfaces.shared.texts import Mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surfaces.command_line import CommandLine

CHANGE = {"old_string": "x = 1", "new_string": "x = 2"}
SMALL_PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+x = 2\n*** End Patch"
GEMINI = "Command: pip\nDirectory: .\nOutput: out\nError: (none)\nExit Code: 127\nSignal: 0"
JPEG_HEAD = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x05\x00\x06"
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "[x](javascript:alert(1)) ![y](https://evil.example/p.png)",
    "<style>*{display:none}</style></pre></details>",
    "\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07\x1b[2J",
)


@pytest.fixture(scope="module")
def shown() -> list[EntryDisplay]:
    with treering.open(":memory:") as ledger:
        session = record_showcase(ledger)
        cover = read_cover(ledger, session)
        mask = Mask()
        parts = pieces(ledger, session, whole(), with_payloads=True)
        entries = (
            part
            if isinstance(part, TurnHead)
            else display_entry(part, mask, subagent=cover.subagent)
            for part in parts
        )
        return [part for part in grouped(entries) if isinstance(part, EntryDisplay)]


def by_name(shown: list[EntryDisplay], name: str) -> EntryDisplay:
    return next(one for one in shown if one.tool is not None and one.tool.name == name)


def drawn(name: str, given: dict[str, Any], output: str = "", result: Any = None) -> Any:
    content = ToolContent(name=name, given=given, output=output, result=result, is_failed=False)
    return tool_blocks(content, str, characters_max=None)


def marks(block: DiffBlock) -> list[tuple[str, str]]:
    """Return the words that a diff marks, each with its sign."""
    return [
        (row.sign, span.text)
        for hunk in block.hunks
        for row in hunk.rows
        for span in row.spans
        if {"wi", "wd"} & set(span.style.split())
    ]


def text_rows(block: DiffBlock) -> list[str]:
    return [f"{row.sign}{plain_text([row.spans])}" for hunk in block.hunks for row in hunk.rows]


def test_consecutive_reads_and_searches_fold_into_one_line_and_failures_do_not(
    shown: list[EntryDisplay],
) -> None:
    groups = [one for one in shown if one.sort == "group"]

    assert [one.title for one in groups] == ["4 reads, 1 search"]
    assert all(not member.is_bad for member in groups[0].members)
    bash = by_name(shown, "Bash")
    assert bash.is_bad
    assert "1 failed, 1 passed in 3.02s" in plain_text(bash.tail)
    assert "AssertionError" in entry_html(bash, PageLinks()).split('<pre class="tail">')[1]


def test_an_edit_is_a_diff_with_the_words_that_changed() -> None:
    (change,) = changes_in(EDIT, is_write=False)
    block = diff_block(change, str)

    assert (block.path, block.added, block.removed) == ("tests/mock_server.py", 2, 1)
    assert text_rows(block) == [
        " def start(server):",
        "     server.start()",
        "-    return server",
        "+    server.wait_until_ready(5)",
        "+    return server.address",
    ]
    assert marks(block) == [("+", ".address")]
    page = blocks_html([block], PageLinks())
    assert "<ins>" in page
    assert "+2" in page
    assert "−1" in page  # noqa: RUF001  (a minus sign)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("Edit", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}),
        ("edit", {"path": "a.py", "oldText": "x = 1", "newText": "x = 2"}),
        ("replace", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}),
        ("MultiEdit", {"file_path": "a.py", "edits": [CHANGE]}),
        ("str_replace_editor", {"path": "a.py", "old_str": "x = 1", "new_str": "x = 2"}),
        ("apply_patch", {"input": SMALL_PATCH}),
        ("shell", {"command": ["bash", "-lc", f"apply_patch <<'E'\n{SMALL_PATCH}\nE"]}),
        ("my_tool", {"diff": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"}),
    ],
)  # fmt: skip
def test_edits_of_every_agent_are_the_same_diff(name: str, given: dict[str, Any]) -> None:
    made = drawn(name, given)

    (block,) = made.blocks
    assert made.sort == "edit"
    assert (block.path, text_rows(block)) == ("a.py", ["-x = 1", "+x = 2"])
    assert made.facts == ("+1 −1",)  # noqa: RUF001  (a minus sign)
    assert marks(block) == [("-", "1"), ("+", "2")]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("Write", {"file_path": "n.md", "content": "one\ntwo\n"}),
        ("write_file", {"path": "n.md", "content": "one\ntwo"}),
        ("str_replace_editor", {"command": "create", "path": "n.md", "file_text": "one\ntwo\n"}),
    ],
)
def test_a_write_adds_every_line_with_its_number(name: str, given: dict[str, Any]) -> None:
    (block,) = drawn(name, given).blocks

    assert [(row.sign, row.number) for row in block.hunks[0].rows] == [("+", 1), ("+", 2)]


def test_a_patch_names_new_deleted_and_renamed_files() -> None:
    moved = PATCH.replace("@@ def", "*** Move to: src/again.py\n@@ def")

    changes = changes_in({"patch": moved}, is_write=False)

    assert [(one.path, one.note) for one in changes] == [
        ("src/retry.py", "renamed to src/again.py"),
        ("src/limits.py", "new file"),
        ("src/old.py", "deleted"),
    ]


def test_the_diff_that_a_tool_returned_knows_line_numbers() -> None:
    hunk = {"oldStart": 41, "newStart": 41, "lines": [" a", "-b", "+c", "+d", " e"]}
    change = recorded_change({"filePath": "x.py", "structuredPatch": [hunk]}, "")

    assert change is not None
    rows = diff_block(change, str).hunks[0].rows
    assert [(row.sign, row.number) for row in rows] == [
        (" ", 41), ("-", 42), ("+", 42), ("+", 43), (" ", 44)
    ]  # fmt: skip
    # A removed line that begins with two dashes is no head of another file.
    (file,) = unified("--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n--- gone\n kept\n")
    assert file.hunks[0].rows == (("-", "-- gone"), (" ", "kept"))


def test_the_colours_of_a_terminal_are_kept_and_its_commands_are_not() -> None:
    lines = terminal_lines(f"{FAILURE}\x1b[2J\x1b]0;title\x07\x1b[38;5;196mred", str_of)

    spans = [span for line in lines for span in line]
    assert ("==== test session starts ====", "tb") in [(one.text, one.style) for one in spans]
    assert ("F", "c1") in [(one.text, one.style) for one in spans]
    assert spans[-1].style == "c9"
    assert "\x1b" not in plain_text(lines)
    assert "title" not in plain_text(lines)
    assert plain_text(terminal_lines("10 %\r55 %\r100 %\ndone", str_of)) == "100 %\ndone"


def test_a_secret_that_colours_part_is_masked() -> None:
    parted = f"token \x1b[31m{TOKEN[:9]}\x1b[0m{TOKEN[9:]}"

    text = plain_text(terminal_lines(parted, str_of))

    assert TOKEN not in text
    assert "[redacted:github:" in text


def str_of(text: str) -> str:
    return clean(text, Mask())


@pytest.mark.parametrize(
    ("result", "output", "expected"),
    [
        ({"exit_code": 2}, "no", (2, "no")),
        ({"details": {"exitCode": 0}}, "yes", (0, "yes")),
        (None, '{"output":"a\\n","metadata":{"exit_code":1}}', (1, "a\n")),
        (None, "Exit code 3\nbad", (3, "bad")),
        (None, "Exit code: 0\nWall time: 1 s\nOutput:\nfine", (0, "fine")),
        (None, GEMINI, (127, "out")),
        (None, "Process exited with code 4\nOutput:\nx", (4, "x")),
        (None, "plain", (None, "plain")),
    ],
)  # fmt: skip
def test_the_exit_code_is_found_wherever_an_agent_puts_it(
    result: Any, output: str, expected: tuple[int | None, str]
) -> None:
    assert exit_code(result, output) == expected


def test_a_command_that_exits_badly_is_a_failure_though_its_tool_worked(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        session = ledger.session("s1", scope=HERE, agent="gemini")
        with session.turn() as turn:
            turn.user("go")
            with turn.tool("run_shell_command", {"command": "pip install x"}) as call:
                call.finish(GEMINI)

    text = cli("export", "s1", *IN, "--format", "html", "--payload").out

    assert 'class="tool ok bad"' in text
    assert "exit 127" in text


def test_questions_tasks_plans_sources_and_subagents_have_a_form_of_their_own(
    shown: list[EntryDisplay],
) -> None:
    (question,) = by_name(shown, "AskUserQuestion").blocks
    assert isinstance(question, QuestionBlock)
    assert question.text == QUESTION
    assert [one.label for one in question.options if one.is_chosen] == ["main"]
    (tasks,) = by_name(shown, "TodoWrite").blocks
    assert isinstance(tasks, TasksBlock)
    assert [task.state for task in tasks.tasks] == ["done", "doing", "open"]
    (sources,) = by_name(shown, "WebSearch").blocks
    assert isinstance(sources, SourcesBlock)
    assert sources.sources[0].address == "https://docs.example.org/flaky"
    plan = entry_html(by_name(shown, "ExitPlanMode"), PageLinks())
    assert "<li>Wait until the server listens</li>" in plan
    links = PageLinks(session=lambda name: f"/sessions/{name}")
    card = entry_html(by_name(shown, "Task"), links)
    assert '<a href="/sessions/flaky-upload/explore">Who starts servers?</a>' in card
    assert "1 turn · 1 tool call · 3,120 tokens" in card


def test_marks_erasures_and_unknown_tools_are_shown_as_such(shown: list[EntryDisplay]) -> None:
    rules = [one.title for one in shown if one.sort == "rule"]
    assert rules == [
        "compacted: 24,000 → 3,000 tokens (-88 %), 12 messages summarised",
        "undone: 1 turn",
        "1 event redacted",
    ]
    pages = "".join(entry_html(one, PageLinks()) for one in shown)
    assert '<p class="erased">[REDACTED]</p>' in pages
    assert "swordfish" not in pages
    thinking = next(one for one in shown if one.sort == "thinking")
    assert "<details><summary><b>Thinking</b>" in entry_html(thinking, PageLinks())
    given, output = by_name(shown, "deploy_preview").blocks
    assert isinstance(given, TextBlock)
    assert isinstance(output, TextBlock)
    assert plain_text(given.lines).startswith('{\n  "branch": "main"')
    assert plain_text(output.lines).startswith('{\n  "ok": true')


def test_a_picture_is_shown_with_its_size_and_never_as_text(shown: list[EntryDisplay]) -> None:
    entry = by_name(shown, "Screenshot")
    (block,) = [one for one in entry.blocks if isinstance(one, PictureBlock)]

    assert (block.mime, block.width, block.height) == ("image/png", 160, 90)
    page = entry_html(entry, PageLinks(picture=lambda one: f"/picture/{one.event_id}"))
    assert re.search(r'<img src="/picture/\w+[^"]*" width="160" height="90"', page)
    assert picture()[:40] not in page


@pytest.mark.parametrize(
    ("mime", "content"),
    [
        ("image/svg+xml", b"<svg onload=alert(1)></svg>" * 9),
        ("image/png", b"<html><script>alert(1)</script></html>" * 9),
        ("image/png", b"\x89PNG\r\n\x1a\n" + b"\0" * 8 + b"\xff" * 60),
    ],
)
def test_what_only_claims_to_be_a_picture_is_named_and_not_shown(mime: str, content: bytes) -> None:
    data = base64.b64encode(content).decode()

    assert picture_facts(Media(sort="image", mime=mime, data=data)) is None


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"GIF89a\x03\x00\x04\x00" + b"\0" * 9, ("image/gif", 3, 4)),
        (JPEG_HEAD + b"\0" * 9, ("image/jpeg", 6, 5)),
        (b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x06\0\0\x07\0\0" + b"\0" * 9, ("image/webp", 7, 8)),
    ],
)  # fmt: skip
def test_pictures_are_known_by_their_own_bytes(head: bytes, expected: tuple[str, int, int]) -> None:
    facts = picture_facts(Media(sort="image", data=base64.b64encode(head).decode()))

    assert facts is not None
    assert (facts.mime, facts.width, facts.height) == expected


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def hostile_calls(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "Bash", {"command": text}
    yield "Read", {"file_path": text}
    yield "Edit", {"file_path": text, "old_string": text, "new_string": f"{text}2"}
    yield "TodoWrite", {"todos": [{"content": text, "status": text}]}
    yield "AskUserQuestion", {"questions": [{"question": text, "options": [{"label": text}]}]}
    yield "ExitPlanMode", {"plan": text}
    yield "WebSearch", {"query": text}
    yield text, {text: text, "b": 1}


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_was_recorded_becomes_part_of_the_page(text: str) -> None:
    mask = Mask()
    with treering.open(":memory:") as ledger:
        session = ledger.session("s1", scope=HERE, agent="x", title=text)
        with session.turn() as turn:
            turn.user(text)
            for name, given in hostile_calls(text):
                with turn.tool(name, given) as call:
                    call.finish([{"title": text, "url": text}] if name == "WebSearch" else text)
            turn.assistant(text)
        parts = [*pieces(ledger, session, whole(), with_payloads=True)]
    page = "".join(
        entry_html(display_entry(part, mask), PageLinks())
        for part in parts
        if not isinstance(part, TurnHead)
    )

    tags = Tags(page).found
    allowed = {"class", "id", "data-item", "data-seq", "data-kind", "tabindex", "dir", "open",
               "aria-labelledby", "aria-hidden", "datetime", "title"}  # fmt: skip
    assert not {tag for tag, _ in tags} & {"script", "img", "svg", "style", "a", "iframe"}
    assert {name for _, given in tags for name in given} <= allowed
    assert "\x1b" not in page


def test_long_outputs_fold_and_huge_ones_are_cut_where_asked(cli: CommandLine) -> None:
    lines = "\n".join(f"line {number}" for number in range(500))
    content = ToolContent(
        name="Bash", given={"command": "x"}, output=lines, result=None, is_failed=False
    )

    short = tool_blocks(content, str, characters_max=100).blocks[1]
    page = blocks_html(tool_blocks(content, str, characters_max=None).blocks, PageLinks())

    assert isinstance(short, TextBlock)
    assert short.cut == len(lines) - 100
    assert "<summary>488 more lines</summary>" in page
    failed = ToolContent(
        name="Bash", given={"command": "x"}, output=lines, result=None, is_failed=True
    )
    end = tool_blocks(failed, str, characters_max=100).blocks[1]
    assert isinstance(end, TextBlock)
    assert plain_text(end.lines).endswith("line 499")


def test_code_keeps_every_character_and_a_huge_line_has_no_syntax() -> None:
    text = "def f(x):\n\treturn 'a' # b\n\n"

    assert plain_text(code_lines(text, "python")) == text
    assert any(span.style == "hk" for line in code_lines(text, "python") for span in line)
    huge = code_lines("x" * 100_000, "python")
    assert [span.style for line in huge for span in line] == [""]


def test_the_terminal_folds_reads_too(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        record_showcase(ledger)

    out = cli("show", "flaky-upload", *IN).out

    assert "  > 4 reads, 1 search" in out
    full = cli("show", "flaky-upload", *IN, "--payload").out
    assert "in  | tests/mock_server.py +2 -1" in full
    assert "    (x) main" not in full
    assert "| (x) main: At once" in full
    assert "[picture: 160" in full
