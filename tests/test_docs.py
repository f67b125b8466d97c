"""The docs cannot lie: their blocks run, their outputs are real, their links lead somewhere.

Every page runs in an empty folder, as a reader who has a home without a ledger would type it.

What may differ between a page and a run is named in ``DIFFERS``: ids, digests, times, durations,
cursors. Everything else has to be the same, character for character.

Run as a program, this prints the table of ``docs/reference/kinds.md``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

import fork_server
import treering
from doc_blocks import run_blocks
from effort import PATIENCE_S
from treering.capture.secret_rules import SECRET_RULES
from treering.ledger import drafts, erasure
from treering.model import codec, events, queries, scopes
from treering.model.envelopes import json_schema
from treering.model.kinds import KINDS
from treering.model.scopes import DEFAULT_RETENTION
from treering.storage.sqlite import database, writer
from treering.surfaces.cli import declare

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
CHANGELOG: Final = ROOT / "CHANGELOG.md"
PAGES: Final = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
README: Final = ROOT / "README.md"
WORDS_MAX: Final = {"README.md": 900, "ARCHITECTURE.md": 1_500, "CONTRIBUTING.md": 600}
"""How long a page of the root may grow: what is more belongs into the docs."""

DIFFERS: Final = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
    (r"\b[0-9a-f]{64}\b", "<digest>"),
    (r"\[redacted:([a-z-]+):[0-9a-f]{8}\]", r"[redacted:\1:<hash>]"),
    (r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\b", "<time>"),
    (r"(<time>  |seq \d+, )[0-9a-f]{8}(?:(?:-|\.\.)[0-9a-f]{1,12})*\b", r"\1<id>"),
    (r"\bafter \d+ ms\b", "after <n> ms"),
    (r"--cursor [\w-]+", "--cursor <cursor>"),
)

BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"(?:\]\(|src(?:set)?=\")([^)\s\"]+)[)\"]")
HEADING: Final = re.compile(r"^#+ (.*)$", re.MULTILINE)

COMMAND_MARK: Final = "\x1e"
"""Printed before each command's output, to tell where it starts."""


class Block(msgspec.Struct, frozen=True):
    """A fenced block of a page, and what it should print if the page says so."""

    page: str
    line: int
    language: str
    body: str
    shown: str | None

    @property
    def place(self) -> str:
        """Return where the block stands."""
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Give the blocks that run, each with the output that the page shows for it."""
    text = page.read_text(encoding="utf-8")
    name = str(page.relative_to(ROOT))
    found = list(BLOCK.finditer(text))
    for at, match in enumerate(found):
        line = text.count("\n", 0, match.start()) + 1
        following = found[at + 1] if at + 1 < len(found) else None
        if match[1] == "console":
            yield Block(name, line, "console", match[2], match[2])
        elif match[1] == "sh" and page == README:
            yield Block(name, line, "sh", match[2], None)
        elif match[1] == "python":
            adjacent = following is not None and not text[match.end() : following.start()].strip()
            shows = adjacent and following is not None and following[1] == "text"
            yield Block(
                name, line, "python", match[2], following[2] if shows and following else None
            )


def commands(body: str) -> list[tuple[str, str]]:
    """Split a console block into commands and what each prints."""
    found: list[tuple[str, str]] = []
    for line in body.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif found and found[-1][0].endswith("\\\n"):
            found[-1] = (found[-1][0] + line, "")
        else:
            command, printed = found[-1]
            found[-1] = (command, printed + line)
    return found


def script(body: str) -> str:
    """Return a console block as one script that marks where each command's output starts."""
    mark = f"printf '{COMMAND_MARK}'\n"
    return "".join(mark + command for command, _ in commands(body))


