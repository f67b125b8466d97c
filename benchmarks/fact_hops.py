"""Questions that need two or three facts, made from a set of plain facts.

Of "The author of Emma is Jane." and "Jane is married to Tom." it makes "What is the spouse of the
author of Emma?". The last fact of a subject and relation holds.
"""

import random
import re
from collections.abc import Sequence
from typing import Final

import msgspec

_RELATIONS: Final = (
    (
        r"The (author|director|chairperson|capital|official language) of (?P<s>.+) is (?P<v>.+)\.",
        "the {relation} of {subject}",
    ),
    (
        r"The (chief executive officer) of (?P<s>.+) is (?P<v>.+)\.",
        "the {relation} of {subject}",
    ),
    (r"(?P<s>.+) is (married) to (?P<v>.+)\.", "the spouse of {subject}"),
    (r"(?P<s>.+) is a (citizen) of (?P<v>.+)\.", "the country of citizenship of {subject}"),
    (r"(?P<s>.+) was (founded) by (?P<v>.+)\.", "the founder of {subject}"),
    (
        r"(?P<s>.+) was (created) in the country of (?P<v>.+)\.",
        "the country of origin of {subject}",
    ),
    (
        r"(?P<s>.+) is associated with the (sport) of (?P<v>.+)\.",
        "the sport associated with {subject}",
    ),
    (r"(?P<s>.+) was (born) in the city of (?P<v>.+)\.", "the city where {subject} was born"),
    (r"(?P<s>.+) is (employed) by (?P<v>.+)\.", "the employer of {subject}"),
    (r"(?P<s>.+) was (developed) by (?P<v>.+)\.", "the developer of {subject}"),
    (r"(?P<s>.+) is affiliated with the (religion) of (?P<v>.+)\.", "the religion of {subject}"),
)


class HopQuestion(msgspec.Struct, frozen=True):
    """A question that needs several facts, and its answer."""

    text: str
    answer: str


def hop_questions(texts: Sequence[str], count: int, *, seed: int = 1) -> list[HopQuestion]:
    """Return questions over two and three facts, the same for the same facts."""
    known = _relations(texts)
    asked = []
    for subject in sorted(known):
        for phrase, value in known[subject].items():
            for second, answer in known.get(value, {}).items():
                # The spouse of a spouse is nobody new.
                if answer == subject or second == phrase:
                    continue
                through = second.format(subject=phrase.format(subject=subject))
                asked.append(HopQuestion(f"What is {through}?", answer))
                asked += [
                    HopQuestion(f"What is {third.format(subject=through)}?", last)
                    for third, last in known.get(answer, {}).items()
                    if last not in {subject, value} and third != second
                ]
    random.Random(seed).shuffle(asked)
    return asked[:count]


def _relations(texts: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return by subject what is said of it: a phrase that asks for it, and the latest value."""
    known: dict[str, dict[str, str]] = {}
    for text in texts:
        for pattern, phrase in _RELATIONS:
            found = re.fullmatch(pattern, text)
            if found is None:
                continue
            asked = phrase.replace("{relation}", found[1])
            known.setdefault(found["s"], {})[asked] = found["v"]
            break
    return known
