"""Choose the pieces of keywords by which the guard's alarm finds them, from the logs of agents.

    python scripts/choose_alarm_pieces.py LOG... > pieces.txt

A piece that is rare in logs and common to many keywords is best: the automaton stays small, and few
keywords are compared in vain. The output goes into ``PIECES`` of ``capture/secret_alarm.py``; any
list of pieces finds the same secrets.
"""

import heapq
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from treering.capture.secret_rules import SECRET_RULES

PIECE_BYTES: Final = range(2, 7)
STATE_COST: Final = 5
"""How often a piece may occur in three megabytes for one state less of the automaton."""
COMPARISON_COST: Final = 1
"""Against that of finding a piece."""
MEGABYTES: Final = 3
LINE_CHARACTERS_MAX: Final = 97
VETOED: Final = {word.encode() for rule in SECRET_RULES if rule.veto for word in rule.keywords}


def choose(keywords: Iterable[bytes], logs: bytes) -> list[bytes]:
    """Return pieces, one of which is in each of ``keywords``, the rarest in ``logs`` first."""
    holders: dict[bytes, set[bytes]] = {}
    for keyword in keywords:
        for piece in _pieces_of(keyword):
            holders.setdefault(piece, set()).add(keyword)
    counts = _count(holders, logs)
    state_cost = STATE_COST * len(logs) / (MEGABYTES * 1_000_000)

    def price(piece: bytes) -> float:
        # At each occurrence, every keyword that has it is compared.
        compared = counts[piece] * (1 + COMPARISON_COST * len(holders[piece]))
        return (compared + state_cost * len(piece)) / len(holders[piece])

    left = set(keywords)
    chosen: list[bytes] = []
    queue = [(price(piece), piece) for piece in holders]
    heapq.heapify(queue)
    while left:
        _, piece = heapq.heappop(queue)
        still = holders[piece] & left
        if not still:
            continue
        if len(still) < len(holders[piece]):
            # Others have taken some of its keywords, so its price has risen.
            holders[piece] = still
            heapq.heappush(queue, (price(piece), piece))
            continue
        chosen.append(piece)
        left -= still
    return sorted(chosen, key=lambda piece: (counts[piece], piece))


def _pieces_of(keyword: bytes) -> Iterable[bytes]:
    yield keyword
    if keyword in VETOED:
        return  # What follows it is looked at only if it is a piece of its own.
    for size in PIECE_BYTES:
        for start in range(len(keyword) - size + 1):
            yield keyword[start : start + size]


def _count(pieces: Iterable[bytes], logs: bytes) -> dict[bytes, int]:
    occurrences: Counter[bytes] = Counter()
    for size in PIECE_BYTES:
        occurrences.update(logs[at : at + size] for at in range(len(logs) - size + 1))
    return {
        piece: occurrences[piece] if len(piece) in PIECE_BYTES else logs.count(piece)
        for piece in pieces
    }


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
    words |= {word.replace('"', '\\"') for word in words} | {"\x1b[", "\\u001b["}
    return sorted(word.encode() for word in words)


def _quoted(piece: str) -> str:
    escaped = piece.replace("\\", "\\\\").replace("\x1b", "\\x1b")
    return f"'{escaped}'" if '"' in piece else f'"{escaped}"'


if __name__ == "__main__":
    main()
