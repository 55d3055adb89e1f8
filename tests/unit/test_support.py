"""The check of an answer's sentences: what it tells apart, and how often it errs on sentences written by hand."""

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from freki.operators.support import Statement, doubt_of, has_figures
from freki.schemas.answer import Doubt
from freki.streams.statement import statement

QUALITY = Path(__file__).parents[1] / "quality"
LANGUAGES = {"verwaltung-de": "de", "manual-en": "en"}
# As docs/serve.md says it: held-out sentences, wrongly doubted or wrongly passed.
ERRORS = {
    "close": (0, 10),
    "free": (3, 10),
    "figure": (1, 10),
    "invented": (2, 10),
    "elsewhere": (2, 40),
    "opposite": (2, 10),
    "somebody else": (9, 10),
}
KINDS = dict(zip("cfnixo", ("close", "free", "figure", "invented", "opposite", "somebody else"), strict=True))
SAID = {"close", "free"}


def doubt(sentence: str, *sources: str, language: str = "de") -> Doubt | None:
    return doubt_of(
        statement(sentence, language), [statement(source, language) for source in sources], language=language
    )


def sources() -> dict[str, tuple[str, Statement]]:
    found = {}
    for name, language in LANGUAGES.items():
        for line in (QUALITY / "sets" / name / "corpus.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found[row["_id"]] = language, statement(f"{row['title']}\n{row['text']}", language)
    return found


def test_the_check_errs_on_sentences_it_was_not_made_on_as_often_as_the_documentation_says() -> None:
    documents = sources()
    sentences = yaml.safe_load((QUALITY / "answers" / "sentences.yaml").read_text(encoding="utf-8"))["held-out"]
    wrong, all_of = Counter[str](), Counter[str]()

    def count(kind: str, document: str, sentence: str) -> None:
        language, source = documents[document]
        doubted = doubt_of(statement(sentence, language), [source], language=language) is not None
        wrong[kind] += doubted == (kind in SAID)
        all_of[kind] += 1

    for document, cases in sentences.items():
        for kind, sentence in cases.items():
            count(KINDS[kind], document, sentence)
        for other, theirs in sentences.items():
            if other != document and documents[other][0] == documents[document][0]:
                count("elsewhere", document, theirs["c"])

    assert {kind: (wrong[kind], all_of[kind]) for kind in all_of} == ERRORS


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("Die Frist beträgt drei Monate.", None),
        ("Die Frist beträgt 3 Monate.", None),
        ("Die Frist beträgt vier Monate.", Doubt.FIGURE),
        ("Die Frist beträgt nicht drei Monate.", Doubt.NEGATION),
        ("Hunde müssen an der Leine geführt werden.", Doubt.WORDS),
        ("Der Preis liegt bei 1.200,50 Euro.", None),
        ("Der Preis liegt bei 1200.50 Euro.", None),
        ("Der Preis liegt bei 1.200,05 Euro.", Doubt.FIGURE),
    ],
)
def test_figures_words_and_negations_must_agree(sentence: str, found: Doubt | None) -> None:
    assert doubt(sentence, "Die Frist beträgt drei Monate. Der Preis liegt bei 1.200,50 Euro.") == found


def test_sources_support_a_sentence_together() -> None:
    both = "Die Frist beträgt drei Monate und die Gebühr beträgt zehn Euro."
    assert doubt(both, "Die Frist beträgt drei Monate.") is Doubt.FIGURE
    assert doubt(both, "Die Frist beträgt drei Monate.", "Die Gebühr beträgt zehn Euro.") is None


def test_nothing_supports_without_a_source() -> None:
    assert doubt("Das ist so.") is Doubt.WORDS


def test_each_ten_is_a_figure_in_words() -> None:
    tens = {
        20: ("zwanzig", "twenty"),
        30: ("dreißig", "thirty"),
        40: ("vierzig", "forty"),
        50: ("fünfzig", "fifty"),
        60: ("sechzig", "sixty"),
        70: ("siebzig", "seventy"),
        80: ("achtzig", "eighty"),
        90: ("neunzig", "ninety"),
        100: ("hundert", "hundred"),
    }
    for figure, words in tens.items():
        assert all(has_figures(f"{figure} days", [f"{word} days"]) for word in words), figure
        assert not any(has_figures(f"{word} days", ["some days"]) for word in words), figure
