from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import treering
from builders import HERE, called, said
from treering.derive.search_snippets import find_terms, snippet_of
from treering.derive.search_texts import (
    TEXT_CHARACTERS_MAX,
    files_in,
    search_text,
    text_of,
    texts_of,
    tool_of,
)
from treering.ledger.search_meaning import masked
from treering.model.scopes import Scope
from treering.model.search_queries import Term, parse_search

if TYPE_CHECKING:
    from treering.model.events import Event


def event_of(new: treering.NewEvent) -> Event:
    with treering.open(":memory:") as ledger:
        ledger.append([new])
        return ledger.events(HERE).items[0]


def terms(text: str) -> tuple[Term, ...]:
    return parse_search(text, Scope(HERE), now_ms=1).terms


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"text": "hello there"}, "hello there"),
        (None, "hello"),
        ({"text": "other"}, "hello\nother"),
        (
            {"text": [{"type": "text", "text": "hello"}, {"type": "image", "data": "x" * 999}]},
            "hello",
        ),
        (
            {"text": "hello", "signature": "abc", "id": "i1", "deep": {"list": ["a", 5]}},
            "hello\na\n5",
        ),
        ({"text": "hello", "noise": "A" * 5_000}, "hello"),
        ({"output": "hello", "error": {"message": "hello"}, "more": ["hello"]}, "hello"),
    ],
)
def test_an_event_says_what_its_payload_says(payload: Any, text: str) -> None:
    assert text_of(event_of(said("hello", payload=payload))) == text


@pytest.mark.parametrize(
    ("kind", "payload", "said_first"),
    [
        ("conversation.user", {"text": "hello there", "model": "m1"}, "hello there"),
        ("conversation.user", {"text": [{"type": "text", "text": "hi", "index": 4}]}, "hi"),
        ("tool.call", {"name": "Write", "input": {"content": "x", "file_path": "a.py"}}, "a.py\nx"),
        ("tool.call", {"name": "sh", "input": "ls"}, "ls"),
        ("tool.call", {"name": "sh", "arguments": {"n": 5, "command": "ls"}}, "ls"),
        ("tool.result", {"name": "sh", "output": {"stdout": "done", "code": 1}}, "done"),
        ("tool.result", {"name": "sh", "output": "", "error": {"message": "no"}}, "no"),
        ("ops.observation", {"record": "mode", "value": "fast"}, "mode\nfast"),
        ("ops.observation", None, "hello"),
    ],
)
def test_what_was_said_comes_first_without_names_and_numbers(
    kind: str, payload: Any, said_first: str
) -> None:
    event = event_of(said("hello", kind=kind, payload=payload))
    texts = list(texts_of(event))

    assert texts[0] == said_first
    assert "hello" in texts
    assert texts[-1] == text_of(event)


@pytest.mark.parametrize(
    ("output", "message", "text"),
    [
        ("exit 1\n== failed ==\nno tide", "exit 1 == failed == no tide", None),
        ("exit 1\n== failed ==\nno tide", "exit 1 == fai…", None),
        ("exit 1\n== failed ==", "exit 1", None),
        ("exit 12", "exit 1", "exit 12\nexit 1"),
        ("exit 1", "exit 1 and more", "exit 1\nexit 1 and more"),
    ],
)
def test_what_is_said_twice_is_told_once(output: str, message: str, text: str | None) -> None:
    payload = {"output": output, "error": {"message": message}}
    event = event_of(called("sh", kind="tool.result", summary=output[:6], payload=payload))

    assert text_of(event) == (text or output)


def test_of_a_long_event_the_beginning_and_the_end_are_kept() -> None:
    long = "first " + "middle " * 150_000 + "last"
    text = text_of(event_of(said("first", payload={"text": long})))

    assert len(text) <= TEXT_CHARACTERS_MAX + 10
    assert text.startswith("first")
    assert text.endswith("last")


def test_files_are_those_that_a_tool_was_given() -> None:
    asked = {
        "file_path": "src/a.py",
        "edits": [{"path": "lib/b.rb"}],
        "command": "cd /srv/app && cat notes.md ./c/d.txt | grep 1.5",
        "content": "import x/y/z.py",
    }
    event = event_of(called("Edit", payload={"name": "Edit", "input": asked}))

    assert set(files_in(event)) == {"src/a.py", "lib/b.rb", "/srv/app", "notes.md", "./c/d.txt"}
    assert tool_of(event) == "Edit"
    assert "src a py" in search_text(event).files.split(" _ ")


def test_a_tool_s_output_names_no_files() -> None:
    event = event_of(
        called("Read", kind="tool.result", payload={"name": "Read", "output": "a/b.py"})
    )

    assert files_in(event) == []


