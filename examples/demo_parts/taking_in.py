"""The first chapter: logs that agents have left are imported, searched, read and shared."""

from __future__ import annotations

from typing import Final

from .logs import FAILURE, FRIDAY, QUERY_FILE, SCOPE, TOKEN, mend_the_tail, write_logs
from .stage import FOLDER, chapter, check, choose, line, occurrences, step, treering_command

LEDGER: Final = FOLDER / "agents.db"
LOGS: Final = FOLDER / "logs"
PAGE: Final = FOLDER / "friday.html"
SESSION: Final = FRIDAY[:8]


def show_logs() -> None:
    """Run the chapter."""
    chapter(
        "The logs that you have",
        "Claude Code and Codex worked on a shop. Their logs are in demo-output/logs, with a\n"
        "subagent, a resumed copy, a torn last line, and a token that a tool printed.",
    )
    take_in()
    take_in_again()
    search()
    ask_who_touched_a_file()
    read_a_session()
    make_a_page()
    look_for_the_secret()


def take_in() -> None:
    """Import all logs, and account for every line."""
    step("Import", "Every line is accounted for. Without a path, it looks where agents keep logs.")
    write_logs(LOGS)
    choose(LEDGER, SCOPE)
    done = treering_command("import", str(LOGS))
    check("45 = 28 imported + 14 known already + 2 skipped + 1 in error" in done.stdout,
          "the copy is not counted twice, and the torn line is named with its place")  # fmt: skip


def take_in_again() -> None:
    """Show that nothing is imported twice, and that reading a log continues where it stopped."""
    step("Again", "Run it as often as you like. A log that has grown is read from where it was.")
    again = treering_command("import", str(LOGS))
    mend_the_tail(LOGS)
    line("now the agent writes its torn line to the end", style="dim")
    grown = treering_command("import", str(LOGS))
    check(again.stdout.startswith("imported 0 events"), "nothing is taken in twice")
    check(grown.stdout.startswith("imported 1 event "), "the torn line came when it was whole")


def search() -> None:
    """Search the sessions of both agents."""
    step("Search", "Both agents at once: words, phrases, and what narrows them down.")
    phrase = treering_command("search", '"no such column"')
    narrowed = treering_command("search", "index kind:conversation.assistant agent:codex")
    check(FAILURE in phrase.stdout and FRIDAY[:8] in phrase.stdout,
          "an error of Friday is found by its words, with the command that shows it")  # fmt: skip
    check(narrowed.returncode == 0 and FRIDAY not in narrowed.stdout,
          "the other agent said what the page needs")  # fmt: skip


def ask_who_touched_a_file() -> None:
    """Ask for the history of a file, by agents."""
    step("File history", "Who touched this file, when, and what had been asked?")
    found = treering_command("file-history", QUERY_FILE)
    check(all(agent in found.stdout for agent in ("claude-code", "codex")),
          "one agent wrote the query on Friday, another read it on Monday")  # fmt: skip


def read_a_session() -> None:
    """Read one session."""
    step("Show", "One session, turn by turn; the beginning of its id will do.")
    shown = treering_command("show", SESSION)
    check("1 failing" in shown.stdout and "subagent →" in shown.stdout,
          "its failing test, its fork and its subagent are one glance away")  # fmt: skip


def make_a_page() -> None:
    """Write one session as a page."""
    step("Export", "To hand it to somebody: one page that needs nothing else, secrets masked.")
    done = treering_command("export", SESSION, "--format", "html", "--payload", "--out", str(PAGE))
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    check(done.returncode == 0 and FAILURE in page and "src=" not in page,
          f"open {PAGE} in a browser")  # fmt: skip
    line(f"or look at everything, live: treering --db {LEDGER} view")


def look_for_the_secret() -> None:
    """Prove that the token in the logs is in nothing derived from them."""
    step("Secrets", "A tool had printed a token. It was masked on its way in, payloads included.")
    treering_command("search", "PAYMENTS_TOKEN")
    logs = sum(path.read_bytes().count(TOKEN.encode()) for path in LOGS.rglob("*.jsonl"))
    # Summary and payload hold its mask in clear: these bytes would show the token, were it there.
    masks, token = (occurrences(text, LEDGER) for text in ("PAYMENTS_TOKEN=[redacted", TOKEN))
    page = PAGE.read_bytes().count(TOKEN.encode())
    line(f"raw bytes: {logs} copies in the logs, {token} in the ledger, {page} in the page")
    check(logs > 0 and masks >= 2 and token == page == 0, "the token is in no byte of them")
