"""Build the site of the docs in ``site/``, then check every link and that it loads nothing foreign.

Run it as ``make docs``. The pages are staged in a temporary folder: those of ``docs/``, those of
the project's root beside them, and the files that they link to as pages of source. The navigation
is that of ``docs/index.md``. To read the site, serve it: ``python3 -m http.server -d site``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
SITE: Final = ROOT / "site"
ROOT_PAGES: Final = {
    "README.md": "overview.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
}
LINK: Final = re.compile(r"(\[[^\]]*\]\(|(?:src|srcset)=\")([^)\s\"]+)([)\"])")
FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LANGUAGES: Final = {".py": "py", ".sql": "sql", ".json": "json", ".toml": "toml"}

SETTINGS: Final = """\
[project]
site_name = "Treering"
site_description = "A flight recorder and a memory for AI agents"
use_directory_urls = false
nav = {nav}

[project.theme]
font = false
features = [
  "content.code.copy",
  "navigation.footer",
  "navigation.top",
  "search.highlight",
  "toc.follow",
]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Switch to dark mode"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Switch to light mode"

[project.plugins.search]

[project.markdown_extensions]
attr_list = {{}}
md_in_html = {{}}
toc.permalink = true
pymdownx.highlight.pygments_lang_class = true
pymdownx.superfences = {{}}
"""


def main() -> int:
    """Build and check the site; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        Stage(stage / "docs").fill()
        settings = SETTINGS.format(nav=toml(navigation()))
        (stage / "zensical.toml").write_text(settings, encoding="utf-8")
        program = Path(sys.executable).with_name("zensical")
        command = [program, "build", "--clean", "--strict"]
        if subprocess.run(command, cwd=stage, check=False).returncode:
            return 1
        shutil.rmtree(SITE, ignore_errors=True)
        shutil.copytree(stage / "site", SITE)
    problems = [*broken_links(), *foreign_resources()]
    for problem in problems:
        print(problem)
    count = len(list(SITE.rglob("*.html")))
    print(
        f"{count} pages, {len(problems)} problems; read it: python3 -m http.server -d {SITE.name}"
    )
    return 1 if problems else 0


# Pages


class Stage:
    """The folder from which the site is built."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sources: set[Path] = set()

    def fill(self) -> None:
        """Copy the pages with their links rewritten, then the files that they link to."""
        shutil.copytree(DOCS, self.folder, ignore=shutil.ignore_patterns("*.md", "constraints.txt"))
        for page in [*DOCS.rglob("*.md"), *(ROOT / name for name in ROOT_PAGES)]:
            text = page.read_text(encoding="utf-8")
            self.write(staged(page), self.relinked(text, page))
        for source in self.sources:
            text = source.read_text(encoding="utf-8")
            language = LANGUAGES.get(source.suffix, "text")
            name = source.relative_to(ROOT)
            self.write(
                staged(source),
                f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n````{language}\n{text}\n````\n",
            )

    def write(self, name: Path, text: str) -> None:
        """Write a page."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def relinked(self, text: str, page: Path) -> str:
        """Return ``text`` with its links pointing to staged pages."""
        fences = FENCE.findall(text)
        parts = FENCE.split(text)
        parts = [LINK.sub(lambda found: self.link(found, page), part) for part in parts]
        return "".join(a + b for a, b in zip(parts, [*fences, ""], strict=True))

    def link(self, found: re.Match[str], page: Path) -> str:
        """Return one link as the site has it."""
        opening, target, closing = found.groups()
        path, hash_mark, anchor = target.partition("#")
        if urlsplit(target).scheme or not path:
            return found[0]
        goal = (page.parent / path).resolve()
        if goal.is_dir():
            goal /= "index.md"
            if not goal.exists():
                return f"{opening[1:-2]}"
        elif goal.suffix != ".md" and not goal.is_relative_to(DOCS):
            self.sources.add(goal)
        reached = os.path.relpath(staged(goal), staged(page).parent)
        return f"{opening}{reached}{hash_mark}{anchor}{closing}"


def staged(path: Path) -> Path:
    """Return where a file of the project is in the stage."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS)
    name = path.relative_to(ROOT)
    if str(name) in ROOT_PAGES:
        return Path(ROOT_PAGES[str(name)])
    return Path("source", f"{name}.md")


Nav = list[dict[str, "str | Nav"]]


def navigation() -> Nav:
    """Return the groups of ``docs/index.md`` as the site's navigation."""
    groups: Nav = [{"Home": [{"Documents": "index.md"}, {"Overview": "overview.md"}]}]
    section: Nav = []
    for line in (DOCS / "index.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = []
            groups.append({line[3:]: section})
        elif found := re.match(r"- \[([^\]]+)\]\(([^)]+)\)", line):
            section.append({found[1]: str(staged((DOCS / found[2]).resolve()))})
    decisions: Nav = [{"All": "decisions/index.md"}]
    for page in sorted(DOCS.glob("decisions/0*.md")):
        title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        decisions.append({title: f"decisions/{page.name}"})
    return [*groups, {"Decisions": decisions}]


def toml(value: str | Nav | dict[str, str | Nav]) -> str:
    """Return a navigation as TOML."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        inner = ", ".join(f"{toml(name)} = {toml(goal)}" for name, goal in value.items())
        return f"{{ {inner} }}"
    return f"[{', '.join(map(toml, value))}]"


# Checks


class Page(HTMLParser):
    """The links, anchors and loaded resources of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names, links to or loads."""
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") not in {"canonical", "next", "prev"}:
            self.loaded.append(values.get("href", ""))
        elif "src" in values:
            self.loaded.append(values["src"])


def broken_links() -> list[str]:
    """Return every link inside the site that leads nowhere."""
    pages = {path.resolve(): Page(path) for path in SITE.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            goal = goal / "index.html" if goal.is_dir() else goal
            anchor = unquote(parts.fragment)
            missing = goal in pages and anchor and anchor not in pages[goal].anchors
            if not goal.exists() or missing:
                broken.append(f"{path.relative_to(SITE)}: broken link {link}")
    return broken


def foreign_resources() -> list[str]:
    """Return whatever a page would load from another host."""
    return [
        f"{path.relative_to(SITE)}: loads {resource}"
        for path in SITE.rglob("*.html")
        for resource in Page(path).loaded
        if urlsplit(resource).netloc
    ]


if __name__ == "__main__":
    sys.exit(main())