def test_secrets_are_masked_before_anything_is_read() -> None:
    class Careful:
        def suspicious(self, encoded: bytes) -> bool:
            return b"hush" in encoded

        def mask_text(self, text: str) -> str:
            return text.replace("hush", "***")

        def mask_value(self, value: Any) -> Any:
            return msgspec.json.decode(msgspec.json.encode(value).replace(b"hush", b"***"))

    event = masked(Careful(), event_of(said("hush", payload={"text": "say hush now"})))  # type: ignore[arg-type]

    assert "hush" not in text_of(event)
    assert "hush" not in search_text(event).words


def test_a_snippet_begins_before_the_first_match() -> None:
    text = "one two three " * 30 + "the walrus\nsat down " + "four five " * 40
    sighting = find_terms(text, terms("walrus sat"))

    shown, spans = snippet_of(text, sighting.spans)

    assert len(shown) <= 200
    assert [shown[first:last] for first, last in spans] == ["walrus", "sat"]
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_a_snippet_of_a_short_text_is_all_of_it() -> None:
    assert snippet_of("the  walrus\nsat", [(5, 11)]) == ("the walrus sat", [(4, 10)])
    assert snippet_of("nothing was looked for", []) == ("nothing was looked for", [])


@pytest.mark.parametrize(
    ("nearer", "farther"),
    [
        ("walrus sat", "walrus then sat"),
        ("walrus sat", "sat walrus and more"),
        ("walrus then sat", "walrus " + "and " * 20 + "sat"),
    ],
)
def test_words_side_by_side_and_in_order_count_more(nearer: str, farther: str) -> None:
    asked = terms("walrus sat")

    assert find_terms(nearer, asked).nearness > find_terms(farther, asked).nearness


def test_a_text_in_ascii_has_its_matches_where_any_other_has_them() -> None:
    text = f"Say foo_Bar, foo/bar.py: FOO bar, not foot; {'x' * 70} bar"
    asked = terms(f'"foo bar" fo* {"x" * 70} bar absent')

    assert find_terms(text, asked).spans == find_terms(f"{text} é", asked).spans
    assert find_terms(text, asked).found == 4


def test_what_is_inside_of_a_name_is_shown_there() -> None:
    sighting = find_terms("call getUserName now", terms("serna"))

    assert (sighting.found, sighting.spans) == (1, [(9, 14)])
    assert find_terms("nothing of it", terms("serna")).found == 0


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ('cat "app/(shop)/page.tsx"', ["app/(shop)/page.tsx"]),
        ("cat app/(shop)/[slug]/page.tsx", ["app/(shop)/[slug]/page.tsx"]),
        ("rm app/[[...slug]]/@modal/(.)photo/a.tsx", ["app/[[...slug]]/@modal/(.)photo/a.tsx"]),
        (r"rm app/\(shop\)/a.ts", ["app/(shop)/a.ts"]),
        (r"less Tide\ Tables/a.txt", ["Tide Tables/a.txt"]),
        ('vim "Tide Tables/north sea/a b.txt" x/y', ["Tide Tables/north sea/a b.txt", "x/y"]),
        ("cp '/srv/My Files/a b' c/d.md", ["/srv/My Files/a b", "c/d.md"]),
        ("(cd src/x && echo $(cat src/a.py))", ["src/x", "src/a.py"]),
        ('git commit -m "mend a/b and c"', ["a/b"]),
        ("[see](docs/x.md)", ["docs/x.md"]),
        # A bracket that is not closed is no part of a path, on any release of Python.
        ("cat src/a(b/c.py", ["src/a", "b/c.py"]),
        ("cat src/app[x/y.py", ["src/app", "x/y.py"]),
    ],
)
def test_a_path_with_brackets_or_blanks_is_whole(command: str, paths: list[str]) -> None:
    event = event_of(called("Bash", payload={"name": "Bash", "input": {"command": command}}))

    assert files_in(event) == paths


def test_the_middle_of_a_long_output_is_found() -> None:
    output = "\n".join(f"line {n}" for n in range(1_500)) + " the lighthouse " + "tide " * 2_000

    assert (
        "lighthouse"
        in text_of(event_of(called(kind="tool.result", payload={"output": output}))).split()
    )
    assert len(output) < TEXT_CHARACTERS_MAX


def test_of_an_output_of_half_a_million_characters_each_word_is_found() -> None:
    output = "\n".join(f"line {n}" for n in range(50_000)) + " lighthouse " + "tide " * 20_000
    event = event_of(called(kind="tool.result", payload={"output": output}))

    words = set(text_of(event).split())

    assert {"lighthouse", "0", "25000", "49999", "tide"} <= words
