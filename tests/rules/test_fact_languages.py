"""Facts that people state in German, Spanish, French and Portuguese, and in no other language."""

from __future__ import annotations

import pytest

import treering
from builders import exchange
from treering.rules.claim_relations import relation
from treering.rules.claims import read_claim
from treering.rules.fact_extraction import Utterance, extract_facts
from treering.rules.fact_languages import foreign_attributes, foreign_statements


def learned(text: str) -> list[str]:
    said = Utterance(event_id="e1", role="user", text=text, ts_ms=0)
    return [one.text for one in extract_facts([said])]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Ich heiße Jana und arbeite als Lehrerin.", ["Heißt Jana", "Arbeitet als Lehrerin"]),
        ("Ich bin letzte Woche nach Köln gezogen.", ["Wohnt in Köln"]),
        ("Ich bin allergisch gegen Nüsse.", ["Ist allergisch gegen Nüsse"]),
        ("Antworte immer auf Deutsch.", ["Antworte immer auf Deutsch"]),
        ("Mein Geburtstag ist am 3. Mai. Ich wohne in Bern.",
         ["Hat am 3. Mai Geburtstag", "Wohnt in Bern"]),
        ("Vivo en Jaén y trabajo como enfermera.", ["Vive en Jaén", "Trabaja como enfermera"]),
        ("No me gusta el cilantro.", ["No le gusta el cilantro"]),
        ("Je m'appelle Luc et j'habite à Lyon.", ["S'appelle Luc", "Habite à Lyon"]),
        ("J\u2019adore le vélo.", ["Aime le vélo"]),
        ("Je suis allergique aux noix.", ["Est allergique aux noix"]),
        ("Eu moro em Lisboa e tenho dois gatos.", ["Mora em Lisboa", "Tem dois gatos"]),
        ("Meu nome é Rui.", ["Chama-se Rui"]),
        ("Wir benutzen pnpm, nicht npm.", ["Verwendet pnpm"]),
        ("Verwende pnpm statt npm.", ["Verwende pnpm statt npm"]),
        ("Benutze immer Typannotationen.", ["Benutze immer Typannotationen"]),
        ("Mein Hund heißt Bello.", ["Hund heißt Bello"]),
        ("Usamos pnpm en este proyecto.", ["Utiliza pnpm en este proyecto"]),
        ("No uses tabuladores.", ["No uses tabuladores"]),
        ("Usa pnpm en lugar de npm.", ["Usa pnpm en lugar de npm"]),
        ("Nous utilisons pnpm.", ["Utilise pnpm"]),
        ("Utilise pnpm au lieu de npm.", ["Utilise pnpm au lieu de npm"]),
        ("Use pnpm em vez de npm.", ["Use pnpm em vez de npm"]),
        ("O meu cão chama-se Bobi.", ["Cão chama-se Bobi"]),
    ],
)  # fmt: skip
def test_a_statement_is_noted_in_its_own_language(text: str, facts: list[str]) -> None:
    assert learned(text) == facts


@pytest.mark.parametrize(
    "text",
    [
        "Ich mag nicht mehr.",
        "Ich habe keine Zeit.",
        "Ich wohne hier.",
        "Wo wohne ich?",
        "Vivo con miedo.",
        "Tengo que irme.",
        "Je suis en train de tester.",
        "J'ai une question.",
        "Tenho pressa.",
        "Eu acho que sim.",
        "Asun Turussa.",
        "Wir benutzen es schon.",
        "Verwende jetzt diese Datei statt der alten.",
        "Usa esto en lugar de eso.",
        "No uses of this function remain.",
        "Utilise ça au lieu de l'autre.",
    ],
)
def test_what_says_nothing_lasting_is_left_out(text: str) -> None:
    assert learned(text) == []


@pytest.mark.parametrize(
    ("said", "question", "answer"),
    [
        (
            ("Ich wohne in Berlin.", "Ich bin nach Hamburg gezogen."),
            "Wo wohne ich?",
            "Wohnt in Hamburg",
        ),
        (
            ("J'habite à Lyon.", "J'ai déménagé à Nantes."),
            "Où est-ce que j'habite ?",
            "Habite à Nantes",
        ),
        (("Vivo en Madrid.", "Me mudé a Vigo."), "¿Dónde vivo?", "Vive en Vigo"),
        (("Moro em Lisboa.", "Me mudei para Braga."), "Onde moro?", "Mora em Braga"),
    ],
)
def test_a_change_supersedes_and_a_question_in_the_language_finds_it(
    said: tuple[str, ...], question: str, answer: str
) -> None:
    with treering.open(":memory:") as ledger:
        session = ledger.session("monday", scope="a/b", agent="lyria", user="jo")
        for text in said:
            exchange(session, text, "ok")
        memory = ledger.memory("a/b")
        memory.extract()

        hits = memory.recall(question, user="jo", record=False).fact_hits

        assert [hit.fact.text for hit in hits] == [answer]


def test_the_same_attribute_holds_across_languages() -> None:
    assert read_claim("Wohnt in Bern").attribute == read_claim("Lives in Bern").attribute


@pytest.mark.parametrize("question", ["What kind of answer?", "Any chat this morning?", "Name it"])
def test_an_english_question_is_not_read_as_another_language(question: str) -> None:
    assert not any(foreign_attributes(question).values())


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ("Ich wohne seit drei Jahren in Münster", ["Wohnt in Münster"]),
        (
            "Ich arbeite als Koch bei der Charité",
            ["Arbeitet als Koch", "Arbeitet bei der Charité"],
        ),
        (
            "Je travaille chez Société Générale comme comptable",
            ["Travaille comme comptable", "Travaille chez Société Générale"],
        ),
        ("Agora trabalho no hospital São Lucas", ["Trabalha em hospital São Lucas"]),
        ("J'ai déménagé à Nîmes le mois dernier", ["Habite à Nîmes"]),
        ("Vivo en Málaga con mi pareja", ["Vive en Málaga"]),
        ("Unser Projekt läuft auf PostgreSQL", ["Projekt verwendet PostgreSQL"]),
        ("Ya no soy alérgico a los kiwis", ["Ya no tiene alergia a kiwis"]),
    ],
)
def test_what_changes_by_itself_is_noted_by_itself(said: str, noted: list[str]) -> None:
    assert [one.text for one in foreign_statements(said)] == noted


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Ist nicht allergisch gegen Nüsse", "Ist allergisch gegen Nüsse"),
        ("Ne travaille plus chez Orange", "Travaille chez Orange"),
        ("Ya no vive en Cádiz", "Vive en Cádiz"),
        ("Cor favorita é o amarelo", "Cor favorita é o azul"),
        ("Utilise Python 3.13 pour le serveur", "Utilise Python 3.12 pour le serveur"),
    ],
)
def test_what_is_no_longer_so_ends_what_was(new: str, old: str) -> None:
    assert relation(new, old, 0.0) == "contradicts"


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Ne travaille plus chez Orange", "Travaille chez Free"),
        ("Cor favorita é o amarelo", "Comida favorita é o arroz"),
        ("Utilise Python 3.13", "Utilise Django 5"),
        ("Ist nicht allergisch gegen Nüsse", "Ist allergisch gegen Milch"),
    ],
)
def test_what_is_no_longer_so_ends_nothing_else(new: str, old: str) -> None:
    assert relation(new, old, 0.0) == "unrelated"
