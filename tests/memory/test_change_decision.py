"""Changes that no rule knows are decided by fitted signs: at most the fact that fits best ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import treering
from treering.embedders.static import StaticEmbedder
from treering.errors import NotFound, Unavailable
from treering.memory import NewFact
from treering.memory.alignment import Aligner
from treering.memory.change_decision import (
    DISPUTED,
    FEW,
    MODEL_COMPARED_MAX,
    MODEL_REASON,
    REASONS,
    SUREST,
    ChangeJudge,
    fitted_weights,
)
from treering.memory.change_features import ChangeReader, is_english, phrases_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from treering.derive.fact_rows import FactRow


@pytest.fixture(scope="module")
def judge() -> ChangeJudge:
    return ChangeJudge(Aligner(StaticEmbedder()))


def is_ended(*facts: str) -> list[bool]:
    """Learn facts in order; return for each whether it is superseded in the end."""
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        ids = [memory.learn(text, user="jo").fact_id for text in facts]
        return [memory.fact(fact_id).state == "superseded" for fact_id in ids]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Uncle Bob is recovering in hospital.", "Uncle Bob was discharged and is back home."),
        ("Anna and Felix are engaged.", "Anna and Felix got married on Saturday."),
        ("I share a flat with my friend Igor.", "Igor moved out, so I have the place to myself."),
        ("Frontend state is handled with Redux.", "We ripped out Redux and use Zustand."),
        ("Based in Manchester", "Relocated to Leeds"),
        # What a statement is not about may be exchanged, and so may a colleague.
        ("I work the morning shift.", "I was moved to the evening shift."),
        ("My desk is in the front room.", "I moved my desk to the back room."),
        # Without any word of change.
        ("I use Chrome", "Firefox is my browser"),
        ("The stand-up is at 9:15", "Stand-up: 9:30"),
        ("Wifi password: bluebird", "The wifi password is tigerlily"),
    ],
)
def test_a_change_in_words_that_no_rule_knows_ends_what_it_changes(old: str, new: str) -> None:
    assert is_ended(old, new) == [True, False]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Ben uses Slack", "I switched from Slack to Teams"),
        ("I work at Bosch.", "My wife left Siemens and works at SAP now."),
        ("Lives in Oslo", "Grew up in Bergen"),
        ("Piano lesson on Wednesdays at 17:00", "Missed the piano lesson last Wednesday"),
        ("I live in Chicago.", "We might move to Denver next year."),
        ("The app supports iOS.", "The app now supports Android as well."),
        ("Her friend Judith makes pottery", "Her friend Judith moved to Rotterdam last spring"),
        ("Ben works at Acme.", "Ben sold his motorbike."),
        ("The server runs on port 80", "I stopped the server"),
        ("The shop opens at nine", "The shop closes at six"),
        ("Write tests for new endpoints.", "Write docs for new endpoints."),
        ("Maria plays the cello.", "Maria makes pottery in a shared studio."),
        ("I use Chrome", "My wife's browser is Firefox"),
        ("The meeting with Ann is on Tuesday", "The meeting with legal is on Wednesday"),
        # Another thing or person of the same name, a rumour, and the same with its beginning.
        ("Our front door is painted red.", "We painted our back door white."),
        ("Our upstairs bathroom has a tub.", "We ripped the tub out of the downstairs bathroom."),
        ("My friend Astrid is gluten-free.", "My friend Joao eats gluten again."),
        ("My parents live in Tenerife.", "My wife's parents have just moved to the Algarve."),
        (
            "Karin Holm is our mayor.",
            "There is a rumour that Karin Holm will not run for mayor again.",
        ),
        ("My friend Tomas plays the drums.", "Tomas has played the drums since he was nine."),
        ("Uncle Bob plays the violin.", "Uncle Bob was discharged and is back home."),
        ("Uncle Bob is recovering in hospital.", "Uncle Bob lives with his sister."),
        ("The NAS has 32 GB", "The NAS was moved to rack 4"),
    ],
)
def test_what_is_no_change_or_of_something_else_ends_nothing(old: str, new: str) -> None:
    assert is_ended(old, new) == [False, False]


def test_only_the_fact_that_fits_best_ends() -> None:
    texts = (
        "Uncle Bob plays the violin.",
        "Uncle Bob is recovering in hospital.",
        "Uncle Bob lives with his sister.",
        "Uncle Bob was discharged and is back home.",
    )

    assert is_ended(*texts) == [False, True, False, False]


def test_a_change_within_a_batch_ends_a_fact_before_it() -> None:
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        first, second = memory.learn_all(
            [
                NewFact(text="Anna and Felix are engaged."),
                NewFact(text="Anna and Felix got married on Saturday."),
            ]
        )

    assert second.superseded == (first.fact_id,)


def test_what_is_told_of_earlier_times_ends_nothing() -> None:
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        later = memory.learn("Anna and Felix are engaged.", valid_from_ms=2_000)
        earlier = memory.learn("Anna and Felix got married on Saturday.", valid_from_ms=1_000)
        states = [memory.fact(one.fact_id).state for one in (later, earlier)]

    assert states == ["current", "current"]


def test_facts_with_vectors_of_a_model_are_judged_by_single_words_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TREERING_EMBEDDER")  # The model is installed, so facts have its vectors.

    assert is_ended("Phone: iPhone 12", "Switched to a Pixel 8") == [True, False]


def test_more_is_needed_among_many(judge: ChangeJudge) -> None:
    text = "Uncle Bob was discharged and is back home."
    earlier = {"ill": "Uncle Bob is recovering in hospital."}

    few, many = (judge.changed(text, earlier, known=known) for known in (1, 10**6))

    assert few is not None
    assert few.key == "ill"
    assert few.is_certain
    assert many is None


def test_what_decided_is_recorded_with_the_change() -> None:
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        first = memory.learn("Uncle Bob is recovering in hospital.")
        learned = memory.learn("Uncle Bob was discharged and is back home.")
        last = memory.history(first.fact_id)[-1]

    assert learned.signs
    assert last.signs == learned.signs
    assert set(last.signs) <= REASONS.keys()


@pytest.fixture
def doubtful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treering.memory.change_decision.ONE_FROM", 50.0)
    monkeypatch.setattr("treering.memory.change_decision.DOUBT", 100.0)


@pytest.mark.usefixtures("doubtful")
@pytest.mark.parametrize(("ended", "state"), [(True, "superseded"), (False, "current")])
def test_a_doubtful_change_waits_for_a_decision(ended: bool, state: str) -> None:  # noqa: FBT001
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        first = memory.learn("Uncle Bob is recovering in hospital.")
        second = memory.learn("Uncle Bob was discharged and is back home.")
        (doubt,) = memory.doubts()
        before = memory.fact(first.fact_id).state
        settled = memory.settle(second.fact_id, ended=ended)
        left = memory.doubts()

    assert second.may_end == first.fact_id
    assert (doubt.fact.id, doubt.earlier.id) == (second.fact_id, first.fact_id)
    assert before == "current"
    assert (settled.id, settled.state) == (first.fact_id, state)
    assert left == []


@pytest.mark.usefixtures("doubtful")
@pytest.mark.parametrize("overtaken_at", ["doubts", "_named"])
@pytest.mark.parametrize("first", [True, False])
def test_of_two_who_decide_at_once_only_the_first_does(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: bool,  # noqa: FBT001
    overtaken_at: str,
) -> None:
    with treering.open(tmp_path / "a.db") as one, treering.open(tmp_path / "a.db") as two:
        memory, other = one.memory("a/b"), two.memory("a/b")
        earlier = memory.learn("Uncle Bob is recovering in hospital.").fact_id
        fact = memory.learn("Uncle Bob was discharged and is back home.").fact_id
        looked = getattr(memory, overtaken_at)

        def overtaken(*asked: object) -> object:
            found = looked(*asked)
            assert other.settle(fact, ended=first).id == earlier
            return found

        with monkeypatch.context() as patch:
            patch.setattr(memory, overtaken_at, overtaken)
            with pytest.raises(NotFound, match="nothing to decide"):
                memory.settle(fact, ended=not first)

        assert memory.doubts() == other.doubts() == []
        assert memory.fact(earlier).state == ("superseded" if first else "current")
        assert len(memory.history(earlier)) + len(memory.history(fact)) == 3


@pytest.mark.usefixtures("doubtful")
def test_two_who_decide_the_same_at_once_both_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with treering.open(tmp_path / "a.db") as one, treering.open(tmp_path / "a.db") as two:
        memory, other = one.memory("a/b"), two.memory("a/b")
        earlier = memory.learn("Uncle Bob is recovering in hospital.").fact_id
        fact = memory.learn("Uncle Bob was discharged and is back home.").fact_id
        named = memory._named

        def overtaken(fact_id: str, states: set[str]) -> FactRow:
            row = named(fact_id, states)
            other.settle(fact, ended=True)
            return row

        monkeypatch.setattr(memory, "_named", overtaken)
        assert memory.settle(fact, ended=True).state == "superseded"
        assert len(memory.history(earlier)) == 2


@pytest.mark.usefixtures("doubtful")
def test_a_decision_that_was_erased_can_be_made_again() -> None:
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        earlier = memory.learn("Uncle Bob is recovering in hospital.").fact_id
        fact = memory.learn("Uncle Bob was discharged and is back home.").fact_id
        for _ in range(2):
            memory.settle(fact, ended=False)
            ledger.redact("a/b", event_id=memory.history(fact)[-1].event_id)
            assert len(memory.doubts()) == 1

        assert memory.settle(fact, ended=True).id == earlier
        assert memory.fact(earlier).state == "superseded"


@pytest.mark.usefixtures("doubtful")
def test_nothing_is_left_to_decide_about_a_fact_that_will_have_ended() -> None:
    later_ms = 4_000_000_000_000
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        memory.learn("Uncle Bob is recovering in hospital.")
        fact = memory.learn(
            "Uncle Bob was discharged and is back home.", valid_from_ms=later_ms
        ).fact_id

        assert memory.settle(fact, ended=True).state == "current"
        assert memory.doubts() == []


@pytest.mark.usefixtures("doubtful")
def test_a_doubt_survives_a_rebuild_of_the_memory(tmp_path: Path) -> None:
    with treering.open(tmp_path / "a.db") as ledger:
        memory = ledger.memory("a/b")
        memory.learn("Uncle Bob is recovering in hospital.")
        memory.learn("Uncle Bob was discharged and is back home.")
        before = memory.doubts()
    with treering.open(tmp_path / "a.db") as ledger:
        after = ledger.memory("a/b").doubts()

    assert len(before) == 1
    assert [(one.fact.id, one.earlier.id, one.signs) for one in after] == [
        (one.fact.id, one.earlier.id, one.signs) for one in before
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The school has a chess club", "The kids changed schools"),
        ("I paid the rent", "My rent went up"),
    ],
)
def test_what_has_another_value_ends_nothing_else_about_it(old: str, new: str) -> None:
    assert is_ended(old, new) == [False, False]


@pytest.mark.parametrize("whose", ["My godson", "My classmate", "Her boss", "My niece"])
def test_what_the_user_changes_leaves_other_people_alone(whose: str) -> None:
    assert is_ended(f"{whose} helps at the food bank", "I switched banks") == [False, False]


def test_every_sign_has_a_weight() -> None:
    reader = ChangeReader(Aligner(StaticEmbedder()))

    signs = reader.signs("I sold the car.", "I drive a car.")

    assert signs is not None
    assert signs.keys() == {name for name in fitted_weights() if not name.startswith('"')}


@pytest.mark.parametrize(
    "text",
    ["Hij is nu met Anna getrouwd", "Ich wohne so gern hier", "a" * 500, ""],
)
def test_what_cannot_be_read_is_not_compared(judge: ChangeJudge, text: str) -> None:
    assert judge.near_from(text, known=1) is None


def test_among_many_only_what_speaks_of_a_change_is_compared(judge: ChangeJudge) -> None:
    few, many = (judge.near_from("I live in Ghent", known=known) for known in (1, FEW + 1))

    assert few is not None
    assert many is None
    assert judge.near_from("I moved to Ghent", known=FEW + 1) is not None


def test_people_are_told_of_signs_that_are_read() -> None:
    named = [name for names in REASONS.values() for name in names]

    assert set(named) <= fitted_weights().keys()
    assert len(named) == len(set(named))


@pytest.mark.parametrize("score", [None, 9.0])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I work at Bosch", "I'm not going to leave Bosch"),
        ("I work at Bosch", 'I told Anna "never leave Bosch"'),
        ("I work at Bosch", "There is talk of Bosch closing the plant"),
        ("Tim is the team lead", "Tim was not replaced as team lead"),
        ("The keys are with Otto", "Otto didn't hand over the keys"),
        ("We use Jenkins for CI", "We never migrated CI to GitHub Actions"),
        ("The cache TTL is 60 seconds", "Don't bump the cache TTL to 300 seconds"),
        ("The bike shop is on Main Street", "The sign said the bike shop moved to Elm Street"),
        ("Grandma lives alone", "Grandma refuses to move into a care home"),
        ("The invoice 4411 is unpaid", "They promised to pay invoice 4411"),
        ("The default branch is master", 'The ticket says "default branch renamed to main"'),
    ],
)
def test_what_is_quoted_denied_or_planned_ends_nothing_whatever_a_model_says(
    old: str, new: str, score: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if score is not None:
        monkeypatch.setattr(ChangeJudge, "_odds", lambda _, __, olds: ([score] * len(olds), ()))
    with treering.open(":memory:") as ledger:
        memory = ledger.memory("a/b")
        memory.learn(old, user="jo")
        learned = memory.learn(new, user="jo")
        assert (learned.superseded, learned.may_end) == ((), None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Rides a Vespa", "Sold my Vespa and never looked back"),
        ("I have a parrot", "I sold the parrot because I never slept"),
        ("The product ships in May", "The product was cancelled and won't be released."),
        ("Uses Windows at work", "Never liked it, so I switched from Windows to a Mac"),
        ("I want to become a pilot", "I no longer want to become a pilot."),
    ],
)
def test_what_is_denied_beside_a_change_leaves_it_one(old: str, new: str) -> None:
    assert is_ended(old, new) == [True, False]


class Model:
    """Takes whatever names the same thing for a change, however it is said."""

    words = StaticEmbedder()

    def __init__(self) -> None:
        self.read: list[tuple[str, str]] = []

    def change_scores(self, new: str, earlier: Sequence[str]) -> list[float]:
        self.read += [(new, old) for old in earlier]
        return [9.0 if "editor" in old else -9.0 for old in earlier]


class AbsentModel(Model):
    """Cannot be asked."""

    def change_scores(self, new: str, earlier: Sequence[str]) -> list[float]:
        raise Unavailable(f"cannot read {new} and {len(earlier)} others")


def test_a_model_decides_where_there_is_one_and_says_so() -> None:
    judge = ChangeJudge(Aligner(StaticEmbedder()), Model())

    earlier = {"a": "Has a dog", "b": "My editor is Vim"}
    verdict = judge.changed("My editor is Helix", earlier, known=2)

    assert verdict is not None
    assert (verdict.key, verdict.is_certain) == ("b", True)
    assert verdict.signs[0] == MODEL_REASON


@pytest.mark.parametrize("model", [Model(), AbsentModel(), None])
def test_a_rule_is_disputed_only_by_what_can_be_read(model: Model | None) -> None:
    judge = ChangeJudge(Aligner(StaticEmbedder()), model)

    assert judge.disputes("My sister stopped being vegan", "I am vegan")
    assert not judge.disputes("I gave up my editor", "My editor is Vim")
    assert not judge.disputes("Meine Schwester ist keine Veganerin mehr", "Ich bin vegan")
    # Who has died or parted is for the rules to know.
    assert not judge.disputes("Bob and I broke up", "My boyfriend is called Bob")


def test_phrases_hide_what_the_earlier_statement_names() -> None:
    phrases = phrases_of("My colleague moved 20 notes from Vim to Helix", "I use Vim")

    assert phrases >= {'"^ my"', '"colleague moved"', '"9 notes"', '"from §"', '"to N"', '"N $"'}


@pytest.mark.parametrize(
    ("first", "second", "are_both"),
    [
        ("The team uses Slack.", "The design team dropped Slack.", True),
        ("Monthly budget for groceries: 400", "Monthly budget for clothes changed to 120", True),
        ("Helena smokes a pack a day.", "Helena gave up smoking.", False),
        # One attribute of one subject: the rules are certain.
        ("I live in Lisbon", "I live in Porto", False),
    ],
)
def test_what_a_rule_mistakes_for_a_change_waits_for_a_decision(
    first: str,
    second: str,
    are_both: bool,  # noqa: FBT001
) -> None:
    with treering.open(":memory:", embedder="minilm") as ledger:
        memory = ledger.memory("a/b")
        earlier = memory.learn(first)
        later = memory.learn(second)
        doubts = memory.doubts()

    assert later.superseded == (() if are_both else (earlier.fact_id,))
    assert [(each.earlier.id, each.signs) for each in doubts] == (
        [(earlier.fact_id, DISPUTED)] if are_both else []
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("I always fly with KLM", "My boss moved from KLM to Lufthansa"),
        ("Our cloud provider is AWS", "Our biggest customer switched from AWS to Azure"),
        ("I drive a Golf.", "I wouldn't mind trading the Golf for a Skoda."),
    ],
)
def test_signs_dispute_what_a_rule_mistakes_for_a_change(first: str, second: str) -> None:
    assert is_ended(first, second) == [False, False]


def test_what_is_told_of_earlier_times_is_not_said_to_end_what_came_later() -> None:
    with treering.open(":memory:", embedder="minilm") as ledger:
        memory = ledger.memory("a/b")
        later = memory.learn("The team uses Slack.", valid_from_ms=2_000)
        earlier = memory.learn("The design team dropped Slack.", valid_from_ms=1_000)
        doubts = memory.doubts()
        state = memory.fact(later.fact_id).state

    assert (earlier.may_end, doubts, state) == (None, [], "current")


def test_a_model_reads_only_the_nearest() -> None:
    model = Model()
    judge = ChangeJudge(Aligner(StaticEmbedder()), model)

    judge.changed("Likes it here", {str(at): f"Fact {at}" for at in range(9)}, known=9)

    assert [old for _, old in model.read] == [f"Fact {at}" for at in range(MODEL_COMPARED_MAX)]


class Network(StaticEmbedder):
    """Remembers what it was asked, and is sure of every change."""

    def __init__(self) -> None:
        self.read: list[tuple[str, str]] = []

    def change_scores(self, new: str, earlier: Sequence[str]) -> list[float]:
        self.read += [(new, old) for old in earlier]
        return [SUREST + 9.0] * len(earlier)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Nora lives in Oslo", "I moved to Oslo"),
        ("My cousin plays chess", "I sold my piano"),
        ("My uncle keeps bees", "We sold our bikes"),
    ],
)
def test_where_signs_speak_against_a_change_the_network_ends_nothing(old: str, new: str) -> None:
    network = Network()

    assert ChangeJudge(Aligner(network)).changed(new, {"a": old}, known=1) is None
    assert not network.read


def test_among_many_the_network_is_asked_only_where_it_matters() -> None:
    few, many = Network(), Network()
    asked = "We replaced Redux.", {"a": "Frontend state is handled with Redux."}

    ChangeJudge(Aligner(few)).changed(*asked, known=1)
    ChangeJudge(Aligner(many)).changed(*asked, known=10**9)

    assert few.read
    assert not many.read


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("I sold the car because I never used it", "I sold the car"),
        ("I sold the car, because of the noise.", "I sold the car"),
        ("Because of the noise I sold the car", "Because of the noise I sold the car"),
        ("I sold the car", "I sold the car"),
    ],
)
def test_the_network_does_not_read_why_something_was_done(said: str, read: str) -> None:
    network = Network()

    ChangeJudge(Aligner(network)).changed(said, {"a": "I drive a car"}, known=1)

    assert network.read == [(read, "I drive a car")]


def test_where_a_model_cannot_be_asked_signs_decide() -> None:
    judge, by_signs = (
        ChangeJudge(Aligner(StaticEmbedder()), model) for model in (AbsentModel(), None)
    )
    asked = "I sold the car.", {"a": "I drive a car."}

    verdict = judge.changed(*asked, known=1)

    assert verdict is not None
    assert verdict == by_signs.changed(*asked, known=1)


@pytest.mark.parametrize(
    "text", ["Moved from Los Angeles to El Paso", "Left the UN", "Flight on Mon at 9 EST"]
)
def test_names_and_abbreviations_are_no_other_language(text: str) -> None:
    assert is_english(text)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("The director of Union Bank is Ada", "The director of Corvex Labs is Otto"),
        ("Jazz was created in America", "Ada plays jazz"),
        ("Collects stamps of country 2", "Collects stamps of country 1"),
        ("My order 4412 is pending", "My order 4411 is pending"),
    ],
)
def test_without_a_word_of_change_a_model_reads_nothing_about_others(new: str, old: str) -> None:
    model = Model()

    ChangeJudge(Aligner(StaticEmbedder()), model).changed(new, {"a": old}, known=1)

    assert not model.read


@pytest.mark.parametrize(
    "text",
    ["Ich wohne in Bern", "Vivo en Lima", "Nous habitons dans le nord", "住在东京", "a" * 500],
)
def test_a_model_reads_no_other_language_and_nothing_long(text: str) -> None:
    model = Model()
    judge = ChangeJudge(Aligner(StaticEmbedder()), model)

    assert judge.near_from(text, known=1) is None
    judge.changed(text, {"a": "My editor is Vim"}, known=1)
    judge.changed("Helix is open all day", {"a": text[:400]}, known=1)

    assert all("a" * 400 in pair for pair in model.read)
