import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import secrets_corpus
from treering.capture.secrets import SecretGuard, SecretMatch

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

GUARD = SecretGuard(key=b"test", personal=True)
SECRETS_ONLY = SecretGuard(key=b"test")

pieces = st.one_of(
    st.text(max_size=6),
    st.text("0123456789+-. ()@", max_size=14),
    st.sampled_from(["bob@example.com", "(555) 234-5678", "+1 555 234 5678", "phone: ", "tel "]),
    st.sampled_from(
        ["password=x+ ", "token=a1b2c3d4e5f6(", "https://u:", "415-555-2671", " ", ":"]
    ),
    st.sampled_from(
        ["git@github.com:org/repo", "2026-03-05T10:11:12Z", "[redacted:email:0cd9cde6]"]
    ),
)
busy_texts = st.lists(pieces, max_size=8).map("".join)


def test_every_address_and_number_of_the_corpus_is_found() -> None:
    missed = [
        line
        for line, detail in secrets_corpus.personal_positives()
        if not secrets_corpus.covered(
            [(finding.start, finding.end) for finding in GUARD.find_text(line)], line, detail
        )
    ]

    assert missed == []


def test_nothing_else_of_the_corpus_is_taken_for_personal() -> None:
    taken = [
        line
        for line in secrets_corpus.personal_negatives()
        if any(finding.rule in ("email", "phone") for finding in GUARD.find_text(line))
    ]

    assert taken == []


def test_personal_details_are_left_alone_unless_asked_for() -> None:
    lines = [line for line, _ in secrets_corpus.personal_positives()]

    assert [line for line in lines if SECRETS_ONLY.find_text(line)] == []


@pytest.mark.parametrize(
    ("text", "rule", "detail"),
    [
        ("mail me a@b.co", "email", "a@b.co"),
        ("Bob <bob.smith+x@mail.example.org>", "email", "bob.smith+x@mail.example.org"),
        ("call (555) 234-5678 now", "phone", "(555) 234-5678"),
        ("+49 151 23456789", "phone", "+49 151 23456789"),
        ("ratio 415.555.2671 measured", "phone", "415.555.2671"),
        ("(415-555-2671)", "phone", "415-555-2671"),
        ("tel:+15552345678", "phone", "+15552345678"),
        ('"phone":"5552345678"', "phone", "5552345678"),
    ],
)
def test_only_the_detail_itself_is_found(text: str, rule: str, detail: str) -> None:
    start = text.index(detail)

    assert GUARD.find_text(text) == [SecretMatch(rule, start, start + len(detail))]


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-05",
        "2026-03-05T10:11:12.123Z",
        "1700000000000",
        "123456789",
        "550e8400-e29b-41d4-a716-446655440000",
        "v1.2.3 and 10.20.30",
        "192.168.100.1:8080",
        "9f86d081884c7d659a2feaa0c55ad015",
        "git@github.com:org/repo.git",
        "left-pad@1.3.0 and @scope/pkg@2.0.0",
        "user@host",
        "main.py:120:34",
        "1048576 bytes",
        "555-1234",
        "range(200-300-4000)",
        "x + 512-256-1024",
        "https://user:pass@example.com/path",
        "https://bob:****@example.com",
    ],
)
def test_digits_and_at_signs_of_other_things_are_left_alone(text: str) -> None:
    assert GUARD.mask_text(text) is text


def test_a_phone_is_known_by_the_name_of_its_field() -> None:
    assert GUARD.find_value({"phone": "5552345678"}) == "phone"
    assert GUARD.find_value({"count": "5552345678"}) is None


@unhurried
@given(busy_texts)
def test_masking_twice_is_masking_once(text: str) -> None:
    once = GUARD.mask_text(text)

    assert GUARD.mask_text(once) == once


@unhurried
@given(st.dictionaries(st.sampled_from(["phone", "mobile", "note"]), busy_texts))
def test_what_is_not_suspicious_holds_no_personal_detail(value: dict[str, str]) -> None:
    if not GUARD.suspicious(msgspec.json.encode(value)):
        assert GUARD.find_value(dict(value)) is None
