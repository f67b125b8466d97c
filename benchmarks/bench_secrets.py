"""How well the guard finds secrets, how seldom it errs, and how fast it is."""

import statistics
import time
from collections.abc import Callable
from typing import Final

import blind_sets
import secrets_corpus
from treering.capture.secrets import SecretGuard

MIXED_CHARS: Final = 1_000_000
CLEAN_BYTES: Final = 500
REPEATS: Final = 9
SEED: Final = 20_261_116
BLIND_SETS: Final = (
    "blind_lines.txt",
    "blind_lines_later.txt",
    "blind_lines_last.txt",
    "blind_lines_fresh.txt",
    "blind_lines_newest.txt",
    "blind_lines_layouts.txt",
    "blind_lines_wide.txt",
)
# The three parts of the set of layouts came to 82, 66 and 65 % at first sight. Those of the wide
# one, by somebody who saw no rule, to 97, 90 and 98 %, and to 93, 87 and 95 % before the layouts.
BLIND_CLEAN: Final = (
    "blind_clean.txt",
    "blind_clean_fresh.txt",
    "blind_clean_layouts.txt",
    "blind_clean_wide.txt",
)

_CLEAN: Final = """\
2026-03-05T10:22:31.123Z INFO worker[12]: fetched 24 rows from orders in 18.2 ms (cache miss)
    return self.render(request, template, {"items": items, "page": page or 1})
{"kind":"tool.result","session":"5f2c1c9e-0c57-4c55-9a53-0e2f4c5a1b7d","usage":{"input_tokens":120}}
The new index made the query ten times faster; I will write that down in the notes for Friday.
commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b  src/storage/events.py | 24 +++++----
see https://example.com/docs/storage?page=2#events and the file /srv/app/main.py:31:7
"""


def run() -> dict[str, float]:
    guard = SecretGuard(key=b"benchmark")
    mended_with, held_out = secrets_corpus.unseen_positives()
    mixed = secrets_corpus.mixed_text(MIXED_CHARS)
    clean = _CLEAN[:CLEAN_BYTES]
    encoded = clean.encode()
    return {
        "recall": _recall(guard, secrets_corpus.positives()),
        "false_positive_rate": _false_rate(guard, secrets_corpus.negatives()),
        "unseen_recall": _recall(guard, mended_with),
        "held_out_recall": _recall(guard, held_out),
        "unseen_false_rate": _false_rate(guard, secrets_corpus.unseen_negatives()),
        "blind_recall": min(_recall(guard, lines) for lines in _blind_lines()),
        "blind_false_rate": max(
            _false_rate(guard, blind_sets.clean(name, seed=SEED)) for name in BLIND_CLEAN
        ),
        "mb_per_s": len(mixed.encode()) / 1e6 / _seconds(lambda: guard.mask_text(mixed), 1),
        "clean_500_us": _seconds(lambda: guard.mask_text(clean), 2_000) * 1e6,
        "suspicious_500_us": _seconds(lambda: guard.suspicious(encoded), 2_000) * 1e6,
    }


def main() -> None:
    for name, number in run().items():
        print(f"{name:20} {number:10.4f}")


def _blind_lines() -> list[list[tuple[str, str]]]:
    """Give the lines of each set that was written before the rules, each with its secret."""
    return [
        [line for family in blind_sets.secrets(name, seed=SEED).values() for line in family]
        for name in BLIND_SETS
    ]


def _recall(guard: SecretGuard, positives: list[tuple[str, str]]) -> float:
    found = sum(
        secrets_corpus.covered(
            [(hit.start, hit.end) for hit in guard.find_text(line)], line, secret
        )
        for line, secret in positives
    )
    return found / len(positives)


def _false_rate(guard: SecretGuard, negatives: list[str]) -> float:
    return sum(bool(guard.find_text(line)) for line in negatives) / len(negatives)


def _seconds(work: Callable[[], object], count: int) -> float:
    """Give the processor time of one call: the median of some repeats."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        for _ in range(count):
            work()
        times.append((time.process_time() - start) / count)
    return statistics.median(times)


if __name__ == "__main__":
    main()
