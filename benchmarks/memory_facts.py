"""Facts about many people, made up and always the same, and questions that one of them answers."""

import random
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Final

import msgspec

import treering
from treering.derive.fact_rows import hashed
from treering.derive.memory_state import FactPayload
from treering.memory.events import fact_event
from treering.model.memories import CONFIDENCE_DEFAULT, IMPORTANCE_DEFAULT, NewFact
from treering.model.scopes import parse_scope
from treering.rules.claim_words import statement_of
from treering.rules.claims import claim_key, read_claim
from treering.rules.fact_categories import category_of
from workload import SEED, START_MS

USER: Final = "ada"
BATCH: Final = 5_000
_FIRST: Final = (
    "Ada Bruno Carla Dario Edda Felix Greta Hugo Irma Jonas Kira Lars Mira Nils Olga Pavel Quirin"
    " Rosa Sven Tilda Ugo Vera Willem Xenia Yara Zeno Alma Boris Celia Dora Emil Flora Gregor Hanna"
    " Ivo Judith Karel Lena Milan Nora Otto Petra Ralf Sonja Theo Ulla Viktor Wanda Yves Zita"
)
_LAST: Final = "bar fen gol hart kel lund mor nev pol ras tol ves"
_SHAPES: Final = (
    ("{} plays the {} in a band from {}", "Which instrument does {} play?"),
    ("{} keeps a {} on a farm near {}", "Which animal does {} keep?"),
    ("{} collects old {} from {}", "What does {} collect?"),
    ("{} teaches {} at the evening school of {}", "What subject does {} teach?"),
    ("{} drinks {} before the train to {} leaves", "What does {} like to drink?"),
    ("{} repairs {} in a workshop behind the station of {}", "What is repaired by {}?"),
)
_THINGS: Final = (
    "violin trumpet cello flute drum harp accordion guitar",
    "goat donkey parrot falcon tortoise sheep llama peacock",
    "stamps coins maps postcards keys lanterns teapots radios",
    "chemistry history pottery Spanish geometry sewing astronomy law",
    "espresso cider lemonade cocoa buttermilk ginger-ale chai absinthe",
    "bicycles clocks typewriters engines umbrellas organs cameras printers",
)
_TOWNS: Final = (
    "Ghent Turku Graz Lugo Varna Siena Bergen Brno Cork Tartu Namur Pula Zadar Evora Trier Lund"
)


class Asked(msgspec.Struct, frozen=True):
    """A question, and the fact that answers it."""

    question: str
    text: str


def texts(count: int) -> list[str]:
    """Return ``count`` facts, no two the same: a few about each person."""
    return [text for text, _ in islice(_sayings(), count)]


def questions(count: int, of: int) -> list[Asked]:
    """Return questions that are answered by some of the first facts."""
    sayings = list(islice(_sayings(), of))
    chosen = random.Random(SEED).choices(sayings, k=count)
    return [Asked(question, text) for text, question in chosen]


def new_facts(said: Sequence[str]) -> list[NewFact]:
    """Return facts of one user, as they are learnt."""
    return [NewFact(text=text, user=USER) for text in said]


def record(ledger: treering.Ledger, scope: str, said: Sequence[str]) -> None:
    """Record facts as learning would, but for comparing each with all before it."""
    for at in range(0, len(said), BATCH):
        ledger.append([
            fact_event(
                parse_scope(scope),
                "memory.stored",
                _content(f"fact-{number}", text),
                session=None,
                user=USER,
            )
            for number, text in enumerate(said[at : at + BATCH], at)
        ])  # fmt: skip


def _content(fact_id: str, text: str) -> FactPayload:
    key = claim_key(read_claim(text))
    return FactPayload(
        id=fact_id,
        text=text,
        category=category_of(text),
        importance=IMPORTANCE_DEFAULT,
        confidence=CONFIDENCE_DEFAULT,
        statement=hashed(statement_of(text)),
        slot=None if key is None else hashed(key),
        valid_from_ms=START_MS,
    )


def _sayings() -> Iterator[tuple[str, str]]:
    """Return facts, each with its question; each person has one of each shape."""
    dice = random.Random(SEED)
    names = [
        f"{first} {''.join(parts).capitalize()}"
        for first, parts in product(_FIRST.split(), product(_LAST.split(), repeat=3))
    ]
    dice.shuffle(names)
    for name in names:
        for (shape, question), things in zip(_SHAPES, _THINGS, strict=True):
            thing, town = dice.choice(things.split()), dice.choice(_TOWNS.split())
            yield shape.format(name, thing, town), question.format(name)
