"""Choose the pieces of keywords by which the guard's alarm finds them, from logs of agents.

    python scripts/choose_alarm_pieces.py LOG... > pieces.txt

Give it texts of many kinds: a piece that is rare in one may be common in another. The output goes
into ``PIECES`` of ``capture/secret_alarm.py``; any list of pieces finds the same secrets.

A check takes longer for every piece that occurs in the text, and for every part of the automaton
that it loads into the processor's cache. So each keyword gets the piece that adds the least, given
the pieces of all others, again and again until nothing changes.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ahocorasick_rs import BytesAhoCorasick, Implementation

from treering.capture.secret_rules import SECRET_RULES

PIECE_BYTES: Final = range(2, 8)
EVENT_BYTES: Final = 500
# Nanoseconds, measured while events are recorded.
HIT_COST: Final = 1_000
COMPARISON_COST: Final = 150
CACHE_LINE_COST: Final = 12
STATE_COST: Final = 0.2
"""For the time it takes to build the automaton."""
CACHE_LINE_CLASSES: Final = 16
ROUNDS_MAX: Final = 20
CHUNK_BYTES: Final = 100_000
LINE_CHARACTERS_MAX: Final = 97
VETOED: Final = {word.encode() for rule in SECRET_RULES if rule.veto for word in rule.keywords}


class Logs:
    """Counts what occurs in logs: the beginnings of pieces, and what follows them."""

    def __init__(self, beginnings: Iterable[bytes], logs: bytes) -> None:
        words = sorted(set(beginnings))
        lines = _cache_lines(words)
        counts: Counter[int] = Counter()
        loads: Counter[tuple[int, int]] = Counter()
        find = BytesAhoCorasick(words, implementation=Implementation.DFA).find_matches_as_indexes
        for at in range(0, len(logs), CHUNK_BYTES):
            chunk = logs[at : at + CHUNK_BYTES]
            next_lines = chunk.translate(lines) + b"\0"
            for index, _, end in find(chunk, True):
                counts[index] += 1
                loads[index, next_lines[end]] += 1
        share = EVENT_BYTES / len(logs)
        self.rates = {word: (counts[index] + 0.5) * share for index, word in enumerate(words)}
        """How often a beginning occurs in an event."""
        self.loads: Counter[bytes] = Counter()
        """How many cache lines of a beginning's state an event loads."""
        for (index, _), count in loads.items():
            self.loads[words[index]] += 1 - math.exp(-count * share)  # type: ignore[assignment]


def choose(keywords: Sequence[bytes], text: bytes) -> list[bytes]:
    """Return the pieces that find ``keywords`` fastest, the rarest in ``text`` first."""
    pieces_of = {keyword: sorted(_pieces_of(keyword)) for keyword in keywords}
    logs = Logs((head for pieces in pieces_of.values() for p in pieces for head in _heads(p)), text)
    holders: Counter[bytes] = Counter()
    states: Counter[bytes] = Counter()
    chosen: dict[bytes, bytes] = {}

    def price(piece: bytes) -> float:
        if holders[piece]:
            return logs.rates[piece] * COMPARISON_COST
        added = [head for head in _heads(piece) if not states[head]]
        built = sum(logs.loads[head] * CACHE_LINE_COST + STATE_COST for head in added)
        return logs.rates[piece] * (HIT_COST + COMPARISON_COST) + built

    for _ in range(ROUNDS_MAX):
        before = dict(chosen)
        for keyword in sorted(keywords, key=len):
            if keyword in chosen:
                _hold(holders, states, chosen[keyword], -1)
            chosen[keyword] = min(pieces_of[keyword], key=price)
            _hold(holders, states, chosen[keyword], 1)
        if chosen == before:
            break
    # A keyword that has no piece is its own.
    pieces = {piece for keyword, piece in chosen.items() if piece != keyword}
    return sorted(pieces, key=lambda piece: (logs.rates[piece], piece))


def _hold(holders: Counter[bytes], states: Counter[bytes], piece: bytes, change: int) -> None:
    holders[piece] += change
    if holders[piece] == max(change, 0):
        states.update(dict.fromkeys(_heads(piece), change))


def _heads(piece: bytes) -> list[bytes]:
    return [piece[:size] for size in range(1, len(piece) + 1)]


def _pieces_of(keyword: bytes) -> set[bytes]:
    if keyword in VETOED:
        return {keyword}  # What follows a piece is looked at only if that is one keyword.
    parts = (
        keyword[start : start + size]
        for size in PIECE_BYTES
        for start in range(len(keyword) - size + 1)
    )
    return {keyword, *(part for part in parts if part not in VETOED)}


def _cache_lines(words: Iterable[bytes]) -> bytes:
    """Return the cache line of a state that holds the transition of each byte."""
    used = {byte for word in words for byte in word}
    classes = [0]
    for byte in range(1, 256):
        classes.append(classes[-1] + (byte in used or byte - 1 in used))
    return bytes(number // CACHE_LINE_CLASSES for number in classes)


def main() -> None:
    """Print the pieces as lines of Python."""
    logs = b"\0".join(Path(path).read_bytes() for path in sys.argv[1:])
    line = "   "
    for piece in choose(_keywords(), logs):
        listed = f" {_quoted(piece.decode())},"
        if len(line) + len(listed) > LINE_CHARACTERS_MAX:
            print(line)
            line = "   "
        line += listed
    print(line)


def _keywords() -> list[bytes]:
    """Return the keywords as they are in text and in JSON."""
    words = {word for rule in SECRET_RULES for word in rule.keywords if word.isascii()}
    words |= {word.replace('"', '\\"') for word in words} | {"\x1b", "\\u001b"}
    return sorted(word.encode() for word in words)


def _quoted(piece: str) -> str:
    escaped = piece.replace("\\", "\\\\").replace("\x1b", "\\x1b")
    return f"'{escaped}'" if '"' in piece else f'"{escaped}"'


if __name__ == "__main__":
    main()
