"""``treering export``: one session as a file, in every format read by a reader of that format."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import stat
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Final

import pytest
from markdown_it import MarkdownIt

import treering
from builders import HERE
from surfaces.talks import IN, LAUNCH, NEIGHBOUR, TOKEN, record_talk
from treering.capture.secrets import SecretGuard
from treering.formats.claude_code import ClaudeCodeReader, score
from treering.formats.parsed import LogRecord
from treering.surfaces.cli.export import FORMATS
from treering.surfaces.pages.blocks_html import MARKDOWN_CHARACTERS_MAX, markdown
from treering.surfaces.pages.session_files import WITHHELD

if TYPE_CHECKING:
    from pathlib import Path

    from surfaces.command_line import CommandLine, Outcome

MASKED: Final = tuple(form for form in FORMATS if form not in {"jsonl", "bundle"})
TEXT: Final = tuple(form for form in FORMATS if form != "bundle")
"""Formats that are text; bundles have tests of their own."""


@pytest.fixture
def talk(cli: CommandLine) -> CommandLine:
    record_talk(cli.database)
    return cli


def exported(talk: CommandLine, form: str, *arguments: str) -> Outcome:
    outcome = talk("export", "deploy-17", *IN, "--format", form, *arguments)
    assert outcome.status == 0, outcome.err
    return outcome


class Page(HTMLParser):
    """What a browser would see of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "input", "br", "hr"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] == "style":
            self.styles.append(data)
        else:
            self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


# What holds for all formats.


@pytest.mark.parametrize("form", TEXT)
def test_no_format_holds_anything_of_another_scope_or_what_was_erased(
    talk: CommandLine, form: str
) -> None:
    payloads = ("--payload",)

    out = exported(talk, form, *payloads).out

    assert NEIGHBOUR not in out
    assert LAUNCH not in out
    assert "It went out." in out


@pytest.mark.parametrize("form", MASKED)
def test_secrets_are_masked_and_counted(talk: CommandLine, form: str, tmp_path: Path) -> None:
    file = tmp_path / "out"

    receipt = exported(talk, form, "--payload", "--out", str(file), "--json").receipt

    text = file.read_text()
    assert TOKEN not in text
    assert "hunter2" not in text
    assert "[redacted:github:" in text
    assert receipt["masked"] >= 2
    assert receipt["withheld"] == 0
    assert SecretGuard(key=b"test").find_text(text) == []


@pytest.mark.parametrize("form", ["jsonl", "markdown", "html"])
def test_payloads_are_withheld_unless_they_are_asked_for(talk: CommandLine, form: str) -> None:
    out = exported(talk, form).out

    assert "df -h" not in out
    assert "It was about disks" not in out
    assert "Deploy with" in out


