"""Where sentences end, in several languages."""

import pytest

from treering.rules.fact_sentences import sentences


@pytest.mark.parametrize(
    "sentence",
    [
        "Mein Geburtstag ist am 3. Mai.",
        "Wir wohnen im 2. Stock links.",
        "Ich mag Obst, z. B. Birnen und z.B. Äpfel.",
        "Das kostet ca. 20 Euro bzw. 25 Franken.",
        "Herr Dr. Huber kommt um 8 Uhr.",
        "Vive en la Avda. Libertad con la Sra. Ruiz.",
        "Me gustan las frutas, p.ej. las peras.",
        "Je connais M. Dupont et Mme. Martin.",
        "O Sr. Silva mora na Av. Brasil.",
        "I like books by George R. R. Martin, e.g. the first.",
        "Syntymäpäivä on 3. toukokuuta.",
    ],
)
def test_abbreviations_and_ordinals_end_no_sentence(sentence: str) -> None:
    assert list(sentences(sentence)) == [sentence]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("I have 3. Then I bought more.", ["I have 3.", "Then I bought more."]),
        ("i like it. then i left.", ["i like it.", "then i left."]),
        ("So did I. We left.", ["So did I.", "We left."]),
        ("Really?! Yes… No.", ["Really?!", "Yes…", "No."]),
        ("One line\nand another", ["One line", "and another"]),
        ("Ich habe 3. Das reicht.", ["Ich habe 3.", "Das reicht."]),
        ("", []),
    ],
)
def test_sentences_end_where_they_end(text: str, parts: list[str]) -> None:
    assert list(sentences(text)) == parts
