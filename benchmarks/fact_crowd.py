"""A set of facts made larger: others of the same forms about made-up subjects, strewn among them.

A third of those change later. Their values are those of the set and other made-up subjects, so
that the same names, sports and cities stand everywhere, and facts lead from one to the next.
"""

import random
from itertools import product
from typing import Final

import msgspec

from evaluation_sets import FactQuestion, Facts

CHANGED_SHARE: Final = 0.35
QUESTIONS: Final = 100
_FIRST: Final = (
    "Anneke Bastien Cosima Dragan Eliza Fyodor Gudrun Hakan Ilse Jarek Kalina Leopold Marisol"
    " Nikolai Odette Pascal Quentin Rosalind Stefan Tamsin Ulrich Valeria Wolfgang Ximena Yusuf"
    " Zelda Arvid Beatriz Casimir Delphine"
)
_LAST: Final = (
    "Aben Bran Castel Drum Erik Fonta Grigo Hall Lind Nov Petra Szab",
    "roth kovic land mond sen igue rescu strom qvist otny kis omir",
)
_WORK: Final = (
    "Silent Golden Broken Distant Hidden Burning Frozen Crimson Hollow Restless Midnight Paper",
    "River Garden Mirror Harbour Kingdom Orchard Lantern Mountain Letter Voyage Sparrow Bridge",
)
_FIRM: Final = (
    "Arden Belmont Corvus Daleth Everglen Fairmont Granite Helix Ironwood Juniper Kelvin Lumen",
    "Industries Holdings Institute Records Athletic Rovers Society Broadcasting Laboratories Works",
)
_FORMS: Final = (
    # A form, its question, whose subject it is, and what its value is.
    (
        "{} was born in the city of {}.",
        "Which city was {} born in?",
        "person",
        "was born in the city of ",
    ),
    (
        "{} is a citizen of {}.",
        "What is the country of citizenship of {}?",
        "person",
        "is a citizen of ",
    ),
    ("{} is married to {}.", "Who is {} married to?", "asked spouse", "other spouse"),
    (
        "{} is associated with the sport of {}.",
        "Which sport is {} associated with?",
        "firm",
        "is associated with the sport of ",
    ),
    ("{} is employed by {}.", "Who is {} employed by?", "person", "firm"),
    ("{} was founded by {}.", "Who founded {}?", "firm", "person"),
    ("The author of {} is {}.", "Who is the author of {}?", "work", "person"),
    (
        "The chief executive officer of {} is {}.",
        "Who is the chief executive officer of {}?",
        "firm",
        "person",
    ),
    ("The director of {} is {}.", "Who is the director of {}?", "firm", "person"),
    ("{} was performed by {}.", "Who performed {}?", "work", "person"),
    (
        "{} died in the city of {}.",
        "Which city did {} die in?",
        "person",
        "died in the city of ",
    ),
    (
        "{} is affiliated with the religion of {}.",
        "Which religion is {} affiliated with?",
        "person",
        "is affiliated with the religion of ",
    ),
)


class MadeFact(msgspec.Struct, frozen=True):
    """One made-up fact: which form, about whom, and what it says."""

    form: int
    subject: str
    value: str

    @property
    def text(self) -> str:
        """Return it as a sentence."""
        return _FORMS[self.form][0].format(self.subject, self.value)


def crowded(known: Facts, count: int, *, seed: int = 1) -> Facts:
    """Return a set with ``count`` facts, the first of them those of ``known`` in their order."""
    dice = random.Random(seed)
    names = _names()
    values = {name: list(listed) for name, listed in names.items()}
    for _, _, _, wanted in _FORMS:
        if wanted not in names:
            values[wanted] = sorted({
                text.partition(wanted)[2].rstrip(".") for text in known.texts if wanted in text
            })  # fmt: skip
    slots = [
        (form, subject) for form, (_, _, kind, _) in enumerate(_FORMS) for subject in names[kind]
    ]
    wanted_new = count - len(known.texts)
    changed = round(wanted_new * CHANGED_SHARE / (1 + CHANGED_SHARE))
    chosen = dice.sample(slots, wanted_new - changed)
    made = [_made(form, subject, values, dice) for form, subject in chosen]
    later: list[MadeFact] = []
    for old in dice.sample(made, changed):
        new = old
        while new.value == old.value:
            new = _made(old.form, old.subject, values, dice)
        later.append(new)
    return _strewn(known, made, later, dice)


def _strewn(
    known: Facts, made: list[MadeFact], later: list[MadeFact], dice: random.Random
) -> Facts:
    """Join all facts: what changes comes after what it changes, the set's own in their order."""
    others = [*(one.text for one in made), *(one.text for one in later)]
    everywhere = range(len(known.texts) + len(others))
    places = set(dice.sample(everywhere, len(known.texts)))
    own, other = iter(known.texts), iter(others)
    texts = [next(own) if place in places else next(other) for place in everywhere]
    last = {(one.form, one.subject): one for one in [*made, *later]}
    asked = dice.sample(sorted(last), QUESTIONS)
    questions = [
        FactQuestion(_FORMS[form][1].format(subject), (last[form, subject].value,))
        for form, subject in asked
    ]
    gone = {(one.form, one.subject) for one in later}
    outdated = {one.text for one in made if (one.form, one.subject) in gone}
    return Facts(
        f"{known.name}, made larger",
        texts,
        [*known.questions, *questions],
        known.outdated | frozenset(outdated - {one.text for one in last.values()}),
    )


def _made(form: int, subject: str, values: dict[str, list[str]], dice: random.Random) -> MadeFact:
    listed = values[_FORMS[form][3]]
    value = subject
    while value == subject:
        value = dice.choice(listed)
    return MadeFact(form, subject, value)


def _names() -> dict[str, list[str]]:
    surnames = ["".join(parts) for parts in product(*(part.split() for part in _LAST))]
    people = [f"{first} {last}" for first, last in product(_FIRST.split(), surnames)]
    works = [f"The {first} {last}" for first, last in product(*(part.split() for part in _WORK))]
    firms = [f"{first} {last}" for first, last in product(*(part.split() for part in _FIRM))]
    # Who is married to whom must not depend on the side from which it is asked.
    spouses = {"asked spouse": people[::2], "other spouse": people[1::2]}
    return {"person": people, "work": works, "firm": firms, **spouses}