def test_a_file_is_private_and_never_written_over_without_force(
    talk: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "talk.html"
    exported(talk, "html", "--out", str(file))
    again = talk("export", "deploy-17", *IN, "--format", "html", "--out", str(file))

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (again.status, "--force" in again.err) == (2, True)
    exported(talk, "markdown", "--out", str(file), "--force")
    assert file.read_text().startswith("# Deploy 2.0")
    assert [one.name for one in tmp_path.iterdir() if "partial" in one.name] == []


@pytest.mark.parametrize(
    ("ending", "form"),
    [("html", "html"), ("MD", "markdown"), ("jsonl", "jsonl"), ("claude-code.jsonl", "claude-code"),
     ("atif.json", "atif"), ("otlp.JSON", "otlp"), ("zip", "bundle")],
)  # fmt: skip
def test_the_name_of_a_file_says_its_format(
    talk: CommandLine, tmp_path: Path, ending: str, form: str
) -> None:
    outcome = talk("export", "deploy-17", *IN, "-o", str(tmp_path / f"x.{ending}"), "--json")

    assert outcome.receipt["format"] == form


def test_a_format_that_nothing_says_is_asked_for(talk: CommandLine, tmp_path: Path) -> None:
    outcome = talk("export", "deploy-17", *IN, "--out", str(tmp_path / "x.json"))

    assert (outcome.status, list(tmp_path.glob("x.*"))) == (2, [])
    assert outcome.err.startswith("error: --format is required\nhint: pass one of jsonl, ")


def test_what_cannot_be_is_refused(talk: CommandLine, tmp_path: Path) -> None:
    def status(*arguments: str) -> int:
        return talk("export", "deploy-17", *IN, *arguments).status

    assert status("--format", "pdf") == 2
    assert status("--format", "html", "--out", str(tmp_path)) == 2
    assert status("--format", "html", "--out", str(talk.database), "--force") == 2
    assert talk("export", "nobody", *IN, "--format", "html").status == 1


def test_the_receipt_goes_beside_an_export_to_standard_output(talk: CommandLine) -> None:
    outcome = exported(talk, "openai", "--json")

    receipt = json.loads(outcome.err)
    assert receipt["kind"] == "treering.export.v1"
    assert receipt["items"] == len(json.loads(outcome.out)["messages"])


# Each format, by a reader of its own.


def test_jsonl_is_an_exact_copy_that_can_be_taken_in(talk: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    outcome = exported(talk, "jsonl", "--payload", "--out", str(file))
    assert re.search(
        r"^secrets as recorded in \d+ lines: it is an exact copy$", outcome.out, re.MULTILINE
    )

    with treering.open(tmp_path / "copy.db") as copy, treering.open(talk.database) as ledger:
        with file.open("rb") as stream:
            copy.admin.restore(stream)
        assert copy.admin.verify(HERE).intact
        copied, original = (
            list(one.session("deploy-17", scope=HERE, agent="x").events()) for one in (copy, ledger)
        )
    assert [one.link for one in copied] == [one.link for one in original]


def test_openai_messages_are_paired_and_leave_out_what_does_not_count(talk: CommandLine) -> None:
    messages: list[dict[str, Any]] = json.loads(exported(talk, "openai").out)["messages"]

    asked = [call["id"] for one in messages for call in one.get("tool_calls", ())]
    answered = [one["tool_call_id"] for one in messages if one["role"] == "tool"]
    assert asked == answered
    assert len(asked) == 3
    said = json.dumps(messages)
    assert "Now break" not in said
    assert "Take this back" not in said


def test_a_claude_code_log_is_read_by_its_own_reader(talk: CommandLine) -> None:
    lines = [json.loads(line) for line in exported(talk, "claude-code").out.splitlines()]

    assert score(lines)
    reader = ClaudeCodeReader(None)
    outcomes = [
        outcome
        for number, line in enumerate(lines)
        for outcome in reader.read(LogRecord(line, number + 1, number, number + 1))
    ]
    told = [one for outcome in [*outcomes, *reader.finish()] for one in outcome.events]
    texts = [one.payload["text"] for one in told if one.kind == "conversation.user"]
    assert texts[0].startswith("Is staging **healthy**?")
    assert [one.refs["tool"] for one in told if one.kind == "tool.call" and one.refs] == [
        "bash", "read_file", "deploy"
    ]  # fmt: skip
    assert len({line["sessionId"] for line in lines}) == 1


def test_markdown_keeps_its_own_structure_whatever_was_said(cli: CommandLine) -> None:
    with treering.open(cli.database) as ledger:
        session = ledger.session("s1", scope=HERE, agent="x", title="A # title *here*")
        with session.turn() as turn:
            turn.user("## Turn 9\n\n```\nnever closed")
            with turn.tool("cat", {"path": "`x`"}) as call:
                call.finish("````\n# Forged\n````")
            turn.assistant("---\n\n</details><script>x</script>")

    text = cli("export", "s1", *IN, "--format", "markdown", "--payload").out

    tokens = MarkdownIt("commonmark", {"html": False}).parse(text)
    top = [
        tokens[at + 1].content
        for at, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0
    ]
    assert top == [r"A \# title \*here\*", "Turn 1, ended", "User", "Assistant"]
    fences = [token.content for token in tokens if token.type == "fence"]
    assert "````\n# Forged\n````\n" in fences


HOSTILE = (
    "<img src=https://evil.example/x.png>",
    "\\\\<script>alert(1)</script>",
    "![pixel](https://evil.example/p.png)",
    "![pixel][1]\n\n[1]: https://evil.example/p.png",
    "a `b` <iframe src=//evil.example></iframe> `c`",
    "\t<object data=x>",
    "<!-- hidden -->",
    "[x](javascript:alert(1))",
    "- item\n\n  <b onclick=x>y</b>",
    "`\\`<svg onload=x>",
    "```\ncode\n```\n<details>",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_holds_no_html_and_loads_no_image(cli: CommandLine, text: str) -> None:
    with (
        treering.open(cli.database) as ledger,
        ledger.session("s1", scope=HERE, agent="x").turn() as turn,
    ):
        turn.user(text)
        turn.assistant(text)

    out = cli("export", "s1", *IN, "--format", "markdown", "--payload").out

    tokens = MarkdownIt("commonmark", {"html": True}).parse(out)
    every = [one for token in tokens for one in (token, *(token.children or ()))]
    assert not {one.type for one in every} & {"html_block", "html_inline", "image"}
    assert not any("script:" in str(one.attrs.get("href")) for one in every)


def test_markdown_leaves_code_as_it_was_said(cli: CommandLine) -> None:
    said = "```html\n<b>bold</b> ![x](y)\n```"
    with (
        treering.open(cli.database) as ledger,
        ledger.session("s1", scope=HERE, agent="x").turn() as turn,
    ):
        turn.user(said)

    out = cli("export", "s1", *IN, "--format", "markdown", "--payload").out

    assert "> <b>bold</b> ![x](y)\n" in out


@pytest.mark.parametrize("form", ["markdown", "html"])
@pytest.mark.parametrize(
    "character", ["\u202e", "\u2066", "\x9b", "\x85", "\u200f", "\u2028", "\ufeff"]
)
def test_what_is_invisible_or_turns_letters_round_is_written_out(
    cli: CommandLine, form: str, character: str
) -> None:
    with treering.open(cli.database) as ledger:
        session = ledger.session("s1", scope=HERE, agent="x", title=f"a{character}b")
        with session.turn() as turn:
            turn.user(f"tab\tçafé {character}evil")
            with turn.tool("t", {"path": f"p{character}"}) as call:
                call.finish(f"o{character}")

    out = cli("export", "s1", *IN, "--format", form, "--payload").out

    assert character not in out
    assert character.encode("unicode_escape").decode() in out
    assert "tab\tçafé" in out


# The page.


def test_the_page_forbids_everything_but_its_own_style_and_script(talk: CommandLine) -> None:
    page = Page(exported(talk, "html", "--payload").out)

    policy = next(
        one["content"] or "" for one in page.named("meta")
        if one.get("http-equiv") == "Content-Security-Policy"
    )  # fmt: skip
    (script,), (style,) = page.scripts, page.styles
    digests = [
        base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in (style, script)
    ]
    assert policy.startswith("default-src 'none';")
    assert re.findall(r"'sha256-([^']+)'", policy) == digests
    assert "unsafe" not in policy
    assert "img-src data:;" in policy
    loading = {"src", "srcset", "style", "data", "poster", "action"}
    for tag, attributes in page.tags:
        assert not loading & set(attributes), tag
        assert not any(name.startswith("on") for name in attributes), tag
        assert tag not in {"img", "iframe", "link", "object", "embed", "base", "form"}
    assert page.open == []


def test_the_page_shows_what_was_said_as_text_only(talk: CommandLine) -> None:
    page = Page(exported(talk, "html", "--payload").out)

    assert "80G <script>alert(1)</script>" in page.text
    assert "<b>raw</b>" in page.text
    assert "[image: pixel https://pixel.example/x.png]" in page.text
    assert "[REDACTED]" in page.text
    assert "compacted: 24,000 → 3,000 tokens (-88 %)" in page.text
    assert "no result: aborted" in page.text


def test_the_page_has_landmarks_and_a_name_for_every_control(talk: CommandLine) -> None:
    page = Page(exported(talk, "html", "--payload").out)

    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for landmark in ("header", "main", "footer", "nav"):
        assert len(page.named(landmark)) == 1
    assert all(one.get("aria-label") for one in (*page.named("nav"), *page.named("input")))
    labelled = [one["aria-labelledby"] for _, one in page.tags if "aria-labelledby" in one]
    assert set(labelled) <= set(ids)
    assert len(page.named("section")) == 5
    assert len(page.named("details")) == 5
    assert page.named("html") == [{"lang": "en"}]


def test_colours_of_the_page_can_be_read_in_light_and_in_dark(talk: CommandLine) -> None:
    (style,) = Page(exported(talk, "html").out).styles
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", style)
    colours = {name: shades for name, *shades in pairs}

    inks = ("ink", "muted", "you", "agent", "tool", "failure", "memory", "cyan")
    for ink in inks:
        for ground in ("ground", "raised", "sunken", "added", "removed"):
            for at in (0, 1):
                ratio = contrast(colours[ink][at], colours[ground][at])
                assert ratio >= 4.5, (ink, ground, at, ratio)
    for ground in ("found", "added-word", "removed-word", "line", "selected"):
        assert all(contrast(colours["ink"][at], colours[ground][at]) >= 4.5 for at in (0, 1))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, as WCAG counts it."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    shades = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        shade / 12.92 if shade <= 0.04045 else ((shade + 0.055) / 1.055) ** 2.4 for shade in shades
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    "text",
    [
        "[x](javascript:alert(1))",
        "[x](  JaVaScRiPt:alert(1))",
        "[x](data:text/html,<script>)",
        "<img src=x onerror=alert(1)>",
        "![x](https://pixel.example)",
        '[x](https://e.example "a\\" onclick=alert(1)")',
        "<javascript:alert(1)>",
        "[x]: javascript:alert(1)\n\n[x]",
        "|a|\n|:-:|\n|b|",
        "# <script>\n\n```html onload=x\n<script>\n```",
    ],
)
def test_markdown_cannot_run_or_load_anything(text: str) -> None:
    page = Page(f"<div>{markdown(text)}</div>")

    assert len(page.tags) > 1
    for tag, attributes in page.tags:
        assert tag not in {"img", "script"}
        assert set(attributes) <= {"class", "tabindex"}


def test_a_very_long_text_is_shown_as_it_is() -> None:
    assert markdown("*" * (MARKDOWN_CHARACTERS_MAX + 1)).startswith("<pre")


def test_what_only_becomes_a_secret_on_the_page_is_withheld(cli: CommandLine) -> None:
    # Markdown takes the backslash away, and a token is left.
    parted = TOKEN.replace("_", "\\_")
    with treering.open(cli.database, guard="off") as ledger:
        session = ledger.session("s1", scope=HERE, agent="x")
        session.record("conversation.user", "before", payload={"text": "before"})
        session.record("conversation.user", "x", payload={"text": f"take {parted}"})

    out = cli("export", "s1", *IN, "--format", "html", "--payload").out

    assert TOKEN not in out
    assert WITHHELD in out
    assert "before" in out


def test_a_page_keeps_its_head_when_there_is_a_mask_in_the_title(cli: CommandLine) -> None:
    with treering.open(cli.database, guard="mask") as ledger:
        session = ledger.session("s1", scope=HERE, agent="x")
        session.rename(f"password = hunter2-Winter-x7 {TOKEN}(https://example.org)")
        session.record("conversation.user", "before", payload={"text": "before"})

    out = cli("export", "s1", *IN, "--format", "markdown").out

    assert re.match(r"# password = \[redacted:password:[0-9a-f]{8}\] \[redacted:github:", out)
    assert "- session s1 of scope" in out
    assert "<a " not in MarkdownIt().render(out)


def test_one_entry_is_told_as_one(cli: CommandLine, tmp_path: Path) -> None:
    parted = TOKEN.replace("_", "\\_")
    with treering.open(cli.database, guard="off") as ledger:
        session = ledger.session("s1", scope=HERE, agent="x")
        session.record("conversation.user", "x", payload={"text": f"take {parted}"})
    target = ("--payload", "--out", str(tmp_path / "s1.html"))

    out = cli("export", "s1", *IN, "--format", "html", *target).out

    assert ": 1 entry\n" in out
    assert "1 entry looked like a secret and was withheld" in out


def test_a_claude_code_log_is_the_whole_session_in_another_ledger(
    cli: CommandLine, tmp_path: Path
) -> None:
    counts = {"model": "of-my-own", "provider": "mine", "input_tokens": 100, "output_tokens": 20}
    with treering.open(cli.database) as ledger:
        parent = ledger.session("watch", scope=HERE, agent="lyria")
        parent.record("conversation.user", "Look for the fuse.")
        parent.record("tool.call", "Task", payload={"call_id": "c1", "name": "Task", "input": {}},
                      refs={"call_id": "c1", "tool": "Task"})  # fmt: skip
        parent.record("tool.result", "Task", payload={"call_id": "c1", "output": "In the cellar."},
                      refs={"call_id": "c1", "tool": "Task", "status": "ok"})  # fmt: skip
        parent.record("ops.error", "the provider is down", payload={"message": "down"})
        parent.record("ops.decision", "ask the keeper", payload={"why": "it is dark"})
        parent.record("usage.reported", "used", payload={**counts, "cost": 0.25}, refs=counts)
        parent.record("usage.reported", "used", payload=counts, refs=counts)
        parent.record("conversation.assistant", "It is in the cellar.")
        child = ledger.session(
            "watch/agent-a1", scope=HERE, agent="claude-code:Explore",
            spawned_by="watch", spawned_call="c1",
        )  # fmt: skip
        child.record("conversation.user", "Where is the fuse?")
        child.record("usage.reported", "used", payload=counts, refs=counts)
        child.record("conversation.assistant", "In the cellar.")
    log = tmp_path / "log.jsonl"
    assert cli("export", "watch", *IN, "--format", "claude-code", "--out", str(log)).status == 0

    with treering.open(tmp_path / "fresh.db") as fresh:
        treering.import_logs(fresh, [log], scope=HERE)

        outlines = fresh.sessions(HERE, subagents=True).items
        main, sub = sorted(outlines, key=lambda one: one.spawned_by or "")
        handles = [
            fresh.session(one.session_id, scope=HERE, agent=one.agent) for one in (main, sub)
        ]
        used = [one.usage().total for one in handles]
        assert (sub.spawned_by, sub.agent) == (main.session_id, "claude-code:Explore")
        assert handles[1].settings.spawned_call == "c1"
        assert [(one.calls, one.total_tokens) for one in used] == [(2, 240), (1, 120)]
        assert [e.summary for e in handles[0].events() if e.kind.startswith("ops.")] == [
            "the provider is down",
            "ask the keeper",
        ]
        assert [one["content"] for one in handles[1].history()] == [
            "Where is the fuse?",
            "In the cellar.",
        ]
        assert treering.import_logs(fresh, [log], scope=HERE, again=True).imported == 0
