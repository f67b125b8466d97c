"""Secrets whose name stands in another cell or on another line: tables, labels, terminals.

The column below a name, the cell beside it, the line below a label, and what a command printed that
was asked for a secret. Such a place proves less than a sign between name and value, so a value must
look like a password or be random.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Final, TypeAlias

from treering.capture.secret_assignments import NAME_CHARS, NAME_CHARS_MAX, Span
from treering.capture.secret_names import NAMES_CACHED_MAX, Named, named
from treering.capture.secret_speech import SPOKEN_KEYS, SPOKEN_PASSWORDS
from treering.capture.secret_values import (
    has_digit,
    is_code,
    is_given,
    is_jumbled,
    is_mixed,
    is_name_like,
    is_random,
    is_scrambled,
    is_strong,
    without_stop,
)
from treering.lazy import lazy_pattern

Cell: TypeAlias = tuple[int, int]
"""Where a cell begins and ends in its line."""
Place: TypeAlias = tuple[int, str, Cell]
"""Where a line begins, the line, and a cell of it."""

LINE_CHARS_MAX: Final = 1_024
TABLE_CHARS_MAX: Final = 65_536
SENTENCE_CHARS_MAX: Final = 96
UNMISTAKABLE_CHARS_MIN: Final = 8

_MARKS: Final = " \t\r\"'`\\:："
_FRAMES: Final = ("│", "┃", "║", "|")
_SEPARATORS: Final = ("</th>", "</td>", *_FRAMES, "\t", "\\t", ";", ",")
"""What parts the cells of a line; the first that occurs counts."""
_TAIL: Final = lazy_pattern(
    r"(?P<name>[A-Za-z0-9_-]{0,32}+)(?:[.](?:txt|key|pass|asc|gpg|age)\b)?[\"'`*)\]}>%]{0,4}"
    r"(?=[ ]{0,3}[:：]?[ *]{0,3}(?:[|│┃║,;.!?\t\r\n\]]|\\[nrt]|</|[ ]|\Z))"
)
_RULE: Final = lazy_pattern(r"[\s|+:─-╿-]{0,64}[═=─-╿-][\s|+:=─-╿═-]{0,1024}")
_NAME: Final = lazy_pattern(r"(?:[^\W_]|[ ._/#'-]){2,48}(?:\([\w .-]{1,24}\))?")
_ALIGNED: Final = lazy_pattern(r"\S{1,256}(?:[ ]\S{1,256}){0,64}")
_NO_CELL: Final = lazy_pattern(
    r"[ ]|[(){}\[\]:,;]\Z|\A[0-9]{4}-[0-9]{2}|\A[0-9]{1,2}[./:][0-9]{1,2}"
)
"""Remarks, code and dates."""
_VALUES: Final = lazy_pattern(r"=|://|\D[0-9]{2}")
_JSON_ROWS: Final = lazy_pattern(
    r"\\{0,3}\"[^\[\]{}]{0,400}\](?:,\s{0,16}\\{0,3}\"\w{1,24}\\{0,3}\"\s?:\s?\[|,)\s{0,16}(?=\[)"
)
_LINE_NUMBER: Final = lazy_pattern(r"[ ]{0,8}[0-9]{1,6}(?:→|\t|\\t)")
_SPOKEN: Final = tuple(
    word.lower().rstrip(":") for word in SPOKEN_PASSWORDS.split("|") if " key" not in word
)
_SPOKEN_KEYS: Final = tuple(word.lower() for word in SPOKEN_KEYS.split("|"))

_END: Final = r"(?:\r?\n|(?:\\r)?\\n)"
_WORD: Final = r"[^\s\"'`<>\\│┃║|]"
_LABEL: Final = lazy_pattern(
    r"[\s#>*_•|─-╿=`\"<\[-]{0,12}(?:[0-9]{1,2}[.)][ ])?[\"'`]?"
    r"(?:[^\W\d_][\w'()/-]{0,20}[:,]?[ ]){0,6}"
)
_BELOW: Final = lazy_pattern(
    rf"(?:(?P<sign>[^\n:：\d\"'`<>=(|]{{0,64}}+(?=[:：]))?[ ]?[:：]?"
    rf"|(?P<asked>\?)|[ ]?[─-╿═=-]{{1,80}})"
    rf"(?:\*\*|__|</\w{{1,8}}>)?[ \t]{{0,128}}(?:{_END}|(?<=\?)[ ]|(?<=\? ))"
    rf"(?:[ \t>]{{0,80}}{_END}|[ \t]{{0,80}}[=-]{{3,80}}[ ]{{0,80}}{_END}){{0,2}}"
    rf"(?:[ \t>]{{0,16}}```\w{{0,12}}{_END})?"
    r"[ \t>│┃║|]{0,16}(?:[0-9]{1,2}[.)][ ]|[-*+•][ ]|(?i:(?:new[ ])?value:[ ])"
    r"|(?(asked)[A-Za-z][\w .-]{0,24}:[ ]|(?!)))?[`\"'*]{0,3}"
    rf"(?P<value>{_WORD}{{6,512}})[`\"'*]{{0,3}}[ \t│┃║|]{{0,80}}(?={_END}|\Z)"
)
_PROMPT: Final = lazy_pattern(
    r"(?:\"[^\"\n]{1,24}\"\s?:\s?\")?"
    r"(?:(?:[^\n]{0,60}?[$#%❯»➜]|(?:PS[ ])?[A-Z]:\\[^>\n]{0,60}>|PS>|[\w.()\[\]-]{0,24}[>+]{1,3}"
    r"|In[ ]\[[0-9]{1,4}\]:)[ ]|(?:sudo[ ])?(?=(?:kubectl|oc|vault|aws|gcloud|az|terraform|tofu"
    r"|heroku|fly|flyctl|railway|pulumi|docker|podman|consul|etcdctl|cat|echo|printenv|argocd|helm"
    r"|sops|jq|yq|redis-cli|rails|bin/rails|chamber|nomad)[ ]))"
    r"(?![^\n]{0,40}\b(?:git(?! config)|grep|rg|find|ls|wc|sed|awk|stat|man|which"
    r"|docker (?:ps|images|secret))[ ])"
)
_ASKS: Final = lazy_pattern(
    r"(?i:.{0,200}?\b(?:cat|bat|head|tail|less|more|type|printenv|echo|printf|get|read|show|view|pass"
    r"|output|print|exec|create|generate|gen|new|decrypt|decode|reveal|fetch|lookup|token|retrieve"
    r"|query|rand|select|[jy]q|gpg|age|base64))"
)
_PRINTED: Final = lazy_pattern(
    rf"(?P<rest>(?![ ][a-z]{{2,24}}[ ,\"])[^\n\\]{{0,160}}){_END}"
    r"(?:=>[ ]|Out\[[0-9]{1,4}\]:[ ])?[\"']?"
    rf"(?P<value>{_WORD}{{6,4096}})[\"']?[ \t]{{0,16}}(?={_END}|\Z)"
)
_OPTIONS: Final = lazy_pattern(
    r"[\w\]\"')}%]{0,160}(?:[ ]--?\w[\w=.:/-]{0,48}(?:[ ][\w.:/@-]{1,64})?){0,6}"
    r"(?:[ ]2>\S{1,24})?(?:[ ]?[|;][^\n]{0,100})?"
)
_LEADER: Final = lazy_pattern(
    rf"[ ]?\.{{2,40}}[ ]?:?[ ]{{0,2}}(?P<value>{_WORD}{{5,128}})(?=\s|\Z)"
)
_ELEMENT: Final = lazy_pattern(
    r"(?:[ ](?:is|ist|es|est|è|é))?:?[ ]?(?:</?\w[^<>]{0,80}>\s{0,16}){1,5}"
    r"(?P<value>[^\s<>]{5,512})(?=<)"
)
_PLAIN: Final = r"[^\W\d_][\w']{0,15}"
_AFTER: Final = lazy_pattern(
    rf"(?:[,;:]?[ ]{_PLAIN}(?![^\s,;:])){{0,6}}[,:]?[ ][\"'`(“]?(?P<value>{_WORD}{{8,64}})"
)
_BEFORE: Final = lazy_pattern(
    rf"(?<![^\s\"'`(“])(?P<value>{_WORD}{{5,64}})[\"'`)”]?"
    rf"(?P<link>(?:[ ](?:<?-|=|{_PLAIN})){{1,6}}[ ])\Z"
)
_IS: Final = lazy_pattern(
    r"[ ](?:is|was|ist|est|(?:in[ ])?as|<-|=)(?:[ ](?:the|my|our|your|a|an|\w{3,12})){0,3}[ ]"
)
_STOPS: Final = lazy_pattern(r"\s{0,4}(?:\Z|[.,;:!?)\n]|(?:for|of|on|in|at|to|now|and|here)\b)")
_SYMBOL: Final = lazy_pattern(r"[!#$%&*@^?+=~]")
_NO_PASSWORD: Final = lazy_pattern(
    r"[/:(){}\[\]|,;]|(?i:pass|secret|token|key)|[A-Za-z]{5,64}[0-9]?\Z"
    r"|@[\w-]{1,64}\.|\A[#@$%&]\w{1,64}\Z"
)
_LONG_WORD: Final = lazy_pattern(r"[a-z]{5}|[A-Z]{5}")
_VALUE_FIRST: Final = lazy_pattern(
    r"\"(?i:value)\":\s?\"(?P<value>[^\"\\\n]{5,512})\",\s{0,8}\"(?i:name|key)\":\s?\"\Z"
)


def find_around(text: str, start: int, end: int) -> list[Span]:
    """Find the secrets that the name around ``text[start:end]`` has in other cells or lines."""
    if text[end - 1] not in NAME_CHARS:
        end -= 1  # A short name is found with the sign after it.
    tail = _TAIL.match(text, end)
    if tail is None:
        return []
    end, name_end = tail.end(), tail.end("name")
    before = text[max(0, start - NAME_CHARS_MAX) : start]
    name_start = start - len(before) + len(before.rstrip(NAME_CHARS))
    # Most words near a sign name no secret, and that is known at once.
    promise = _promised(text[name_start:name_end])
    if promise is None and _promised(text[start:name_end]) is None:
        return []
    if promise is not None and promise.demand == "tangled" and before[-1:] != " ":
        return []
    first = max(0, start - LINE_CHARS_MAX)
    newline = "\n" if text.find("\n", first, end + LINE_CHARS_MAX) != -1 else "\\n"
    line_start = _start_of_line(text, first, start, newline)
    if "." in text[name_start:start] or text[name_start - 1 : name_start] in ("(", "=", "{", "&"):
        # An expression, of which at most a prompt for code tells the value.
        return _printed(text, line_start, start, tail)
    may_end_cell = text[end : end + 1] != " " or not text[end + 1 : end + 2].isalnum()
    return (
        (may_end_cell and _in_table(text, start, name_end, first, newline))
        or _below_label(text, line_start, start, end)
        or _printed(text, line_start, start, tail)
        or _in_sentence(text, line_start, start, tail)
        or (text[name_start - 1 : name_start] == '"' and _before(text, start, name_end))
        or []
    )


def _start_of_line(text: str, first: int, start: int, newline: str) -> int:
    found = text.rfind(newline, first, start)
    return found + len(newline) if found != -1 else first


@lru_cache(maxsize=NAMES_CACHED_MAX)
def _promised(name: str) -> Named | None:
    """Return what the name in a cell or a label implies, in any of many languages."""
    name = name.partition("(")[0].strip(_MARKS)
    if name.lower().endswith(_SPOKEN):
        return Named("password", "given")
    if name.lower().endswith(_SPOKEN_KEYS):
        return Named("token", "opaque")
    return named(name.replace(" ", "_"))


def _below_label(text: str, line_start: int, start: int, end: int) -> list[Span]:
    """Return the secret below a label, after its dots, or in the element after its own."""
    label = text[line_start:end].rstrip(">").rpartition(">")[2]
    if not _LABEL.match(label):
        return []
    head = text[line_start:start].rstrip(NAME_CHARS)
    for pattern in (_BELOW, _LEADER, _ELEMENT):
        below = pattern.match(text, end)
        if below is not None and (pattern is not _BELOW or _LABEL.fullmatch(head)):
            if pattern is _BELOW and below["sign"] is None and _is_word(below["value"]):
                return []
            return _if_fits(_promised(label.strip(' \t#>*_•|│┃║=`"<-')), below)
    return []


def _is_word(value: str) -> bool:
    return is_name_like(value) or value.rstrip("0123456789").isalpha()


def _printed(text: str, line_start: int, start: int, tail: re.Match[str]) -> list[Span]:
    """Return what a command printed that was asked for a secret."""
    prompt = _PROMPT.match(text, line_start)
    printed = (
        _PRINTED.match(text, tail.end()) if prompt is not None and prompt.end() <= start else None
    )
    if prompt is None or printed is None:
        return []
    if not (_OPTIONS.fullmatch(printed["rest"]) or _ASKS.match(text, prompt.end(), start)):
        return []
    head = text[prompt.end() : start].rstrip(NAME_CHARS)
    name = text[prompt.end() + len(head) : tail.end("name")]
    return _if_fits(
        named(name) or named(name.rpartition(".")[2]) or named(text[start : tail.end("name")]),
        printed,
    )


def _in_sentence(text: str, line_start: int, start: int, tail: re.Match[str]) -> list[Span]:
    """Return a word of the sentence that can be nothing but a password."""
    head = text[max(line_start, start - SENTENCE_CHARS_MAX) : start].rstrip(NAME_CHARS)
    name_start = max(line_start, start - SENTENCE_CHARS_MAX) + len(head)
    promise = named(text[name_start : tail.end("name")])
    if promise is None or promise.rule != "password":
        return []
    found = _AFTER.match(text, tail.end())
    if found is not None and _is_unmistakable(found["value"]):
        return _word(promise, found)
    found = _BEFORE.search(text, max(line_start, name_start - SENTENCE_CHARS_MAX), name_start)
    if found is None:
        return []
    is_said = (
        _IS.fullmatch(found["link"]) is not None and _STOPS.match(text, tail.end()) is not None
    )
    value = without_stop(found["value"])
    proved = is_said and _fits(promise, value) and not is_name_like(value)
    return _word(promise, found) if proved or _is_unmistakable(found["value"]) else []


def _word(promise: Named, found: re.Match[str]) -> list[Span]:
    value = without_stop(found["value"].rstrip(")”"))
    return [(promise.rule, found.start("value"), found.start("value") + len(value))]


def _before(text: str, start: int, end: int) -> list[Span]:
    """Return the value of an object of JSON that has its name after it."""
    before = text[max(0, start - LINE_CHARS_MAX) : start].rstrip(NAME_CHARS)
    found = _VALUE_FIRST.search(before) if before.endswith('"') else None
    if found is None:
        return []
    name_start = start - len(text[max(0, start - LINE_CHARS_MAX) : start]) + len(before)
    spans = _if_fits(named(text[name_start:end]), found)
    offset = name_start - len(before)
    return [(rule, at + offset, stop + offset) for rule, at, stop in spans]


def _is_unmistakable(word: str) -> bool:
    value = without_stop(word.rstrip(")”"))
    if (
        len(value) < UNMISTAKABLE_CHARS_MIN
        or not has_digit(value)
        or _NO_PASSWORD.search(value)
        or not is_given(value)
    ):
        return False
    if value.isalnum():
        return is_scrambled(value) and _LONG_WORD.search(value) is None
    return is_strong(value) and _SYMBOL.search(value) is not None


def _if_fits(promise: Named | None, found: re.Match[str]) -> list[Span]:
    if promise is None or not _fits(promise, found["value"]):
        return []
    return [(promise.rule, *found.span("value"))]


def _in_table(text: str, start: int, end: int, first: int, newline: str) -> list[Span]:
    """Return the secrets in the column below the name, or in the cell beside it."""
    if text.startswith("</th>", end):
        newline = "</tr>"
    elif _JSON_ROWS.match(text, end):
        newline = "]"
    line_start = _start_of_line(text, first, start, "[" if newline == "]" else newline)
    numbered = _LINE_NUMBER.match(text, line_start, start)
    lines = _lines(text, line_start, newline, is_numbered=numbered is not None)
    line_start, line = next(lines, (0, ""))
    separator = next((sign for sign in _SEPARATORS if sign in line), "")
    is_list = separator == "|" and " |" not in line and not line.startswith("|")
    cells = _cells(line, separator)
    index = sum(line_start + stop <= start for _, stop in cells)
    if not index < len(cells) > 1 or sum(stop - at > 1 for at, stop in cells) < len("kv"):
        return []
    name = _inner(line[slice(*cells[index])])
    promise = _promised(name) if _NAME.fullmatch(name) else None
    if promise is None:
        return []
    places: Iterator[Place] = iter(())
    below = next(lines, (0, ""))
    if _is_header(text, line_start, line, separator, newline, below[1]):
        places = _column(chain((below,), lines), cells, index, separator)
    elif not is_list and (len(cells) == len("kv") or separator in _FRAMES):
        places = iter([(line_start, line, cell) for cell in cells[index + 1 : index + 3]])
    return [span for place in places for span in _in_cell(promise, *place)]


def _lines(text: str, at: int, newline: str, *, is_numbered: bool) -> Iterator[tuple[int, str]]:
    """Yield the lines from ``at`` to a blank one, each with its start, without their numbers."""
    limit = at + TABLE_CHARS_MAX
    while at < min(limit, len(text)):
        end = text.find(newline, at, at + LINE_CHARS_MAX)
        line = text[at : end if end != -1 else at + LINE_CHARS_MAX]
        number = _LINE_NUMBER.match(line) if is_numbered else None
        skipped = number.end() if number else line.rfind("[") + 1 if newline == "]" else 0
        if not line[skipped:].strip():
            return
        yield at + skipped, line[skipped:]
        if end == -1:
            return
        at = end + len(newline)


def _cells(line: str, separator: str) -> list[Cell]:
    """Return where each cell begins and ends; without a separator two blanks part them."""
    if not separator:
        return [word.span() for word in _ALIGNED.finditer(line)]
    cells = []
    at = 0
    while at <= len(line):
        closing = line.find('"', at + 1) if line.startswith('"', at) else -1
        stop = line.find(separator, max(at, closing))
        stop = stop if stop != -1 else len(line)
        cells.append((at, stop))
        at = stop + len(separator)
    return cells


def _inner(cell: str) -> str:
    """Return what a cell holds without markup, quotes and the number of its line."""
    value = cell.rpartition(">")[2].strip(_MARKS)
    return value.strip("*") if value.startswith("*") else value


def _is_header(
    text: str, line_start: int, line: str, separator: str, newline: str, below: str
) -> bool:
    """Return whether a line begins a table: no line like it is before, and it has no values."""
    if newline in ("]", "</tr>"):
        return True
    if not below or _VALUES.search(line):
        return False
    if separator in _FRAMES and (separator != "|" or " |" in line or line.startswith("|")):
        return _RULE.fullmatch(below) is not None
    end = line_start - len(newline)
    before = text[max(0, end - LINE_CHARS_MAX) : max(0, end)].rpartition(newline)[2]
    return len(_cells(before, separator)) < len("kv")


def _column(
    rows: Iterator[tuple[int, str]], columns: list[Cell], index: int, separator: str
) -> Iterator[Place]:
    first = columns[index][0]
    for row_start, row in rows:
        if _RULE.fullmatch(row):
            continue
        cells = _cells(row, "</td>" if separator == "</th>" else separator)
        if separator:
            cell = cells[index] if len(cells) == len(columns) else None
        else:
            cell = next((cell for cell in cells if cell[0] == first), None)
        if cell is None:
            return
        yield row_start, row, cell


def _in_cell(promise: Named, row_start: int, row: str, cell: Cell) -> list[Span]:
    value = _inner(row[slice(*cell)])
    if not _fits(promise, value):
        return []
    at = row_start + row.rindex(value, *cell)
    return [(promise.rule, at, at + len(value))]


def _fits(promise: Named, value: str) -> bool:
    """Return whether a value is a secret rather than a type, a date, a state or a remark."""
    if _NO_CELL.search(value) or is_code(value):
        return False
    if promise.rule != "password":
        strong = promise.rule == "secret" and is_strong(value)
        return promise.demand != "tangled" and (strong or is_random(value))
    return is_jumbled(value) or is_scrambled(value) or (has_digit(value) and is_mixed(value))