def normal(text: str) -> str:
    """Return ``text`` with all that may differ made equal."""
    for pattern, name in DIFFERS:
        text = re.sub(pattern, name, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def run_page(page: Path, folder: Path) -> list[tuple[Block, str]]:
    """Run the blocks of ``page`` below ``folder`` and return what each printed."""
    found = list(blocks(page))
    work = [
        (block.language, script(block.body) if block.language == "console" else block.body)
        for block in found
    ]
    empty, home, programs = (folder / name for name in ("empty", "home", "programs"))
    for made in (empty, home, programs):
        made.mkdir()
    (programs / "pip").symlink_to("/bin/true")  # The package under test is installed already.
    path = (str(programs), str(Path(sys.executable).parent), os.environ["PATH"])
    answer = folder / "answer.json"
    environment = {
        "PATH": os.pathsep.join(path),
        "HOME": str(home),
        "PYTHONIOENCODING": "utf-8",
        "TREERING_TZ": "UTC",
        "TREERING_EMBEDDER": "static",  # What a plain installation has.
    }
    # Forked from a process that has loaded the package: thirty pages need not do so again.
    process = fork_server.process(run_blocks, work, str(empty), environment, str(answer))
    process.start()
    process.join(PATIENCE_S)
    assert process.exitcode == 0, f"{page.name}: exit status {process.exitcode}"
    outputs = json.loads(answer.read_text(encoding="utf-8"))
    assert isinstance(outputs, list), f"{page.name}: {outputs}"
    return list(zip(found, outputs, strict=True))


RUNNING: Final = [page for page in PAGES if next(blocks(page), None) is not None]


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
def test_every_block_of_a_page_runs_and_prints_what_the_page_shows(
    page: Path, tmp_path: Path
) -> None:
    for block, printed in run_page(page, tmp_path):
        if block.language == "sh":
            continue
        if block.language == "python":
            assert normal(printed) == normal(block.shown or ""), block.place
            continue
        shown = [(command, normal(text)) for command, text in commands(block.body)]
        outputs = [normal(text) for text in printed.split(COMMAND_MARK)[1:]]
        assert [text for _, text in shown] == outputs, block.place

    assert list((tmp_path / "home").rglob("*.db")) == [], "the page touches the reader's ledger"


@pytest.mark.timeout(280)
def test_the_demo_holds_and_leaves_one_folder_behind(tmp_path: Path) -> None:
    own = {"TREERING_DB": str(tmp_path / "own.db"), "TREERING_SCOPE": "of-my-own"}
    environment = {**os.environ, **own, "NO_COLOR": "1", "TREERING_TZ": "UTC"}

    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "demo.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=260,  # Thirty processes: on a busy machine they take longer than others.
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every check held" in done.stdout
    assert "\x1b" not in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["demo-output"]


def test_the_demo_fails_when_a_check_fails(tmp_path: Path) -> None:
    examples = tmp_path / "examples"
    shutil.copytree(ROOT / "examples", examples, ignore=shutil.ignore_patterns("__pycache__"))
    chapter = examples / "demo_parts" / "recording.py"
    redacts = "(SCOPE, event_id=said.event_id)"
    assert redacts in chapter.read_text()
    chapter.write_text(chapter.read_text().replace(redacts, '(SCOPE, event_id="x")', 1))
    # The other chapters take their time, and have a test of their own.
    program = examples / "demo_parts" / "__main__.py"
    others = re.compile(r"^    show_(?!recording)\w+\(\)\n", re.MULTILINE)
    text, left_out = others.subn("", program.read_text())
    assert left_out == 6
    program.write_text(text)

    done = subprocess.run(
        [sys.executable, str(examples / "demo.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )

    assert done.returncode == 1
    assert "✗ FAILED: the password is in no page, free page or log" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = {slug(heading) for heading in HEADING.findall(goal.read_text())}
            assert anchor in headings, f"{page.name} links to {target}"


def slug(heading: str) -> str:
    """Return the anchor that a heading gets when it is rendered."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_every_page_of_the_docs_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [README]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        for target in LINK.findall(page.read_text()):
            goal = (page.parent / target.partition("#")[0]).resolve()
            waiting += goal.glob("*.md") if goal.is_dir() else [goal] if goal.exists() else []

    assert set(PAGES) <= reached


def test_the_generated_pages_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "make_reference.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )

    assert done.returncode == 0, f"run make reference\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("name", WORDS_MAX)
def test_a_page_of_the_root_stays_short(name: str) -> None:
    assert len((ROOT / name).read_text().split()) <= WORDS_MAX[name]


def test_every_decision_is_in_their_list_under_its_title() -> None:
    folder = DOCS / "decisions"
    titles = {page.name: page.read_text().partition("\n")[0] for page in folder.glob("0*.md")}

    rows = re.findall(
        r"^- \[(\d+)\]\((.*)\): (.*)$", (folder / "index.md").read_text(), re.MULTILINE
    )

    assert {file: f"# {number}: {title}" for number, file, title in rows} == titles


def test_the_table_of_kinds_is_current() -> None:
    page = (DOCS / "reference/kinds.md").read_text()

    assert kinds_table() in page, f"put this into docs/reference/kinds.md:\n{kinds_table()}"


def kinds_table() -> str:
    """Return the table of ``docs/reference/kinds.md``."""
    lines = [
        "| kind | role | source | visibility | kept | also accepted |",
        "|---|---|---|---|---|---|",
    ]
    for kind in KINDS.values():
        kept = "forever" if kind.retention_days is None else f"{kind.retention_days} days"
        spellings = ", ".join(f"`{name}`" for name in sorted(kind.spellings))
        lines.append(
            f"| `{kind.name}` | {kind.role} | {kind.source} | {kind.visibility} |"
            f" {kept if kind.durable else 'never'} | {spellings} |"
        )
    return "\n".join(lines) + "\n"


def test_the_schema_of_envelopes_is_current() -> None:
    written = (DOCS / "reference/envelopes.schema.json").read_text()

    assert written == json.dumps(json_schema(), indent=2) + "\n", (
        "write json.dumps(treering.model.envelopes.json_schema(), indent=2) to the file"
    )


def test_the_page_of_envelopes_has_every_kind_with_its_type_and_the_fields_of_its_payloads() -> (
    None
):
    page = (DOCS / "reference/envelopes.md").read_text()
    types = json_schema()["$defs"]

    for name in (name for name in types if f"Private{name}" in types):
        safe, private = (types[one]["properties"] for one in (name, f"Private{name}"))
        kind = safe["kind"]["enum"][0]
        facts, content = (
            set(types[one["payload"]["$ref"].rpartition("/")[2]]["properties"])
            for one in (safe, private)
        )
        row = re.search(rf"^\| `{kind}` \| `{name}` \|(.*)\|(.*)\|$", page, re.MULTILINE)

        assert row, kind
        assert set(re.findall(r"`(\w+)`", row[1])) == facts - {"truncated"}
        assert set(re.findall(r"`(\w+)`", row[2])) == content - facts - {"details"}


def test_every_word_of_the_glossary_is_used_in_the_code() -> None:
    code = "\n".join(path.read_text().lower() for path in (ROOT / "src").rglob("*.py"))
    words = glossary_words()

    unused = [word for word in words if not re.search(rf"\b{re.escape(word)}", code)]

    assert unused == []
    assert words == sorted(words)


def test_the_glossary_has_the_words_that_a_reader_meets_first() -> None:
    needed = {
        *(
            "event",
            "header",
            "payload",
            "kind",
            "role",
            "ledger",
            "scope",
            "session",
            "turn",
            "run",
        ),
        *("seq", "position", "boundary", "tool call", "user", "redact", "expire", "receipt"),
    }

    assert needed <= set(glossary_words())


def glossary_words() -> list[str]:
    """Return the words that the glossary explains, in its order."""
    rows = re.findall(r"^\| ([^|]+) \|", (DOCS / "reference/glossary.md").read_text(), re.MULTILINE)
    return [row for row in rows if row != "word"]


@pytest.mark.parametrize(
    "limit",
    [
        events.SUMMARY_CHARACTERS_MAX,
        events.NAME_CHARACTERS_MAX,
        scopes.SCOPE_CHARACTERS_MAX,
        codec.REFS_BYTES_MAX,
        codec.PAYLOAD_BYTES_MAX,
        codec.SPILL_BYTES_MAX,
        codec.NESTING_MAX,
        queries.PAGE_ITEMS_MAX,
        queries.PAGE_ITEMS_DEFAULT,
        declare.PAGE_ITEMS_MAX,
        writer.GROUP_EVENTS_MAX,
        erasure.ROUND_EVENTS_MAX,
        database.READERS_MAX,
        int(database.PATIENCE_S),
    ],
)
def test_every_limit_in_the_docs_is_the_one_in_the_code(limit: int) -> None:
    section = (DOCS / "reference/storage.md").read_text().partition("## Sizes and limits")[2]

    assert re.search(rf"(?<![\d,]){limit:,}(?![\d,])", section)


def test_every_time_that_retention_promises_is_the_one_in_the_code() -> None:
    page = (DOCS / "how-to/retention-and-redaction.md").read_text()
    rows = re.findall(r"^\| (`[^|]+) \| (\d+) days \|$", page, re.MULTILINE)

    promised = {kind: int(days) for names, days in rows for kind in re.findall("`(.*?)`", names)}

    assert promised == DEFAULT_RETENTION


def test_every_family_of_tokens_is_named_in_the_docs() -> None:
    page = (DOCS / "how-to/secrets.md").read_text().lower()
    inner = {"named", "bearer", "private-key", "url"}

    missing = {rule.name for rule in SECRET_RULES if rule.name not in page} - inner

    assert missing == set()


def test_the_changelog_begins_with_this_version() -> None:
    versions = re.findall(r"^## (\S+) - \d{4}-\d\d-\d\d$", CHANGELOG.read_text(), re.MULTILINE)

    assert versions[0] == treering.__version__


def test_the_readme_example_has_twelve_lines() -> None:
    example = next(block for block in blocks(README) if block.language == "python")

    assert len([line for line in example.body.splitlines() if line.strip()]) <= 12


def test_no_page_speaks_of_guards_or_modes_that_do_not_exist() -> None:
    modes: tuple[Any, ...] = drafts.GuardMode.__args__  # type: ignore[attr-defined]
    text = "\n".join(page.read_text() for page in PAGES)

    assert set(re.findall(r'guard="(\w+)"', text)) <= set(modes)


def test_every_target_that_the_docs_name_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = "\n".join(page.read_text() for page in PAGES)

    named = set(re.findall(r"(?:^|`)make (\w+)", text, re.MULTILINE))

    assert {name for name in named if f"\n{name}:" not in makefile} == set()


if __name__ == "__main__":
    sys.stdout.write(kinds_table())
